"""One training step of generator and discriminator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sim2cam.adapt.reference.losses import patch_nce_loss
from sim2cam.adapt.reference.networks import PatchProjector, initialise_weights
from sim2cam.adapt.translator.augment import augment
from sim2cam.adapt.translator.config import TranslatorConfig
from sim2cam.adapt.translator.discriminator import MultiScaleDiscriminator, initialise_discriminator
from sim2cam.adapt.translator.generator import Generator, GeneratorOutput, initialise_generator
from sim2cam.adapt.translator.losses import (
    count_contrast_windows,
    discriminator_hinge_loss,
    generator_hinge_loss,
    gradient_penalty,
    paired_loss,
    range_loss,
    structure_loss,
    structure_residual_loss,
)
from sim2cam.adapt.translator.patches import PatchBatch, TranslatorBatch
from sim2cam.adapt.translator.perceptual_consistency import (
    DetectorOutput,
    PerceptualDistance,
    count_objects,
    perception_consistency_loss,
)
from sim2cam.adapt.translator.sequences import flow_loss
from sim2cam.adapt.translator.translator import build_generator
from sim2cam.learn.device import autocast
from sim2cam.learn.distributed import distribute, reduce_divisor
from sim2cam.seeds import derive_seed

_BETAS = (0.5, 0.99)


@dataclass(frozen=True)
class TranslatorNetworks:
    """Networks of a training with their optimisers.

    Attributes:
        generator, discriminator: the two networks.
        generator_optimiser: optimiser of generator and projector.
        discriminator_optimiser: optimiser of the discriminator.
        generator_losses: ``compute_generator_losses`` with gradients of all processes.
        discriminator_losses: ``_compute_discriminator_loss`` with gradients of all processes.
        projector: projector of the PatchNCE loss; None without it.
        predict_maps: detector of the perception-consistency loss; None without it.
        lpips: distance of the LPIPS loss; None without it.
        bfloat16: whether to use bfloat16 on CPUs with native support.
    """

    generator: Generator
    discriminator: MultiScaleDiscriminator
    generator_optimiser: torch.optim.Adam
    discriminator_optimiser: torch.optim.Adam
    generator_losses: Callable[..., dict[str, Tensor]]
    discriminator_losses: Callable[..., tuple[Tensor, dict[str, Tensor]]]
    projector: PatchProjector | None = None
    predict_maps: Callable[[Tensor], DetectorOutput] | None = None
    lpips: PerceptualDistance | None = None
    bfloat16: bool = False


def build_networks(
    config: TranslatorConfig,
    buffers: tuple[str, ...],
    device: torch.device,
    predict_maps: Callable[[Tensor], DetectorOutput] | None = None,
    lpips: PerceptualDistance | None = None,
) -> TranslatorNetworks:
    """Build the networks at step 0 and their optimisers.

    Args:
        predict_maps, lpips: as in ``TranslatorNetworks``.
    """
    generator = build_generator(config, buffers)
    discriminator = MultiScaleDiscriminator(config.width, config.discriminator_scales)
    initialise_generator(generator, _build_rng(config, "translator/generator"))
    initialise_discriminator(discriminator, _build_rng(config, "translator/discriminator"))
    # torch's type stubs lack Module.to(memory_format=…)
    generator.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    discriminator.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if config.compile:
        generator.residual.compile()  # the colour head is small and in single precision
        discriminator.compile()
    projector = _build_projector(config, generator)
    trained = [generator] if projector is None else [generator, projector.to(device)]
    parameters = [parameter for network in trained for parameter in network.parameters()]
    return TranslatorNetworks(
        generator,
        discriminator,
        torch.optim.Adam(parameters, config.learning_rate_generator, _BETAS),
        torch.optim.Adam(discriminator.parameters(), config.learning_rate_discriminator, _BETAS),
        distribute(compute_generator_losses, *trained),
        distribute(_compute_discriminator_loss, discriminator),
        projector,
        predict_maps if config.perception_weight else None,
        lpips if config.lpips_weight else None,
        config.bfloat16,
    )


def _build_projector(config: TranslatorConfig, generator: Generator) -> PatchProjector | None:
    """Return the projector at step 0; None without PatchNCE loss."""
    if not config.nce_weight:
        return None
    projector = PatchProjector(generator.encoder_channels)
    initialise_weights(projector, _build_rng(config, "translator/projector"), xavier=False)
    return projector


def translate_patches(networks: TranslatorNetworks, patches: PatchBatch) -> GeneratorOutput:
    """Translate patches with the generator."""
    with autocast(patches.rgb.device, on_cpu=networks.bfloat16):
        translation: GeneratorOutput = networks.generator(
            patches.rgb, patches.buffers, patches.noise, patches.thumbnail
        )
    return translation


def discriminate(networks: TranslatorNetworks, rgb: Tensor) -> tuple[Tensor, ...]:
    """Return the scores (n, 1, h, w) of images (n, 3, h, w) at each scale, in single precision."""
    with autocast(rgb.device, on_cpu=networks.bfloat16):
        scores: tuple[Tensor, ...] = networks.discriminator(rgb)
    return tuple(scale_scores.float() for scale_scores in scores)


def update_networks(
    networks: TranslatorNetworks, batch: TranslatorBatch, config: TranslatorConfig, step: int
) -> dict[str, Tensor]:
    """Update the discriminator, then the generator, and return their detached scalars.

    With micro-batches only one graph is held at a time, so each micro-batch is translated twice: for the
    discriminator, and for the generator after the discriminator's update.
    """
    parts = batch.split(config.accumulation_steps)
    is_single = len(parts) == 1
    with torch.set_grad_enabled(is_single):
        fakes = [translate_patches(networks, part.sim) for part in parts]
    discriminator_metrics = update_discriminator(
        networks, [fake.rgb.detach() for fake in fakes], parts, config, step
    )
    generator_fakes = (
        fakes if is_single else (translate_patches(networks, part.sim) for part in parts)
    )
    return discriminator_metrics | update_generator(networks, generator_fakes, parts, config)


def update_discriminator(
    networks: TranslatorNetworks,
    fakes_rgb: Iterable[Tensor],
    micro_batches: Sequence[TranslatorBatch],
    config: TranslatorConfig,
    step: int,
) -> dict[str, Tensor]:
    """Update the discriminator on real images and translations (n, 3, h, w) of each micro-batch."""
    metrics = []
    networks.discriminator_optimiser.zero_grad(set_to_none=True)
    for fake_rgb, part in zip(fakes_rgb, micro_batches, strict=True):
        loss, scalars = networks.discriminator_losses(networks, fake_rgb, part, config, step)
        (loss / len(micro_batches)).backward()  # type: ignore[no-untyped-call]
        metrics.append(scalars)
    networks.discriminator_optimiser.step()
    return _average_metrics(metrics)


def _compute_discriminator_loss(
    networks: TranslatorNetworks,
    fake_rgb: Tensor,
    batch: TranslatorBatch,
    config: TranslatorConfig,
    step: int,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the discriminator loss and its scalars."""
    real = augment(batch.real.rgb, batch.augmentation)
    scores = discriminate(networks, torch.cat([real, augment(fake_rgb, batch.augmentation)]))
    real_scores, fake_scores = zip(*(scale_scores.chunk(2) for scale_scores in scores), strict=True)
    loss = discriminator_hinge_loss(real_scores, fake_scores)
    accuracies = [
        torch.cat([real_score > 0, fake_score < 0]).float().mean()
        for real_score, fake_score in zip(real_scores, fake_scores, strict=True)
    ]
    scalars = {
        "discriminator": loss.detach(),
        "discriminator_accuracy": torch.stack(accuracies).mean(),
    }
    if step % config.gradient_penalty_every == 0:
        penalty = gradient_penalty(networks.discriminator, real)
        weight = 0.5 * config.gradient_penalty * config.gradient_penalty_every
        loss = loss + weight * penalty
        scalars["gradient_penalty"] = penalty.detach()
    return loss, scalars


