"""What a detector learns from what: labelled data, and what there is beside them."""

from __future__ import annotations

import functools
from collections.abc import Mapping
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
from sim2cam.models.reliability.object_sizes import compute_box_size_range
from sim2cam.models.training.config import FineTuning, TrainConfig, compute_trained_input_scale
from sim2cam.models.training.datasets import (
    MAX_SKETCH_DIGESTS,
    DatasetRecord,
    WeightedDatasets,
    check_datasets,
    collect_keypoint_names,
    make_dataset_records,
    sketch_digests,
)
from sim2cam.models.training.fine_tuning import InitialWeights, load_initial_weights
from sim2cam.models.training.images import Tasks


@dataclass(frozen=True)
class AuxiliaryData:
    """What a training may have beside labelled data.

    Attributes:
        initial_weights: file of the weights that it begins with.
        target_images: what it is brought to; nothing but pixels of these is used.
        background_images: pictures of anything else, that objects are cut out and laid before; nothing but their
            pixels is used.
        validation_set: labelled captures that choose after which step it ends, where it has ``patience``; they are
            not trained on.
    """

    initial_weights: Path | None = None
    target_images: Dataset | None = None
    background_images: Dataset | None = None
    validation_set: Dataset | None = None


NO_AUXILIARY_DATA = AuxiliaryData()
"""Labelled data alone."""


@dataclass(frozen=True)
class TrainingSetup:
    """What is learned from what.

    Attributes:
        datasets: labelled data sets with their weights, and with the boxes that are learned.
        records: what the card says of them.
        config: everything else that decides the result.
        categories: names in the order of class indices.
        objects: whose poses are learned, by category; empty without poses.
        tasks: what is learned besides boxes.
        initial_weights: weights that it begins with; None where it begins anew.
        target_images: pictures alone, that it is brought to; None without.
        background_images: pictures alone, that objects are also seen before; None without.
        validation_set: what chooses after which step it ends; None of a fixed number of steps.
    """

    datasets: WeightedDatasets
    records: tuple[DatasetRecord, ...]
    config: TrainConfig
    categories: tuple[str, ...]
    objects: Mapping[str, ObjectGeometry]
    tasks: Tasks
    initial_weights: InitialWeights | None
    target_images: Dataset | None
    background_images: Dataset | None
    validation_set: Dataset | None

    @property
    def is_frozen(self) -> bool:
        """Whether nothing but a residual head learns."""
        return self.config.fine_tuning is not None and self.config.fine_tuning.residual

    @property
    def has_residual(self) -> bool:
        """Whether the detector has a residual head, from this training or the one before."""
        return self.is_frozen or (
            self.initial_weights is not None and self.initial_weights.card.residual
        )

    @functools.cached_property
    def target_images_record(self) -> DatasetRecord | None:
        """What the card says of the captures; None without. It takes reading all of them.

        Raises:
            InputError: a capture cannot be read.
        """
        return _make_record(self.target_images)

    @functools.cached_property
    def background_images_record(self) -> DatasetRecord | None:
        """What the card says of the backdrops; None without. It takes reading all of them.

        Raises:
            InputError: a backdrop cannot be read.
        """
        return _make_record(self.background_images)

    def identity(self) -> dict[str, Any]:
        """Return all that decides the result, as JSON values.

        Raises:
            InputError: a capture or a backdrop cannot be read.
        """
        decisive = {n: v for n, v in self.config.to_json().items() if n != "cache_bytes"}
        records = [asdict(one) for one in self.records]
        for record in records:
            del record["licences"]
        data = {f"dataset {number}": record for number, record in enumerate(records, 1)}
        start = None if self.initial_weights is None else self.initial_weights.record
        aids = {
            "initial_weights": start,
            "target_images": self.target_images_record,
            "background_images": self.background_images_record,
            "validation_set": _make_record(self.validation_set),
        }
        digests = {name: one.digest for name, one in aids.items() if one is not None}
        return {"config": decisive, "categories": self.categories, "data": data, **digests}

    def make_card(self) -> DetectorCard:
        """Return the card of the detector before its first step.

        Raises:
            InputError: a capture or a backdrop cannot be read.
        """
        return DetectorCard(
            self.config.architecture,
            self.categories,
            0,
            self.config.to_json(),
            self.records,
            licence=" AND ".join(sorted({name for one in self.records for name in one.licences})),
            input_scale=self._compute_input_scale(),
            objects=dict(self.objects),
            keypoints=dict(self.tasks.keypoints),
            masks=self.tasks.masks,
            residual=self.has_residual,
            roi_classifier=self.config.roi_classifier,
            initial_weights=None if self.initial_weights is None else self.initial_weights.record,
            target_images=self.target_images_record,
            background_images=self.background_images_record,
            image_digests=self._compute_image_digests(),
            box_size_range_px=self._compute_box_size_range(),
        )

    def _compute_input_scale(self) -> float:
        """Return by how much images are enlarged: over that of crops, as much as for the weights before."""
        trained = compute_trained_input_scale(self.config.scale_range)
        if self.initial_weights is None:
            return trained
        before = self.initial_weights.card
        return round(trained * before.input_scale / before.trained_input_scale, 3)

    def _compute_box_size_range(self) -> tuple[float, float] | None:
        """Return the range of sizes that are known, those of the weights before too."""
        ours = compute_box_size_range(self.datasets, self.config)
        before = (
            None if self.initial_weights is None else self.initial_weights.card.box_size_range_px
        )
        known = [sizes for sizes in (ours, before) if sizes is not None]
        return (min(low for low, _ in known), max(high for _, high in known)) if known else None

    def _compute_image_digests(self) -> tuple[str, ...]:
        """Return what the card says of all pictures trained on, those of the weights before too."""
        ours = sketch_digests(sample for dataset, _ in self.datasets for sample in dataset.samples)
        before = () if self.initial_weights is None else self.initial_weights.card.image_digests
        return tuple(sorted({*ours, *before})[:MAX_SKETCH_DIGESTS])


