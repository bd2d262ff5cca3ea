"""The optimisers' schedule: a constant rate, then a line to zero."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from sim2cam.learn.distributed import average_gradients

_LEARNING_RATE = 2e-4
_BETAS = (0.5, 0.999)


def build_adam(parameters: Iterable[nn.Parameter]) -> torch.optim.Adam:
    """Return the optimiser of all networks of the papers."""
    return torch.optim.Adam(parameters, _LEARNING_RATE, _BETAS, fused=True)


def compute_learning_rate(step: int, steps: int, *, constant_fraction: float) -> float:
    """Return the learning rate of a step, counted from 0.

    Args:
        step: 0 to ``steps`` - 1.
        steps: of the whole training.
        constant_fraction: share of the steps before the rate falls.
    """
    falling = steps * (1.0 - constant_fraction)
    left = min(1.0, (steps - step) / falling) if falling > 0 else 1.0
    return _LEARNING_RATE * left


def step_optimisers(
    optimisers: Iterable[torch.optim.Optimizer], loss: Tensor, learning_rate: float
) -> None:
    """Take one step down a loss with this rate, in the parameters of all these optimisers."""
    optimisers = tuple(optimisers)
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            group["lr"] = learning_rate
        optimiser.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    for optimiser in optimisers:
        average_gradients(optimiser)
        optimiser.step()
