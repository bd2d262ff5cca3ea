"""Average precision of keypoints by COCO's object keypoint similarity (OKS)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.errors import InputError
from sim2cam.geometry.boxes import xyxy_to_xywh
from sim2cam.metrics.coco import compute_coco_average_precision
from sim2cam.metrics.detection import (
    Detection,
    LabelledDataset,
    LabelledObject,
    Predictions,
    check_predictions,
    is_ignored,
)
from sim2cam.metrics.instances import CategoryResult, ShapeEvaluator
from sim2cam.metrics.matching import match_overlaps
from sim2cam.metrics.resampling import group_images

Floats = NDArray[np.float64]

MAX_KEYPOINT_DETECTIONS = 20
"""Maximum number of detections per image and category, as in COCO."""

DEFAULT_SIGMA = 0.05
"""OKS sigma of keypoints that COCO does not define: OKS is 0.5 at an error of 0.118 √area."""

PERSON_SIGMAS = {
    "nose": 0.026, "left_eye": 0.025, "right_eye": 0.025, "left_ear": 0.035, "right_ear": 0.035,
    "left_shoulder": 0.079, "right_shoulder": 0.079, "left_elbow": 0.072, "right_elbow": 0.072,
    "left_wrist": 0.062, "right_wrist": 0.062, "left_hip": 0.107, "right_hip": 0.107,
    "left_knee": 0.087, "right_knee": 0.087, "left_ankle": 0.089, "right_ankle": 0.089,
}  # fmt: skip
"""OKS sigmas of COCO's person keypoints: standard deviation of labels over √area."""

_MISSING_COORDINATE = -1e6  # pixels; position of keypoints that are not predicted


@dataclass(frozen=True, eq=False)
class KeypointGroundTruth:
    """Labelled keypoints of objects of one category in one image.

    Attributes:
        xy_px: positions (m, k, 2), pixels.
        is_labelled: which keypoints are labelled (m, k).
        boxes_xywh: boxes (m, 4), pixels.
        areas_px: areas (m,), pixels.
        ignored: objects that are not scored, including objects without a labelled keypoint (m,).
        crowd: which objects are groups (m,).
    """

    xy_px: Floats
    is_labelled: NDArray[np.bool_]
    boxes_xywh: Floats
    areas_px: Floats
    ignored: NDArray[np.bool_]
    crowd: NDArray[np.bool_]


def match_keypoints(dataset: LabelledDataset, predictions: Predictions) -> ShapeEvaluator:
    """Return keypoints matched to labels, for scoring on any resample of the images.

    Keypoints are matched by name. Categories with COCO's person keypoints use COCO's sigmas, others
    ``DEFAULT_SIGMA``.

    Raises:
        InputError: as ``DetectionEvaluator``, or no keypoint is labelled, or predicted keypoints
            have other names.
    """
    check_predictions(dataset, predictions)
    names = _collect_keypoint_names(dataset)
    if not names:
        raise InputError(
            dataset.root, "no labelled keypoint to score against. Add keypoint labels."
        )
    for category, keypoint_names in names.items():
        _check_keypoint_names(dataset, predictions, category, keypoint_names)
    results = {
        category: _evaluate_category(dataset, predictions, category, keypoint_names)
        for category, keypoint_names in names.items()
    }
    return ShapeEvaluator(results, group_images(dataset.samples))


def compute_oks(
    detected_xy: Floats, ground_truth: KeypointGroundTruth, sigmas: Sequence[float]
) -> Floats:
    """Return the OKS (n, m) of detected and labelled objects, 0 to 1.

    For objects without labelled keypoints, distances are to the box enlarged to three times its
    sides, as in COCO.

    Args:
        detected_xy: keypoints (n, k, 2), pixels.
        ground_truth: labels of m objects.
    """
    low, sides = ground_truth.boxes_xywh[:, :2], ground_truth.boxes_xywh[:, 2:]
    detected = detected_xy[:, None]  # (n, 1, k, 2)
    before = np.maximum(0, (low - sides)[:, None] - detected)
    beyond = np.maximum(0, detected - (low + 2 * sides)[:, None])
    has_labels = np.asarray(ground_truth.is_labelled.any(axis=1))[:, None]  # (m, 1)
    # (n, m, k, 2)
    errors = np.where(has_labels[..., None], detected - ground_truth.xy_px, before + beyond)
    variances = (2 * np.array(sigmas)) ** 2
    scale = variances * 2 * (ground_truth.areas_px[:, None] + np.spacing(1.0))  # (m, k)
    is_counted = ground_truth.is_labelled | ~has_labels
    similarity = np.exp(-(errors**2).sum(axis=-1) / scale) * is_counted
    return np.asarray(similarity.sum(axis=-1) / is_counted.sum(axis=-1))


def _collect_keypoint_names(dataset: LabelledDataset) -> dict[str, tuple[str, ...]]:
    """Return the keypoint names of each category with a labelled keypoint."""
    names: dict[str, dict[str, None]] = {}
    labelled_categories = set()
    for sample in dataset.samples:
        for label in sample.objects or ():
            points = label.keypoints or ()
            names.setdefault(label.category, {}).update({point.name: None for point in points})
            if not is_ignored(label) and any(point.visibility > 0 for point in points):
                labelled_categories.add(label.category)
    return {c: tuple(names[c]) for c in dataset.categories if c in labelled_categories}


