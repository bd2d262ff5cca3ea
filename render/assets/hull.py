"""Hulls of meshes, and which meshes need more than theirs to collide as they look."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sim2cam.geometry.spiral import spiral
from sim2cam.render.assets.content import MeshContent
from sim2cam.render.assets.decomposition import decompose

Floats = NDArray[np.float64]

_COLLIDER_DIRECTIONS = 512
_SOLID = 0.9  # of its hull; what fills more of it collides as the hull


@dataclass(frozen=True, eq=False)
class Hull:
    """A convex solid around a mesh.

    Attributes:
        points: (n, 3) corners, those of the mesh that lie farthest in many directions.
        center: (3,) of its mass.
        volume: 0 of a flat one.
    """

    points: Floats
    center: Floats
    volume: float


def hull_of(vertices: Floats) -> Hull:
    """Returns the hull of the extreme points of vertices (n, 3) in ``_COLLIDER_DIRECTIONS``."""
    from scipy.spatial import QhullError
    from trimesh.convex import convex_hull

    directions = spiral(1 - (2 * np.arange(_COLLIDER_DIRECTIONS) + 1) / _COLLIDER_DIRECTIONS)
    points = vertices[np.unique([(vertices @ way).argmax() for way in directions])]
    try:
        solid = convex_hull(points)
        return Hull(points, np.array(solid.center_mass), float(solid.volume))
    except QhullError:  # flat, so there is no solid
        return Hull(points, (points.min(axis=0) + points.max(axis=0)) / 2, 0.0)


def taken_apart(content: MeshContent) -> MeshContent:
    """Returns a content with the parts as which it collides, if it is concave enough to need them."""
    if content.parts:
        return content
    vertices = content.mesh.vertices_m
    hull = hull_of(vertices)
    if hull.volume == 0 or (content.is_closed and content.volume() > _SOLID * hull.volume):
        return content
    places, place = np.unique(vertices, axis=0, return_inverse=True)
    faces = place.ravel()[content.mesh.faces]
    once = np.unique(np.sort(faces, axis=1), axis=0, return_index=True)[1]
    parts = decompose(places, faces[np.sort(once)], hull.points)
    return replace(content, parts=parts, links=(1,) * len(parts))
