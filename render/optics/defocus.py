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

MAX_RADIUS_PX = 64.0
"""Disks are not made larger."""

_RADIUS_STEP_PX = 0.5  # between the radii of layers, up to:
_FINE_RADIUS_PX = 4.0
_RADIUS_GROWTH = 1.12  # of one layer's radius over the last, beyond that
_KERNEL_SUPERSAMPLING = 8  # of a pixel on the rim of a disk, both ways
_MIN_COVERAGE = 1e-6
_DEPTH_PREFERENCE = 0.7  # log of the weight by which a layer is continued rather than one before it


def compute_blur_radius(depth_m: NDArray[np.float32], defocus: Defocus, focal_px: float) -> Floats:
    """Return the radius of each pixel's disk, above 0 behind what is sharp and below before it.

    Args:
        depth_m: 0 where nothing is, which is taken for infinitely far.
        defocus: aperture and focus.
        focal_px: focal length of the projection.
    """
    nearness = np.divide(1, depth_m, out=np.zeros_like(depth_m), where=depth_m > 0)
    radius = defocus.aperture_m * focal_px * (1 / defocus.focus_m - nearness) / 2
    return np.asarray(np.clip(radius, -MAX_RADIUS_PX, MAX_RADIUS_PX), dtype=np.float32)


def apply_defocus(light: Floats, radius_px: Floats) -> Floats:
    """Return the light (h, w, 3) with every point spread over its disk (h, w), in pixels."""
    layers = _assign_layers(radius_px)
    found = np.unique(layers).tolist()
    if found == [0]:
        return light
    largest = max(_get_layer_radius(number) for number in found)
    picture, covered = np.zeros_like(light), np.zeros((*radius_px.shape, 1), np.float32)
    for number in found:
        _composite_layer(picture, covered, light, layers == number, _get_layer_radius(number))
    return np.asarray(picture + (1 - covered) * _inpaint_background(light, layers, largest))


def make_disk_kernel(radius_px: float) -> Floats:
    """Return what a point becomes: a square (n, n), n odd, of shares that add up to 1."""
    half = max(0, math.ceil(radius_px - 0.5))
    points = (
        (np.arange((2 * half + 1) * _KERNEL_SUPERSAMPLING) + 0.5) / _KERNEL_SUPERSAMPLING
        - half
        - 0.5
    )
    inside = points[:, None] ** 2 + points**2 <= radius_px**2
    shares = inside.reshape(
        2 * half + 1, _KERNEL_SUPERSAMPLING, 2 * half + 1, _KERNEL_SUPERSAMPLING
    ).sum(axis=(1, 3))
    return np.asarray(shares / shares.sum(), dtype=np.float32)


def _assign_layers(radius_px: Floats) -> NDArray[np.int16]:
    """Return the numbers (h, w) of the layers of pixels, higher farther away, 0 in focus."""
    size = np.abs(radius_px)
    fine = np.round(size / _RADIUS_STEP_PX)
    coarse = np.round(
        np.log(np.maximum(size, _FINE_RADIUS_PX) / _FINE_RADIUS_PX) / math.log(_RADIUS_GROWTH)
    )
    number = np.where(size <= _FINE_RADIUS_PX, fine, _FINE_RADIUS_PX / _RADIUS_STEP_PX + coarse)
    return np.copysign(number, radius_px).astype(np.int16)


def _get_layer_radius(layer: int) -> float:
    """Return the radius of a layer's disks, pixels."""
    coarse = abs(layer) - _FINE_RADIUS_PX / _RADIUS_STEP_PX
    return abs(layer) * _RADIUS_STEP_PX if coarse <= 0 else _FINE_RADIUS_PX * _RADIUS_GROWTH**coarse


def _composite_layer(
    image: Floats, coverage: Floats, light: Floats, layer_mask: NDArray[np.bool_], radius_px: float
) -> None:
    """Add one layer to what is not covered yet, in place.

    Args:
        image: (h, w, 3) light so far.
        coverage: (h, w, 1) share of each pixel that it fills.
        light: (h, w, 3) of the sharp picture.
        layer_mask: (h, w) whether a pixel is of the layer.
        radius_px: of its disks, pixels.
    """
    part = _find_layer_window(layer_mask, math.ceil(radius_px))
    sheet = np.dstack([light[part], np.ones_like(coverage[part])]) * layer_mask[part][..., None]
    if radius_px >= _RADIUS_STEP_PX:
        spread = cv2.filter2D(
            sheet, -1, make_disk_kernel(radius_px), borderType=cv2.BORDER_REPLICATE
        )
        sheet = np.maximum(np.asarray(spread, dtype=np.float32), 0)  # large ones take an FFT
    share = sheet[..., 3:]
    taken = np.minimum(share, 1 - coverage[part])
    image[part] += sheet[..., :3] * (taken / np.maximum(share, _MIN_COVERAGE))
    coverage[part] += taken


def _find_layer_window(layer_mask: NDArray[np.bool_], margin: int) -> tuple[slice, slice]:
    """Return the rows and columns that hold a layer, with a margin."""
    sides = (np.flatnonzero(layer_mask.any(axis=axis)) for axis in (1, 0))
    rows, columns = (slice(max(0, n[0] - margin), n[-1] + 1 + margin) for n in sides)
    return rows, columns


def _inpaint_background(light: Floats, layers: NDArray[np.int16], radius_px: float) -> Floats:
    """Return the mean light (h, w, 3) around each pixel, of the farthest most by far."""
    weight = np.exp(np.float32(_DEPTH_PREFERENCE) * (layers - layers.max()))[..., None]
    weighted = np.dstack([light * weight, weight])
    mean = np.asarray(cv2.GaussianBlur(weighted, (0, 0), max(radius_px, 1.0)), dtype=np.float32)
    return np.asarray(mean[..., :3] / np.maximum(mean[..., 3:], np.finfo(np.float32).tiny))
