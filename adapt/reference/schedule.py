"""Optimiser and learning rate schedule: constant, then linear decay to zero."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

_LEARNING_RATE = 2e-4
_BETAS = (0.5, 0.999)


def build_adam(parameters: Iterable[nn.Parameter]) -> torch.optim.Adam:
    """Build the optimiser of the papers for parameters."""
    return torch.optim.Adam(parameters, _LEARNING_RATE, _BETAS, fused=True)


def compute_learning_rate(step: int, steps: int, *, constant_fraction: float) -> float:
    """Return the learning rate of a step.

    Args:
        step: 0 to ``steps`` - 1.
        steps: steps of the training.
        constant_fraction: fraction of the steps before the decay.
    """
    decay_steps = steps * (1.0 - constant_fraction)
    factor = min(1.0, (steps - step) / decay_steps) if decay_steps > 0 else 1.0
    return _LEARNING_RATE * factor


def step_optimisers(
    optimisers: Iterable[torch.optim.Optimizer], loss: Tensor, learning_rate: float
) -> None:
    """Backpropagate a loss and step all optimisers with this learning rate."""
    optimisers = tuple(optimisers)
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            group["lr"] = learning_rate
        optimiser.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    for optimiser in optimisers:
        optimiser.step()
