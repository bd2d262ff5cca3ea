"""Triangulation of polygons from files."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_OTHER_STARTS = 9
_SLACK = 1e-9  # of a polygon's squared area, by which rounding may turn one of its triangles


def triangulated(places: Floats, counts: Indices) -> tuple[Indices, Indices]:
    """Split polygons into triangles that cover them, also where they are concave.

    Convex polygons become fans about their first corner, as all readers have them.

    Args:
        places: (n, 3) positions of the corners, polygon after polygon.
        counts: (m,) corners of each polygon, at least three.

    Returns:
        Triangles (k, 3) of rows of ``places``, and the polygon (k,) of each, in order.
    """
    first = np.cumsum(counts) - counts
    triangles, owners = [np.zeros((0, 3), np.int64)], [np.zeros(0, np.int64)]
    for count in np.unique(counts):
        polygons = np.flatnonzero(counts == count)
        corners = first[polygons, None] + np.arange(count)
        fans = _fans(corners)
        if count > 3:
            _unfold(places, corners, fans)
        triangles.append(fans.reshape(-1, 3))
        owners.append(np.repeat(polygons, count - 2))
    owner = np.concatenate(owners)
    order = np.argsort(owner, kind="stable")
    return np.concatenate(triangles)[order], owner[order]


def _unfold(places: Floats, corners: Indices, fans: Indices) -> None:
    """Put other triangles of polygons (n, count) in place of fans (n, count - 2, 3) that fold over."""
    rows = np.flatnonzero(_are_folded(places, fans))
    for start in range(
        1, min(corners.shape[1], _OTHER_STARTS)
    ):  # many at once, so before one by one
        turned = _fans(np.roll(corners[rows], -start, axis=1))
        is_whole = ~_are_folded(places, turned)
        fans[rows[is_whole]] = turned[is_whole]
        rows = rows[~is_whole]
    for row in rows:
        cut = _cut(places[corners[row]])
        if cut is not None:
            fans[row] = corners[row][cut]


def _fans(corners: Indices) -> Indices:
    """Return the triangles (n, count - 2, 3) about the first of corners (n, count)."""
    middle = np.broadcast_to(corners[:, :1], (len(corners), corners.shape[1] - 2))
    return np.stack([middle, corners[:, 1:-1], corners[:, 2:]], axis=2)


def _are_folded(places: Floats, fans: Indices) -> NDArray[np.bool_]:
    """Return which fans (n, count, 3) hold triangles that face against their polygon."""
    a, b, c = np.moveaxis(places[fans], 2, 0)
    with np.errstate(all="ignore"):  # files may hold any numbers
        across = np.cross(b - a, c - a)
        normal = across.sum(axis=1, keepdims=True)
        along = (across * normal).sum(axis=2)
        return np.asarray((along < -_SLACK * (normal**2).sum(axis=2)).any(axis=1))


def _cut(places: Floats) -> Indices | None:
    """Return the triangles (count - 2, 3) of one polygon by ear clipping; None if it crosses itself."""
    import mapbox_earcut

    with np.errstate(all="ignore"):
        moved = places - places[0]
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
