"""Lens hood: the dark, uneven edge of a camera's own mount and housing around its field of view."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sim2cam.geometry.poses import Vec3, vec3
from sim2cam.objects.solid import ConvexPart, Solid
from sim2cam.scene.parameters import check_sizes
from sim2cam.seeds import derive_rng
from sim2cam.surfaces.mesh import Mesh, make_grid_faces, make_single_part

_RADIUS_M = 0.06
_SEGMENTS = 256
_DEPTH_RAD = 1.2
_MAX_ANGLE_RAD = 3.1
_NO_FACES = np.zeros((0, 3), np.int64)


@dataclass(frozen=True)
class LensHood(Solid):
    """A piece of a sphere around the centre of projection, in the camera frame (x right, y down, z forward).

    It begins at an angle off its axis. Lumps, mostly above and below, reach further in. It neither collides nor
    casts shadows.

    Attributes:
        edge_rad: Angle of its edge off its axis.
        tilt_rad: Rotations of its axis about x and y.
        lumps: Number of lumps.
        lump_rad: Largest height of a lump.
        seed: Seed of the lumps.
    """

    is_closed: ClassVar[bool] = False
    is_compound: ClassVar[bool] = True

    edge_rad: float
    tilt_rad: tuple[float, float]
    lumps: int
    lump_rad: float
    seed: int
    kind: Literal["lens_hood"] = "lens_hood"

    def __post_init__(self) -> None:
        check_sizes(self, "edge_rad")

    @property
    def size_m(self) -> Vec3:
        """Sides of the bounding box."""
        return vec3(np.full(3, 2 * _RADIUS_M))

    def build_collider(self) -> tuple[ConvexPart, ...]:
        """Return nothing."""
        return ()

    def compute_edge_rad(self) -> NDArray[np.float64]:
        """Return the angle (n + 1,) of the edge off the axis at angles from x to y."""
        angles = np.linspace(0, 2 * math.pi, _SEGMENTS + 1)
        rng = derive_rng(self.seed, "lumps")
        height = np.zeros(len(angles))
        for _ in range(self.lumps):
            center = rng.choice([1, 1, 1, -1]) * math.pi / 2 + rng.normal(0, 0.6)
            offset = (angles - center + math.pi) % (2 * math.pi) - math.pi
            profile = np.clip(1 - (offset / rng.uniform(0.05, 0.3)) ** 2, 0, None)
            height = np.maximum(height, rng.uniform(0.3, 1) * self.lump_rad * np.sqrt(profile))
        return np.asarray(self.edge_rad - height)

    def build_mesh(self) -> Mesh:
        """Return the mesh, one part."""
        angles = np.linspace(0, 2 * math.pi, _SEGMENTS + 1)
        edge = self.compute_edge_rad()
        outer = np.minimum(self.edge_rad + _DEPTH_RAD, _MAX_ANGLE_RAD)
        rings = [edge + share * (outer - edge) for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
        off_axis, around = np.concatenate(rings), np.tile(angles, len(rings))
        directions = np.stack(
            [
                np.sin(off_axis) * np.cos(around),
                np.sin(off_axis) * np.sin(around),
                np.cos(off_axis),
            ],
            axis=1,
        )
        directions += np.cos(off_axis)[:, None] * [self.tilt_rad[1], -self.tilt_rad[0], 0.0]
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        tangents = np.stack([-np.sin(around), np.cos(around), 0 * around], axis=1)
        faces = make_grid_faces(len(rings), len(angles))
        n = len(directions)
        mesh = Mesh(
            _RADIUS_M * directions,
            -directions,
            tangents,
            directions[:, :2],
            faces,
            make_single_part(n),
        )
        return replace(mesh, shadow_faces=_NO_FACES)
