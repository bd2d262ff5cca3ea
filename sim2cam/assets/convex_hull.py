"""Hulls of meshes, and which meshes need more than theirs to collide as they look."""

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
_SOLID = 0.9  # of its hull; what fills more of it collides as the hull
_FLAT = 1e-9  # of the cube of a hull's size; below is no volume, but rounding


@dataclass(frozen=True, eq=False)
class Hull:
    """A convex solid around a mesh.

    Attributes:
        points: (n, 3) corners, those of the mesh that lie farthest in many directions.
        volume: 0 of a flat one.
    """

    points: Floats
    volume: float


def compute_hull(vertices: Floats) -> Hull:
    """Return the hull of the extreme points of vertices (n, 3) in ``_COLLIDER_DIRECTIONS``."""
    directions = make_fibonacci_directions(
        1 - (2 * np.arange(_COLLIDER_DIRECTIONS) + 1) / _COLLIDER_DIRECTIONS
    )
    points = vertices[np.unique([(vertices @ way).argmax() for way in directions])]
    solid = _hull_solid(points)
    return Hull(points, 0.0 if solid is None else float(solid.volume))


def decompose_content(content: MeshContent) -> MeshContent:
    """Return a content with the parts as which it collides, if it is concave enough to need them."""
    if content.parts:
        return content
    vertices = content.mesh.vertices_m
    hull = compute_hull(vertices)
    if hull.volume == 0 or (content.is_closed and content.compute_volume() > _SOLID * hull.volume):
        return content
    places, place = np.unique(vertices, axis=0, return_inverse=True)
    faces = place.ravel()[content.mesh.faces]
    once = np.unique(np.sort(faces, axis=1), axis=0, return_index=True)[1]
    parts = decompose(places, faces[np.sort(once)], hull.points)
    return replace(content, parts=parts, links=(1,) * len(parts))


def compute_inertia(content: MeshContent, states: JointStates) -> Floats:
    """Return how the mass of a content is spread (4, 4), in its own frame, its joints at these states.

    It is what a model's file says of its links; otherwise that of one stuff, within a mesh that is the
    skin of a solid, or else within all that it collides as, which counts twice where two convex solids
    overlap.
    """
    if len(content.inertias):
        assert content.articulation is not None
        matrices = content.articulation.compute_link_matrices(states)
        return np.asarray(transform_pseudo_inertia(content.inertias, matrices).sum(axis=0))
    vertices = content.mesh.vertices_m
    even = uniform_inertia(content.pose_parts(states) or (compute_hull(vertices).points,))
    if content.is_closed and content.articulation is None:
        within = compute_solid_pseudo_inertia(vertices[content.mesh.faces])
        if is_plausible_inertia(
            within, vertices, even
        ):  # not so where faces cross, or some look inwards
            return within
    return even


def uniform_inertia(solids: Sequence[Floats]) -> Floats:
    """Return the spread (4, 4) of stuff of density 1 in convex solids, by their corners (n, 3).

    Flat ones have no part in it; where all are, it is a mass of 1 at their corners.
    """
    triangles = np.vstack([_hull_vertices(points) for points in solids])
    return (
        compute_solid_pseudo_inertia(triangles)
        if len(triangles)
        else compute_point_pseudo_inertia(np.vstack(solids))
    )


def _hull_vertices(points: Floats) -> Floats:
    """Return the triangles (n, 3, 3) around points; none around flat ones."""
    solid = _hull_solid(points)
    return np.zeros((0, 3, 3)) if solid is None else np.array(solid.triangles)


def _hull_solid(points: Floats) -> Any:
    """Return the convex solid of points as a mesh of trimesh's; None of flat ones."""
    from scipy.spatial import ConvexHull, QhullError
    from trimesh.convex import convex_hull

    try:
        ConvexHull(points)  # trimesh joggles flat points until they have a volume
    except (QhullError, ValueError):
        return None
    solid = convex_hull(points)
    return solid if solid.volume > _FLAT * np.ptp(points, axis=0).max() ** 3 else None
