"""Against pycocotools on random cases, and on cases done by hand."""

from pathlib import Path

import numpy as np
import pytest

from sim2cam.data.sample import Dataset, Keypoint, ObjectLabel, Sample
from sim2cam.errors import InputError
from sim2cam.geometry.boxes import xyxy_to_xywh
from sim2cam.metrics.detection import DetectedKeypoint, Detection, is_ignored
from sim2cam.metrics.instances import compute_shape_metrics
from sim2cam.metrics.keypoints import DEFAULT_SIGMA, PERSON_SIGMAS, match_keypoints
from tests.support.evaluation import refused

NAMES = {"person": tuple(PERSON_SIGMAS), "mug": ("rim", "handle", "foot"), "ball": ()}


def points_at(category, places, visibilities):
    named = zip(NAMES[category], places, visibilities, strict=True)
    return tuple(
        Keypoint(name, tuple(map(float, xy)) if v else (0.0, 0.0), int(v)) for name, xy, v in named
    )


def found_at(category, places):
    return tuple(
        DetectedKeypoint(name, tuple(map(float, xy)), 0.5, 1.0)
        for name, xy in zip(NAMES[category], places, strict=True)
    )


def random_case(seed, *, n_images=16, most_found=3):
    """Images of few objects near one another: groups, faint ones, some without keypoints, tied scores."""
    rng = np.random.default_rng(seed)
    samples, predictions = [], {}
    for index in range(n_images):
        labels, found = [], []
        for _ in range(int(rng.integers(0, 5))):
            category = str(rng.choice(list(NAMES)))
            x, y = rng.integers(0, 60, 2).astype(float)
            w, h = rng.integers(15, 60, 2).astype(float)
            places = rng.uniform((x, y), (x + w, y + h), (len(NAMES[category]), 2))
            kind = rng.random()
            shown = rng.integers(0, 3, len(places)) * (kind > 0.15)
            known = points_at(category, places, shown) if kind > 0.07 else None
            labels.append(
                ObjectLabel(
                    category, (x, y, x + w, y + h), float(0.6 * w * h),
                    visible_fraction=float(rng.choice([0.05, 0.5])) if rng.random() < 0.3 else None,
                    is_crowd=bool(rng.random() < 0.1), keypoints=known,
                )
            )  # fmt: skip
            for _ in range(int(rng.integers(0, most_found))):
                off = rng.choice([0.3, 2.0, 6.0, 20.0])
                moved = places + rng.normal(0, off, places.shape)
                score = round(float(rng.random()), 1)
                found.append(
                    Detection(category, (x, y, x + w, y + h), score, found_at(category, moved))
                )
        samples.append(Sample(f"i{index}", Path("x.jpg"), 160, 160, tuple(labels), "real"))
        predictions[f"i{index}"] = tuple(found)
    return Dataset(Path("set"), tuple(NAMES), tuple(samples)), predictions


def pycoco(pycoco_precision, dataset, predictions, category):
    """Average precision (thresholds,) of one category; -1 without objects."""
    names = NAMES[category]
    truth, results = [], []
    for i, sample in enumerate(dataset.samples, 1):
        for label in (o for o in sample.objects if o.category == category):
            points = label.keypoints or [Keypoint(n, (0.0, 0.0), 0) for n in names]
            truth.append(
                {
                    "id": len(truth) + 1, "image_id": i, "category_id": 1,
                    "bbox": list(xyxy_to_xywh(label.box_xyxy)), "area": label.area_px,
                    "iscrowd": int(label.is_crowd),
                    "keypoints": [v for p in points for v in (*p.xy, p.visibility)],
                    "num_keypoints": sum(p.visibility > 0 for p in points),
                    "faint": label.visible_fraction is not None and label.visible_fraction < 0.1,
                }
            )  # fmt: skip
        results += [
            {
                "image_id": i, "category_id": 1, "score": d.score,
                "keypoints": [v for p in d.keypoints for v in (*p.xy, 1.0)],
            }
            for d in predictions[sample.name]
            if d.category == category
        ]  # fmt: skip
    images = [{"id": i} for i in range(1, len(dataset.samples) + 1)]
    sigmas = [PERSON_SIGMAS[name] if category == "person" else DEFAULT_SIGMA for name in names]
    return pycoco_precision("keypoints", images, truth, results, sigmas=sigmas)[:, 0]


