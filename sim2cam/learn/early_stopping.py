"""Early stopping on a validation set."""

from __future__ import annotations

from collections.abc import Sequence

MAX_EVALUATIONS = 20
"""Evaluations in a full training."""


class EarlyStopping:
    """History of validation scores (Prechelt 1998, "Early stopping: but when?").

    Args:
        patience: Evaluations without improvement after which training stops.

    Attributes:
        evaluations: Steps and scores.
    """

    def __init__(self, patience: int) -> None:
        self._patience = patience
        self.evaluations: list[tuple[int, float]] = []

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

    def load(self, evaluations: Sequence[tuple[int, float]]) -> None:
        """Restore the evaluations of a checkpoint."""
        self.evaluations = [(int(step), float(score)) for step, score in evaluations]

    def add(self, step: int, score: float) -> bool:
        """Add an evaluation and return whether it is the best."""
        self.evaluations.append((step, score))
        return self.best_step == step


def compute_evaluation_interval(steps: int) -> int:
    """Return the number of steps between two evaluations."""
    return max(1, steps // MAX_EVALUATIONS)
