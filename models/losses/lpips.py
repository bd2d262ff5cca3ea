"""How different pictures look to networks that were trained on photos."""

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
"""What torchvision calls the weights of each network."""


def check_lpips(network: str) -> None:
    """Refuse to go on without what LPIPS takes; downloads its weights where they are not in the cache of torch.

    Args:
        network: of ``LPIPS_WEIGHTS``.

    Raises:
        BackendError: the package ``lpips`` is missing, or the weights are and cannot be downloaded.
    """
    try:
        import lpips  # noqa: F401
    except ImportError as error:
        raise BackendError(
            'LPIPS needs the package lpips. Run: pip install "sim2cam[lpips]", or set lpips_weight = 0.'
        ) from error
    download_weights(LPIPS_WEIGHTS[network])


def make_lpips_distance(network: str, device: str) -> Callable[[Tensor, Tensor], Tensor]:
    """Return what gives the distances (n,), 0 or more, of pictures (n, 3, h, w), 0 to 1, from others (Zhang et
    al., 2018, "The Unreasonable Effectiveness of Deep Features as a Perceptual Metric", version 0.1).

    Gradients go through it to the pictures, and none to the network.

    Args:
        network: of ``LPIPS_WEIGHTS``.
        device: of the network and the pictures.

    Raises:
        BackendError: as ``check_lpips``.
    """
    check_lpips(network)
    import lpips

    with warnings.catch_warnings():  # it names weights as torchvision did in 2021
        warnings.filterwarnings("ignore", category=UserWarning, module="torchvision")
        model = lpips.LPIPS(net=network, verbose=False)
    model.requires_grad_(requires_grad=False).to(device)
    return functools.partial(_compute_distances, model)


def _compute_distances(model: Callable[..., Tensor], first: Tensor, second: Tensor) -> Tensor:
    return model(first, second, normalize=True).flatten()
