"""What the maps of a picture say, in pixels and probabilities."""

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
    """What the maps of one image say.

    Attributes:
        boxes: (n, 4) pixels.
        scores: (n,) the surest first.
        categories: class indices (n,).
        objectness: probability of there being an object (n,).
        probabilities: of the categories (n, c).
        keypoints: places, spreads and how sure it is that each is seen (n, k, 4), pixels; None without
            keypoints.
        surface_maps: of every cell of their close-ups, the logit of its showing the object, which point, and how
            far off that is, as ``SurfaceMaps`` has them (n, 5, h, w); None without poses.
    """

    boxes: Tensor
    scores: Tensor
    categories: Tensor
    objectness: Tensor
    probabilities: Tensor
    keypoints: Tensor | None
    surface_maps: Tensor | None = None

    def select(self, indices: Tensor) -> DecodedDetections:
        """Return what is said of some objects, which a mask (n,) or their numbers choose."""
        cut = {name: each[indices] for name, each in self._asdict().items() if each is not None}
        return self._replace(**cut)


def decode_maps(
    maps: DetectionMaps, score_floor: float | None = None, calibration: Tensor | None = None
) -> DecodedDetections:
    """Return what lies at the peaks of the maps of one image.

    A score is the geometric mean of the probabilities of there being an object and of its category,
    calibrated where that is known how.

    Args:
        maps: of one image.
        score_floor: as for ``look``.
        calibration: slopes and offsets of logits, for each category (c, 2); scores stay when None.
    """
    heat = maps.heatmap[0].float().sigmoid()  # (h, w)
    probabilities = maps.class_logits[0].float().softmax(0)  # (c, h, w)
    probability, category = probabilities.max(0)  # (h, w) each
    scores = (heat * probability).sqrt()
    least = SCORE_FLOOR if score_floor is None else min(SCORE_FLOOR, score_floor)
    is_found = is_peak(heat) & (scores >= least)
    if calibration is not None:
        scores = calibrate_scores(scores, calibration.to(scores.device)[category])
    scores = torch.where(is_found, scores, torch.zeros_like(heat)).flatten()
    best, where = scores.topk(min(MAX_DETECTIONS, scores.numel()))
    kept = is_found.flatten()[where]
    if score_floor is not None:
        kept &= best >= score_floor
    where, best = where[kept], best[kept]
    columns = heat.shape[1]
    centre = torch.stack([where % columns, where // columns], 1) * STRIDE_PX + STRIDE_PX / 2
    log_sides = maps.log_sides[0].float().flatten(1)[:, where].T  # (n, 4)
    sides = log_sides.exp() * UNIT_PX
    boxes = torch.cat([centre - sides[:, :2], centre + sides[:, 2:]], 1)
    chosen = category.flatten()[where]
    keypoints = _decode_keypoints(maps.keypoints, chosen, where, log_sides, centre)
    hot, shares = heat.flatten()[where], probabilities.flatten(1)[:, where].T
    return DecodedDetections(
        boxes.cpu(), best.cpu(), chosen.cpu(), hot.cpu(), shares.cpu(), keypoints
    )


def _decode_keypoints(
    keypoint_maps: Tensor | None,
    categories: Tensor,
    cells: Tensor,
    log_sides: Tensor,
    centres: Tensor,
) -> Tensor | None:
    """Return places and spreads of keypoints in some cells (n,), and how surely each is seen (n, k, 4)."""
    if keypoint_maps is None:
        return None
    points = keypoint_maps[0].float().flatten(3)[categories, :, :, cells]
    places, spreads, _ = decode_points(points, log_sides, centres)
    return torch.cat([places, spreads[..., None], points[..., 3:].sigmoid()], 2).cpu()
