"""How well what is found of objects besides their boxes fits the labels: average precision with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.metrics.bootstrap import Estimate, bootstrap_estimate, estimates_to_json
from sim2cam.metrics.detection import average_defined
from sim2cam.metrics.matching import IOU_THRESHOLDS, CategoryMatches, ImageMatches
from sim2cam.metrics.resampling import ResamplingUnits

_IOU_50_INDEX, _IOU_75_INDEX = 0, 5


@dataclass(frozen=True, eq=False)
class CategoryResult:
    """What was found of one category.

    Attributes:
        precision: as faster-coco-eval has it, at each of ``IOU_THRESHOLDS`` (t,).
        matches: of every image, for the resamples.
    """

    precision: NDArray[np.float64]
    matches: Sequence[ImageMatches]


@dataclass(frozen=True)
class ShapeMetrics:
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
        """Return the numbers, each as ``{"value": v, "ci95": [low, high]}``, and the counts."""
        return {
            "ap": self.ap.to_json(),
            "ap50": self.ap50.to_json(),
            "ap75": self.ap75.to_json(),
            "category_ap": estimates_to_json(self.category_ap),
            "images": self.images,
            "objects": self.objects,
        }


class ShapeEvaluator:
    """What was found of all categories, ready to be scored on any resample of the images.

    Args:
        categories: each that has labels, by its name; at least one.
        units: of the images.
    """

    def __init__(self, categories: Mapping[str, CategoryResult], units: ResamplingUnits) -> None:
        self.categories = categories
        self.units = units
        self._matches = {name: CategoryMatches(run.matches) for name, run in categories.items()}

    def compute_scores(self, image_counts: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
        """Return ``ap ap50 ap75`` and ``ap/NAME``, (draws,); NaN if undefined.

        Args:
            image_counts: how often each image is in each resample (draws, images).
        """
        levels = range(len(IOU_THRESHOLDS))
        precision = {
            n: m.compute_average_precision(image_counts, levels) for n, m in self._matches.items()
        }
        stacked = np.stack(list(precision.values()))  # (categories, draws, thresholds)
        found = {
            "ap": average_defined(stacked.mean(axis=2)),
            "ap50": average_defined(stacked[:, :, _IOU_50_INDEX]),
            "ap75": average_defined(stacked[:, :, _IOU_75_INDEX]),
        }
        return found | {f"ap/{name}": values.mean(axis=1) for name, values in precision.items()}


def compute_shape_metrics(
    evaluator: ShapeEvaluator, *, rng: np.random.Generator, n_resamples: int
) -> ShapeMetrics:
    """Return how well all categories fit, with 95 % bootstrap intervals over their units.

    Args:
        evaluator: what was found.
        rng: draws the resamples.
        n_resamples: how many.
    """
    resampled = evaluator.compute_scores(evaluator.units.sample_image_counts(n_resamples, rng))
    each = {name: one.precision for name, one in evaluator.categories.items()}
    values = np.stack(list(each.values()))  # (categories, thresholds)
    return ShapeMetrics(
        ap=bootstrap_estimate(float(values.mean()), resampled["ap"]),
        ap50=bootstrap_estimate(float(values[:, _IOU_50_INDEX].mean()), resampled["ap50"]),
        ap75=bootstrap_estimate(float(values[:, _IOU_75_INDEX].mean()), resampled["ap75"]),
        category_ap={
            name: bootstrap_estimate(float(value.mean()), resampled[f"ap/{name}"])
            for name, value in each.items()
        },
        images=evaluator.units.n_images,
        objects=sum(
            image.n_objects for one in evaluator.categories.values() for image in one.matches
        ),
    )
