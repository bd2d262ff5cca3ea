"""Learning curves of an ablation study over renders, training steps or labelled photos."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.experiments.ablation import (
    RANDOMIZED,
    REAL,
    AblationPlan,
    Variant,
    is_render_subset,
)
from sim2cam.metrics.bootstrap import Estimate, PairedDifference
from sim2cam.metrics.detection import compare_seed_means, estimate_seed_mean
from sim2cam.metrics.names import BOX_METRICS
from sim2cam.metrics.power_law import PowerLawFit, UndeterminedFit, fit_power_law

WORTHWHILE_GAIN = 0.01
"""Smallest gain that justifies twice the number of images or steps: one point of AP."""

MIN_SEEDS = 3
"""Seeds per point of a fit; fewer show too little of the variation between trainings."""

MIN_SCORE = 0.05
"""Score below which a training has learned too little for a power law ("small-data region", Hestness et al. 2017,
"Deep Learning Scaling is Predictable, Empirically", section 5)."""


@dataclass(frozen=True)
class Resource:
    """Resource of a training, with the advice that a learning curve can give."""

    name: str
    if_worthwhile: str
    if_not: str


RENDERS = Resource("renders", "render more", "render differently rather than more")
STEPS = Resource("steps", "train longer", "change data or detector rather than train longer")
PHOTOS = Resource(
    "labelled photos", "label more photos", "label other photos rather than more of the same"
)


@dataclass(frozen=True)
class CurvePoint:
    """Trainings at one size of the resource.

    Attributes:
        mean: result of ``average_over_seeds`` (1 + n_resamples,).
    """

    seed_count: int
    mean: NDArray[np.float64]


@dataclass(frozen=True)
class LearningCurve:
    """Scores by size of a training resource, and the power law of the error, which is 1 - score.

    Attributes:
        points: points by size, ascending; two or more.
        last_gain: gain from the size before the last.
    """

    resource: Resource
    metric: str
    points: Mapping[int, CurvePoint]
    last_gain: PairedDifference
    fit: PowerLawFit | UndeterminedFit

    def describe(self) -> str:
        """Return whether more of the same helps, e.g. ``Twice the renders (1,600): AP50 +0.004 (…)``."""
        resource, metric, sizes = self.resource, BOX_METRICS[self.metric], list(self.points)
        if isinstance(self.fit, UndeterminedFit):
            return (
                f"More {resource.name}: {self.conclusion}. From {sizes[-2]:,} to {sizes[-1]:,}, {metric} "
                f"changed by {_format_gain(self.last_gain)}."
            )
        low, high = self.fit.floor.ci95
        floor = f"the floor c is {self.fit.floor.value:.2f} ({low:.2f} to {high:.2f})"
        if not self.fit.determines_floor:
            floor = f"the points do not determine the floor c ({low:.2f} to {high:.2f})"
        return (
            f"Twice the {resource.name} ({2 * sizes[-1]:,}): {metric} {_format_gain(self.fit.gain)}; "
            f"{floor}: {self.conclusion}."
        )

    @property
    def conclusion(self) -> str:
        """What to do, or why the curve does not show it."""
        if isinstance(self.fit, UndeterminedFit):
            return f"no prediction of {BOX_METRICS[self.metric]}, because {self.fit.reason}"
        low, high = self.fit.gain.ci95
        if low > WORTHWHILE_GAIN:
            return self.resource.if_worthwhile
        if high <= WORTHWHILE_GAIN:
            return self.resource.if_not
        return f"seeds and images are too few to show whether more {self.resource.name} help"

    def to_json(self) -> dict[str, Any]:
        """Return the points, the fit (null if they determine none) and the conclusion."""
        fit = None if isinstance(self.fit, UndeterminedFit) else self.fit.to_json()
        return {
            "resource": self.resource.name,
            "metric": self.metric,
            "points": [
                {"size": n, "seeds": p.seed_count, **estimate_seed_mean(p.mean).to_json()}
                for n, p in self.points.items()
            ],
            "last_gain": self.last_gain.to_json(),
            "fit": fit,
            "conclusion": self.conclusion,
            "summary": self.describe(),
        }


def locate_points(
    variants: Sequence[Variant], plan: AblationPlan, photo_count: int
) -> dict[Resource, dict[int, Variant]]:
    """Return the variants that are points of each learning curve, by size in ascending order."""
    points: dict[Resource, dict[int, Variant]] = {RENDERS: {}, STEPS: {}, PHOTOS: {}}
    for variant in variants:
        if variant.fine_tuning_data or variant.alignment:
            continue
        if variant.data == (RANDOMIZED,):
            points[STEPS][variant.steps or plan.config.steps] = variant
        if variant.data == (RANDOMIZED,) and variant.steps is None:
            points[RENDERS][plan.image_count] = variant
        elif len(variant.data) == 1 and is_render_subset(variant.data[0]):
            points[RENDERS][int(variant.data[0].rpartition("-")[2])] = variant
        elif all(name.startswith(REAL) for name in variant.data):
            points[PHOTOS][variant.count_photos(photo_count)] = variant
    return {resource: dict(sorted(by_size.items())) for resource, by_size in points.items()}


def fit_learning_curve(
    resource: Resource, metric: str, points: Mapping[int, CurvePoint]
) -> LearningCurve:
    """Fit a power law to the errors at two or more ascending sizes.

    Sizes at which the score is below ``MIN_SCORE`` are left out of the fit.
    """
    *_, before, last = points.values()
    return LearningCurve(
        resource, metric, points, compare_seed_means(last.mean, before.mean), _fit_errors(points)
    )


def _fit_errors(points: Mapping[int, CurvePoint]) -> PowerLawFit | UndeterminedFit:
    fewest = min(point.seed_count for point in points.values())
    if fewest < MIN_SEEDS:
        return UndeterminedFit(f"a fit needs {MIN_SEEDS} seeds at each point, not {fewest}")
    learned = {size: point for size, point in points.items() if point.mean[0] >= MIN_SCORE}
    errors = np.array([1 - point.mean for point in learned.values()])
    fit = fit_power_law(list(learned), errors)
    if isinstance(fit, UndeterminedFit) and len(learned) < len(points):
        return UndeterminedFit(f"{fit.reason} (sizes with a score below {MIN_SCORE} are left out)")
    return fit


def _format_gain(gain: Estimate | PairedDifference) -> str:
    low, high = gain.ci95
    return f"{gain.value:+.3f} (95 % interval {low:.3f} to {high:.3f})"
