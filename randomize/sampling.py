"""Drawing: from a domain, a seed and an index to every value that chance decides."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field

from sim2cam.errors import UsageError
from sim2cam.randomize.counterfactual import NO_CHANGE, Change
from sim2cam.randomize.distributions import Distribution
from sim2cam.randomize.domain import ONCE, Domain, factor_at, factors_of
from sim2cam.randomize.references import check_path, extremes_of
from sim2cam.randomize.sampling_context import Chance, Value
from sim2cam.scene.image_facts import PictureFacts
from sim2cam.seeds import stream

PER_VIEW = (
    "view", "lens", "fisheye", "exposure", "sensor", "shutter", "motion", "stereo", "depth_camera",
    "mosaic", "processing", "automatics",
    "defocus", "lateral_color", "field_blur", "glare", "dirt", "droplets",
)  # fmt: skip
COUNTED = {
    "layout/die_count": ("die", "die_color", "die_surface"),
    "layout/object_count": ("object", "object_surface"),
    "layout/fixture_count": ("fixture", "fixture_surface"),
    "layout/block_count": ("block", "block_surface"),
    "layout/board_count": ("board", "board_surface"),
    "layout/card_count": ("card", "card_surface"),
    "layout/twisty_count": ("twisty", "twisty_color", "twisty_surface"),
    "layout/tin_count": ("tin", "tin_label", "tin_surface"),
    "layout/carton_count": ("carton", "carton_label", "carton_surface"),
    "layout/bolt_count": ("bolt", "bolt_surface"),
    "layout/nut_count": ("nut", "nut_surface"),
    "layout/cable_count": ("cable", "cable_surface"),
    "layout/paper_count": ("paper", "paper_label", "paper_surface"),
    "layout/hand_count": ("hand", "hand_surface"),
    "layout/distractor_count": ("distractor", "distractor_surface"),
    "layout/decal_count": ("decal",),
    "light/lamp_count": ("lamp",),
    "light/near_count": ("near_light",),
}
"""Groups of which a scene has as many instances as a factor says; of all others one for each view."""


@dataclass(frozen=True)
class Draw:
    """What was drawn for one scene.

    Attributes:
        values: value of each factor by its path, as ``die/3/edge_m``.
        views: number of cameras.
        pictures: what is known of the pictures of surfaces that were drawn from, by name.
    """

    values: Mapping[str, Value]
    views: int
    pictures: Mapping[str, PictureFacts] = field(default_factory=dict)

    def number(self, path: str) -> float:
        """Returns a drawn number."""
        return float(self.values[path])

    def count(self, path: str) -> int:
        """Returns a drawn whole number."""
        return int(self.values[path])

    def text(self, path: str) -> str:
        """Returns a drawn word."""
        return str(self.values[path])

    def number_or(self, path: str, otherwise: float) -> float:
        """Returns a drawn number, or another one where its factor is left out."""
        return float(self.values.get(path, otherwise))

    def has(self, group: str) -> bool:
        """Returns whether the domain has a group, of which one instance is named: ``motion/0``."""
        return group in self._groups

    @functools.cached_property
    def _groups(self) -> frozenset[str]:
        """Groups and their instances: of ``motion/0/speed`` both ``motion/0`` and ``motion``."""
        above = {path.rpartition("/")[0] for path in self.values}
        return frozenset(above | {group.partition("/")[0] for group in above})

    def named(self, path: str) -> dict[str, float]:
        """Returns the drawn numbers of a factor that has one for each of several names."""
        head = f"{path}."
        return {
            key.removeprefix(head): float(value)
            for key, value in self.values.items()
            if key.startswith(head)
        }

    def flag(self, path: str) -> bool:
        """Returns a drawn yes or no."""
        return bool(self.values[path])


def draw(
    domain: Domain,
    seed: int,
    index: int,
    *,
    views: int,
    attempt: int = 0,
    change: Change = NO_CHANGE,
) -> Draw:
    """Returns everything chance decides for scene ``index``.

    Args:
        domain: the distributions.
        seed: seed of the data set.
        index: scene index.
        views: number of cameras.
        attempt: counts redraws of the whole scene.
        change: what is otherwise than in the scene of these arguments; every value outside it
            stays as it is, bit by bit, also one that refers to a value inside.

    Raises:
        UsageError: a change of what the domain does not have.
    """
    for name in (*change.redraws, *change.settings):
        check_path(domain, name, UsageError, whole=name in change.settings)
    drawing = _drawing(domain, seed, index, attempt, change)
    values: dict[str, Value] = {}

    def draw_group(name: str, place: str = "") -> None:
        for factor, _ in factors_of(getattr(domain, name)):
            path = f"{name}{place}/{factor}"
            values[path] = drawing.value(path)

    for name in ONCE:
        draw_group(name)
    repeats = [(names, values.get(count, 0)) for count, names in COUNTED.items()]
    for names, count in (*repeats, (PER_VIEW, views)):
        for name in names:
            for i in range(int(count)):
                draw_group(name, f"/{i}")
    return Draw(values, views)


def check_instances(domain: Domain, change: Change, views: int) -> None:
    """Refuses a change of an instance that no scene can have.

    Args:
        domain: the distributions.
        change: of what there is.
        views: number of cameras.

    Raises:
        UsageError: naming it and how many there are at most.
    """
    for name in change.instances():
        group, number, *_ = name.split("/")
        count = next((path for path, names in COUNTED.items() if group in names), None)
        most = views if count is None else _most(domain, count, change)
        if int(number) >= most:
            known = f"{group}/0 to {group}/{most - 1} at most" if most else f"no {group}"
            raise UsageError(f"there is no '{name}': scenes have {known}.")


def _most(domain: Domain, path: str, change: Change) -> int:
    """Returns the most that a count can be."""
    if path in change.settings:
        return int(change.settings[path])
    distribution = factor_at(domain, path)
    place = f"domain.{path.replace('/', '.')}"
    return max(map(int, extremes_of(domain, distribution, place))) if distribution else 0


def draw_beside(
    domain: Domain,
    distribution: Distribution,
    path: str,
    seed: int,
    index: int,
    *,
    attempt: int = 0,
    change: Change = NO_CHANGE,
) -> Value:
    """Returns a draw of a distribution that is no factor but may refer to factors.

    Args:
        domain: the distributions of the factors.
        distribution: what is drawn.
        path: name of its stream.
        seed: seed of the data set.
        index: scene index.
        attempt: counts redraws of the whole scene.
        change: as ``draw`` has it.
    """
    return _drawing(domain, seed, index, attempt, change).drawn(path, distribution)


@dataclass
class _Drawing:
    """Draws the factors of one scene when they are asked for, each once.

    Attributes:
        original: the scene without its change; None without one.
    """

    domain: Domain
    seed: int
    index: int
    attempt: int
    change: Change
    original: _Drawing | None
    values: dict[str, Value] = field(default_factory=dict)

    def value(self, path: str) -> Value:
        """Returns the value of a factor, whether the scene has that many of its group or not."""
        if path not in self.values:
            self.values[path] = self._value(path)
        return self.values[path]

    def drawn(self, path: str, distribution: Distribution) -> Value:
        """Returns a draw of a distribution from the stream of a path."""
        redraws = self.change.times(path)
        rng = stream(self.seed, path, scene_index=self.index, attempt=self.attempt + redraws)
        return distribution.draw(
            Chance(rng, self.seed, path, self.index, self.attempt, redraws, self.value)
        )

    def _value(self, path: str) -> Value:
        setting = self.change.setting(path)
        if setting is not None:
            return setting
        if self.original is not None and not self.change.times(path):
            return self.original.value(path)
        return self.drawn(path, factor_at(self.domain, path))


def _drawing(domain: Domain, seed: int, index: int, attempt: int, change: Change) -> _Drawing:
    original = _Drawing(domain, seed, index, attempt, NO_CHANGE, None) if change else None
    return _Drawing(domain, seed, index, attempt, change, original)
