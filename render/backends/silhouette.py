"""Amodal silhouettes of meshes."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.geometry.poses import Pose
from sim2cam.render.gbuffer import PinholeView
from sim2cam.surfaces.mesh import Mesh

PixelWindow = tuple[slice, slice]

_NEAR_M = 0.02
_MAX_SUBDIVISION = 16  # cv2 dilates polygons by half a cell
_MAX_GRID_SIDE = 4096
_FRACTION_BITS = 4


def rasterize_silhouette(
    mesh: Mesh, pose: Pose, view: PinholeView
) -> tuple[PixelWindow, NDArray[np.bool_]]:
    """Rasterize the amodal silhouette of a mesh.

    Args:
        mesh: closed mesh.
        pose: pose of the mesh in the camera frame.
        view: view to render; its pose is ignored.

    Returns:
        Window of the view, and the mask of the mesh at the pixel centres of the window.
    """
    points = pose.apply(mesh.vertices_m)
    corners = points[mesh.faces][(points[mesh.faces, 2] > _NEAR_M).all(axis=1)]  # (m, 3, 3)
    pixels = corners[..., :2] / corners[..., 2:] * view.focal_px + [view.cx_px, view.cy_px]
    a, b, c = pixels.swapaxes(0, 1)
    is_front = (b - a)[:, 0] * (c - a)[:, 1] < (b - a)[:, 1] * (c - a)[:, 0]
    return _fill_triangles(pixels[is_front], view)


def _fill_triangles(
    triangles: NDArray[np.float64], view: PinholeView
) -> tuple[PixelWindow, NDArray[np.bool_]]:
    """Return a window and the mask of its pixel centres inside triangles (n, 3, 2)."""
    limit = (view.width, view.height)
    ends = triangles.reshape(-1, 2) if len(triangles) else np.zeros((1, 2))
    left, top = np.clip(np.floor(ends.min(axis=0)) - 1, 0, limit).astype(int)
    right, bottom = np.clip(np.ceil(ends.max(axis=0)) + 2, 0, limit).astype(int)
    window = (slice(top, bottom), slice(left, right))
    cells = _choose_subdivision(max(right - left, bottom - top))
    grid = np.zeros(((bottom - top) * cells, (right - left) * cells), np.uint8)
    if grid.size:
        vertices = (triangles - [left, top] + 0.5) * cells * 2**_FRACTION_BITS
        for corners in np.rint(vertices).astype(np.int32):
            cv2.fillConvexPoly(grid, corners, 1, shift=_FRACTION_BITS)
    return window, grid[cells // 2 :: cells, cells // 2 :: cells] > 0


def _choose_subdivision(side_px: int) -> int:
    """Return the number of cells per pixel side, a power of two, smaller for large windows."""
    cells = _MAX_SUBDIVISION
    while cells > 2 and cells * side_px > _MAX_GRID_SIDE:
        cells //= 2
    return cells
