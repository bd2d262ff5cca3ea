"""Drawing: from a domain, a seed and an index to every value that chance decides."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field

from sim2cam.errors import UsageError
from sim2cam.randomize.chance import Chance, Value
from sim2cam.randomize.change import NO_CHANGE, Change
from sim2cam.randomize.distributions import Distribution
from sim2cam.randomize.domain import ONCE, Domain, factor_at, factors_of
from sim2cam.randomize.references import check_path
from sim2cam.scene.picture_facts import PictureFacts
from sim2cam.seeds import stream

PER_DIE = ("die", "die_color", "die_surface")
PER_OBJECT = ("object", "object_surface")
PER_FIXTURE = ("fixture", "fixture_surface")
PER_BLOCK = ("block", "block_surface")
PER_BOARD = ("board", "board_surface")
PER_CARD = ("card", "card_surface")
PER_TWISTY = ("twisty", "twisty_color", "twisty_surface")
PER_TIN = ("tin", "tin_label", "tin_surface")
PER_CARTON = ("carton", "carton_label", "carton_surface")
PER_BOLT = ("bolt", "bolt_surface")
PER_NUT = ("nut", "nut_surface")
PER_CABLE = ("cable", "cable_surface")
PER_PAPER = ("paper", "paper_label", "paper_surface")
PER_HAND = ("hand", "hand_surface")
PER_DISTRACTOR = ("distractor", "distractor_surface")
PER_DECAL = ("decal",)
PER_VIEW = (
    "view", "lens", "fisheye", "exposure", "sensor", "shutter", "motion", "stereo", "depth_camera",
    "mosaic", "processing", "automatics",
    "defocus", "lateral_color", "field_blur", "glare", "dirt", "droplets",
)  # fmt: skip


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
    repeats = (
        (PER_DIE, values.get("layout/die_count", 0)),
        (PER_OBJECT, values.get("layout/object_count", 0)),
        (PER_FIXTURE, values.get("layout/fixture_count", 0)),
        (PER_BLOCK, values.get("layout/block_count", 0)),
        (PER_BOARD, values.get("layout/board_count", 0)),
        (PER_CARD, values.get("layout/card_count", 0)),
        (PER_TWISTY, values.get("layout/twisty_count", 0)),
        (PER_TIN, values.get("layout/tin_count", 0)),
        (PER_CARTON, values.get("layout/carton_count", 0)),
        (PER_BOLT, values.get("layout/bolt_count", 0)),
        (PER_NUT, values.get("layout/nut_count", 0)),
        (PER_CABLE, values.get("layout/cable_count", 0)),
        (PER_PAPER, values.get("layout/paper_count", 0)),
        (PER_HAND, values.get("layout/hand_count", 0)),
        (PER_DISTRACTOR, values["layout/distractor_count"]),
        (PER_DECAL, values.get("layout/decal_count", 0)),
        (("lamp",), values["light/lamp_count"]),
        (("near_light",), values.get("light/near_count", 0)),
        (PER_VIEW, views),
    )
    for names, count in repeats:
        for name in names:
            for i in range(int(count)):
                draw_group(name, f"/{i}")
    return Draw(values, views)


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
