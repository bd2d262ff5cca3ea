"""Centres of mass, principal axes and moments of inertia of bodies.

Bullet's own moments are exact for single boxes, cylinders and balls about their centres. For other
shapes it uses the bounding box along the axes of the body frame.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import numpy as np

from sim2cam.assets.mesh import build_collider
from sim2cam.geometry.inertia import compute_principal_axes, compute_solid_pseudo_inertia
from sim2cam.geometry.poses import Pose, Vec3, vec3
from sim2cam.objects.solid import Solid
from sim2cam.render.meshes.mesh import build_mesh
from sim2cam.scene.scene import Body
from sim2cam.scene.shape import MeshFile, Shape


@dataclass(frozen=True)
class InertialFrame:
    """Inertial frame of a body.

    Attributes:
        frame: frame at the centre of mass along the principal axes, in the body frame.
        specific_moments_m2: moments of inertia about these axes, divided by the mass; None if
            Bullet's own moments are exact.
    """

    frame: Pose
    specific_moments_m2: Vec3 | None


def compute_inertial_frame(body: Body) -> InertialFrame:
    """Return the inertial frame of a body.

    ``mass_offset_m`` moves the centre of mass; the moments about it do not change.
    """
    offset = np.array(body.mass_offset_m)
    has_own_moments = isinstance(body.asset, Solid) and not body.asset.is_compound
    if body.is_fixed or (has_own_moments and not offset.any()):
        return InertialFrame(Pose(), None)
    uniform = _compute_uniform_frame(body.asset)
    position_m = vec3(uniform.frame.position_m + offset)
    return replace(uniform, frame=replace(uniform.frame, position_m=position_m))


@functools.lru_cache(maxsize=256)
def _compute_uniform_frame(asset: Shape) -> InertialFrame:
    """Return the inertial frame of an asset of uniform density, or that of its file."""
    if isinstance(asset, MeshFile):
        return InertialFrame(*compute_principal_axes(build_collider(asset).inertia))
    assert isinstance(asset, Solid)
    moments = asset.compute_specific_moments_m2()
    if moments is not None:
        return InertialFrame(Pose(), moments)
    mesh = build_mesh(asset)
    triangles = np.asarray(mesh.vertices_m, np.float64)[mesh.faces]
    return InertialFrame(*compute_principal_axes(compute_solid_pseudo_inertia(triangles)))
