"""Losses of the reference translators."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

CHANCE_LOSS = 0.25
"""Loss of a discriminator whose scores are all 0.5: half the ``lsgan_loss`` on real and generated images."""

_TEMPERATURE = 0.07
_MASKED_SIMILARITY = -10.0  # of a location to itself, which is no negative


def lsgan_loss(scores: Tensor, *, is_real: bool) -> Tensor:
    """Return the mean squared distance of scores from 1 (real) or 0 (LSGAN; Mao et al., 2017)."""
    return (scores - float(is_real)).square().mean()


def patch_nce_loss(after: Tensor, before: Tensor) -> Tensor:
    """Return the patchwise contrastive loss (PatchNCE; Park et al., 2020).

    The features of a location in the translation must be more similar to those of the same location in the source
    than to those of other locations of the same image.

    Args:
        after, before: unit vectors (n, p, d) at the same p locations; ``before`` gets no gradient.
    """
    similarity = torch.bmm(after, before.detach().transpose(1, 2))  # (n, p, p)
    positive = similarity.diagonal(dim1=1, dim2=2).unsqueeze(2)
    is_self = torch.eye(similarity.shape[1], dtype=torch.bool, device=similarity.device)
    negatives = similarity.masked_fill(is_self, _MASKED_SIMILARITY)
    logits = torch.cat([positive, negatives], dim=2).flatten(0, 1) / _TEMPERATURE  # (n * p, 1 + p)
    target = torch.zeros(len(logits), dtype=torch.long, device=logits.device)
    return functional.cross_entropy(logits, target)
