import sys
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
import torch

from sim2cam.errors import BackendError
from sim2cam.models.compat import get_model, get_weight
from sim2cam.models.losses.lpips import LPIPS_WEIGHTS, make_lpips_distance

AFTER = (1, 4, 7, 9, 10, 11, 12)
"""Layers of SqueezeNet 1.1 that LPIPS looks at (its ``pretrained_networks.py``)."""


@pytest.fixture
def trunk(monkeypatch, tmp_path):
    """SqueezeNet with drawn weights, where torch looks for those that torchvision publishes."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    model = get_model("squeezenet1_1").eval()
    rng = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, parameter[0].numel() ** -0.5, generator=rng)
    place = tmp_path / "hub" / "checkpoints"
    place.mkdir(parents=True)
    name = Path(get_weight(LPIPS_WEIGHTS["squeeze"]).url).name
    torch.save(model.state_dict(), place / name)
    return model


def pictures(seed):
    return torch.rand((2, 3, 48, 64), generator=torch.Generator().manual_seed(seed))


def test_it_is_the_distance_of_the_paper(trunk):
    """Worked out alone: of features of unit length, squared, weighted by channel, as means over places."""
    distances = make_lpips_distance("squeeze", "cpu")
    first, second = pictures(0), pictures(1)
    weights = [
        one.model[1].weight.detach().double().numpy().reshape(-1) for one in distances.args[0].lins
    ]
    mean, std = (
        np.array(v).reshape(3, 1, 1) for v in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    )
    seen = []
    for rgb in (first, second):
        features = torch.from_numpy((rgb.double().numpy() - mean) / std).float()
        layers = []
        for number, layer in enumerate(trunk.features):
            features = layer(features)
            if number in AFTER:
                found = features.detach().double().numpy()
                layers.append(found / np.linalg.norm(found, axis=1, keepdims=True))
        seen.append(layers)
    wanted = sum(
        (weight[:, None, None] * (one - other) ** 2).sum(1).mean((1, 2))
        for weight, one, other in zip(weights, *seen, strict=True)
    )
    found = distances(first, second)
    assert found.shape == (2,)
    np.testing.assert_allclose(found.detach().numpy(), wanted, rtol=2e-3)
    assert (found > 0).all()
    assert distances(first, first).abs().max() == 0


@pytest.mark.usefixtures("trunk")
def test_pictures_learn_from_it_and_its_network_does_not():
    distances = make_lpips_distance("squeeze", "cpu")
    rgb = pictures(0).requires_grad_(True)
    distances(pictures(1), rgb).sum().backward()
    assert rgb.grad.isfinite().all()
    assert rgb.grad.abs().max() > 0
    assert all(parameter.grad is None for parameter in distances.args[0].parameters())


def test_what_it_needs_is_told(monkeypatch, tmp_path):
    def refuse(*_, **__):
        raise URLError("no route to host")

    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr("torch.hub.urlopen", refuse)
    with pytest.raises(BackendError) as caught:
        make_lpips_distance("vgg", "cpu")
    assert str(caught.value) == (
        "pretrained VGG16_Weights.IMAGENET1K_V1 cannot be downloaded (<urlopen error no route to host>). Download "
        "https://download.pytorch.org/models/vgg16-397923af.pth on a machine with network access, and copy it to "
        f"{tmp_path}/hub/checkpoints."
    )
    monkeypatch.setitem(sys.modules, "lpips", None)
    with pytest.raises(BackendError) as caught:
        make_lpips_distance("vgg", "cpu")
    assert str(caught.value) == (
        'LPIPS needs the package lpips. Run: pip install "sim2cam[lpips]", or set lpips_weight = 0.'
    )
