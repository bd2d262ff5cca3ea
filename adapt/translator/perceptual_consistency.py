"""What networks see in renders and in their translations has to be the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor
from torch.nn import functional

from sim2cam.learn.distributed import reduce_divisor

PerceptualDistance = Callable[[Tensor, Tensor], Tensor]
"""How different pictures (n, 3, h, w), 0 to 1, look from others: (n,), 0 or more."""


class DetectorOutput(Protocol):
    """Maps of a detector, of which gradients come back to the pictures."""

    @property
    def heatmap(self) -> Tensor:
        """Logits of an object's centre being here (n, h, w)."""

    @property
    def log_sides(self) -> Tensor:
        """Logarithms of the distances to the edges of the object (n, 4, h, w)."""

    @property
    def class_logits(self) -> Tensor:
        """Logits of the categories (n, c, h, w)."""


@dataclass(frozen=True)
class PerceptionRecord:
    """What a card says of the detector that a training looked through.

    Attributes:
        digest: SHA-256 of its weights.
        ap50: how well it finds objects of renders.
        renders: on how many that was measured.
    """

    digest: str
    ap50: float
    renders: int


@dataclass(frozen=True)
class PerceptionModel:
    """A detector that stays as it is.

    Attributes:
        predict_maps: returns what it says of pictures (n, 3, h, w), 0 to 1.
        record: what the card says of it.
    """

    predict_maps: Callable[[Tensor], DetectorOutput]
    record: PerceptionRecord


def perception_consistency_loss(before: DetectorOutput, after: DetectorOutput) -> Tensor:
    """Return how differently a detector speaks of translations than of the renders, 0 or more.

    It is the sum of three means over the objects that it sees in the renders, each cell weighted by how
    surely it is an object's centre: the Kullback-Leibler divergences of the categories' probabilities and
    of those of a centre being there (which count in all cells, so that nothing appears), and the distances
    of the logarithms of sides.

    Args:
        before: of the renders; no gradient reaches it.
        after: of the translations.
    """
    heat, sides, classes = (
        value.detach().float() for value in (before.heatmap, before.log_sides, before.class_logits)
    )
    there = heat.sigmoid()  # (n, h, w)
    least = functional.binary_cross_entropy(there, there, reduction="sum")
    objects = reduce_divisor(count_objects(before))
    centres = functional.binary_cross_entropy_with_logits(
        after.heatmap.float(), there, reduction="sum"
    )
    names = functional.kl_div(
        after.class_logits.float().log_softmax(1),
        classes.log_softmax(1),
        reduction="none",
        log_target=True,
    ).sum(1)
    edges = (after.log_sides.float() - sides).abs().mean(1)
    return (centres - least + (there * (names + edges)).sum()) / objects


def count_objects(maps: DetectorOutput) -> Tensor:
    """Return over how many objects ``perception_consistency_loss`` is a mean: cells by how surely each is a centre."""
    return maps.heatmap.detach().float().sigmoid().sum()
