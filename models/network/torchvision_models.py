"""Torchvision models: names, supported tasks and requirements."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import torch
from torch import nn

from sim2cam.errors import BackendError, UsageError, suggest_name
from sim2cam.models.compat import detection, get_model, has_operators, list_models, segmentation
from sim2cam.models.network.pretrained import check_pretrained

if TYPE_CHECKING:
    from sim2cam.models.training.config import TrainConfig

UNSUPPORTED_FEATURES = {
    "poses": "have no head for surface points",
    "roi_classifier": "do not use RoI crops",
    "min_category_visible": "cannot learn boxes without categories",
    "adapt": "have no feature maps that domain adaptation can align",
    "fine_tuning.residual": "have no residual head",
    "features": "do not share a backbone with sim2cam's architectures",
    "--multi-scale": "predict objects of all sizes at one input scale",
    "scores without labels": "do not return probabilities of all categories",
    "--format onnx": "have no verified ONNX graph",
}
"""Features that torchvision models lack, with the reason."""

_TASK_NAME_PARTS = {"keypoints": "keypoint", "masks": "mask"}
"""Part of a model's name by task."""


def list_torchvision_architectures() -> frozenset[str]:
    """Return the names of torchvision's detection, mask, keypoint and segmentation models."""
    return frozenset(list_models(module=detection)) | _list_segmentation_architectures()


def is_segmentation_architecture(name: str) -> bool:
    """Return whether a model predicts semantic segmentation only."""
    return name in _list_segmentation_architectures()


def make_unsupported_error(name: str, feature: str) -> UsageError:
    """Return the error for a feature in ``UNSUPPORTED_FEATURES``."""
    return UsageError(
        f"{feature} is not supported by {name}: torchvision models {UNSUPPORTED_FEATURES[feature]}. Remove it, "
        "or use one of sim2cam's architectures."
    )


def check_torchvision_config(config: TrainConfig, native_architectures: Collection[str]) -> None:
    """Raise ``UsageError`` if a torchvision model does not exist or cannot be trained with the settings.

    Args:
        native_architectures: names of sim2cam's architectures.
    """
    name, known = config.architecture, list_torchvision_architectures()
    if name not in known:
        hint = suggest_name(name, known.union(native_architectures))
        raise UsageError(f"architecture '{name}' is not known. {hint}")
    if config.pretrained:
        check_pretrained(config.pretrained)
    for setting in ("poses", "roi_classifier", "min_category_visible", "adapt"):
        if getattr(config, setting):
            raise make_unsupported_error(name, setting)
    if config.fine_tuning is not None and config.fine_tuning.residual:
        raise make_unsupported_error(name, "fine_tuning.residual")
    for setting, name_part in _TASK_NAME_PARTS.items():
        learns = name_part in name or (setting == "masks" and is_segmentation_architecture(name))
        if learns != getattr(config, setting):
            raise UsageError(
                f"{name} learns {setting if learns else f'no {setting}'}. Set {setting} = "
                f"{str(learns).lower()} in the recipe's [train], or use another architecture"
            )
    if config.batch < 2:
        raise UsageError(f"{name} uses batch normalization: batch must be 2 or more, not 1")


def check_operators(name: str) -> None:
    """Raise ``BackendError`` if compiled operators of a torchvision model do not load."""
    if has_operators() or name not in list_models(module=detection):
        return
    needed = "nms and roi_align" if "rcnn" in name else "nms"
    raise BackendError(
        f"{name} needs torchvision's compiled operators {needed}, which do not load with torch "
        f"{torch.__version__}. Install both packages from one index in a new environment (make setup "
        f"TORCH_INDEX=URL), or use one of sim2cam's architectures or {', '.join(sorted(_list_segmentation_architectures()))}."
    )


def build_torchvision_model(
    name: str, n_categories: int, generator: torch.Generator, *, n_keypoints: int = 0
) -> nn.Module:
    """Build a torchvision model with random weights; class 0 is the background.

    Args:
        name: name in ``list_torchvision_architectures``.
        generator: random generator of the weights, on the CPU; its state does not change.
        n_keypoints: largest number of keypoints of a category, for a keypoint model.

    Raises:
        BackendError: if compiled operators of the model do not load.
    """
    check_operators(name)
    keypoint_options = {"num_keypoints": n_keypoints} if n_keypoints else {}
    with torch.random.fork_rng(devices=[]):  # torchvision uses the global generator
        torch.set_rng_state(generator.get_state())
        model: nn.Module = get_model(
            name,
            weights=None,
            weights_backbone=None,
            num_classes=1 + n_categories,
            **keypoint_options,
        )
    return model


def _list_segmentation_architectures() -> frozenset[str]:
    return frozenset(list_models(module=segmentation))
