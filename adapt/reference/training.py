"""Training of a reference translator on renders and unlabelled real images."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from sim2cam.adapt.card import build_image_set_record, compute_image_digests
from sim2cam.adapt.reference.card import ReferenceCard
from sim2cam.adapt.reference.config import ReferenceConfig, ReferenceMethod
from sim2cam.adapt.reference.cut import VARIANTS, Cut
from sim2cam.adapt.reference.cyclegan import CycleGan
from sim2cam.adapt.reference.patches import make_patch_sampler
from sim2cam.adapt.reference.translator import ReferenceTranslator, load_reference
from sim2cam.adapt.training.adversarial import (
    AdversarialModel,
    check_image_counts,
    train_adversarial,
)
from sim2cam.adapt.training.candidates import CheckpointSelector
from sim2cam.adapt.training.checkpoint_selection import split_held_out
from sim2cam.adapt.translation import NO_VERIFIERS, Verification
from sim2cam.data.sample import Dataset
from sim2cam.learn.trainer import NO_CALLBACKS, Callbacks
from sim2cam.learn.weight_file import save_weights


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
    callbacks: Callbacks = NO_CALLBACKS,
    checkpoint_s: float = 300.0,
) -> ReferenceTranslator:
    """Train a reference translator and write its weights to ``run_dir/weights.safetensors``.

    Weights are selected as in ``train_translator``, which explains the other arguments and errors.

    Args:
        method: networks, losses and schedule.
        sim, real: renders and real images; labels are not used.
        checkpoint_s: seconds between checkpoints, which take some hundred megabytes.
    """
    check_image_counts(sim, real)
    split = split_held_out(sim, real, config.steps)
    digests = {"sim": compute_image_digests(sim), "real": compute_image_digests(real)}
    records = (
        build_image_set_record(sim, digests["sim"]),
        build_image_set_record(real, digests["real"]),
    )
    card = ReferenceCard(method, config.steps, config, *records)

    def make_model(local_device: torch.device) -> AdversarialModel:
        make_batch = make_patch_sampler(split.sim, split.real, config)
        if method == "cyclegan":
            return CycleGan(config, make_batch, local_device)
        return Cut(config, VARIANTS[method], make_batch, local_device)

    local_device = train_adversarial(
        make_model,
        _build_identity(card) | {"images": digests},
        config.steps,
        run_dir,
        CheckpointSelector(split, verification, config.seed),
        lambda path, weights, outcome: save_weights(
            path, weights, asdict(replace(card, outcome=outcome))
        ),
        resume=resume,
        device=device,
        callbacks=callbacks,
        checkpoint_s=checkpoint_s,
    )
    return load_reference(run_dir, device=str(local_device))


def _build_identity(card: ReferenceCard) -> dict[str, Any]:
    config = {name: value for name, value in asdict(card.config).items() if name != "cache_bytes"}
    return {
        "method": card.method,
        "config": config,
        "sim": card.sim.digest,
        "real": card.real.digest,
    }
