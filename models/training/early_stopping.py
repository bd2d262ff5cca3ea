"""Early stopping on a validation set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

MAX_EVALUATIONS = 20
"""Evaluations in a full training."""


class EarlyStopping:
    """History of validation scores, with the best weights.

    Early stopping with patience (Prechelt 1998, "Early stopping: but when?").

    Args:
        patience: evaluations without improvement after which training stops.
        evaluations: steps and scores of earlier evaluations.
        best_weights: weights of the best of these.
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
        """Step with the best score, the first among equals."""
        return max(self.evaluations, key=lambda evaluation: evaluation[1])[0]

    @property
    def should_stop(self) -> bool:
        """Whether the patience is used up; False as long as all scores are 0."""
        scores = [score for _, score in self.evaluations]
        if not scores or max(scores) <= 0:
            return False
        return len(scores) - 1 - scores.index(max(scores)) >= self._patience

    def update(self, step: int, score: float, weights: Mapping[str, Tensor]) -> None:
        """Add an evaluation, and keep the weights if they are the best."""
        if not self.evaluations or score > max(score for _, score in self.evaluations):
            self.best_weights = {name: value.clone() for name, value in weights.items()}
        self.evaluations.append((step, score))


def compute_evaluation_interval(steps: int) -> int:
    """Return the number of steps between two evaluations."""
    return max(1, steps // MAX_EVALUATIONS)
