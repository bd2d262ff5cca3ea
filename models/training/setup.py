"""What a detector learns from what: labelled data, and what there is beside them."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sim2cam.data.known_objects import KnownObject, known_objects, turns_of
from sim2cam.data.sample import Dataset
from sim2cam.data.set_operations import pictures_alone, with_boxes
from sim2cam.errors import InputError, UsageError
from sim2cam.models.card import DetectorCard
from sim2cam.models.reliability.object_sizes import trained_sizes
from sim2cam.models.training.config import FineTuning, TrainConfig, trained_magnification
from sim2cam.models.training.datasets import (
    KEPT_DIGESTS,
    PartRecord,
    Parts,
    check_parts,
    lowest_digests,
    part_records,
    taught_keypoints,
)
from sim2cam.models.training.fine_tuning import Start, load_start
from sim2cam.models.training.images import Tasks


@dataclass(frozen=True)
class Aids:
    """What a training may have beside labelled data.

    Attributes:
        start: file of the weights that it begins with.
        captures: what it is brought to; nothing but pixels of these is used.
        backdrops: pictures of anything else, that objects are cut out and laid before; nothing but their
            pixels is used.
        dev: labelled captures that choose after which step it ends, where it has ``patience``; they are
            not trained on.
    """

    start: Path | None = None
    captures: Dataset | None = None
    backdrops: Dataset | None = None
    dev: Dataset | None = None


UNAIDED = Aids()
"""Labelled data alone."""


@dataclass(frozen=True)
class Lesson:
    """What is learned from what.

    Attributes:
        parts: labelled data sets with their weights, and with the boxes that are learned.
        records: what the card says of them.
        config: everything else that decides the result.
        categories: names in the order of class indices.
        objects: whose poses are learned, by category; empty without poses.
        tasks: what is learned besides boxes.
        start: weights that it begins with; None where it begins anew.
        captures: pictures alone, that it is brought to; None without.
        backdrops: pictures alone, that objects are also seen before; None without.
        dev: what chooses after which step it ends; None of a fixed number of steps.
    """

    parts: Parts
    records: tuple[PartRecord, ...]
    config: TrainConfig
    categories: tuple[str, ...]
    objects: Mapping[str, KnownObject]
    tasks: Tasks
    start: Start | None
    captures: Dataset | None
    backdrops: Dataset | None
    dev: Dataset | None

    @property
    def is_frozen(self) -> bool:
        """Whether nothing but a residual head learns."""
        return self.config.fine_tuning is not None and self.config.fine_tuning.residual

    @property
    def has_residual(self) -> bool:
        """Whether the detector has a residual head, from this training or the one before."""
        return self.is_frozen or (self.start is not None and self.start.card.residual)

    @functools.cached_property
    def captures_record(self) -> PartRecord | None:
        """What the card says of the captures; None without. It takes reading all of them.

        Raises:
            InputError: a capture cannot be read.
        """
        return _record(self.captures)

    @functools.cached_property
    def backdrops_record(self) -> PartRecord | None:
        """What the card says of the backdrops; None without. It takes reading all of them.

        Raises:
            InputError: a backdrop cannot be read.
        """
        return _record(self.backdrops)

    def identity(self) -> dict[str, Any]:
        """Returns all that decides the result, as JSON values.

        Raises:
            InputError: a capture or a backdrop cannot be read.
        """
        decisive = {n: v for n, v in self.config.to_json().items() if n != "cache_bytes"}
        records = [asdict(one) for one in self.records]
        for record in records:
            del record["licences"]
        data = {f"part {number}": record for number, record in enumerate(records, 1)}
        start = None if self.start is None else self.start.record
        aids = {
            "from": start,
            "captures": self.captures_record,
            "backdrops": self.backdrops_record,
            "dev": _record(self.dev),
        }
        digests = {name: one.digest for name, one in aids.items() if one is not None}
        return {"config": decisive, "categories": self.categories, "data": data, **digests}

    def card(self) -> DetectorCard:
        """Returns the card of the detector before its first step.

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
            magnification=self._magnification(),
            objects=dict(self.objects),
            keypoints=dict(self.tasks.keypoints),
            masks=self.tasks.masks,
            residual=self.has_residual,
            reader=self.config.reader,
            start=None if self.start is None else self.start.record,
            captures=self.captures_record,
            backdrops=self.backdrops_record,
            pictures=self._pictures(),
            sizes_px=self._sizes_px(),
        )

    def _magnification(self) -> float:
        """Returns by how much images are enlarged: over that of crops, as much as for the weights before."""
        trained = trained_magnification(self.config.scale_range)
        if self.start is None:
            return trained
        before = self.start.card
        return round(trained * before.magnification / before.trained_magnification, 3)

    def _sizes_px(self) -> tuple[float, float] | None:
        """Returns the range of sizes that are known, those of the weights before too."""
        ours = trained_sizes(self.parts, self.config)
        before = None if self.start is None else self.start.card.sizes_px
        known = [sizes for sizes in (ours, before) if sizes is not None]
        return (min(low for low, _ in known), max(high for _, high in known)) if known else None

    def _pictures(self) -> tuple[str, ...]:
        """Returns what the card says of all pictures trained on, those of the weights before too."""
        ours = lowest_digests(sample for dataset, _ in self.parts for sample in dataset.samples)
        before = () if self.start is None else self.start.card.pictures
        return tuple(sorted({*ours, *before})[:KEPT_DIGESTS])


