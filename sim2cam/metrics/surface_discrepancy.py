"""The visible surface discrepancy: where the surface of an object, as far as it is seen, is elsewhere."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

TAUS = np.arange(0.05, 0.51, 0.05)
"""How far off a surface may be, over the object's diameter, to be right."""

_DELTA_M = 0.015  # how far behind the measured surface one may lie to be seen, as BOP has it
_NEAR_M = 1e-3
_CELLS = 4_000_000  # pixels of triangles in memory at once


def discrepancies(
    measured: Floats, truth: Floats, found: Floats, camera: Floats, diameter_m: float
) -> Floats:
    """Returns the visible surface discrepancy for each of ``TAUS``, 0 to 1 (Hodan et al. 2018 and 2020).

    It is the share of pixels on which the object is seen in one of both poses and not in the other, or
    further away than tau. Where the depth camera measured nothing, an object is taken as seen.

    Args:
        measured: depth of the scene (h, w), metres; 0 where unknown.
        truth, found: depth of the object in the true and in the found pose; 0 beside it.
        camera: matrix (3, 3) of the pinhole.
        diameter_m: of the object.
    """
    away = _away(measured.shape, camera)
    scene, right, there = measured * away, truth * away, found * away
    seen = _visible(scene, right)
    also = _visible(scene, there) | (seen & (there > 0))
    either, both = int((seen | also).sum()), seen & also
    if not either:
        return np.ones(len(TAUS))
    apart = np.abs(right[both] - there[both]) / diameter_m
    wrong = (apart[None] >= TAUS[:, None]).sum(axis=1)
    return np.asarray((wrong + either - both.sum()) / either, np.float64)


def depth_of(triangles: Floats, pose: Floats, camera: Floats, width: int, height: int) -> Floats:
    """Returns the depth (height, width) of a mesh at pixel centres, metres; 0 beside it.

    Triangles that reach behind the camera are left out.

    Args:
        triangles: corners (n, 3, 3) in the object's frame, metres.
        pose: (4, 4) of the object in the camera's frame.
        camera: matrix (3, 3) of the pinhole.
        width, height: of the picture, pixels.
    """
    corners = triangles @ pose[:3, :3].T + pose[:3, 3]
    corners = corners[(corners[..., 2] > _NEAR_M).all(axis=1)]
    seen = corners @ camera.T
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
        for part in np.array_split(chosen, 1 + len(chosen) * 4**size // _CELLS):
            pixels, values = _covered(
                xy[part], inverse[part], low[part], high[part], 2**size, width
            )
            np.maximum.at(nearest, pixels, values)
    return np.divide(1, nearest, out=np.zeros_like(nearest), where=nearest > 0).reshape(
        height, width
    )


def _covered(
    xy: Floats,
    inverse: Floats,
    low: NDArray[np.int64],
    high: NDArray[np.int64],
    side: int,
    width: int,
) -> tuple[NDArray[np.int64], Floats]:
    """Returns which pixels triangles cover, and the inverse of their depth there."""
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
    value = first * inverse[:, None, 0] + second * inverse[:, None, 1] + third * inverse[:, None, 2]
    return (places[..., 1] * width + places[..., 0])[inside], value[inside]


def _cross(a: Floats, b: Floats) -> Floats:
    return np.asarray(a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0])


def _away(shape: tuple[int, ...], camera: Floats) -> Floats:
    """Returns the distance from the camera of what lies at depth 1 (h, w)."""
    y, x = np.mgrid[: shape[0], : shape[1]]
    across, down = (x - camera[0, 2]) / camera[0, 0], (y - camera[1, 2]) / camera[1, 1]
    return np.asarray(np.sqrt(across**2 + down**2 + 1))


def _visible(scene: Floats, surface: Floats) -> Mask:
    """Returns where a surface is seen, of distances (h, w) of the scene and of the surface."""
    return np.asarray((surface > 0) & ((scene == 0) | (surface - scene <= _DELTA_M)))
