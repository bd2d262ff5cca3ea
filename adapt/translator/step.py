"""One step of the two networks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sim2cam.adapt.reference.losses import patch_nce
from sim2cam.adapt.reference.networks import PatchProjector, initialise
from sim2cam.adapt.translator.augment import augment
from sim2cam.adapt.translator.config import TranslatorConfig
from sim2cam.adapt.translator.discriminator import ScaledDiscriminator, initialise_discriminator
from sim2cam.adapt.translator.generator import Generator, Translation, initialise_generator
from sim2cam.adapt.translator.losses import (
    discriminator_hinge,
    generator_hinge,
    gradient_penalty,
    paired_loss,
    range_loss,
    structure_loss,
    unshared_loss,
    windows_with_contrast,
)
from sim2cam.adapt.translator.patches import Batch, Patches
from sim2cam.adapt.translator.perceptual_consistency import (
    Distances,
    Said,
    objects_in,
    perception_loss,
)
from sim2cam.adapt.translator.sequences import flow_loss
from sim2cam.adapt.translator.translator import build_generator
from sim2cam.learn.device import autocast
from sim2cam.learn.distributed import average_gradients, divisor
from sim2cam.seeds import integer_seed

_BETAS = (0.5, 0.99)


@dataclass(frozen=True)
class Players:
    """The two networks, their optimisers, and what else says how good the generator is.

    Attributes:
        generator, discriminator: the two networks.
        generator_optimiser: also of the projector.
        discriminator_optimiser: of the discriminator alone.
        projector: by which places are found again; None where that is not learned.
        look: what a detector says of pictures (n, 3, h, w), 0 to 1; None without one.
        lpips: distances (n,) of such pictures from others; None where they are not learned from.
        bfloat16: whether both compute in it on CPUs too that multiply it themselves.
    """

    generator: Generator
    discriminator: ScaledDiscriminator
    generator_optimiser: torch.optim.Adam
    discriminator_optimiser: torch.optim.Adam
    projector: PatchProjector | None = None
    look: Callable[[Tensor], Said] | None = None
    lpips: Distances | None = None
    bfloat16: bool = False


def build_players(
    config: TranslatorConfig,
    buffers: tuple[str, ...],
    device: torch.device,
    look: Callable[[Tensor], Said] | None = None,
    lpips: Distances | None = None,
) -> Players:
    """Returns the networks as they are at step 0, and their optimisers.

    Args:
        config: of the training.
        buffers: that the generator is given.
        device: of the networks.
        look, lpips: as ``Players`` has them.
    """
    generator = build_generator(config, buffers)
    discriminator = ScaledDiscriminator(config.width, config.scales)
    initialise_generator(generator, _rng(config, "translator/generator"))
    initialise_discriminator(discriminator, _rng(config, "translator/discriminator"))
    # torch's types do not know that Module.to takes a memory format alone
    generator.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    discriminator.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if config.compile:
        generator.residual.compile()  # the colours are few, and computed in single precision
        discriminator.compile()
    projector = _projector(config, generator)
    learned = list(generator.parameters())
    if projector is not None:
        learned += projector.to(device).parameters()
    return Players(
        generator,
        discriminator,
        torch.optim.Adam(learned, config.learning_rate_generator, _BETAS),
        torch.optim.Adam(discriminator.parameters(), config.learning_rate_discriminator, _BETAS),
        projector,
        look if config.perception_weight else None,
        lpips if config.lpips_weight else None,
        config.bfloat16,
    )


def _projector(config: TranslatorConfig, generator: Generator) -> PatchProjector | None:
    """Returns the projector as it is at step 0; None where places are not looked for again."""
    if not config.nce_weight:
        return None
    projector = PatchProjector(generator.encoded_channels)
    initialise(projector, _rng(config, "translator/projector"), xavier=False)
    return projector


def translate(players: Players, patches: Patches) -> Translation:
    """Returns the translation of patches."""
    with autocast(patches.rgb.device, on_cpu=players.bfloat16):
        translation: Translation = players.generator(
            patches.rgb, patches.buffers, patches.noise, patches.thumbnail
        )
    return translation


def judge(players: Players, rgb: Tensor) -> tuple[Tensor, ...]:
    """Returns the verdicts (n, 1, h, w) of pictures (n, 3, h, w) at each scale, in single precision."""
    with autocast(rgb.device, on_cpu=players.bfloat16):
        verdicts: tuple[Tensor, ...] = players.discriminator(rgb)
    return tuple(one.float() for one in verdicts)


def update(
    players: Players, batch: Batch, config: TranslatorConfig, step: int
) -> dict[str, Tensor]:
    """Updates the discriminator, then the generator; returns the scalars of both, detached.

    Of several parts of a batch one graph is held at a time, so each is translated twice: for the
    discriminator, and again for the generator once that has learned.
    """
    parts = batch.parts(config.parts)
    is_whole = len(parts) == 1
    with torch.set_grad_enabled(is_whole):
        fakes = [translate(players, part.sim) for part in parts]
    judged = update_discriminator(
        players, [fake.rgb.detach() for fake in fakes], parts, config, step
    )
    made = fakes if is_whole else (translate(players, part.sim) for part in parts)
    return judged | update_generator(players, made, parts, config)


def update_discriminator(
    players: Players,
    fakes_rgb: Iterable[Tensor],
    parts: Sequence[Batch],
    config: TranslatorConfig,
    step: int,
) -> dict[str, Tensor]:
    """Teaches the discriminator to tell captures from the translations (n, 3, h, w) of each part."""
    found = []
    players.discriminator_optimiser.zero_grad(set_to_none=True)
    for fake_rgb, part in zip(fakes_rgb, parts, strict=True):
        loss, scalars = _discriminator_loss(players, fake_rgb, part, config, step)
        (loss / len(parts)).backward()  # type: ignore[no-untyped-call]
        found.append(scalars)
    average_gradients(players.discriminator_optimiser)
    players.discriminator_optimiser.step()
    return _means(found)


def _discriminator_loss(
    players: Players,
    fake_rgb: Tensor,
    batch: Batch,
    config: TranslatorConfig,
    step: int,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Returns the loss of the discriminator, and its scalars."""
    real = augment(batch.real.rgb, batch.augmentation)
    verdicts = judge(players, torch.cat([real, augment(fake_rgb, batch.augmentation)]))
    on_real, on_fake = zip(*(one.chunk(2) for one in verdicts), strict=True)
    loss = discriminator_hinge(on_real, on_fake)
    right = [
        torch.cat([captured > 0, made < 0]).float().mean()
        for captured, made in zip(on_real, on_fake, strict=True)
    ]
    scalars = {
        "discriminator": loss.detach(),
        "discriminator_accuracy": torch.stack(right).mean(),
    }
    if step % config.gradient_penalty_every == 0:
        penalty = gradient_penalty(players.discriminator, real)
        weight = 0.5 * config.gradient_penalty * config.gradient_penalty_every
        loss = loss + weight * penalty
        scalars["gradient_penalty"] = penalty.detach()
    return loss, scalars