def lesson_of(parts: Parts, config: TrainConfig, aids: Aids) -> Lesson:
    """Returns what is learned from what.

    Args:
        parts: labelled data sets with their weights.
        config: without settings of fine-tuning, the usual ones where it begins with weights.
        aids: what there is beside labelled data.

    Raises:
        InputError: the data cannot be trained on.
        CheckpointError: the weights to begin with are broken, or do not fit.
        UsageError: names of keypoints do not tell left from right, which mirrored crops take; settings
            ask for what is not there, or the other way round.
    """
    categories = check_parts(parts, config)
    _check_aids(config, aids)
    if aids.start is not None and config.fine_tuning is None:
        config = replace(config, fine_tuning=FineTuning())
    parts = tuple((with_boxes(dataset, amodal=config.amodal), weight) for dataset, weight in parts)
    objects = known_objects([dataset for dataset, _ in parts]) if config.poses else {}
    keypoints = taught_keypoints(parts, config)
    start = None if aids.start is None else load_start(aids.start, categories, config)
    if start is not None:
        start.check_objects(objects, keypoints)
        categories, keypoints = start.card.categories, start.card.keypoints
    tasks = Tasks(
        keypoints=keypoints,
        masks=config.masks,
        amodal=config.amodal,
        cut_outs=config.copy_paste
        or config.recolour
        or config.collages
        or aids.backdrops is not None,
    )
    if aids.backdrops is not None:
        _check_cut_outs(parts, "laid before backdrops", "without --backdrops")
        if not aids.backdrops.samples:
            raise InputError(aids.backdrops.root, "no images to lay objects before.")
    if config.copy_paste:
        _check_cut_outs(parts, "laid into other pictures", "with copy_paste = false")
    if config.collages:
        _check_cut_outs(parts, "laid before collages", "with collages = false")
    if config.recolour:
        _check_cut_outs(parts, "seen in other shades", "with recolour = false")
    if objects:
        _check_surfaces(parts)
        known = [objects[name] for name in categories]
        tasks = replace(
            tasks, reaches_m=np.array([one.reach_m for one in known]), turns=turns_of(known)
        )
    return Lesson(
        parts,
        part_records(parts),
        config,
        categories,
        objects,
        tasks,
        start,
        captures=None if aids.captures is None else pictures_alone(aids.captures),
        backdrops=None if aids.backdrops is None else pictures_alone(aids.backdrops),
        dev=with_boxes(aids.dev, amodal=config.amodal)
        if aids.dev is not None and config.patience
        else None,
    )


def _check_surfaces(parts: Parts) -> None:
    """Refuses data of which none tell which points of objects their pixels show."""
    wanted = {"ids", "coordinates"}
    if not any(wanted <= sample.channels.keys() for d, _ in parts for sample in d.samples):
        raise InputError(
            parts[0][0].root,
            "has no channels ids and coordinates, from which poses are learned. Render it again with both "
            "among --channels, or train without poses.",
        )


def _check_cut_outs(parts: Parts, use: str, without: str) -> None:
    """Refuses data of which no object can be cut out.

    Args:
        parts: labelled data sets.
        use: what would be done with it.
        without: how to train otherwise.
    """
    samples = [sample for dataset, _ in parts for sample in dataset.samples]
    if not any(
        "ids" in s.channels or any(o.mask is not None for o in s.objects or ()) for s in samples
    ):
        raise InputError(
            parts[0][0].root,
            f"does not say which pixels show objects, so they cannot be {use}. Render it again with ids among "
            f"--channels, or train {without}.",
        )


def _check_aids(config: TrainConfig, aids: Aids) -> None:
    if config.fine_tuning is not None and aids.start is None:
        raise UsageError(
            "fine_tuning needs weights to begin with. Name them with --from, or leave it out of the "
            "recipe's [train]."
        )
    if config.adapt is not None and aids.captures is None:
        raise UsageError(
            "adapt needs captures. Name them with --captures, or leave it out of the recipe's [train]."
        )
    for sample in aids.dev.samples if aids.dev is not None and config.patience else ():
        if sample.objects is None:
            raise InputError(
                sample.rgb, "has no labels to tell by when to stop. Label it, or set patience = 0."
            )
    if aids.captures is None:
        return
    if config.adapt is None:
        raise UsageError(
            f"--captures {aids.captures.root}: nothing is done with them. Name a method in the recipe's "
            "[train.adapt]."
        )
    if not aids.captures.samples:
        raise InputError(aids.captures.root, "no images to adapt to.")


def _record(dataset: Dataset | None) -> PartRecord | None:
    return None if dataset is None else part_records(((dataset, 1.0),))[0]
