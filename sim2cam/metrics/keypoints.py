"""How well found keypoints fit labelled ones, by the object keypoint similarity (OKS) of COCO."""

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
    N_RESAMPLES,
    Detection,
    LabelledDataset,
    LabelledObject,
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
from sim2cam.metrics.matching import match_overlaps
from sim2cam.metrics.resampling import group_images

Floats = NDArray[np.float64]

MAX_KEYPOINT_DETECTIONS = 20
"""Detections of a category that count in an image, as COCO has it."""

DEFAULT_SIGMA = 0.05
"""Of keypoints of which COCO says none: OKS is 0.5 where all are off by 0.118 roots of the area."""

PERSON_SIGMAS = {
    "nose": 0.026, "left_eye": 0.025, "right_eye": 0.025, "left_ear": 0.035, "right_ear": 0.035,
    "left_shoulder": 0.079, "right_shoulder": 0.079, "left_elbow": 0.072, "right_elbow": 0.072,
    "left_wrist": 0.062, "right_wrist": 0.062, "left_hip": 0.107, "right_hip": 0.107,
    "left_knee": 0.087, "right_knee": 0.087, "left_ankle": 0.089, "right_ankle": 0.089,
}  # fmt: skip
"""How far people's labels lie apart, in roots of the object's area, as COCO measured it."""

_MISSING_COORDINATE = -1e6  # pixels: where keypoints lie that a detector does not know


@dataclass(frozen=True, eq=False)
class KeypointGroundTruth:
    """The labelled keypoints of objects of one category in one image.

    Attributes:
        xy_px: (m, k, 2), pixels.
        is_labelled: which of them are labelled (m, k).
        boxes_xywh: (m, 4), pixels.
        areas_px: (m,).
        ignored: objects that count neither as found nor as missed, those without a known keypoint
            among them (m,).
        crowd: groups (m,).
    """

    xy_px: Floats
    is_labelled: NDArray[np.bool_]
    boxes_xywh: Floats
    areas_px: Floats
    ignored: NDArray[np.bool_]
    crowd: NDArray[np.bool_]


def evaluate_keypoints(
    dataset: LabelledDataset,
    predictions: Predictions,
    *,
    rng: np.random.Generator,
    n_resamples: int = N_RESAMPLES,
) -> ShapeMetrics:
    """Return how well keypoints fit, with 95 % bootstrap intervals over ``group_images`` the images.

    Args:
        dataset, predictions: as ``match_keypoints`` takes them.
        rng: draws the resamples.
        n_resamples: how many.

    Raises:
        InputError: as ``match_keypoints``.
    """
    return compute_shape_metrics(
        match_keypoints(dataset, predictions), rng=rng, n_resamples=n_resamples
    )


def match_keypoints(dataset: LabelledDataset, predictions: Predictions) -> ShapeEvaluator:
    """Return keypoints matched to labels once, ready to be scored on any resample of the images.

    Keypoints are matched by name. Sigmas are COCO's where a category has the keypoints of COCO's people,
    ``DEFAULT_SIGMA`` otherwise.

    Args:
        dataset: labelled images.
        predictions: by the image's name, with an entry, perhaps empty, for every image.

    Raises:
        InputError: as ``DetectionEvaluator``, there is no labelled keypoint at all, or those that were found have
            other names.
    """
    check_predictions(dataset, predictions)
    names = _collect_keypoint_names(dataset)
    if not names:
        raise InputError(dataset.root, "no labelled keypoint to score against.")
    for category, points in names.items():
        _check_keypoint_names(dataset, predictions, category, points)
    runs = {
        category: _evaluate_category(dataset, predictions, category, points)
        for category, points in names.items()
    }
    return ShapeEvaluator(runs, group_images(dataset.samples))


def compute_oks(
    detected_xy: Floats, ground_truth: KeypointGroundTruth, sigmas: Sequence[float]
) -> Floats:
    """Return the OKS (n, m) of found objects and labelled ones, 0 to 1.

    To an object without a known keypoint it is that of the nearest points in its box, enlarged to three
    times its sides, as COCO has it.

    Args:
        detected_xy: keypoints (n, k, 2), pixels.
        ground_truth: of m objects.
        sigmas: of the keypoints (k,).
    """
    low, sides = ground_truth.boxes_xywh[:, :2], ground_truth.boxes_xywh[:, 2:]
    said = detected_xy[:, None]  # (n, 1, k, 2)
    short = np.maximum(0, (low - sides)[:, None] - said)
    far = np.maximum(0, said - (low + 2 * sides)[:, None])
    has_known = np.asarray(ground_truth.is_labelled.any(axis=1))[:, None]  # (m, 1)
    off = np.where(
        np.asarray(has_known)[..., None], said - ground_truth.xy_px, short + far
    )  # (n, m, k, 2)
    variances = (2 * np.array(sigmas)) ** 2
    scale = variances * 2 * (ground_truth.areas_px[:, None] + np.spacing(1.0))  # (m, k)
    counted = ground_truth.is_labelled | ~has_known
    alike = np.exp(-(off**2).sum(axis=-1) / scale) * counted
    return np.asarray(alike.sum(axis=-1) / counted.sum(axis=-1))


