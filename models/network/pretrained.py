"""Weights that networks begin with: those that torchvision publishes, or a file of others."""

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
"""What names of tensors begin with in a file, and in the network: all of one, a classifier as its backbone, or a
residual network's stages as those of an own architecture, whose stem is another."""

_MIN_MATCHED_SHARE = 0.5  # of the backbone's numbers: a pyramid above it may be new


def check_pretrained(pretrained: str) -> None:
    """Refuse what names neither a file nor weights of torchvision.

    Raises:
        UsageError: telling what does.
    """
    if pretrained.endswith(WEIGHTS_SUFFIX):
        return
    try:
        get_weight(pretrained)
    except (ValueError, KeyError) as error:
        raise UsageError(
            f"pretrained '{pretrained}' is not known. Give a {WEIGHTS_SUFFIX} file, or a name of torchvision's, as "
            "FCOS_ResNet50_FPN_Weights.COCO_V1 or, of a backbone, ResNet50_Weights.IMAGENET1K_V2"
        ) from error


def load_pretrained(model: nn.Module, pretrained: str) -> None:
    """Give a network the pretrained tensors whose names and shapes are its own.

    The others stay as they are: heads for other categories, and all but the backbone where the weights are
    a classifier's.

    Args:
        model: as torchvision makes it, or an own ``DetectorNetwork``.
        pretrained: as ``check_pretrained`` lets it pass.

    Raises:
        BackendError: they cannot be downloaded.
        CheckpointError: the file is missing or broken, or the weights are of another backbone.
    """
    given = (
        _read_tensors(Path(pretrained))
        if pretrained.endswith(WEIGHTS_SUFFIX)
        else download_weights(pretrained)
    )
    own = model.state_dict()
    taken = max(
        (_select_matching(given, own, place) for place in _PREFIX_MAPS), key=_count_elements
    )
    prefix = "backbone.stages." if isinstance(model, DetectorNetwork) else "backbone."
    backbone = {name: value for name, value in own.items() if name.startswith(prefix)}
    found = _count_elements({name: taken[name] for name in backbone if name in taken})
    if found <= _MIN_MATCHED_SHARE * _count_elements(backbone):
        raise CheckpointError(
            Path(pretrained),
            "less than half of the architecture's backbone is in these weights. Take those of the whole model, "
            "or of the backbone in its name; of nano and small ResNet18_Weights, of base ResNet34_Weights.",
        )
    model.load_state_dict(taken, strict=False)


def _read_tensors(path: Path) -> Mapping[str, Tensor]:
    if not path.is_file():
        raise CheckpointError(path, "no such weights. Check the path.")
    try:
        found: Mapping[str, Tensor] = load_file(path)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            path, f"not a whole safetensors file ({error}). Copy or write it again."
        ) from error
    return found


def download_weights(name: str) -> Mapping[str, Tensor]:
    """Return the tensors of weights that torchvision publishes, which are kept in the cache of torch.

    Raises:
        BackendError: they are not there and cannot be downloaded.
    """
    weights = get_weight(name)
    try:
        found: Mapping[str, Tensor] = weights.get_state_dict(
            progress=False, check_hash=True, weights_only=True
        )
    except (OSError, RuntimeError) as error:
        raise BackendError(
            f"pretrained {name} cannot be downloaded ({error}). Download {weights.url} where there is a "
            f"network, and put it into {Path(torch.hub.get_dir(), 'checkpoints')}."
        ) from error
    return found


def _select_matching(
    pretrained_state: Mapping[str, Tensor],
    model_state: Mapping[str, Tensor],
    prefix_map: Mapping[str, str],
) -> dict[str, Tensor]:
    """Return the given tensors that fit, by their own names, where prefixes stand for others."""
    renamed = {
        after + name.removeprefix(before): value
        for before, after in prefix_map.items()
        for name, value in pretrained_state.items()
        if name.startswith(before)
    }
    return {
        n: v for n, v in renamed.items() if n in model_state and model_state[n].shape == v.shape
    }


def _count_elements(tensors: Mapping[str, Tensor]) -> int:
    return sum(value.numel() for value in tensors.values())
