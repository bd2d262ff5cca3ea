"""The error against sums by hand, planted gaps, and how often its interval holds."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sim2cam.data.sample import Dataset, ObjectLabel, Sample
from sim2cam.metrics.calibration import (
    N_BINS,
    ScoredDetections,
    collect_scored_detections,
    measure_calibration,
)
from sim2cam.metrics.detection import Detection
from sim2cam.metrics.resampling import make_image_units

BOX = (10.0, 10.0, 30.0, 30.0)
AWAY = (60.0, 60.0, 80.0, 80.0)


def rng():
    return np.random.default_rng(0)


def confidences(scores, right, images=None):
    images = np.arange(len(scores)) if images is None else np.asarray(images)
    names = np.full(len(scores), "a")
    return ScoredDetections(
        np.asarray(scores, np.float64), np.asarray(right, np.bool_), names, images,
        make_image_units(images.max() + 1),
    )  # fmt: skip


def sample(name, *labels):
    objects = tuple(ObjectLabel(c, b, 1.0, is_crowd=crowd) for c, b, crowd in labels)
    return Sample(name, Path(f"{name}.png"), 100, 100, objects, "real")


def test_the_error_is_that_of_a_sum_by_hand():
    scores = [0.32, 0.38, 0.44, 0.5, 0.56, 0.65, 0.7, 0.75, 0.85, 0.95] * 2
    right = [0, 0, 0, 1, 0, 1, 1, 1, 1, 1, 0, 0, 1, 0, 1, 0, 1, 1, 0, 1]
    found = measure_calibration(confidences(scores, right), rng())
    precision = [0, 0, 0.5, 0.5, 0.5, 0.5, 1, 1, 0.5, 1]  # of pairs of equal scores
    gaps = [0.32, 0.38, 0.06, 0.0, 0.06, 0.15, 0.3, 0.25, 0.35, 0.05]
    assert found.ece.value == pytest.approx(sum(gaps) / 10)
    assert [b.precision for b in found.bins] == precision
    assert [b.confidence for b in found.bins] == pytest.approx(scores[:10])
    assert [b.n_detections for b in found.bins] == [2] * 10


def test_bins_hold_equally_many_however_scores_lie():
    scores = np.concatenate([np.linspace(0.31, 0.32, 95), np.linspace(0.9, 0.99, 8)])
    found = measure_calibration(confidences(scores, scores > 0.5), rng())
    assert len(found.bins) == N_BINS
    assert {b.n_detections for b in found.bins} == {10, 11}
    few = measure_calibration(confidences([0.4, 0.7, 0.9], [0, 1, 1]), rng())
    assert [b.n_detections for b in few.bins] == [1, 1, 1]
    assert few.ece.value == pytest.approx((0.4 + 0.3 + 0.1) / 3)


def test_unsure_detections_are_not_looked_at():
    sure = confidences([0.3, 0.7, 0.9], [0, 1, 1])
    more = confidences([0.3, 0.7, 0.9, 0.29, 0.1], [0, 1, 1, 1, 1])
    assert measure_calibration(more, rng()).bins == measure_calibration(sure, rng()).bins
    assert measure_calibration(confidences([0.2, 0.1], [0, 1]), rng()) is None


def test_a_planted_gap_is_found_and_covered():
    draw = np.random.default_rng(1)
    scores = draw.uniform(0.5, 0.9, 4000)
    right = draw.random(4000) < scores - 0.2
    found = measure_calibration(confidences(scores, right, np.arange(4000) // 10), rng())
    assert found.ece.value == pytest.approx(0.2, abs=0.02)
    assert found.chance_ece < 0.04
    assert 0.15 < found.ece.ci95[0] < 0.2 < found.ece.ci95[1]


def simulated(gap, n=100):
    """Errors of 400 detections of 40 images each, of which the true one is the gap."""
    draw = np.random.default_rng(2)
    for _ in range(n):
        scores = draw.uniform(0.35, 0.9, 400)
        right = draw.random(400) < scores - gap
        yield measure_calibration(confidences(scores, right, np.arange(400) // 10), draw)


def test_the_interval_holds_a_true_error_about_as_often_as_it_says():
    found = list(simulated(0.15))
    assert all(low <= f.ece.value <= high for f in found for low, high in [f.ece.ci95])
    assert np.mean([f.ece.ci95[0] <= 0.15 <= f.ece.ci95[1] for f in found]) >= 0.8
    assert np.mean([f.ece.value > f.chance_ece for f in found]) == 1


def test_calibrated_confidences_stay_below_chance_as_often_as_it_says():
    share = np.mean([found.ece.value <= found.chance_ece for found in simulated(0.0)])
    assert 0.89 <= share <= 0.99


def test_images_that_are_all_right_or_all_wrong_tell_less():
    scores = np.full(400, 0.6)
    right = np.arange(400) % 10 < 5
    mixed = measure_calibration(confidences(scores, right, np.arange(400) // 10), rng()).ece.ci95
    images = np.argsort(np.argsort(~right, kind="stable"), kind="stable") // 10
    clustered = measure_calibration(confidences(scores, right, images), rng()).ece.ci95
    assert clustered[1] - clustered[0] > 2 * (mixed[1] - mixed[0])


def test_what_is_no_probability_has_no_calibration():
    assert measure_calibration(confidences([0.2, 1.3], [0, 1]), rng()) is None
    assert measure_calibration(confidences([-0.1, 0.3], [0, 1]), rng()) is None
    nothing = replace(
        confidences([0.5], [1]), scores=np.array([]), is_true_positive=np.array([], np.bool_)
    )
    assert measure_calibration(nothing, rng()) is None


def test_right_is_what_lies_on_an_object_of_its_category_once():
    samples = sample("one", ("a", BOX, False), ("b", AWAY, True)), sample("two")
    dataset = Dataset(Path("set"), ("a", "b"), samples)
    near = (12.0, 10.0, 32.0, 30.0)  # an IoU of 0.82
    half = (20.0, 10.0, 40.0, 30.0)  # of 0.33
    detections = (
        Detection("a", near, 0.9),
        Detection("a", BOX, 0.8),  # the object is taken
        Detection("b", BOX, 0.7),  # another category
        Detection("a", half, 0.6),
        Detection("b", AWAY, 0.5),  # a group: neither right nor wrong
    )
    found = collect_scored_detections(
        dataset, {"one": detections, "two": (Detection("b", BOX, 0.4),)}
    )
    columns = found.scores, found.is_true_positive, found.categories, found.image_indices
    assert sorted(zip(*columns, strict=True)) == [
        (0.4, False, "b", 1), (0.6, False, "a", 0), (0.7, False, "b", 0), (0.8, False, "a", 0),
        (0.9, True, "a", 0),
    ]  # fmt: skip
    assert found.units.n_images == 2


def test_json_holds_the_error_and_its_bins():
    found = measure_calibration(confidences([0.375, 0.75], [0, 1]), rng()).to_json()
    assert found["ece"]["value"] == 0.3125
    assert found["bins"] == [[0.375, 0.0, 1], [0.75, 1.0, 1]]
    assert found["chance_ece"] > 0.3
