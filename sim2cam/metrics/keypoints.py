"""How well found keypoints fit labelled ones, by the object keypoint similarity (OKS) of COCO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.errors import InputError
from sim2cam.geometry.boxes import xyxy_to_xywh
from sim2cam.metrics.coco import average_precision
from sim2cam.metrics.detection import (
    DRAWS,
    Detection,
    LabelledImages,
    LabelledObject,
    Predictions,
    check_predicted,
    is_ignored,
)
from sim2cam.metrics.instances import CategoryRun, ShapeRun, ShapeScore, shape_score
from sim2cam.metrics.matching import match_overlaps
from sim2cam.metrics.resampling import units_of

Floats = NDArray[np.float64]

MOST = 20
"""Detections of a category that count in an image, as COCO has it."""

SIGMA = 0.05
"""Of keypoints of which COCO says none: OKS is 0.5 where all are off by 0.118 roots of the area."""

PERSON_SIGMAS = {
    "nose": 0.026, "left_eye": 0.025, "right_eye": 0.025, "left_ear": 0.035, "right_ear": 0.035,
    "left_shoulder": 0.079, "right_shoulder": 0.079, "left_elbow": 0.072, "right_elbow": 0.072,
    "left_wrist": 0.062, "right_wrist": 0.062, "left_hip": 0.107, "right_hip": 0.107,
    "left_knee": 0.087, "right_knee": 0.087, "left_ankle": 0.089, "right_ankle": 0.089,
}  # fmt: skip
"""How far people's labels lie apart, in roots of the object's area, as COCO measured it."""

_NOWHERE = -1e6  # pixels: where keypoints lie that a detector does not know


@dataclass(frozen=True, eq=False)
class Labelled:
    """The labelled keypoints of objects of one category in one image.

    Attributes:
        places: (m, k, 2), pixels.
        known: which of them are labelled (m, k).
        boxes_xywh: (m, 4), pixels.
        areas_px: (m,).
        ignored: objects that count neither as found nor as missed, those without a known keypoint
            among them (m,).
        crowd: groups (m,).
    """

    places: Floats
    known: NDArray[np.bool_]
    boxes_xywh: Floats
    areas_px: Floats
    ignored: NDArray[np.bool_]
    crowd: NDArray[np.bool_]


def evaluate_keypoints(
    dataset: LabelledImages,
    predictions: Predictions,
    *,
    rng: np.random.Generator,
    draws: int = DRAWS,
) -> ShapeScore:
    """Returns how well keypoints fit, with 95 % bootstrap intervals over ``units_of`` the images.

    Args:
        dataset, predictions: as ``match_keypoints`` takes them.
        rng: draws the resamples.
        draws: how many.

    Raises:
        InputError: as ``match_keypoints``.
    """
    return shape_score(match_keypoints(dataset, predictions), rng=rng, draws=draws)


def match_keypoints(dataset: LabelledImages, predictions: Predictions) -> ShapeRun:
    """Returns keypoints matched to labels once, ready to be scored on any resample of the images.

    Keypoints are matched by name. Sigmas are COCO's where a category has the keypoints of COCO's people,
    ``SIGMA`` otherwise.

    Args:
        dataset: labelled images.
        predictions: by the image's name, with an entry, perhaps empty, for every image.

    Raises:
        InputError: as ``MatchedRun``, there is no labelled keypoint at all, or those that were found have
            other names.
    """
    check_predicted(dataset, predictions)
    names = _labelled_names(dataset)
    if not names:
        raise InputError(dataset.root, "no labelled keypoint to score against.")
    for category, points in names.items():
        _check_names(dataset, predictions, category, points)
    runs = {
        category: _run(dataset, predictions, category, points) for category, points in names.items()
    }
    return ShapeRun(runs, units_of(dataset.samples))


def similarities(found: Floats, truth: Labelled, sigmas: Sequence[float]) -> Floats:
    """Returns the OKS (n, m) of found objects and labelled ones, 0 to 1.

    To an object without a known keypoint it is that of the nearest points in its box, enlarged to three
    times its sides, as COCO has it.

    Args:
        found: keypoints (n, k, 2), pixels.
        truth: of m objects.
        sigmas: of the keypoints (k,).
    """
    low, sides = truth.boxes_xywh[:, :2], truth.boxes_xywh[:, 2:]
    said = found[:, None]  # (n, 1, k, 2)
    short = np.maximum(0, (low - sides)[:, None] - said)
    far = np.maximum(0, said - (low + 2 * sides)[:, None])
    has_known = np.asarray(truth.known.any(axis=1))[:, None]  # (m, 1)
    off = np.where(
        np.asarray(has_known)[..., None], said - truth.places, short + far
    )  # (n, m, k, 2)
    variances = (2 * np.array(sigmas)) ** 2
    scale = variances * 2 * (truth.areas_px[:, None] + np.spacing(1.0))  # (m, k)
    counted = truth.known | ~has_known
    alike = np.exp(-(off**2).sum(axis=-1) / scale) * counted
    return np.asarray(alike.sum(axis=-1) / counted.sum(axis=-1))


def _labelled_names(dataset: LabelledImages) -> dict[str, tuple[str, ...]]:
    """Returns the keypoints' names of each category that has a labelled one."""
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


