"""What a training of a detector is made of; plain values, so that reading a recipe needs no torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from sim2cam.errors import UsageError, suggest_name
from sim2cam.learn.settings import check_minimums


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


@dataclass(frozen=True)
class DilatedArchitecture:
    """A detector of another make: plain convolutions down to cells of 8 pixels, and no way back up.

    Attributes:
        channels: at stride 2, 4 and 8.
        dilations: of the convolutions that see around a cell of 8 pixels.
        head_channels: channels of the last layer before the outputs.
    """

    channels: tuple[int, int, int]
    dilations: tuple[int, ...]
    head_channels: int


ARCHITECTURES: Mapping[str, Architecture | DilatedArchitecture] = {
    "nano": Architecture(blocks=(1, 1, 1), neck_channels=64, head_channels=64),
    "small": Architecture(blocks=(2, 2, 2), neck_channels=96, head_channels=96),
    "base": Architecture(blocks=(3, 4, 6), neck_channels=128, head_channels=128),
    "scout": DilatedArchitecture(channels=(24, 48, 88), dilations=(1, 2, 4, 1), head_channels=64),
}
"""By size, and last one of another make, which is there to judge what the others see. The blocks of ``small``
and ``base`` are those of residual networks of 18 and 34 layers (He et al. 2016), short of the last stage."""


@dataclass(frozen=True)
class FineTuning:
    """How a training goes on from the weights of another one.

    Attributes:
        head_lr_scale: learning rate of the heads, as a share of the training's.
        layer_decay: what remains of the rate with each step away from the heads: the neck, then the
            trunk's stages from coarse to fine, then its stem (Howard and Ruder 2018, "Universal
            Language Model Fine-tuning", section 3.2).
        residual: whether everything stays as it is but for a new small head, which corrects boxes and
            categories and learns at the full rate.
    """

    head_lr_scale: float = 0.25
    layer_decay: float = 0.7
    residual: bool = False

    def __post_init__(self) -> None:
        """Refuse rates that are none.

        Raises:
            UsageError: naming the value.
        """
        for name in ("head_lr_scale", "layer_decay"):
            if not 0 < getattr(self, name) <= 1:
                raise UsageError(
                    f"fine_tuning.{name} must be above 0 and at most 1, not {getattr(self, name)}"
                )


AdaptationMethod = Literal["adabn", "coral", "dann", "mean-teacher"]
"""How a detector is brought to captures without labels."""


@dataclass(frozen=True)
class AdaptationConfig:
    """How a training takes in captures without labels.

    Attributes:
        method: ``adabn`` (statistics of batch normalization, after the last step), ``coral``
            (covariances of features), ``dann`` (features that a critic cannot tell apart, of images and
            of objects) or ``mean-teacher`` (what the averaged weights find).
        weight: of what it adds, over what is usual; ``adabn`` adds nothing.
    """

    method: AdaptationMethod
    weight: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what is no adaptation.

        Raises:
            UsageError: naming the value.
        """
        if self.method not in get_args(AdaptationMethod):
            hint = suggest_name(self.method, get_args(AdaptationMethod))
            raise UsageError(f"adapt.method '{self.method}' is not known. {hint}")
        if not self.weight > 0:
            raise UsageError(f"adapt.weight must be above 0, not {self.weight}")

    @property
    def adapts_during_training(self) -> bool:
        """Whether every step sees captures; otherwise they come in after the last one."""
        return self.method != "adabn"


BalanceCriterion = Literal["category", "size", "visible"]
"""By what objects are told apart, so that what is rare is drawn as often as what is not."""


OMITTED_WHEN_UNSET = (
    "keypoints", "masks", "min_category_visible", "roi_classifier", "bfloat16", "residual", "fine_tuning",
    "adapt", "patience",
    "initial_weights", "target_images", "background_images", "evaluations", "balance", "pretrained",
    "copy_paste", "instance_colour_jitter", "dead_leaves",
)  # fmt: skip
"""Left out of files where they are not used: cards, checkpoints and results of before have none."""

