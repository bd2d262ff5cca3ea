"""Inputs of a training run, checked and prepared."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sim2cam.data.known_objects import (
    ObjectGeometry,
    read_object_geometries,
    stack_symmetry_rotations,
)
from sim2cam.data.sample import Dataset
from sim2cam.data.set_operations import select_boxes, strip_annotations
from sim2cam.errors import InputError, UsageError
from sim2cam.models.card import DetectorCard
from sim2cam.models.network.detector import get_normalization
from sim2cam.models.network.pretrained import (
    PretrainedWeights,
    read_pretrained,
    resolve_pretrained,
)
from sim2cam.models.reliability.domain_shift import TrainingDomain
from sim2cam.models.reliability.object_sizes import compute_box_size_range
from sim2cam.models.training.config import (
    BackboneTuning,
    FineTuning,
    TrainConfig,
    compute_trained_input_scale,
)
from sim2cam.models.training.datasets import (
    MAX_SKETCH_DIGESTS,
    DatasetRecord,
    WeightedDatasets,
    check_datasets,
    collect_keypoint_names,
    make_dataset_records,
    sketch_digests,
)
from sim2cam.models.training.domain import measure_training_domain
from sim2cam.models.training.fine_tuning import InitialWeights, load_initial_weights
from sim2cam.models.training.images import Tasks


@dataclass(frozen=True)
class AuxiliaryData:
    """Optional inputs of a training besides labelled data.

    Attributes:
        initial_weights: file of weights to fine-tune.
        target_images: unlabelled images to adapt to; only their pixels are used.
        background_images: images without objects of interest, pasted behind objects; only their pixels are used.
        background_shares: number of images and share of each source of the background images, in order; empty for
            equally frequent images.
        validation_set: labelled images for early stopping (``patience``); not used for training.
    """

    initial_weights: Path | None = None
    target_images: Dataset | None = None
    background_images: Dataset | None = None
    validation_set: Dataset | None = None
    background_shares: tuple[tuple[int, float], ...] = ()


NO_AUXILIARY_DATA = AuxiliaryData()
"""Training on labelled data only."""


@dataclass(frozen=True)
class TrainingSetup:
    """Checked inputs of a training run.

    Attributes:
        datasets: labelled datasets with the boxes that are learned, and their weights.
        records: records of the datasets for the card.
        config: all other settings.
        categories: names in the order of class indices.
        objects: geometry by category for pose learning; empty without poses.
        tasks: what the detector learns besides boxes.
        initial_weights: weights of a detector to fine-tune; None without.
        pretrained: pretrained weights to start from; None for random weights.
        target_images: unlabelled images to adapt to, or for backgrounds; None without.
        background_images: unlabelled background images; None without.
        background_shares: as in ``AuxiliaryData``.
        validation_set: labelled images for early stopping; None for a fixed number of steps.
        target_images_record, background_images_record: their records for the card.
    """

    datasets: WeightedDatasets
    records: tuple[DatasetRecord, ...]
    config: TrainConfig
    categories: tuple[str, ...]
    objects: Mapping[str, ObjectGeometry]
    tasks: Tasks
    initial_weights: InitialWeights | None
    pretrained: PretrainedWeights | None
    target_images: Dataset | None
    background_images: Dataset | None
    background_shares: tuple[tuple[int, float], ...]
    validation_set: Dataset | None
    target_images_record: DatasetRecord | None
    background_images_record: DatasetRecord | None

    @property
    def is_frozen(self) -> bool:
        """Whether only a residual head is trained."""
        return self.config.fine_tuning is not None and self.config.fine_tuning.residual

    @property
    def has_residual(self) -> bool:
        """Whether the detector has a residual head, new or from the initial weights."""
        return self.is_frozen or (
            self.initial_weights is not None and self.initial_weights.card.residual
        )

    def identity(self) -> dict[str, Any]:
        """Return everything that determines the result, as JSON values."""
        settings = {
            name: value for name, value in self.config.to_json().items() if name != "cache_bytes"
        }
        records = [asdict(record) for record in self.records]
        for record in records:
            del record["licences"], record["recipe"]
        data = {f"dataset {number}": record for number, record in enumerate(records, 1)}
        initial = None if self.initial_weights is None else self.initial_weights.record
        auxiliary = {
            "initial_weights": initial,
            "pretrained": self.pretrained,
            "target_images": self.target_images_record,
            "background_images": self.background_images_record,
            "validation_set": _make_record(self.validation_set),
        }
        digests = {name: record.digest for name, record in auxiliary.items() if record is not None}
        shares = {"background_shares": self.background_shares} if self.background_shares else {}
        return {
            "config": settings,
            "categories": self.categories,
            "data": data,
            **digests,
            **shares,
        }

    def make_card(self) -> DetectorCard:
        """Return the card of the untrained detector."""
        mean_rgb, std_rgb = get_normalization(self.config.architecture)
        return DetectorCard(
            self.config.architecture,
            self.categories,
            0,
            self.config.to_json(),
            self.records,
            licence=" AND ".join(sorted({name for r in self.records for name in r.licences})),
            input_scale=self._compute_input_scale(),
            objects=dict(self.objects),
            keypoints=dict(self.tasks.keypoints),
            masks=self.tasks.masks,
            residual=self.has_residual,
            roi_classifier=self.config.roi_classifier,
            initial_weights=None if self.initial_weights is None else self.initial_weights.record,
            target_images=self.target_images_record,
            background_images=self.background_images_record,
            image_digests=self._image_digests,
            box_size_range_px=self._compute_box_size_range(),
            mean_rgb=mean_rgb,
            std_rgb=std_rgb,
        )

    def _compute_input_scale(self) -> float:
        """Return the input scale of the trained detector, relative to that of the initial weights."""
        input_scale = compute_trained_input_scale(self.config.scale_range)
        if self.initial_weights is None:
            return input_scale
        initial_card = self.initial_weights.card
        return round(input_scale * initial_card.input_scale / initial_card.trained_input_scale, 3)

    def _compute_box_size_range(self) -> tuple[float, float] | None:
        """Return the range of box sizes in the training data and in that of the initial weights."""
        own_range = compute_box_size_range(self.datasets, self.config)
        initial_range = (
            None if self.initial_weights is None else self.initial_weights.card.box_size_range_px
        )
        ranges = [sizes for sizes in (own_range, initial_range) if sizes is not None]
        return (min(low for low, _ in ranges), max(high for _, high in ranges)) if ranges else None

    @functools.cached_property
    def training_domain(self) -> TrainingDomain:
        """Distributions of the training data, measured at the first access."""
        return measure_training_domain(self.datasets, self.config)

    @functools.cached_property
    def _image_digests(self) -> tuple[str, ...]:
        """Sketch of the training images' digests, including those of the initial weights."""
        own_digests = sketch_digests(
            sample for dataset, _ in self.datasets for sample in dataset.samples
        )
        initial_digests = (
            () if self.initial_weights is None else self.initial_weights.card.image_digests
        )
        return tuple(sorted({*own_digests, *initial_digests})[:MAX_SKETCH_DIGESTS])