def update_generator(
    networks: TranslatorNetworks,
    fakes: Iterable[GeneratorOutput],
    micro_batches: Sequence[TranslatorBatch],
    config: TranslatorConfig,
) -> dict[str, Tensor]:
    """Update the generator on the weighted sum of its losses."""
    metrics = []
    networks.generator_optimiser.zero_grad(set_to_none=True)
    for fake, part, loss_weights in zip(
        fakes, micro_batches, _weight_micro_batches(networks, micro_batches), strict=True
    ):
        losses = {
            name: loss_weights.get(name, 1 / len(micro_batches)) * loss
            for name, loss in networks.generator_losses(networks, fake, part).items()
        }
        total = torch.stack(
            [getattr(config, f"{name}_weight") * loss for name, loss in losses.items()]
        ).sum()
        total.backward()  # type: ignore[no-untyped-call]
        change = (fake.rgb - part.sim.rgb).abs().mean() / len(micro_batches)
        scalars = losses | {"generator": total, "mean_change": change}
        metrics.append({name: value.detach() for name, value in scalars.items()})
    networks.generator_optimiser.step()
    return {name: torch.stack([scalars[name] for scalars in metrics]).sum() for name in metrics[0]}


def _weight_micro_batches(
    networks: TranslatorNetworks, micro_batches: Sequence[TranslatorBatch]
) -> list[dict[str, Tensor]]:
    """Return the weights of each micro-batch for losses that average over content-dependent counts.

    All micro-batches have equal weight for the other losses.
    """
    if len(micro_batches) == 1:
        return [{}]
    counts = [_count_loss_terms(networks, part) for part in micro_batches]
    totals = {name: torch.stack([count[name] for count in counts]).sum() for name in counts[0]}
    return [
        {
            name: reduce_divisor(count[name]) / reduce_divisor(total)
            for name, total in totals.items()
        }
        for count in counts
    ]


