"""Bolts and nuts along z, centred on their centre of mass."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from sim2cam.errors import SpecError
from sim2cam.geometry.poses import Vec3
from sim2cam.scene.bounds import check_sizes

THREAD_DEPTH = 0.6134
"""Depth of an external thread over its pitch (ISO 68-1: 17/24 of the triangle's height)."""

_MAX_THREAD_TURNS = 80


@dataclass(frozen=True)
class Bolt:
    """A bolt with a hexagonal head at +z.

    Attributes:
        diameter_m: Major diameter of the thread.
        length_m: Length from the underside of the head to the tip.
        pitch_m: Thread pitch.
        threaded: Fraction of the length with thread, from the tip.
        head_m: Head width across flats.
        head_height_m: Head height.
        category: Category of the label.
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
        """Volume of head and shank."""
        return sum(volume for volume, _ in self._compute_pieces())

    @property
    def tip_z_m(self) -> float:
        """Height of the tip."""
        return self.head_bottom_z_m - self.length_m

    @property
    def head_top_z_m(self) -> float:
        """Height of the head's upper side."""
        return self.head_bottom_z_m + self.head_height_m

    @property
    def head_bottom_z_m(self) -> float:
        """Height of the head's lower side."""
        return -sum(volume * height for volume, height in self._compute_pieces()) / self.volume_m3

    @property
    def keypoints(self) -> tuple[tuple[str, Vec3], ...]:
        """Centres of both ends."""
        return ("head", (0.0, 0.0, self.head_top_z_m)), ("tip", (0.0, 0.0, self.tip_z_m))

    def _compute_pieces(self) -> tuple[tuple[float, float], ...]:
        """Return volume and centre height above the head's lower side of head, bare shank and thread."""
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
        diameter_m: Diameter of the fitting bolt.
        pitch_m: Thread pitch.
        across_m: Width across flats.
        height_m: Height.
        category: Category of the label.
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
        """Volume of the hexagon without its hole."""
        hole = compute_thread_area_m2(self.diameter_m, self.pitch_m)
        return (compute_hexagon_area_m2(self.across_m) - hole) * self.height_m


def compute_hexagon_area_m2(across_m: float) -> float:
    """Return the area of a hexagon by its width across flats."""
    return math.sqrt(3) / 2 * across_m**2


def compute_thread_area_m2(diameter_m: float, pitch_m: float) -> float:
    """Return the mean cross-section of a thread with straight flanks."""
    radius, depth = diameter_m / 2, THREAD_DEPTH * pitch_m
    return math.pi * (radius**2 - radius * depth + depth**2 / 3)


def _check_thread(fastener: Bolt | Nut, length_m: float, threaded: float) -> None:
    across = fastener.head_m if isinstance(fastener, Bolt) else fastener.across_m
    if not 1.2 * fastener.diameter_m <= across <= 4 * fastener.diameter_m:
        raise SpecError(
            f"a {fastener.kind} for a thread of {fastener.diameter_m} m is {across} m across flats. "
            "Allowed: 1.2 to 4 times the thread diameter."
        )
    if not (threaded <= 1 and threaded * length_m <= _MAX_THREAD_TURNS * fastener.pitch_m):
        raise SpecError(
            f"a thread with a pitch of {fastener.pitch_m} m covers {threaded} of {length_m} m. Allowed: "
            f"up to 1, and {_MAX_THREAD_TURNS} turns."
        )
    if not fastener.pitch_m <= fastener.diameter_m / 2:
        raise SpecError(
            f"a thread of {fastener.diameter_m} m has a pitch of {fastener.pitch_m} m. Allowed: up to "
            "half of the diameter."
        )
