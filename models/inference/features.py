"""Features: what a detector's trunk sees in a picture, as a vector that pictures can be compared by."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from sim2cam.learn.device import autocast
from sim2cam.models.inference.detector import NativeDetector
from sim2cam.models.network.backbones import BACKBONE_CHANNELS

FEATURE_DIM = sum(BACKBONE_CHANNELS)
"""Numbers of a picture."""


@torch.inference_mode()
def extract_backbone_features(
    detector: NativeDetector, rgb: NDArray[np.uint8]
) -> NDArray[np.float64]:
    """Return the means over a picture of all channels of the trunk, fine to coarse; of a residual trunk they
    are ``FEATURE_DIM``.

    Args:
        detector: from ``load_detector``; its heads and its magnification have no part in it.
        rgb: (h, w, 3) of any size.
    """
    network = detector.network
    image = torch.from_numpy(np.array(rgb)).to(network.mean.device).permute(2, 0, 1)[None]
    with autocast(network.mean.device):
        maps = network.backbone((image - network.mean) / network.std)
    return torch.cat([m[0].float().mean(dim=(1, 2)) for m in maps]).double().cpu().numpy()
