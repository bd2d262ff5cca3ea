"""Balls, labelled as such whatever their pattern."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from sim2cam.geometry.poses import Vec3
from sim2cam.objects.kind import ContactFactors, ObjectInstance, ObjectKind, TumblingFactors
from sim2cam.objects.primitives import Sphere
from sim2cam.objects.solid import ConvexPart
from sim2cam.scene import symmetry
from sim2cam.scene.parameters import Between, check_sizes
from sim2cam.surfaces.mesh import Mesh


@dataclass(frozen=True)
class BallFactors(TumblingFactors, ContactFactors):
    """One ball.

    Attributes:
        diameter_m: Diameter.
        held: Whether it is fixed in its initial pose, as if in flight.
    """

    diameter_m: Annotated[float, Between(0.005, 2)]
    held: bool = False

    @property
    def is_held(self) -> bool:
        """Whether it is held."""
        return self.held


@dataclass(frozen=True)
class Ball(ObjectKind):
    """A ball centred on the origin.

    Attributes:
        radius_m: Radius.
    """

    factors_type: ClassVar[type[Any]] = BallFactors
    symmetries: ClassVar[symmetry.Symmetries] = symmetry.SPHERE
    shape_symmetries: ClassVar[symmetry.Symmetries] = symmetry.SPHERE
    rolling_friction_m: ClassVar[float] = Sphere.rolling_friction_m

    radius_m: float
    kind: Literal["ball"] = "ball"

    def __post_init__(self) -> None:
        check_sizes(self, "radius_m")

    @classmethod
    def from_instance(cls, instance: ObjectInstance[BallFactors]) -> Ball:
        """Return the ball."""
        return cls(instance.factors.diameter_m / 2)

    @property
    def sphere(self) -> Sphere:
        """Unlabelled sphere of the same size."""
        return Sphere(self.radius_m)

    @property
    def size_m(self) -> Vec3:
        """Sides of the bounding box."""
        return self.sphere.size_m

    @property
    def bounding_radius_m(self) -> float:
        """Radius."""
        return self.radius_m

    @property
    def volume_m3(self) -> float:
        """Volume of the sphere."""
        return 4 / 3 * math.pi * self.radius_m**3

    def build_mesh(self) -> Mesh:
        """Return the mesh, one part."""
        return self.sphere.build_mesh()

    def build_collider(self) -> tuple[ConvexPart, ...]:
        """Return a sphere."""
        return self.sphere.build_collider()

    def compute_specific_moments_m2(self) -> Vec3:
        """Return the moments of a solid sphere."""
        return self.sphere.compute_specific_moments_m2()

    def get_texture_span_m(self) -> float:
        """Return the diameter."""
        return self.sphere.get_texture_span_m()
