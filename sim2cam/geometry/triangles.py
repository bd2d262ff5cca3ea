"""Projection and rasterization of triangles."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_NEAR_PLANE_M = 1e-3  # nearer geometry is clipped


def project_triangles(points_m: Floats, faces: NDArray[np.int64], camera_matrix: Floats) -> Floats:
    """Project the triangles of a mesh through a pinhole, without occlusion.

    Args:
        points_m: (m, 3) vertices in the camera frame.
        faces: (k, 3) vertex indices.
        camera_matrix: (3, 3) camera matrix.

    Returns:
        (n, 3, 2) triangle vertices in pixels, clipped at the near plane.
    """
    if points_m[:, 2].min() < _NEAR_PLANE_M:
        from trimesh.intersections import slice_faces_plane

        points_m, faces, *_ = slice_faces_plane(points_m, faces, (0, 0, 1), (0, 0, _NEAR_PLANE_M))
    pixels = points_m @ camera_matrix.T
    return np.asarray((pixels[:, :2] / pixels[:, 2:])[faces])


def rasterize_triangles(corners_px: Floats, window: tuple[int, int, int, int]) -> NDArray[np.bool_]:
    """Return the mask (y1 - y0, x1 - x0) of pixels in a window whose centres are inside a triangle.

    Args:
        corners_px: (n, 3, 2) triangle vertices; the centre of pixel i is at i.
        window: x0, y0, x1, y1; the last two are exclusive.
    """
    x0, y0, x1, y1 = window
    corners = corners_px - (x0, y0)
    width, height = x1 - x0, y1 - y0
    # Each triangle covers one span per row.
    first = np.ceil(corners[..., 1].min(axis=1)).clip(0, height).astype(int)
    end = np.floor(corners[..., 1].max(axis=1) + 1).clip(first, height).astype(int)
    triangle_index = np.repeat(np.arange(len(corners)), end - first)
    row = np.arange(len(triangle_index)) + np.repeat(
        first - np.cumsum(end - first) + end - first, end - first
    )
    crossings = _intersect_rows(corners[triangle_index], row)
    left = np.ceil(crossings.min(axis=1, initial=np.inf, where=~np.isnan(crossings)))
    right = np.floor(crossings.max(axis=1, initial=-np.inf, where=~np.isnan(crossings)) + 1)
    left = left.clip(0, width).astype(int)
    right = right.clip(left, width).astype(int)
    # A pixel is covered where more spans have started than ended.
    size, row_offset = height * (width + 1), row * (width + 1)
    steps = np.bincount(row_offset + left, minlength=size) - np.bincount(
        row_offset + right, minlength=size
    )
    return np.asarray(np.cumsum(steps.reshape(height, width + 1), axis=1)[:, :width] > 0)


def _intersect_rows(corners: Floats, row: NDArray[np.int64]) -> Floats:
    """Return x (n, 3) where the sides of triangles (n, 3, 2) intersect a row each; NaN without intersection."""
    ends = np.roll(corners, -1, axis=1)
    rise = ends[..., 1] - corners[..., 1]
    with np.errstate(
        divide="ignore", invalid="ignore"
    ):  # horizontal sides, whose neighbours intersect
        fraction = (row[:, None] - corners[..., 1]) / rise
        x = corners[..., 0] + fraction * (ends[..., 0] - corners[..., 0])
    return np.asarray(np.where((fraction >= 0) & (fraction <= 1), x, np.nan))
