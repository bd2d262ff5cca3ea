"""Triangles in pictures: where points of a mesh are seen, and which pixels its triangles cover."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_NEAR_PLANE_M = 1e-3  # what is nearer, or behind the camera, is not seen


def project_triangles(points_m: Floats, faces: NDArray[np.int64], camera_matrix: Floats) -> Floats:
    """Return the corners (n, 3, 2), pixels, of what a pinhole sees of a mesh, whatever hides it.

    Args:
        points_m: (m, 3) in the camera's frame.
        faces: (k, 3) indices of them.
        camera_matrix: (3, 3) of the camera.
    """
    if points_m[:, 2].min() < _NEAR_PLANE_M:
        from trimesh.intersections import slice_faces_plane

        points_m, faces, *_ = slice_faces_plane(points_m, faces, (0, 0, 1), (0, 0, _NEAR_PLANE_M))
    pixels = points_m @ camera_matrix.T
    return np.asarray((pixels[:, :2] / pixels[:, 2:])[faces])


def rasterize_triangles(corners_px: Floats, window: tuple[int, int, int, int]) -> NDArray[np.bool_]:
    """Return which pixels (y1 - y0, x1 - x0) of a window have their middle in one of some triangles.

    Args:
        corners_px: (n, 3, 2); the middle of pixel i is at i.
        window: x0, y0, x1, y1, the last two outside it.
    """
    x0, y0, x1, y1 = window
    corners = corners_px - (x0, y0)
    width, height = x1 - x0, y1 - y0
    # a triangle covers a stretch of each row between its upper and its lower end
    first = np.ceil(corners[..., 1].min(axis=1)).clip(0, height).astype(int)
    end = np.floor(corners[..., 1].max(axis=1) + 1).clip(first, height).astype(int)
    owner = np.repeat(np.arange(len(corners)), end - first)
    row = np.arange(len(owner)) + np.repeat(
        first - np.cumsum(end - first) + end - first, end - first
    )
    crossings = _intersect_rows(corners[owner], row)
    left = np.ceil(crossings.min(axis=1, initial=np.inf, where=~np.isnan(crossings)))
    right = np.floor(crossings.max(axis=1, initial=-np.inf, where=~np.isnan(crossings)) + 1)
    left = left.clip(0, width).astype(int)
    right = right.clip(left, width).astype(int)
    # stretches begin and end; where more have begun than ended, there is one
    size, line = height * (width + 1), row * (width + 1)
    steps = np.bincount(line + left, minlength=size) - np.bincount(line + right, minlength=size)
    return np.asarray(np.cumsum(steps.reshape(height, width + 1), axis=1)[:, :width] > 0)


def _intersect_rows(corners: Floats, row: NDArray[np.int64]) -> Floats:
    """Return where (n, 3) the sides of triangles (n, 3, 2) meet a row each; NaN where they do not."""
    ends = np.roll(corners, -1, axis=1)
    rise = ends[..., 1] - corners[..., 1]
    with np.errstate(divide="ignore", invalid="ignore"):  # of level sides, which the others touch
        share = (row[:, None] - corners[..., 1]) / rise
        x = corners[..., 0] + share * (ends[..., 0] - corners[..., 0])
    return np.asarray(np.where((share >= 0) & (share <= 1), x, np.nan))
