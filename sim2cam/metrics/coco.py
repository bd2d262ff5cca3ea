"""COCO average precision, computed by faster-coco-eval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from faster_coco_eval import COCO, COCOeval_faster
from numpy.typing import NDArray

MAX_AREA = 1e18
"""Upper limit of object areas; larger objects are ignored."""


def compute_coco_average_precision(
    iou_type: Literal["bbox", "keypoints", "segm"],
    ground_truth: dict[str, Any],
    results: list[dict[str, Any]],
    *,
    max_detections: int,
    keypoint_sigmas: Sequence[float] | None = None,
) -> NDArray[np.float64]:
    """Return the average precision (thresholds, categories); -1 for categories without objects.

    Args:
        ground_truth: COCO tables ``images``, ``categories``, ``annotations``.
        results: detections in COCO's results format.
    """
    coco = COCO(ground_truth)
    evaluator = COCOeval_faster(
        coco, coco.loadRes(results), iou_type, kpt_oks_sigmas=keypoint_sigmas
    )
    evaluator.params.maxDets = [max_detections]
    evaluator.params.areaRng, evaluator.params.areaRngLbl = [[0, MAX_AREA]], ["all"]
    evaluator.evaluate()
    evaluator.accumulate()
    precision = np.asarray(evaluator.eval["precision"], np.float64)[:, :, :, 0, 0]
    return np.asarray(precision.mean(axis=1))
