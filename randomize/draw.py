"""Drawing: from a domain, a seed and an index to every value that chance decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from sim2cam.errors import UsageError, did_you_mean
from sim2cam.randomize.distributions import Value
from sim2cam.randomize.domain import Domain, factors_of
from sim2cam.seeds import stream

PER_DIE = ("die", "die_color", "die_surface")
PER_DISTRACTOR = ("distractor", "distractor_surface")
PER_VIEW = (
    "view", "lens", "fisheye", "exposure", "sensor", "shutter", "motion", "stereo", "depth_camera",
    "mosaic", "processing", "automatics",
    "defocus", "lateral_color", "field_blur", "glare", "dirt", "droplets",
)  # fmt: skip
ONCE = ("layout", "table", "mat", "wall", "light")


@dataclass(frozen=True)
class Draw:
    """What was drawn for one scene.

    Attributes:
        values: value of each factor by its path, as ``die/3/edge_m``.
        views: number of cameras.
    """

    values: Mapping[str, Value]
    views: int

    def number(self, path: str) -> float:
        """Returns a drawn number."""
        return float(self.values[path])

    def count(self, path: str) -> int:
        """Returns a drawn whole number."""
        return int(self.values[path])

    def text(self, path: str) -> str:
        """Returns a drawn word."""
        return str(self.values[path])

    def has(self, group: str) -> bool:
        """Returns whether the domain has a group, of which one instance is named: ``motion/0``."""
        return any(path.startswith(f"{group}/") for path in self.values)

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
    redraws: Mapping[str, int] | None = None,
) -> Draw:
    """Returns everything chance decides for scene ``index``.

    Args:
        domain: the distributions.
        seed: seed of the data set.
        index: scene index.
        views: number of cameras.
        attempt: counts redraws of the whole scene.
        redraws: how often a group (``light``, or one instance of it, ``die/3``) was drawn again;
            values outside it stay as they are, bit by bit.

    Raises:
        UsageError: a group that the domain does not have.
    """
    redraws = redraws or {}
    _check_groups(redraws)
    values: dict[str, Value] = {}

    def draw_group(path: str, group: Any) -> None:
        again = sum(n for name, n in redraws.items() if f"{path}/".startswith(f"{name}/"))
        for factor, distribution in factors_of(group):
            name = f"{path}/{factor}"
            rng = stream(seed, name, scene_index=index, attempt=attempt + again)
            values[name] = distribution.draw(rng)

    for name in ONCE:
        draw_group(name, getattr(domain, name))
    repeats = (
        (PER_DIE, values["layout/die_count"]),
        (PER_DISTRACTOR, values["layout/distractor_count"]),
        (("lamp",), values["light/lamp_count"]),
        (("near_light",), values.get("light/near_count", 0)),
        (PER_VIEW, views),
    )
    for names, count in repeats:
        for name in names:
            for i in range(int(count)):
                draw_group(f"{name}/{i}", getattr(domain, name))
    return Draw(values, views)


def _check_groups(redraws: Mapping[str, int]) -> None:
    names = [f.name for f in fields(Domain)]
    for name in redraws:
        if name.split("/")[0] not in names:
            raise UsageError(f"unknown group '{name}'. {did_you_mean(name, names)}")
