"""Pretrained layers of a backbone: when and how fast they are trained."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from sim2cam.models.training.config import BackboneTuning, TrainConfig
from sim2cam.models.training.fine_tuning import compute_lr_scale, get_stage_number


@dataclass(frozen=True)
class LrScale:
    """Factor on the learning rate.

    Attributes:
        scale: final factor.
        start_step: step from which it rises.
        rising_steps: steps in which it rises from 0; 0 for a constant factor.
    """

    scale: float
    start_step: int = 0
    rising_steps: int = 0

    def compute(self, step: int) -> float:
        """Return the factor of a step."""
        if self.rising_steps == 0:
            return self.scale
        risen = (step + 1 - self.start_step) / self.rising_steps
        return self.scale * min(max(risen, 0), 1)


class PretrainedLayers:
    """Schedule of the pretrained layers of a network; without any, the schedule of fine-tuning.

    Args:
        network: network with its initial weights.
        names: names of its pretrained tensors.
        config: settings of the training.
    """

    def __init__(self, network: nn.Module, names: Collection[str], config: TrainConfig) -> None:
        self._config, self._tuning = config, config.backbone or BackboneTuning()
        stages = {
            name: number
            for name, _ in network.named_parameters()
            if (number := get_stage_number(name)) is not None
        }
        self._n_stages: dict[str, int] = defaultdict(int)  # by backbone
        for name, number in stages.items():
            backbone, _, _ = name.partition("backbone.")
            self._n_stages[backbone] = max(self._n_stages[backbone], number)
        self._stages = {
            name: number
            for name, number in stages.items()
            if name in names and config.backbone is not None
        }
        self._parameters = [
            (stage, network.get_parameter(name)) for name, stage in self._stages.items()
        ]
        self._batch_norms = [
            (self._stages[f"{name}.weight"], module)
            for name, module in network.named_modules()
            if isinstance(module, _BatchNorm) and f"{name}.weight" in self._stages
        ]

    def freeze(self, step: int) -> None:
        """Freeze and thaw layers for a step; call it after ``network.train()``."""
        for stage, parameter in self._parameters:
            parameter.requires_grad_(not self._is_frozen(stage, step))
        for stage, batch_norm in self._batch_norms:
            if self._tuning.freeze_batch_norm or self._is_frozen(stage, step):
                batch_norm.eval()

    def get_lr_scale(self, name: str) -> LrScale:
        """Return the learning rate of a parameter relative to that of the step."""
        stage = self._stages.get(name)
        if stage is None:
            return LrScale(compute_lr_scale(name, self._config.fine_tuning, self._n_stages[""]))
        n_stages = self._n_stages[name.partition("backbone.")[0]]
        scale = self._tuning.lr_scale * self._tuning.layer_decay ** (n_stages - stage)
        warmup_steps = self._config.limited_warmup_steps if self._thaw_step else 0
        return LrScale(scale, self._thaw_step, warmup_steps)

    @property
    def _thaw_step(self) -> int:
        return round(self._tuning.frozen_share * self._config.steps)

    def _is_frozen(self, stage: int, step: int) -> bool:
        return stage < self._tuning.frozen_stages or step < self._thaw_step
