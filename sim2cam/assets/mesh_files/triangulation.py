"""Triangulation of planar and nearly planar polygons."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_MAX_FAN_STARTS = 9
_TOLERANCE = 1e-9  # of the polygon's area; smaller triangles are degenerate or flipped by rounding


def triangulate(points: Floats, counts: Indices) -> tuple[Indices, Indices]:
    """Triangulate convex and concave polygons.

    Convex polygons become fans around their first corner, as in other readers.

    Args:
        points: Corner positions (n, 3) of all polygons, concatenated.
        counts: Number of corners (m,) of each polygon, at least three.

    Returns:
        Triangles (k, 3) as rows of ``points``, and the polygon index (k,) of each, sorted.
    """
    first = np.cumsum(counts) - counts
    triangles, owners = [np.zeros((0, 3), np.int64)], [np.zeros(0, np.int64)]
    for count in np.unique(counts):
        polygons = np.flatnonzero(counts == count)
        corners = first[polygons, None] + np.arange(count)
        fans = _build_fans(corners)
        if count > 3:
            _improve_fans(points, corners, fans)
        triangles.append(fans.reshape(-1, 3))
        owners.append(np.repeat(polygons, count - 2))
    owner = np.concatenate(owners)
    order = np.argsort(owner, kind="stable")
    return np.concatenate(triangles)[order], owner[order]


def _improve_fans(points: Floats, corners: Indices, fans: Indices) -> None:
    """Replace fans (n, count - 2, 3) of polygons (n, count) by better triangulations, in place.

    All triangles should have an area, as dropped degenerate triangles leave gaps; at least none may be
    flipped against its polygon.
    """
    min_fractions = _compute_min_area_fractions(points, fans)
    for floor in (_TOLERANCE, -_TOLERANCE):
        for start in range(1, min(corners.shape[1], _MAX_FAN_STARTS)):  # all polygons at once
            rows = np.flatnonzero(min_fractions <= floor)
            rotated_fans = _build_fans(np.roll(corners[rows], -start, axis=1))
            fractions = _compute_min_area_fractions(points, rotated_fans)
            is_better = fractions > floor
            fans[rows[is_better]], min_fractions[rows[is_better]] = (
                rotated_fans[is_better],
                fractions[is_better],
            )
    for row in np.flatnonzero(min_fractions <= -_TOLERANCE):
        ears = _clip_ears(points[corners[row]])
        if ears is not None:
            fans[row] = corners[row][ears]


def _build_fans(corners: Indices) -> Indices:
    """Return the fan triangles (n, count - 2, 3) around the first of the corners (n, count)."""
    first = np.broadcast_to(corners[:, :1], (len(corners), corners.shape[1] - 2))
    return np.stack([first, corners[:, 1:-1], corners[:, 2:]], axis=2)


def _compute_min_area_fractions(points: Floats, fans: Indices) -> Floats:
    """Return the smallest triangle area (n,) of each fan (n, count, 3), relative to the polygon.

    It is negative if a triangle is flipped against its polygon.
    """
    a, b, c = np.moveaxis(points[fans], 2, 0)
    with np.errstate(all="ignore"):  # files may hold any numbers
        triangle_normals = np.cross(b - a, c - a)
        polygon_normal = triangle_normals.sum(axis=1, keepdims=True)
        return np.asarray(
            (triangle_normals * polygon_normal).sum(axis=2).min(axis=1)
            / (polygon_normal[:, 0] ** 2).sum(axis=1)
        )


def _clip_ears(points: Floats) -> Indices | None:
    """Triangulate one polygon by ear clipping; return None if it intersects itself."""
    import mapbox_earcut

    with np.errstate(all="ignore"):
        centered = points - points[0]
        normal = np.cross(centered[1:-1], centered[2:]).sum(axis=0)
        x_axis = np.cross(normal, np.eye(3)[np.abs(normal).argmin()])
        flat = centered @ np.stack(
            [x_axis, np.cross(normal, x_axis) / np.linalg.norm(normal)], axis=1
        )
        flat /= np.abs(flat).max()
    if not np.isfinite(flat).all():
        return None
    ends = np.array([len(flat)], np.uint32)
    triangles = mapbox_earcut.triangulate_float64(flat, ends).reshape(-1, 3).astype(np.int64)
    if len(triangles) != len(flat) - 2:
        return None
    (ax, ay), (bx, by), (cx, cy) = flat[triangles].transpose(1, 2, 0)
    is_flipped = (bx - ax) * (cy - ay) < (by - ay) * (cx - ax)
    return np.where(is_flipped[:, None], triangles[:, ::-1], triangles)
