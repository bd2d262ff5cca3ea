"""Convolutions of our own beside the library's: results and gradients."""

import pytest
import torch
from torch import nn

from sim2cam.adapt.reference import convolutions
from sim2cam.adapt.reference.convolutions import Conv3x3, ImageConv
from sim2cam.adapt.reference.networks import initialise_weights


@pytest.fixture(autouse=True)
def in_tiles(monkeypatch):
    """Also where they do not pay."""
    monkeypatch.setattr(convolutions, "TILES_PAY", True)


KINDS = {
    "without edges": (lambda: Conv3x3(3, 5), 2),
    "with edges": (lambda: Conv3x3(3, 5, padding=1), 0),
    "of a picture": (lambda: ImageConv(3, 5, 7), 6),
}


def results(conv, features, convolve):
    """What a convolution returns, and the gradients of its features, weights and offsets."""
    features.grad = None
    conv.zero_grad(set_to_none=True)
    found = convolve(features)
    found.backward(torch.linspace(-1, 1, found.numel(), dtype=found.dtype).view_as(found))
    return [found.detach(), features.grad, conv.weight.grad, conv.bias.grad]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sides", [(8, 12), (4, 4), (9, 8), (8, 6)])
def test_they_equal_the_library_s(kind, sides):
    """Also those of sides that tiles do not fill."""
    made, more = KINDS[kind]
    rng = torch.Generator().manual_seed(0)
    conv = made().double()
    initialise_weights(conv, rng, xavier=False)
    size = (2, 3, *(side + more for side in sides))
    features = torch.randn(size, dtype=torch.float64, generator=rng).requires_grad_()
    ours = results(conv, features, conv)
    theirs = results(conv, features, lambda x: nn.Conv2d.forward(conv, x))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-11)


def test_single_precision_loses_hardly_more_than_the_library():
    """Of features and sums around 1; both are told apart from the sum in double precision."""
    rng = torch.Generator().manual_seed(0)
    conv, features = Conv3x3(256, 32), torch.randn(1, 256, 34, 34, generator=rng)
    initialise_weights(conv, rng, xavier=False)
    with torch.no_grad():
        exact = nn.functional.conv2d(features.double(), conv.weight.double(), conv.bias.double())
        assert 0.9 < float(exact.std()) < 1.0
        assert float((conv(features) - exact).abs().max()) < 1e-4


def test_only_gradients_that_are_asked_for_are_worked_out():
    conv, features = Conv3x3(2, 3), torch.randn(1, 2, 6, 6)
    conv.requires_grad_(False)
    assert not conv(features).requires_grad
    conv(features.requires_grad_()).sum().backward()
    assert features.grad is not None
    assert conv.weight.grad is None
    conv.requires_grad_(True)
    features = features.detach()
    conv(features).sum().backward()
    assert conv.weight.grad is not None
    assert features.grad is None
