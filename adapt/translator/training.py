"""Training a translator from renders and unlabelled captures."""

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
    TensorGroups,
    TranslatorProgress,
    build_checkpoint_selector,
    collect_network_state,
    restore_network_state,
    train_adversarial,
)
from sim2cam.adapt.training.checkpoint_selection import TrainingSplit
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
from sim2cam.learn.device import explain_out_of_memory
from sim2cam.learn.distributed import join_process_group, slice_batch, wait_for_all
from sim2cam.learn.ema import ExponentialMovingAverage
from sim2cam.learn.launch import is_main_process
from sim2cam.learn.prefetch import Prefetcher
from sim2cam.learn.run_folder import WEIGHTS
from sim2cam.learn.weight_file import to_half_precision
from sim2cam.seeds import derive_rng


@explain_out_of_memory()
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
    progress: Callable[[TranslatorProgress], None] | None = None,
    checkpoint_s: float = 30.0,
) -> Translator:
    """Return the translator whose averaged weights are then in ``run_dir/weights.safetensors``.

    They are the best of those that were judged on the way (``select_best``), by renders and captures that
    were kept aside (``parts_of``); the last ones where nothing was.

    Args:
        sim: renders; what ``list_common_buffers`` names is used where all have it.
        real: captures; only their pixels are looked at.
        config: everything else that decides the result.
        run_dir: for checkpoint, weights, their card and ``metrics.jsonl``.
        paired: captures are of the scenes of the renders that have their names; of these pairs
            (``register_pairs``) the generator is also taught what differs.
        verification: that translations of renders kept aside are judged by, and the networks that the generator
            learns not to surprise, where that has a weight.
        resume: goes on from the checkpoint, where there is one.
        device: ``cpu``, ``cuda`` or ``cuda:i``.
        progress: is told of every line of the record.
        checkpoint_s: seconds between checkpoints.

    Raises:
        InputError: no renders, fewer than ``MIN_REAL_IMAGES`` captures or pairs, or an image cannot be
            read.
        CheckpointError: the checkpoint is broken or of another training.
        OutputError: the folder cannot be written, or holds a training and ``resume`` is False.
        UsageError, BackendError: there is no such device, its memory is full, or processes cannot share the
            batch.
        DivergenceError: the loss is no longer finite.
    """
    if config.lpips_weight and verification.lpips is None:
        raise UsageError("lpips_weight takes distances in the jury. Give them, or set it to 0.")
    pairs = _check_pair_count(register_pairs(sim, real)) if paired else None
    if pairs is not None:
        sim, real = pairs.sim, pairs.real
    contest = build_checkpoint_selector(sim, real, config, verification, is_paired=paired)
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
    draw = Prefetcher(_build_batch_loader(contest.split, pairs, config, buffers), config.steps)
    with join_process_group(device) as place:
        played = train_adversarial(
            ResidualGan(
                config,
                buffers,
                draw,
                place,
                None if perception is None else perception.predict_maps,
                verification.lpips,
            ),
            _build_identity(card),
            digests,
            config.steps,
            run_dir,
            contest,
            hint="Lower learning_rate_generator and learning_rate_discriminator",
            resume=resume,
            progress=progress,
            checkpoint_s=checkpoint_s,
        )
        if is_main_process():
            save_translator(
                run_dir / WEIGHTS, played.weights, replace(card, outcome=played.outcome)
            )
        wait_for_all()
    return load_translator(run_dir, device=str(place))


