"""Training a translator from renders and unlabelled captures."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sim2cam.adapt.card import digests_of, images_record
from sim2cam.adapt.training.adversarial import (
    MIN_CAPTURES,
    Groups,
    TranslatorProgress,
    contest_of,
    play,
    player_state,
    restore_player,
)
from sim2cam.adapt.training.checkpoint_selection import Parts
from sim2cam.adapt.translation import NO_JUDGES, Jury
from sim2cam.adapt.translator.buffers import buffers_of, count_channels
from sim2cam.adapt.translator.card import TranslatorCard
from sim2cam.adapt.translator.config import TranslatorConfig
from sim2cam.adapt.translator.losses import UNDECIDED_HINGE
from sim2cam.adapt.translator.pairs import MOST_PX, Pairs, pairs_of
from sim2cam.adapt.translator.patches import (
    Batch,
    PatchSource,
    draw_batch,
    draw_paired_batch,
    draw_places,
)
from sim2cam.adapt.translator.perceptual_consistency import Distances, Said
from sim2cam.adapt.translator.sequences import FilmSource
from sim2cam.adapt.translator.step import build_players, update
from sim2cam.adapt.translator.translator import (
    Translator,
    build_generator,
    load_translator,
    save_translator,
    translator_of,
)
from sim2cam.data.sample import Dataset
from sim2cam.errors import InputError, UsageError
from sim2cam.learn.device import full_memory_told
from sim2cam.learn.distributed import joined, share_of, wait_for_all
from sim2cam.learn.ema import WeightAverage
from sim2cam.learn.launch import is_first
from sim2cam.learn.prefetch import Ahead
from sim2cam.learn.run_folder import WEIGHTS
from sim2cam.learn.weight_file import as_stored
from sim2cam.seeds import stream


@full_memory_told()
def train_translator(
    sim: Dataset,
    real: Dataset,
    config: TranslatorConfig,
    run_dir: Path,
    *,
    paired: bool = False,
    jury: Jury = NO_JUDGES,
    resume: bool = False,
    device: str = "cpu",
    progress: Callable[[TranslatorProgress], None] | None = None,
    checkpoint_s: float = 30.0,
) -> Translator:
    """Returns the translator whose averaged weights are then in ``run_dir/weights.safetensors``.

    They are the best of those that were judged on the way (``best_of``), by renders and captures that
    were kept aside (``parts_of``); the last ones where nothing was.

    Args:
        sim: renders; what ``buffers_of`` names is used where all have it.
        real: captures; only their pixels are looked at.
        config: everything else that decides the result.
        run_dir: for checkpoint, weights, their card and ``metrics.jsonl``.
        paired: captures are of the scenes of the renders that have their names; of these pairs
            (``pairs_of``) the generator is also taught what differs.
        jury: that translations of renders kept aside are judged by, and the networks that the generator
            learns not to surprise, where that has a weight.
        resume: goes on from the checkpoint, where there is one.
        device: ``cpu``, ``cuda`` or ``cuda:i``.
        progress: is told of every line of the record.
        checkpoint_s: seconds between checkpoints.

    Raises:
        InputError: no renders, fewer than ``MIN_CAPTURES`` captures or pairs, or an image cannot be
            read.
        CheckpointError: the checkpoint is broken or of another training.
        OutputError: the folder cannot be written, or holds a training and ``resume`` is False.
        UsageError, BackendError: there is no such device, its memory is full, or processes cannot share the
            batch.
        RunawayError: the loss is no longer finite.
    """
    if config.lpips_weight and jury.lpips is None:
        raise UsageError("lpips_weight takes distances in the jury. Give them, or set it to 0.")
    pairs = _enough(pairs_of(sim, real)) if paired else None
    if pairs is not None:
        sim, real = pairs.sim, pairs.real
    contest = contest_of(sim, real, config, jury, is_paired=paired)
    buffers = buffers_of(sim) if config.use_buffers else ()
    perception = jury.perception if config.perception_weight else None
    digests = {"sim": digests_of(sim), "real": digests_of(real)}
    card = TranslatorCard(
        config.steps,
        buffers,
        config,
        images_record(sim, digests["sim"]),
        images_record(real, digests["real"]),
        pairs=None if pairs is None else pairs.record,
        perception=None if perception is None else perception.record,
    )
    draw = Ahead(_draw_of(contest.parts, pairs, config, buffers), config.steps)
    with joined(device) as place:
        played = play(
            ResidualGame(
                config,
                buffers,
                draw,
                place,
                None if perception is None else perception.look,
                jury.lpips,
            ),
            _identity(card),
            digests,
            config.steps,
            run_dir,
            contest,
            cure="Lower learning_rate_generator and learning_rate_discriminator",
            resume=resume,
            progress=progress,
            checkpoint_s=checkpoint_s,
        )
        if is_first():
            save_translator(run_dir / WEIGHTS, played.weights, replace(card, ending=played.ending))
        wait_for_all()
    return load_translator(run_dir, device=str(place))


class ResidualGame:
    """The game of the residual generator and its discriminator; a ``Game``."""

    undecided = "discriminator", UNDECIDED_HINGE

    def __init__(
        self,
        config: TranslatorConfig,
        buffers: tuple[str, ...],
        draw: Callable[[int], Batch],
        device: torch.device,
        look: Callable[[Tensor], Said] | None = None,
        lpips: Distances | None = None,
    ) -> None:
        self._config = config
        self._buffers = buffers
        self._draw = draw
        self._ours = _share(config)
        self._device = device
        self._players = build_players(config, buffers, device, look, lpips)
        self._average = WeightAverage(self._players.generator, config.ema_decay)

    def play(self, step: int) -> dict[str, Tensor]:
        """Returns the losses ``adversarial identity structure unshared range generator discriminator``, of
        pairs ``paired``, where they are learned ``perception nce flow lpips``, now and then
        ``gradient_penalty``; ``mean_change``, and ``discriminator_accuracy`` (0.5: it cannot tell).
        """
        batch = self._draw(step).of(self._ours).to(self._device)
        scalars = update(self._players, batch, self._config, step)
        self._average.update(self._players.generator, step)
        return scalars

    def batch(self, step: int) -> dict[str, Tensor]:
        """Returns the patches of a step, how they are augmented, and which pixels are of pairs."""
        batch = self._draw(step)
        found = {
            f"{side}/{name}": value
            for side, patches in (("sim", batch.sim), ("real", batch.real))
            for name, value in vars(patches).items()
        }
        for name, value in vars(batch.augmentation).items():
            found[f"augmentation/{name}"] = torch.from_numpy(value)
        if batch.registered is not None:
            found["registered"] = batch.registered
        if batch.others is not None:
            found["others/rgb"] = batch.others.rgb
        if batch.film is not None:
            found |= {"film/earlier": batch.film.earlier.rgb, "film/later": batch.film.later.rgb}
        return found

    def state(self) -> Groups:
        """Returns networks, optimisers and the averaged weights."""
        p = self._players
        more: Groups = {}
        if p.projector is not None:
            more = player_state("projector", p.projector, p.generator_optimiser)
        return {
            **more,
            **player_state("generator", p.generator, p.generator_optimiser),
            **player_state("discriminator", p.discriminator, p.discriminator_optimiser),
            "average": self._average.state,
        }

    def restore(self, groups: Groups) -> None:
        """Becomes the game that ``state`` was taken of."""
        p = self._players
        restore_player(groups, "generator", p.generator, p.generator_optimiser)
        restore_player(groups, "discriminator", p.discriminator, p.discriminator_optimiser)
        if p.projector is not None:
            restore_player(groups, "projector", p.projector, p.generator_optimiser)
        self._average.load(groups["average"])

    def weights(self) -> dict[str, Tensor]:
        """Returns the averaged weights of the generator."""
        return self._average.state

    def transfer(self) -> Translator:
        """Returns the translator of these, as it would be loaded."""
        generator = build_generator(self._config, self._buffers)
        generator.load_state_dict(as_stored(self.weights()))
        return translator_of(generator, self._buffers, self._device)

    @torch.inference_mode()
    def verdict(self, rgb: NDArray[np.uint8]) -> float:
        """Returns the discriminator's mean verdict of a picture (h, w, 3)."""
        discriminator = self._players.discriminator.eval()  # looking must not change it
        picture = torch.from_numpy(rgb.transpose(2, 0, 1)[None] / np.float32(255.0))
        # not as it may be compiled, which is for one size
        verdicts = discriminator.forward(picture.to(self._device))
        found = float(torch.stack([one.mean() for one in verdicts]).mean())
        discriminator.train()
        return found


