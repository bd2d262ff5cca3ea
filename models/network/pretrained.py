"""Pretrained weights from torchvision or from a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from sim2cam.errors import BackendError, CheckpointError, UsageError
from sim2cam.learn.weight_file import WEIGHTS_SUFFIX
from sim2cam.models.compat import get_weight
from sim2cam.models.network.detector import DetectorNetwork

_PREFIX_MAPS = (
    {"": ""}, {"": "backbone."}, {"": "backbone.body."},
    {"features.": "backbone."}, {"features.": "backbone.body."},
    {"layer1.": "backbone.stages.0.", "layer2.": "backbone.stages.1.", "layer3.": "backbone.stages.2."},
)  # fmt: skip
"""Prefixes of tensor names in a file, and those in the network.

In order: a full model, a classifier as backbone of a detection model, and the stages of a residual network for an
architecture of this project, which has its own stem.
"""

_MIN_MATCHED_SHARE = 0.5  # of the backbone's parameters; a feature pyramid may be missing


def check_pretrained(pretrained: str) -> None:
    """Raise ``UsageError`` if a name is neither a weights file nor weights of torchvision."""
    if pretrained.endswith(WEIGHTS_SUFFIX):
        return
    try:
        get_weight(pretrained)
    except (ValueError, KeyError) as error:
        raise UsageError(
            f"pretrained '{pretrained}' is not known. Give a {WEIGHTS_SUFFIX} file, or a torchvision name such as "
            "FCOS_ResNet50_FPN_Weights.COCO_V1 or, for a backbone, ResNet50_Weights.IMAGENET1K_V2"
        ) from error


def load_pretrained(model: nn.Module, pretrained: str) -> None:
    """Load the pretrained tensors whose names and shapes match those of a network.

    Other tensors keep their values: heads for other categories, and everything but the backbone if the weights
    are those of a classifier.

    Args:
        model: torchvision model or ``DetectorNetwork``.
        pretrained: name or file, see ``check_pretrained``.

    Raises:
        BackendError: if the weights cannot be downloaded.
        CheckpointError: if the file is missing or broken, or the weights are of another backbone.
    """
    pretrained_state = (
        _read_tensors(Path(pretrained))
        if pretrained.endswith(WEIGHTS_SUFFIX)
        else download_weights(pretrained)
    )
    model_state = model.state_dict()
    matching = max(
        (
            _select_matching(pretrained_state, model_state, prefix_map)
            for prefix_map in _PREFIX_MAPS
        ),
        key=_count_elements,
    )
    prefix = "backbone.stages." if isinstance(model, DetectorNetwork) else "backbone."
    backbone = {name: value for name, value in model_state.items() if name.startswith(prefix)}
    n_matched = _count_elements({name: matching[name] for name in backbone if name in matching})
    if n_matched <= _MIN_MATCHED_SHARE * _count_elements(backbone):
        raise CheckpointError(
            Path(pretrained),
            "less than half of the architecture's backbone matches these weights. Use weights of the same model "
            "or of its backbone: ResNet18_Weights for nano and small, ResNet34_Weights for base.",
        )
    model.load_state_dict(matching, strict=False)


def _read_tensors(path: Path) -> Mapping[str, Tensor]:
    if not path.is_file():
        raise CheckpointError(path, "file does not exist. Check the path.")
    try:
        tensors: Mapping[str, Tensor] = load_file(path)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            path, f"not a complete safetensors file ({error}). Copy or write it again."
        ) from error
    return tensors


def download_weights(name: str) -> Mapping[str, Tensor]:
    """Return the tensors of published torchvision weights, downloaded or from the cache of torch.

    Raises:
        BackendError: if the weights cannot be downloaded.
    """
    weights = get_weight(name)
    try:
        tensors: Mapping[str, Tensor] = weights.get_state_dict(
            progress=False, check_hash=True, weights_only=True
        )
    except (OSError, RuntimeError) as error:
        raise BackendError(
            f"pretrained {name} cannot be downloaded ({error}). Download {weights.url} on a machine with network "
            f"access, and copy it to {Path(torch.hub.get_dir(), 'checkpoints')}."
        ) from error
    return tensors


def _select_matching(
    pretrained_state: Mapping[str, Tensor],
    model_state: Mapping[str, Tensor],
    prefix_map: Mapping[str, str],
) -> dict[str, Tensor]:
    """Return the pretrained tensors that match the model, after replacing prefixes of their names."""
    renamed = {
        new_prefix + name.removeprefix(old_prefix): value
        for old_prefix, new_prefix in prefix_map.items()
        for name, value in pretrained_state.items()
        if name.startswith(old_prefix)
    }
    return {
        name: value
        for name, value in renamed.items()
        if name in model_state and model_state[name].shape == value.shape
    }


def _count_elements(tensors: Mapping[str, Tensor]) -> int:
    return sum(value.numel() for value in tensors.values())
