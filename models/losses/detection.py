"""How far what the detector says is from what it should have said."""

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
    "category": 6.0,  # reading categories is the slow part
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
    """A batch of ``Targets`` on the device: the same fields with a leading axis of images."""

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
        """Return the targets of several crops on a device."""
        values = {field.name: getattr(targets, field.name) for field in fields(targets)}
        return cls(
            **{n: torch.from_numpy(v).to(device) for n, v in values.items() if v is not None}
        )


def detector_losses(maps: DetectionMaps, targets: TargetTensors) -> dict[str, Tensor]:
    """Return the terms of the loss, each a mean over objects: ``heat box category``, the last over those
    whose category is learned.

    With keypoints, ``keypoints seen`` are two more; with masks, ``shown votes``, means over cells.
    """
    n_objects = reduce_divisor(targets.object_weight.sum())
    found = {
        "heatmap": heatmap_loss(maps.heatmap.float(), targets.heatmap, targets.heatmap_weight)
        / n_objects,
        "box": _box_loss(maps.log_sides.float(), targets) / n_objects,
        "category": _category_loss(maps.class_logits.float(), targets),
    }
    log_sides = maps.log_sides.float()
    if maps.keypoints is not None and targets.keypoints is not None:
        keypoints = maps.keypoints.float()
        found["keypoints"] = _keypoint_loss(keypoints, log_sides, targets.keypoints, targets)
        found["keypoint_visibility"] = _keypoint_visibility_loss(keypoints, targets)
    if maps.segmentation is not None and targets.semantic is not None:
        found["semantic"] = _semantic_loss(maps.segmentation.float(), targets.semantic)
    if maps.centre_offsets is not None and targets.centre_offsets is not None:
        found["centre_offsets"] = _centre_offset_loss(maps.centre_offsets.float(), targets)
    return found


def roi_category_loss(logits: Tensor, categories: Tensor) -> Tensor:
    """Return the mean cross-entropy of close-ups (n, c), short of those that show no category: -1 (n,)."""
    losses = functional.cross_entropy(
        logits, categories, ignore_index=-1, reduction="sum", label_smoothing=LABEL_SMOOTHING
    )
    return losses / reduce_divisor((categories >= 0).sum())


def surface_losses(
    surface_maps: SurfaceMaps, object_coordinates: Tensor, symmetry_rotations: Tensor
) -> dict[str, Tensor]:
    """Return ``outline``, how badly it is told which cells show the object, and ``surface``, how badly which
    points; means over cells, then over close-ups.

    Coordinates are told as shares of the two bins that they lie between. Of the turns after which an object
    looks the same, the nearest to what is said of the whole close-up counts.

    Args:
        surface_maps: of close-ups, for the category of each.
        object_coordinates: points over the reach of the object (n, 3, h, w), NaN where it is not shown. Where it is
            shown nowhere, nothing is known and nothing learned.
        symmetry_rotations: of each category (n, s, 3, 3).
    """
    is_shown = object_coordinates[:, 0].isfinite()
    cells = is_shown.sum((1, 2))
    known = cells > 0
    outline = functional.binary_cross_entropy_with_logits(
        surface_maps.mask_logits, is_shown.to(surface_maps.mask_logits.dtype), reduction="none"
    ).mean((1, 2))
    turned = torch.einsum("nsij,njhw->nsihw", symmetry_rotations, object_coordinates.nan_to_num())
    with torch.no_grad():
        points, _ = surface_maps.decode_coordinates()
        off = (points[:, None] - turned).abs().sum(2)  # (n, s, h, w)
        nearest = (off * is_shown[:, None]).sum((2, 3)).argmin(1)
    turned = turned[torch.arange(len(turned), device=turned.device), nearest]
    told = _soft_bin_cross_entropy(surface_maps.coordinate_logits.log_softmax(2), turned).mean(1)
    surface = (told * is_shown).sum((1, 2)) / cells.clamp(min=1)
    each = reduce_divisor(known.sum())
    return {
        "surface_mask": (outline * known).sum() / each,
        "surface_coordinates": surface.sum() / each,
    }


def _soft_bin_cross_entropy(log_probability: Tensor, values: Tensor) -> Tensor:
    """Return cross-entropies (n, a, h, w) of values from -1 to 1 and bins (n, a, b, h, w)."""
    last = log_probability.shape[2] - 1
    place = (values.clamp(-1, 1) + 1) / 2 * last
    low = place.floor().clamp(max=last - 1)
    share = place - low
    index = low.long()[:, :, None]
    below, above = (log_probability.gather(2, index + step)[:, :, 0] for step in (0, 1))
    return -((1 - share) * below + share * above)


def total_loss(losses: Mapping[str, Tensor]) -> Tensor:
    """Return the weighted sum of what ``detector_losses`` and those of close-ups returned."""
    return torch.stack([loss * LOSS_WEIGHTS[name] for name, loss in losses.items()]).sum()


def heatmap_loss(logits: Tensor, heatmap: Tensor, weight: Tensor) -> Tensor:
    """Return the summed penalty-reduced focal loss (Zhou et al., Objects as Points, eq. 1)."""
    probability = logits.sigmoid()
    at_centre = -((1 - probability) ** 2) * functional.logsigmoid(logits)
    elsewhere = -((1 - heatmap) ** 4) * probability**2 * functional.logsigmoid(-logits)
    return (torch.where(heatmap == 1, at_centre, elsewhere) * weight).sum()


