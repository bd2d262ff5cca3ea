"""Average precision as COCO has it, by faster-coco-eval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from faster_coco_eval import COCO, COCOeval_faster
from numpy.typing import NDArray

MOST_AREA = 1e18
"""Objects of a larger area are asked for by nobody, so they count neither as found nor as missed."""


def average_precision(
    kind: Literal["bbox", "keypoints", "segm"],
    truth: dict[str, Any],
    results: list[dict[str, Any]],
    *,
    most: int,
    sigmas: Sequence[float] | None = None,
) -> NDArray[np.float64]:
    """Returns the average precision (thresholds, categories); -1 of a category without objects.

    Args:
        kind: of what has to overlap.
        truth: COCO's tables ``images categories annotations``.
        results: as COCO has them.
        most: detections of a category that count in an image.
        sigmas: of the keypoints.
    """
    labelled = COCO(truth)
    scorer = COCOeval_faster(labelled, labelled.loadRes(results), kind, kpt_oks_sigmas=sigmas)
    scorer.params.maxDets = [most]
    scorer.params.areaRng, scorer.params.areaRngLbl = [[0, MOST_AREA]], ["all"]
    scorer.evaluate()
    scorer.accumulate()
    precision = np.asarray(scorer.eval["precision"], np.float64)[:, :, :, 0, 0]
    return np.asarray(precision.mean(axis=1))
