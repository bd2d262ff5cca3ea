"""Average precision of keypoints or masks, with bootstrap intervals over images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.metrics.bootstrap import Estimate, bootstrap_estimate, fields_to_json
from sim2cam.metrics.detection import IOU_50_INDEX, IOU_75_INDEX, score_categories
from sim2cam.metrics.matching import CategoryMatches, ImageMatches
from sim2cam.metrics.resampling import N_RESAMPLES, ResamplingUnits


@dataclass(frozen=True, eq=False)
class CategoryResult:
    """Result of one category.

    Attributes:
        precision: average precision by faster-coco-eval at each of ``IOU_THRESHOLDS`` (t,).
    """

    precision: NDArray[np.float64]
    matches: Sequence[ImageMatches]


@dataclass(frozen=True)
class ShapeMetrics:
    """Average precision of keypoints or masks.

    Attributes:
        ap: mean average precision over categories and thresholds 0.50 to 0.95 of COCO's similarity:
            object keypoint similarity, or mask IoU.
        ap50, ap75: the same at one threshold.
        category_ap: ``ap`` of each category with labels of the kind.
        images, objects: number of images, and of objects without ignored ones.
    """

    ap: Estimate
    ap50: Estimate
    ap75: Estimate
    category_ap: dict[str, Estimate]
    images: int
    objects: int

    def to_json(self) -> dict[str, Any]:
        """Return estimates as ``{"value": v, "ci95": [low, high]}``, and the counts."""
        return fields_to_json(self)


class ShapeEvaluator:
    """Matched keypoints or masks that can be scored on any resample of the images.

    Args:
        categories: results by the names of the categories with labels; at least one.
    """

    def __init__(self, categories: Mapping[str, CategoryResult], units: ResamplingUnits) -> None:
        self.categories = categories
        self.units = units
        self._matches = {
            name: CategoryMatches(result.matches) for name, result in categories.items()
        }

    def compute_scores(self, image_counts: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
        """Return the scores of ``score_categories``."""
        return score_categories(self._matches, image_counts)


def compute_shape_metrics(
    evaluator: ShapeEvaluator, *, rng: np.random.Generator, n_resamples: int = N_RESAMPLES
) -> ShapeMetrics:
    """Return the metrics of all categories with 95 % bootstrap intervals."""
    resampled = evaluator.compute_scores(evaluator.units.sample_image_counts(n_resamples, rng))
    precision = {name: result.precision for name, result in evaluator.categories.items()}
    values = np.stack(list(precision.values()))  # (categories, thresholds)
    return ShapeMetrics(
        ap=bootstrap_estimate(float(values.mean()), resampled["ap"]),
        ap50=bootstrap_estimate(float(values[:, IOU_50_INDEX].mean()), resampled["ap50"]),
        ap75=bootstrap_estimate(float(values[:, IOU_75_INDEX].mean()), resampled["ap75"]),
        category_ap={
            name: bootstrap_estimate(float(value.mean()), resampled[f"ap/{name}"])
            for name, value in precision.items()
        },
        images=evaluator.units.n_images,
        objects=sum(
            image.n_objects for result in evaluator.categories.values() for image in result.matches
        ),
    )
