"""Training losses of the detector network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import torch
from torch import Tensor
from torch.nn import functional

from sim2cam.learn.distributed import reduce_divisor
from sim2cam.models.network.detector import STRIDE_PX, UNIT_PX, DetectionMaps, decode_points
from sim2cam.models.network.roi_classifier import SurfaceMaps
from sim2cam.models.network.targets import DetectorTargets

LOSS_WEIGHTS = {
    "heatmap": 1.0,
    "box": 1.0,
    "category": 6.0,  # categories are learned slowest
    "keypoints": 2.0,
    "keypoint_visibility": 2.0,
    "semantic": 1.0,
    "centre_offsets": 1.0,
    "roi_category": 1.0,
    "surface_mask": 1.0,
    "surface_coordinates": 2.0,
}
LABEL_SMOOTHING = 0.02
LOG_SIDES_WEIGHT = 0.5


@dataclass(frozen=True)
class TargetTensors:
    """``DetectorTargets`` of a batch as tensors, with a leading axis of images."""

    heatmap: Tensor
    heatmap_weight: Tensor
    log_sides: Tensor
    categories: Tensor
    object_weight: Tensor
    object_indices: Tensor
    keypoints: Tensor | None = None
    keypoint_visibility: Tensor | None = None
    semantic: Tensor | None = None
    centre_offsets: Tensor | None = None
    has_category: Tensor | None = None

    @classmethod
    def from_targets(cls, targets: DetectorTargets, device: torch.device) -> TargetTensors:
        """Convert the targets of several crops to tensors on a device."""
        values = {field.name: getattr(targets, field.name) for field in fields(targets)}
        return cls(
            **{
                name: torch.from_numpy(value).to(device)
                for name, value in values.items()
                if value is not None
            }
        )


def detector_losses(maps: DetectionMaps, targets: TargetTensors) -> dict[str, Tensor]:
    """Return the losses by name, each a mean over objects: ``heatmap``, ``box`` and ``category``.

    With keypoints also ``keypoints`` and ``keypoint_visibility``; with masks ``semantic`` and ``centre_offsets``, means
    over cells.
    """
    n_objects = reduce_divisor(targets.object_weight.sum())
    losses = {
        "heatmap": heatmap_loss(maps.heatmap.float(), targets.heatmap, targets.heatmap_weight)
        / n_objects,
        "box": _box_loss(maps.log_sides.float(), targets) / n_objects,
        "category": _category_loss(maps.class_logits.float(), targets),
    }
    log_sides = maps.log_sides.float()
    if maps.keypoints is not None and targets.keypoints is not None:
        keypoints = maps.keypoints.float()
        losses["keypoints"] = _keypoint_loss(keypoints, log_sides, targets.keypoints, targets)
        losses["keypoint_visibility"] = _keypoint_visibility_loss(keypoints, targets)
    if maps.segmentation is not None and targets.semantic is not None:
        losses["semantic"] = _semantic_loss(maps.segmentation.float(), targets.semantic)
    if maps.centre_offsets is not None and targets.centre_offsets is not None:
        losses["centre_offsets"] = _centre_offset_loss(maps.centre_offsets.float(), targets)
    return losses


def roi_category_loss(logits: Tensor, categories: Tensor) -> Tensor:
    """Return the mean cross-entropy of RoI crops (n, c); category -1 is ignored."""
    losses = functional.cross_entropy(
        logits, categories, ignore_index=-1, reduction="sum", label_smoothing=LABEL_SMOOTHING
    )
    return losses / reduce_divisor((categories >= 0).sum())


def surface_losses(
    surface_maps: SurfaceMaps, object_coordinates: Tensor, symmetry_rotations: Tensor
) -> dict[str, Tensor]:
    """Return ``surface_mask`` and ``surface_coordinates``, means over cells and then over RoI crops.

    A coordinate is a soft label of the two neighbouring bins. Of the object's symmetries the one nearest to the
    prediction counts.

    Args:
        surface_maps: predictions for RoI crops of known category.
        object_coordinates: normalized object coordinates (n, 3, h, w), NaN outside the object; crops without any
            are ignored.
        symmetry_rotations: symmetry rotations of each crop's category (n, s, 3, 3).
    """
    is_object = object_coordinates[:, 0].isfinite()
    n_cells = is_object.sum((1, 2))
    is_known = n_cells > 0
    mask_loss = functional.binary_cross_entropy_with_logits(
        surface_maps.mask_logits, is_object.to(surface_maps.mask_logits.dtype), reduction="none"
    ).mean((1, 2))
    symmetric = torch.einsum(
        "nsij,njhw->nsihw", symmetry_rotations, object_coordinates.nan_to_num()
    )
    with torch.no_grad():
        points, _ = surface_maps.decode_coordinates()
        distances = (points[:, None] - symmetric).abs().sum(2)  # (n, s, h, w)
        nearest = (distances * is_object[:, None]).sum((2, 3)).argmin(1)
    symmetric = symmetric[torch.arange(len(symmetric), device=symmetric.device), nearest]
    cell_losses = _soft_bin_cross_entropy(
        surface_maps.coordinate_logits.log_softmax(2), symmetric
    ).mean(1)
    coordinate_loss = (cell_losses * is_object).sum((1, 2)) / n_cells.clamp(min=1)
    n_known = reduce_divisor(is_known.sum())
    return {
        "surface_mask": (mask_loss * is_known).sum() / n_known,
        "surface_coordinates": coordinate_loss.sum() / n_known,
    }


def _soft_bin_cross_entropy(log_probability: Tensor, values: Tensor) -> Tensor:
    """Return cross-entropies (n, a, h, w) of values from -1 to 1 with log bin probabilities (n, a, b, h, w)."""
    last_bin = log_probability.shape[2] - 1
    position = (values.clamp(-1, 1) + 1) / 2 * last_bin
    low = position.floor().clamp(max=last_bin - 1)
    fraction = position - low
    index = low.long()[:, :, None]
    below, above = (log_probability.gather(2, index + step)[:, :, 0] for step in (0, 1))
    return -((1 - fraction) * below + fraction * above)


def total_loss(losses: Mapping[str, Tensor]) -> Tensor:
    """Return the weighted sum of losses by name, with ``LOSS_WEIGHTS``."""
    return torch.stack([loss * LOSS_WEIGHTS[name] for name, loss in losses.items()]).sum()


def heatmap_loss(logits: Tensor, heatmap: Tensor, weight: Tensor) -> Tensor:
    """Return the summed penalty-reduced focal loss (Zhou et al. 2019, "Objects as Points", equation 1)."""
    probability = logits.sigmoid()
    at_centre = -((1 - probability) ** 2) * functional.logsigmoid(logits)
    elsewhere = -((1 - heatmap) ** 4) * probability**2 * functional.logsigmoid(-logits)
    return (torch.where(heatmap == 1, at_centre, elsewhere) * weight).sum()


def generalized_iou(sides: Tensor, target: Tensor) -> Tensor:
    """Return the generalized IoU (n,) of boxes given by distances (n, 4) from a point to their sides."""
    smaller, larger = torch.minimum(sides, target), torch.maximum(sides, target)
    intersection = _compute_areas(smaller)
    union = _compute_areas(sides) + _compute_areas(target) - intersection
    hull = _compute_areas(larger)
    return intersection / union - (hull - union) / hull


def _compute_areas(sides: Tensor) -> Tensor:
    left, top, right, bottom = sides.unbind(-1)
    return (left + right) * (top + bottom)


def _box_loss(log_sides: Tensor, targets: TargetTensors) -> Tensor:
    is_positive = targets.object_weight > 0  # (n, h, w)
    weight = targets.object_weight[is_positive]
    predicted = log_sides.permute(0, 2, 3, 1)[is_positive]  # (k, 4)
    truth = targets.log_sides.permute(0, 2, 3, 1)[is_positive]
    iou_loss = 1 - generalized_iou(predicted.exp() * UNIT_PX, truth.exp() * UNIT_PX)
    return ((iou_loss + LOG_SIDES_WEIGHT * (predicted - truth).abs().mean(-1)) * weight).sum()


def _category_loss(logits: Tensor, targets: TargetTensors) -> Tensor:
    weight = targets.object_weight
    if targets.has_category is not None:
        weight = weight * targets.has_category
    is_positive = weight > 0
    losses = functional.cross_entropy(
        logits.permute(0, 2, 3, 1)[is_positive],
        targets.categories[is_positive],
        reduction="none",
        label_smoothing=LABEL_SMOOTHING,
    )
    return (losses * weight[is_positive]).sum() / reduce_divisor(weight.sum())


def _keypoint_loss(
    points: Tensor, log_sides: Tensor, target_keypoints: Tensor, targets: TargetTensors
) -> Tensor:
    """Return the mean position loss and likelihood loss of keypoints.

    Positions learn from the distance relative to the box. Log uncertainties learn from the Laplace likelihood of
    this distance (Kendall and Gal 2017, equation 5) without gradients to the positions, which would otherwise give
    up on difficult keypoints.

    Args:
        target_keypoints: keypoints of ``DetectorTargets``; unknown ones are ignored.
    """
    image, row, column = (targets.object_weight > 0).nonzero(as_tuple=True)  # (k,) each
    truth = target_keypoints[targets.object_indices[image, row, column]]  # (k, p, 2)
    has_keypoint = truth.isfinite().flatten(1).any(1)
    image, row, column, truth = (
        image[has_keypoint],
        row[has_keypoint],
        column[has_keypoint],
        truth[has_keypoint],
    )
    weight = targets.object_weight[image, row, column]
    outputs = points[image, targets.categories[image, row, column], :, :, row, column]  # (k, p, 4)
    sides = log_sides.detach()[image, :, row, column]
    centres = (torch.stack([column, row], 1) + 0.5) * STRIDE_PX
    points_xy, uncertainties, unit_px = decode_points(outputs, sides, centres)
    is_known = truth[..., 0].isfinite()  # (k, p)
    truth = torch.where(truth.isfinite(), truth, points_xy.detach())
    distances_px = (points_xy - truth).abs().sum(2)
    # two coordinates
    likelihood_losses = distances_px.detach() / uncertainties + 2 * (uncertainties / unit_px).log()
    object_losses = ((distances_px / unit_px + likelihood_losses) * is_known).sum(1) / is_known.sum(
        1
    )
    return (object_losses * weight).sum() / reduce_divisor(weight.sum())


def _keypoint_visibility_loss(keypoints: Tensor, targets: TargetTensors) -> Tensor:
    """Return the mean cross-entropy of keypoint visibility over objects and known keypoints."""
    image, row, column = (targets.object_weight > 0).nonzero(as_tuple=True)
    assert targets.keypoint_visibility is not None  # given together with keypoints
    truth = targets.keypoint_visibility[targets.object_indices[image, row, column]]  # (k, p)
    is_known = truth.isfinite()
    logits = keypoints[image, targets.categories[image, row, column], :, 3, row, column]
    losses = functional.binary_cross_entropy_with_logits(
        logits, truth.nan_to_num(), reduction="none"
    )
    weight = is_known * targets.object_weight[image, row, column, None]
    return (losses * weight).sum() / reduce_divisor(weight.sum())


def _semantic_loss(logits: Tensor, semantic: Tensor) -> Tensor:
    """Return the mean cross-entropy over the known cells."""
    losses = functional.cross_entropy(logits, semantic, ignore_index=-1, reduction="sum")
    return losses / reduce_divisor((semantic >= 0).sum())


def _centre_offset_loss(centre_offsets: Tensor, targets: TargetTensors) -> Tensor:
    """Return the mean L1 error of centre offsets over the cells of objects, in ``UNIT_PX``."""
    assert targets.semantic is not None
    assert targets.centre_offsets is not None
    is_object = targets.semantic > 0
    errors = (centre_offsets - targets.centre_offsets).abs().sum(1)
    return (errors * is_object).sum() / reduce_divisor(is_object.sum())
