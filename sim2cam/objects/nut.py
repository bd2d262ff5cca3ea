"""Hexagonal nuts, along z."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from sim2cam.geometry.poses import Pose, Vec3, vec3
from sim2cam.objects.kind import (
    ContactFactors,
    ObjectInstance,
    ObjectKind,
    TumblingFactors,
)
from sim2cam.objects.solid import ConvexPart
from sim2cam.scene import symmetry
from sim2cam.scene.parameters import Between, CategoryName, check_sizes
from sim2cam.surfaces.mesh import Mesh
from sim2cam.surfaces.threads import (
    FLAT_RADIUS_RATIO,
    THREAD_DEPTH,
    build_hexagonal_prism,
    build_ring,
    build_thread,
    check_thread,
    compute_hexagon_area_m2,
    compute_thread_area_m2,
    join_groups,
    rotate_by_sixths,
)


@dataclass(frozen=True)
class NutFactors(TumblingFactors, ContactFactors):
    """One nut; see ``Nut``.

    Attributes:
        category: Label, one of the recipe's categories.
        diameter_m: Thread diameter.
        pitch, across, height: Over the diameter.
    """

    category: CategoryName
    diameter_m: Annotated[float, Between(0.001, 0.1)]
    pitch: Annotated[float, Between(0.08, 0.5)]
    across: Annotated[float, Between(1.2, 4)]
    height: Annotated[float, Between(0.2, 5)]


@dataclass(frozen=True)
class Nut(ObjectKind):
    """A hexagonal nut.

    Attributes:
        diameter_m: Diameter of the fitting bolt.
        pitch_m: Thread pitch.
        across_m: Width across flats.
        height_m: Height.
        category: Category of the label.
    """

    factors_type: ClassVar[type[Any]] = NutFactors
    symmetries: ClassVar[symmetry.Symmetries] = symmetry.HEXAGONAL_PRISM
    shape_symmetries: ClassVar[symmetry.Symmetries] = symmetry.HEXAGONAL_PRISM
    is_compound: ClassVar[bool] = True

    diameter_m: float
    pitch_m: float
    across_m: float
    height_m: float
    category: str
    kind: Literal["nut"] = "nut"

    def __post_init__(self) -> None:
        check_sizes(self, "diameter_m", "pitch_m", "across_m", "height_m")
        check_thread(self.kind, self.diameter_m, self.pitch_m, self.across_m, self.height_m)

    @classmethod
    def from_instance(cls, instance: ObjectInstance[NutFactors]) -> Nut:
        """Return the nut."""
        factors, diameter = instance.factors, instance.factors.diameter_m
        return cls(
            diameter,
            diameter * factors.pitch,
            diameter * factors.across,
            diameter * factors.height,
            factors.category,
        )

    @property
    def size_m(self) -> Vec3:
        """Sides of the bounding box."""
        return self.across_m, 2 * self.across_m / math.sqrt(3), self.height_m

    @property
    def bounding_radius_m(self) -> float:
        """Radius of the bounding sphere."""
        return math.hypot(*self.size_m[1:]) / 2

    @property
    def volume_m3(self) -> float:
        """Volume of the hexagon without its hole."""
        hole = compute_thread_area_m2(self.diameter_m, self.pitch_m)
        return (compute_hexagon_area_m2(self.across_m) - hole) * self.height_m

    def build_collider(self) -> tuple[ConvexPart, ...]:
        """Return the six sides as boxes around the hole."""
        hole_radius_m = self.diameter_m / 2
        thickness_m = self.across_m / 2 - hole_radius_m
        size = (thickness_m, self.across_m / math.sqrt(3), self.height_m)
        center = np.array([[hole_radius_m + thickness_m / 2, 0, 0]])
        rotations = [rotate_by_sixths(sixths) for sixths in range(6)]
        return tuple(
            ConvexPart("box", size, Pose(rotation, vec3(Pose(rotation).apply(center)[0])))
            for rotation in rotations
        )

    def build_mesh(self) -> Mesh:
        """Return the mesh; its parts are the outside and the thread."""
        top_m, depth = self.height_m / 2, THREAD_DEPTH * self.pitch_m
        outside = [
            *build_hexagonal_prism(self.across_m, -top_m, top_m, are_chamfered=(True, True)),
            *(
                build_ring(
                    self.diameter_m / 2, FLAT_RADIUS_RATIO * self.across_m / 2, z, faces_up=z > 0
                )
                for z in (-top_m, top_m)
            ),
        ]
        inside = build_thread(
            self.diameter_m / 2 - depth, self.diameter_m / 2, self.pitch_m, (-top_m, top_m)
        )
        return join_groups(outside, [inside])