MIN_CROP_PX = 32
"""Side of the smallest crop, which divides those of all."""

_MINIMUMS = {
    "steps": 1, "seed": 0, "batch": 1, "warmup_steps": 0, "weight_decay": 0, "mix_steps": 0,
    "cache_bytes": 0, "patience": 0,
}  # fmt: skip


@dataclass(frozen=True)
class TrainConfig:
    """What decides a training, besides its data.

    Attributes:
        steps: how many batches.
        seed: 0 or more.
        architecture: a key of ``ARCHITECTURES``, or the name of one of torchvision's models for detection,
            masks, keypoints or segmentation, which learns what it learns there.
        pretrained: what the network begins with, where no other training goes on: a name of torchvision's
            (``FCOS_ResNet50_FPN_Weights.COCO_V1`` or, of a backbone, ``ResNet50_Weights.IMAGENET1K_V2``; of an
            own architecture ``ResNet18_Weights.IMAGENET1K_V1``), which it downloads, or a .safetensors file;
            from scratch without.
        batch: crops a step.
        crop_px: side of a crop, a multiple of 32.
        scale_range: smallest and largest magnification of a crop.
        rotate_90, rotate_any, flips: as ``CropConfig`` has them. Turns are for objects that lie any way
            round in pictures; a reader sees none of them turned.
        min_visible: objects less visible than this are neither learned nor unlearned.
        min_category_visible: of objects of which less is seen in a crop, the category is not learned, since what tells
            it may be hidden.
        roi_classifier: whether categories are read again from close-ups of what is found, all of one size, which
            learns small marks from far fewer crops.
        photometric: whether colours, sharpness and noise are varied.
        copy_paste: whether objects of other pictures of a data set are laid before those of a picture, up to
            two pictures' (``crowded``), where it is known which pixels show them.
        instance_colour_jitter: whether objects are seen in other shades of their colours, each in its own (``recoloured``),
            where it is known which pixels show them: those of scans are what another camera made of them.
        dead_leaves: whether objects are also seen before collages and behind pieces of them (``collage``), as before
            backdrops, where it is known which pixels show them.
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
        initial_mix: of the data sets at the first step, in their order, where they are others
            than later: plain scenes first are learned from sooner (Bengio et al. 2009, "Curriculum
            learning").
        mix_steps: over which these turn, evenly, into the weights of the data sets.
        balance: by what pictures of a data set are drawn so that the rare comes up as often as the frequent
            (``compute_image_probabilities``): ``category``, ``size`` and ``visible``, or some of these; all pictures alike
            without.
        fine_tuning: how it goes on from the weights of another training; None where it begins anew.
        adapt: how captures without labels are taken in; None without them.
        patience: where labelled development captures are given, after how many of ``stopping.LOOKS``
            that found nothing better the training ends, with the best weights; 0 for all of its steps.
        bfloat16: whether convolutions are in bfloat16 on CPUs too that multiply it themselves, as they are on
            CUDA; a step takes little more than half the time then.
        cache_bytes: budget of decoded images in memory, of which they take no more than ``CACHE_MEMORY_SHARE``; it
            decides speed only.
    """

    steps: int = 3000
    seed: int = 0
    architecture: str = "nano"
    pretrained: str = ""
    batch: int = 16
    crop_px: int = 128
    scale_range: tuple[float, float] = (0.75, 1.4)
    rotate_90: bool = False
    rotate_any: bool = False
    flips: bool = True
    min_visible: float = 0.5
    photometric: bool = True
    copy_paste: bool = False
    instance_colour_jitter: bool = False
    dead_leaves: bool = False
    amodal: bool = False
    poses: bool = False
    keypoints: bool = False
    masks: bool = False
    min_category_visible: float = 0.0
    roi_classifier: bool = False
    learning_rate: float = 2e-3
    warmup_steps: int = 100
    weight_decay: float = 0.02
    clip_norm: float = 10.0
    ema_decay: float = 0.998
    initial_mix: tuple[float, ...] = ()
    mix_steps: int = 0
    balance: tuple[BalanceCriterion, ...] = ()
    fine_tuning: FineTuning | None = None
    adapt: AdaptationConfig | None = None
    patience: int = 0
    bfloat16: bool = False
    cache_bytes: int = 3 << 30

    def __post_init__(self) -> None:
        """Refuse values that cannot be trained with.

        Raises:
            UsageError: naming the value.
        """
        self._check_architecture()
        if self.crop_px < MIN_CROP_PX or self.crop_px % MIN_CROP_PX:
            raise UsageError(f"crop_px must be a multiple of {MIN_CROP_PX}, not {self.crop_px}")
        check_minimums(self, _MINIMUMS)
        if self.poses and self.flips:
            raise UsageError("poses need flips = false: what is mirrored has no pose")
        if self.roi_classifier and self.keypoints:
            raise UsageError(
                "roi_classifier needs keypoints = false: these are found for one category"
            )
        if self.masks and self.amodal:
            raise UsageError("masks need amodal = false: what is hidden has no pixels")
        for name in ("learning_rate", "clip_norm"):
            if not getattr(self, name) > 0:
                raise UsageError(f"{name} must be above 0, not {getattr(self, name)}")
        if not 0 < self.scale_range[0] <= self.scale_range[1]:
            raise UsageError(f"scale_range must rise from above 0, not {self.scale_range}")
        self._check_fractions()
        self._check_mix()
        self._check_adapt()

    @property
    def is_torchvision(self) -> bool:
        """Whether what is trained is a model of torchvision."""
        return self.architecture not in ARCHITECTURES

    def to_json(self) -> dict[str, Any]:
        """Return the settings as JSON values, without later ones that are not used."""
        return {n: v for n, v in asdict(self).items() if v or n not in OMITTED_WHEN_UNSET}

    def _check_architecture(self) -> None:
        if self.is_torchvision:
            from sim2cam.models.network.torchvision_models import check_torchvision_config

            check_torchvision_config(self, ARCHITECTURES)
        elif self.pretrained:
            from sim2cam.models.network.pretrained import check_pretrained

            check_pretrained(self.pretrained)

    def _check_fractions(self) -> None:
        for name in ("min_visible", "min_category_visible"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"{name} must be 0 to 1, not {getattr(self, name)}")
        if not 0 <= self.ema_decay < 1:
            raise UsageError(f"ema_decay must be 0 or more and below 1, not {self.ema_decay}")

    def _check_mix(self) -> None:
        for name in self.balance:
            if name not in get_args(BalanceCriterion):
                hint = suggest_name(name, get_args(BalanceCriterion))
                raise UsageError(f"balance by '{name}' is not known. {hint}")
        if bool(self.initial_mix) != bool(self.mix_steps):
            raise UsageError(
                "initial_mix says how data sets are mixed at the first step, and mix_steps in how many "
                "steps that turns into their weights: give both or neither."
            )
        if self.initial_mix and not (min(self.initial_mix) >= 0 < sum(self.initial_mix)):
            raise UsageError(
                f"initial_mix must be 0 or more, and one above 0, not {self.initial_mix}"
            )

    def _check_adapt(self) -> None:
        if self.adapt is None:
            return
        if self.fine_tuning is not None and self.fine_tuning.residual:
            raise UsageError(
                "fine_tuning.residual leaves all features as they are, so there is nothing to adapt: leave "
                "out one of both."
            )
        if self.adapt.method == "mean-teacher" and not self.photometric:
            raise UsageError(
                "mean-teacher needs photometric = true: it learns from pictures whose look is varied"
            )


def compute_trained_input_scale(scale_range: Sequence[float]) -> float:
    """Return the magnification at which images are as crops of a training were: 1 where that is among
    those drawn, else their middle.
    """
    low, high = scale_range
    return 1.0 if low <= 1 <= high else round(math.sqrt(low * high), 3)