def update_generator(
    players: Players,
    fakes: Iterable[Translation],
    parts: Sequence[Batch],
    config: TranslatorConfig,
) -> dict[str, Tensor]:
    """Teaches the generator to pass, to keep structure, and to leave captures alone."""
    weights = {
        "adversarial": config.adversarial_weight,
        "identity": config.identity_weight,
        "structure": config.structure_weight,
        "unshared": config.unshared_weight,
        "range": config.range_weight,
        "paired": config.paired_weight,
        "perception": config.perception_weight,
        "nce": config.nce_weight,
        "flow": config.flow_weight,
        "lpips": config.lpips_weight,
    }
    found = []
    players.generator_optimiser.zero_grad(set_to_none=True)
    for fake, part, shares in zip(fakes, parts, _shares(players, parts), strict=True):
        losses = {
            name: shares.get(name, 1 / len(parts)) * loss
            for name, loss in generator_losses(players, fake, part).items()
        }
        total = torch.stack([weights[name] * loss for name, loss in losses.items()]).sum()
        total.backward()  # type: ignore[no-untyped-call]
        change = (fake.rgb - part.sim.rgb).abs().mean() / len(parts)
        scalars = losses | {"generator": total, "mean_change": change}
        found.append({name: value.detach() for name, value in scalars.items()})
    average_gradients(players.generator_optimiser)
    players.generator_optimiser.step()
    return {name: torch.stack([scalars[name] for scalars in found]).sum() for name in found[0]}


