"""Pixels of categories, counted by hand."""

from pathlib import Path

import numpy as np
import pytest

from sim2cam.data.sample import Dataset, ObjectLabel, Sample
from sim2cam.errors import InputError
from sim2cam.geometry.run_length import RleMask
from sim2cam.metrics.segmentation import (
    PixelConfusions,
    check_pixel_confusions,
    count_pixel_confusions,
    evaluate_segmentation,
)
from tests.support.evaluation import refused

SIZE = (10, 20)


def block(rows, columns):
    mask = np.zeros(SIZE, bool)
    mask[slice(*rows), slice(*columns)] = True
    return RleMask.from_mask(mask)


def dataset(*labels, names=("x",)):
    samples = tuple(Sample(name, Path("x.jpg"), SIZE[1], SIZE[0], labels, "real") for name in names)
    return Dataset(Path("set"), ("a", "b", "c"), samples)


def label(category="a", *, visible=None, box=(0.0, 0.0, 5.0, 10.0)):
    return ObjectLabel(category, box, 50.0, visible_fraction=visible)


def scored(data, found, masks, **options):
    counts = count_pixel_confusions(data, found, masks)
    return evaluate_segmentation(data, counts, rng=np.random.default_rng(0), **options)


def test_each_class_is_its_intersection_over_its_union():
    data = dataset(label("a"), label("b"))
    masks = {"x": [block((0, 10), (0, 5)), block((0, 10), (10, 14))]}
    columns = {"a": (0, 4), "b": (10, 16), "c": (0, 0)}
    found = {name: block((0, 10), where) for name, where in columns.items()}
    score = scored(data, {"x": found}, masks, n_resamples=5)
    expected = {"a": 40 / 50, "b": 40 / 60}
    assert {n: e.value for n, e in score.category_iou.items()} == pytest.approx(expected)
    background = (200 - 90 - 20) / (200 - 90 + 10)
    assert score.background_iou.value == pytest.approx(background)
    assert score.miou.value == pytest.approx(np.mean([background, *expected.values()]))
    assert score.to_json()["images"] == 1


def test_images_count_by_their_pixels_and_resamples_are_theirs():
    data = dataset(label("a"), names=("x", "y"))
    masks = {name: [block((0, 10), (0, 5))] for name in "xy"}
    found = {"x": {"a": block((0, 10), (0, 5))}, "y": {"a": block((0, 10), (5, 10))}}
    score = scored(data, found, masks, n_resamples=400)
    assert score.category_iou["a"].value == pytest.approx(50 / 150)
    assert score.category_iou["a"].ci95 == pytest.approx((0, 1))


def test_what_is_hardly_seen_and_what_has_no_mask_does_not_count():
    right = {"x": {"a": block((0, 10), (0, 5))}}
    data = dataset(label("a"), label("b", visible=0.05), label("c", box=(15.0, 0.0, 20.0, 10.0)))
    masks = {"x": [block((0, 10), (0, 5)), block((0, 10), (8, 10)), None]}
    for more in ({}, {"b": block((0, 10), (8, 10))}, {"b": block((0, 10), (16, 20))}):
        score = scored(data, {"x": right["x"] | more}, masks, n_resamples=5)
        assert score.miou.value == score.background_iou.value == 1
        assert list(score.category_iou) == ["a"]


def test_without_background_there_is_no_score_of_it():
    everything = block((0, 10), (0, 20))
    score = scored(
        dataset(label("a")), {"x": {"a": everything}}, {"x": [everything]}, n_resamples=5
    )
    assert (score.miou.value, score.background_iou) == (1, None)
    assert score.to_json()["background_iou"] is None


def test_without_masks_nothing_is_scored():
    data = dataset(label("a"))
    message = "set: no labelled mask to score against. Add mask labels."
    with refused(InputError, message):
        scored(data, {"x": {}}, {"x": [None]})
    with refused(InputError, message):
        check_pixel_confusions(data, count_pixel_confusions(data, {"x": {}}, {"x": [None]}), {})


def test_what_is_counted_is_what_occurs():
    data = dataset(label("a"), label("b", visible=0.05))
    masks = {"x": [block((0, 10), (0, 5)), block((0, 10), (8, 10))]}
    counts = count_pixel_confusions(data, {"x": {"c": block((0, 10), (4, 9))}}, masks)
    expected = ((0, 0, 200 - 50 - 20 - 30), (0, 3, 30), (1, 0, 40), (1, 3, 10))
    assert counts == PixelConfusions(("a", "b", "c"), {"x": expected})
    check_pixel_confusions(data, counts, masks)
    moved = {"x": [block((0, 10), (1, 5)), masks["x"][1]]}
    message = (
        "set: the labelled pixels of image x have changed since the predictions were made. Run bench "
        "with the weights again."
    )
    with refused(InputError, message):
        check_pixel_confusions(data, counts, moved)
