"""Matching of detections to objects and average precision, by COCO's rules.

Each image is matched once; resamples of images are scored by weighting the matches. The values
equal those of pycocotools.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MAX_DETECTIONS = 100  # per image and category, as in COCO
MIN_VISIBLE_FRACTION = 0.1
"""Objects with a smaller visible fraction are ignored, as in BOP."""
IOU_THRESHOLDS = np.linspace(0.5, 0.95, 10)
_RECALL_LEVELS = np.linspace(0.0, 1.0, 101)
_EPSILON = np.spacing(1.0)
_CHUNK_SIZE = 4_000_000  # values in memory at once


@dataclass(frozen=True)
class ImageMatches:
    """Matched detections of one category in one image, by falling score.

    Attributes:
        is_true_positive: matched to an object that is not ignored, by IoU threshold (t, n).
        is_counted: not matched to an ignored object (t, n).
        n_objects: number of objects that are not ignored.
    """

    scores: NDArray[np.float64]
    is_true_positive: NDArray[np.bool_]
    is_counted: NDArray[np.bool_]
    n_objects: int


def match_boxes(
    detected_xyxy: NDArray[np.float64],
    scores: NDArray[np.float64],
    truth_xyxy: NDArray[np.float64],
    ignored: NDArray[np.bool_],
    crowd: NDArray[np.bool_],
    thresholds: NDArray[np.float64] = IOU_THRESHOLDS,
) -> ImageMatches:
    """Return the matches of one category in one image by box IoU.

    Args:
        detected_xyxy: detected boxes (n, 4).
        truth_xyxy: labelled boxes (m, 4).
        ignored: which objects are not scored (m,), including crowds.
        crowd: which objects are groups (m,), which any number of detections may match.
        thresholds: smallest IoU of a match (t,).
    """
    return match_overlaps(
        _compute_overlap(detected_xyxy, truth_xyxy, crowd),
        scores,
        ignored,
        crowd,
        thresholds=thresholds,
    )


def match_overlaps(
    overlap: NDArray[np.float64],
    scores: NDArray[np.float64],
    ignored: NDArray[np.bool_],
    crowd: NDArray[np.bool_],
    max_detections: int = MAX_DETECTIONS,
    thresholds: NDArray[np.float64] = IOU_THRESHOLDS,
) -> ImageMatches:
    """Return the matches of one category in one image by a similarity.

    Args:
        overlap: similarity of detections and objects, 0 to 1 (n, m).
        scores, ignored, crowd: as in ``match_boxes``.
        thresholds: smallest similarity of a match (t,).
    """
    order = np.argsort(-scores, kind="mergesort")[:max_detections]
    truth_order = np.argsort(ignored, kind="mergesort")  # ignored objects last
    truth_ignored, truth_crowd = ignored[truth_order], crowd[truth_order]
    overlap = overlap[np.ix_(order, truth_order)]
    is_true_positive = np.zeros((len(thresholds), len(order)), np.bool_)
    is_counted = np.ones_like(is_true_positive)
    for level, threshold in enumerate(thresholds):
        is_taken = np.zeros(len(truth_crowd), np.bool_)
        for index in np.flatnonzero(_reaches(overlap, threshold).any(axis=1)):
            candidates = (~truth_ignored & ~is_taken, truth_ignored & (truth_crowd | ~is_taken))
            match = _find_match(overlap[index], threshold, candidates)
            if match is not None:
                is_taken[match] = True
                is_true_positive[level, index] = not truth_ignored[match]
                is_counted[level, index] = not truth_ignored[match]
    return ImageMatches(scores[order], is_true_positive, is_counted, int((~ignored).sum()))


class CategoryMatches:
    """Matches of one category in all images, by falling score."""

    def __init__(self, image_matches: Sequence[ImageMatches]) -> None:
        scores = np.concatenate([image.scores for image in image_matches])
        order = np.argsort(-scores, kind="mergesort")
        image_indices = np.repeat(
            np.arange(len(image_matches)), [len(image.scores) for image in image_matches]
        )
        self._image_indices = image_indices[order]
        self._is_true_positive = np.concatenate(
            [image.is_true_positive for image in image_matches], axis=1
        )[:, order]
        is_counted = np.concatenate([image.is_counted for image in image_matches], axis=1)
        self._is_counted = is_counted[:, order]
        self._n_objects = np.array([image.n_objects for image in image_matches], np.int64)

    def compute_average_precision(
        self, image_counts: NDArray[np.int64], threshold_indices: Sequence[int]
    ) -> NDArray[np.float64]:
        """Return the average precision (n_resamples, thresholds); NaN without objects.

        Args:
            image_counts: count of each image in each resample (n_resamples, images).
        """
        precision = np.full((len(image_counts), len(threshold_indices)), np.nan)
        size = max(1, _CHUNK_SIZE // max(1, len(self._image_indices)))
        for start in range(0, len(image_counts), size):
            counts = image_counts[start : start + size]
            n_objects = counts @ self._n_objects
            weights = counts[:, self._image_indices].astype(np.float64)
            for column, index in enumerate(threshold_indices):
                precision[start : start + size, column] = self._compute_threshold_precision(
                    weights, n_objects, index
                )
        return precision

    def _compute_threshold_precision(
        self, weights: NDArray[np.float64], n_objects: NDArray[np.int64], threshold_index: int
    ) -> NDArray[np.float64]:
        is_correct = self._is_true_positive[threshold_index]
        is_counted = self._is_counted[threshold_index]
        n_detections = np.cumsum(weights * is_counted, axis=1)[:, is_correct]
        n_correct = np.cumsum(weights[:, is_correct], axis=1)
        precision = n_correct / (n_detections + _EPSILON)
        # interpolated precision: the maximum at this or a higher recall
        best = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
        best = np.column_stack([best, np.zeros(len(best))])
        rows = np.flatnonzero(n_objects)
        recall = n_correct[rows] / n_objects[rows, None]
        indices = np.empty((len(rows), len(_RECALL_LEVELS)), np.int64)
        for row, levels in enumerate(recall):
            indices[row] = levels.searchsorted(_RECALL_LEVELS, side="left")
        values = np.full(len(weights), np.nan)
        values[rows] = best[rows[:, None], indices].mean(axis=1)
        return values


def _compute_overlap(
    detected_xyxy: NDArray[np.float64], truth_xyxy: NDArray[np.float64], crowd: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Return the IoU (n, m); for crowds the fraction of the detection that lies inside."""
    # sides first, as COCO stores them, so that ties at a threshold round as in COCO
    detected_size = detected_xyxy[:, 2:] - detected_xyxy[:, :2]
    truth_size = truth_xyxy[:, 2:] - truth_xyxy[:, :2]
    low = np.maximum(detected_xyxy[:, None, :2], truth_xyxy[None, :, :2])
    high = np.minimum(
        (detected_xyxy[:, :2] + detected_size)[:, None], (truth_xyxy[:, :2] + truth_size)[None]
    )
    intersection = np.clip(high - low, 0, None).prod(axis=-1)
    detected_area, truth_area = detected_size.prod(axis=-1)[:, None], truth_size.prod(axis=-1)[None]
    union = np.where(crowd, detected_area, detected_area + truth_area - intersection)
    return np.asarray(
        np.divide(intersection, union, out=np.zeros_like(intersection), where=union > 0)
    )


def _reaches(overlap: NDArray[np.float64], threshold: float) -> NDArray[np.bool_]:
    return overlap >= min(threshold, 1 - 1e-10)


def _find_match(
    overlap: NDArray[np.float64], threshold: float, candidate_masks: Sequence[NDArray[np.bool_]]
) -> int | None:
    """Return the object with the most overlap in the first non-empty candidate mask; the last of equals."""
    for is_candidate in candidate_masks:
        indices = np.flatnonzero(is_candidate & _reaches(overlap, threshold))
        if len(indices):
            overlaps = overlap[indices]
            return int(indices[len(overlaps) - 1 - np.argmax(overlaps[::-1])])
    return None
