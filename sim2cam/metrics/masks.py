"""Average precision of instance masks by IoU, as in COCO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sim2cam.errors import InputError
from sim2cam.geometry.run_length import RleMask, compute_mask_iou
from sim2cam.metrics.coco import MAX_AREA, compute_coco_average_precision
from sim2cam.metrics.detection import LabelledDataset, Predictions, check_predictions, is_ignored
from sim2cam.metrics.instances import CategoryResult, ShapeEvaluator
from sim2cam.metrics.matching import MAX_DETECTIONS, match_overlaps
from sim2cam.metrics.resampling import group_images

GroundTruthMasks = Mapping[str, Sequence[RleMask | None]]
"""Masks of the objects of each image, by image name, in order; None if not labelled."""


def match_masks(
    dataset: LabelledDataset, predictions: Predictions, masks: GroundTruthMasks
) -> ShapeEvaluator:
    """Return masks matched to labels, for scoring on any resample of the images.

    Objects without a labelled mask are ignored; their box takes the place of the mask.

    Args:
        predictions: detections by image name, with an entry for every image; a detection without a
            mask has an empty one.

    Raises:
        InputError: as ``DetectionEvaluator``, or no mask is labelled.
    """
    check_predictions(dataset, predictions)
    labelled_categories = {
        label.category
        for sample in dataset.samples
        for label, mask in zip(sample.objects or (), masks[sample.name], strict=True)
        if mask is not None and not is_ignored(label)
    }
    if not labelled_categories:
        raise InputError(dataset.root, "no labelled mask to score against. Add mask labels.")
    results = {
        category: _evaluate_category(dataset, predictions, masks, category)
        for category in dataset.categories
        if category in labelled_categories
    }
    return ShapeEvaluator(results, group_images(dataset.samples))


def _evaluate_category(
    dataset: LabelledDataset, predictions: Predictions, masks: GroundTruthMasks, category: str
) -> CategoryResult:
    matches = []
    annotations: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for number, sample in enumerate(dataset.samples, 1):
        pairs = zip(sample.objects or (), masks[sample.name], strict=True)
        labels = [(label, mask) for label, mask in pairs if label.category == category]
        detections = [d for d in predictions[sample.name] if d.category == category]
        size = (sample.height, sample.width)
        empty = RleMask.from_runs([sample.height * sample.width], size)
        true_masks = [mask or RleMask.from_box(label.box_xyxy, size) for label, mask in labels]
        detected_masks = [detection.mask or empty for detection in detections]
        ignored = np.array([mask is None or is_ignored(o) for o, mask in labels], np.bool_)
        crowd = np.array([label.is_crowd for label, _ in labels], np.bool_)
        scores = np.array([detection.score for detection in detections], np.float64)
        overlap = compute_mask_iou(detected_masks, true_masks, crowd)
        matches.append(match_overlaps(overlap, scores, ignored, crowd))
        ids = {"image_id": number, "category_id": 1}
        annotations += [
            {
                **ids,
                "segmentation": true_mask.to_coco(),
                "bbox": [0, 0, 1, 1],  # required by the format, not used
                # faster-coco-eval ignores crowds and areas above its range
                "area": 2 * MAX_AREA if is_ignored_mask else label.area_px,
                "iscrowd": int(label.is_crowd),
            }
            for (label, _), true_mask, is_ignored_mask in zip(
                labels, true_masks, ignored, strict=True
            )
        ]
        results += [
            {**ids, "segmentation": mask.to_coco(), "score": detection.score}
            for mask, detection in zip(detected_masks, detections, strict=True)
        ]
    sizes = [(sample.width, sample.height) for sample in dataset.samples]
    precision = compute_coco_average_precision(
        "segm", sizes, annotations, results, max_detections=MAX_DETECTIONS
    )
    return CategoryResult(precision[:, 0], matches)
