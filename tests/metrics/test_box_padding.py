"""How much looser or tighter found boxes are than labelled ones is told from where it matters on."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sim2cam.data.sample import Dataset, ObjectLabel, Sample
from sim2cam.geometry.boxes import pad_boxes
from sim2cam.metrics.box_padding import (
    MIN_PAIRS,
    compare_box_sizes,
    estimate_box_padding,
    pad_predictions,
)
from sim2cam.metrics.detection import Detection
from sim2cam.metrics.sanity_warnings import find_sanity_warnings

BOX = (20.0, 30.0, 60.0, 90.0)


def images(count=MIN_PAIRS):
    samples = (
        Sample(f"{n}", Path(f"{n}.jpg"), 100, 100, (ObjectLabel("a", BOX, 2400.0),), "real")
        for n in range(count)
    )
    return Dataset(Path(), ("a",), tuple(samples))


def pad(dataset, padding_px):
    """Detections of boxes with a padding."""
    box = tuple(pad_boxes(np.array([BOX]), padding_px)[0])
    return {sample.name: (Detection("a", box, 0.9),) for sample in dataset.samples}


def found(dataset, factor, score=0.9):
    """Detections with sides so many times as long as the labels'."""
    x0, y0, x1, y1 = BOX
    more_x, more_y = (factor - 1) / 2 * (x1 - x0), (factor - 1) / 2 * (y1 - y0)
    box = x0 - more_x, y0 - more_y, x1 + more_x, y1 + more_y
    return {sample.name: (Detection("a", box, score),) for sample in dataset.samples}


@pytest.mark.parametrize(
    ("padding_px", "words", "before"),
    [
        (14, "58% longer", "0.00"),  # IoU 0.40
        (6, "25% longer", "1.00"),
        (3, "12% longer", "1.00"),
        (-5, "21% shorter", "1.00"),
        (-9, "38% shorter", "0.00"),  # IoU 0.38
    ],
)
def test_boxes_of_another_habit_are_told(padding_px, words, before):
    dataset = images()
    told = compare_box_sizes(dataset, pad(dataset, padding_px)).warning
    assert told == (
        f"the sides of detected boxes are {words} than the labelled ones (median). With equal sides, AP50 is 1.00 "
        f"instead of {before}. If the labelling style is intended, run sim2cam tune on labelled images."
    )
    assert told in find_sanity_warnings(dataset, pad(dataset, padding_px))


def test_padding_is_the_same_around_long_and_short_sides():
    thin = (10.0, 10.0, 16.0, 90.0)
    label = ObjectLabel("a", (6.0, 6.0, 20.0, 94.0), 1232.0)
    samples = (replace(sample, objects=(label,)) for sample in images().samples)
    dataset = replace(images(), samples=tuple(samples))
    predictions = {sample.name: (Detection("a", thin, 0.9),) for sample in dataset.samples}
    padding = estimate_box_padding(predictions, dataset)
    assert padding == pytest.approx(0.04)
    padded = pad_predictions(predictions, dataset, padding)
    assert padded["0"][0].box_xyxy == pytest.approx(label.box_xyxy)


@pytest.mark.parametrize("padding_px", [-100.0, -3.0, 5.0])
def test_padded_boxes_keep_centre_and_order(padding_px):
    boxes = np.array([[10.0, 10.0, 16.0, 90.0]])
    padded = pad_boxes(boxes, padding_px)
    assert (padded[:, :2] < padded[:, 2:]).all()
    assert padded[:, :2] + padded[:, 2:] == pytest.approx(boxes[:, :2] + boxes[:, 2:])


def test_tuning_is_not_advised_where_other_errors_prevail():
    dataset = images()
    few = found(dataset, 1.25)
    far = tuple(Detection("a", (0.0, 0.0, 9.0, 9.0), 0.95) for _ in range(20))
    expansion = compare_box_sizes(dataset, {name: (*each, *far) for name, each in few.items()})
    assert "instead of 0.05. Other errors prevail, so tuning would not help." in expansion.warning


@pytest.mark.parametrize("factor", [1.0, 1.09, 0.93])
def test_boxes_that_fit_are_not(factor):
    dataset = images()
    assert compare_box_sizes(dataset, found(dataset, factor)) is None


def test_few_and_unsure_ones_tell_nothing():
    few, many = images(MIN_PAIRS - 1), images()
    assert compare_box_sizes(few, found(few, 1.25)) is None
    assert compare_box_sizes(many, found(many, 1.25, score=0.2)) is None
    assert compare_box_sizes(many, {sample.name: () for sample in many.samples}) is None
