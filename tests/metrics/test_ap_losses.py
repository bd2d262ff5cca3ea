"""The share of AP50 that each kind of error costs, by hand and by TIDE's properties."""

from pathlib import Path

import numpy as np
import pytest

from sim2cam.data.sample import Dataset, ObjectLabel, Sample
from sim2cam.metrics.ap_losses import ErrorOracle, compute_ap_losses
from sim2cam.metrics.detection import Detection, evaluate_detections
from sim2cam.metrics.error_analysis import ERROR_KINDS, classify_detections


def label(category, box, is_crowd=False):
    return ObjectLabel(category, box, 1.0, is_crowd=is_crowd)


def make_dataset(*images):
    samples = (
        Sample(f"{n}", Path(f"{n}.jpg"), 200, 100, tuple(objects), "real")
        for n, objects in enumerate(images)
    )
    return Dataset(Path(), ("a", "b"), tuple(samples))


def place(number, width=10.0):
    return 20.0 * number, 0.0, 20.0 * number + width, 10.0


def test_losses_by_hand():
    dataset = make_dataset([*(label("a", place(n)) for n in range(4)), label("b", place(6))])
    detections = (
        Detection("a", place(9), 0.99),  # background
        Detection("a", place(0), 0.9),  # true positive
        Detection("a", place(0, 9.0), 0.8),  # duplicate
        Detection("a", place(1, 4.0), 0.7),  # localisation, IoU 0.4
        Detection("b", place(2), 0.6),  # confusion
        Detection("b", place(2, 4.0), 0.5),  # both, IoU 0.4
        Detection("b", place(6), 0.4),  # true positive
    )
    kinds = [o.kind for o in classify_detections(dataset.samples[0].objects, detections, 0)]
    assert kinds == [
        "background", "true positive", "duplicate", "localisation", "confusion", "both",
        "true positive", "missed",
    ]  # fmt: skip
    losses = compute_ap_losses(dataset, {"0": detections})
    # 101 recall levels: recall 0.25 covers 26, 0.5 covers 51, 1/3 covers 34 of them.
    # a: false, true, false, false of 4 objects; b: false, false, true of 1 object.
    before_a, before_b = 26 / 101 * 1 / 2, 1 / 3
    assert losses.ap50 == pytest.approx((before_a + before_b) / 2)
    after = {
        "confusion": ((26 / 2 + 25 * 2 / 5) / 101, 1 / 2),
        "localisation": ((26 / 2 + 25 * 2 / 4) / 101, before_b),
        "both": (before_a, 1 / 2),
        "duplicate": (before_a, before_b),
        "background": (26 / 101, before_b),
        "missed": (34 / 101 * 1 / 2, before_b),
    }
    assert losses.losses == {
        kind: pytest.approx((a + b) / 2 - losses.ap50, abs=1e-9) for kind, (a, b) in after.items()
    }


def random_scene(rng):
    def box():
        x, y = rng.integers(0, 60, 2)
        return float(x), float(y), float(x + rng.integers(5, 40)), float(y + rng.integers(5, 40))

    def category():
        return str(rng.choice(["a", "b"]))

    def shift(box):
        return tuple(float(v) for v in np.array(box) + rng.integers(-4, 5, 4) * [1, 1, 1, 1])

    images = [
        [label(category(), box(), bool(rng.random() < 0.15)) for _ in range(rng.integers(1, 6))]
        for _ in range(6)
    ]
    images[0] += [label("a", box()), label("b", box())]
    dataset = make_dataset(*images)
    predictions = {
        s.name: [
            Detection(category(), b, float(rng.random()))
            for b in [box(), *(shift(o.box_xyxy) for o in s.objects for _ in range(2))]
            if b[2] > b[0] and b[3] > b[1]
        ]
        for s in dataset.samples
    }
    return dataset, predictions


@pytest.mark.parametrize("seed", range(10))
def test_properties_of_the_paper(seed):
    dataset, predictions = random_scene(np.random.default_rng(seed))
    oracle = ErrorOracle(dataset, predictions)
    score = evaluate_detections(dataset, predictions, rng=np.random.default_rng(0), n_resamples=2)
    assert oracle.compute_ap50(()) == pytest.approx(score.ap50.value)
    assert oracle.compute_ap50(ERROR_KINDS) == pytest.approx(1)
    losses = compute_ap_losses(dataset, predictions).losses
    assert list(losses) == list(ERROR_KINDS)
    assert all(0 <= loss <= 1 - score.ap50.value + 1e-9 for loss in losses.values())


def test_perfect_detections_lose_nothing():
    dataset, _ = random_scene(np.random.default_rng(0))
    perfect = {
        s.name: [Detection(o.category, o.box_xyxy, 0.9) for o in s.objects] for s in dataset.samples
    }
    losses = compute_ap_losses(dataset, perfect)
    assert losses.ap50 == 1
    assert set(losses.losses.values()) == {0.0}


def test_nothing_detected_is_missed():
    dataset = make_dataset([label("a", place(0))])
    assert compute_ap_losses(dataset, {"0": ()}).losses["missed"] == 1
