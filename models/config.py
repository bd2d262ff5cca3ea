"""What a training of a detector is made of; plain values, so that reading a recipe needs no torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sim2cam.errors import UsageError, did_you_mean
from sim2cam.training.settings import check_least


@dataclass(frozen=True)
class Architecture:
    """The numbers in which detectors differ.

    Attributes:
        blocks: residual blocks at stride 4, 8 and 16.
        neck_channels: channels of the features that all strides are brought to.
        head_channels: channels of the last layer before the outputs.
    """

    blocks: tuple[int, int, int]
    neck_channels: int
    head_channels: int


ARCHITECTURES = {
    "nano": Architecture(blocks=(1, 1, 1), neck_channels=64, head_channels=64),
    "small": Architecture(blocks=(2, 2, 2), neck_channels=96, head_channels=96),
    "base": Architecture(blocks=(3, 4, 6), neck_channels=128, head_channels=128),
}
"""By size; the blocks of ``small`` and ``base`` are those of residual networks of 18 and 34 layers (He et al.
2016), short of the last stage."""

LATER_TASKS = ("keypoints", "masks")
"""Left out of files where they are not learned: cards, checkpoints and results of before have none."""

_LEAST = {
    "steps": 1, "seed": 0, "batch": 1, "warmup_steps": 0, "weight_decay": 0, "mix_steps": 0,
    "cache_bytes": 0,
}  # fmt: skip


@dataclass(frozen=True)
class TrainConfig:
    """What decides a training, besides its data.

    Attributes:
        steps: how many batches.
        seed: 0 or more.
        architecture: a key of ``ARCHITECTURES``.
        batch: crops a step.
        crop_px: side of a crop, a multiple of 32.
        scale_range: smallest and largest magnification of a crop.
        quarter_turns, free_turns, flips: as ``CropRules`` has them.
        min_visible: objects less visible than this are neither learned nor unlearned.
        photometric: whether colours, sharpness and noise are varied.
        amodal: whether boxes are of whole objects, with what is hidden of them, where labels know that;
            then no crop is turned freely.
        poses: whether poses are learned too, which takes objects that are all alike.
        keypoints: whether the named points of objects are learned too.
        masks: whether masks of objects and of categories are learned too.
        learning_rate: at its highest, after the warm-up; it falls to 1 % along a cosine.
        warmup_steps: rising linearly.
        weight_decay: of kernels, decoupled.
        clip_norm: largest norm of a gradient.
        ema_decay: of the averaged weights, which are the result.
        first_weights: of the data sets at the first step, in their order, where they are others
            than later: plain scenes first are learned from sooner (Bengio et al. 2009, "Curriculum
            learning").
        mix_steps: over which these turn, evenly, into the weights of the data sets.
        cache_bytes: budget of decoded images in memory; it decides speed only.
    """

    steps: int = 3000
    seed: int = 0
    architecture: str = "nano"
    batch: int = 16
    crop_px: int = 128
    scale_range: tuple[float, float] = (0.75, 1.4)
    quarter_turns: bool = True
    free_turns: bool = True
    flips: bool = True
    min_visible: float = 0.5
    photometric: bool = True
    amodal: bool = False
    poses: bool = False
    keypoints: bool = False
    masks: bool = False
    learning_rate: float = 2e-3
    warmup_steps: int = 100
    weight_decay: float = 0.02
    clip_norm: float = 10.0
    ema_decay: float = 0.998
    first_weights: tuple[float, ...] = ()
    mix_steps: int = 0
    cache_bytes: int = 3 << 30

    def __post_init__(self) -> None:
        """Refuses values that cannot be trained with.

        Raises:
            UsageError: naming the value.
        """
        if self.architecture not in ARCHITECTURES:
            hint = did_you_mean(self.architecture, ARCHITECTURES)
            raise UsageError(f"architecture '{self.architecture}' is not known. {hint}")
        if self.crop_px < 32 or self.crop_px % 32:
            raise UsageError(f"crop_px must be a multiple of 32, not {self.crop_px}")
        check_least(self, _LEAST)
        if self.poses and self.flips:
            raise UsageError("poses need flips = false: what is mirrored has no pose")
        if self.masks and self.amodal:
            raise UsageError("masks need amodal = false: what is hidden has no pixels")
        for name in ("learning_rate", "clip_norm"):
            if not getattr(self, name) > 0:
                raise UsageError(f"{name} must be above 0, not {getattr(self, name)}")
        if not 0 < self.scale_range[0] <= self.scale_range[1]:
            raise UsageError(f"scale_range must rise from above 0, not {self.scale_range}")
        if not 0 <= self.min_visible <= 1:
            raise UsageError(f"min_visible must be 0 to 1, not {self.min_visible}")
        if not 0 <= self.ema_decay < 1:
            raise UsageError(f"ema_decay must be 0 or more and below 1, not {self.ema_decay}")
        self._check_mix()

    def to_json(self) -> dict[str, Any]:
        """Returns the settings as JSON values, without later tasks that are not learned."""
        return {n: v for n, v in asdict(self).items() if v or n not in LATER_TASKS}

    def _check_mix(self) -> None:
        if bool(self.first_weights) != bool(self.mix_steps):
            raise UsageError(
                "first_weights say how data sets are mixed at the first step, and mix_steps in how many "
                "steps that turns into their weights: give both or neither."
            )
        if self.first_weights and not (min(self.first_weights) >= 0 < sum(self.first_weights)):
            raise UsageError(
                f"first_weights must be 0 or more, and one above 0, not {self.first_weights}"
            )


def trained_magnification(scale_range: Sequence[float]) -> float:
    """Returns the magnification at which images are as crops of a training were: 1 where that is among
    those drawn, else their middle.
    """
    low, high = scale_range
    return 1.0 if low <= 1 <= high else round(math.sqrt(low * high), 3)
