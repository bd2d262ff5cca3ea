"""When a training ends before its last step: labelled captures find nothing better any more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

MAX_EVALUATIONS = 20
"""How often the weights of a whole training are looked at."""


class EarlyStopping:
    """How good weights were on captures after some steps, and the best of them.

    Early stopping with patience (Prechelt 1998, "Early stopping: but when?").

    Args:
        patience: looks without anything better after which the training is over.
        evaluations: steps and scores of those before; ``best_weights`` belongs to them.
        best_weights: the weights of the best one.
    """

    def __init__(
        self,
        patience: int,
        evaluations: Sequence[tuple[int, float]] = (),
        best_weights: Mapping[str, Tensor] | None = None,
    ) -> None:
        self._patience = patience
        self.evaluations = [(int(step), float(score)) for step, score in evaluations]
        self.best_weights = dict(best_weights or {})

    @property
    def best_step(self) -> int:
        """The step after which the weights were best; the first of equals."""
        return max(self.evaluations, key=lambda look: look[1])[0]

    @property
    def should_stop(self) -> bool:
        """Whether enough looks found nothing better; never while nothing was found at all."""
        scores = [score for _, score in self.evaluations]
        if not scores or max(scores) <= 0:
            return False
        return len(scores) - 1 - scores.index(max(scores)) >= self._patience

    def update(self, step: int, score: float, weights: Mapping[str, Tensor]) -> None:
        """Take in a look at the weights after a step; those of the best are kept."""
        if not self.evaluations or score > max(score for _, score in self.evaluations):
            self.best_weights = {name: value.clone() for name, value in weights.items()}
        self.evaluations.append((step, score))


def compute_evaluation_interval(steps: int) -> int:
    """Return how many steps lie between two looks."""
    return max(1, steps // MAX_EVALUATIONS)
