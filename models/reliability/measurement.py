"""Measurement of confidence calibration and OOD thresholds after training; weights stay unchanged."""

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
from sim2cam.models.training.batches import build_batch_maker
from sim2cam.models.training.config import TrainConfig
from sim2cam.models.training.datasets import WeightedDatasets
from sim2cam.models.training.images import Tasks

REFERENCE_CROPS = 512
"""Smallest number of training crops for the feature distribution."""

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
    """Calibrate confidences and measure OOD thresholds of a weights file, and update file and card.

    Torchvision models get no OOD thresholds.

    Args:
        images: labelled images that were not used for training, at least ``MIN_CALIBRATION_IMAGES``.
        source: kind of the images. Held-out images are predicted at the scale of training crops, validation images
            with the card's input scale and box padding.
        device: ``cpu``, ``cuda`` or ``cuda:i``.

    Raises:
        InputError: if an image cannot be read.
        CheckpointError, OutputError: if the file cannot be read or written.
        UsageError, BackendError: if the device does not exist.
    """
    datasets = tuple(
        (select_boxes(dataset, amodal=config.amodal), weight) for dataset, weight in datasets
    )
    images = select_boxes(images, amodal=config.amodal)
    detector = load_detector(path, device=device)
    if isinstance(detector, NativeDetector):  # torchvision models have no common feature map
        detector = replace(
            detector, feature_distribution=fit_training_distribution(detector, datasets, config)
        )
    calibrated = calibrate_detector(detector, images, source)
    save_detector(
        path, calibrated.network.state_dict(), calibrated.card, calibrated.feature_distribution
    )
    return calibrated


def fit_training_distribution(
    detector: NativeDetector, datasets: WeightedDatasets, config: TrainConfig
) -> FeatureDistribution:
    """Fit the feature distribution of training crops.

    Crops are those of the steps after training, without photometric augmentation, since augmented crops are so
    varied that they include noise.

    Raises:
        InputError: if an image cannot be read.
    """
    tasks = Tasks(amodal=config.amodal)
    plain_config = replace(config, photometric=False)
    make = build_batch_maker(datasets, detector.card.categories, tasks, plain_config).make
    steps = range(config.steps, config.steps - (-REFERENCE_CROPS // config.batch))
    return fit_feature_distribution(
        torch.cat([extract_crop_features(detector.network, make(step).rgb) for step in steps])
    )


def calibrate_detector(
    detector: AnyDetector, images: Dataset, source: CalibrationSource
) -> AnyDetector:
    """Return the detector with calibrated confidences and OOD thresholds measured on images.

    Args:
        detector: detector; without a feature distribution it gets no OOD thresholds.
        images, source: see ``measure_reliability``.

    Raises:
        InputError: if an image cannot be read.
    """
    card = replace(detector.card, score_calibration=None, ood_threshold=None)
    prediction_card = card
    if source == "held-out images":
        prediction_card = replace(card, input_scale=card.trained_input_scale, box_padding=0.0)
    predictions = predict_samples(replace(detector, card=prediction_card), images)
    scored = collect_scored_detections(
        images, {name: prediction.detections for name, prediction in predictions.items()}
    )
    card = replace(
        card,
        score_calibration=fit_score_calibration(scored, card.categories),
        ood_threshold=fit_ood_threshold(images, predictions, source, card),
    )
    return replace(detector, card=card)


def fit_ood_threshold(
    images: Dataset,
    predictions: Mapping[str, Prediction],
    source: CalibrationSource,
    card: DetectorCard,
) -> OodThreshold | None:
    """Return OOD thresholds from predictions of in-distribution images; None without OOD statistics.

    Args:
        images: labelled images, at least ``MIN_CALIBRATION_IMAGES``.
    """
    statistics = {
        name: prediction.ood_statistics
        for name, prediction in predictions.items()
        if prediction.ood_statistics is not None
    }
    if not statistics:
        return None
    distance, false_positive_rate = compute_conformal_threshold(
        [values.distance for values in statistics.values()]
    )
    # without objects uncertainty is high and correct
    names = [
        sample.name
        for sample in images.samples
        if any(not label.is_crowd for label in sample.objects or ())
    ]
    uncertainty = None
    if len(names) >= MIN_CALIBRATION_IMAGES:
        uncertainty, uncertainty_rate = compute_conformal_threshold(
            [statistics[name].uncertainty for name in names]
        )
        false_positive_rate += uncertainty_rate
    return OodThreshold(
        DISTANCE_SLACK * distance,
        round(false_positive_rate, 4),
        len(statistics),
        source,
        card.config["crop_px"],
        uncertainty,
    )
