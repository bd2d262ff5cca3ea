"""How well found masks fit labelled ones, by their IoU, as COCO scores segmentation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sim2cam.errors import InputError
from sim2cam.geometry.run_length import RunLengths, mask_overlaps
from sim2cam.metrics.coco import MOST_AREA, average_precision
from sim2cam.metrics.detection import (
    DRAWS,
    LabelledImages,
    Predictions,
    check_predicted,
    is_ignored,
)
from sim2cam.metrics.instances import CategoryRun, ShapeRun, ShapeScore, shape_score
from sim2cam.metrics.matching import MAX_DETECTIONS, match_overlaps
from sim2cam.metrics.resampling import units_of

Masks = Mapping[str, Sequence[RunLengths | None]]
"""By the image's name, of its objects in their order; None where one is not labelled."""


def evaluate_masks(
    dataset: LabelledImages,
    predictions: Predictions,
    masks: Masks,
    *,
    rng: np.random.Generator,
    draws: int = DRAWS,
) -> ShapeScore:
    """Returns how well masks fit, with 95 % bootstrap intervals over ``units_of`` the images.

    Args:
        dataset, predictions, masks: as ``match_masks`` takes them.
        rng: draws the resamples.
        draws: how many.

    Raises:
        InputError: as ``match_masks``.
    """
    return shape_score(match_masks(dataset, predictions, masks), rng=rng, draws=draws)


def match_masks(dataset: LabelledImages, predictions: Predictions, masks: Masks) -> ShapeRun:
    """Returns masks matched to labels once, ready to be scored on any resample of the images.

    Objects without a labelled mask count neither as found nor as missed: their box stands for it.

    Args:
        dataset: labelled images.
        predictions: by the image's name, with an entry, perhaps empty, for every image. A detection
            without a mask has an empty one.
        masks: of the labelled objects.

    Raises:
        InputError: as ``MatchedRun``, or there is no labelled mask at all.
    """
    check_predicted(dataset, predictions)
    counted = {
        label.category
        for sample in dataset.samples
        for label, mask in zip(sample.objects or (), masks[sample.name], strict=True)
        if mask is not None and not is_ignored(label)
    }
    if not counted:
        raise InputError(dataset.root, "no labelled mask to score against.")
    runs = {
        category: _run(dataset, predictions, masks, category)
        for category in dataset.categories
        if category in counted
    }
    return ShapeRun(runs, units_of(dataset.samples))


def _run(
    dataset: LabelledImages, predictions: Predictions, masks: Masks, category: str
) -> CategoryRun:
    """Returns what was found of one category."""
    matches, images = [], []
    annotations: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for number, sample in enumerate(dataset.samples, 1):
        pairs = zip(sample.objects or (), masks[sample.name], strict=True)
        labels = [(label, mask) for label, mask in pairs if label.category == category]
        detections = [d for d in predictions[sample.name] if d.category == category]
        size = (sample.height, sample.width)
        empty = RunLengths.of_runs([sample.height * sample.width], size)
        truth = [mask or RunLengths.of_box(label.box_xyxy, size) for label, mask in labels]
        found = [detection.mask or empty for detection in detections]
        ignored = np.array([mask is None or is_ignored(o) for o, mask in labels], np.bool_)
        crowd = np.array([label.is_crowd for label, _ in labels], np.bool_)
        scores = np.array([d.score for d in detections], np.float64)
        overlap = mask_overlaps(found, truth, crowd)
        matches.append(match_overlaps(overlap, scores, ignored, crowd))
        images.append({"id": number, "height": sample.height, "width": sample.width})
        place = {"image_id": number, "category_id": 1}
        annotations += [
            {
                **place,
                "id": len(annotations) + row,
                "segmentation": truth[row - 1].to_coco(),
                "bbox": [0, 0, 1, 1],  # every tool wants one, and none looks at it
                # faster-coco-eval ignores groups, and what is too large to be asked for
                "area": 2 * MOST_AREA if ignored[row - 1] else label.area_px,
                "iscrowd": int(label.is_crowd),
            }
            for row, (label, _) in enumerate(labels, 1)
        ]
        results += [
            {**place, "segmentation": mask.to_coco(), "score": d.score}
            for mask, d in zip(found, detections, strict=True)
        ]
    tables = {
        "images": images,
        "categories": [{"id": 1, "name": category}],
        "annotations": annotations,
    }
    precision = average_precision("segm", tables, results, most=MAX_DETECTIONS)
    return CategoryRun(precision[:, 0], matches)
