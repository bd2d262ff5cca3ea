"""Training of a reference translator on renders and unlabelled real images."""

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
    """Train a reference translator and write its weights to ``run_dir/weights.safetensors``.

    Weights are selected as in ``train_translator``.

    Args:
        method: networks, losses and schedule.
        sim: renders; labels are not used.
        real: real images; labels are not used.
        config: training configuration.
        run_dir: folder for checkpoint, weights, card and ``metrics.jsonl``.
        verification: limits and verifiers for translations of held-out renders.
        resume: whether to continue from an existing checkpoint.
        device: ``cpu``, ``cuda`` or ``cuda:i``.
        progress: callback for each line of the metrics log.
        checkpoint_s: seconds between checkpoints, which take some hundred megabytes.

    Raises:
        InputError: there are no renders or too few real images, or an image cannot be read.
        CheckpointError: the checkpoint is broken or of another training.
        OutputError: the folder cannot be written, or holds a training and ``resume`` is False.
        UsageError: the device does not exist, or the batch cannot be split among processes.
        BackendError: the device is not available, or its memory is full.
        DivergenceError: a loss is not finite.
    """
    selector = build_checkpoint_selector(sim, real, config, verification)
    digests = {"sim": compute_image_digests(sim), "real": compute_image_digests(real)}
    records = (
        build_image_set_record(sim, digests["sim"]),
        build_image_set_record(real, digests["real"]),
    )
    card = ReferenceCard(method, config.steps, config, *records)
    batches = UnpairedBatchSource(selector.split.sim, selector.split.real, config)
    with join_process_group(device) as local_device:
        result = train_adversarial(
            build_reference_model(method, config, batches, local_device),
            _build_identity(card),
            digests,
            config.steps,
            run_dir,
            selector,
            hint="Choose another --seed",
            resume=resume,
            progress=progress,
            checkpoint_s=checkpoint_s,
        )
        if is_main_process():
            final_card = replace(card, outcome=result.outcome)
            save_weights(run_dir / WEIGHTS, result.weights, asdict(final_card))
        wait_for_all()
    return load_reference(run_dir, device=str(local_device))


def build_reference_model(
    method: ReferenceMethod, config: ReferenceConfig, batches: BatchSource, device: torch.device
) -> AdversarialModel:
    """Build the model of a method at step 0."""
    if method == "cyclegan":
        return CycleGan(config, batches, device)
    return Cut(config, VARIANTS[method], batches, device)


def _build_identity(card: ReferenceCard) -> dict[str, Any]:
    config = {name: value for name, value in asdict(card.config).items() if name != "cache_bytes"}
    return {
        "method": card.method,
        "config": config,
        "sim": card.sim.digest,
        "real": card.real.digest,
    }
