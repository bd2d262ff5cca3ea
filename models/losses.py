"""How far what the detector says is from what it should have said."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from sim2cam.models.detector import UNIT_PX, Maps

LABEL_SMOOTHING = 0.02
SIDES_WEIGHT = 0.5


@dataclass(frozen=True)
class TargetTensors:
    """A batch of ``Targets`` on the device: the same fields with a leading axis of images."""

    heat: Tensor
    heat_weight: Tensor
    log_sides: Tensor
    categories: Tensor
    object_weight: Tensor


def detector_losses(maps: Maps, targets: TargetTensors) -> dict[str, Tensor]:
    """Returns the terms of the loss, each a mean over objects: ``heat box category``."""
    n_objects = targets.object_weight.sum().clamp(min=1.0)
    return {
        "heat": heat_loss(maps.heat.float(), targets.heat, targets.heat_weight) / n_objects,
        "box": _box_loss(maps.log_sides.float(), targets) / n_objects,
        "category": _category_loss(maps.classes.float(), targets) / n_objects,
    }


def heat_loss(logits: Tensor, heat: Tensor, weight: Tensor) -> Tensor:
    """Returns the summed penalty-reduced focal loss (Zhou et al., Objects as Points, eq. 1)."""
    probability = logits.sigmoid()
    at_centre = -((1 - probability) ** 2) * functional.logsigmoid(logits)
    elsewhere = -((1 - heat) ** 4) * probability**2 * functional.logsigmoid(-logits)
    return (torch.where(heat == 1, at_centre, elsewhere) * weight).sum()


def generalized_iou(sides: Tensor, target: Tensor) -> Tensor:
    """Returns the generalized IoU (n,) of boxes given by positive sides (n, 4) from one point."""
    near, far = torch.minimum(sides, target), torch.maximum(sides, target)
    shared = _area(near)
    union = _area(sides) + _area(target) - shared
    hull = _area(far)
    return shared / union - (hull - union) / hull


def _area(sides: Tensor) -> Tensor:
    left, top, right, bottom = sides.unbind(-1)
    return (left + right) * (top + bottom)


def _box_loss(log_sides: Tensor, targets: TargetTensors) -> Tensor:
    chosen = targets.object_weight > 0  # (n, h, w)
    weight = targets.object_weight[chosen]
    said = log_sides.permute(0, 2, 3, 1)[chosen]  # (k, 4)
    truth = targets.log_sides.permute(0, 2, 3, 1)[chosen]
    overlap = 1 - generalized_iou(said.exp() * UNIT_PX, truth.exp() * UNIT_PX)
    return ((overlap + SIDES_WEIGHT * (said - truth).abs().mean(-1)) * weight).sum()


def _category_loss(logits: Tensor, targets: TargetTensors) -> Tensor:
    chosen = targets.object_weight > 0
    losses = functional.cross_entropy(
        logits.permute(0, 2, 3, 1)[chosen],
        targets.categories[chosen],
        reduction="none",
        label_smoothing=LABEL_SMOOTHING,
    )
    return (losses * targets.object_weight[chosen]).sum()
