"""Boxes, cylinders and spheres, and the ground: supports, walls and unlabelled objects."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from sim2cam.geometry.poses import Pose, Vec3
from sim2cam.objects.solid import ConvexPart, Solid
from sim2cam.scene import symmetry
from sim2cam.scene.parameters import check_sizes
from sim2cam.scene.symmetry import Symmetries
from sim2cam.surfaces.lathe import SEGMENTS, build_disc, build_frustum
from sim2cam.surfaces.mesh import Mesh, join_meshes, make_grid_faces, make_patch, make_single_part

GROUND_DEPTH_M = 0.5
"""Thickness of the ground's collider."""
MAX_TARGET_DISTANCE = 1 / 3
"""Largest distance of labelled objects from the centre of the ground, over its side."""

SIDES = ("-x", "+x", "-y", "+y", "-z", "+z")
ENDS = ("-z", "+z")

_SPHERE_RINGS = 20


def make_side_keypoints(size_m: Vec3) -> dict[str, Vec3]:
    """Return the centres of the sides of a box, named by ``SIDES``."""
    points = np.concatenate([[-row, row] for row in np.diag(size_m) / 2])
    return {name: scale_vector(1.0, row) for name, row in zip(SIDES, points, strict=True)}


def make_end_keypoints(height_m: float, names: tuple[str, str] = ENDS) -> dict[str, Vec3]:
    """Return the centres of the lower and the upper end of a shape along z."""
    return {names[0]: (0.0, 0.0, -height_m / 2), names[1]: (0.0, 0.0, height_m / 2)}


def scale_vector(length_m: float, vector: Vec3) -> Vec3:
    """Return a multiple of a vector, without negative zeros."""
    x, y, z = vector
    return length_m * float(x) + 0.0, length_m * float(y) + 0.0, length_m * float(z) + 0.0


def compute_cylinder_moments_m2(radius_m: float, height_m: float) -> Vec3:
    """Return the moments of inertia of a cylinder along z, over its mass."""
    transverse = (3 * radius_m**2 + height_m**2) / 12
    return transverse, transverse, radius_m**2 / 2


@dataclass(frozen=True)
class Cuboid(Solid):
    """An axis-aligned cuboid, centred on the origin."""

    side_count: ClassVar[int] = 1

    size_m: Vec3
    kind: Literal["box"] = "box"

    def __post_init__(self) -> None:
        check_sizes(self, "size_m")

    def build_mesh(self) -> Mesh:
        """Return the mesh; its parts are the sides, in the order of ``SIDES``."""
        parts = []
        for axis in range(3):
            for sign in (-1.0, 1.0):
                normal, tangent = np.eye(3)[axis] * sign, np.eye(3)[(axis + 1) % 3]
                bitangent = np.cross(normal, tangent)
                corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) / 2
                points = normal / 2 + corners[:, :1] * tangent + corners[:, 1:] * bitangent
                points = points * self.size_m
                parts.append(make_patch(points, normal, tangent, bitangent, [[0, 1, 2], [0, 2, 3]]))
        return join_meshes(parts)

    def get_keypoints(self) -> dict[str, Vec3]:
        """Return the centres of the sides."""
        return make_side_keypoints(self.size_m)

    def get_symmetries(self) -> Symmetries:
        """Return the symmetries of a cuboid with different sides."""
        return symmetry.CUBOID

    def get_texture_span_m(self) -> float:
        """Return the longest side."""
        return max(self.size_m)


