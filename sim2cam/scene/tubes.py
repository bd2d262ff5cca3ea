"""Rigid bent tubes, such as cables and hands."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Literal

from sim2cam.errors import SpecError
from sim2cam.geometry.poses import Vec3

_MAX_STRANDS, _MAX_POINTS = 64, 1024
_MIN_STEP_M = 1e-6


@dataclass(frozen=True)
class Strand:
    """A round bar with round ends along a polyline.

    Attributes:
        points_m: Vertices of the centre line.
        radii_m: Radius at each vertex.
    """

    points_m: tuple[Vec3, ...]
    radii_m: tuple[float, ...]

    def __post_init__(self) -> None:
        if not (2 <= len(self.points_m) <= _MAX_POINTS and len(self.radii_m) == len(self.points_m)):
            raise SpecError(
                f"a strand has {len(self.points_m)} points and {len(self.radii_m)} radii. It needs equal "
                f"numbers of both, 2 to {_MAX_POINTS}."
            )
        if not all(0 < radius < math.inf for radius in self.radii_m):
            raise SpecError(
                f"a strand has a radius of {min(self.radii_m)} m. Radii must be finite and above 0."
            )
        steps = itertools.starmap(math.dist, itertools.pairwise(self.points_m))
        if not all(_MIN_STEP_M <= step < math.inf for step in steps):
            raise SpecError("two successive points of a strand are equal or not finite.")


@dataclass(frozen=True)
class Tubes:
    """Strands that form one body: a cable, or arm, palm and fingers of a hand."""

    strands: tuple[Strand, ...]
    kind: Literal["tubes"] = "tubes"

    def __post_init__(self) -> None:
        if not 1 <= len(self.strands) <= _MAX_STRANDS:
            raise SpecError(
                f"tubes have {len(self.strands)} strands. Allowed: 1 to {_MAX_STRANDS}."
            )