@pytest.fixture
def check_values(pycoco_precision, same_as_pycoco):
    def check(case):
        expected = {n: pycoco(pycoco_precision, *case, n) for n in ("person", "mug")}
        return same_as_pycoco(match_keypoints(*case), expected)

    return check


@pytest.mark.parametrize("seed", range(8))
def test_values_are_those_of_pycocotools(seed, check_values):
    score = check_values(random_case(seed))
    assert list(score.category_ap) == ["person", "mug"]
    assert 0 < score.ap.value < 1


@pytest.mark.slow
def test_values_of_300_cases_of_all_sizes_are_those_of_pycocotools(check_values):
    scored = 0
    for seed in range(1000, 1400):
        case = random_case(seed, n_images=1 + seed % 16, most_found=(1, 2, 3, 12)[seed % 4])
        labels = [label for s in case[0].samples for label in s.objects if not is_ignored(label)]
        if any(point.visibility for label in labels for point in label.keypoints or ()):
            check_values(case)
            scored += 1
    assert scored >= 300


def mug(places, *, found=None, names=NAMES["mug"]):
    """A data set of one mug of 40 x 40 pixels with three keypoints, and what was found of it."""
    box = (0.0, 0.0, 40.0, 40.0)
    label = ObjectLabel("mug", box, 1600.0, keypoints=points_at("mug", places, (2, 1, 0)))
    sample = Sample("x", Path("x.jpg"), 60, 60, (label,), "real")
    points = zip(names, places if found is None else found, strict=True)
    seen = tuple(DetectedKeypoint(name, tuple(xy), 0.5, 1.0) for name, xy in points)
    return Dataset(Path("set"), ("mug",), (sample,)), {"x": (Detection("mug", box, 0.9, seen),)}


PLACES = [(10.0, 5.0), (35.0, 20.0), (12.0, 38.0)]


def scored(dataset, predictions):
    evaluator = match_keypoints(dataset, predictions)
    return compute_shape_metrics(evaluator, rng=np.random.default_rng(0), n_resamples=5)


def test_what_is_not_labelled_may_lie_anywhere_and_what_is_hidden_may_not():
    assert scored(*mug(PLACES, found=[*PLACES[:2], (0.0, 0.0)])).ap.value == pytest.approx(1)
    off = [PLACES[0], (0.0, 0.0), PLACES[2]]  # one of two: OKS is a half
    assert scored(*mug(PLACES, found=off)).ap.value == pytest.approx(0.1)


def test_similarity_is_a_half_where_the_text_says():
    off = DEFAULT_SIGMA * 2 * np.sqrt(2 * np.log(2)) * 40  # of the root of the area
    assert off / 40 == pytest.approx(0.118, abs=5e-4)
    for share, ap50 in ((0.99, 1.0), (1.01, 0.0)):
        found = [(x + share * off, y) for x, y in PLACES]
        assert scored(*mug(PLACES, found=found)).ap50.value == pytest.approx(ap50)


def test_keypoints_are_matched_by_name():
    turned = mug(PLACES, found=PLACES[::-1], names=NAMES["mug"][::-1])
    assert scored(*turned).ap.value == pytest.approx(1)
    some = mug(PLACES, found=PLACES[:1], names=NAMES["mug"][:1])
    assert scored(*some).ap.value == pytest.approx(0.1)


def test_what_cannot_be_scored_is_refused():
    others = mug(PLACES, names=("a", "b", "c"))
    bare = Dataset(Path("set"), ("mug",), (Sample("x", Path("x.jpg"), 9, 9, (), "real"),))
    table = [
        (others, "set: labelled keypoints of category 'mug' are rim, handle, foot, predicted ones "
         "a, b, c. Use the same names."),
        ((bare, {"x": ()}), "set: no labelled keypoint to score against. Add keypoint labels."),
        ((bare, {}), "set: image x has no predictions. Predict all images."),
    ]  # fmt: skip
    for (dataset, predictions), message in table:
        with refused(InputError, message):
            scored(dataset, predictions)
