"""Batch-norm fusion: networks for inference with batch norms merged into convolutions."""

from __future__ import annotations

import copy
import itertools

import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from sim2cam.models.network.detector import DetectorNetwork


def fuse_batch_norm(network: DetectorNetwork) -> DetectorNetwork:
    """Return a copy of a detector network with batch norms merged into the convolutions, for faster inference.

    Outputs are equal up to rounding (Jacob et al. 2018, "Quantization and training of neural networks", section
    3.2). The copy cannot be trained and has another state dict.

    Args:
        network: network in evaluation mode.
    """
    copied = copy.deepcopy(network)
    with torch.no_grad():
        for module in list(copied.modules()):
            _fuse_children(module)
    return copied.requires_grad_(requires_grad=False).to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def _fuse_children(module: nn.Module) -> None:
    """Fuse each convolution with the batch norm after it; children must be in order of use."""
    children = list(module.named_children())
    for (name, child), (next_name, following) in itertools.pairwise(children):
        if isinstance(child, nn.Conv2d) and isinstance(following, nn.BatchNorm2d):
            setattr(module, name, fuse_conv_bn_eval(child, following))
            setattr(module, next_name, nn.Identity().eval())
