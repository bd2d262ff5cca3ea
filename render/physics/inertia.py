"""How the masses of bodies lie in Bullet, which turns every body about the axes of its own frame.

Bullet's moments of inertia are exact for single boxes, cylinders and balls around their centres. For
all else it takes those of the box around a shape, as that happens to be turned in its file.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import numpy as np

from sim2cam.assets.mesh import collider_of
from sim2cam.geometry.inertia import compute_principal_axes, compute_solid_pseudo_inertia
from sim2cam.geometry.poses import Pose, Vec3, vec3
from sim2cam.render.meshes.mesh import build_mesh
from sim2cam.render.physics.colliders import CompoundAsset
from sim2cam.scene.packages import Tin
from sim2cam.scene.scene import Body
from sim2cam.scene.shape import Asset, Cylinder, MeshFile, Sphere


@dataclass(frozen=True)
class InertialFrame:
    """About which point and which axes a body turns by itself.

    Attributes:
        frame: with the centre of its mass for its origin, along its principal axes, in the body's own.
        specific_moments_m2: of inertia about these, over its mass; None of those that Bullet knows.
    """

    frame: Pose
    specific_moments_m2: Vec3 | None


def compute_inertial_frame(body: Body) -> InertialFrame:
    """Return the balance of a body; a mass off the middle is spread around that as it was around it."""
    offset = np.array(body.mass_offset_m)
    if body.is_fixed or not (offset.any() or isinstance(body.asset, CompoundAsset | MeshFile)):
        return InertialFrame(Pose(), None)
    even = _compute_uniform_frame(body.asset)
    place = vec3(even.frame.position_m + offset)
    return replace(even, frame=replace(even.frame, position_m=place))


@functools.lru_cache(maxsize=256)
def _compute_uniform_frame(asset: Asset) -> InertialFrame:
    """Return the balance of an asset of one stuff, or of a file that says how its mass is spread."""
    match asset:
        case MeshFile():
            return InertialFrame(*compute_principal_axes(collider_of(asset).spread))
        case Sphere():
            square = 0.4 * asset.radius_m**2
            return InertialFrame(Pose(), (square, square, square))
        case Cylinder() | Tin():
            across = (3 * asset.radius_m**2 + asset.height_m**2) / 12
            return InertialFrame(Pose(), (across, across, asset.radius_m**2 / 2))
        case _:
            mesh = build_mesh(asset)
            triangles = np.asarray(mesh.vertices_m, np.float64)[mesh.faces]
            return InertialFrame(*compute_principal_axes(compute_solid_pseudo_inertia(triangles)))