def make_training_setup(
    datasets: WeightedDatasets, config: TrainConfig, auxiliary_data: AuxiliaryData
) -> TrainingSetup:
    """Return what is learned from what.

    Args:
        datasets: labelled data sets with their weights.
        config: without settings of fine-tuning, the usual ones where it begins with weights.
        auxiliary_data: what there is beside labelled data.

    Raises:
        InputError: the data cannot be trained on.
        CheckpointError: the weights to begin with are broken, or do not fit.
        UsageError: names of keypoints do not tell left from right, which mirrored crops take; settings
            ask for what is not there, or the other way round.
    """
    categories = check_datasets(datasets, config)
    _check_auxiliary_data(config, auxiliary_data)
    if auxiliary_data.initial_weights is not None and config.fine_tuning is None:
        config = replace(config, fine_tuning=FineTuning())
    datasets = tuple(
        (select_boxes(dataset, amodal=config.amodal), weight) for dataset, weight in datasets
    )
    objects = read_object_geometries([dataset for dataset, _ in datasets]) if config.poses else {}
    keypoints = collect_keypoint_names(datasets, config)
    start = (
        None
        if auxiliary_data.initial_weights is None
        else load_initial_weights(auxiliary_data.initial_weights, categories, config)
    )
    if start is not None:
        start.check_objects(objects, keypoints)
        categories, keypoints = start.card.categories, start.card.keypoints
    tasks = Tasks(
        keypoints=keypoints,
        masks=config.masks,
        amodal=config.amodal,
        cutouts=config.copy_paste
        or config.instance_colour_jitter
        or config.dead_leaves
        or auxiliary_data.background_images is not None,
    )
    if auxiliary_data.background_images is not None:
        _check_instance_masks(datasets, "laid before backdrops", "without --backgrounds")
        if not auxiliary_data.background_images.samples:
            raise InputError(
                auxiliary_data.background_images.root, "no images to lay objects before."
            )
    if config.copy_paste:
        _check_instance_masks(datasets, "laid into other pictures", "with copy_paste = false")
    if config.dead_leaves:
        _check_instance_masks(datasets, "laid before collages", "with dead_leaves = false")
    if config.instance_colour_jitter:
        _check_instance_masks(
            datasets, "seen in other shades", "with instance_colour_jitter = false"
        )
    if objects:
        _check_object_coordinates(datasets)
        known = [objects[name] for name in categories]
        tasks = replace(
            tasks,
            coordinate_scales_m=np.array([one.max_coordinate_m for one in known]),
            symmetry_rotations=stack_symmetry_rotations(known),
        )
    return TrainingSetup(
        datasets,
        make_dataset_records(datasets),
        config,
        categories,
        objects,
        tasks,
        start,
        target_images=None
        if auxiliary_data.target_images is None
        else strip_annotations(auxiliary_data.target_images),
        background_images=None
        if auxiliary_data.background_images is None
        else strip_annotations(auxiliary_data.background_images),
        validation_set=select_boxes(auxiliary_data.validation_set, amodal=config.amodal)
        if auxiliary_data.validation_set is not None and config.patience
        else None,
    )


def _check_object_coordinates(datasets: WeightedDatasets) -> None:
    """Refuse data of which none tell which points of objects their pixels show."""
    wanted = {"ids", "coordinates"}
    if not any(wanted <= sample.channels.keys() for d, _ in datasets for sample in d.samples):
        raise InputError(
            datasets[0][0].root,
            "has no channels ids and coordinates, from which poses are learned. Render it again with both "
            "among --channels, or train without poses.",
        )


def _check_instance_masks(datasets: WeightedDatasets, use: str, alternative: str) -> None:
    """Refuse data of which no object can be cut out.

    Args:
        datasets: labelled data sets.
        use: what would be done with it.
        alternative: how to train otherwise.
    """
    samples = [sample for dataset, _ in datasets for sample in dataset.samples]
    if not any(
        "ids" in s.channels or any(o.mask is not None for o in s.objects or ()) for s in samples
    ):
        raise InputError(
            datasets[0][0].root,
            f"does not say which pixels show objects, so they cannot be {use}. Render it again with ids among "
            f"--channels, or train {alternative}.",
        )


def _check_auxiliary_data(config: TrainConfig, auxiliary_data: AuxiliaryData) -> None:
    if config.fine_tuning is not None and auxiliary_data.initial_weights is None:
        raise UsageError(
            "fine_tuning needs weights to begin with. Name them with --from, or leave it out of the "
            "recipe's [train]."
        )
    if config.adapt is not None and auxiliary_data.target_images is None:
        raise UsageError(
            "adapt needs captures. Name them with --captures, or leave it out of the recipe's [train]."
        )
    for sample in (
        auxiliary_data.validation_set.samples
        if auxiliary_data.validation_set is not None and config.patience
        else ()
    ):
        if sample.objects is None:
            raise InputError(
                sample.rgb, "has no labels to tell by when to stop. Label it, or set patience = 0."
            )
    if auxiliary_data.target_images is None:
        return
    if config.adapt is None:
        raise UsageError(
            f"--captures {auxiliary_data.target_images.root}: nothing is done with them. Name a method in the recipe's "
            "[train.adapt]."
        )
    if not auxiliary_data.target_images.samples:
        raise InputError(auxiliary_data.target_images.root, "no images to adapt to.")


def _make_record(dataset: Dataset | None) -> DatasetRecord | None:
    return None if dataset is None else make_dataset_records(((dataset, 1.0),))[0]
