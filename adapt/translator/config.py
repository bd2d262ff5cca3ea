"""Training configuration of the residual translator, with presets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Annotated, Any, Literal

from sim2cam.errors import UsageError
from sim2cam.learn.settings import check_settings
from sim2cam.scene.parameters import Between

MAX_BOUND = 0.3  # larger bounds would allow swapped colours or repainted objects

LpipsNetwork = Literal["vgg", "alex", "squeeze"]

OMITTED_DEFAULTS = (
    "perception_weight", "nce_weight", "flow_weight", "discriminator_scales", "bfloat16",
    "structure_residual_weight",
    "lpips_weight", "lpips_network", "compile",
)  # fmt: skip
"""Settings that files omit at their defaults, for compatibility with earlier cards and checkpoints."""

_MIN_SCALED_PX = 16  # of a patch at the coarsest discriminator scale


@dataclass(frozen=True)
class TranslatorConfig:
    """Training configuration; equal values give equal weights on one machine.

    Attributes:
        steps: training steps of both networks.
        seed: seed of initial weights, patches, noise and augmentation.
        batch: patches of renders per step, and as many of real images.
        accumulation_steps: micro-batches per step; more of them need less memory.
        patch_px: side of the patches, cropped at native scale; a multiple of 4.
        width: channels of the generator at half resolution, an even number.
        blocks: residual blocks of the generator.
        discriminator_scales: scales of the discriminator, each half as large as the one before, with equal weight.
        use_buffers: whether the generator gets depth, normals, object and category masks and object coordinates,
            as far as all renders have them.
        colour_bound: largest change of an entry of the colour matrix, at most 0.3.
        local_bound: largest local residual, on a scale of 0 to 1; at most 0.3.
        adversarial_weight: weight of the hinge loss.
        identity_weight: weight of the identity loss on real images.
        structure_weight: weight of the local correlation loss.
        structure_residual_weight: weight of the worst added or lost structure.
        range_weight: weight of values outside of 0 to 1.
        paired_weight: weight of the distance from paired real images.
        gradient_penalty: weight of the R1 penalty, applied every ``gradient_penalty_every`` steps.
        gradient_penalty_every: interval of the R1 penalty in steps.
        learning_rate_generator, learning_rate_discriminator: learning rates of Adam.
        ema_decay: decay of the averaged weights, which ship.
        perception_weight: weight of the perception-consistency loss, if the training has a detector that is
            accurate on renders.
        nce_weight: weight of the PatchNCE loss.
        flow_weight: weight of the temporal consistency of sequences.
        lpips_weight: weight of LPIPS; requires the package ``lpips`` and weights from torchvision.
        lpips_network: network of LPIPS: ``vgg`` (553 MB), ``alex`` (244 MB) or ``squeeze`` (5 MB).
        bfloat16: whether to use bfloat16 also on CPUs with native support, as on CUDA; steps are then faster.
        compile: whether to compile both networks, for GPUs; requires a C++ compiler and takes a minute at the
            start. Steps are slower on CPUs.
        cache_bytes: memory budget of decoded images for each side; affects only speed.
    """

    steps: Annotated[int, Between(1)] = 3000
    seed: Annotated[int, Between(0)] = 0
    batch: Annotated[int, Between(1)] = 4
    accumulation_steps: Annotated[int, Between(1)] = 1
    patch_px: int = 128
    width: int = 32
    blocks: Annotated[int, Between(1)] = 4
    discriminator_scales: Annotated[int, Between(1)] = 2
    use_buffers: bool = True
    colour_bound: float = 0.3
    local_bound: float = 0.2
    adversarial_weight: Annotated[float, Between(0)] = 1.0
    identity_weight: Annotated[float, Between(0)] = 2.0
    structure_weight: Annotated[float, Between(0)] = 4.0
    structure_residual_weight: Annotated[float, Between(0)] = 100.0
    range_weight: Annotated[float, Between(0)] = 10.0
    paired_weight: Annotated[float, Between(0)] = 20.0
    gradient_penalty: Annotated[float, Between(0)] = 1.0
    gradient_penalty_every: Annotated[int, Between(1)] = 16
    learning_rate_generator: float = 4e-4
    learning_rate_discriminator: float = 6e-4
    ema_decay: float = 0.999
    perception_weight: Annotated[float, Between(0)] = 1.0
    nce_weight: Annotated[float, Between(0)] = 0.0
    flow_weight: Annotated[float, Between(0)] = 0.0
    lpips_weight: Annotated[float, Between(0)] = 0.0
    lpips_network: LpipsNetwork = "vgg"
    bfloat16: bool = False
    compile: bool = False
    cache_bytes: Annotated[int, Between(0)] = 1 << 30

    def __post_init__(self) -> None:
        """Raise if a value is out of range.

        Raises:
            UsageError: a value is out of range.
        """
        if self.patch_px < 32 or self.patch_px % 4:
            raise UsageError(
                f"patch_px must be a multiple of 4 and at least 32, not {self.patch_px}"
            )
        if self.width < 2 or self.width % 2:
            raise UsageError(f"width must be even and 2 or more, not {self.width}")
        check_settings(self)
        if self.patch_px >> (self.discriminator_scales - 1) < _MIN_SCALED_PX:
            raise UsageError(
                f"discriminator_scales must leave at least {_MIN_SCALED_PX} px of a patch of {self.patch_px} px; "
                f"{self.discriminator_scales} is too many"
            )
        if self.batch % self.accumulation_steps:
            raise UsageError(
                f"accumulation_steps must divide the batch of {self.batch}, not {self.accumulation_steps}"
            )
        for name in ("learning_rate_generator", "learning_rate_discriminator"):
            if not getattr(self, name) > 0:
                raise UsageError(f"{name} must be above 0, not {getattr(self, name)}")
        for name in ("colour_bound", "local_bound"):
            if not 0 < getattr(self, name) <= MAX_BOUND:
                raise UsageError(
                    f"{name} must be above 0 and at most {MAX_BOUND}, not {getattr(self, name)}"
                )
        if not 0 <= self.ema_decay < 1:
            raise UsageError(f"ema_decay must be 0 or more and below 1, not {self.ema_decay}")

    def to_json(self) -> dict[str, Any]:
        """Return the settings as JSON values, without ``OMITTED_DEFAULTS`` at their defaults."""
        defaults = {field.name: field.default for field in fields(self)}
        return {
            n: v for n, v in asdict(self).items() if n not in OMITTED_DEFAULTS or v != defaults[n]
        }


PRESETS: Mapping[str, TranslatorConfig] = {
    # lower bound, because the training is too short to learn small changes
    "demo": TranslatorConfig(steps=150, batch=3, local_bound=0.1, bfloat16=True),
    "small": TranslatorConfig(steps=2400, bfloat16=True),
    "large": TranslatorConfig(steps=5000, patch_px=512, width=64, blocks=6, bfloat16=True),
}
"""Settings for a first try, for a CPU and for a GPU."""
