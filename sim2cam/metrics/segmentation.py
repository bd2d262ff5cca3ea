"""How well the pixels of categories fit the labels: intersection over union, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.errors import InputError
from sim2cam.geometry.run_length import RleMask
from sim2cam.metrics.bootstrap import Estimate, bootstrap_estimate, estimates_to_json
from sim2cam.metrics.detection import (
    N_RESAMPLES,
    LabelledDataset,
    LabelledImage,
    average_defined,
    is_ignored,
)
from sim2cam.metrics.masks import GroundTruthMasks
from sim2cam.metrics.resampling import group_images

MIOU, BACKGROUND_IOU = "miou", "background_iou"

_IGNORE_LABEL = -1
_NO_MASK_MESSAGE = "no labelled mask to score against."


@dataclass(frozen=True)
class PixelConfusions:
    """How many pixels that are labelled as one class are taken for another, image by image.

    Attributes:
        categories: the classes from 1 on, in their order; class 0 is the background.
        images: by the image's name, what occurs: the class that is labelled, the class that it is taken
            for, and in how many pixels. Pixels that count for nothing are left out.
    """

    categories: tuple[str, ...]
    images: Mapping[str, tuple[tuple[int, int, int], ...]]

    def to_json(self) -> dict[str, Any]:
        """Return all of it as JSON values."""
        return asdict(self)

    def confusion_matrix(self, image_name: str) -> NDArray[np.int64]:
        """Return the pixels of an image by the class that is labelled and that it is taken for."""
        classes = 1 + len(self.categories)
        table = np.zeros((classes, classes), np.int64)
        for labelled, taken, pixels in self.images[image_name]:
            table[labelled, taken] += pixels
        return table


@dataclass(frozen=True)
class SegmentationMetrics:
    """How well the pixels of categories fit.

    Attributes:
        miou: mean over the background and the categories that are labelled of the IoU of their pixels,
            those of all images together (Everingham et al. 2010, "Pascal VOC").
        background_iou: of what shows nothing that is labelled; None where every pixel shows something.
        category_iou: of each category that is labelled.
        images: how many there are.
    """

    miou: Estimate
    background_iou: Estimate | None
    category_iou: dict[str, Estimate]
    images: int

    def to_json(self) -> dict[str, Any]:
        """Return the numbers, each as ``{"value": v, "ci95": [low, high]}``, and the count."""
        return {
            "miou": self.miou.to_json(),
            "background_iou": self.background_iou.to_json() if self.background_iou else None,
            "category_iou": estimates_to_json(self.category_iou),
            "images": self.images,
        }


def count_pixel_confusions(
    dataset: LabelledDataset,
    predicted_masks: Mapping[str, Mapping[str, RleMask]],
    masks: GroundTruthMasks,
) -> PixelConfusions:
    """Return what pixels are labelled as and taken for.

    Pixels of groups and of objects that are hardly seen do not count, nor the boxes of objects without a
    labelled mask.

    Args:
        dataset: labelled images.
        predicted_masks: by the image's name, the pixels of each category, which do not overlap.
        masks: of the labelled objects.
    """
    n_classes = 1 + len(dataset.categories)
    images = {}
    for sample in dataset.samples:
        truth = _make_label_map(dataset.categories, sample, masks)
        known = truth != _IGNORE_LABEL
        said = np.zeros(truth.shape, np.int64)
        for category, mask in predicted_masks[sample.name].items():
            said[mask.decode()] = 1 + dataset.categories.index(category)
        both, pixels = np.unique(truth[known] * n_classes + said[known], return_counts=True)
        cells = zip(both.tolist(), pixels.tolist(), strict=True)
        images[sample.name] = tuple((*divmod(cell, n_classes), n) for cell, n in cells)
    return PixelConfusions(dataset.categories, images)


def check_pixel_confusions(
    dataset: LabelledDataset, confusions: PixelConfusions, masks: GroundTruthMasks
) -> None:
    """Refuse counts of pixels whose labels are others by now.

    Args:
        dataset: labelled images.
        confusions: of all of them.
        masks: of the labelled objects; empty where none has one.

    Raises:
        InputError: an image has other labelled pixels, or there is no labelled mask at all.
    """
    if not masks:
        raise InputError(dataset.root, _NO_MASK_MESSAGE)
    for sample in dataset.samples:
        truth = _make_label_map(confusions.categories, sample, masks)
        table = confusions.confusion_matrix(sample.name)
        labelled = np.bincount(truth[truth != _IGNORE_LABEL], minlength=len(table))
        if not np.array_equal(labelled, table.sum(axis=1)):
            raise InputError(
                dataset.root,
                f"image {sample.name} has other labelled pixels than those that were counted. Run bench "
                "with the weights again.",
            )


class SegmentationEvaluator:
    """Pixels held against the labels once, ready to be scored on any resample of the images.

    Args:
        dataset: labelled images.
        confusions: of all of them.

    Raises:
        InputError: there is no labelled mask at all.
    """

    def __init__(self, dataset: LabelledDataset, confusions: PixelConfusions) -> None:
        tables = np.stack([confusions.confusion_matrix(sample.name) for sample in dataset.samples])
        is_labelled = tables.sum(axis=(0, 2)) > 0
        if not is_labelled[1:].any():
            raise InputError(dataset.root, _NO_MASK_MESSAGE)
        shared = np.diagonal(tables, axis1=1, axis2=2)  # (images, classes)
        either = tables.sum(axis=1) + tables.sum(axis=2) - shared
        self.units = group_images(dataset.samples)
        self._intersections, self._unions = shared[:, is_labelled], either[:, is_labelled]
        names = [BACKGROUND_IOU, *(f"iou/{category}" for category in confusions.categories)]
        self._metric_names = [
            name for name, counts in zip(names, is_labelled, strict=True) if counts
        ]

    def compute_scores(self, image_counts: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
        """Return ``miou`` and, of what is labelled, ``background_iou`` and ``iou/NAME``, (draws,); NaN if
        undefined.

        Args:
            image_counts: how often each image is in each resample (draws, images).
        """
        union = image_counts @ self._unions
        nothing = np.full(union.shape, np.nan)
        each = np.divide(image_counts @ self._intersections, union, out=nothing, where=union > 0).T
        return {MIOU: average_defined(each)} | dict(zip(self._metric_names, each, strict=True))


def evaluate_segmentation(
    dataset: LabelledDataset,
    confusions: PixelConfusions,
    *,
    rng: np.random.Generator,
    n_resamples: int = N_RESAMPLES,
) -> SegmentationMetrics:
    """Return how well the pixels of categories fit, with 95 % bootstrap intervals over ``group_images`` the
    images.

    Args:
        dataset, confusions: as ``SegmentationEvaluator`` takes them.
        rng: draws the resamples.
        n_resamples: how many.

    Raises:
        InputError: as ``SegmentationEvaluator``.
    """
    run = SegmentationEvaluator(dataset, confusions)
    counts = run.units.sample_image_counts(n_resamples, rng)
    scores = run.compute_scores(np.vstack([np.ones_like(counts[:1]), counts]))
    each = {name: bootstrap_estimate(float(one[0]), one[1:]) for name, one in scores.items()}
    return SegmentationMetrics(
        miou=each.pop(MIOU),
        background_iou=each.pop(BACKGROUND_IOU, None),
        category_iou={name.removeprefix("iou/"): one for name, one in each.items()},
        images=run.units.n_images,
    )


def _make_label_map(
    categories: Sequence[str], sample: LabelledImage, masks: GroundTruthMasks
) -> NDArray[np.int64]:
    """Return the class of each pixel (h, w): 0 for the background, -1 where it is not known."""
    size = (sample.height, sample.width)
    truth = np.zeros(size, np.int64)
    pairs = list(zip(sample.objects or (), masks[sample.name], strict=True))
    for label, mask in pairs:
        if mask is None:
            truth[RleMask.from_box(label.box_xyxy, size).decode()] = _IGNORE_LABEL
    for label, mask in pairs:
        if mask is not None:
            kind = _IGNORE_LABEL if is_ignored(label) else 1 + categories.index(label.category)
            truth[mask.decode()] = kind
    return truth
