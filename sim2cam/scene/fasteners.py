"""Bolts and nuts, along z, around the centre of their mass."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from sim2cam.errors import SpecError
from sim2cam.geometry.poses import Vec3
from sim2cam.scene.bounds import check_sizes

THREAD_DEPTH = 0.6134
"""Of an external thread, over its pitch (ISO 68-1: 17/24 of the height of its triangle)."""

_MAX_THREAD_TURNS = 80


@dataclass(frozen=True)
class Bolt:
    """A bolt with a hexagonal head towards +z.

    Attributes:
        diameter_m: of its thread, outside.
        length_m: from below its head to its tip.
        pitch_m: from one turn of its thread to the next.
        threaded: how much of its length, from the tip on, has a thread.
        head_m: its head from one flat to the opposite one.
        head_height_m: of that.
        category: what it is labelled as.
    """

    diameter_m: float
    length_m: float
    pitch_m: float
    threaded: float
    head_m: float
    head_height_m: float
    category: str
    kind: Literal["bolt"] = "bolt"

    def __post_init__(self) -> None:
        check_sizes(
            self, "diameter_m", "length_m", "pitch_m", "threaded", "head_m", "head_height_m"
        )
        _check_thread(self, self.length_m, self.threaded)

    @property
    def volume_m3(self) -> float:
        """Of head and shank."""
        return sum(volume for volume, _ in self._compute_pieces())

    @property
    def tip_z_m(self) -> float:
        """Height of its tip."""
        return self.head_bottom_z_m - self.length_m

    @property
    def head_top_z_m(self) -> float:
        """Height of its head's upper side."""
        return self.head_bottom_z_m + self.head_height_m

    @property
    def head_bottom_z_m(self) -> float:
        """Height of its head's lower side."""
        return -sum(volume * height for volume, height in self._compute_pieces()) / self.volume_m3

    @property
    def keypoints(self) -> tuple[tuple[str, Vec3], ...]:
        """The middles of both of its ends."""
        return ("head", (0.0, 0.0, self.head_top_z_m)), ("tip", (0.0, 0.0, self.tip_z_m))

    def _compute_pieces(self) -> tuple[tuple[float, float], ...]:
        """Return volume and middle of head, bare shank and thread, over the head's lower side."""
        thread, radius = self.threaded * self.length_m, self.diameter_m / 2
        bare = self.length_m - thread
        return (
            (compute_hexagon_area_m2(self.head_m) * self.head_height_m, self.head_height_m / 2),
            (math.pi * radius**2 * bare, -bare / 2),
            (
                compute_thread_area_m2(self.diameter_m, self.pitch_m) * thread,
                thread / 2 - self.length_m,
            ),
        )


@dataclass(frozen=True)
class Nut:
    """A hexagonal nut.

    Attributes:
        diameter_m: of the bolt that fits.
        pitch_m: of its thread.
        across_m: from one flat to the opposite one.
        height_m: of it.
        category: what it is labelled as.
    """

    diameter_m: float
    pitch_m: float
    across_m: float
    height_m: float
    category: str
    kind: Literal["nut"] = "nut"

    def __post_init__(self) -> None:
        check_sizes(self, "diameter_m", "pitch_m", "across_m", "height_m")
        _check_thread(self, self.height_m, 1.0)

    @property
    def volume_m3(self) -> float:
        """Of the hexagon without its hole."""
        hole = compute_thread_area_m2(self.diameter_m, self.pitch_m)
        return (compute_hexagon_area_m2(self.across_m) - hole) * self.height_m


def compute_hexagon_area_m2(across_m: float) -> float:
    """Return the area of a hexagon from the distance of opposite sides."""
    return math.sqrt(3) / 2 * across_m**2


def compute_thread_area_m2(diameter_m: float, pitch_m: float) -> float:
    """Return the area that a thread whose flanks are straight has in the mean."""
    radius, depth = diameter_m / 2, THREAD_DEPTH * pitch_m
    return math.pi * (radius**2 - radius * depth + depth**2 / 3)


def _check_thread(fastener: Bolt | Nut, length_m: float, threaded: float) -> None:
    across = fastener.head_m if isinstance(fastener, Bolt) else fastener.across_m
    if not 1.2 * fastener.diameter_m <= across <= 4 * fastener.diameter_m:
        raise SpecError(
            f"a {fastener.kind} for a thread of {fastener.diameter_m} m is {across} m across. It takes "
            "1.2 to 4 times the thread."
        )
    if not (threaded <= 1 and threaded * length_m <= _MAX_THREAD_TURNS * fastener.pitch_m):
        raise SpecError(
            f"a thread of {fastener.pitch_m} m takes {threaded} of {length_m} m. It takes up to all of "
            f"it, and {_MAX_THREAD_TURNS} turns."
        )
    if not fastener.pitch_m <= fastener.diameter_m / 2:
        raise SpecError(
            f"a thread of {fastener.diameter_m} m has a pitch of {fastener.pitch_m} m. It takes up to "
            "half of the first."
        )
