"""Defocus: each point leaves a disk as large as a thin lens makes it at its depth.

The picture is cut by depth into layers of about equal disks. Each is blurred by its own, and from
the nearest to the farthest they fill what the ones before leave uncovered of each pixel. So parts of
one surface join without a seam, and nothing blurred shines into what is sharp before it. What a
nearer body hides, and its blurred edge then shows, no single picture has: it is continued from the
farthest that is seen beside it. Layers are cut by the labels' depth, which has no half-covered
pixels and no motion blur.
"""

from __future__ import annotations

import math

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.scene.lens_effects import Defocus

Floats = NDArray[np.float32]

MOST_RADIUS_PX = 64.0
"""Disks are not made larger."""

_STEP_PX = 0.5  # between the radii of layers, up to:
_FINE_PX = 4.0
_GROWTH = 1.12  # of one layer's radius over the last, beyond that
_SAMPLES = 8  # of a pixel on the rim of a disk, both ways
_LEAST = 1e-6
_PREFERENCE = 0.7  # log of the weight by which a layer is continued rather than one before it


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
    layers = _layers(radius)
    found = np.unique(layers).tolist()
    if found == [0]:
        return light
    largest = max(_radius_of(number) for number in found)
    picture, covered = np.zeros_like(light), np.zeros((*radius.shape, 1), np.float32)
    for number in found:
        _fill(picture, covered, light, layers == number, _radius_of(number))
    return np.asarray(picture + (1 - covered) * _continued(light, layers, largest))


def disk(radius: float) -> Floats:
    """Returns what a point becomes: a square (n, n), n odd, of shares that add up to 1."""
    half = max(0, math.ceil(radius - 0.5))
    points = (np.arange((2 * half + 1) * _SAMPLES) + 0.5) / _SAMPLES - half - 0.5
    inside = points[:, None] ** 2 + points**2 <= radius**2
    shares = inside.reshape(2 * half + 1, _SAMPLES, 2 * half + 1, _SAMPLES).sum(axis=(1, 3))
    return np.asarray(shares / shares.sum(), dtype=np.float32)


def _layers(radius: Floats) -> NDArray[np.int16]:
    """Returns the numbers (h, w) of the layers of pixels, higher farther away, 0 in focus."""
    size = np.abs(radius)
    fine = np.round(size / _STEP_PX)
    coarse = np.round(np.log(np.maximum(size, _FINE_PX) / _FINE_PX) / math.log(_GROWTH))
    number = np.where(size <= _FINE_PX, fine, _FINE_PX / _STEP_PX + coarse)
    return np.copysign(number, radius).astype(np.int16)


def _radius_of(number: int) -> float:
    """Returns the radius of a layer's disks, pixels."""
    coarse = abs(number) - _FINE_PX / _STEP_PX
    return abs(number) * _STEP_PX if coarse <= 0 else _FINE_PX * _GROWTH**coarse


def _fill(
    picture: Floats, covered: Floats, light: Floats, member: NDArray[np.bool_], radius: float
) -> None:
    """Adds one layer to what is not covered yet, in place.

    Args:
        picture: (h, w, 3) light so far.
        covered: (h, w, 1) share of each pixel that it fills.
        light: (h, w, 3) of the sharp picture.
        member: (h, w) whether a pixel is of the layer.
        radius: of its disks, pixels.
    """
    part = _around(member, math.ceil(radius))
    sheet = np.dstack([light[part], np.ones_like(covered[part])]) * member[part][..., None]
    if radius >= _STEP_PX:
        spread = cv2.filter2D(sheet, -1, disk(radius), borderType=cv2.BORDER_REPLICATE)
        sheet = np.maximum(np.asarray(spread, dtype=np.float32), 0)  # large ones take an FFT
    share = sheet[..., 3:]
    taken = np.minimum(share, 1 - covered[part])
    picture[part] += sheet[..., :3] * (taken / np.maximum(share, _LEAST))
    covered[part] += taken


def _around(member: NDArray[np.bool_], margin: int) -> tuple[slice, slice]:
    """Returns the rows and columns that hold a layer, with a margin."""
    sides = (np.flatnonzero(member.any(axis=axis)) for axis in (1, 0))
    rows, columns = (slice(max(0, n[0] - margin), n[-1] + 1 + margin) for n in sides)
    return rows, columns


def _continued(light: Floats, layers: NDArray[np.int16], reach: float) -> Floats:
    """Returns the mean light (h, w, 3) around each pixel, of the farthest most by far."""
    weight = np.exp(np.float32(_PREFERENCE) * (layers - layers.max()))[..., None]
    weighted = np.dstack([light * weight, weight])
    mean = np.asarray(cv2.GaussianBlur(weighted, (0, 0), max(reach, 1.0)), dtype=np.float32)
    return np.asarray(mean[..., :3] / np.maximum(mean[..., 3:], np.finfo(np.float32).tiny))