def _shares(players: Players, parts: Sequence[Batch]) -> list[dict[str, Tensor]]:
    """Returns of each part which share of a loss is its own, of losses that are means over what pictures
    show; of others every part has as much.
    """
    if len(parts) == 1:
        return [{}]
    counts = [_counts(players, part) for part in parts]
    wholes = {name: torch.stack([count[name] for count in counts]).sum() for name in counts[0]}
    return [
        {name: divisor(count[name]) / divisor(whole) for name, whole in wholes.items()}
        for count in counts
    ]


@torch.no_grad()
def _counts(players: Players, batch: Batch) -> dict[str, Tensor]:
    """Returns over how much of a batch losses are means: windows, pixels, objects, and pixels again."""
    counts = {"structure": windows_with_contrast(_before(batch))}
    if batch.registered is not None:
        counts["paired"] = batch.registered.sum()
    if players.look is not None:
        counts["perception"] = objects_in(players.look(batch.sim.rgb))
    if batch.film is not None:
        counts["flow"] = batch.film.seen.sum()
    return counts


def _before(batch: Batch) -> Tensor:
    """Returns all renders (n, 3, h, w) of a batch."""
    if batch.others is None:
        return batch.sim.rgb
    return torch.cat([batch.sim.rgb, batch.others.rgb])


def _means(found: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Returns the mean of each scalar over the parts of a batch."""
    return {name: torch.stack([scalars[name] for scalars in found]).mean() for name in found[0]}


def generator_losses(players: Players, fake: Translation, batch: Batch) -> dict[str, Tensor]:
    """Returns the losses of translated renders, of captures sent through the generator, of pairs that of
    what still differs, and those of what else there is in ``players`` and ``batch``.
    """
    players.discriminator.requires_grad_(False)
    verdict = judge(players, augment(fake.rgb, batch.augmentation))
    players.discriminator.requires_grad_(True)
    kept = translate(players, batch.real)
    after = fake.raw
    if batch.others is not None:
        after = torch.cat([after, translate(players, batch.others).raw])
    losses = {
        "adversarial": generator_hinge(verdict),
        "identity": (kept.rgb - batch.real.rgb).abs().mean(),
        "structure": structure_loss(_before(batch), after.clamp(0.0, 1.0)),
        "unshared": unshared_loss(_before(batch), after.clamp(0.0, 1.0)),
        "range": range_loss(after),
    }
    if batch.registered is not None:
        losses["paired"] = paired_loss(fake.raw, batch.real.rgb, batch.registered)
    if players.look is not None:
        with torch.no_grad():
            said = players.look(batch.sim.rgb)
        losses["perception"] = perception_loss(said, players.look(fake.rgb))
    if players.lpips is not None:
        # in bfloat16 a level of difference would be lost
        losses["lpips"] = players.lpips(batch.sim.rgb, fake.rgb).mean()
    if players.projector is not None:
        seen = [players.generator.features(rgb) for rgb in (batch.sim.rgb, fake.rgb)]
        losses["nce"] = nce_loss(players.projector, seen[0], seen[1], batch.places)
    if batch.film is not None:
        made = [translate(players, p).rgb for p in (batch.film.earlier, batch.film.later)]
        losses["flow"] = flow_loss(batch.film, *made)
    return losses


def nce_loss(
    projector: PatchProjector,
    before: Sequence[Tensor],
    after: Sequence[Tensor],
    places: Sequence[Tensor],
) -> Tensor:
    """Returns how hard places of renders are to find again in translations: ``patch_nce``, as a mean over
    layers.

    Args:
        projector: of the features.
        before, after: features (n, c, h, w) of each layer, of renders and translations.
        places: of each layer (p,).
    """
    pairs = zip(projector(after, places), projector(before, places), strict=True)
    return torch.stack([patch_nce(found, source) for found, source in pairs]).mean()


def _rng(config: TranslatorConfig, path: str) -> torch.Generator:
    return torch.Generator().manual_seed(integer_seed(config.seed, path))
