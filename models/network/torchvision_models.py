"""Models of torchvision by their names: which there are, what each can do, and what it needs."""

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
    "poses": "has no head for points of surfaces",
    "roi_classifier": "reads no close-ups",
    "min_category_visible": "learns no box without its category",
    "adapt": "has no cells at which captures could be held against renders",
    "fine_tuning.residual": "has no head that corrects others",
    "features": "has no trunk in common with ours, whose features are asked for",
    "scores without labels": "gives no probabilities of all categories",
    "--format onnx": "is no graph that onnxruntime is known to compute alike",
}
"""What models of torchvision are asked for in vain, and why."""

_TASK_NAME_PARTS = {"keypoints": "keypoint", "masks": "mask"}
"""What names of models that learn it hold."""


def list_torchvision_architectures() -> frozenset[str]:
    """Return the names of torchvision's models for detection, masks, keypoints and segmentation."""
    return frozenset(list_models(module=detection)) | _list_segmentation_architectures()


def is_segmentation_architecture(name: str) -> bool:
    """Return whether a model says what every pixel shows, and nothing of objects."""
    return name in _list_segmentation_architectures()


def make_unsupported_error(name: str, feature: str) -> UsageError:
    """Return the error of asking a model for one of ``UNSUPPORTED_FEATURES``."""
    return UsageError(
        f"{feature}: {name} is a model of torchvision, which {UNSUPPORTED_FEATURES[feature]}. Leave it out, or take one of "
        "sim2cam's own architectures."
    )


def check_torchvision_config(config: TrainConfig, native_architectures: Collection[str]) -> None:
    """Refuse a training of a model that is not there, or cannot learn what is asked.

    Args:
        config: of the training.
        native_architectures: names of sim2cam's own architectures.

    Raises:
        UsageError: naming the setting.
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
    for setting, word in _TASK_NAME_PARTS.items():
        learns = word in name or (setting == "masks" and is_segmentation_architecture(name))
        if learns != getattr(config, setting):
            raise UsageError(
                f"{name} learns {setting if learns else f'no {setting}'}: set {setting} = "
                f"{str(learns).lower()} in the recipe's [train], or take another architecture"
            )
    if config.batch < 2:
        raise UsageError(f"{name} normalizes over batches: batch must be 2 or more, not 1")


def check_operators(name: str) -> None:
    """Refuse a model whose compiled operators are missing; one of sim2cam's own needs none.

    Raises:
        BackendError: they do not load.
    """
    if has_operators() or name not in list_models(module=detection):
        return
    needed = "nms and roi_align" if "rcnn" in name else "nms"
    raise BackendError(
        f"{name} needs torchvision's compiled operators {needed}, which do not load beside torch "
        f"{torch.__version__}. Take both packages from one index, in a new environment: make setup "
        f"TORCH_INDEX=URL; or take one of sim2cam's own architectures, or {', '.join(sorted(_list_segmentation_architectures()))}."
    )


def build_torchvision_model(
    name: str, n_categories: int, generator: torch.Generator, *, n_keypoints: int = 0
) -> nn.Module:
    """Return a model of torchvision with weights from scratch; class 0 is the background.

    Args:
        name: of ``list_torchvision_architectures``.
        n_categories: how many categories it tells apart.
        generator: source of its weights, on the CPU; its state stays as it is.
        n_keypoints: how many named points a category has at most, of a model that learns some.

    Raises:
        BackendError: the compiled operators that it needs do not load.
    """
    check_operators(name)
    more = {"num_keypoints": n_keypoints} if n_keypoints else {}
    with torch.random.fork_rng(devices=[]):  # torchvision draws weights from the global generator
        torch.set_rng_state(generator.get_state())
        model: nn.Module = get_model(
            name, weights=None, weights_backbone=None, num_classes=1 + n_categories, **more
        )
    return model


def _list_segmentation_architectures() -> frozenset[str]:
    return frozenset(list_models(module=segmentation))
