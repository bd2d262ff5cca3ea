"""Visible surface discrepancy (VSD) of object poses (Hodan et al. 2018 and 2020)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

VSD_TAUS = np.arange(0.05, 0.51, 0.05)
"""Tolerances of the surface distance, over the object's diameter."""

_VISIBILITY_TOLERANCE_M = 0.015  # maximum distance behind the measured surface, as in BOP
_NEAR_PLANE_M = 1e-3
_MIN_AREA_PX = 1e-9  # twice the area of a triangle; smaller ones are edge-on
_MAX_CELLS = 4_000_000  # pixels of triangle windows in memory at once


def compute_vsd(
    scene_depth_m: Floats,
    true_depth_m: Floats,
    estimated_depth_m: Floats,
    camera_matrix: Floats,
    diameter_m: float,
) -> Floats:
    """Return the visible surface discrepancy for each of ``VSD_TAUS``, 0 to 1 (Hodan et al. 2018, 2020).

    The fraction of pixels in which the object is visible in only one of both poses, or at a
    distance of tau or more. Where depth is unknown, the object counts as visible.

    Args:
        scene_depth_m: depth of the scene (h, w), metres; 0 if unknown.
        true_depth_m, estimated_depth_m: depth of the object in the true and the estimated pose; 0
            outside it.
    """
    ray_lengths = _compute_ray_lengths(scene_depth_m.shape, camera_matrix)
    scene_distance, true_distance, estimated_distance = (
        depth_m * ray_lengths for depth_m in (scene_depth_m, true_depth_m, estimated_depth_m)
    )
    true_visible = _compute_visible_mask(scene_distance, true_distance)
    estimated_visible = _compute_visible_mask(scene_distance, estimated_distance) | (
        true_visible & (estimated_distance > 0)
    )
    n_union = int((true_visible | estimated_visible).sum())
    intersection = true_visible & estimated_visible
    if not n_union:
        return np.ones(len(VSD_TAUS))
    errors = np.abs(true_distance[intersection] - estimated_distance[intersection]) / diameter_m
    n_wrong = (errors[None] >= VSD_TAUS[:, None]).sum(axis=1)
    return np.asarray((n_wrong + n_union - intersection.sum()) / n_union, np.float64)


def rasterize_depth(
    triangles: Floats, pose: Floats, camera_matrix: Floats, width: int, height: int
) -> Floats:
    """Return the depth (height, width) of a mesh at pixel centres, metres; 0 outside it.

    Triangles that reach behind the camera are left out.

    Args:
        triangles: corners (n, 3, 3) in the object's frame, metres.
        pose: pose (4, 4) of the object in the camera's frame.
    """
    corners = triangles @ pose[:3, :3].T + pose[:3, 3]
    corners = corners[(corners[..., 2] > _NEAR_PLANE_M).all(axis=1)]
    projected = corners @ camera_matrix.T
    xy, corner_inverse_depth = projected[..., :2] / projected[..., 2:], 1 / corners[..., 2]
    low = np.maximum(np.ceil(xy.min(axis=1)), 0).astype(np.int64)
    high = np.minimum(np.floor(xy.max(axis=1)), [width - 1, height - 1]).astype(np.int64)
    sides = (high - low + 1).max(axis=1)
    inverse_depth = np.zeros(height * width)
    # triangles of similar size together, so that square windows hold few empty pixels
    levels = np.ceil(np.log2(np.maximum(sides, 1))).astype(np.int64)
    area = _cross(xy[:, 1] - xy[:, 0], xy[:, 2] - xy[:, 0])
    is_visible = (high >= low).all(axis=1) & (np.abs(area) > _MIN_AREA_PX)
    for level in np.unique(levels[is_visible]):
        members = np.flatnonzero(is_visible & (levels == level))
        for chunk in np.array_split(members, 1 + len(members) * 4**level // _MAX_CELLS):
            pixels, values = _rasterize_triangles(
                xy[chunk], corner_inverse_depth[chunk], low[chunk], high[chunk], 2**level, width
            )
            np.maximum.at(inverse_depth, pixels, values)
    return np.divide(
        1, inverse_depth, out=np.zeros_like(inverse_depth), where=inverse_depth > 0
    ).reshape(height, width)


def _rasterize_triangles(
    xy: Floats,
    inverse_depth: Floats,
    low: NDArray[np.int64],
    high: NDArray[np.int64],
    side: int,
    width: int,
) -> tuple[NDArray[np.int64], Floats]:
    """Return the flat indices of covered pixels and the inverse depth there."""
    offsets = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2)
    pixels = low[:, None] + offsets  # (n, side * side, 2)
    a, b, c = xy[:, None, 0], xy[:, None, 1], xy[:, None, 2]
    area = _cross(b - a, c - a)
    weights = np.stack([_cross(b - pixels, c - pixels), _cross(c - pixels, a - pixels)], axis=-1)
    first, second = np.moveaxis(weights / area[..., None], -1, 0)
    third = 1 - first - second
    is_inside = (first >= 0) & (second >= 0) & (third >= 0)
    is_inside &= (pixels <= high[:, None]).all(axis=-1)
    values = (
        first * inverse_depth[:, None, 0]
        + second * inverse_depth[:, None, 1]
        + third * inverse_depth[:, None, 2]
    )
    return (pixels[..., 1] * width + pixels[..., 0])[is_inside], values[is_inside]


def _cross(a: Floats, b: Floats) -> Floats:
    return np.asarray(a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0])


def _compute_ray_lengths(shape: tuple[int, ...], camera_matrix: Floats) -> Floats:
    """Return the distance from the camera at depth 1 (h, w)."""
    y, x = np.mgrid[: shape[0], : shape[1]]
    ray_x = (x - camera_matrix[0, 2]) / camera_matrix[0, 0]
    ray_y = (y - camera_matrix[1, 2]) / camera_matrix[1, 1]
    return np.asarray(np.sqrt(ray_x**2 + ray_y**2 + 1))


def _compute_visible_mask(scene_distance: Floats, surface_distance: Floats) -> Mask:
    """Return where a surface is visible, from the distances (h, w) of scene and surface."""
    return np.asarray(
        (surface_distance > 0)
        & ((scene_distance == 0) | (surface_distance - scene_distance <= _VISIBILITY_TOLERANCE_M))
    )
