"""The exponential moving average of a network's weights, which is what is evaluated."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn


class ExponentialMovingAverage:
    """A running average of all floating-point weights and buffers; others are the latest.

    Args:
        network: where it starts.
        decay: share of the average that a step keeps; smaller at first, so that the random start
            is soon forgotten.
    """

    def __init__(self, network: nn.Module, decay: float) -> None:
        self._decay = decay
        self.state = {name: value.detach().clone() for name, value in network.state_dict().items()}

    @torch.no_grad()
    def update(self, network: nn.Module, step: int) -> None:
        """Take in the network as it is after a step, counted from 0."""
        decay = min(self._decay, (1 + step) / (10 + step))
        averages: list[Tensor] = []
        values: list[Tensor] = []
        for name, value in network.state_dict().items():
            if value.is_floating_point():
                averages.append(self.state[name])
                values.append(value)
            else:
                self.state[name].copy_(value)
        torch._foreach_lerp_(averages, values, 1 - decay)  # one kernel for many of them

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a stored state with the same names and shapes."""
        for name, value in self.state.items():
            value.copy_(state[name])