@torch.no_grad()
def _count_loss_terms(networks: TranslatorNetworks, batch: TranslatorBatch) -> dict[str, Tensor]:
    """Return the counts over which losses of a batch average: windows, registered pixels, objects, covisible pixels."""
    counts = {"structure": count_contrast_windows(_concatenate_renders(batch))}
    if batch.registration_mask is not None:
        counts["paired"] = batch.registration_mask.sum()
    if networks.predict_maps is not None:
        counts["perception"] = count_objects(networks.predict_maps(batch.sim.rgb))
    if batch.frame_pairs is not None:
        counts["flow"] = batch.frame_pairs.covisible_mask.sum()
    return counts


def _concatenate_renders(batch: TranslatorBatch) -> Tensor:
    """Return all renders (n, 3, h, w) of a batch."""
    if batch.unmatched_sim is None:
        return batch.sim.rgb
    return torch.cat([batch.sim.rgb, batch.unmatched_sim.rgb])


def _average_metrics(metrics: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return the mean of each scalar over micro-batches."""
    return {name: torch.stack([scalars[name] for scalars in metrics]).mean() for name in metrics[0]}


def compute_generator_losses(
    networks: TranslatorNetworks, fake: GeneratorOutput, batch: TranslatorBatch
) -> dict[str, Tensor]:
    """Return the unweighted losses of the generator by name.

    Optional losses depend on the contents of ``networks`` and ``batch``.
    """
    networks.discriminator.requires_grad_(False)
    scores = discriminate(networks, augment(fake.rgb, batch.augmentation))
    networks.discriminator.requires_grad_(True)
    identity = translate_patches(networks, batch.real)
    after = fake.unclamped
    if batch.unmatched_sim is not None:
        after = torch.cat([after, translate_patches(networks, batch.unmatched_sim).unclamped])
    losses = {
        "adversarial": generator_hinge_loss(scores),
        "identity": (identity.rgb - batch.real.rgb).abs().mean(),
        "structure": structure_loss(_concatenate_renders(batch), after.clamp(0.0, 1.0)),
        "structure_residual": structure_residual_loss(
            _concatenate_renders(batch), after.clamp(0.0, 1.0)
        ),
        "range": range_loss(after),
    }
    if batch.registration_mask is not None:
        losses["paired"] = paired_loss(fake.unclamped, batch.real.rgb, batch.registration_mask)
    if networks.predict_maps is not None:
        with torch.no_grad():
            render_maps = networks.predict_maps(batch.sim.rgb)
        losses["perception"] = perception_consistency_loss(
            render_maps, networks.predict_maps(fake.rgb)
        )
    if networks.lpips is not None:
        # single precision: bfloat16 would lose differences of one level
        losses["lpips"] = networks.lpips(batch.sim.rgb, fake.rgb).mean()
    if networks.projector is not None:
        features = [networks.generator.extract_features(rgb) for rgb in (batch.sim.rgb, fake.rgb)]
        losses["nce"] = nce_loss(networks.projector, features[0], features[1], batch.nce_locations)
    if batch.frame_pairs is not None:
        translations = [
            translate_patches(networks, frames).rgb
            for frames in (batch.frame_pairs.earlier, batch.frame_pairs.later)
        ]
        losses["flow"] = flow_loss(batch.frame_pairs, *translations)
    return losses


def nce_loss(
    projector: PatchProjector,
    before: Sequence[Tensor],
    after: Sequence[Tensor],
    locations: Sequence[Tensor],
) -> Tensor:
    """Return ``patch_nce_loss`` between renders and translations, averaged over layers.

    Args:
        before, after: features (n, c, h, w) of each layer, of renders and translations.
        locations: pixel indices (p,) of each layer.
    """
    pairs = zip(projector(after, locations), projector(before, locations), strict=True)
    return torch.stack(
        [
            patch_nce_loss(after_features, before_features)
            for after_features, before_features in pairs
        ]
    ).mean()


def _build_rng(config: TranslatorConfig, path: str) -> torch.Generator:
    return torch.Generator().manual_seed(derive_seed(config.seed, path))