class ResidualGan:
    """The game of the residual generator and its discriminator; a ``AdversarialModel``."""

    chance_loss = "discriminator", CHANCE_HINGE_LOSS

    def __init__(
        self,
        config: TranslatorConfig,
        buffers: tuple[str, ...],
        get_batch: Callable[[int], TranslatorBatch],
        device: torch.device,
        predict_maps: Callable[[Tensor], DetectorOutput] | None = None,
        lpips: PerceptualDistance | None = None,
    ) -> None:
        self._config = config
        self._buffers = buffers
        self._get_batch = get_batch
        self._local_patches = _compute_local_patches(config)
        self._device = device
        self._networks = build_networks(config, buffers, device, predict_maps, lpips)
        self._weight_average = ExponentialMovingAverage(self._networks.generator, config.ema_decay)

    def train_step(self, step: int) -> dict[str, Tensor]:
        """Return the losses ``adversarial identity structure structure_residual range generator discriminator``, of
        pairs ``paired``, where they are learned ``perception nce flow lpips``, now and then
        ``gradient_penalty``; ``mean_change``, and ``discriminator_accuracy`` (0.5: it cannot tell).
        """
        batch = self._get_batch(step).select(self._local_patches).to(self._device)
        scalars = update_networks(self._networks, batch, self._config, step)
        self._weight_average.update(self._networks.generator, step)
        return scalars

    def load_batch(self, step: int) -> dict[str, Tensor]:
        """Return the patches of a step, how they are augmented, and which pixels are of pairs."""
        batch = self._get_batch(step)
        found = {
            f"{side}/{name}": value
            for side, patches in (("sim", batch.sim), ("real", batch.real))
            for name, value in vars(patches).items()
        }
        for name, value in vars(batch.augmentation).items():
            found[f"augmentation/{name}"] = torch.from_numpy(value)
        if batch.registration_mask is not None:
            found["registration_mask"] = batch.registration_mask
        if batch.unmatched_sim is not None:
            found["unmatched_sim/rgb"] = batch.unmatched_sim.rgb
        if batch.frame_pairs is not None:
            found |= {
                "frame_pairs/earlier": batch.frame_pairs.earlier.rgb,
                "frame_pairs/later": batch.frame_pairs.later.rgb,
            }
        return found

    def get_state(self) -> TensorGroups:
        """Return networks, optimisers and the averaged weights."""
        p = self._networks
        more: TensorGroups = {}
        if p.projector is not None:
            more = collect_network_state("projector", p.projector, p.generator_optimiser)
        return {
            **more,
            **collect_network_state("generator", p.generator, p.generator_optimiser),
            **collect_network_state("discriminator", p.discriminator, p.discriminator_optimiser),
            "average": self._weight_average.state,
        }

    def load_state(self, groups: TensorGroups) -> None:
        """Become the game that ``state`` was taken of."""
        p = self._networks
        restore_network_state(groups, "generator", p.generator, p.generator_optimiser)
        restore_network_state(groups, "discriminator", p.discriminator, p.discriminator_optimiser)
        if p.projector is not None:
            restore_network_state(groups, "projector", p.projector, p.generator_optimiser)
        self._weight_average.load(groups["average"])

    def get_weights(self) -> dict[str, Tensor]:
        """Return the averaged weights of the generator."""
        return self._weight_average.state

    def build_transfer(self) -> Translator:
        """Return the translator of these, as it would be loaded."""
        generator = build_generator(self._config, self._buffers)
        generator.load_state_dict(to_half_precision(self.get_weights()))
        return build_translator(generator, self._buffers, self._device)


def _compute_local_patches(config: TranslatorConfig) -> slice:
    """Return which patches of a batch are this process's.

    Raises:
        UsageError: they cannot be divided evenly among processes, and then in ``accumulation_steps``.
    """
    ours = slice_batch(config.batch)
    if (ours.stop - ours.start) % config.accumulation_steps:
        raise UsageError(
            f"accumulation_steps must divide the {ours.stop - ours.start} patches of a batch that each process has, "
            f"not {config.accumulation_steps}"
        )
    return ours


def _check_pair_count(pairs: RegisteredPairs) -> RegisteredPairs:
    """Return the pairs.

    Raises:
        InputError: they are fewer than ``MIN_REAL_IMAGES``.
    """
    used, refused = pairs.record.pairs, pairs.record.rejected
    if used < MIN_REAL_IMAGES:
        raise InputError(
            pairs.real.root,
            f"{used} pairs, but a translator needs at least {MIN_REAL_IMAGES}; {refused} more show most "
            f"of their places more than {MAX_SHIFT_PX:g} px apart, or other things. Bring captures onto "
            "their renders, or train without --paired.",
        )
    return pairs


def _build_batch_loader(
    split: TrainingSplit,
    pairs: RegisteredPairs | None,
    config: TranslatorConfig,
    buffers: tuple[str, ...],
) -> Callable[[int], TranslatorBatch]:
    """Return what gives the batch of each step."""
    sim = PatchSource(split.sim, buffers=buffers, cache_bytes=config.cache_bytes)
    real = PatchSource(split.real, buffers=(), cache_bytes=config.cache_bytes)
    channels = count_channels(buffers)
    if pairs is None:
        draw = functools.partial(sample_batch, sim, real, config, channels)
    else:
        tiles = [pairs.tile_masks[sample.name] for sample in split.sim.samples]
        draw = functools.partial(sample_paired_batch, sim, real, tiles, config, channels)
    films = FramePairSource(split.sim, sim) if config.flow_weight else None

    def load_step(step: int) -> TranslatorBatch:
        rng = derive_rng(config.seed, "translator/film", scene_index=step)
        return replace(
            draw(step),
            nce_locations=sample_nce_locations(config, step) if config.nce_weight else (),
            frame_pairs=films.sample_frame_pairs(rng, config.patch_px, config.batch, channels)
            if films
            else None,
        )

    return load_step


def _build_identity(card: TranslatorCard) -> dict[str, Any]:
    settings = card.config.to_json().items()
    decisive = {n: v for n, v in settings if n not in ("cache_bytes", "compile")}
    return {
        # before, there was one scale, and structure was kept on average alone
        "config": decisive
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
