"""Exponential moving average of network weights."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn


class ExponentialMovingAverage:
    """Exponential moving average of floating-point weights and buffers; others are copied.

    Args:
        network: Initial weights.
        decay: Decay per step; smaller in the first steps, to forget the random initialization.

    Attributes:
        state: Averages by name, as a state dict.
    """

    def __init__(self, network: nn.Module, decay: float) -> None:
        self._decay = decay
        self.state = {name: value.detach().clone() for name, value in network.state_dict().items()}

    @torch.no_grad()
    def update(self, network: nn.Module, step: int) -> None:
        """Update the average with the network after a step, counted from 0."""
        decay = min(self._decay, (1 + step) / (10 + step))
        averages: list[Tensor] = []
        values: list[Tensor] = []
        for name, value in network.state_dict().items():
            if value.is_floating_point():
                averages.append(self.state[name])
                values.append(value)
            else:
                self.state[name].copy_(value)
        torch._foreach_lerp_(averages, values, 1 - decay)  # one kernel for all tensors

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Load averages of the same names and shapes."""
        for name, value in self.state.items():
            value.copy_(state[name])
