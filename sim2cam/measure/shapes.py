"""How well what is found of objects besides their boxes fits the labels: average precision with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.measure.bootstrap import Estimate, estimate, estimates_json, resampled_counts
from sim2cam.measure.detection import mean_defined
from sim2cam.measure.matching import IOU_THRESHOLDS, CategoryMatches, ImageMatches

_AT_50, _AT_75 = 0, 5


@dataclass(frozen=True, eq=False)
class CategoryRun:
    """What was found of one category.

    Attributes:
        precision: as faster-coco-eval has it, at each of ``IOU_THRESHOLDS`` (t,).
        matches: of every image, for the resamples.
    """

    precision: NDArray[np.float64]
    matches: Sequence[ImageMatches]


@dataclass(frozen=True)
class ShapeScore:
    """How well keypoints or masks fit.

    Attributes:
        ap: mean average precision over categories and thresholds 0.50 to 0.95 of what COCO takes for
            overlap: object keypoint similarity, or the IoU of masks.
        ap50, ap75: the same at one threshold.
        category_ap: ``ap`` of each category that has labels of the kind.
        images, objects: how many there are, those that ``is_ignored`` left out.
    """

    ap: Estimate
    ap50: Estimate
    ap75: Estimate
    category_ap: dict[str, Estimate]
    images: int
    objects: int

    def to_json(self) -> dict[str, Any]:
        """Returns the numbers, each as ``{"value": v, "ci95": [low, high]}``, and the counts."""
        return {
            "ap": self.ap.to_json(),
            "ap50": self.ap50.to_json(),
            "ap75": self.ap75.to_json(),
            "category_ap": estimates_json(self.category_ap),
            "images": self.images,
            "objects": self.objects,
        }


def shape_score(
    runs: Mapping[str, CategoryRun], *, rng: np.random.Generator, draws: int
) -> ShapeScore:
    """Returns how well all categories fit, with 95 % bootstrap intervals over images.

    Args:
        runs: of each category with labels, by its name; at least one.
        rng: draws the resamples.
        draws: how many.
    """
    n_images = max(len(run.matches) for run in runs.values())
    counts = resampled_counts(n_images, draws, rng)
    values = np.stack([run.precision for run in runs.values()])  # (categories, thresholds)
    levels = range(len(IOU_THRESHOLDS))
    resampled = np.stack(
        [CategoryMatches(r.matches).average_precision(counts, levels) for r in runs.values()]
    )  # (categories, draws, thresholds)
    return ShapeScore(
        ap=estimate(float(values.mean()), mean_defined(resampled.mean(axis=2))),
        ap50=estimate(float(values[:, _AT_50].mean()), mean_defined(resampled[:, :, _AT_50])),
        ap75=estimate(float(values[:, _AT_75].mean()), mean_defined(resampled[:, :, _AT_75])),
        category_ap={
            name: estimate(float(value.mean()), each.mean(axis=1))
            for name, value, each in zip(runs, values, resampled, strict=True)
        },
        images=n_images,
        objects=sum(image.objects for run in runs.values() for image in run.matches),
    )
