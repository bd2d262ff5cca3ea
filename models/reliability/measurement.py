"""When a detector is not to be trusted: measured after its training; its weights stay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

import torch

from sim2cam.data.sample import Dataset
from sim2cam.data.set_operations import with_boxes
from sim2cam.metrics.calibration import confidences_of
from sim2cam.models.card import DetectorCard, NoveltyLimit
from sim2cam.models.inference.detections import Prediction
from sim2cam.models.inference.detector import (
    AnyDetector,
    LoadedDetector,
    load_detector,
    look_at_dataset,
    save_detector,
)
from sim2cam.models.reliability.confidence import fitted_scaling
from sim2cam.models.reliability.ood import (
    LEAST_PICTURES,
    SLACK,
    Familiar,
    crop_features,
    familiar_of,
    limit_of,
)
from sim2cam.models.training.config import TrainConfig
from sim2cam.models.training.datasets import Parts
from sim2cam.models.training.images import Tasks
from sim2cam.models.training.training import batch_maker

CROPS = 512
"""Training crops that pictures are held against, at least."""

Source = Literal["held-out pictures", "development captures"]


def measure_trust(
    path: Path,
    parts: Parts,
    config: TrainConfig,
    pictures: Dataset,
    source: Source,
    *,
    device: str = "cpu",
) -> AnyDetector:
    """Returns the detector of a weights file with calibrated confidences and, but for torchvision's models,
    a limit of novelty; file and card hold what that takes.

    Args:
        path: the weights file.
        parts: what it was trained on.
        config: of the training.
        pictures: labelled, none of them trained on, at least ``novelty.LEAST_PICTURES``.
        source: what these are. Held-out pictures are looked at as crops were, development captures with
            the card's magnification and margin.
        device: ``cpu``, ``cuda`` or ``cuda:i``.

    Raises:
        InputError: a picture cannot be read.
        CheckpointError, OutputError: the file cannot be read or written.
        UsageError, BackendError: there is no such device.
    """
    parts = tuple((with_boxes(dataset, amodal=config.amodal), weight) for dataset, weight in parts)
    pictures = with_boxes(pictures, amodal=config.amodal)
    detector = load_detector(path, device=device)
    if isinstance(detector, LoadedDetector):  # the others have no features of one place
        detector = replace(detector, familiar=training_crops(detector, parts, config))
    trusted = with_trust(detector, pictures, source)
    save_detector(path, trusted.network.state_dict(), trusted.card, trusted.familiar)
    return trusted


def training_crops(detector: LoadedDetector, parts: Parts, config: TrainConfig) -> Familiar:
    """Returns what training crops look like: those of the steps that would have come next, before their
    looks are varied. Varied ones are so different that noise is among them.

    Args:
        detector: after its training.
        parts: what it was trained on.
        config: of the training.

    Raises:
        InputError: a picture cannot be read.
    """
    tasks = Tasks(amodal=config.amodal)
    plain = replace(config, photometric=False)
    make = batch_maker(parts, detector.card.categories, tasks, plain).make
    steps = range(config.steps, config.steps - (-CROPS // config.batch))
    return familiar_of(
        torch.cat([crop_features(detector.network, make(step).rgb) for step in steps])
    )


def with_trust(detector: AnyDetector, pictures: Dataset, source: Source) -> AnyDetector:
    """Returns the detector with the scaling of confidences and the limits of novelty that pictures tell.

    Args:
        detector: what its card says of both is replaced; without ``familiar`` it has no limit.
        pictures, source: as ``measure_trust`` has them.

    Raises:
        InputError: a picture cannot be read.
    """
    card = replace(detector.card, scaling=None, novelty=None)
    as_used = card
    if source == "held-out pictures":
        as_used = replace(card, magnification=card.trained_magnification, box_margin=0.0)
    seen = look_at_dataset(replace(detector, card=as_used), pictures)
    found = confidences_of(pictures, {name: one.detections for name, one in seen.items()})
    card = replace(
        card,
        scaling=fitted_scaling(found, card.categories),
        novelty=novelty_limit(pictures, seen, source, card),
    )
    return replace(detector, card=card)


def novelty_limit(
    pictures: Dataset, seen: Mapping[str, Prediction], source: Source, card: DetectorCard
) -> NoveltyLimit | None:
    """Returns from where on pictures are unlike; None where it is not known what they are held against.

    Args:
        pictures: labelled, at least ``novelty.LEAST_PICTURES``.
        seen: what the detector says of each, by its name.
        source: what these are.
        card: of the detector.
    """
    strange = {name: one.strangeness for name, one in seen.items() if one.strangeness is not None}
    if not strange:
        return None
    distance, false_alarms = limit_of([one.distance for one in strange.values()])
    shown = [s.name for s in pictures.samples if any(not o.is_crowd for o in s.objects or ())]
    doubt = None
    if (
        len(shown) >= LEAST_PICTURES
    ):  # pictures of nothing leave a detector in doubt, and rightly so
        doubt, more = limit_of([strange[name].doubt for name in shown])
        false_alarms += more
    return NoveltyLimit(
        SLACK * distance,
        round(false_alarms, 4),
        len(strange),
        source,
        card.config["crop_px"],
        doubt,
    )
