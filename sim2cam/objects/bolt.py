"""Bolts with a hexagonal head, along z, centred on their centre of mass."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from sim2cam.geometry.poses import Pose, Vec3
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
    build_hexagon_underside,
    build_hexagonal_prism,
    build_ring,
    build_thread,
    build_tube,
    check_thread,
    compute_hexagon_area_m2,
    compute_thread_area_m2,
    join_groups,
    rotate_by_sixths,
)


@dataclass(frozen=True)
class BoltFactors(TumblingFactors, ContactFactors):
    """One bolt; see ``Bolt``.

    Attributes:
        category: Label, one of the recipe's categories.
        diameter_m: Thread diameter.
        length, pitch, head, head_height: Over the diameter.
        threaded: Fraction of its length with thread.
    """

    category: CategoryName
    diameter_m: Annotated[float, Between(0.001, 0.1)]
    length: Annotated[float, Between(0.5, 10)]
    pitch: Annotated[float, Between(0.08, 0.5)]
    head: Annotated[float, Between(1.2, 4)]
    head_height: Annotated[float, Between(0.1, 3)]
    threaded: Annotated[float, Between(0.01, 1)]


@dataclass(frozen=True)
class Bolt(ObjectKind):
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

    factors_type: ClassVar[type[Any]] = BoltFactors
    symmetries: ClassVar[symmetry.Symmetries] = symmetry.HEXAGON
    shape_symmetries: ClassVar[symmetry.Symmetries] = symmetry.HEXAGON
    rolling_friction_m: ClassVar[float] = 5e-4
    is_compound: ClassVar[bool] = True

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
        check_thread(
            self.kind, self.diameter_m, self.pitch_m, self.head_m, self.length_m, self.threaded
        )

    @classmethod
    def from_instance(cls, instance: ObjectInstance[BoltFactors]) -> Bolt:
        """Return the bolt."""
        factors, diameter = instance.factors, instance.factors.diameter_m
        return cls(
            diameter,
            diameter * factors.length,
            diameter * factors.pitch,
            factors.threaded,
            diameter * factors.head,
            diameter * factors.head_height,
            factors.category,
        )

    @property
    def size_m(self) -> Vec3:
        """Sides of the bounding box."""
        return self.head_m, 2 * self.head_m / math.sqrt(3), self.length_m + self.head_height_m

    @property
    def center_m(self) -> Vec3:
        """Centre of the bounding box."""
        return 0.0, 0.0, (self.tip_z_m + self.head_top_z_m) / 2

    @property
    def bounding_radius_m(self) -> float:
        """Radius of the bounding sphere."""
        return math.hypot(*self.size_m[1:]) / 2

    @property
    def bounds_m(self) -> tuple[Vec3, Vec3]:
        """Opposite corners of the bounding box."""
        x, y = self.size_m[0] / 2, self.size_m[1] / 2
        return (-x, -y, self.tip_z_m), (x, y, self.head_top_z_m)

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

    def get_keypoints(self) -> dict[str, Vec3]:
        """Return the centres of both ends."""
        return {"head": (0.0, 0.0, self.head_top_z_m), "tip": (0.0, 0.0, self.tip_z_m)}

    def build_collider(self) -> tuple[ConvexPart, ...]:
        """Return the shank, and the hexagonal head as three crossed boxes."""
        side = self.head_m / math.sqrt(3)
        shank_z, head_z = (
            (self.tip_z_m + self.head_bottom_z_m) / 2,
            (self.head_bottom_z_m + self.head_top_z_m) / 2,
        )
        shank_size = (self.diameter_m, self.diameter_m, self.length_m)
        head_size = (self.head_m, side, self.head_height_m)
        heads = (
            ConvexPart("box", head_size, Pose(rotate_by_sixths(sixths), (0.0, 0.0, head_z)))
            for sixths in range(3)
        )
        return (ConvexPart("cylinder", shank_size, Pose(position_m=(0.0, 0.0, shank_z))), *heads)

    def build_mesh(self) -> Mesh:
        """Return the mesh; its parts are head, thread and unthreaded shank."""
        radius, bearing_z_m = self.diameter_m / 2, self.head_bottom_z_m
        thread_end_z_m = self.tip_z_m + self.threaded * self.length_m
        root_m = radius - THREAD_DEPTH * self.pitch_m
        head = [
            *build_hexagonal_prism(
                self.head_m, bearing_z_m, self.head_top_z_m, are_chamfered=(False, True)
            ),
            build_ring(0.0, FLAT_RADIUS_RATIO * self.head_m / 2, self.head_top_z_m, faces_up=True),
            build_hexagon_underside(self.head_m, radius, bearing_z_m),
        ]
        thread = [
            build_ring(0.0, root_m, self.tip_z_m, faces_up=False),
            build_thread(radius, root_m, self.pitch_m, (self.tip_z_m, thread_end_z_m)),
        ]
        shank = [
            build_ring(root_m, radius, thread_end_z_m, faces_up=False),
            build_tube(radius, (thread_end_z_m, bearing_z_m)),
        ]
        return join_groups(head, thread, shank)

    def _compute_pieces(self) -> tuple[tuple[float, float], ...]:
        """Return volume, and centre height over the head's lower side, of head, bare shank and thread."""
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