def make_training_setup(
    datasets: WeightedDatasets, config: TrainConfig, auxiliary_data: AuxiliaryData
) -> TrainingSetup:
    """Check the inputs of a training and return them prepared.

    Args:
        datasets: labelled datasets and their weights.
        config: settings of the training; with initial weights, the architecture is theirs and ``fine_tuning`` gets
            its defaults if unset.
        auxiliary_data: initial weights, target images, background images, validation set.

    Raises:
        InputError: if the data cannot be used for training.
        CheckpointError: if the initial weights are broken or do not fit.
        UsageError: if settings and data contradict each other, or mirrored crops need keypoint names with
            "left" and "right".
    """
    categories = check_datasets(datasets, config)
    _check_auxiliary_data(config, auxiliary_data)
    initial_weights = None
    if auxiliary_data.initial_weights is not None:
        initial_weights = load_initial_weights(auxiliary_data.initial_weights, categories, config)
        config = replace(
            config,
            architecture=initial_weights.card.architecture,
            pretrained="",
            backbone=None,
            fine_tuning=config.fine_tuning or FineTuning(),
        )
    config, pretrained = _read_pretrained(config)
    datasets = tuple(
        (select_boxes(dataset, amodal=config.amodal), weight) for dataset, weight in datasets
    )
    objects = read_object_geometries([dataset for dataset, _ in datasets]) if config.poses else {}
    keypoints = collect_keypoint_names(datasets, config)
    if initial_weights is not None:
        initial_weights.check_objects(objects, keypoints)
        categories, keypoints = initial_weights.card.categories, initial_weights.card.keypoints
    tasks = Tasks(
        keypoints=keypoints,
        masks=config.masks,
        amodal=config.amodal,
        cutouts=config.copy_paste
        or config.instance_colour_jitter
        or config.dead_leaves
        or config.target_backgrounds
        or auxiliary_data.background_images is not None,
    )
    has_backgrounds = auxiliary_data.background_images is not None
    for is_used, use, alternative in (
        (has_backgrounds, "put on background images", "without --backgrounds"),
        (config.copy_paste, "pasted into other images", "with copy_paste = false"),
        (config.dead_leaves, "put on dead-leaves backgrounds", "with dead_leaves = false"),
        (config.target_backgrounds, "put on target images", "with target_backgrounds = false"),
        (
            config.instance_colour_jitter,
            "jittered in colour",
            "with instance_colour_jitter = false",
        ),
    ):
        if is_used:
            _check_instance_masks(datasets, use, alternative)
    if (
        auxiliary_data.background_images is not None
        and not auxiliary_data.background_images.samples
    ):
        raise InputError(
            auxiliary_data.background_images.root,
            "contains no background images. Name a folder with images.",
        )
    if objects:
        _check_object_coordinates(datasets)
        geometries = [objects[name] for name in categories]
        tasks = replace(
            tasks,
            coordinate_scales_m=np.array([geometry.max_coordinate_m for geometry in geometries]),
            symmetry_rotations=stack_symmetry_rotations(geometries),
        )
    target_images, background_images = (
        None if images is None else strip_annotations(images)
        for images in (auxiliary_data.target_images, auxiliary_data.background_images)
    )
    validation_set = auxiliary_data.validation_set if config.patience else None
    return TrainingSetup(
        datasets,
        make_dataset_records(datasets),
        config,
        categories,
        objects,
        tasks,
        initial_weights,
        pretrained,
        target_images,
        background_images,
        auxiliary_data.background_shares,
        None if validation_set is None else select_boxes(validation_set, amodal=config.amodal),
        _make_record(target_images),
        _make_record(background_images),
    )


