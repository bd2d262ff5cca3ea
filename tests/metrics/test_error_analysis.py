from pathlib import Path

import numpy as np
import pytest

from sim2cam.data.sample import Dataset, ObjectLabel, Sample
from sim2cam.geometry.boxes import pairwise_coverage
from sim2cam.metrics.detection import Detection
from sim2cam.metrics.error_analysis import (
    CategoryErrors,
    DetectionOutcome,
    ImageErrors,
    classify_detections,
    classify_objects,
    count_category_errors,
    count_confusions,
    count_errors,
)
from sim2cam.metrics.precision_recall import DEFAULT_SCORE_THRESHOLD, find_best_f1_threshold
from sim2cam.metrics.sanity_warnings import (
    find_box_warning,
    find_sanity_warnings,
    find_unlabelled_warning,
)


def label(category, box, is_crowd=False):
    return ObjectLabel(category, box, 1.0, is_crowd=is_crowd)


def captures(*samples):
    return Dataset(Path(), ("a", "b", "c"), samples)


def image(name, *objects):
    return Sample(name, Path(f"{name}.jpg"), 100, 100, objects, "real")


def counted(objects, detections):
    (errors,) = count_errors(captures(image("x", *objects)), {"x": detections}, 0.5)
    return errors


def random_box(rng):
    x, y = rng.integers(0, 40, 2)
    return float(x), float(y), float(x + rng.integers(5, 40)), float(y + rng.integers(5, 40))


def lies_in_crowd(detection, objects):
    crowds = [o.box_xyxy for o in objects if o.is_crowd and o.category == detection.category]
    boxes = np.array(crowds).reshape(-1, 4)
    return (pairwise_coverage(np.array([detection.box_xyxy]), boxes) >= 0.5).any()


@pytest.mark.parametrize("seed", range(40))
def test_every_confident_detection_and_every_object_has_one_outcome(seed):
    rng = np.random.default_rng(seed)
    objects = [
        label(str(rng.choice(["a", "b"])), random_box(rng), rng.random() < 0.2)
        for _ in range(rng.integers(0, 8))
    ]
    boxes = [random_box(rng) for _ in range(rng.integers(0, 12))]
    found = [
        Detection(str(rng.choice(["a", "b"])), box, float(rng.random()))
        for box in boxes + [o.box_xyxy for o in objects[::2]]
    ]
    outcomes = classify_detections(objects, found, 0.5)
    scores = [o.score for o in outcomes if o.kind != "missed"]
    confident = [d for d in found if d.score >= 0.5]
    left_out = sum(lies_in_crowd(d, objects) for d in confident)
    assert scores == sorted(scores, reverse=True)
    assert len(confident) - left_out <= len(scores) <= len(confident)
    for o in outcomes:
        index = o.object_index
        assert o.true_category == (None if index is None else objects[index].category)
        assert (o.kind == "background") == (index is None)
    by_object = classify_objects(outcomes)
    assert sorted(by_object) == [i for i, o in enumerate(objects) if not o.is_crowd]
    assert all(
        o.kind in ("true positive", "confusion", "localisation", "missed")
        for o in by_object.values()
    )
    errors = counted(objects, found)
    assert errors.objects == len(by_object)
    assert errors.errors + errors.true_positives == len(outcomes)


@pytest.mark.parametrize("seed", range(20))
def test_outcomes_do_not_depend_on_less_confident_detections(seed):
    rng = np.random.default_rng(seed)
    objects = [label(str(rng.choice(["a", "b"])), random_box(rng)) for _ in range(6)]
    found = [Detection(str(rng.choice(["a", "b"])), random_box(rng), s / 20) for s in range(20)]
    all_outcomes = classify_detections(objects, found, 0.0)
    few = [o for o in classify_detections(objects, found, 0.5) if o.kind != "missed"]
    assert few == [o for o in all_outcomes if o.score is not None and o.score >= 0.5]


def test_outcomes_by_hand():
    box, far, other = (0.0, 0.0, 10.0, 10.0), (40.0, 40.0, 50.0, 50.0), (60.0, 0.0, 70.0, 9.0)
    objects = (label("a", box), label("b", far))
    found = [Detection("b", box, 0.9), Detection("a", other, 0.8), Detection("b", far, 0.3)]
    wrong, false, missed = classify_detections(objects, found, 0.5)
    assert wrong == DetectionOutcome("confusion", box, "b", "a", 0.9, 0)
    assert false == DetectionOutcome("background", other, "a", None, 0.8, None)
    assert missed == DetectionOutcome("missed", far, None, "b", None, 1)
    assert classify_detections((), (), 0.5) == ()


