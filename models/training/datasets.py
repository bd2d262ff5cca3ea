"""Labelled training datasets with their shares of the crops."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.data.keypoints import find_flip_indices, get_keypoint_names
from sim2cam.data.photo_sources import find_photo_sources
from sim2cam.data.reader import read_licences, read_recipe_name
from sim2cam.data.sample import Dataset, Sample
from sim2cam.errors import InputError, UsageError
from sim2cam.models.training.config import TrainConfig

WeightedDatasets = tuple[tuple[Dataset, float], ...]

MAX_SKETCH_DIGESTS = 64
"""Digests in a sketch. An overlap of 10 % between two datasets stays unnoticed with probability 1/800."""

_MAX_LISTED_NAMES = 4  # keypoint names in an error message


@dataclass(frozen=True)
class DatasetRecord:
    """Record of a dataset in a card.

    Attributes:
        name: name of the dataset's folder.
        images: number of images.
        origins: number of images of each origin.
        weight: final share of the crops, 0 to 1.
        digest: SHA-256 over all images and labels.
        licences: known licences of the photographs, or of the assets in its scenes.
        recipe: name of the recipe of its renders; empty if unknown.
    """

    name: str
    images: int
    origins: dict[str, int]
    weight: float
    digest: str
    licences: tuple[str, ...] = ()
    recipe: str = ""


def check_datasets(datasets: WeightedDatasets, config: TrainConfig) -> tuple[str, ...]:
    """Check that the datasets can be trained on together, and return their categories.

    Raises:
        UsageError: if there is no dataset, or one is never sampled.
        InputError: if a dataset has no images, images without labels or other categories, or no dataset has
            an object.
    """
    if not datasets:
        raise UsageError("no data to train on. Name at least one dataset.")
    _check_weights(datasets, config)
    first = datasets[0][0]
    for dataset, _ in datasets:
        if not dataset.samples:
            raise InputError(dataset.root, "no images to train on. Name a dataset with images.")
        for sample in dataset.samples:
            if sample.objects is None:
                raise InputError(
                    dataset.root,
                    f"image {sample.name} has no labels to train on. Label it, or leave it out.",
                )
        if set(dataset.categories) != set(first.categories):
            raise InputError(
                dataset.root,
                f"categories {', '.join(dataset.categories)} differ from those of {first.root}: "
                f"{', '.join(first.categories)}. Rename them with --map, drop others with --ignore-unmatched, or "
                "add categories without objects to the dataset's list.",
            )
    samples = (sample for dataset, _ in datasets for sample in dataset.samples)
    if all(label.is_crowd for sample in samples for label in sample.objects or ()):
        raise InputError(
            first.root,
            "no labelled object to train on (groups do not count). Label objects, or add a dataset with labels.",
        )
    return first.categories


def _check_weights(datasets: WeightedDatasets, config: TrainConfig) -> None:
    initial_mix = config.initial_mix or (0.0,) * len(datasets)
    if len(initial_mix) != len(datasets):
        raise UsageError(
            f"initial_mix has {len(initial_mix)} values for {len(datasets)} datasets. Give one value each."
        )
    for (dataset, weight), initial_weight in zip(datasets, initial_mix, strict=True):
        if not (weight >= 0 and weight + initial_weight > 0):
            raise UsageError(f"the weight of {dataset.root} must be above 0, not {weight}")
    if not any(weight for _, weight in datasets):
        raise UsageError("at least one dataset must have a weight above 0.")


def collect_keypoint_names(
    datasets: WeightedDatasets, config: TrainConfig
) -> dict[str, tuple[str, ...]]:
    """Return the keypoint names of each category; empty without keypoint learning.

    Args:
        datasets: labelled datasets; some may lack keypoints, such as photos with boxes.
        config: settings of the training.

    Raises:
        InputError: if no object has keypoints.
        UsageError: if crops are mirrored and keypoint names do not contain "left" and "right".
    """
    if not config.keypoints:
        return {}
    names = get_keypoint_names(dataset for dataset, _ in datasets)
    if not any(names.values()):
        raise InputError(
            datasets[0][0].root,
            "no object has keypoints to learn. Render with keypoints in --channels, or train without keypoints.",
        )
    for category, category_names in names.items():
        if config.flips and category_names and find_flip_indices(category_names) is None:
            raise UsageError(
                f"keypoint names of category '{category}' ({_abbreviate_names(category_names)}) do not contain "
                "left and right, which mirrored crops need. Set flips = false in the recipe's [train]."
            )
    return names


def add_curriculum(
    easy_dataset: Dataset, datasets: WeightedDatasets, config: TrainConfig
) -> tuple[WeightedDatasets, TrainConfig]:
    """Return datasets and settings for a training that starts with easy scenes.

    The share of the easy dataset falls from 1 to 0 over the first third of the steps, the best of the tested
    schedules on photos (docs/decisions/0016-training.md).
    """
    initial_mix = (0.0,) * len(datasets) + (1.0,)
    curriculum = replace(config, initial_mix=initial_mix, mix_steps=max(1, config.steps // 3))
    return (*datasets, (easy_dataset, 0.0)), curriculum


def compute_dataset_shares(
    step: int, datasets: WeightedDatasets, config: TrainConfig
) -> NDArray[np.float64]:
    """Return the share of each dataset in the crops of a step (from 0), shape (n,); the sum is 1."""
    weights = np.array([weight for _, weight in datasets], np.float64)
    final: NDArray[np.float64] = weights / weights.sum()
    if step >= config.mix_steps:
        return final
    initial = np.array(config.initial_mix) / np.sum(config.initial_mix)
    progress = step / config.mix_steps
    return np.asarray((1 - progress) * initial + progress * final)


def make_dataset_records(datasets: WeightedDatasets) -> tuple[DatasetRecord, ...]:
    """Return the card's record of each dataset, in order.

    Raises:
        InputError: if an image cannot be read.
    """
    total = sum(weight for _, weight in datasets)
    return tuple(
        DatasetRecord(
            name=dataset.root.name,
            images=len(dataset.samples),
            origins=dict(sorted(Counter(s.origin for s in dataset.samples).items())),
            weight=round(weight / total, 6),
            digest=compute_dataset_digest(dataset),
            licences=_collect_licences(dataset),
            recipe=read_recipe_name(dataset.list_sources()[0].root),
        )
        for dataset, weight in datasets
    )


def _collect_licences(dataset: Dataset) -> tuple[str, ...]:
    licences = {
        licence
        for source in dataset.list_sources()
        for licence in read_licences(source.root).values()
    }
    photo_sources = find_photo_sources(sample.rgb for sample in dataset.samples)
    return tuple(sorted(licences | {source.licence for source in photo_sources.values()}))


def sketch_digests(samples: Iterable[Sample]) -> tuple[str, ...]:
    """Return the lowest SHA-256 of image files, at most ``MAX_SKETCH_DIGESTS``.

    Image files keep their bytes in exports, unlike the digests of samples, which include labels.

    Comparing the sketches of two datasets of any size shows whether they share many images (Broder 1997,
    "On the resemblance and containment of documents").

    Raises:
        InputError: if an image cannot be read.
    """
    return tuple(
        sorted({images.compute_digest(sample.rgb) for sample in samples})[:MAX_SKETCH_DIGESTS]
    )


def compute_dataset_digest(dataset: Dataset) -> str:
    """Return the SHA-256 over names, images, labels and categories of a dataset.

    Raises:
        InputError: if an image cannot be read.
    """
    digest = hashlib.sha256(json.dumps(dataset.categories).encode())
    for sample in dataset.samples:
        digest.update(
            f"{sample.name}\0{sample.digest or _compute_content_digest(sample)}\0".encode()
        )
    return digest.hexdigest()


def _abbreviate_names(names: tuple[str, ...]) -> str:
    return ", ".join(names[:_MAX_LISTED_NAMES]) + (
        ", ..." if len(names) > _MAX_LISTED_NAMES else ""
    )


def _compute_content_digest(sample: Sample) -> str:
    try:
        content = hashlib.sha256(sample.rgb.read_bytes())
    except OSError as error:
        raise InputError(
            sample.rgb, f"cannot be read ({error.strerror}). Check the path."
        ) from error
    labels: list[dict[str, Any]] = [asdict(label) for label in sample.objects or ()]
    content.update(json.dumps(labels, default=repr, sort_keys=True).encode())
    return content.hexdigest()