def _share(config: TranslatorConfig) -> slice:
    """Returns which patches of a batch are this process's.

    Raises:
        UsageError: they cannot be divided evenly among processes, and then in ``parts``.
    """
    ours = share_of(config.batch)
    if (ours.stop - ours.start) % config.parts:
        raise UsageError(
            f"parts must divide the {ours.stop - ours.start} patches of a batch that each process has, "
            f"not {config.parts}"
        )
    return ours


def _enough(pairs: Pairs) -> Pairs:
    """Returns the pairs.

    Raises:
        InputError: they are fewer than ``MIN_CAPTURES``.
    """
    used, refused = pairs.record.pairs, pairs.record.refused
    if used < MIN_CAPTURES:
        raise InputError(
            pairs.real.root,
            f"{used} pairs, but a translator needs at least {MIN_CAPTURES}; {refused} more show most "
            f"of their places more than {MOST_PX:g} px apart, or other things. Bring captures onto "
            "their renders, or train without --paired.",
        )
    return pairs


def _draw_of(
    parts: Parts, pairs: Pairs | None, config: TranslatorConfig, buffers: tuple[str, ...]
) -> Callable[[int], Batch]:
    """Returns what gives the batch of each step."""
    sim = PatchSource(parts.sim, buffers=buffers, cache_bytes=config.cache_bytes)
    real = PatchSource(parts.real, buffers=(), cache_bytes=config.cache_bytes)
    channels = count_channels(buffers)
    if pairs is None:
        draw = functools.partial(draw_batch, sim, real, config, channels)
    else:
        tiles = [pairs.registered[sample.name] for sample in parts.sim.samples]
        draw = functools.partial(draw_paired_batch, sim, real, tiles, config, channels)
    films = FilmSource(parts.sim, sim) if config.flow_weight else None

    def drawn(step: int) -> Batch:
        rng = stream(config.seed, "translator/film", scene_index=step)
        return replace(
            draw(step),
            places=draw_places(config, step) if config.nce_weight else (),
            film=films.draw(rng, config.patch_px, config.batch, channels) if films else None,
        )

    return drawn


def _identity(card: TranslatorCard) -> dict[str, Any]:
    settings = card.config.to_json().items()
    decisive = {n: v for n, v in settings if n not in ("cache_bytes", "compile")}
    return {
        # before, there was one scale, and structure was kept on average alone
        "config": decisive
        | {name: getattr(card.config, name) for name in ("scales", "unshared_weight")},
        "buffers": list(card.buffers),
        "sim": card.sim.digest,
        "real": card.real.digest,
        **({} if card.pairs is None else {"paired": True}),
        **({} if card.perception is None else {"perception": card.perception.digest}),
    }
