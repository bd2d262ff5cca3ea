"""How well the pixels of categories fit the labels: intersection over union, with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.errors import InputError
from sim2cam.geometry.masks import RunLengths
from sim2cam.measure.bootstrap import Estimate, estimate, estimates_json
from sim2cam.measure.detection import DRAWS, LabelledImage, LabelledImages, is_ignored, mean_defined
from sim2cam.measure.masks import Masks
from sim2cam.measure.units import units_of

_UNKNOWN = -1


@dataclass(frozen=True)
class SegmentScore:
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
        """Returns the numbers, each as ``{"value": v, "ci95": [low, high]}``, and the count."""
        return {
            "miou": self.miou.to_json(),
            "background_iou": self.background_iou.to_json() if self.background_iou else None,
            "category_iou": estimates_json(self.category_iou),
            "images": self.images,
        }


def evaluate_segments(
    dataset: LabelledImages,
    found: Mapping[str, Mapping[str, RunLengths]],
    masks: Masks,
    *,
    rng: np.random.Generator,
    draws: int = DRAWS,
) -> SegmentScore:
    """Returns how well the pixels of categories fit, with 95 % bootstrap intervals over ``units_of`` the
    images.

    Pixels of groups and of objects that are hardly seen do not count, nor the boxes of objects without a
    labelled mask.

    Args:
        dataset: labelled images.
        found: by the image's name, the pixels of each category, which do not overlap.
        masks: of the labelled objects.
        rng: draws the resamples.
        draws: how many.

    Raises:
        InputError: there is no labelled mask at all.
    """
    n_classes = 1 + len(dataset.categories)
    shared = np.zeros((len(dataset.samples), n_classes))
    either, labelled = np.zeros_like(shared), np.zeros_like(shared)
    for number, sample in enumerate(dataset.samples):
        truth = _truth(dataset, sample, masks)
        known = truth != _UNKNOWN
        said = np.zeros(truth.shape, np.int64)
        for category, mask in found[sample.name].items():
            said[mask.mask()] = 1 + dataset.categories.index(category)
        both = np.bincount(truth[known] * n_classes + said[known], minlength=n_classes**2)
        table = both.reshape(n_classes, n_classes)
        shared[number], labelled[number] = table.diagonal(), table.sum(axis=1)
        either[number] = labelled[number] + table.sum(axis=0) - shared[number]
    is_labelled = labelled.sum(axis=0) > 0
    if not is_labelled[1:].any():
        raise InputError(dataset.root, "no labelled mask to score against.")
    counts = units_of(dataset.samples).resampled(draws, rng)
    counts = np.vstack([np.ones_like(counts[:1]), counts])
    union = counts @ either[:, is_labelled]
    overlap = np.divide(
        counts @ shared[:, is_labelled], union, out=np.full(union.shape, np.nan), where=union > 0
    )  # (1 + draws, classes)
    names = np.array([None, *dataset.categories])[is_labelled]
    each = {
        name: estimate(float(column[0]), column[1:])
        for name, column in zip(names, overlap.T, strict=True)
    }
    mean = mean_defined(overlap.T)
    return SegmentScore(
        miou=estimate(float(mean[0]), mean[1:]),
        background_iou=each.pop(None, None),
        category_iou=each,
        images=len(dataset.samples),
    )


def _truth(dataset: LabelledImages, sample: LabelledImage, masks: Masks) -> NDArray[np.int64]:
    """Returns the class of each pixel (h, w): 0 for the background, -1 where it is not known."""
    size = (sample.height, sample.width)
    truth = np.zeros(size, np.int64)
    pairs = list(zip(sample.objects or (), masks[sample.name], strict=True))
    for label, mask in pairs:
        if mask is None:
            truth[RunLengths.of_box(label.box_xyxy, size).mask()] = _UNKNOWN
    for label, mask in pairs:
        if mask is not None:
            kind = _UNKNOWN if is_ignored(label) else 1 + dataset.categories.index(label.category)
            truth[mask.mask()] = kind
    return truth
