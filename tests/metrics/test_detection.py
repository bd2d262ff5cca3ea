"""Against faster-coco-eval and pycocotools on random cases, and on cases done by hand."""

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from sim2cam.data.sample import Dataset, ObjectLabel, Sample
from sim2cam.errors import InputError
from sim2cam.geometry.boxes import xyxy_to_xywh
from sim2cam.metrics.detection import (
    Detection,
    DetectionEvaluator,
    bootstrap_scores,
    compare_seed_means,
    evaluate_detections,
    is_ignored,
)
from tests.support.evaluation import refused

CATEGORIES = ("a", "b", "c")
BOX = (0.0, 0.0, 9.0, 9.0)
UNLABELLED = Sample("x", Path("x.jpg"), 9, 9, None, "real")


def image(name, *labels):
    objects = tuple(
        ObjectLabel(category, box, 1.0, is_crowd=group == "group", visible_fraction=seen)
        for category, box, *more in labels
        for group, seen in [more or ("", None)]
    )
    return Sample(name, Path(f"{name}.jpg"), 100, 100, objects, "real")


def captures(*samples):
    return Dataset(Path("set"), CATEGORIES, samples)


def evaluated(dataset, predictions, n_resamples=1000):
    rng = np.random.default_rng(0)
    return evaluate_detections(dataset, predictions, rng=rng, n_resamples=n_resamples)


@dataclass
class Case:
    dataset: Dataset
    predictions: dict


def snapped(box, grid):
    low, high = np.floor(np.array(box[:2]) / grid), np.ceil(np.array(box[2:]) / grid)
    return tuple(float(grid * value) for value in (*low, *high))


def random_case(seed, *, n_images=12, most_found=20, grid=1):
    """Images of few large boxes, so that many overlap; some empty, groups, faint ones, tied scores.

    Corners lie on a grid: on a coarse one, a detection often overlaps two objects equally.
    """
    rng = np.random.default_rng(seed)

    def box():
        x, y = rng.integers(0, 40, 2)
        return snapped((x, y, x + rng.integers(5, 40), y + rng.integers(5, 40)), grid)

    samples, predictions = [], {}
    for index in range(n_images):
        labels = [
            (
                str(rng.choice(CATEGORIES[:2])),
                box(),
                "group" if rng.random() < 0.15 else "",
                float(rng.choice([0.05, 0.1, 0.5])) if rng.random() < 0.5 else None,
            )
            for _ in range(int(rng.integers(0, 6)))
        ]
        samples.append(image(f"i{index}", *labels))
        found = []
        for _ in range(int(rng.integers(0, most_found))):
            near = labels and rng.random() < 0.6
            label = labels[int(rng.integers(len(labels)))] if near else (None, box())
            moved = snapped([v + rng.integers(-2, 3) for v in label[1]], grid)
            category = label[0] if near and rng.random() < 0.8 else str(rng.choice(CATEGORIES))
            found.append(Detection(category, moved, round(float(rng.random()), 1)))
        predictions[f"i{index}"] = tuple(found)
    return Case(captures(*samples), predictions)


def pycoco(pycoco_precision, case, *, as_one):
    number = {name: 1 if as_one else i for i, name in enumerate(CATEGORIES, 1)}
    truth, results = [], []
    for i, sample in enumerate(case.dataset.samples, 1):
        for label in sample.objects:
            box = xyxy_to_xywh(label.box_xyxy)
            truth.append(
                {
                    "id": len(truth) + 1, "image_id": i, "category_id": number[label.category],
                    "bbox": list(box), "area": box[2] * box[3], "iscrowd": int(label.is_crowd),
                    "faint": label.visible_fraction is not None and label.visible_fraction < 0.1,
                }
            )  # fmt: skip
        results += [
            {
                "image_id": i, "category_id": number[d.category],
                "bbox": list(xyxy_to_xywh(d.box_xyxy)), "score": d.score,
            }
            for d in case.predictions[sample.name]
        ]  # fmt: skip
    images = [{"id": i} for i in range(1, len(case.dataset.samples) + 1)]
    return pycoco_precision("bbox", images, truth, results, categories=max(number.values()))


def check_values(case, pycoco_precision):
    """Compares what is reported, and what resamples are made of, with what pycocotools says."""
    by_category, as_one = (pycoco(pycoco_precision, case, as_one=one) for one in (False, True))
    labelled = {n: p for n, p in zip(CATEGORIES, by_category.T, strict=True) if p[0] > -1}
    each = np.array(list(labelled.values()))
    expected = {
        "ap": each.mean(),
        "ap50": each[:, 0].mean(),
        "ap75": each[:, 5].mean(),
        "agnostic_ap50": as_one[0, 0],
        **{f"ap/{name}": precision.mean() for name, precision in labelled.items()},
        **{f"ap50/{name}": precision[0] for name, precision in labelled.items()},
    }
    run = DetectionEvaluator(case.dataset, case.predictions)
    ours = run.compute_scores(np.ones((1, len(case.dataset.samples)), np.int64))
    score = evaluated(case.dataset, case.predictions, 5)
    reported = {name: getattr(score, name) for name in ("ap", "ap50", "ap75", "agnostic_ap50")}
    reported |= {f"ap/{name}": one for name, one in score.category_ap.items()}
    reported |= {f"ap50/{name}": one for name, one in score.category_ap50.items()}
    assert reported.keys() == expected.keys()
    for name, value in expected.items():
        assert ours[name][0] == pytest.approx(value, abs=1e-9), name
        assert reported[name].value == pytest.approx(value, abs=1e-9), name
    assert all(np.isnan(ours[f"ap50/{n}"][0]) for n in CATEGORIES if n not in labelled)
    return labelled


