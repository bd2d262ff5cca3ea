"""Training a published translator from renders and unlabelled captures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from sim2cam.adapt.card import build_image_set_record, compute_image_digests
from sim2cam.adapt.reference.card import ReferenceCard
from sim2cam.adapt.reference.config import ReferenceConfig, ReferenceMethod
from sim2cam.adapt.reference.cut import VARIANTS, Cut
from sim2cam.adapt.reference.cyclegan import CycleGan
from sim2cam.adapt.reference.patches import BatchSource, UnpairedBatchSource
from sim2cam.adapt.reference.translator import ReferenceTranslator, load_reference
from sim2cam.adapt.training.adversarial import (
    AdversarialModel,
    TranslatorProgress,
    build_checkpoint_selector,
    train_adversarial,
)
from sim2cam.adapt.translation import NO_VERIFIERS, Verification
from sim2cam.data.sample import Dataset
from sim2cam.learn.device import explain_out_of_memory
from sim2cam.learn.distributed import join_process_group, wait_for_all
from sim2cam.learn.launch import is_main_process
from sim2cam.learn.run_folder import WEIGHTS
from sim2cam.learn.weight_file import save_weights


@explain_out_of_memory()
def train_reference(
    method: ReferenceMethod,
    sim: Dataset,
    real: Dataset,
    config: ReferenceConfig,
    run_dir: Path,
    *,
    verification: Verification = NO_VERIFIERS,
    resume: bool = False,
    device: str = "cpu",
    progress: Callable[[TranslatorProgress], None] | None = None,
    checkpoint_s: float = 300.0,
) -> ReferenceTranslator:
    """Return the translator whose weights are then in ``run_dir/weights.safetensors``.

    They are chosen as those of ``train_translator``.

    Args:
        method: whose networks, losses and schedule.
        sim: renders; only their pixels are looked at.
        real: captures; only their pixels are looked at.
        config: everything else that decides the result.
        run_dir: for checkpoint, weights, their card and ``metrics.jsonl``.
        verification: that translations of renders kept aside are judged by.
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
        DivergenceError: a loss is no longer finite.
    """
    contest = build_checkpoint_selector(sim, real, config, verification)
    digests = {"sim": compute_image_digests(sim), "real": compute_image_digests(real)}
    records = (
        build_image_set_record(sim, digests["sim"]),
        build_image_set_record(real, digests["real"]),
    )
    card = ReferenceCard(method, config.steps, config, *records)
    pairs = UnpairedBatchSource(contest.split.sim, contest.split.real, config)
    with join_process_group(device) as place:
        played = train_adversarial(
            build_reference_model(method, config, pairs, place),
            _build_identity(card),
            digests,
            config.steps,
            run_dir,
            contest,
            hint="Choose another --seed",
            resume=resume,
            progress=progress,
            checkpoint_s=checkpoint_s,
        )
        if is_main_process():
            ended = replace(card, outcome=played.outcome)
            save_weights(run_dir / WEIGHTS, played.weights, asdict(ended))
        wait_for_all()
    return load_reference(run_dir, device=str(place))


def build_reference_model(
    method: ReferenceMethod, config: ReferenceConfig, batches: BatchSource, device: torch.device
) -> AdversarialModel:
    """Return the game of a published method at step 0."""
    if method == "cyclegan":
        return CycleGan(config, batches, device)
    return Cut(config, VARIANTS[method], batches, device)


def _build_identity(card: ReferenceCard) -> dict[str, Any]:
    decisive = {name: value for name, value in asdict(card.config).items() if name != "cache_bytes"}
    return {
        "method": card.method,
        "config": decisive,
        "sim": card.sim.digest,
        "real": card.real.digest,
    }
