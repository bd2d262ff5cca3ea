import numpy as np
import pytest
import torch

from sim2cam.adapt.training.candidates import CheckpointSelector
from sim2cam.adapt.training.checkpoint_selection import CandidateScores, split_held_out
from sim2cam.adapt.training.diagnostics import diagnose_training
from sim2cam.adapt.translation import NO_VERIFIERS
from sim2cam.adapt.translator.discriminator import PatchDiscriminator, initialise_discriminator
from sim2cam.adapt.translator.losses import discriminator_hinge_loss
from sim2cam.data.sample import Dataset, Sample
from sim2cam.files import write_bytes
from sim2cam.images import encode_png, read_rgb

UNDECIDED = "discriminator", 2.0
HEALTHY = [{"mean_change": 0.05, "discriminator": 1.2}] * 5

UNCHANGED = (
    "the output hardly differs from the input: by 0.5 of 255 levels on average. Train again with more --steps, and check "
    "that --real is not --sim."
)
WON = (
    "the discriminator has won: its loss is 5% of that of one which cannot tell, so it teaches nothing "
    "any more. It may tell by what is shown, not by how it looks: render what the captures show."
)
MEMORIZES = (
    "the discriminator memorizes: it tells captures that it was trained on from those kept aside (area "
    "under the ROC curve 0.90, p 0.001). Add captures, or train for fewer steps."
)


def candidate(auc, p_value):
    return CandidateScores(100, 10, (), 1.0, auc, p_value)


@pytest.mark.parametrize(
    ("recent", "last", "said"),
    [
        (HEALTHY, None, []),
        (HEALTHY, candidate(0.6, 0.2), []),
        (HEALTHY, candidate(0.9, 0.02), []),  # of few captures that may be chance
        (HEALTHY, candidate(0.7, 0.001), []),  # sure, but little
        (HEALTHY, candidate(0.9, 0.001), [MEMORIZES]),
        ([HEALTHY[0] | {"mean_change": 0.5 / 255}], None, [UNCHANGED]),
        ([HEALTHY[0] | {"mean_change": m / 255} for m in (0.5, 1.7)], None, []),
        ([HEALTHY[0] | {"discriminator": 0.1}], None, [WON]),
        (
            [{"mean_change": 0.5 / 255, "discriminator": 0.1}],
            candidate(0.9, 0.001),
            [UNCHANGED, WON, MEMORIZES],
        ),
    ],
)
def test_symptoms_are_told_by_their_numbers(recent, last, said):
    assert list(diagnose_training(recent, last, UNDECIDED)) == said


def test_an_undecided_discriminator_is_another_number_for_other_losses():
    recent = [{"mean_change": 0.05, "discriminator_real": 0.1}]
    assert list(diagnose_training(recent, None, ("discriminator_real", 0.25))) == []
    assert "5%" in next(iter(diagnose_training(recent, None, ("discriminator_real", 2.0))))


class Trained:
    """A discriminator that was shown the same captures and renders again and again."""

    def __init__(self, parts, steps):
        self.network = PatchDiscriminator(16)
        initialise_discriminator(self.network, torch.Generator().manual_seed(0))
        optimiser = torch.optim.Adam(self.network.parameters(), 3e-3)
        sides = [_stacked(side) for side in (parts.real, parts.sim)]
        for _ in range(steps):
            loss = discriminator_hinge_loss(*([self.network(side)] for side in sides))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        self.network.eval()

    def build_transfer(self):
        return self

    def apply(self, frame, _rng):
        return frame.rgb

    @torch.inference_mode()
    def score_realness(self, rgb):
        return float(self.network(_tensor(rgb)[None]).mean())


def _tensor(rgb):
    return torch.tensor(rgb).permute(2, 0, 1) / 255.0


def _stacked(dataset):
    return torch.stack([_tensor(read_rgb(s.rgb))[:, :64, :64] for s in dataset.samples])


@pytest.fixture(scope="module")
def patterns(tmp_path_factory):
    """Renders and captures of one kind: each a pattern of its own, and nothing else to tell."""
    root, rng = tmp_path_factory.mktemp("patterns"), np.random.default_rng(0)
    sides = []
    for count in (40, 30):
        samples = []
        for number in range(count):
            path = root / f"{count} {number}.png"
            tile = rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)
            write_bytes(path, encode_png(np.tile(tile, (9, 9, 1))))
            samples.append(Sample(str(number), path, 72, 72, None, "real"))
        sides.append(Dataset(root, (), tuple(samples)))
    return sides


def test_few_captures_are_learned_by_heart(patterns):
    said = {steps: _said(patterns, steps) for steps in (0, 60)}
    assert said[0] == []
    assert len(said[60]) == 1
    assert said[60][0].startswith("the discriminator memorizes")


def test_what_all_captures_share_is_no_memory(many_sim, many_real):
    assert _said((many_sim, many_real), 60) == []


def _said(sides, steps):
    parts = split_held_out(
        *sides, steps=3000, pixels=65536, log_interval_steps=10, verifier_count=0
    )
    judged = CheckpointSelector(parts, NO_VERIFIERS, 0).evaluate(steps, Trained(parts, steps))
    return list(diagnose_training(HEALTHY, judged, UNDECIDED))