def test_errors_are_counted_by_kind_and_groups_are_left_out():
    objects = [
        label("a", (0, 0, 10, 10)),
        label("a", (20, 0, 30, 10)),
        label("b", (40, 0, 50, 10)),
        label("a", (60, 60, 100, 100), is_crowd=True),
    ]
    found = (
        Detection("a", (0, 0, 10, 10), 0.9),
        Detection("a", (0, 1, 10, 11), 0.8),  # a duplicate
        Detection("c", (20, 0, 30, 10), 0.7),
        Detection("a", (60, 60, 99, 99), 0.7),  # the group
        Detection("b", (40, 0, 50, 10), 0.3),  # not sure enough
    )
    errors = counted(objects, found)
    assert errors == ImageErrors("x", 3, 1, 1, 0, 0, 1, 0, 1)
    assert errors.errors == 3


def test_what_lies_in_a_group_is_neither_right_nor_false():
    crowd = label("a", (0, 0, 100, 50), is_crowd=True)
    within = tuple(Detection("a", (x, 10, x + 10, 20), 0.9) for x in range(0, 80, 20))
    beside = Detection("a", (97, 45, 107, 55), 0.9)
    errors = counted([crowd], (*within, beside))
    assert (errors.objects, errors.missed, errors.background_errors) == (0, 0, 1)


def test_images_that_nobody_labelled_are_told_by_what_is_found_there():
    some = captures(image("x", label("a", (10, 10, 50, 50))), image("y"), image("z"))
    sure, unsure = (Detection("a", (10, 10, 50, 50), score) for score in (0.9, 0.4))
    assert find_unlabelled_warning(some, {"x": (sure,), "y": (unsure,), "z": ()}) is None
    found = {"x": (sure,), "y": (unsure,), "z": (sure,)}
    assert find_unlabelled_warning(some, found) == (
        "2 of 3 images have no labelled object. 1 of them, e.g. z, have confident detections, which count as errors. "
        "Remove images that are not labelled."
    )
    assert find_sanity_warnings(some, found) == (find_unlabelled_warning(some, found),)


def test_boxes_that_are_shares_or_outside_their_pictures_are_told():
    right = captures(
        image("x", label("a", (10, 10, 50, 50))), image("y", label("a", (5, 5, 60, 60)))
    )
    found = {"x": (Detection("a", (10, 10, 50, 50), 0.9),), "y": ()}
    assert find_box_warning(right, found) is None
    assert find_box_warning(right, {"x": (), "y": ()}) is None
    shares = {"x": (Detection("a", (0.1, 0.1, 0.5, 0.5), 0.9),), "y": ()}
    assert "no coordinate of the detected boxes exceeds 0.5" in find_box_warning(right, shares)
    small = captures(image("x", label("a", (0.1, 0.1, 0.5, 1.0))))
    assert "no coordinate of the labelled boxes exceeds 1:" in find_box_warning(
        small, {"x": found["x"]}
    )
    away = {"x": found["x"], "y": (Detection("a", (5000, 10, 5050, 50), 0.9),)}
    assert find_box_warning(right, away) == (
        "1 of 2 detected boxes lie outside their images, e.g. in y. Check the image size and that boxes are x, y, "
        "width, height."
    )


def test_errors_of_a_category_say_what_its_objects_were_taken_for():
    here, there, far = (0.0, 0.0, 9.0, 9.0), (20.0, 0.0, 29.0, 9.0), (40.0, 0.0, 49.0, 9.0)
    dataset = captures(
        image("x", label("a", here), label("a", there), label("a", far)),
        image("y", label("a", here), label("b", there), label("a", far, is_crowd=True)),
    )
    found = {
        "x": [Detection("b", here, 0.9), Detection("c", there, 0.8), Detection("a", far, 0.2)],
        "y": [
            Detection("b", here, 0.9), Detection("b", there, 0.8), Detection("c", (60, 0, 69, 9), 0.7),
        ],
    }  # fmt: skip
    assert count_category_errors(dataset, found, 0.5) == (
        CategoryErrors("a", 4, 0, {"b": 2, "c": 1}, 0, 0, 0, 0, 1),
        CategoryErrors("b", 1, 1, {}, 0, 0, 0, 0, 0),
        CategoryErrors("c", 0, 0, {}, 0, 0, 0, 1, 0),
    )
    (first, *_) = count_category_errors(dataset, found, 0.5)
    assert list(first.confused_with) == ["b", "c"]  # most first


@pytest.mark.parametrize("seed", range(10))
def test_errors_of_categories_are_those_of_images(seed):
    rng = np.random.default_rng(seed)

    def category():
        return str(rng.choice(["a", "b", "c"]))

    dataset = captures(
        *(image(name, *(label(category(), random_box(rng)) for _ in range(5))) for name in "xyz")
    )
    found = {
        name: [Detection(category(), random_box(rng), float(rng.random())) for _ in range(9)]
        for name in "xyz"
    }
    images = count_errors(dataset, found, 0.5)
    categories = count_category_errors(dataset, found, 0.5)
    kinds = "true_positives localisation_errors both_errors missed duplicates background_errors"
    for total in ("objects", *kinds.split()):
        assert sum(getattr(e, total) for e in images) == sum(getattr(e, total) for e in categories)
    mixed = sum(sum(e.confused_with.values()) for e in categories)
    assert mixed == sum(e.confusion_errors for e in images)