def _check_keypoint_names(
    dataset: LabelledDataset, predictions: Predictions, category: str, keypoint_names: Sequence[str]
) -> None:
    predicted_names = dict.fromkeys(
        point.name
        for detections in predictions.values()
        for detection in detections
        if detection.category == category
        for point in detection.keypoints or ()
    )
    if predicted_names and not predicted_names.keys() & set(keypoint_names):
        raise InputError(
            dataset.root,
            f"labelled keypoints of category '{category}' are {', '.join(keypoint_names)}, predicted ones "
            f"{', '.join(predicted_names)}. Use the same names.",
        )


def _evaluate_category(
    dataset: LabelledDataset,
    predictions: Predictions,
    category: str,
    keypoint_names: tuple[str, ...],
) -> CategoryResult:
    is_person = set(keypoint_names) == PERSON_SIGMAS.keys()
    sigmas = [PERSON_SIGMAS[name] if is_person else DEFAULT_SIGMA for name in keypoint_names]
    matches = []
    annotations: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for number, sample in enumerate(dataset.samples, 1):
        ground_truth = _collect_ground_truth(
            [o for o in sample.objects or () if o.category == category], keypoint_names
        )
        detections = [d for d in predictions[sample.name] if d.category == category]
        detected_xy = _collect_detected_xy(detections, keypoint_names)
        scores = np.array([detection.score for detection in detections], np.float64)
        overlap = compute_oks(detected_xy, ground_truth, sigmas)
        kinds = ground_truth.ignored, ground_truth.crowd
        matches.append(match_overlaps(overlap, scores, *kinds, MAX_KEYPOINT_DETECTIONS))
        ids = {"image_id": number, "category_id": 1}
        annotations += [ids | label for label in _make_coco_annotations(ground_truth)]
        results += [
            {**ids, "keypoints": _flatten_keypoints(xy, 1), "score": detection.score}
            for xy, detection in zip(detected_xy, detections, strict=True)
        ]
    sizes = [(sample.width, sample.height) for sample in dataset.samples]
    precision = compute_coco_average_precision(
        "keypoints", sizes, annotations, results, max_detections=MAX_KEYPOINT_DETECTIONS,
        keypoint_sigmas=sigmas,
    )  # fmt: skip
    return CategoryResult(precision[:, 0], matches)


def _collect_ground_truth(
    labels: Sequence[LabelledObject], keypoint_names: tuple[str, ...]
) -> KeypointGroundTruth:
    xy_px = np.zeros((len(labels), len(keypoint_names), 2))
    is_labelled = np.zeros((len(labels), len(keypoint_names)), np.bool_)
    for row, label in enumerate(labels):
        for point in label.keypoints or ():
            if point.visibility > 0:
                column = keypoint_names.index(point.name)
                xy_px[row, column], is_labelled[row, column] = point.xy, True
    boxes = [xyxy_to_xywh(label.box_xyxy) for label in labels]
    ignored = np.array([is_ignored(label) for label in labels], np.bool_)
    return KeypointGroundTruth(
        xy_px=xy_px,
        is_labelled=is_labelled,
        boxes_xywh=np.array(boxes, np.float64).reshape(-1, 4),
        areas_px=np.array([label.area_px for label in labels], np.float64),
        ignored=ignored | ~is_labelled.any(axis=1),
        crowd=np.array([label.is_crowd for label in labels], np.bool_),
    )


def _collect_detected_xy(
    detections: Sequence[Detection], keypoint_names: tuple[str, ...]
) -> Floats:
    """Return the positions (n, k, 2) of detected keypoints."""
    positions = np.full((len(detections), len(keypoint_names), 2), _MISSING_COORDINATE)
    for row, detection in zip(positions, detections, strict=True):
        for point in detection.keypoints or ():
            if point.name in keypoint_names:
                row[keypoint_names.index(point.name)] = point.xy
    return positions


def _make_coco_annotations(ground_truth: KeypointGroundTruth) -> list[dict[str, Any]]:
    labelled = ground_truth.is_labelled
    counts = np.where(ground_truth.ignored, 0, labelled.sum(axis=1))  # COCO ignores 0 keypoints
    return [
        {
            "keypoints": _flatten_keypoints(ground_truth.xy_px[row], 2 * labelled[row]),
            "num_keypoints": int(counts[row]),
            "bbox": ground_truth.boxes_xywh[row].tolist(),
            "area": float(ground_truth.areas_px[row]),
            "iscrowd": int(ground_truth.crowd[row]),
        }
        for row in range(len(labelled))
    ]


def _flatten_keypoints(xy: Floats, visibility: NDArray[np.int64] | int) -> list[float]:
    """Return x, y and visibility of each keypoint as a flat list."""
    triples = np.column_stack([xy, np.broadcast_to(visibility, len(xy))])
    return [float(value) for value in triples.ravel()]
