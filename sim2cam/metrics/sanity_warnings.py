"""Warnings about labels and detections that can make scores misleading."""

from __future__ import annotations

from collections import Counter

import numpy as np

from sim2cam.metrics.box_padding import compare_box_sizes
from sim2cam.metrics.detection import LabelledDataset, Predictions, stack_boxes
from sim2cam.metrics.precision_recall import find_best_f1_threshold

_MAX_NORMALISED_COORDINATE_PX = 2.0
"""Maximum coordinate of boxes that are considered normalised."""
_MAX_OUTSIDE_FRACTION = 0.01
"""Fraction of boxes outside their images above which all boxes are suspect."""


def find_sanity_warnings(dataset: LabelledDataset, predictions: Predictions) -> tuple[str, ...]:
    """Return warnings about labels and detections that can make scores misleading."""
    difference = compare_box_sizes(dataset, predictions)
    sanity_warnings = (
        find_box_warning(dataset, predictions),
        find_duplicate_label_warning(dataset),
        find_unlabelled_warning(dataset, predictions),
        None if difference is None else difference.warning,
    )
    return tuple(filter(None, sanity_warnings))


def find_unlabelled_warning(dataset: LabelledDataset, predictions: Predictions) -> str | None:
    """Return a warning if confident detections lie in images without labels, else None."""
    unlabelled = [sample.name for sample in dataset.samples if not sample.objects]
    threshold = find_best_f1_threshold(dataset, predictions)
    detected = [name for name in unlabelled if any(d.score >= threshold for d in predictions[name])]
    if not detected:
        return None
    return (
        f"{len(unlabelled)} of {len(dataset.samples)} images have no labelled object. {len(detected)} of them, e.g. "
        f"{detected[0]}, have confident detections, which count as errors. Remove images that are not labelled."
    )


def find_missing_results_warning(predictions: Predictions) -> str | None:
    """Return a warning if images have no detections, else None."""
    empty = [name for name, detections in predictions.items() if not detections]
    if not empty:
        return None
    return (
        f"{len(empty)} of {len(predictions)} images, e.g. {empty[0]}, have no results: their objects count as "
        "missed."
    )


def find_box_warning(dataset: LabelledDataset, predictions: Predictions) -> str | None:
    """Return a warning if boxes look normalised or many lie outside their images, else None."""
    labelled = {sample.name: stack_boxes(sample.objects or ()) for sample in dataset.samples}
    detected = {sample.name: stack_boxes(predictions[sample.name]) for sample in dataset.samples}
    sizes = {sample.name: np.array([sample.width, sample.height]) for sample in dataset.samples}
    for kind, boxes in (("labelled", labelled), ("detected", detected)):
        all_boxes = np.concatenate(list(boxes.values()))
        if not len(all_boxes):
            continue
        if all_boxes.max() <= _MAX_NORMALISED_COORDINATE_PX:
            return (
                f"no coordinate of the {kind} boxes exceeds {all_boxes.max():.3g}: they look normalised to the "
                "image size. Write them in pixels."
            )
        outside = {
            name: int(
                ((image_boxes[:, 2:] <= 0) | (image_boxes[:, :2] >= sizes[name])).any(axis=1).sum()
            )
            for name, image_boxes in boxes.items()
        }
        if sum(outside.values()) > _MAX_OUTSIDE_FRACTION * len(all_boxes):
            first = next(name for name, count in outside.items() if count)
            return (
                f"{sum(outside.values())} of {len(all_boxes)} {kind} boxes lie outside their images, e.g. in {first}. "
                "Check the image size and that boxes are x, y, width, height."
            )
    return None


def find_duplicate_label_warning(dataset: LabelledDataset) -> str | None:
    """Return a warning if objects are labelled twice, else None."""
    duplicates = {
        sample.name: labels.total() - len(labels)
        for sample in dataset.samples
        for labels in [Counter((o.category, o.box_xyxy) for o in sample.objects or ())]
        if labels.total() > len(labels)
    }
    if not duplicates:
        return None
    return (
        f"{sum(duplicates.values())} labels are duplicates with the same category and box, e.g. in "
        f"{next(iter(duplicates))}; one of each counts as missed. Remove them."
    )