def _check_names(
    dataset: LabelledImages, predictions: Predictions, category: str, points: Sequence[str]
) -> None:
    found = dict.fromkeys(
        point.name
        for detections in predictions.values()
        for one in detections
        if one.category == category
        for point in one.keypoints or ()
    )
    if found and not found.keys() & set(points):
        raise InputError(
            dataset.root,
            f"keypoints of category '{category}' are called {', '.join(points)}, but those that were "
            f"found {', '.join(found)}. Rename either.",
        )


def _run(
    dataset: LabelledImages, predictions: Predictions, category: str, points: tuple[str, ...]
) -> CategoryRun:
    """Returns what was found of one category."""
    is_person = set(points) == PERSON_SIGMAS.keys()
    sigmas = [PERSON_SIGMAS[name] if is_person else SIGMA for name in points]
    matches = []
    annotations: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for number, sample in enumerate(dataset.samples, 1):
        truth = _labelled([o for o in sample.objects or () if o.category == category], points)
        detections = [d for d in predictions[sample.name] if d.category == category]
        found = _found(detections, points)
        scores = np.array([d.score for d in detections], np.float64)
        overlap = similarities(found, truth, sigmas)
        matches.append(match_overlaps(overlap, scores, truth.ignored, truth.crowd, MOST))
        annotations += _annotations(truth, number, len(annotations) + 1)
        results += [
            {"image_id": number, "category_id": 1, "keypoints": _triples(row, 1), "score": d.score}
            for row, d in zip(found, detections, strict=True)
        ]
    tables = {
        "images": [{"id": i} for i in range(1, len(dataset.samples) + 1)],
        "categories": [{"id": 1, "name": category}],
        "annotations": annotations,
    }
    precision = average_precision("keypoints", tables, results, most=MOST, sigmas=sigmas)
    return CategoryRun(precision[:, 0], matches)


def _labelled(labels: Sequence[LabelledObject], points: tuple[str, ...]) -> Labelled:
    places = np.zeros((len(labels), len(points), 2))
    known = np.zeros((len(labels), len(points)), np.bool_)
    for row, label in enumerate(labels):
        for point in label.keypoints or ():
            if point.visibility > 0:
                column = points.index(point.name)
                places[row, column], known[row, column] = point.xy, True
    boxes = [xyxy_to_xywh(label.box_xyxy) for label in labels]
    ignored = np.array([is_ignored(label) for label in labels], np.bool_)
    return Labelled(
        places=places,
        known=known,
        boxes_xywh=np.array(boxes, np.float64).reshape(-1, 4),
        areas_px=np.array([label.area_px for label in labels], np.float64),
        ignored=ignored | ~known.any(axis=1),
        crowd=np.array([label.is_crowd for label in labels], np.bool_),
    )


def _found(detections: Sequence[Detection], points: tuple[str, ...]) -> Floats:
    """Returns the places (n, k, 2) of found keypoints."""
    places = np.full((len(detections), len(points), 2), _NOWHERE)
    for row, detection in zip(places, detections, strict=True):
        for point in detection.keypoints or ():
            if point.name in points:
                row[points.index(point.name)] = point.xy
    return places


def _annotations(truth: Labelled, image: int, first: int) -> list[dict[str, Any]]:
    return [
        {
            "id": first + row,
            "image_id": image,
            "category_id": 1,
            "keypoints": _triples(truth.places[row], 2 * truth.known[row]),
            # COCO ignores objects that say they have none
            "num_keypoints": 0 if truth.ignored[row] else int(truth.known[row].sum()),
            "bbox": truth.boxes_xywh[row].tolist(),
            "area": float(truth.areas_px[row]),
            "iscrowd": int(truth.crowd[row]),
        }
        for row in range(len(truth.places))
    ]


def _triples(places: Floats, visibility: NDArray[np.int64] | int) -> list[float]:
    """Returns x, y and visibility of each keypoint in turn."""
    triples = np.column_stack([places, np.broadcast_to(visibility, len(places))])
    return [float(value) for value in triples.ravel()]