WHOLE = (0.0, 0.0, 10.0, 10.0)


@pytest.mark.parametrize(
    ("detections", "kinds"),
    [
        ([("a", WHOLE)], ["true positive"]),
        ([("b", WHOLE)], ["confusion"]),
        ([("a", (0.0, 0.0, 10.0, 4.5))], ["localisation"]),  # IoU 0.45
        ([("b", (0.0, 0.0, 10.0, 4.5))], ["both", "missed"]),
        ([("a", (0.0, 0.0, 10.0, 1.0))], ["localisation"]),  # IoU 0.10
        ([("a", (0.0, 0.0, 10.0, 0.9))], ["background", "missed"]),  # IoU 0.09
        ([("b", WHOLE), ("a", WHOLE)], ["confusion", "true positive"]),
        ([("a", (0.0, 0.0, 10.0, 4.5)), ("b", WHOLE)], ["localisation", "confusion"]),
        ([("a", WHOLE), ("a", (0.0, 0.0, 10.0, 4.5))], ["true positive", "localisation"]),
        ([("a", WHOLE), ("a", (0.0, 0.0, 10.0, 8.0))], ["true positive", "duplicate"]),
        (
            [("a", (0.0, 0.0, 10.0, 4.5)), ("a", (0.0, 5.5, 10.0, 10.0))],
            ["localisation", "localisation"],
        ),
        ([("a", (50.0, 0.0, 60.0, 10.0))], ["background", "missed"]),
    ],
)
def test_kinds_of_errors(detections, kinds):
    found = [Detection(name, box, 0.9 - 0.1 * n) for n, (name, box) in enumerate(detections)]
    assert [o.kind for o in classify_detections([label("a", WHOLE)], found, 0.5)] == kinds


def test_a_badly_placed_box_in_a_group_is_left_out():
    objects = [label("a", WHOLE), label("a", (0.0, 4.0, 10.0, 40.0), is_crowd=True)]
    found = [Detection("a", (0.0, 4.0, 10.0, 16.0), 0.9)]
    assert [v.kind for v in classify_detections(objects, found, 0.5)] == ["missed"]


def test_the_threshold_is_that_of_the_best_f1():
    boxes = [(20.0 * n, 0.0, 20.0 * n + 10, 10.0) for n in range(5)]
    dataset = captures(image("x", *(label("a", box) for box in boxes[:4])), image("y"))
    found = {
        "x": [
            Detection(name, box, score)
            for name, box, score in zip("aaba", boxes[:4], (0.3, 0.2, 0.15, 0.01), strict=True)
        ],
        "y": [Detection("a", boxes[4], score) for score in (0.2, 0.1, 0.09, 0.08)],
    }
    # 0.3: 2 * 1 / (1 + 4); 0.2: 2 * 2 / (3 + 4); 0.15: 2 * 2 / (4 + 4); 0.01: 2 * 3 / (8 + 4)
    assert find_best_f1_threshold(dataset, found) == 0.2
    assert find_best_f1_threshold(dataset, {"x": found["x"], "y": ()}) == 0.01
    tenfold = {
        name: [Detection(d.category, d.box_xyxy, 10 * d.score) for d in each]
        for name, each in found.items()
    }
    assert find_best_f1_threshold(dataset, tenfold) == 2
    for wrong in ([Detection("c", WHOLE, 0.9)], []):
        none = {"x": wrong, "y": ()}
        assert find_best_f1_threshold(dataset, none) == DEFAULT_SCORE_THRESHOLD


def test_confusion_matrix():
    here, there, far = (0.0, 0.0, 9.0, 9.0), (20.0, 0.0, 29.0, 9.0), (40.0, 0.0, 49.0, 9.0)
    dataset = captures(image("x", label("a", here), label("a", there), label("b", far)), image("y"))
    found = {
        "x": [
            Detection("a", here, 0.9),
            Detection("a", here, 0.8),  # a duplicate is in no cell
            Detection("b", there, 0.7),
            Detection("b", (40.0, 0.0, 44.0, 9.0), 0.6),  # badly placed
            Detection("c", (70.0, 0.0, 79.0, 9.0), 0.6),
            Detection("c", (70.0, 20.0, 79.0, 29.0), 0.1),
        ],
        "y": [],
    }
    assert count_confusions(dataset, found, 0.5).tolist() == [
        [1, 1, 0, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 0], [0, 0, 1, 0, 0],
    ]  # fmt: skip
    assert count_confusions(dataset, {"x": [], "y": []}, 0.5)[:, -1].tolist() == [2, 1, 0, 0]