def _read_pretrained(config: TrainConfig) -> tuple[TrainConfig, PretrainedWeights | None]:
    """Return the configuration with the chosen pretrained weights, and these if there are any."""
    name = resolve_pretrained(config.pretrained, config.architecture)
    if not name:
        return replace(config, pretrained="", backbone=None), None
    has_backbone = not config.is_torchvision
    backbone = config.backbone or (BackboneTuning() if has_backbone else None)
    return replace(config, pretrained=name, backbone=backbone), read_pretrained(name)


def _check_object_coordinates(datasets: WeightedDatasets) -> None:
    """Raise ``InputError`` if no sample has object coordinates."""
    required = {"ids", "coordinates"}
    if not any(required <= sample.channels.keys() for d, _ in datasets for sample in d.samples):
        raise InputError(
            datasets[0][0].root,
            "has no channels ids and coordinates, which learning poses needs. Render with both in --channels, "
            "or train without poses.",
        )


def has_instance_masks(datasets: Iterable[Dataset]) -> bool:
    """Return whether any sample has instance masks."""
    return any(
        "ids" in sample.channels or any(label.mask is not None for label in sample.objects or ())
        for dataset in datasets
        for sample in dataset.samples
    )


def _check_instance_masks(datasets: WeightedDatasets, use: str, alternative: str) -> None:
    """Raise ``InputError`` if no sample has instance masks; ``use`` and ``alternative`` are for the message."""
    if not has_instance_masks(dataset for dataset, _ in datasets):
        raise InputError(
            datasets[0][0].root,
            f"has no instance masks, so objects cannot be {use}. Render with ids in --channels, or train "
            f"{alternative}.",
        )


def _check_auxiliary_data(config: TrainConfig, auxiliary_data: AuxiliaryData) -> None:
    if config.fine_tuning is not None and auxiliary_data.initial_weights is None:
        raise UsageError(
            "fine_tuning needs initial weights. Add --from, or remove fine_tuning from the recipe's [train]."
        )
    for name in ("adapt", "target_backgrounds"):
        if getattr(config, name) and auxiliary_data.target_images is None:
            raise UsageError(
                f"{name} needs unlabelled target images. Add --captures, or remove {name} from the recipe's [train]."
            )
    validation_set = auxiliary_data.validation_set if config.patience else None
    for sample in () if validation_set is None else validation_set.samples:
        if sample.objects is None:
            raise InputError(
                sample.rgb, "has no labels for early stopping. Label it, or set patience = 0."
            )
    if auxiliary_data.target_images is None:
        return
    if config.adapt is None and not config.target_backgrounds:
        raise UsageError(
            f"--captures {auxiliary_data.target_images.root}: no adaptation method uses these images. Set one "
            "in the recipe's [train.adapt], or set target_backgrounds = true in its [train]."
        )
    if not auxiliary_data.target_images.samples:
        raise InputError(
            auxiliary_data.target_images.root,
            "contains no images to adapt to. Name a folder with images.",
        )


def _make_record(dataset: Dataset | None) -> DatasetRecord | None:
    return None if dataset is None else make_dataset_records(((dataset, 1.0),))[0]
