"""Average precision as COCO has it, by faster-coco-eval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from faster_coco_eval import COCO, COCOeval_faster
from numpy.typing import NDArray

MAX_AREA = 1e18
"""Objects of a larger area are asked for by nobody, so they count neither as found nor as missed."""


def compute_coco_average_precision(
    iou_type: Literal["bbox", "keypoints", "segm"],
    ground_truth: dict[str, Any],
    results: list[dict[str, Any]],
    *,
    max_detections: int,
    keypoint_sigmas: Sequence[float] | None = None,
) -> NDArray[np.float64]:
    """Return the average precision (thresholds, categories); -1 of a category without objects.

    Args:
        iou_type: of what has to overlap.
        ground_truth: COCO's tables ``images categories annotations``.
        results: as COCO has them.
        max_detections: detections of a category that count in an image.
        keypoint_sigmas: of the keypoints.
    """
    labelled = COCO(ground_truth)
    scorer = COCOeval_faster(
        labelled, labelled.loadRes(results), iou_type, kpt_oks_sigmas=keypoint_sigmas
    )
    scorer.params.maxDets = [max_detections]
    scorer.params.areaRng, scorer.params.areaRngLbl = [[0, MAX_AREA]], ["all"]
    scorer.evaluate()
    scorer.accumulate()
    precision = np.asarray(scorer.eval["precision"], np.float64)[:, :, :, 0, 0]
    return np.asarray(precision.mean(axis=1))
