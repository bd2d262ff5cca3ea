"""What a training of the translator is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from sim2cam.errors import UsageError
from sim2cam.learn.settings import check_minimums

MAX_BOUND = 0.3  # with more, a translator could turn colours round or paint objects over

LpipsNetwork = Literal["vgg", "alex", "squeeze"]

OMITTED_DEFAULTS = (
    "perception_weight", "nce_weight", "flow_weight", "discriminator_scales", "bfloat16",
    "structure_residual_weight",
    "lpips_weight", "lpips_network", "compile",
)  # fmt: skip
"""Left out of files where they are the usual ones: cards and checkpoints of before have none."""

_MIN_SCALED_PX = 16  # of a patch at the coarsest scale that is judged

_MIN_VALUES = {
    "steps": 1,
    "seed": 0,
    "batch": 1,
    "accumulation_steps": 1,
    "blocks": 1,
    "discriminator_scales": 1,
    "adversarial_weight": 0,
    "identity_weight": 0,
    "structure_weight": 0,
    "structure_residual_weight": 0,
    "range_weight": 0,
    "paired_weight": 0,
    "perception_weight": 0,
    "nce_weight": 0,
    "flow_weight": 0,
    "lpips_weight": 0,
    "gradient_penalty": 0,
    "gradient_penalty_every": 1,
    "cache_bytes": 0,
}


@dataclass(frozen=True)
class TranslatorConfig:
    """A training of the translator; equal values give equal weights on one machine.

    Attributes:
        steps: of both networks.
        seed: decides initial weights, patches, noise and augmentation.
        batch: rendered patches a step, and as many of captures.
        accumulation_steps: of a batch, which are worked off one after another; more of them take less memory.
        patch_px: side of the patches, cut at native scale; a multiple of 4.
        width: channels of the generator at half size.
        blocks: residual blocks of the generator.
        discriminator_scales: of the discriminator: pictures, their halves, and so on, each with as much to say.
        use_buffers: give the generator depth, normals, masks of objects and categories, and places on
            objects, of these what every render has.
        colour_bound: most that an entry of the colour matrix may leave the identity.
        local_bound: most that the local residual may add, of a range of 1.
        adversarial_weight: of the hinge loss, which pulls towards the captures.
        identity_weight: of leaving captures as they are.
        structure_weight: of keeping local contrast in its place.
        structure_residual_weight: of having no structure alone, or lacking any, where that is worst.
        range_weight: of staying between black and white.
        paired_weight: of equalling the captures that renders are paired with.
        gradient_penalty: R1 weight of the discriminator, applied every ``gradient_penalty_every``.
        learning_rate_generator, learning_rate_discriminator: of Adam.
        ema_decay: of the averaged weights, which are the result.
        perception_weight: of a detector saying the same of a render and of its translation, where a
            training is given one that is good on renders.
        nce_weight: of finding each place of a render again in its translation (PatchNCE).
        flow_weight: of the same point changing alike in pictures of a film that follow one another.
        lpips_weight: of looking alike to a network that was trained on photos (LPIPS); it takes the package
            ``lpips`` and weights that torchvision publishes.
        lpips_network: whose weights: ``vgg`` (553 MB), ``alex`` (244 MB) or ``squeeze`` (5 MB).
        bfloat16: whether both networks learn in bfloat16 on CPUs too that multiply it themselves, as they do
            on CUDA; a step takes less time then.
        compile: whether torch compiles both networks, meant for GPUs; it takes a compiler of C++ too, a minute
            at the start, and on CPUs more time a step.
        cache_bytes: budget of decoded images in memory, for each side; it decides speed only.
    """

    steps: int = 3000
    seed: int = 0
    batch: int = 4
    accumulation_steps: int = 1
    patch_px: int = 128
    width: int = 32
    blocks: int = 4
    discriminator_scales: int = 2
    use_buffers: bool = True
    colour_bound: float = 0.3
    local_bound: float = 0.2
    adversarial_weight: float = 1.0
    identity_weight: float = 2.0
    structure_weight: float = 4.0
    structure_residual_weight: float = 100.0
    range_weight: float = 10.0
    paired_weight: float = 20.0
    gradient_penalty: float = 1.0
    gradient_penalty_every: int = 16
    learning_rate_generator: float = 4e-4
    learning_rate_discriminator: float = 6e-4
    ema_decay: float = 0.999
    perception_weight: float = 1.0
    nce_weight: float = 0.0
    flow_weight: float = 0.0
    lpips_weight: float = 0.0
    lpips_network: LpipsNetwork = "vgg"
    bfloat16: bool = False
    compile: bool = False
    cache_bytes: int = 1 << 30

    def __post_init__(self) -> None:
        """Refuse values that cannot be trained with.

        Raises:
            UsageError: naming the value.
        """
        if self.patch_px < 32 or self.patch_px % 4:
            raise UsageError(f"patch_px must be a multiple of 4 from 32, not {self.patch_px}")
        if self.width < 2 or self.width % 2:
            raise UsageError(f"width must be even and 2 or more, not {self.width}")
        check_minimums(self, _MIN_VALUES)
        if self.patch_px >> (self.discriminator_scales - 1) < _MIN_SCALED_PX:
            raise UsageError(
                f"discriminator_scales must leave {_MIN_SCALED_PX} pixels or more of a patch of {self.patch_px}, which "
                f"{self.discriminator_scales} do not"
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
        """Return the settings as JSON values, without later ones that are the usual ones."""
        usual = {field.name: field.default for field in fields(self)}
        return {n: v for n, v in asdict(self).items() if n not in OMITTED_DEFAULTS or v != usual[n]}


PRESETS: Mapping[str, TranslatorConfig] = {
    # too short to learn restraint
    "demo": TranslatorConfig(steps=150, batch=3, local_bound=0.1, bfloat16=True),
    "small": TranslatorConfig(steps=2400, bfloat16=True),
    "large": TranslatorConfig(steps=5000, patch_px=512, width=64, blocks=6, bfloat16=True),
}
"""Aimed at two minutes and at twenty of two cores, and at half an hour of a GPU; no committed result times them."""
