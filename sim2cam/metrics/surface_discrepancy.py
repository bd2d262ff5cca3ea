"""The visible surface discrepancy: where the surface of an object, as far as it is seen, is elsewhere."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

VSD_TAUS = np.arange(0.05, 0.51, 0.05)
"""How far off a surface may be, over the object's diameter, to be right."""

_VISIBILITY_TOLERANCE_M = (
    0.015  # how far behind the measured surface one may lie to be seen, as BOP has it
)
_NEAR_PLANE_M = 1e-3
_MAX_CELLS = 4_000_000  # pixels of triangles in memory at once


def compute_vsd(
    scene_depth_m: Floats,
    true_depth_m: Floats,
    estimated_depth_m: Floats,
    camera_matrix: Floats,
    diameter_m: float,
) -> Floats:
    """Return the visible surface discrepancy for each of ``VSD_TAUS``, 0 to 1 (Hodan et al. 2018 and 2020).

    It is the share of pixels on which the object is seen in one of both poses and not in the other, or
    further away than tau. Where the depth camera measured nothing, an object is taken as seen.

    Args:
        scene_depth_m: depth of the scene (h, w), metres; 0 where unknown.
        true_depth_m, estimated_depth_m: depth of the object in the true and in the found pose; 0 beside it.
        camera_matrix: matrix (3, 3) of the pinhole.
        diameter_m: of the object.
    """
    away = _compute_ray_lengths(scene_depth_m.shape, camera_matrix)
    scene, right, there = scene_depth_m * away, true_depth_m * away, estimated_depth_m * away
    seen = _compute_visible_mask(scene, right)
    also = _compute_visible_mask(scene, there) | (seen & (there > 0))
    either, both = int((seen | also).sum()), seen & also
    if not either:
        return np.ones(len(VSD_TAUS))
    apart = np.abs(right[both] - there[both]) / diameter_m
    wrong = (apart[None] >= VSD_TAUS[:, None]).sum(axis=1)
    return np.asarray((wrong + either - both.sum()) / either, np.float64)


def rasterize_depth(
    triangles: Floats, pose: Floats, camera_matrix: Floats, width: int, height: int
) -> Floats:
    """Return the depth (height, width) of a mesh at pixel centres, metres; 0 beside it.

    Triangles that reach behind the camera are left out.

    Args:
        triangles: corners (n, 3, 3) in the object's frame, metres.
        pose: (4, 4) of the object in the camera's frame.
        camera_matrix: matrix (3, 3) of the pinhole.
        width, height: of the picture, pixels.
    """
    corners = triangles @ pose[:3, :3].T + pose[:3, 3]
    corners = corners[(corners[..., 2] > _NEAR_PLANE_M).all(axis=1)]
    seen = corners @ camera_matrix.T
    xy, inverse = seen[..., :2] / seen[..., 2:], 1 / corners[..., 2]
    low = np.maximum(np.ceil(xy.min(axis=1)), 0).astype(np.int64)
    high = np.minimum(np.floor(xy.max(axis=1)), [width - 1, height - 1]).astype(np.int64)
    sides = (high - low + 1).max(axis=1)
    nearest = np.zeros(height * width)  # inverse of the depth
    # triangles of about one size together, so that each has little to look at beside itself
    sizes = np.ceil(np.log2(np.maximum(sides, 1))).astype(np.int64)
    is_inside = (high >= low).all(axis=1)
    for size in np.unique(sizes[is_inside]):
        chosen = np.flatnonzero(is_inside & (sizes == size))
        for part in np.array_split(chosen, 1 + len(chosen) * 4**size // _MAX_CELLS):
            pixels, values = _rasterize_triangles(
                xy[part], inverse[part], low[part], high[part], 2**size, width
            )
            np.maximum.at(nearest, pixels, values)
    return np.divide(1, nearest, out=np.zeros_like(nearest), where=nearest > 0).reshape(
        height, width
    )


def _rasterize_triangles(
    xy: Floats,
    inverse_depth: Floats,
    low: NDArray[np.int64],
    high: NDArray[np.int64],
    side: int,
    width: int,
) -> tuple[NDArray[np.int64], Floats]:
    """Return which pixels triangles cover, and the inverse of their depth there."""
    steps = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2)
    places = low[:, None] + steps  # (n, side * side, 2)
    a, b, c = xy[:, None, 0], xy[:, None, 1], xy[:, None, 2]
    area = _cross(b - a, c - a)
    shares = np.stack([_cross(b - places, c - places), _cross(c - places, a - places)], axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):  # seen from the side, there is nothing
        first, second = np.moveaxis(shares / area[..., None], -1, 0)
        third = 1 - first - second
        inside = (first >= 0) & (second >= 0) & (third >= 0) & (area != 0)
    inside &= (places <= high[:, None]).all(axis=-1)
    value = (
        first * inverse_depth[:, None, 0]
        + second * inverse_depth[:, None, 1]
        + third * inverse_depth[:, None, 2]
    )
    return (places[..., 1] * width + places[..., 0])[inside], value[inside]


def _cross(a: Floats, b: Floats) -> Floats:
    return np.asarray(a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0])


def _compute_ray_lengths(shape: tuple[int, ...], camera_matrix: Floats) -> Floats:
    """Return the distance from the camera of what lies at depth 1 (h, w)."""
    y, x = np.mgrid[: shape[0], : shape[1]]
    across, down = (
        (x - camera_matrix[0, 2]) / camera_matrix[0, 0],
        (y - camera_matrix[1, 2]) / camera_matrix[1, 1],
    )
    return np.asarray(np.sqrt(across**2 + down**2 + 1))


def _compute_visible_mask(scene_distance: Floats, surface_distance: Floats) -> Mask:
    """Return where a surface is seen, of distances (h, w) of the scene and of the surface."""
    return np.asarray(
        (surface_distance > 0)
        & ((scene_distance == 0) | (surface_distance - scene_distance <= _VISIBILITY_TOLERANCE_M))
    )
