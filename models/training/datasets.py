"""The data sets a model is trained on, each with its share of the crops."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.adapt.card import compute_sample_digest
from sim2cam.data.keypoints import find_flip_indices, get_keypoint_names
from sim2cam.data.reader import read_licences
from sim2cam.data.sample import Dataset, Sample
from sim2cam.errors import InputError, UsageError
from sim2cam.models.training.config import TrainConfig

WeightedDatasets = tuple[tuple[Dataset, float], ...]

MAX_SKETCH_DIGESTS = 64
"""Of pictures trained on: where one in ten of them is scored too, that goes unnoticed once in 800 cases."""

_MAX_LISTED_NAMES = 4  # names of keypoints in a message


@dataclass(frozen=True)
class DatasetRecord:
    """What a card says of one data set.

    Attributes:
        name: its folder's name.
        images: how many images it holds.
        origins: how many images of each origin.
        weight: its share of the crops, 0 to 1; once it does not change any more.
        digest: SHA-256 over all images and labels.
        licences: of the files that its scenes are made of, as far as they are known.
    """

    name: str
    images: int
    origins: dict[str, int]
    weight: float
    digest: str
    licences: tuple[str, ...] = ()


def check_datasets(datasets: WeightedDatasets, config: TrainConfig) -> tuple[str, ...]:
    """Return the categories, which all parts share.

    Raises:
        UsageError: no part, or one that is never drawn from.
        InputError: a part without images, with images without labels, or with other categories; or no
            object in any of them.
    """
    if not datasets:
        raise UsageError("no data to train on. Name at least one data set.")
    _check_weights(datasets, config)
    first = datasets[0][0]
    for dataset, _ in datasets:
        if not dataset.samples:
            raise InputError(dataset.root, "no images to train on.")
        for sample in dataset.samples:
            if sample.objects is None:
                raise InputError(dataset.root, f"image {sample.name} has no labels to train on.")
        if set(dataset.categories) != set(first.categories):
            raise InputError(
                dataset.root,
                f"categories {', '.join(dataset.categories)} are not those of {first.root}: "
                f"{', '.join(first.categories)}. Rename them with --map, leave out others with --ignore-unmatched, or "
                "add those that no picture shows to the data's list of categories.",
            )
    samples = (sample for dataset, _ in datasets for sample in dataset.samples)
    if all(label.is_crowd for sample in samples for label in sample.objects or ()):
        raise InputError(
            first.root,
            "no labelled object to train on (groups do not count). Label some, or add data that have them.",
        )
    return first.categories


def _check_weights(datasets: WeightedDatasets, config: TrainConfig) -> None:
    initial_mix = config.initial_mix or (0.0,) * len(datasets)
    if len(initial_mix) != len(datasets):
        raise UsageError(
            f"initial_mix has {len(initial_mix)} numbers for {len(datasets)} data sets; give one each."
        )
    for (dataset, weight), first in zip(datasets, initial_mix, strict=True):
        if not (weight >= 0 and weight + first > 0):
            raise UsageError(f"the weight of {dataset.root} must be above 0, not {weight}")
    if not any(weight for _, weight in datasets):
        raise UsageError("the weights must not all be 0: nothing is left to train on in the end.")


def collect_keypoint_names(
    datasets: WeightedDatasets, config: TrainConfig
) -> dict[str, tuple[str, ...]]:
    """Return the names of the keypoints that each category learns, by its name; empty without keypoints.

    Args:
        datasets: of which some may have no keypoints, as photos with boxes.
        config: of the training.

    Raises:
        InputError: nothing has keypoints.
        UsageError: crops are to be mirrored, and names do not tell left from right.
    """
    if not config.keypoints:
        return {}
    names = get_keypoint_names(dataset for dataset, _ in datasets)
    if not any(names.values()):
        raise InputError(
            datasets[0][0].root,
            "no object has keypoints to learn. Render it with the channel keypoints among --channels, or "
            "train without keypoints.",
        )
    for category, ours in names.items():
        if config.flips and ours and find_flip_indices(ours) is None:
            raise UsageError(
                f"keypoints of category '{category}' ({_abbreviate_names(ours)}) do not say by the words left and "
                "right which of them change places in a mirror. Set flips = false in the recipe's [train]."
            )
    return names


def add_curriculum(
    easy_dataset: Dataset, datasets: WeightedDatasets, config: TrainConfig
) -> tuple[WeightedDatasets, TrainConfig]:
    """Return parts and settings of the same training, begun with plain scenes.

    Their share falls from all of the crops to none in the first third of the steps, which of the
    shares that were tried was the best one on photos (docs/decisions/0035-plain-scenes-first.md).
    """
    first = (0.0,) * len(datasets) + (1.0,)
    begun = replace(config, initial_mix=first, mix_steps=max(1, config.steps // 3))
    return (*datasets, (easy_dataset, 0.0)), begun


def compute_dataset_shares(
    step: int, datasets: WeightedDatasets, config: TrainConfig
) -> NDArray[np.float64]:
    """Return the share of each part in the crops of a step, 0 for the first; they sum to 1."""
    weights = np.array([weight for _, weight in datasets], np.float64)
    later: NDArray[np.float64] = weights / weights.sum()
    if step >= config.mix_steps:
        return later
    first = np.array(config.initial_mix) / np.sum(config.initial_mix)
    done = step / config.mix_steps
    return np.asarray((1 - done) * first + done * later)


def make_dataset_records(datasets: WeightedDatasets) -> tuple[DatasetRecord, ...]:
    """Return what the card says of each part, in order.

    Raises:
        InputError: an image cannot be read.
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
        )
        for dataset, weight in datasets
    )


def _collect_licences(dataset: Dataset) -> tuple[str, ...]:
    found = (read_licences(source.root).values() for source in dataset.list_sources())
    return tuple(sorted(set().union(*found)))


def sketch_digests(samples: Iterable[Sample]) -> tuple[str, ...]:
    """Return the lowest digests of samples, ``MAX_SKETCH_DIGESTS`` at most.

    Those of two sets show whether many pictures are in both, however large the sets are (Broder 1997,
    "On the resemblance and containment of documents").

    Raises:
        InputError: a photo cannot be read.
    """
    return tuple(sorted({compute_sample_digest(sample) for sample in samples})[:MAX_SKETCH_DIGESTS])


def compute_dataset_digest(dataset: Dataset) -> str:
    """Return the SHA-256 over the names, images and labels of a data set, and its categories.

    Raises:
        InputError: an image cannot be read.
    """
    total = hashlib.sha256(json.dumps(dataset.categories).encode())
    for sample in dataset.samples:
        total.update(
            f"{sample.name}\0{sample.digest or _compute_content_digest(sample)}\0".encode()
        )
    return total.hexdigest()


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
