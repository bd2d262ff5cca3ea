"""How well found masks fit labelled ones, by their IoU, as COCO scores segmentation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sim2cam.errors import InputError
from sim2cam.geometry.run_length import RleMask, compute_mask_iou
from sim2cam.metrics.coco import MAX_AREA, compute_coco_average_precision
from sim2cam.metrics.detection import (
    N_RESAMPLES,
    LabelledDataset,
    Predictions,
    check_predictions,
    is_ignored,
)
from sim2cam.metrics.instances import (
    CategoryResult,
    ShapeEvaluator,
    ShapeMetrics,
    compute_shape_metrics,
)
from sim2cam.metrics.matching import MAX_DETECTIONS, match_overlaps
from sim2cam.metrics.resampling import group_images

GroundTruthMasks = Mapping[str, Sequence[RleMask | None]]
"""By the image's name, of its objects in their order; None where one is not labelled."""


def evaluate_masks(
    dataset: LabelledDataset,
    predictions: Predictions,
    masks: GroundTruthMasks,
    *,
    rng: np.random.Generator,
    n_resamples: int = N_RESAMPLES,
) -> ShapeMetrics:
    """Return how well masks fit, with 95 % bootstrap intervals over ``group_images`` the images.

    Args:
        dataset, predictions, masks: as ``match_masks`` takes them.
        rng: draws the resamples.
        n_resamples: how many.

    Raises:
        InputError: as ``match_masks``.
    """
    return compute_shape_metrics(
        match_masks(dataset, predictions, masks), rng=rng, n_resamples=n_resamples
    )


def match_masks(
    dataset: LabelledDataset, predictions: Predictions, masks: GroundTruthMasks
) -> ShapeEvaluator:
    """Return masks matched to labels once, ready to be scored on any resample of the images.

    Objects without a labelled mask count neither as found nor as missed: their box stands for it.

    Args:
        dataset: labelled images.
        predictions: by the image's name, with an entry, perhaps empty, for every image. A detection
            without a mask has an empty one.
        masks: of the labelled objects.

    Raises:
        InputError: as ``DetectionEvaluator``, or there is no labelled mask at all.
    """
    check_predictions(dataset, predictions)
    counted = {
        label.category
        for sample in dataset.samples
        for label, mask in zip(sample.objects or (), masks[sample.name], strict=True)
        if mask is not None and not is_ignored(label)
    }
    if not counted:
        raise InputError(dataset.root, "no labelled mask to score against.")
    runs = {
        category: _evaluate_category(dataset, predictions, masks, category)
        for category in dataset.categories
        if category in counted
    }
    return ShapeEvaluator(runs, group_images(dataset.samples))


def _evaluate_category(
    dataset: LabelledDataset, predictions: Predictions, masks: GroundTruthMasks, category: str
) -> CategoryResult:
    """Return what was found of one category."""
    matches, images = [], []
    annotations: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for number, sample in enumerate(dataset.samples, 1):
        pairs = zip(sample.objects or (), masks[sample.name], strict=True)
        labels = [(label, mask) for label, mask in pairs if label.category == category]
        detections = [d for d in predictions[sample.name] if d.category == category]
        size = (sample.height, sample.width)
        empty = RleMask.from_runs([sample.height * sample.width], size)
        truth = [mask or RleMask.from_box(label.box_xyxy, size) for label, mask in labels]
        found = [detection.mask or empty for detection in detections]
        ignored = np.array([mask is None or is_ignored(o) for o, mask in labels], np.bool_)
        crowd = np.array([label.is_crowd for label, _ in labels], np.bool_)
        scores = np.array([d.score for d in detections], np.float64)
        overlap = compute_mask_iou(found, truth, crowd)
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
                "area": 2 * MAX_AREA if ignored[row - 1] else label.area_px,
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
    precision = compute_coco_average_precision(
        "segm", tables, results, max_detections=MAX_DETECTIONS
    )
    return CategoryResult(precision[:, 0], matches)
