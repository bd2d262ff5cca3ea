"""Training a published translator from renders and unlabelled captures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from sim2cam.adapt.card import digests_of, images_record
from sim2cam.adapt.reference.card import ReferenceCard
from sim2cam.adapt.reference.config import ReferenceConfig, ReferenceMethod
from sim2cam.adapt.reference.cut import VARIANTS, Cut
from sim2cam.adapt.reference.cyclegan import CycleGan
from sim2cam.adapt.reference.patches import PairSource, PatchPairs
from sim2cam.adapt.reference.translator import ReferenceTranslator, load_reference
from sim2cam.adapt.training.adversarial import Game, TranslatorProgress, contest_of, play
from sim2cam.adapt.translation import NO_JUDGES, Jury
from sim2cam.data.sample import Dataset
from sim2cam.learn.device import full_memory_told
from sim2cam.learn.distributed import joined, wait_for_all
from sim2cam.learn.launch import is_first
from sim2cam.learn.run_folder import WEIGHTS
from sim2cam.learn.weight_file import save_weights


@full_memory_told()
def train_reference(
    method: ReferenceMethod,
    sim: Dataset,
    real: Dataset,
    config: ReferenceConfig,
    run_dir: Path,
    *,
    jury: Jury = NO_JUDGES,
    resume: bool = False,
    device: str = "cpu",
    progress: Callable[[TranslatorProgress], None] | None = None,
    checkpoint_s: float = 300.0,
) -> ReferenceTranslator:
    """Returns the translator whose weights are then in ``run_dir/weights.safetensors``.

    They are chosen as those of ``train_translator``.

    Args:
        method: whose networks, losses and schedule.
        sim: renders; only their pixels are looked at.
        real: captures; only their pixels are looked at.
        config: everything else that decides the result.
        run_dir: for checkpoint, weights, their card and ``metrics.jsonl``.
        jury: that translations of renders kept aside are judged by.
        resume: goes on from the checkpoint, where there is one.
        device: ``cpu``, ``cuda`` or ``cuda:i``.
        progress: is told of every line of the record.
        checkpoint_s: seconds between checkpoints, which have some hundred megabytes.

    Raises:
        InputError: no renders, too few captures, or an image cannot be read.
        CheckpointError: the checkpoint is broken or of another training.
        OutputError: the folder cannot be written, or holds a training and ``resume`` is False.
        UsageError, BackendError: there is no such device, its memory is full, or processes cannot share the
            batch.
        RunawayError: a loss is no longer finite.
    """
    contest = contest_of(sim, real, config, jury)
    digests = {"sim": digests_of(sim), "real": digests_of(real)}
    records = images_record(sim, digests["sim"]), images_record(real, digests["real"])
    card = ReferenceCard(method, config.steps, config, *records)
    pairs = PatchPairs(contest.parts.sim, contest.parts.real, config)
    with joined(device) as place:
        played = play(
            game_of(method, config, pairs, place),
            _identity(card),
            digests,
            config.steps,
            run_dir,
            contest,
            cure="Choose another --seed",
            resume=resume,
            progress=progress,
            checkpoint_s=checkpoint_s,
        )
        if is_first():
            ended = replace(card, ending=played.ending)
            save_weights(run_dir / WEIGHTS, played.weights, asdict(ended))
        wait_for_all()
    return load_reference(run_dir, device=str(place))


def game_of(
    method: ReferenceMethod, config: ReferenceConfig, pairs: PairSource, device: torch.device
) -> Game:
    """Returns the game of a published method at step 0."""
    if method == "cyclegan":
        return CycleGan(config, pairs, device)
    return Cut(config, VARIANTS[method], pairs, device)


def _identity(card: ReferenceCard) -> dict[str, Any]:
    decisive = {name: value for name, value in asdict(card.config).items() if name != "cache_bytes"}
    return {
        "method": card.method,
        "config": decisive,
        "sim": card.sim.digest,
        "real": card.real.digest,
    }