def _collect_keypoint_names(dataset: LabelledDataset) -> dict[str, tuple[str, ...]]:
    """Return the keypoints' names of each category that has a labelled one."""
    names: dict[str, dict[str, None]] = {}
    counted = set()
    for sample in dataset.samples:
        for label in sample.objects or ():
            names.setdefault(label.category, {}).update(
                {p.name: None for p in label.keypoints or ()}
            )
            if not is_ignored(label) and any(p.visibility > 0 for p in label.keypoints or ()):
                counted.add(label.category)
    return {c: tuple(names[c]) for c in dataset.categories if c in counted}


def _check_keypoint_names(
    dataset: LabelledDataset, predictions: Predictions, category: str, keypoint_names: Sequence[str]
) -> None:
    found = dict.fromkeys(
        point.name
        for detections in predictions.values()
        for one in detections
        if one.category == category
        for point in one.keypoints or ()
    )
    if found and not found.keys() & set(keypoint_names):
        raise InputError(
            dataset.root,
            f"keypoints of category '{category}' are called {', '.join(keypoint_names)}, but those that were "
            f"found {', '.join(found)}. Rename either.",
        )


def _evaluate_category(
    dataset: LabelledDataset,
    predictions: Predictions,
    category: str,
    keypoint_names: tuple[str, ...],
) -> CategoryResult:
    """Return what was found of one category."""
    is_person = set(keypoint_names) == PERSON_SIGMAS.keys()
    sigmas = [PERSON_SIGMAS[name] if is_person else DEFAULT_SIGMA for name in keypoint_names]
    matches = []
    annotations: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for number, sample in enumerate(dataset.samples, 1):
        truth = _collect_ground_truth(
            [o for o in sample.objects or () if o.category == category], keypoint_names
        )
        detections = [d for d in predictions[sample.name] if d.category == category]
        found = _collect_detected_xy(detections, keypoint_names)
        scores = np.array([d.score for d in detections], np.float64)
        overlap = compute_oks(found, truth, sigmas)
        matches.append(
            match_overlaps(overlap, scores, truth.ignored, truth.crowd, MAX_KEYPOINT_DETECTIONS)
        )
        annotations += _make_coco_annotations(truth, number, len(annotations) + 1)
        results += [
            {
                "image_id": number,
                "category_id": 1,
                "keypoints": _flatten_keypoints(row, 1),
                "score": d.score,
            }
            for row, d in zip(found, detections, strict=True)
        ]
    tables = {
        "images": [{"id": i} for i in range(1, len(dataset.samples) + 1)],
        "categories": [{"id": 1, "name": category}],
        "annotations": annotations,
    }
    precision = compute_coco_average_precision(
        "keypoints", tables, results, max_detections=MAX_KEYPOINT_DETECTIONS, keypoint_sigmas=sigmas
    )
    return CategoryResult(precision[:, 0], matches)


def _collect_ground_truth(
    labels: Sequence[LabelledObject], keypoint_names: tuple[str, ...]
) -> KeypointGroundTruth:
    places = np.zeros((len(labels), len(keypoint_names), 2))
    known = np.zeros((len(labels), len(keypoint_names)), np.bool_)
    for row, label in enumerate(labels):
        for point in label.keypoints or ():
            if point.visibility > 0:
                column = keypoint_names.index(point.name)
                places[row, column], known[row, column] = point.xy, True
    boxes = [xyxy_to_xywh(label.box_xyxy) for label in labels]
    ignored = np.array([is_ignored(label) for label in labels], np.bool_)
    return KeypointGroundTruth(
        xy_px=places,
        is_labelled=known,
        boxes_xywh=np.array(boxes, np.float64).reshape(-1, 4),
        areas_px=np.array([label.area_px for label in labels], np.float64),
        ignored=ignored | ~known.any(axis=1),
        crowd=np.array([label.is_crowd for label in labels], np.bool_),
    )


def _collect_detected_xy(
    detections: Sequence[Detection], keypoint_names: tuple[str, ...]
) -> Floats:
    """Return the places (n, k, 2) of found keypoints."""
    places = np.full((len(detections), len(keypoint_names), 2), _MISSING_COORDINATE)
    for row, detection in zip(places, detections, strict=True):
        for point in detection.keypoints or ():
            if point.name in keypoint_names:
                row[keypoint_names.index(point.name)] = point.xy
    return places


def _make_coco_annotations(
    ground_truth: KeypointGroundTruth, image_id: int, first_id: int
) -> list[dict[str, Any]]:
    return [
        {
            "id": first_id + row,
            "image_id": image_id,
            "category_id": 1,
            "keypoints": _flatten_keypoints(
                ground_truth.xy_px[row], 2 * ground_truth.is_labelled[row]
            ),
            # COCO ignores objects that say they have none
            "num_keypoints": 0
            if ground_truth.ignored[row]
            else int(ground_truth.is_labelled[row].sum()),
            "bbox": ground_truth.boxes_xywh[row].tolist(),
            "area": float(ground_truth.areas_px[row]),
            "iscrowd": int(ground_truth.crowd[row]),
        }
        for row in range(len(ground_truth.xy_px))
    ]


def _flatten_keypoints(xy: Floats, visibility: NDArray[np.int64] | int) -> list[float]:
    """Return x, y and visibility of each keypoint in turn."""
    triples = np.column_stack([xy, np.broadcast_to(visibility, len(xy))])
    return [float(value) for value in triples.ravel()]
