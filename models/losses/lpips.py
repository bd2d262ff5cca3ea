"""LPIPS: a perceptual distance between images."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable

from torch import Tensor

from sim2cam.errors import BackendError
from sim2cam.models.network.pretrained import download_weights

LPIPS_WEIGHTS = {
    "vgg": "VGG16_Weights.IMAGENET1K_V1",
    "alex": "AlexNet_Weights.IMAGENET1K_V1",
    "squeeze": "SqueezeNet1_1_Weights.IMAGENET1K_V1",
}
"""Torchvision's name of each network's weights."""


def check_lpips(network: str) -> None:
    """Raise ``BackendError`` if LPIPS cannot run; download its weights if needed.

    Args:
        network: key of ``LPIPS_WEIGHTS``.
    """
    try:
        import lpips  # noqa: F401
    except ImportError as error:
        raise BackendError(
            'LPIPS needs the package lpips. Run: pip install "sim2cam[lpips]", or set lpips_weight = 0.'
        ) from error
    download_weights(LPIPS_WEIGHTS[network])


def make_lpips_distance(network: str, device: str) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a function for the LPIPS distances (n,) of two batches of images (n, 3, h, w), 0 to 1.

    Zhang et al. (2018, "The Unreasonable Effectiveness of Deep Features as a Perceptual Metric"), version 0.1.
    Gradients reach the images but not the network.

    Args:
        network: key of ``LPIPS_WEIGHTS``.

    Raises:
        BackendError: see ``check_lpips``.
    """
    check_lpips(network)
    import lpips

    with warnings.catch_warnings():  # lpips uses a deprecated argument of torchvision
        warnings.filterwarnings("ignore", category=UserWarning, module="torchvision")
        model = lpips.LPIPS(net=network, verbose=False)
    model.requires_grad_(requires_grad=False).to(device)
    return functools.partial(_compute_distances, model)


def _compute_distances(model: Callable[..., Tensor], first: Tensor, second: Tensor) -> Tensor:
    return model(first, second, normalize=True).flatten()
