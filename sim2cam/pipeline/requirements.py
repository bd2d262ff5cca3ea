"""Requirements that a scene must meet; other scenes are rejected and sampled again."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sim2cam.data.sample import ObjectLabel
from sim2cam.errors import suggest_name
from sim2cam.randomize.distributions import Distribution, check_shares
from sim2cam.randomize.domain import Domain
from sim2cam.randomize.references import check_cases, check_parts, compute_extremes
from sim2cam.randomize.sampling_context import Value, compute_stratum
from sim2cam.render.renderer import get_renderer
from sim2cam.scene.scene import Scene

Labels = Sequence[ObjectLabel]

MEASURES: dict[str, Callable[[Labels], float]] = {
    "objects": len,
    "min_visible_fraction": lambda labels: min(
        _collect_visible_fractions(labels), default=math.nan
    ),
    "mean_visible_fraction": lambda labels: (
        sum(_collect_visible_fractions(labels)) / len(labels) if labels else math.nan
    ),
    "min_box_px": lambda labels: min(map(_compute_side_px, labels), default=math.nan),
}
"""Measures of a camera's visible labelled objects: number, smallest and mean visible fraction, and
square root of the smallest box area."""
COUNT_PREFIX = "count/"
"""Prefix of the measure that counts the labelled objects of a category, visible or not."""


@dataclass(frozen=True)
class Requirement:
    """A requirement on a scene.

    Attributes:
        within: allowed ranges [low, high], both included; several alternate over scenes, like the
            strata of a quota.
        measure: ``objects``, ``min_visible_fraction``, ``mean_visible_fraction`` or ``min_box_px`` of the
            visible labelled objects, for the camera with the smallest value; or ``count/CATEGORY``.
        value: instead of a measure, an expression over sampled values.
        shares: scenes of each range in a block; one each if empty.
        budget: largest number of rejected candidates per scene.
    """

    within: tuple[tuple[float, float], ...]
    measure: str | None = None
    value: Distribution | None = None
    shares: tuple[int, ...] = ()
    budget: int = 100

    def __post_init__(self) -> None:
        if (self.measure is None) == (self.value is None):
            raise ValueError("a requirement needs either measure or value")
        if not self.within or not all(low <= high for low, high in self.within):
            raise ValueError(
                f"a requirement needs ranges [low, high] with low <= high, not {self.within}"
            )
        if not 1 <= self.budget <= _MAX_BUDGET:
            raise ValueError(f"budget must be 1 to {_MAX_BUDGET}, not {self.budget}")
        check_shares("within", self.shares, len(self.within))

    @property
    def needs_labels(self) -> bool:
        """Whether measuring needs labels."""
        return self.measure in MEASURES

    def select_range(self, name: str, seed: int, index: int) -> tuple[float, float]:
        """Return the range of a scene, which is the same in every attempt."""
        shares = self.shares or (1,) * len(self.within)
        return self.within[compute_stratum(seed, f"require/{name}", index, shares)]

    def describe_violation(self, name: str, value: Value, seed: int, index: int) -> str | None:
        """Return the problem of a value in a scene; None if it is allowed."""
        low, high = self.select_range(name, seed, index)
        if not isinstance(value, str) and low <= value <= high:
            return None
        measure = self.measure or "its value"
        return f"{measure} is {value:.4g}, not {low:g} to {high:g}"


_MAX_BUDGET = 10_000


def check_requirement(
    name: str, requirement: Requirement, domain: Domain, categories: Sequence[str]
) -> None:
    """Refuse a requirement that cannot be measured.

    Raises:
        ValueError: naming the requirement and the allowed values.
    """
    key = f"require.{name}"
    if requirement.value is not None:
        check_parts(domain, requirement.value, f"{key}.value", has_instances=False)
        check_cases(domain, requirement.value, f"{key}.value")
        for value in compute_extremes(domain, requirement.value, f"{key}.value"):
            if isinstance(value, bool | str):
                raise ValueError(f"'{key}.value' needs a number, and can be {value!r}")
        return
    measures = [*MEASURES, *(f"{COUNT_PREFIX}{category}" for category in categories)]
    if requirement.measure not in measures:
        hint = suggest_name(str(requirement.measure), measures)
        raise ValueError(f"'{key}.measure' cannot be '{requirement.measure}'. {hint}")


def measure_scene(measure: str, scene: Scene, camera_labels: Sequence[Labels]) -> float:
    """Return a measure of a settled scene.

    Args:
        camera_labels: labels of each camera; empty for measures without labels.
    """
    if measure.startswith(COUNT_PREFIX):
        category = measure.removeprefix(COUNT_PREFIX)
        targets = [body for body in scene.bodies if body.is_target]
        return sum(body.get_category() == category for body in targets)
    values = [MEASURES[measure](labels) for labels in camera_labels]
    return math.nan if any(map(math.isnan, values)) else min(values)


def collect_camera_labels(scene: Scene) -> list[Labels]:
    """Return the labels of a settled scene, per camera."""
    with get_renderer().open(scene) as stage:
        return [stage.label(camera) for camera in scene.cameras]


def _collect_visible_fractions(labels: Labels) -> list[float]:
    return [label.visible_fraction for label in labels if label.visible_fraction is not None]


def _compute_side_px(label: ObjectLabel) -> float:
    x0, y0, x1, y1 = label.box_xyxy
    return math.sqrt((x1 - x0) * (y1 - y0))
