"""Decoding of network outputs to boxes and probabilities."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from sim2cam.models.inference.detections import MAX_DETECTIONS, SCORE_FLOOR
from sim2cam.models.network.detector import (
    STRIDE_PX,
    UNIT_PX,
    DetectionMaps,
    decode_points,
    is_peak,
)
from sim2cam.models.reliability.confidence import calibrate_scores


class DecodedDetections(NamedTuple):
    """Detections decoded from the maps of one image.

    Attributes:
        boxes: (n, 4) in pixels.
        scores: (n,) falling.
        categories: class indices (n,).
        objectness: probability of any object (n,).
        probabilities: category probabilities (n, c).
        keypoints: x, y, uncertainty in pixels and probability of visibility (n, k, 4); None without keypoints.
        surface_maps: mask logit, object coordinates and uncertainty of each cell of the RoI crops (n, 5, h, w),
            see ``SurfaceMaps``; None without poses.
    """

    boxes: Tensor
    scores: Tensor
    categories: Tensor
    objectness: Tensor
    probabilities: Tensor
    keypoints: Tensor | None
    surface_maps: Tensor | None = None

    def select(self, indices: Tensor) -> DecodedDetections:
        """Return the detections that a mask (n,) or indices select."""
        selected = {
            name: values[indices] for name, values in self._asdict().items() if values is not None
        }
        return self._replace(**selected)


def decode_maps(
    maps: DetectionMaps, score_floor: float | None = None, calibration: Tensor | None = None
) -> DecodedDetections:
    """Return the detections at the peaks of the heatmap of one image.

    The score is the geometric mean of objectness and category probability, calibrated if a calibration is given.

    Args:
        score_floor: lowest score; None keeps detections from ``SCORE_FLOOR`` before calibration.
        calibration: slope and offset of the logits of each category (c, 2); None for uncalibrated scores.
    """
    heat = maps.heatmap[0].float().sigmoid()  # (h, w)
    probabilities = maps.class_logits[0].float().softmax(0)  # (c, h, w)
    probability, category = probabilities.max(0)  # (h, w) each
    scores = (heat * probability).sqrt()
    lowest_score = SCORE_FLOOR if score_floor is None else min(SCORE_FLOOR, score_floor)
    is_detected = is_peak(heat) & (scores >= lowest_score)
    if calibration is not None:
        scores = calibrate_scores(scores, calibration.to(scores.device)[category])
    scores = torch.where(is_detected, scores, torch.zeros_like(heat)).flatten()
    top_scores, indices = scores.topk(min(MAX_DETECTIONS, scores.numel()))
    kept = is_detected.flatten()[indices]
    if score_floor is not None:
        kept &= top_scores >= score_floor
    indices, top_scores = indices[kept], top_scores[kept]
    columns = heat.shape[1]
    centres = torch.stack([indices % columns, indices // columns], 1) * STRIDE_PX + STRIDE_PX / 2
    log_sides = maps.log_sides[0].float().flatten(1)[:, indices].T  # (n, 4)
    sides = log_sides.exp() * UNIT_PX
    boxes = torch.cat([centres - sides[:, :2], centres + sides[:, 2:]], 1)
    categories = category.flatten()[indices]
    keypoints = _decode_keypoints(maps.keypoints, categories, indices, log_sides, centres)
    objectness, category_probabilities = (
        heat.flatten()[indices],
        probabilities.flatten(1)[:, indices].T,
    )
    return DecodedDetections(
        boxes.cpu(),
        top_scores.cpu(),
        categories.cpu(),
        objectness.cpu(),
        category_probabilities.cpu(),
        keypoints,
    )


def _decode_keypoints(
    keypoint_maps: Tensor | None,
    categories: Tensor,
    cells: Tensor,
    log_sides: Tensor,
    centres: Tensor,
) -> Tensor | None:
    """Return x, y, uncertainty and visibility of the keypoints in cells (n,), (n, k, 4)."""
    if keypoint_maps is None:
        return None
    outputs = keypoint_maps[0].float().flatten(3)[categories, :, :, cells]
    points_xy, uncertainties, _ = decode_points(outputs, log_sides, centres)
    return torch.cat([points_xy, uncertainties[..., None], outputs[..., 3:].sigmoid()], 2).cpu()
