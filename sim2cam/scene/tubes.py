"""Round things that bend: cables, hands. They are rigid."""

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
    """A round bar with round ends.

    Attributes:
        points_m: that its middle goes through, in straight lines.
        radii_m: at each of them.
    """

    points_m: tuple[Vec3, ...]
    radii_m: tuple[float, ...]

    def __post_init__(self) -> None:
        if not (2 <= len(self.points_m) <= _MAX_POINTS and len(self.radii_m) == len(self.points_m)):
            raise SpecError(
                f"a strand has {len(self.points_m)} points and {len(self.radii_m)} radii. It takes as "
                f"many of both, 2 to {_MAX_POINTS}."
            )
        if not all(0 < radius < math.inf for radius in self.radii_m):
            raise SpecError(
                f"a strand has a radius of {min(self.radii_m)} m. It takes radii above 0."
            )
        steps = itertools.starmap(math.dist, itertools.pairwise(self.points_m))
        if not all(_MIN_STEP_M <= step < math.inf for step in steps):
            raise SpecError("two neighbouring points of a strand are the same, or none at all.")


@dataclass(frozen=True)
class Tubes:
    """Strands that make one body: a cable, or the arm, the palm and the fingers of a hand."""

    strands: tuple[Strand, ...]
    kind: Literal["tubes"] = "tubes"

    def __post_init__(self) -> None:
        if not 1 <= len(self.strands) <= _MAX_STRANDS:
            raise SpecError(f"{len(self.strands)} strands. It takes 1 to {_MAX_STRANDS}.")
