"""When a training ends before its last step: labelled captures find nothing better any more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

LOOKS = 20
"""How often the weights of a whole training are looked at."""


class Looks:
    """How good weights were on captures after some steps, and the best of them.

    Early stopping with patience (Prechelt 1998, "Early stopping: but when?").

    Args:
        patience: looks without anything better after which the training is over.
        looks: steps and scores of those before; ``best`` belongs to them.
        best: the weights of the best one.
    """

    def __init__(
        self,
        patience: int,
        looks: Sequence[tuple[int, float]] = (),
        best: Mapping[str, Tensor] | None = None,
    ) -> None:
        self._patience = patience
        self.looks = [(int(step), float(score)) for step, score in looks]
        self.best = dict(best or {})

    @property
    def best_step(self) -> int:
        """The step after which the weights were best; the first of equals."""
        return max(self.looks, key=lambda look: look[1])[0]

    @property
    def are_over(self) -> bool:
        """Whether enough looks found nothing better; never while nothing was found at all."""
        scores = [score for _, score in self.looks]
        if not scores or max(scores) <= 0:
            return False
        return len(scores) - 1 - scores.index(max(scores)) >= self._patience

    def take(self, step: int, score: float, weights: Mapping[str, Tensor]) -> None:
        """Takes in a look at the weights after a step; those of the best are kept."""
        if not self.looks or score > max(score for _, score in self.looks):
            self.best = {name: value.clone() for name, value in weights.items()}
        self.looks.append((step, score))


def look_steps(steps: int) -> int:
    """Returns how many steps lie between two looks."""
    return max(1, steps // LOOKS)
