"""Convex hulls, convex parts and inertia of meshes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.assets.decomposition import decompose
from sim2cam.assets.mesh_cache import MeshContent
from sim2cam.geometry.inertia import (
    compute_point_pseudo_inertia,
    compute_solid_pseudo_inertia,
    is_plausible_inertia,
    transform_pseudo_inertia,
)
from sim2cam.geometry.sphere_points import make_fibonacci_directions
from sim2cam.scene.articulation import JointStates

Floats = NDArray[np.float64]

_COLLIDER_DIRECTIONS = 512
_SOLID = 0.9  # meshes that fill more of their hull collide as the hull
_FLAT = 1e-9  # relative to the cube of the hull's size; less is rounding error


@dataclass(frozen=True, eq=False)
class Hull:
    """Approximate convex hull of a mesh.

    Attributes:
        points: Extreme vertices (n, 3) of the mesh in many directions.
        volume: Volume; 0 if flat.
    """

    points: Floats
    volume: float


def compute_hull(vertices: Floats) -> Hull:
    """Return the hull of the extreme vertices (n, 3) in 512 directions."""
    directions = make_fibonacci_directions(
        1 - (2 * np.arange(_COLLIDER_DIRECTIONS) + 1) / _COLLIDER_DIRECTIONS
    )
    points = vertices[np.unique([(vertices @ direction).argmax() for direction in directions])]
    solid = _hull_solid(points)
    return Hull(points, 0.0 if solid is None else float(solid.volume))


def decompose_content(content: MeshContent) -> MeshContent:
    """Add convex parts to a content if it is too concave to collide as its hull."""
    if content.parts:
        return content
    vertices = content.mesh.vertices_m
    hull = compute_hull(vertices)
    if hull.volume == 0 or (content.is_closed and content.compute_volume() > _SOLID * hull.volume):
        return content
    welded, index = np.unique(vertices, axis=0, return_inverse=True)
    faces = index.ravel()[content.mesh.faces]
    unique_rows = np.unique(np.sort(faces, axis=1), axis=0, return_index=True)[1]
    parts = decompose(welded, faces[np.sort(unique_rows)], hull.points)
    return replace(content, parts=parts, links=(1,) * len(parts))


def compute_inertia(content: MeshContent, states: JointStates) -> Floats:
    """Return the pseudo-inertia matrix (4, 4) of a content at joint states, in the asset frame.

    The links' inertias are used if the file gives them. Otherwise density is uniform: within a watertight
    mesh, else within the collision parts, where overlaps count twice.
    """
    if len(content.inertias):
        assert content.articulation is not None
        matrices = content.articulation.compute_link_matrices(states)
        return np.asarray(transform_pseudo_inertia(content.inertias, matrices).sum(axis=0))
    vertices = content.mesh.vertices_m
    uniform = uniform_inertia(content.pose_parts(states) or (compute_hull(vertices).points,))
    if content.is_closed and content.articulation is None:
        solid_inertia = compute_solid_pseudo_inertia(vertices[content.mesh.faces])
        # fails for self-intersecting or inverted faces
        if is_plausible_inertia(solid_inertia, vertices, uniform):
            return solid_inertia
    return uniform


def uniform_inertia(solids: Sequence[Floats]) -> Floats:
    """Return the pseudo-inertia matrix (4, 4) of convex parts (n, 3) at density 1.

    Flat parts are ignored; if all are flat, the vertices carry a total mass of 1.
    """
    triangles = np.vstack([_hull_vertices(points) for points in solids])
    return (
        compute_solid_pseudo_inertia(triangles)
        if len(triangles)
        else compute_point_pseudo_inertia(np.vstack(solids))
    )


def _hull_vertices(points: Floats) -> Floats:
    """Return the hull triangles (n, 3, 3) of points; empty if flat."""
    solid = _hull_solid(points)
    return np.zeros((0, 3, 3)) if solid is None else np.array(solid.triangles)


def _hull_solid(points: Floats) -> Any:
    """Return the hull of points as a trimesh mesh; None if flat."""
    from scipy.spatial import ConvexHull, QhullError
    from trimesh.convex import convex_hull

    try:
        ConvexHull(points)  # trimesh joggles flat points until they have a volume
    except (QhullError, ValueError):
        return None
    solid = convex_hull(points)
    return solid if solid.volume > _FLAT * np.ptp(points, axis=0).max() ** 3 else None
