"""Depth of field: each point spreads over the circle of confusion of a thin lens.

The image is split by depth into layers with similar blur radius. Each layer is blurred, and the
layers are composited from near to far into the remaining coverage of each pixel. Surfaces join
without seams, and blurred background does not leak into sharp foreground. Background behind
blurred edges is not in the image; it is extrapolated from the farthest neighbouring pixels.
Layers come from the depth labels, which have neither partial coverage nor motion blur.
"""

from __future__ import annotations

import math

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.scene.lens_effects import Defocus

Floats = NDArray[np.float32]

MAX_RADIUS_PX = 64.0
"""Upper limit of the blur radius."""

_RADIUS_STEP_PX = 0.5  # between layers up to ``_FINE_RADIUS_PX``
_FINE_RADIUS_PX = 4.0
_RADIUS_GROWTH = 1.12  # ratio of successive layer radii beyond
_KERNEL_SUPERSAMPLING = 8  # samples per pixel side on the rim of a disk
_MIN_COVERAGE = 1e-6
_DEPTH_PREFERENCE = 0.7  # log weight per layer, in favour of farther layers


def compute_blur_radius(depth_m: NDArray[np.float32], defocus: Defocus, focal_px: float) -> Floats:
    """Return the signed blur radius of each pixel: positive behind the focus, negative before it.

    Args:
        depth_m: depth; 0 for the background, at infinity.
        defocus: aperture and focus distance.
        focal_px: focal length of the projection.
    """
    nearness = np.divide(1, depth_m, out=np.zeros_like(depth_m), where=depth_m > 0)
    radius = defocus.aperture_m * focal_px * (1 / defocus.focus_m - nearness) / 2
    return np.asarray(np.clip(radius, -MAX_RADIUS_PX, MAX_RADIUS_PX), dtype=np.float32)


def apply_defocus(light: Floats, radius_px: Floats) -> Floats:
    """Blur the light (h, w, 3) with a disk of signed radius (h, w) at each pixel."""
    layers = _assign_layers(radius_px)
    layer_ids = np.unique(layers).tolist()
    if layer_ids == [0]:
        return light
    largest = max(_get_layer_radius(layer) for layer in layer_ids)
    image, coverage = np.zeros_like(light), np.zeros((*radius_px.shape, 1), np.float32)
    for layer in layer_ids:
        _composite_layer(image, coverage, light, layers == layer, _get_layer_radius(layer))
    return np.asarray(image + (1 - coverage) * _inpaint_background(light, layers, largest))


def make_disk_kernel(radius_px: float) -> Floats:
    """Return a disk kernel (n, n), n odd, with sum 1."""
    half = max(0, math.ceil(radius_px - 0.5))
    points = (
        (np.arange((2 * half + 1) * _KERNEL_SUPERSAMPLING) + 0.5) / _KERNEL_SUPERSAMPLING
        - half
        - 0.5
    )
    inside = points[:, None] ** 2 + points**2 <= radius_px**2
    weights = inside.reshape(
        2 * half + 1, _KERNEL_SUPERSAMPLING, 2 * half + 1, _KERNEL_SUPERSAMPLING
    ).sum(axis=(1, 3))
    return np.asarray(weights / weights.sum(), dtype=np.float32)


def _assign_layers(radius_px: Floats) -> NDArray[np.int16]:
    """Return the layer (h, w) of each pixel; higher is farther, 0 is in focus."""
    radius = np.abs(radius_px)
    fine = np.round(radius / _RADIUS_STEP_PX)
    coarse = np.round(
        np.log(np.maximum(radius, _FINE_RADIUS_PX) / _FINE_RADIUS_PX) / math.log(_RADIUS_GROWTH)
    )
    layer = np.where(radius <= _FINE_RADIUS_PX, fine, _FINE_RADIUS_PX / _RADIUS_STEP_PX + coarse)
    return np.copysign(layer, radius_px).astype(np.int16)


def _get_layer_radius(layer: int) -> float:
    """Return the blur radius of a layer in pixels."""
    coarse = abs(layer) - _FINE_RADIUS_PX / _RADIUS_STEP_PX
    return abs(layer) * _RADIUS_STEP_PX if coarse <= 0 else _FINE_RADIUS_PX * _RADIUS_GROWTH**coarse


def _composite_layer(
    image: Floats, coverage: Floats, light: Floats, layer_mask: NDArray[np.bool_], radius_px: float
) -> None:
    """Composite one layer into the remaining coverage, in place.

    Args:
        image: (h, w, 3) light of nearer layers.
        coverage: (h, w, 1) share of each pixel covered by nearer layers.
        light: (h, w, 3) sharp image.
        layer_mask: (h, w) pixels of the layer.
        radius_px: blur radius of the layer.
    """
    window = _find_layer_window(layer_mask, math.ceil(radius_px))
    layer_rgba = (
        np.dstack([light[window], np.ones_like(coverage[window])]) * layer_mask[window][..., None]
    )
    if radius_px >= _RADIUS_STEP_PX:
        blurred = cv2.filter2D(
            layer_rgba, -1, make_disk_kernel(radius_px), borderType=cv2.BORDER_REPLICATE
        )
        layer_rgba = np.maximum(
            np.asarray(blurred, dtype=np.float32), 0
        )  # the FFT of large kernels can go below 0
    layer_coverage = layer_rgba[..., 3:]
    added = np.minimum(layer_coverage, 1 - coverage[window])
    image[window] += layer_rgba[..., :3] * (added / np.maximum(layer_coverage, _MIN_COVERAGE))
    coverage[window] += added


def _find_layer_window(layer_mask: NDArray[np.bool_], margin: int) -> tuple[slice, slice]:
    """Return the rows and columns of the bounding box of a layer, with a margin."""
    sides = (np.flatnonzero(layer_mask.any(axis=axis)) for axis in (1, 0))
    rows, columns = (slice(max(0, n[0] - margin), n[-1] + 1 + margin) for n in sides)
    return rows, columns


def _inpaint_background(light: Floats, layers: NDArray[np.int16], radius_px: float) -> Floats:
    """Return the mean light (h, w, 3) around each pixel, weighted towards far layers."""
    weight = np.exp(np.float32(_DEPTH_PREFERENCE) * (layers - layers.max()))[..., None]
    weighted = np.dstack([light * weight, weight])
    mean = np.asarray(cv2.GaussianBlur(weighted, (0, 0), max(radius_px, 1.0)), dtype=np.float32)
    return np.asarray(mean[..., :3] / np.maximum(mean[..., 3:], np.finfo(np.float32).tiny))
