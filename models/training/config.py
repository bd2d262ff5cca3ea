"""Configuration of a detector training.

Plain values without torch, so that recipes load fast.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, get_args

from sim2cam.errors import UsageError, suggest_name
from sim2cam.learn.settings import check_settings
from sim2cam.models.network.architectures import ARCHITECTURES, AUTO_PRETRAINED
from sim2cam.scene.parameters import Between


@dataclass(frozen=True)
class FineTuning:
    """Settings for training that continues from other weights.

    Attributes:
        head_lr_scale: learning rate of the heads relative to ``learning_rate``.
        layer_decay: factor on the learning rate per group away from the heads: neck, backbone stages from
            coarse to fine, stem (Howard and Ruder 2018, "Universal Language Model Fine-tuning", section 3.2).
        residual: freeze everything and train only a small new head at the full learning rate; it corrects
            boxes and categories.
    """

    head_lr_scale: float = 0.25
    layer_decay: float = 0.7
    residual: bool = False

    def __post_init__(self) -> None:
        """Raise ``UsageError`` if a value is out of range."""
        for name in ("head_lr_scale", "layer_decay"):
            if not 0 < getattr(self, name) <= 1:
                raise UsageError(
                    f"fine_tuning.{name} must be above 0 and at most 1, not {getattr(self, name)}"
                )


@dataclass(frozen=True)
class BackboneTuning:
    """How the pretrained layers of a backbone are trained.

    Attributes:
        frozen_stages: stages that keep their weights, counted from the stem: 0 for none, 1 for the stem.
        frozen_share: share of the steps during which all pretrained layers keep their weights; 1 never trains them.
        lr_scale: learning rate of the last stage relative to ``learning_rate``.
        layer_decay: factor on the learning rate per stage towards the stem.
        freeze_batch_norm: keep the statistics of all pretrained batch norms.
    """

    frozen_stages: Annotated[int, Between(0)] = 0
    frozen_share: Annotated[float, Between(0, 1)] = 0.0
    lr_scale: float = 1.0
    layer_decay: float = 1.0
    freeze_batch_norm: bool = False

    def __post_init__(self) -> None:
        """Raise ``UsageError`` if a value is out of range."""
        check_settings(self)
        for name in ("lr_scale", "layer_decay"):
            if not 0 < getattr(self, name) <= 1:
                raise UsageError(
                    f"backbone.{name} must be above 0 and at most 1, not {getattr(self, name)}"
                )


AdaptationMethod = Literal["adabn", "coral", "dann", "mean-teacher"]
"""Methods of unsupervised domain adaptation."""


@dataclass(frozen=True)
class AdaptationConfig:
    """Settings of unsupervised domain adaptation to target images.

    Attributes:
        method: ``adabn`` (batch-norm statistics, after the last step), ``coral`` (covariances of features),
            ``dann`` (adversarial alignment of image and object features) or ``mean-teacher`` (detections of
            the averaged weights).
        weight: factor on the method's losses; no effect with ``adabn``.
    """

    method: AdaptationMethod
    weight: float = 1.0

    def __post_init__(self) -> None:
        """Raise ``UsageError`` if a value is not allowed."""
        if self.method not in get_args(AdaptationMethod):
            hint = suggest_name(self.method, get_args(AdaptationMethod))
            raise UsageError(f"adapt.method '{self.method}' is not known. {hint}")
        if not self.weight > 0:
            raise UsageError(f"adapt.weight must be above 0, not {self.weight}")

    @property
    def adapts_during_training(self) -> bool:
        """Whether the method uses target images in each step, not only after the last one."""
        return self.method != "adabn"


BalanceCriterion = Literal["category", "size", "visible"]
"""Properties of objects whose rare values can be sampled as often as frequent ones."""


OMITTED_WHEN_UNSET = (
    "keypoints", "masks", "min_category_visible", "roi_classifier", "bfloat16", "residual", "fine_tuning",
    "adapt", "patience",
    "initial_weights", "target_images", "background_images", "evaluations", "balance", "pretrained",
    "backbone", "strong_colour", "negative_share",
    "copy_paste", "instance_colour_jitter", "dead_leaves", "target_backgrounds",
    "training_domain",
)  # fmt: skip
"""Settings that are left out of cards, checkpoints and results if not used; older files lack them."""

MIN_CROP_PX = 32
"""Smallest side of a crop; all sides are multiples of it."""


@dataclass(frozen=True)
class TrainConfig:
    """Settings that determine a training, besides its data.

    Attributes:
        steps: number of batches.
        seed: random seed, 0 or more.
        architecture: ``nano``, ``small``, ``base``, ``lite0``, ``lite1``, ``lite2`` or ``scout``, or name of a
            torchvision model for detection, instance masks, keypoints or segmentation; with initial weights,
            theirs.
        pretrained: weights to start from, unless another training is continued: ``auto`` for those of the
            architecture's backbone that are on this computer; ``efficientnet-lite0`` of a Python package; a name
            of torchvision (``FCOS_ResNet50_FPN_Weights.COCO_V1``; for a backbone
            ``ResNet50_Weights.IMAGENET1K_V2``; for nano and small ``ResNet18_Weights.IMAGENET1K_V1``) or of timm
            (``timm:tf_efficientnet_lite0.in1k``), which are downloaded; or a .safetensors file. Empty for random
            weights.
        backbone: how pretrained layers are trained; only with ``pretrained``.
        batch: crops per step.
        crop_px: side of a crop, a multiple of 32.
        scale_range: smallest and largest input scale of a crop.
        rotate_90: rotate crops by multiples of 90 degrees, for objects without a preferred orientation in
            images. RoI crops are not rotated.
        rotate_any: rotate half of the crops that have instance ids by any angle.
        flips: mirror half of the crops.
        min_visible: objects with a lower visible fraction are ignored, neither positive nor negative.
        min_category_visible: objects with a lower visible fraction in a crop do not train the category, since
            its distinctive marks may be hidden.
        roi_classifier: predict categories from RoI crops of one size, which learns small marks from far
            fewer crops.
        photometric: augment colours, sharpness and noise.
        strong_colour: augment colours, sharpness and noise as strongly as the best detectors of BOP (Liu et al. 2022,
            "GDRNPP"), for categories that differ in shape.
        copy_paste: paste objects from up to two other images of the dataset. Needs instance masks.
        instance_colour_jitter: shift the colours of each object independently. Needs instance masks.
            Compensates for scans that carry the colours of another camera.
        dead_leaves: put dead-leaves backgrounds behind objects and occluders before them. Needs instance masks.
        target_backgrounds: put the unlabelled images of the target (``--captures``) behind objects. They may show
            objects too, so what they show beside the labelled objects is neither positive nor negative. Needs
            instance masks.
        negative_share: share of crops that show a background image without objects; without background images it
            has no effect.
        amodal: predict boxes of whole objects including hidden parts, where labels have them; disables free
            rotation of crops.
        poses: learn poses; all objects of a category must be identical.
        keypoints: learn named keypoints of objects.
        masks: learn instance and category masks.
        learning_rate: maximum learning rate, above 0, reached after the warm-up; decays to 1 % along a cosine.
        warmup_steps: steps of linear warm-up, in short trainings at most a tenth of all steps.
        weight_decay: decoupled weight decay of kernels.
        clip_norm: maximum gradient norm, above 0.
        ema_decay: decay of the averaged weights, which are the result.
        initial_mix: weights of the datasets at the first step, in their order, if they differ from the final
            ones. Starting with easy scenes speeds up learning (Bengio et al. 2009, "Curriculum learning").
        mix_steps: steps over which ``initial_mix`` changes linearly to the weights of the datasets.
        balance: properties by which images are sampled so that rare values are as frequent as common ones. Empty for
            uniform sampling.
        fine_tuning: how the initial weights are fine-tuned; without initial weights there is none.
        adapt: unsupervised domain adaptation to target images.
        patience: with a validation set, stop after this many evaluations without improvement and keep the
            best weights; 0 runs all steps.
        bfloat16: use bfloat16 convolutions also on CPUs that support it, as on CUDA; a step then takes
            little more than half the time.
        cache_bytes: memory budget of decoded images, at most a share of the memory; affects speed only.
    """

    steps: Annotated[int, Between(1)] = 3000
    seed: Annotated[int, Between(0)] = 0
    architecture: str = "nano"
    pretrained: str = ""
    backbone: BackboneTuning | None = None
    batch: Annotated[int, Between(1)] = 16
    crop_px: int = 128
    scale_range: tuple[float, float] = (0.75, 1.4)
    rotate_90: bool = False
    rotate_any: bool = False
    flips: bool = True
    min_visible: Annotated[float, Between(0, 1)] = 0.5
    photometric: bool = True
    strong_colour: bool = False
    copy_paste: bool = False
    instance_colour_jitter: bool = False
    dead_leaves: bool = False
    negative_share: Annotated[float, Between(0, 1)] = 0.0
    target_backgrounds: bool = False
    amodal: bool = False
    poses: bool = False
    keypoints: bool = False
    masks: bool = False
    min_category_visible: Annotated[float, Between(0, 1)] = 0.0
    roi_classifier: bool = False
    learning_rate: float = 2e-3
    warmup_steps: Annotated[int, Between(0)] = 100
    weight_decay: Annotated[float, Between(0)] = 0.02
    clip_norm: float = 10.0
    ema_decay: float = 0.998
    initial_mix: tuple[float, ...] = ()
    mix_steps: Annotated[int, Between(0)] = 0
    balance: tuple[BalanceCriterion, ...] = ()
    fine_tuning: FineTuning | None = None
    adapt: AdaptationConfig | None = None
    patience: Annotated[int, Between(0)] = 0
    bfloat16: bool = False
    cache_bytes: Annotated[int, Between(0)] = 3 << 30

    def __post_init__(self) -> None:
        """Raise ``UsageError`` if a value is out of range or settings contradict each other."""
        self._check_architecture()
        if self.crop_px < MIN_CROP_PX or self.crop_px % MIN_CROP_PX:
            raise UsageError(f"crop_px must be a multiple of {MIN_CROP_PX}, not {self.crop_px}")
        check_settings(self)
        self._check_contradictions()
        for name in ("learning_rate", "clip_norm"):
            if not getattr(self, name) > 0:
                raise UsageError(f"{name} must be above 0, not {getattr(self, name)}")
        if not 0 < self.scale_range[0] <= self.scale_range[1]:
            raise UsageError(
                f"scale_range must be (low, high) with 0 < low <= high, not {self.scale_range}"
            )
        if not 0 <= self.ema_decay < 1:
            raise UsageError(f"ema_decay must be 0 or more and below 1, not {self.ema_decay}")
        self._check_mix()
        self._check_adapt()

    @property
    def is_torchvision(self) -> bool:
        """Whether the architecture is a torchvision model."""
        return self.architecture not in ARCHITECTURES

    @property
    def limited_warmup_steps(self) -> int:
        """Steps of warm-up, at most a tenth of all steps."""
        return min(self.warmup_steps, self.steps // 10)

    def to_json(self) -> dict[str, Any]:
        """Return the settings as JSON values, without recent ones that are not used."""
        return {
            name: value
            for name, value in asdict(self).items()
            if value or name not in OMITTED_WHEN_UNSET
        }

    def _check_architecture(self) -> None:
        if self.is_torchvision:
            from sim2cam.models.network.torchvision_models import check_torchvision_config

            check_torchvision_config(self, ARCHITECTURES)
        elif self.pretrained not in ("", AUTO_PRETRAINED):
            from sim2cam.models.network.pretrained import check_pretrained

            check_pretrained(self.pretrained)

    def _check_contradictions(self) -> None:
        if self.poses and self.flips:
            raise UsageError("poses need flips = false: mirrored objects have no pose")
        if self.roi_classifier and self.keypoints:
            raise UsageError(
                "roi_classifier needs keypoints = false: keypoints are not predicted per RoI category"
            )
        if self.strong_colour and not self.photometric:
            raise UsageError("strong_colour needs photometric = true")
        if self.masks and self.amodal:
            raise UsageError("masks need amodal = false: hidden parts have no pixels")
        if self.backbone is not None and (not self.pretrained or self.is_torchvision):
            raise UsageError(
                "backbone needs pretrained weights and one of sim2cam's architectures. Set pretrained, or remove "
                "backbone."
            )

    def _check_mix(self) -> None:
        for name in self.balance:
            if name not in get_args(BalanceCriterion):
                hint = suggest_name(name, get_args(BalanceCriterion))
                raise UsageError(f"balance by '{name}' is not known. {hint}")
        if bool(self.initial_mix) != bool(self.mix_steps):
            raise UsageError(
                "initial_mix and mix_steps belong together: the mix of the datasets at the first step, and the "
                "steps until it reaches their weights. Set both or neither."
            )
        if self.initial_mix and not (min(self.initial_mix) >= 0 < sum(self.initial_mix)):
            raise UsageError(
                f"initial_mix must have no negative and at least one positive value, not {self.initial_mix}"
            )

    def _check_adapt(self) -> None:
        if self.adapt is None:
            return
        if self.fine_tuning is not None and self.fine_tuning.residual:
            raise UsageError(
                "fine_tuning.residual freezes all features, so adapt has no effect. Remove one of them."
            )
        if self.adapt.method == "mean-teacher" and not self.photometric:
            raise UsageError(
                "mean-teacher needs photometric = true: it compares predictions on augmented images"
            )


def compute_trained_input_scale(scale_range: Sequence[float]) -> float:
    """Return the input scale at which full images match training crops.

    It is 1 if ``scale_range`` contains 1, else the geometric mean of the range.
    """
    low, high = scale_range
    return 1.0 if low <= 1 <= high else round(math.sqrt(low * high), 3)
