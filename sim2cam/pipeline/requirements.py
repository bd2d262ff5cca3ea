"""Requirements: what a scene must be, measured before its pictures are taken, or it is drawn again."""

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
from sim2cam.render.frame import get_category, render_labels
from sim2cam.render.rasterizer import get_rasterizer
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
"""Of the labelled objects that one camera sees: how many, the least and the mean of what is seen of
each, and the square root of the smallest box's area."""
COUNT_PREFIX = "count/"
"""Begins the measure that counts the labelled objects of a category, seen or not."""


@dataclass(frozen=True)
class Requirement:
    """What a scene must be, or it is drawn again.

    Attributes:
        within: ranges [low, high], both included, into one of which it has to fall; several take
            turns among the scenes, as the strata of a quota do.
        measure: what is measured: one of ``MEASURES``, for the camera that sees least, or
            ``count/CATEGORY``.
        value: instead, what is reckoned from drawn values.
        shares: scenes of each range in a block; one each when left out.
        budget: how many drafts of a scene may fail it.
    """

    within: tuple[tuple[float, float], ...]
    measure: str | None = None
    value: Distribution | None = None
    shares: tuple[int, ...] = ()
    budget: int = 100

    def __post_init__(self) -> None:
        if (self.measure is None) == (self.value is None):
            raise ValueError("a requirement takes one of measure and value")
        if not self.within or not all(low <= high for low, high in self.within):
            raise ValueError(
                f"a requirement needs ranges [low, high] with low <= high, not {self.within}"
            )
        if not 1 <= self.budget <= _MAX_BUDGET:
            raise ValueError(f"budget must be 1 to {_MAX_BUDGET}, not {self.budget}")
        check_shares("within", self.shares, len(self.within))

    @property
    def needs_labels(self) -> bool:
        """Whether labels are needed to measure it."""
        return self.measure in MEASURES

    def select_range(self, name: str, seed: int, index: int) -> tuple[float, float]:
        """Return the range that a scene has to fall into; no attempt changes it."""
        shares = self.shares or (1,) * len(self.within)
        return self.within[compute_stratum(seed, f"require/{name}", index, shares)]

    def describe_violation(self, name: str, value: Value, seed: int, index: int) -> str | None:
        """Return what is wrong with a scene whose value is this; None when nothing is."""
        low, high = self.select_range(name, seed, index)
        if not isinstance(value, str) and low <= value <= high:
            return None
        what = self.measure or "its value"
        return f"{what} is {value:.4g}, not {low:g} to {high:g}"


_MAX_BUDGET = 10_000


def check_requirement(
    name: str, requirement: Requirement, domain: Domain, categories: Sequence[str]
) -> None:
    """Refuse a requirement that cannot be measured.

    Raises:
        ValueError: naming it and what is allowed.
    """
    place = f"require.{name}"
    if requirement.value is not None:
        check_parts(domain, requirement.value, f"{place}.value", has_instances=False)
        check_cases(domain, requirement.value, f"{place}.value")
        for value in compute_extremes(domain, requirement.value, f"{place}.value"):
            if isinstance(value, bool | str):
                raise ValueError(f"'{place}.value' needs a number, and can be {value!r}")
        return
    known = [*MEASURES, *(f"{COUNT_PREFIX}{category}" for category in categories)]
    if requirement.measure not in known:
        hint = suggest_name(str(requirement.measure), known)
        raise ValueError(f"'{place}.measure' cannot be '{requirement.measure}'. {hint}")


def measure_scene(measure: str, scene: Scene, camera_labels: Sequence[Labels]) -> float:
    """Return what a measure gives for a settled scene.

    Args:
        measure: one that ``check_requirement`` lets pass.
        scene: bodies where they lie.
        camera_labels: labels for each camera; empty for a measure that needs none.
    """
    if measure.startswith(COUNT_PREFIX):
        wanted = measure.removeprefix(COUNT_PREFIX)
        targets = [body for body in scene.bodies if body.is_target]
        return sum(get_category(body) == wanted for body in targets)
    found = [MEASURES[measure](labels) for labels in camera_labels]
    return math.nan if any(map(math.isnan, found)) else min(found)


def collect_camera_labels(scene: Scene) -> list[Labels]:
    """Return the labels of a settled scene for each of its cameras."""
    drawing = get_rasterizer()
    drawing.load(scene)
    return [render_labels(scene, camera, drawing) for camera in scene.cameras]


def _collect_visible_fractions(labels: Labels) -> list[float]:
    return [label.visible_fraction for label in labels if label.visible_fraction is not None]


def _compute_side_px(label: ObjectLabel) -> float:
    x0, y0, x1, y1 = label.box_xyxy
    return math.sqrt((x1 - x0) * (y1 - y0))