@pytest.mark.parametrize("seed", range(12))
def test_values_are_those_of_pycocotools_and_of_faster_coco_eval(seed, pycoco_precision):
    case = random_case(seed, most_found=300 if seed == 0 else 20)
    assert list(check_values(case, pycoco_precision)) == ["a", "b"]


@pytest.mark.slow
def test_values_of_400_cases_of_all_sizes_are_those_of_pycocotools(pycoco_precision):
    scored = 0
    for seed in range(1000, 1440):
        sizes = {"n_images": 1 + seed % 12, "most_found": (1, 4, 20, 150)[seed % 4]}
        case = random_case(seed, **sizes, grid=(1, 10, 15)[seed % 3])
        if any(not is_ignored(label) for s in case.dataset.samples for label in s.objects):
            check_values(case, pycoco_precision)
            scored += 1
    assert scored >= 400


@pytest.mark.parametrize("seed", range(4))
def test_weighting_images_is_scoring_copies_of_them(seed):
    case = random_case(seed)
    # without ties, whose order among copies is chance
    spread = np.random.default_rng(seed).permutation(10_000) / 10_000
    numbers = iter(spread)
    predictions = {
        name: tuple(Detection(d.category, d.box_xyxy, float(next(numbers))) for d in found)
        for name, found in case.predictions.items()
    }
    counts = np.random.default_rng(seed).multinomial(12, np.full(12, 1 / 12), size=1)
    samples, copies = [], {}
    for sample, count in zip(case.dataset.samples, counts[0], strict=True):
        for copy in range(count):
            name = f"{sample.name}-{copy}"
            samples.append(Sample(name, sample.rgb, 100, 100, sample.objects, "real"))
            copies[name] = predictions[sample.name]
    weighted = DetectionEvaluator(case.dataset, predictions).compute_scores(counts)
    copied = DetectionEvaluator(captures(*samples), copies).compute_scores(
        np.ones((1, 12), np.int64)
    )
    for name, value in copied.items():
        assert weighted[name] == pytest.approx(value, abs=1e-9, nan_ok=True), name


def test_all_right_is_one_and_nothing_found_is_zero():
    labelled = image("x", ("a", (0, 0, 10, 10))), image("y", ("b", (5, 5, 9, 9)))
    dataset = captures(*labelled, image("z"))
    found = Detection("a", (0, 0, 10, 10), 0.9), Detection("b", (5, 5, 9, 9), 0.8)
    right = {"x": found[:1], "y": found[1:], "z": ()}
    score = evaluated(dataset, right, 200)
    assert score.ap.to_json() == {"value": pytest.approx(1), "ci95": pytest.approx([1, 1])}
    nothing = evaluated(dataset, dict.fromkeys(right, ()), 20)
    assert nothing.ap50.value == nothing.agnostic_ap50.value == 0
    assert nothing.ap50.ci95 == (0, 0)
    assert nothing.to_json()["objects"] == 2


def test_compare_is_paired_over_images():
    rng = np.random.default_rng(5)
    samples, good, bad = [], {}, {}
    for i in range(60):
        box = (10.0, 10.0, 30.0, 30.0)
        samples.append(image(f"i{i}", ("a", box)))
        hard = rng.random() < 0.4  # both fail here, which unpaired intervals would count twice
        good[f"i{i}"] = () if hard else (Detection("a", box, 0.9),)
        bad[f"i{i}"] = () if hard or rng.random() < 0.15 else (Detection("a", box, 0.9),)
    dataset = captures(*samples)
    better, worse = DetectionEvaluator(dataset, good), DetectionEvaluator(dataset, bad)
    rng = np.random.default_rng(0)
    scores = bootstrap_scores([better, worse, worse, better], rng=rng, n_resamples=400)["ap50"]
    found = compare_seed_means(scores[0], scores[1])
    assert found.value > 0
    assert found.ci95[0] > 0
    alone = evaluated(dataset, good, 400).ap50.ci95
    assert found.ci95[1] - found.ci95[0] < alone[1] - alone[0]
    same = compare_seed_means(scores[:2].mean(axis=0), scores[2:].mean(axis=0))
    assert same.value == 0
    assert same.p_value == 1
    assert same.min_detectable_effect is None


@pytest.mark.parametrize(
    ("sample", "predictions", "message"),
    [
        ((), {}, "no images to score. Add labelled images."),
        (UNLABELLED, {"x": ()}, "image x has no labels to score against. Label or remove it."),
        (image("x"), {}, "image x has no predictions. Predict all images."),
        (image("x"), {"x": ()}, "no labelled object to score against. Add labelled images."),
        (
            image("x", ("a", BOX)), {"x": (Detection("d", BOX, 0.5),)},
            "the detector predicts category 'd'. Categories of the dataset: a, b, c.",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_scored_is_refused(sample, predictions, message):
    dataset = captures(*([sample] if sample else []))
    with refused(InputError, f"set: {message}"):
        evaluated(dataset, predictions)


def test_a_thousand_draws_take_seconds():
    case = random_case(9, n_images=100, most_found=40)
    started = time.process_time()
    evaluated(case.dataset, case.predictions, 1000)
    assert time.process_time() - started < 20