def generalized_iou(sides: Tensor, target: Tensor) -> Tensor:
    """Return the generalized IoU (n,) of boxes given by positive sides (n, 4) from one point."""
    near, far = torch.minimum(sides, target), torch.maximum(sides, target)
    shared = _compute_areas(near)
    union = _compute_areas(sides) + _compute_areas(target) - shared
    hull = _compute_areas(far)
    return shared / union - (hull - union) / hull


def _compute_areas(sides: Tensor) -> Tensor:
    left, top, right, bottom = sides.unbind(-1)
    return (left + right) * (top + bottom)


def _box_loss(log_sides: Tensor, targets: TargetTensors) -> Tensor:
    chosen = targets.object_weight > 0  # (n, h, w)
    weight = targets.object_weight[chosen]
    said = log_sides.permute(0, 2, 3, 1)[chosen]  # (k, 4)
    truth = targets.log_sides.permute(0, 2, 3, 1)[chosen]
    overlap = 1 - generalized_iou(said.exp() * UNIT_PX, truth.exp() * UNIT_PX)
    return ((overlap + LOG_SIDES_WEIGHT * (said - truth).abs().mean(-1)) * weight).sum()


def _category_loss(logits: Tensor, targets: TargetTensors) -> Tensor:
    weight = targets.object_weight
    if targets.has_category is not None:
        weight = weight * targets.has_category
    chosen = weight > 0
    losses = functional.cross_entropy(
        logits.permute(0, 2, 3, 1)[chosen],
        targets.categories[chosen],
        reduction="none",
        label_smoothing=LABEL_SMOOTHING,
    )
    return (losses * weight[chosen]).sum() / reduce_divisor(weight.sum())


def _keypoint_loss(
    points: Tensor, log_sides: Tensor, target_keypoints: Tensor, targets: TargetTensors
) -> Tensor:
    """Return the mean over objects and points of how far they are off, and of how well that is told.

    Places learn from the distance, in units of the box. The logarithms of spreads learn from their
    likelihood, given that distance (Kendall and Gal 2017, eq. 5, with a Laplace distribution), and nothing
    else does: it would let points that are hard to see, such as hidden ones, go.

    Args:
        points: ``keypoints`` of ``Maps``.
        log_sides: of ``Maps``.
        target_keypoints: those of ``Targets``; what is not known is not learned.
        targets: which cells learn what.
    """
    image, row, column = (targets.object_weight > 0).nonzero(as_tuple=True)  # (k,) each
    truth = target_keypoints[targets.object_indices[image, row, column]]  # (k, p, 2)
    learned = truth.isfinite().flatten(1).any(1)
    image, row, column, truth = image[learned], row[learned], column[learned], truth[learned]
    weight = targets.object_weight[image, row, column]
    said = points[image, targets.categories[image, row, column], :, :, row, column]  # (k, p, 4)
    sides = log_sides.detach()[image, :, row, column]
    centres = (torch.stack([column, row], 1) + 0.5) * STRIDE_PX
    places, spreads, unit_px = decode_points(said, sides, centres)
    known = truth[..., 0].isfinite()  # (k, p)
    truth = torch.where(truth.isfinite(), truth, places.detach())
    off_px = (places - truth).abs().sum(2)
    told = off_px.detach() / spreads + 2 * (spreads / unit_px).log()  # two coordinates
    each = ((off_px / unit_px + told) * known).sum(1) / known.sum(1)
    return (each * weight).sum() / reduce_divisor(weight.sum())


def _keypoint_visibility_loss(keypoints: Tensor, targets: TargetTensors) -> Tensor:
    """Return the mean over objects and known keypoints of how badly it is told which are seen."""
    image, row, column = (targets.object_weight > 0).nonzero(as_tuple=True)
    assert targets.keypoint_visibility is not None  # where keypoints are
    truth = targets.keypoint_visibility[targets.object_indices[image, row, column]]  # (k, p)
    known = truth.isfinite()
    logits = keypoints[image, targets.categories[image, row, column], :, 3, row, column]
    losses = functional.binary_cross_entropy_with_logits(
        logits, truth.nan_to_num(), reduction="none"
    )
    weight = known * targets.object_weight[image, row, column, None]
    return (losses * weight).sum() / reduce_divisor(weight.sum())


def _semantic_loss(logits: Tensor, semantic: Tensor) -> Tensor:
    """Return the mean over the known cells of how badly it is told what they show."""
    losses = functional.cross_entropy(logits, semantic, ignore_index=-1, reduction="sum")
    return losses / reduce_divisor((semantic >= 0).sum())


def _centre_offset_loss(centre_offsets: Tensor, targets: TargetTensors) -> Tensor:
    """Return the mean over the cells of objects of how far their votes are off, in ``UNIT_PX``."""
    assert targets.semantic is not None
    assert targets.centre_offsets is not None
    is_object = targets.semantic > 0
    off = (centre_offsets - targets.centre_offsets).abs().sum(1)
    return (off * is_object).sum() / reduce_divisor(is_object.sum())
