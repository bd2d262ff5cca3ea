"""Which detections are right, and average precision from it, by COCO's rules.

Matching is done once for an image and is kept, so that any resample of images is scored by
weighting what was matched; the values are those of pycocotools.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MAX_DETECTIONS = 100  # an image and category, as COCO counts
MIN_VISIBLE_FRACTION = 0.1
"""Objects of which a smaller share is seen count neither as found nor as missed, as BOP has it."""
IOU_THRESHOLDS = np.linspace(0.5, 0.95, 10)
_RECALL_LEVELS = np.linspace(0.0, 1.0, 101)
_EPSILON = np.spacing(1.0)
_CHUNK_SIZE = 4_000_000  # numbers in memory at once


@dataclass(frozen=True)
class ImageMatches:
    """The detections of one category in one image, surest first.

    Attributes:
        scores: (n,).
        is_true_positive: matched to an object that counts, by IoU threshold (t, n).
        is_counted: not matched to an object that is ignored (t, n).
        n_objects: objects that count.
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
) -> ImageMatches:
    """Return the matches of one category in one image.

    Args:
        detected_xyxy: detected boxes (n, 4).
        scores: theirs (n,).
        truth_xyxy: labelled boxes (m, 4).
        ignored: which of these count neither as found nor as missed (m,), groups among them.
        crowd: which of them are groups (m,), in which any number may be found.
    """
    return match_overlaps(
        _compute_overlap(detected_xyxy, truth_xyxy, crowd), scores, ignored, crowd
    )


def match_overlaps(
    overlap: NDArray[np.float64],
    scores: NDArray[np.float64],
    ignored: NDArray[np.bool_],
    crowd: NDArray[np.bool_],
    max_detections: int = MAX_DETECTIONS,
) -> ImageMatches:
    """Return the matches of one category in one image.

    Args:
        overlap: how alike detections and objects are, 0 to 1 (n, m).
        scores, ignored, crowd: as ``match`` takes them.
        max_detections: detections that count.
    """
    order = np.argsort(-scores, kind="mergesort")[:max_detections]
    last = np.argsort(ignored, kind="mergesort")  # what is ignored comes last
    truth_ignored, truth_crowd = ignored[last], crowd[last]
    overlap = overlap[np.ix_(order, last)]
    right = np.zeros((len(IOU_THRESHOLDS), len(order)), np.bool_)
    counted = np.ones_like(right)
    for level, threshold in enumerate(IOU_THRESHOLDS):
        taken = np.zeros(len(truth_crowd), np.bool_)
        for index in range(len(order)):
            kinds = (~truth_ignored & ~taken, truth_ignored & (truth_crowd | ~taken))
            partner = _find_match(overlap[index], threshold, kinds)
            if partner is not None:
                taken[partner] = True
                right[level, index] = not truth_ignored[partner]
                counted[level, index] = not truth_ignored[partner]
    return ImageMatches(scores[order], right, counted, int((~ignored).sum()))


class CategoryMatches:
    """All images' matches of one category, surest first.

    Args:
        image_matches: in a fixed order.
    """

    def __init__(self, image_matches: Sequence[ImageMatches]) -> None:
        scores = np.concatenate([image.scores for image in image_matches])
        order = np.argsort(-scores, kind="mergesort")
        owner = np.repeat(
            np.arange(len(image_matches)), [len(image.scores) for image in image_matches]
        )
        self._image_indices = owner[order]
        self._is_true_positive = np.concatenate(
            [image.is_true_positive for image in image_matches], axis=1
        )[:, order]
        self._is_counted = np.concatenate([image.is_counted for image in image_matches], axis=1)[
            :, order
        ]
        self._n_objects = np.array([image.n_objects for image in image_matches], np.int64)

    def compute_average_precision(
        self, image_counts: NDArray[np.int64], threshold_indices: Sequence[int]
    ) -> NDArray[np.float64]:
        """Return the average precision (draws, levels); NaN where no object is drawn.

        Args:
            image_counts: how often each image is in each resample (draws, images).
            threshold_indices: indices of ``IOU_THRESHOLDS``.
        """
        found = np.full((len(image_counts), len(threshold_indices)), np.nan)
        size = max(1, _CHUNK_SIZE // max(1, len(self._image_indices)))
        for start in range(0, len(image_counts), size):
            part = image_counts[start : start + size]
            objects = part @ self._n_objects
            weights = part[:, self._image_indices].astype(np.float64)
            for column, level in enumerate(threshold_indices):
                found[start : start + size, column] = self._compute_threshold_precision(
                    weights, objects, level
                )
        return found

    def _compute_threshold_precision(
        self, weights: NDArray[np.float64], n_objects: NDArray[np.int64], threshold_index: int
    ) -> NDArray[np.float64]:
        right, counted = self._is_true_positive[threshold_index], self._is_counted[threshold_index]
        seen = np.cumsum(weights * counted, axis=1)[:, right]
        hits = np.cumsum(weights[:, right], axis=1)
        precision = hits / (seen + _EPSILON)
        # a recall's precision is the best at this or a higher recall
        best = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
        best = np.column_stack([best, np.zeros(len(best))])
        values = np.full(len(weights), np.nan)
        for draw in np.flatnonzero(n_objects):
            at = np.searchsorted(hits[draw] / n_objects[draw], _RECALL_LEVELS, side="left")
            values[draw] = best[draw, at].mean()
        return values


def _compute_overlap(
    detected_xyxy: NDArray[np.float64], truth_xyxy: NDArray[np.float64], crowd: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Return the IoU (n, m); for groups the share of the detection that lies inside."""
    # sides are taken first, as COCO stores them, so that ties at a threshold round as COCO's do
    found_size = detected_xyxy[:, 2:] - detected_xyxy[:, :2]
    truth_size = truth_xyxy[:, 2:] - truth_xyxy[:, :2]
    low = np.maximum(detected_xyxy[:, None, :2], truth_xyxy[None, :, :2])
    high = np.minimum(
        (detected_xyxy[:, :2] + found_size)[:, None], (truth_xyxy[:, :2] + truth_size)[None]
    )
    shared = np.clip(high - low, 0, None).prod(axis=-1)
    found_area, truth_area = found_size.prod(axis=-1)[:, None], truth_size.prod(axis=-1)[None]
    union = np.where(crowd, found_area, found_area + truth_area - shared)
    return np.asarray(np.divide(shared, union, out=np.zeros_like(shared), where=union > 0))


def _find_match(
    overlap: NDArray[np.float64], threshold: float, candidate_masks: Sequence[NDArray[np.bool_]]
) -> int | None:
    """Return the object that overlaps most, of the first kind that has one; the later of equals."""
    for kind in candidate_masks:
        fitting = np.flatnonzero(kind & (overlap >= min(threshold, 1 - 1e-10)))
        if len(fitting):
            best = overlap[fitting]
            return int(fitting[len(best) - 1 - np.argmax(best[::-1])])
    return None
