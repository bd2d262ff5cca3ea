"""What is drawn again: which units there are, and how often intervals over them hold the truth."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from sim2cam.data.sample import Dataset, ObjectLabel, Sample
from sim2cam.metrics.bootstrap import bootstrap_estimate, sample_bootstrap_counts
from sim2cam.metrics.detection import Detection, evaluate_detections
from sim2cam.metrics.resampling import MIN_UNITS, group_images, make_group_units, make_image_units

FEW = " (fewer than 10: intervals are too narrow and p-values too low)"


@dataclass(frozen=True)
class Photo:
    scene_index: int = 0
    session: str | None = None


def in_sessions(number, each):
    return [Photo(session=f"day {i}") for i in range(number) for _ in range(each)]


@pytest.mark.parametrize(
    ("photos", "words"),
    [
        ([Photo()] * 30, "30 images"),
        ([Photo(scene_index=i) for i in range(30)], "30 images"),
        ([Photo(scene_index=i // 3) for i in range(30)], "10 scenes of 30 images"),
        ([Photo(scene_index=i // 4) for i in range(30)], "30 images"),
        (in_sessions(10, 2), "10 sessions of 20 images"),
        (
            in_sessions(9, 2),
            "18 images, without variation between sessions (9 sessions, fewer than 10)",
        ),
        (in_sessions(9, 1), f"9 images{FEW}"),
        (in_sessions(2, 3), f"6 images{FEW}"),
        (in_sessions(10, 1), "10 images"),
    ],
)
def test_sessions_or_scenes_are_drawn_where_they_are_enough(photos, words):
    assert group_images(photos).describe() == words


def test_photos_of_a_session_come_and_go_together():
    photos = in_sessions(MIN_UNITS, 3)
    mixed = [photos[i] for i in np.random.default_rng(0).permutation(len(photos))]
    drawn = group_images(mixed).sample_image_counts(200, np.random.default_rng(1))
    columns = {}
    for photo, column in zip(mixed, drawn.T, strict=True):
        assert (columns.setdefault(photo.session, column) == column).all()
    together = np.stack(list(columns.values()))
    assert (together.sum(axis=0) == MIN_UNITS).all()
    assert together.max() > 1


def test_single_images_are_drawn_as_ever():
    drawn = make_image_units(7).sample_image_counts(50, np.random.default_rng(0))
    assert np.array_equal(drawn, sample_bootstrap_counts(7, 50, np.random.default_rng(0)))


def test_intervals_over_sessions_hold_the_truth_where_those_over_images_do_not():
    number = 20
    units = make_group_units("sessions", [i for i in range(number) for _ in range(8)])
    images = make_image_units(8 * number)
    rng = np.random.default_rng(3)
    hits = {"sessions": 0, "images": 0}
    for _ in range(200):
        values = rng.normal(0, 1, number)[units.unit_indices] + rng.normal(0, 1, 8 * number)
        for one in (units, images):
            means = one.sample_image_counts(150, rng) @ values / len(values)
            low, high = bootstrap_estimate(float(values.mean()), means).ci95
            hits[one.kind] += low <= 0 <= high
    assert hits["sessions"] / 200 > 0.88
    assert hits["images"] / 200 < 0.75


def found_and_missed(rng):
    """Images of two objects each, of which some are found, some beside; no score comes twice."""
    samples, predictions = [], {}
    for number in range(12):
        boxes = [(float(x), 10.0, float(x) + 20, 30.0) for x in rng.integers(0, 40, 2)]
        labels = tuple(ObjectLabel(str(rng.choice(["a", "b"])), box, 1.0) for box in boxes)
        samples.append(Sample(f"i{number}", Path("x.jpg"), 100, 100, labels, "real"))
        predictions[f"i{number}"] = tuple(
            Detection(o.category, tuple(v + rng.integers(0, 6) for v in o.box_xyxy), rng.random())
            for o in labels
        )
    return Dataset(Path("set"), ("a", "b"), tuple(samples)), predictions


def test_copies_in_one_session_make_nothing_surer():
    dataset, predictions = found_and_missed(np.random.default_rng(4))
    copies = [
        replace(sample, name=f"{sample.name} {i}", session=sample.name)
        for sample in dataset.samples
        for i in range(3)
    ]
    again = {copy.name: predictions[copy.session] for copy in copies}
    thrice = replace(dataset, samples=tuple(copies))
    alone = replace(thrice, samples=tuple(replace(copy, session=None) for copy in copies))
    once, together, apart = (
        evaluate_detections(of, found, rng=np.random.default_rng(5), n_resamples=100)
        for of, found in ((dataset, predictions), (thrice, again), (alone, again))
    )
    assert 0.2 < once.ap50.value < 0.9
    assert together.ap50.value == pytest.approx(once.ap50.value, abs=1e-9)
    assert together.ap50.ci95 == pytest.approx(once.ap50.ci95, abs=1e-9)
    assert np.ptp(apart.ap50.ci95) < 0.8 * np.ptp(once.ap50.ci95)  # as if copies were news
    assert once.intervals_over == "12 images"
    assert together.intervals_over == "12 sessions of 36 images"
