"""Training of the residual translator on renders and unlabelled real images."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sim2cam.adapt.card import build_image_set_record, compute_image_digests
from sim2cam.adapt.training.adversarial import (
    MIN_REAL_IMAGES,
    check_image_counts,
    train_adversarial,
)
from sim2cam.adapt.training.candidates import CheckpointSelector
from sim2cam.adapt.training.checkpoint_selection import TrainingSplit, split_held_out
from sim2cam.adapt.translation import NO_VERIFIERS, Verification
from sim2cam.adapt.translator.buffers import count_channels, list_common_buffers
from sim2cam.adapt.translator.card import TranslatorCard
from sim2cam.adapt.translator.config import TranslatorConfig
from sim2cam.adapt.translator.losses import CHANCE_HINGE_LOSS
from sim2cam.adapt.translator.pairs import MAX_SHIFT_PX, RegisteredPairs, register_pairs
from sim2cam.adapt.translator.patches import (
    PatchSource,
    TranslatorBatch,
    sample_batch,
    sample_nce_locations,
    sample_paired_batch,
)
from sim2cam.adapt.translator.perceptual_consistency import DetectorOutput, PerceptualDistance
from sim2cam.adapt.translator.sequences import FramePairSource
from sim2cam.adapt.translator.step import build_networks, update_networks
from sim2cam.adapt.translator.translator import (
    Translator,
    build_generator,
    build_translator,
    load_translator,
    save_translator,
)
from sim2cam.data.sample import Dataset
from sim2cam.errors import InputError, UsageError
from sim2cam.learn.distributed import slice_batch
from sim2cam.learn.ema import ExponentialMovingAverage
from sim2cam.learn.trainer import NO_CALLBACKS, Callbacks, Trainable
from sim2cam.learn.weight_file import to_half_precision
from sim2cam.seeds import derive_rng


def train_translator(
    sim: Dataset,
    real: Dataset,
    config: TranslatorConfig,
    run_dir: Path,
    *,
    paired: bool = False,
    verification: Verification = NO_VERIFIERS,
    resume: bool = False,
    device: str = "cpu",
    callbacks: Callbacks = NO_CALLBACKS,
    checkpoint_s: float = 30.0,
) -> Translator:
    """Train a translator and write its averaged weights to ``run_dir/weights.safetensors``.

    The weights are those of the best candidate on held-out images (``select_best``), or the last ones if nothing is
    held out (``split_held_out``).

    Args:
        sim: renders; the buffers of ``list_common_buffers`` are used.
        real: real images; labels are not used.
        config: training configuration.
        run_dir: folder for checkpoint, weights, card and ``metrics.jsonl``.
        paired: whether real images show the scenes of the renders of the same name; registered pairs
            (``register_pairs``) then add a supervised loss.
        verification: limits and verifiers for translations of held-out renders, and networks of perceptual losses.
        resume, device, callbacks, checkpoint_s: as in ``sim2cam.learn.trainer.train``, with its errors.

    Raises:
        InputError: there are no renders, fewer than ``MIN_REAL_IMAGES`` real images or pairs, or an image cannot be
            read.
        UsageError: the batch cannot be split among processes, or ``lpips_weight`` is set without LPIPS network.
    """
    if config.lpips_weight and verification.lpips is None:
        raise UsageError(
            "lpips_weight requires verification.lpips. Provide it, or set lpips_weight to 0."
        )
    pairs = _check_pair_count(register_pairs(sim, real)) if paired else None
    if pairs is not None:
        sim, real = pairs.sim, pairs.real
    check_image_counts(sim, real)
    split = split_held_out(sim, real, config.steps, is_paired=paired)
    buffers = list_common_buffers(sim) if config.use_buffers else ()
    perception = verification.perception if config.perception_weight else None
    digests = {"sim": compute_image_digests(sim), "real": compute_image_digests(real)}
    card = TranslatorCard(
        config.steps,
        buffers,
        config,
        build_image_set_record(sim, digests["sim"]),
        build_image_set_record(real, digests["real"]),
        pairs=None if pairs is None else pairs.record,
        perception=None if perception is None else perception.record,
    )
    local_device = train_adversarial(
        lambda local_device: ResidualGan(
            config,
            buffers,
            _build_batch_loader(split, pairs, config, buffers),
            local_device,
            None if perception is None else perception.predict_maps,
            verification.lpips,
        ),
        _build_identity(card) | {"images": digests},
        config.steps,
        run_dir,
        CheckpointSelector(split, verification, config.seed),
        lambda path, weights, outcome: save_translator(
            path, weights, replace(card, outcome=outcome)
        ),
        resume=resume,
        device=device,
        callbacks=callbacks,
        checkpoint_s=checkpoint_s,
    )
    return load_translator(run_dir, device=str(local_device))


class ResidualGan:
    """Residual generator and its discriminator in training; an ``AdversarialModel``."""

    chance_loss = "discriminator", CHANCE_HINGE_LOSS
    remedy = "Lower learning_rate_generator and learning_rate_discriminator"

    def __init__(
        self,
        config: TranslatorConfig,
        buffers: tuple[str, ...],
        load_batch: Callable[[int], TranslatorBatch],
        device: torch.device,
        predict_maps: Callable[[Tensor], DetectorOutput] | None = None,
        lpips: PerceptualDistance | None = None,
    ) -> None:
        self._config, self._buffers, self._device = config, buffers, device
        self._load_batch, self._local_patches = load_batch, _compute_local_patches(config)
        self._networks = networks = build_networks(config, buffers, device, predict_maps, lpips)
        self._average = ExponentialMovingAverage(networks.generator, config.ema_decay)
        self.networks = {
            "generator": Trainable(networks.generator, networks.generator_optimiser, self._average),
            "discriminator": Trainable(networks.discriminator, networks.discriminator_optimiser),
        }
        if networks.projector is not None:
            self.networks["projector"] = Trainable(networks.projector, networks.generator_optimiser)

    def make_batch(self, step: int) -> TranslatorBatch:
        """Return this process's part of the batch of a step."""
        return self._load_batch(step).select(self._local_patches)

    def train_step(self, step: int, batch: TranslatorBatch) -> dict[str, Tensor]:
        """Train one step and return its scalars.

        These are the unweighted losses by name, ``generator`` (their weighted sum), ``discriminator``,
        ``discriminator_accuracy`` (0.5 at chance), ``mean_change`` and, every ``gradient_penalty_every`` steps,
        ``gradient_penalty``.
        """
        scalars = update_networks(self._networks, batch.to(self._device), self._config, step)
        self._average.update(self._networks.generator, step)
        return scalars

    def get_weights(self) -> dict[str, Tensor]:
        """Return the averaged weights of the generator."""
        return self._average.state

    def build_transfer(self) -> Translator:
        """Return the current translator as it would be loaded."""
        generator = build_generator(self._config, self._buffers)
        generator.load_state_dict(to_half_precision(self.get_weights()))
        return build_translator(generator, self._buffers, self._device)


