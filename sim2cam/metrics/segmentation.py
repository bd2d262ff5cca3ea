"""Semantic segmentation metrics: intersection over union, with bootstrap intervals over images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.errors import InputError
from sim2cam.geometry.run_length import RleMask
from sim2cam.metrics.bootstrap import Estimate, bootstrap_estimate, fields_to_json
from sim2cam.metrics.detection import (
    LabelledDataset,
    LabelledImage,
    average_defined,
    is_ignored,
)
from sim2cam.metrics.masks import GroundTruthMasks
from sim2cam.metrics.resampling import N_RESAMPLES, group_images

MIOU, BACKGROUND_IOU = "miou", "background_iou"

_IGNORE_LABEL = -1
_NO_MASK_MESSAGE = "no labelled mask to score against. Add mask labels."


@dataclass(frozen=True)
class PixelConfusions:
    """Sparse confusion matrices of pixels by image.

    Attributes:
        categories: classes from 1 on, in order; class 0 is the background.
        images: by image name, triples of true class, predicted class and number of pixels, without
            ignored pixels.
    """

    categories: tuple[str, ...]
    images: Mapping[str, tuple[tuple[int, int, int], ...]]

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)

    def confusion_matrix(self, image_name: str) -> NDArray[np.int64]:
        """Return the number of pixels of an image by true and predicted class."""
        n_classes = 1 + len(self.categories)
        matrix = np.zeros((n_classes, n_classes), np.int64)
        for true_class, predicted_class, count in self.images[image_name]:
            matrix[true_class, predicted_class] += count
        return matrix


@dataclass(frozen=True)
class SegmentationMetrics:
    """Semantic segmentation metrics.

    Attributes:
        miou: mean IoU over the background and the labelled categories, with the pixels of all
            images pooled (Everingham et al. 2010, "Pascal VOC").
    """

    miou: Estimate
    background_iou: Estimate | None
    category_iou: dict[str, Estimate]
    images: int

    def to_json(self) -> dict[str, Any]:
        """Return estimates as ``{"value": v, "ci95": [low, high]}``, and the count."""
        return fields_to_json(self)


def count_pixel_confusions(
    dataset: LabelledDataset,
    predicted_masks: Mapping[str, Mapping[str, RleMask]],
    masks: GroundTruthMasks,
) -> PixelConfusions:
    """Return the confusion matrices of pixels.

    Pixels of groups, of hardly visible objects, and boxes of objects without a labelled mask are
    ignored.

    Args:
        predicted_masks: by image name, the mask of each category; masks do not overlap.
    """
    n_classes = 1 + len(dataset.categories)
    images = {}
    for sample in dataset.samples:
        labels = _make_label_map(dataset.categories, sample, masks)
        is_labelled = labels != _IGNORE_LABEL
        predicted = np.zeros(labels.shape, np.int64)
        for category, mask in predicted_masks[sample.name].items():
            predicted[mask.decode()] = 1 + dataset.categories.index(category)
        cells, counts = np.unique(
            labels[is_labelled] * n_classes + predicted[is_labelled], return_counts=True
        )
        pairs = zip(cells.tolist(), counts.tolist(), strict=True)
        images[sample.name] = tuple((*divmod(cell, n_classes), n) for cell, n in pairs)
    return PixelConfusions(dataset.categories, images)


def check_pixel_confusions(
    dataset: LabelledDataset, confusions: PixelConfusions, masks: GroundTruthMasks
) -> None:
    """Raise if the labels differ from those of the confusion matrices.

    Args:
        masks: masks of the labelled objects; empty if none has one.

    Raises:
        InputError: an image has other labelled pixels, or no mask is labelled.
    """
    if not masks:
        raise InputError(dataset.root, _NO_MASK_MESSAGE)
    for sample in dataset.samples:
        labels = _make_label_map(confusions.categories, sample, masks)
        matrix = confusions.confusion_matrix(sample.name)
        counts = np.bincount(labels[labels != _IGNORE_LABEL], minlength=len(matrix))
        if not np.array_equal(counts, matrix.sum(axis=1)):
            raise InputError(
                dataset.root,
                f"the labelled pixels of image {sample.name} have changed since the predictions were made. "
                "Run bench with the weights again.",
            )


class SegmentationEvaluator:
    """Confusion matrices that can be scored on any resample of the images.

    Raises:
        InputError: no mask is labelled.
    """

    def __init__(self, dataset: LabelledDataset, confusions: PixelConfusions) -> None:
        matrices = np.stack(
            [confusions.confusion_matrix(sample.name) for sample in dataset.samples]
        )
        is_labelled = matrices.sum(axis=(0, 2)) > 0
        if not is_labelled[1:].any():
            raise InputError(dataset.root, _NO_MASK_MESSAGE)
        intersections = np.diagonal(matrices, axis1=1, axis2=2)  # (images, classes)
        unions = matrices.sum(axis=1) + matrices.sum(axis=2) - intersections
        self.units = group_images(dataset.samples)
        self._intersections, self._unions = intersections[:, is_labelled], unions[:, is_labelled]
        names = [BACKGROUND_IOU, *(f"iou/{category}" for category in confusions.categories)]
        self._metric_names = [
            name for name, is_present in zip(names, is_labelled, strict=True) if is_present
        ]

    def compute_scores(self, image_counts: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
        """Return ``miou``, ``background_iou`` and ``iou/NAME`` of labelled classes (n_resamples,); NaN if undefined."""
        union = image_counts @ self._unions
        undefined = np.full(union.shape, np.nan)
        iou = np.divide(image_counts @ self._intersections, union, out=undefined, where=union > 0).T
        return {MIOU: average_defined(iou)} | dict(zip(self._metric_names, iou, strict=True))


def evaluate_segmentation(
    dataset: LabelledDataset,
    confusions: PixelConfusions,
    *,
    rng: np.random.Generator,
    n_resamples: int = N_RESAMPLES,
) -> SegmentationMetrics:
    """Return segmentation metrics with 95 % bootstrap intervals over the units of ``group_images``.

    Raises:
        InputError: as ``SegmentationEvaluator``.
    """
    evaluator = SegmentationEvaluator(dataset, confusions)
    counts = evaluator.units.sample_image_counts(n_resamples, rng)
    scores = evaluator.compute_scores(np.vstack([np.ones_like(counts[:1]), counts]))
    estimates = {
        name: bootstrap_estimate(float(values[0]), values[1:]) for name, values in scores.items()
    }
    return SegmentationMetrics(
        miou=estimates.pop(MIOU),
        background_iou=estimates.pop(BACKGROUND_IOU, None),
        category_iou={name.removeprefix("iou/"): iou for name, iou in estimates.items()},
        images=evaluator.units.n_images,
    )


def _make_label_map(
    categories: Sequence[str], sample: LabelledImage, masks: GroundTruthMasks
) -> NDArray[np.int64]:
    """Return the class of each pixel (h, w): 0 for the background, -1 if ignored."""
    size = (sample.height, sample.width)
    classes = np.zeros(size, np.int64)
    pairs = list(zip(sample.objects or (), masks[sample.name], strict=True))
    for label, mask in pairs:
        if mask is None:
            classes[RleMask.from_box(label.box_xyxy, size).decode()] = _IGNORE_LABEL
    for label, mask in pairs:
        if mask is not None:
            value = _IGNORE_LABEL if is_ignored(label) else 1 + categories.index(label.category)
            classes[mask.decode()] = value
    return classes
