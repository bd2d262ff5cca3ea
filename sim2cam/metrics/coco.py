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
    image_sizes: Sequence[tuple[int, int]],
    annotations: Sequence[dict[str, Any]],
    results: list[dict[str, Any]],
    *,
    max_detections: int,
    n_categories: int = 1,
    keypoint_sigmas: Sequence[float] | None = None,
) -> NDArray[np.float64]:
    """Return the average precision (thresholds, categories); -1 for categories without objects.

    Args:
        image_sizes: width and height of each image; image ids count from 1.
        annotations: labels in COCO's format, without ids; category ids count from 1.
    """
    sizes = enumerate(image_sizes, 1)
    coco = COCO(
        {
            "images": [{"id": i, "width": width, "height": height} for i, (width, height) in sizes],
            "categories": [{"id": i, "name": str(i)} for i in range(1, n_categories + 1)],
            "annotations": [{"id": i, **label} for i, label in enumerate(annotations, 1)],
        }
    )
    evaluator = COCOeval_faster(
        coco, coco.loadRes(results), iou_type, kpt_oks_sigmas=keypoint_sigmas
    )
    evaluator.params.maxDets = [max_detections]
    evaluator.params.areaRng, evaluator.params.areaRngLbl = [[0, MAX_AREA]], ["all"]
    evaluator.evaluate()
    evaluator.accumulate()
    precision = np.asarray(evaluator.eval["precision"], np.float64)[:, :, :, 0, 0]
    return np.asarray(precision.mean(axis=1))