@dataclass(frozen=True)
class Cylinder(Solid):
    """A cylinder along z, centred on the origin."""

    rolling_friction_m: ClassVar[float] = 5e-4

    radius_m: float
    height_m: float
    kind: Literal["cylinder"] = "cylinder"

    def __post_init__(self) -> None:
        check_sizes(self, "radius_m", "height_m")

    @property
    def size_m(self) -> Vec3:
        """Sides of the bounding box."""
        return 2 * self.radius_m, 2 * self.radius_m, self.height_m

    @property
    def bounding_radius_m(self) -> float:
        """Radius of the bounding sphere."""
        return math.hypot(self.radius_m, self.height_m / 2)

    def build_mesh(self) -> Mesh:
        """Return the mesh; its parts are lower end, upper end and side."""
        radius, half = self.radius_m, self.height_m / 2
        ends = [build_disc(radius, side * half, side) for side in (-1, 1)]
        return join_meshes([*ends, build_frustum((radius, radius), (-half, half))])

    def build_collider(self) -> tuple[ConvexPart, ...]:
        """Return a cylinder."""
        return (ConvexPart("cylinder", self.size_m),)

    def compute_specific_moments_m2(self) -> Vec3:
        """Return the moments of a cylinder."""
        return compute_cylinder_moments_m2(self.radius_m, self.height_m)

    def get_keypoints(self) -> dict[str, Vec3]:
        """Return the centres of the ends."""
        return make_end_keypoints(self.height_m)

    def get_symmetries(self) -> Symmetries:
        """Return the symmetries of a cylinder."""
        return symmetry.CYLINDER

    def get_texture_span_m(self) -> float:
        """Return the longer of diameter and height."""
        return max(2 * self.radius_m, self.height_m)


@dataclass(frozen=True)
class Sphere(Solid):
    """A sphere centred on the origin."""

    rolling_friction_m: ClassVar[float] = 2e-3

    radius_m: float
    kind: Literal["sphere"] = "sphere"

    def __post_init__(self) -> None:
        check_sizes(self, "radius_m")

    @property
    def size_m(self) -> Vec3:
        """Sides of the bounding box."""
        return 2 * self.radius_m, 2 * self.radius_m, 2 * self.radius_m

    @property
    def bounding_radius_m(self) -> float:
        """Radius."""
        return self.radius_m

    def build_mesh(self) -> Mesh:
        """Return the mesh, one part."""
        grid = np.meshgrid(
            np.linspace(0, 2 * math.pi, SEGMENTS + 1), np.linspace(math.pi, 0, _SPHERE_RINGS + 1)
        )
        azimuth, polar = grid[0].ravel(), grid[1].ravel()
        normals = np.stack(
            [np.sin(polar) * np.cos(azimuth), np.sin(polar) * np.sin(azimuth), np.cos(polar)],
            axis=1,
        )
        tangents = np.stack([-np.sin(azimuth), np.cos(azimuth), np.zeros_like(azimuth)], axis=1)
        uvs = np.stack([azimuth, math.pi - polar], axis=1) * self.radius_m
        grid_size = (_SPHERE_RINGS + 1, SEGMENTS + 1)
        points = normals * self.radius_m
        return Mesh(
            points, normals, tangents, uvs, make_grid_faces(*grid_size),
            make_single_part(len(points)), make_grid_faces(*grid_size, step=2),
        )  # fmt: skip

    def build_collider(self) -> tuple[ConvexPart, ...]:
        """Return a sphere."""
        return (ConvexPart("sphere", self.size_m),)

    def compute_specific_moments_m2(self) -> Vec3:
        """Return the moments of a ball."""
        moment = 0.4 * self.radius_m**2
        return moment, moment, moment

    def get_symmetries(self) -> Symmetries:
        """Return the symmetries of a sphere."""
        return symmetry.SPHERE

    def get_texture_span_m(self) -> float:
        """Return the diameter."""
        return 2 * self.radius_m


@dataclass(frozen=True)
class Ground(Solid):
    """A table or a background: the plane z = 0, rendered and simulated as a square with this side."""

    is_closed: ClassVar[bool] = False
    side_count: ClassVar[int] = 1

    side_m: float
    kind: Literal["ground"] = "ground"

    def __post_init__(self) -> None:
        check_sizes(self, "side_m")

    @property
    def size_m(self) -> Vec3:
        """Sides of the collider."""
        return self.side_m, self.side_m, 2 * GROUND_DEPTH_M

    def build_mesh(self) -> Mesh:
        """Return the square."""
        half = self.side_m / 2
        points = np.array([[-half, -half, 0], [half, -half, 0], [half, half, 0], [-half, half, 0]])
        x, y, z = np.eye(3)
        return make_patch(points, z, x, y, [[0, 1, 2], [0, 2, 3]])

    def build_collider(self) -> tuple[ConvexPart, ...]:
        """Return a thick box whose upper side is the square."""
        return (ConvexPart("box", self.size_m, Pose(position_m=(0.0, 0.0, -GROUND_DEPTH_M))),)

    def get_texture_span_m(self) -> float:
        """Return the side."""
        return self.side_m