def _compute_local_patches(config: TranslatorConfig) -> slice:
    """Return the slice of a batch that belongs to this process.

    Raises:
        UsageError: the batch cannot be divided evenly among processes and ``accumulation_steps``.
    """
    patches = slice_batch(config.batch)
    if (patches.stop - patches.start) % config.accumulation_steps:
        raise UsageError(
            f"accumulation_steps must divide the {patches.stop - patches.start} patches of each process, not "
            f"{config.accumulation_steps}"
        )
    return patches


def _check_pair_count(pairs: RegisteredPairs) -> RegisteredPairs:
    """Return the pairs after a check of their number.

    Raises:
        InputError: there are fewer than ``MIN_REAL_IMAGES``.
    """
    used, rejected = pairs.record.pairs, pairs.record.rejected
    if used < MIN_REAL_IMAGES:
        raise InputError(
            pairs.real.root,
            f"{used} pairs, but a translator needs at least {MIN_REAL_IMAGES}. {rejected} more are displaced by more "
            f"than {MAX_SHIFT_PX:g} px or differ in content. Register the real images to their renders, or train "
            "without --paired.",
        )
    return pairs


def _build_batch_loader(
    split: TrainingSplit,
    pairs: RegisteredPairs | None,
    config: TranslatorConfig,
    buffers: tuple[str, ...],
) -> Callable[[int], TranslatorBatch]:
    """Return a function from a step to its batch."""
    sim = PatchSource(split.sim, buffers=buffers, cache_bytes=config.cache_bytes)
    real = PatchSource(split.real, buffers=(), cache_bytes=config.cache_bytes)
    channels = count_channels(buffers)
    if pairs is None:
        load_patches = functools.partial(sample_batch, sim, real, config, channels)
    else:
        tile_masks = [pairs.tile_masks[sample.name] for sample in split.sim.samples]
        load_patches = functools.partial(
            sample_paired_batch, sim, real, tile_masks, config, channels
        )
    frame_pair_source = FramePairSource(split.sim, sim) if config.flow_weight else None

    def load_step(step: int) -> TranslatorBatch:
        rng = derive_rng(config.seed, "translator/film", scene_index=step)
        return replace(
            load_patches(step),
            nce_locations=sample_nce_locations(config, step) if config.nce_weight else (),
            frame_pairs=frame_pair_source.sample_frame_pairs(
                rng, config.patch_px, config.batch, channels
            )
            if frame_pair_source
            else None,
        )

    return load_step


def _build_identity(card: TranslatorCard) -> dict[str, Any]:
    settings = card.config.to_json().items()
    config = {n: v for n, v in settings if n not in ("cache_bytes", "compile")}
    return {
        # not omitted at their defaults: earlier checkpoints without them used other values
        "config": config
        | {
            name: getattr(card.config, name)
            for name in ("discriminator_scales", "structure_residual_weight")
        },
        "buffers": list(card.buffers),
        "sim": card.sim.digest,
        "real": card.real.digest,
        **({} if card.pairs is None else {"paired": True}),
        **({} if card.perception is None else {"perception": card.perception.digest}),
    }
