import threading
import time

import numpy as np
import pytest

from sim2cam.images import encode_png, write_bytes
from sim2cam.models.batches import BatchMaker, made_ahead
from sim2cam.models.crops import CropRules

RULES = CropRules(crop_px=64)


def maker(parts, *, seed=0, batch=3, photometric=True):
    return BatchMaker(
        parts,
        ("square", "disc"),
        RULES,
        batch=batch,
        photometric=photometric,
        seed=seed,
        cache_bytes=1 << 24,
    )


def test_a_step_depends_on_seed_and_number_alone(make_dataset):
    parts = ((make_dataset("a"), 1.0), (make_dataset("b", seed=1), 2.0))
    in_order, alone = maker(parts), maker(parts)
    batches = [in_order.make(step) for step in range(4)]
    lone = alone.make(3)
    assert np.array_equal(batches[3].rgb, lone.rgb)
    for name, value in vars(batches[3].targets).items():
        assert np.array_equal(value, getattr(lone.targets, name)), name
    assert not np.array_equal(batches[0].rgb, batches[1].rgb)
    assert not np.array_equal(maker(parts, seed=1).make(3).rgb, lone.rgb)


def test_weights_are_shares_of_crops(make_dataset):
    bright, dark = make_dataset("bright", n=1), make_dataset("dark", n=1)
    for data, grey in ((bright, 255), (dark, 0)):
        flat = np.full((128, 160, 3), grey, np.uint8)
        write_bytes(data.samples[0].rgb, encode_png(flat))
    made = maker(((bright, 3.0), (dark, 1.0)), batch=400, photometric=False).make(0)
    share = (made.rgb.reshape(400, -1).mean(axis=1) > 200).mean()
    assert share == pytest.approx(0.75, abs=0.06)


def test_ahead_is_in_order_whichever_is_ready_first():
    running, most = set(), []

    def make(step):
        running.add(step)
        most.append(len(running))
        time.sleep(0.02 if step % 2 else 0.0)
        running.discard(step)
        return step, threading.get_ident()

    made = list(made_ahead(make, range(3, 20), 3))
    assert [step for step, _ in made] == list(range(3, 20))
    assert len({thread for _, thread in made}) > 1
    assert max(most) <= 3
    assert list(made_ahead(make, range(5, 5), 2)) == []


def test_an_error_ahead_is_raised_when_its_step_comes():
    def make(step):
        if step == 2:
            raise ValueError("step 2")
        return step

    made = made_ahead(make, range(5), 2)
    assert [next(made), next(made)] == [0, 1]
    with pytest.raises(ValueError, match="step 2"):
        next(made)
