"""Distributions of a training: object sizes, objects per image, luminance, sharpness."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from sim2cam.models.reliability.domain_shift import (
    QUANTILES,
    Quantiles,
    TrainingDomain,
    iterate_parts,
    measure_parts,
    select_evenly,
)
from sim2cam.models.reliability.object_sizes import compute_side_quantiles, select_learned
from sim2cam.models.training.batches import build_photometric
from sim2cam.models.training.config import TrainConfig, compute_trained_input_scale
from sim2cam.models.training.datasets import WeightedDatasets

MAX_IMAGES = 16
"""Number of training images whose luminance and sharpness are measured."""


def measure_training_domain(datasets: WeightedDatasets, config: TrainConfig) -> TrainingDomain:
    """Measure the distributions of a training.

    Luminance and sharpness are those of image parts with the photometric augmentation of the training.

    Args:
        datasets: labelled datasets and their weights.
        config: settings of the training.

    Raises:
        InputError: if an image cannot be read.
    """
    luminance, sharpness = measure_parts(_iterate_training_parts(datasets, config))
    counts: list[int] = []
    weights: list[float] = []
    for dataset, weight in datasets:
        counts += [len(select_learned(sample.objects or (), config)) for sample in dataset.samples]
        weights += [weight / len(dataset.samples)] * len(dataset.samples)
    sides = compute_side_quantiles(datasets, config, QUANTILES)
    return TrainingDomain(
        None if sides is None else _to_quantiles(sides),
        _to_quantiles(np.quantile(counts, QUANTILES, weights=weights, method="inverted_cdf")),
        _to_quantiles(np.quantile(luminance, QUANTILES)),
        _to_quantiles(np.quantile(sharpness, QUANTILES)) if sharpness else None,
    )


def _iterate_training_parts(
    datasets: WeightedDatasets, config: TrainConfig
) -> Iterator[NDArray[np.uint8]]:
    """Yield parts of training images, augmented like training crops."""
    input_scale = compute_trained_input_scale(config.scale_range)
    augment = build_photometric(config)
    total = sum(weight for _, weight in datasets)
    number = 0
    for dataset, weight in datasets:
        count = math.ceil(MAX_IMAGES * weight / total)
        for sample in select_evenly(dataset.samples, count) if count else ():
            for part in iterate_parts(sample.rgb, input_scale, config.crop_px):
                yield part if augment is None else augment(part, config.seed + number)
                number += 1


def _to_quantiles(values: Iterable[float]) -> Quantiles:
    q05, q25, q50, q75, q95 = (round(float(value), 3) for value in values)
    return q05, q25, q50, q75, q95
