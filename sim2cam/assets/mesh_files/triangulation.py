"""Triangulation of polygons from files."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_MAX_FAN_STARTS = 9
_TOLERANCE = 1e-9  # of a polygon's area; smaller triangles have none, or are turned by rounding


def triangulate(points: Floats, counts: Indices) -> tuple[Indices, Indices]:
    """Split polygons into triangles that cover them, also where they are concave.

    Convex polygons become fans about their first corner, as all readers have them.

    Args:
        points: (n, 3) positions of the corners, polygon after polygon.
        counts: (m,) corners of each polygon, at least three.

    Returns:
        Triangles (k, 3) of rows of ``points``, and the polygon (k,) of each, in order.
    """
    first = np.cumsum(counts) - counts
    triangles, owners = [np.zeros((0, 3), np.int64)], [np.zeros(0, np.int64)]
    for count in np.unique(counts):
        polygons = np.flatnonzero(counts == count)
        corners = first[polygons, None] + np.arange(count)
        fans = _build_fans(corners)
        if count > 3:
            _flatten_fans(points, corners, fans)
        triangles.append(fans.reshape(-1, 3))
        owners.append(np.repeat(polygons, count - 2))
    owner = np.concatenate(owners)
    order = np.argsort(owner, kind="stable")
    return np.concatenate(triangles)[order], owner[order]


def _flatten_fans(points: Floats, corners: Indices, fans: Indices) -> None:
    """Put better triangles of polygons (n, count) in place of fans (n, count - 2, 3).

    Better are those that all have an area, as triangles without one leave gaps when they are dropped;
    at least none may face against its polygon.
    """
    least = _compute_min_area_fractions(points, fans)
    for floor in (_TOLERANCE, -_TOLERANCE):
        for start in range(1, min(corners.shape[1], _MAX_FAN_STARTS)):  # all polygons at once
            rows = np.flatnonzero(least <= floor)
            turned = _build_fans(np.roll(corners[rows], -start, axis=1))
            shares = _compute_min_area_fractions(points, turned)
            is_better = shares > floor
            fans[rows[is_better]], least[rows[is_better]] = turned[is_better], shares[is_better]
    for row in np.flatnonzero(least <= -_TOLERANCE):
        cut = _triangulate_ear(points[corners[row]])
        if cut is not None:
            fans[row] = corners[row][cut]


def _build_fans(corners: Indices) -> Indices:
    """Return the triangles (n, count - 2, 3) about the first of corners (n, count)."""
    middle = np.broadcast_to(corners[:, :1], (len(corners), corners.shape[1] - 2))
    return np.stack([middle, corners[:, 1:-1], corners[:, 2:]], axis=2)


def _compute_min_area_fractions(points: Floats, fans: Indices) -> Floats:
    """Return the least area (n,) of the triangles of each fan (n, count, 3), as a share of its polygon's.

    It is negative where a triangle faces against its polygon.
    """
    a, b, c = np.moveaxis(points[fans], 2, 0)
    with np.errstate(all="ignore"):  # files may hold any numbers
        across = np.cross(b - a, c - a)
        normal = across.sum(axis=1, keepdims=True)
        return np.asarray(
            (across * normal).sum(axis=2).min(axis=1) / (normal[:, 0] ** 2).sum(axis=1)
        )


def _triangulate_ear(points: Floats) -> Indices | None:
    """Return the triangles (count - 2, 3) of one polygon by ear clipping; None if it crosses itself."""
    import mapbox_earcut

    with np.errstate(all="ignore"):
        moved = points - points[0]
        normal = np.cross(moved[1:-1], moved[2:]).sum(axis=0)
        across = np.cross(normal, np.eye(3)[np.abs(normal).argmin()])
        flat = moved @ np.stack([across, np.cross(normal, across) / np.linalg.norm(normal)], axis=1)
        flat /= np.abs(flat).max()
    if not np.isfinite(flat).all():
        return None
    ends = np.array([len(flat)], np.uint32)
    found = mapbox_earcut.triangulate_float64(flat, ends).reshape(-1, 3).astype(np.int64)
    if len(found) != len(flat) - 2:
        return None
    (ax, ay), (bx, by), (cx, cy) = flat[found].transpose(1, 2, 0)
    turned = (bx - ax) * (cy - ay) < (by - ay) * (cx - ax)
    return np.where(turned[:, None], found[:, ::-1], found)
