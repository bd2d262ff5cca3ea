"""Perception consistency: detector outputs on renders and on translations should agree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor
from torch.nn import functional

from sim2cam.learn.distributed import reduce_divisor

PerceptualDistance = Callable[[Tensor, Tensor], Tensor]
"""Perceptual distances (n,) between two batches of images (n, 3, h, w), 0 to 1."""


class DetectorOutput(Protocol):
    """Differentiable output maps of a detector."""

    @property
    def heatmap(self) -> Tensor:
        """Logits of object centres (n, h, w)."""

    @property
    def log_sides(self) -> Tensor:
        """Log distances to the box edges (n, 4, h, w)."""

    @property
    def class_logits(self) -> Tensor:
        """Logits of the categories (n, c, h, w)."""


@dataclass(frozen=True)
class PerceptionRecord:
    """Record of the detector of a training in its card.

    Attributes:
        digest: SHA-256 of its weights.
        ap50: its AP50 on renders.
        renders: number of renders of that evaluation.
    """

    digest: str
    ap50: float
    renders: int


@dataclass(frozen=True)
class PerceptionModel:
    """A frozen detector.

    Attributes:
        predict_maps: function from images (n, 3, h, w), 0 to 1, to output maps.
        record: record for the card.
    """

    predict_maps: Callable[[Tensor], DetectorOutput]
    record: PerceptionRecord


def perception_consistency_loss(before: DetectorOutput, after: DetectorOutput) -> Tensor:
    """Return the disagreement of a detector on renders and translations, 0 or more.

    It is the sum of the KL divergence of centre probabilities over all cells, and of the KL divergence of categories
    and the mean absolute difference of log box sides, both weighted by the centre probability on the renders. The
    sum is divided by the expected number of objects.

    Args:
        before: output on the renders; gets no gradient.
        after: output on the translations.
    """
    heatmap, log_sides, class_logits = (
        value.detach().float() for value in (before.heatmap, before.log_sides, before.class_logits)
    )
    centre_probability = heatmap.sigmoid()  # (n, h, w)
    entropy = functional.binary_cross_entropy(
        centre_probability, centre_probability, reduction="sum"
    )
    object_count = reduce_divisor(count_objects(before))
    centre_cross_entropy = functional.binary_cross_entropy_with_logits(
        after.heatmap.float(), centre_probability, reduction="sum"
    )
    class_divergence = functional.kl_div(
        after.class_logits.float().log_softmax(1),
        class_logits.log_softmax(1),
        reduction="none",
        log_target=True,
    ).sum(1)
    box_distance = (after.log_sides.float() - log_sides).abs().mean(1)
    return (
        centre_cross_entropy
        - entropy
        + (centre_probability * (class_divergence + box_distance)).sum()
    ) / object_count


def count_objects(maps: DetectorOutput) -> Tensor:
    """Return the expected number of objects, by which ``perception_consistency_loss`` is divided."""
    return maps.heatmap.detach().float().sigmoid().sum()
