"""Verdicts are those that the measure counts."""

from pathlib import Path

import numpy as np
import pytest

from sim2cam.dataset.sample import Dataset, ObjectLabel, Sample
from sim2cam.measure.detection import Detection, count_errors
from sim2cam.report.verdicts import judge


def random_box(rng):
    x, y = rng.integers(0, 40, 2)
    return float(x), float(y), float(x + rng.integers(5, 40)), float(y + rng.integers(5, 40))


@pytest.mark.parametrize("seed", range(40))
def test_counts_agree_with_the_measure(seed):
    rng = np.random.default_rng(seed)
    objects = tuple(
        ObjectLabel(str(rng.choice(["a", "b"])), random_box(rng), 1.0, is_crowd=rng.random() < 0.2)
        for _ in range(rng.integers(0, 8))
    )
    detections = [
        Detection(str(rng.choice(["a", "b"])), random_box(rng), float(rng.random()))
        for _ in range(rng.integers(0, 12))
    ]
    detections += [
        Detection(str(rng.choice(["a", "b"])), o.box_xyxy, float(rng.random()))
        for o in objects[::2]
    ]
    sample = Sample("s", Path("s.jpg"), 90, 90, objects, "real")
    (errors,) = count_errors(Dataset(Path(), ("a", "b"), (sample,)), {"s": detections})
    kinds = [v.kind for v in judge(objects, detections)]
    assert {kind: kinds.count(kind) for kind in ("right", "wrong category", "missed", "false")} == {
        "right": errors.right,
        "wrong category": errors.wrong_category,
        "missed": errors.missed,
        "false": errors.false,
    }


def test_verdicts_say_what_is_there_and_what_was_found(label):
    box, far, other = (0.0, 0.0, 10.0, 10.0), (40.0, 40.0, 50.0, 50.0), (60.0, 0.0, 70.0, 9.0)
    objects = (label("a", box), label("b", far))
    found = [Detection("b", box, 0.9), Detection("a", other, 0.8), Detection("b", far, 0.3)]
    wrong, false, missed = judge(objects, found)
    assert (wrong.kind, wrong.found, wrong.truth, wrong.score) == ("wrong category", "b", "a", 0.9)
    assert (false.kind, false.found, false.truth) == ("false", "a", None)
    assert (missed.kind, missed.found, missed.truth, missed.box_xyxy) == ("missed", None, "b", far)
    assert judge((), ()) == ()
