"""Choosing a transfer: planted ones come out in the order of what they do."""

import numpy as np
import pytest

from sim2cam.adapt.transfers.selection import TransferScore, TransferSelection, select_transfer
from sim2cam.adapt.translation import NO_VERIFIERS
from sim2cam.errors import UsageError


class Planted:
    def __init__(self, warmth, shift=0):
        self.warmth, self.shift = warmth, shift

    def apply(self, frame, rng):
        warm = frame.rgb + self.warmth * (np.array([170, 140, 100]) - 85) * 0.6
        warm += rng.normal(0, 8 * self.warmth, warm.shape)
        return np.roll(warm, self.shift, axis=1).round().clip(0, 255).astype(np.uint8)


def chosen(transfers, sim, captures):
    return select_transfer(transfers, sim, captures, "style", verification=NO_VERIFIERS, seed=0)


def test_the_nearest_is_chosen_and_what_moves_labels_is_not(many_sim, many_real):
    transfers = {
        "style": Planted(0.0),
        "mkl": Planted(1.0),
        "fourier": Planted(0.5),
        "sliced": Planted(1.0, shift=4),
    }
    found = chosen(transfers, many_sim.take(14), many_real.samples)
    distances = {one.method: one.distance for one in found.scores}
    assert found.method == "mkl"
    assert distances["mkl"] < distances["fourier"] < distances["style"]
    assert [(t.method, t.accepted) for t in found.scores if t.distance is None] == [("sliced", 0)]
    assert (found.capture_count, found.render_count) == (len(many_real.samples), 14)


def test_what_keeps_few_labels_in_place_is_not_chosen_however_near(many_sim, many_real):
    class Moody(Planted):
        def apply(self, frame, rng):
            self.shift = 4 if rng.random() < self.share else 0
            return super().apply(frame, rng)

    near, far = Moody(1.0), Planted(0.2)
    for near.share, best in ((0.3, "mkl"), (0.6, "style")):
        found = chosen({"mkl": near, "style": far}, many_sim.take(30), many_real.samples)
        assert 10 <= found.scores[0].accepted < 30
        assert found.method == best


def test_order_is_of_no_account_and_few_captures_tell_nothing(many_sim, many_real):
    ways = {"mkl": Planted(0.4), "reinhard": Planted(0.9)}
    back = dict(reversed(ways.items()))
    sim, captures = many_sim.take(12), many_real.samples
    assert chosen(ways, sim, captures).method == chosen(back, sim, captures).method == "reinhard"
    with pytest.raises(UsageError, match="sets of 9 and 12 images are too small"):
        chosen(ways, sim, captures[:9])


def test_the_choice_is_said_in_words():
    tried = (
        TransferScore("mkl", 38, 1.25),
        TransferScore("style", 40, 0.5),
        TransferScore("sliced", 2, None),
    )
    assert TransferSelection("development", 20, 40, tried).describe() == (
        "The best transfer is style: its translations of 40 renders are nearest to the 20 development images. "
        "Distances: mkl 1.250, style 0.500. No labels were used."
    )
    none = TransferSelection("style", 20, 12, tried[2:])
    assert none.method is None
    assert none.describe() == (
        "no transfer is selected: for none, half of 12 translated renders and at least 10 keep the limits of the "
        "certificate"
    )
