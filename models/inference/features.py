"""Backbone features as vectors for comparing images."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from sim2cam.learn.device import autocast
from sim2cam.models.inference.detector import NativeDetector


@torch.inference_mode()
def extract_backbone_features(
    detector: NativeDetector, rgb: NDArray[np.uint8]
) -> NDArray[np.float64]:
    """Return the mean of each backbone channel over an image, fine to coarse.

    Args:
        detector: detector from ``load_detector``; its heads and input scale are not used.
        rgb: (h, w, 3) of any size.
    """
    network = detector.network
    image = torch.from_numpy(np.array(rgb)).to(network.mean.device).permute(2, 0, 1)[None]
    with autocast(network.mean.device):
        maps = network.backbone((image - network.mean) / network.std)
    means = [feature_map[0].float().mean(dim=(1, 2)) for feature_map in maps]
    return torch.cat(means).double().cpu().numpy()
