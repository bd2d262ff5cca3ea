"""The losses of the published translators; every loss is a scalar to be made small."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

CHANCE_LOSS = 0.25
"""Half the ``lsgan_loss`` of captures and of made pictures, of verdicts that are all 0.5."""

_TEMPERATURE = 0.07
_MASKED_SIMILARITY = -10.0  # similarity that the place itself gets among the others: it is no other


def lsgan_loss(scores: Tensor, *, is_real: bool) -> Tensor:
    """Return how far verdicts are from 1 (captured) or 0 (LSGAN; Mao et al., 2017)."""
    return (scores - float(is_real)).square().mean()


def patch_nce_loss(after: Tensor, before: Tensor) -> Tensor:
    """Return the mean cross-entropy of finding each place again (PatchNCE; Park et al., 2020).

    A place of the translation has to be liker to its own place in the source than to the other
    places of the same picture.

    Args:
        after, before: unit vectors (n, p, d) of the same p places; no gradient reaches ``before``.
    """
    similar = torch.bmm(after, before.detach().transpose(1, 2))  # (n, p, p)
    own = similar.diagonal(dim1=1, dim2=2).unsqueeze(2)
    itself = torch.eye(similar.shape[1], dtype=torch.bool, device=similar.device)
    others = similar.masked_fill(itself, _MASKED_SIMILARITY)
    scores = torch.cat([own, others], dim=2).flatten(0, 1) / _TEMPERATURE  # (n * p, 1 + p)
    target = torch.zeros(len(scores), dtype=torch.long, device=scores.device)
    return functional.cross_entropy(scores, target)
