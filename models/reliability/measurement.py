"""When a detector is not to be trusted: measured after its training; its weights stay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

import torch

from sim2cam.data.sample import Dataset
from sim2cam.data.set_operations import select_boxes
from sim2cam.metrics.calibration import collect_scored_detections
from sim2cam.models.card import DetectorCard, OodThreshold
from sim2cam.models.inference.detections import Prediction
from sim2cam.models.inference.detector import (
    AnyDetector,
    NativeDetector,
    load_detector,
    predict_samples,
    save_detector,
)
from sim2cam.models.reliability.confidence import fit_score_calibration
from sim2cam.models.reliability.ood import (
    DISTANCE_SLACK,
    MIN_CALIBRATION_IMAGES,
    FeatureDistribution,
    compute_conformal_threshold,
    extract_crop_features,
    fit_feature_distribution,
)
from sim2cam.models.training.config import TrainConfig
from sim2cam.models.training.datasets import WeightedDatasets
from sim2cam.models.training.images import Tasks
from sim2cam.models.training.training import build_batch_maker

REFERENCE_CROPS = 512
"""Training crops that pictures are held against, at least."""

CalibrationSource = Literal["held-out images", "validation images"]


def measure_reliability(
    path: Path,
    datasets: WeightedDatasets,
    config: TrainConfig,
    images: Dataset,
    source: CalibrationSource,
    *,
    device: str = "cpu",
) -> AnyDetector:
    """Return the detector of a weights file with calibrated confidences and, but for torchvision's models,
    a limit of novelty; file and card hold what that takes.

    Args:
        path: the weights file.
        datasets: what it was trained on.
        config: of the training.
        images: labelled, none of them trained on, at least ``novelty.LEAST_PICTURES``.
        source: what these are. Held-out pictures are looked at as crops were, development captures with
            the card's magnification and margin.
        device: ``cpu``, ``cuda`` or ``cuda:i``.

    Raises:
        InputError: a picture cannot be read.
        CheckpointError, OutputError: the file cannot be read or written.
        UsageError, BackendError: there is no such device.
    """
    datasets = tuple(
        (select_boxes(dataset, amodal=config.amodal), weight) for dataset, weight in datasets
    )
    images = select_boxes(images, amodal=config.amodal)
    detector = load_detector(path, device=device)
    if isinstance(detector, NativeDetector):  # the others have no features of one place
        detector = replace(
            detector, feature_distribution=fit_training_distribution(detector, datasets, config)
        )
    trusted = calibrate_detector(detector, images, source)
    save_detector(path, trusted.network.state_dict(), trusted.card, trusted.feature_distribution)
    return trusted


def fit_training_distribution(
    detector: NativeDetector, datasets: WeightedDatasets, config: TrainConfig
) -> FeatureDistribution:
    """Return what training crops look like: those of the steps that would have come next, before their
    looks are varied. Varied ones are so different that noise is among them.

    Args:
        detector: after its training.
        datasets: what it was trained on.
        config: of the training.

    Raises:
        InputError: a picture cannot be read.
    """
    tasks = Tasks(amodal=config.amodal)
    plain = replace(config, photometric=False)
    make = build_batch_maker(datasets, detector.card.categories, tasks, plain).make
    steps = range(config.steps, config.steps - (-REFERENCE_CROPS // config.batch))
    return fit_feature_distribution(
        torch.cat([extract_crop_features(detector.network, make(step).rgb) for step in steps])
    )


def calibrate_detector(
    detector: AnyDetector, images: Dataset, source: CalibrationSource
) -> AnyDetector:
    """Return the detector with the scaling of confidences and the limits of novelty that pictures tell.

    Args:
        detector: what its card says of both is replaced; without ``familiar`` it has no limit.
        images, source: as ``measure_reliability`` has them.

    Raises:
        InputError: a picture cannot be read.
    """
    card = replace(detector.card, score_calibration=None, ood_threshold=None)
    as_used = card
    if source == "held-out images":
        as_used = replace(card, input_scale=card.trained_input_scale, box_expansion=0.0)
    seen = predict_samples(replace(detector, card=as_used), images)
    found = collect_scored_detections(images, {name: one.detections for name, one in seen.items()})
    card = replace(
        card,
        score_calibration=fit_score_calibration(found, card.categories),
        ood_threshold=fit_ood_threshold(images, seen, source, card),
    )
    return replace(detector, card=card)


def fit_ood_threshold(
    images: Dataset,
    predictions: Mapping[str, Prediction],
    source: CalibrationSource,
    card: DetectorCard,
) -> OodThreshold | None:
    """Return from where on pictures are unlike; None where it is not known what they are held against.

    Args:
        images: labelled, at least ``novelty.LEAST_PICTURES``.
        predictions: what the detector says of each, by its name.
        source: what these are.
        card: of the detector.
    """
    strange = {
        name: one.ood_statistics
        for name, one in predictions.items()
        if one.ood_statistics is not None
    }
    if not strange:
        return None
    distance, false_alarms = compute_conformal_threshold([one.distance for one in strange.values()])
    shown = [s.name for s in images.samples if any(not o.is_crowd for o in s.objects or ())]
    doubt = None
    if (
        len(shown) >= MIN_CALIBRATION_IMAGES
    ):  # pictures of nothing leave a detector in doubt, and rightly so
        doubt, more = compute_conformal_threshold([strange[name].uncertainty for name in shown])
        false_alarms += more
    return OodThreshold(
        DISTANCE_SLACK * distance,
        round(false_alarms, 4),
        len(strange),
        source,
        card.config["crop_px"],
        doubt,
    )
