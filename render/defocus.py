"""Defocus: each point leaves a disk as large as a thin lens makes it at its depth.

The picture is cut by depth into layers of about equal disks, which are blurred and laid over one
another from the farthest to the nearest. What a nearer layer hides of one behind it, and its own
blur then shows, no single picture has: it is continued from what is seen beside it. Layers are cut
by the labels' depth, which has no half-covered pixels and no motion blur.
"""

from __future__ import annotations

import math

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.scene.glass import Defocus

Floats = NDArray[np.float32]

MOST_RADIUS_PX = 64.0
"""Disks are not made larger."""

_STEP_PX = 0.5  # between the radii of layers, up to:
_FINE_PX = 4.0
_GROWTH = 1.12  # of one layer's radius over the last, beyond that
_SAMPLES = 8  # of a pixel on the rim of a disk, both ways
_LEAST = 1e-3  # weight from which a colour is known


def radius_px(depth_m: NDArray[np.float32], defocus: Defocus, focal_px: float) -> Floats:
    """Returns the radius of each pixel's disk, above 0 behind what is sharp and below before it.

    Args:
        depth_m: 0 where nothing is, which is taken for infinitely far.
        defocus: aperture and focus.
        focal_px: focal length of the projection.
    """
    nearness = np.divide(1, depth_m, out=np.zeros_like(depth_m), where=depth_m > 0)
    radius = defocus.aperture_m * focal_px * (1 / defocus.focus_m - nearness) / 2
    return np.asarray(np.clip(radius, -MOST_RADIUS_PX, MOST_RADIUS_PX), dtype=np.float32)


def defocused(light: Floats, radius: Floats) -> Floats:
    """Returns the light (h, w, 3) with every point spread over its disk (h, w), in pixels."""
    numbers = _layer(radius)
    found = np.unique(numbers)
    if found.tolist() == [0]:
        return light
    behind = np.zeros((*radius.shape, 4), np.float32)  # colour times weight, weight
    reach = 0
    for number in found[::-1]:
        size = _layer_radius(int(number))
        reach = max(reach, math.ceil(size))
        _lay_over(behind, light, numbers == number, size, reach)
    return np.asarray(behind[..., :3] / np.maximum(behind[..., 3:], _LEAST))


def disk(radius: float) -> Floats:
    """Returns what a point becomes: a square (n, n), n odd, of shares that add up to 1."""
    half = max(0, math.ceil(radius - 0.5))
    points = (np.arange((2 * half + 1) * _SAMPLES) + 0.5) / _SAMPLES - half - 0.5
    inside = points[:, None] ** 2 + points**2 <= radius**2
    shares = inside.reshape(2 * half + 1, _SAMPLES, 2 * half + 1, _SAMPLES).sum(axis=(1, 3))
    return np.asarray(shares / shares.sum(), dtype=np.float32)


def _layer(radius: Floats) -> NDArray[np.int16]:
    """Returns the numbers of the layers of pixels, higher farther away, 0 in focus."""
    size = np.abs(radius)
    fine = np.round(size / _STEP_PX)
    coarse = np.round(np.log(np.maximum(size, _FINE_PX) / _FINE_PX) / math.log(_GROWTH))
    number = np.where(size <= _FINE_PX, fine, _FINE_PX / _STEP_PX + coarse)
    return np.copysign(number, radius).astype(np.int16)


def _layer_radius(number: int) -> float:
    coarse = abs(number) - _FINE_PX / _STEP_PX
    return abs(number) * _STEP_PX if coarse <= 0 else _FINE_PX * _GROWTH**coarse


def _lay_over(
    behind: Floats, light: Floats, member: NDArray[np.bool_], size: float, reach: int
) -> None:
    """Lays one layer over those behind it, in place.

    Args:
        behind: (h, w, 4) colour times weight, and weight.
        light: (h, w, 3) of the whole picture.
        member: (h, w) whether a pixel is of this layer.
        size: radius of its disks, pixels.
        reach: how far layers behind are continued.
    """
    part = _around(member, 2 * reach + 1)
    sheet = np.dstack([light[part], np.ones_like(light[part][..., :1])]) * member[part][..., None]
    if size >= _STEP_PX:
        blurred = cv2.filter2D(sheet, -1, disk(size), borderType=cv2.BORDER_REPLICATE)
        sheet = np.asarray(blurred, dtype=np.float32)
    under = behind[part]
    under += (1 - under[..., 3:]) * _continued(under, reach)
    behind[part] = under * (1 - sheet[..., 3:]) + sheet


def _around(member: NDArray[np.bool_], margin: int) -> tuple[slice, slice]:
    """Returns the rows and columns that hold a layer, with a margin."""
    sides = (np.flatnonzero(member.any(axis=axis)) for axis in (1, 0))
    rows, columns = (slice(max(0, n[0] - margin), n[-1] + 1 + margin) for n in sides)
    return rows, columns


def _continued(sheet: Floats, reach: int) -> Floats:
    """Returns (h, w, 4) the mean colour around each pixel, with weight 1 where there is any."""
    width = 2 * reach + 1
    mean = cv2.blur(sheet, (width, width), borderType=cv2.BORDER_REPLICATE)
    weight = mean[..., 3:]
    return np.where(weight > _LEAST, mean / np.maximum(weight, _LEAST), np.float32(0))
