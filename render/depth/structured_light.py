"""Structured light: depth from a projected pattern, found window by window.

What a window sees is decided before what it reads: surfaces that the projector reaches and whose
light is neither too weak nor too strong. Where a window holds two surfaces, the one that sends more
of the pattern wins, so that near ones grow over far ones.
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.render.depth.infrared import DepthCameraInput, compute_incidence_cosines
from sim2cam.render.labels.disparity import convert_depth_disparity, find_occluded_pixels
from sim2cam.render.rasterizer import PinholeView
from sim2cam.scene.depth_camera import StructuredLight

Floats = NDArray[np.float32]
BoolArray = NDArray[np.bool_]

_DISPARITY_EDGE_PX = 1.0  # neighbours whose disparities differ by more are two surfaces
_MIN_LIT_FRACTION = 0.5  # of a window, so that something is read
_UNREACHABLE_DISPARITY = np.float32(1e9)


def measure_structured_light(
    view: PinholeView, inputs: DepthCameraInput, camera: StructuredLight
) -> Floats:
    """Return the depth (h, w) that is read, 0 where none is. Deterministic."""
    rng = np.random.default_rng(camera.noise_seed)
    disparity = convert_depth_disparity(inputs.depth_m, view.focal_px, camera.baseline_m)
    incidence = np.arccos(compute_incidence_cosines(view, inputs))
    lit = _find_lit_pixels(inputs, disparity, incidence, camera, rng)
    matched = _match_windows(disparity, lit, inputs.returned_light, camera.window_px)

    # Windows that reach over a rim read it too, where the noise would have its pole.
    grazing = np.minimum(incidence, camera.max_incidence_rad)
    slant = np.asarray(grazing / (np.pi / 2 - grazing), dtype=np.float32)
    moved = _add_lateral_noise(matched, slant, camera, rng)
    noise_px = _compute_axial_noise_px(moved, slant, view, camera)
    noisy = moved + noise_px * _sample_smooth_noise(moved.shape, camera.window_px, rng)

    step = np.float32(camera.disparity_step_px)
    read = convert_depth_disparity(np.rint(noisy / step) * step, view.focal_px, camera.baseline_m)
    good = (moved > 0) & (inputs.depth_m > 0)
    good &= (read >= camera.min_range_m) & (read <= camera.max_range_m)
    return np.where(good, read, np.float32(0))


def _find_lit_pixels(
    inputs: DepthCameraInput,
    disparity: Floats,
    incidence: Floats,
    camera: StructuredLight,
    rng: np.random.Generator,
) -> BoolArray:
    """Return where (h, w) the camera sees the pattern."""
    speckle = 1 + camera.speckle_contrast * rng.standard_normal(disparity.shape, dtype=np.float32)
    light = inputs.returned_light * speckle
    good = (light >= camera.min_return) & (light <= camera.max_return)
    good &= (incidence <= camera.max_incidence_rad) & (disparity > 0)
    return np.asarray(good & ~find_occluded_pixels(disparity))


def _match_windows(disparity: Floats, lit: BoolArray, light: Floats, window_px: int) -> Floats:
    """Return the disparity (h, w) that each window finds, 0 where it finds none."""
    size = (window_px, window_px)
    seen = np.where(lit, disparity, np.float32(0))
    share = cv2.blur(lit.astype(np.float32), size, borderType=cv2.BORDER_REPLICATE)
    total = cv2.blur(seen, size, borderType=cv2.BORDER_REPLICATE)
    found = np.divide(total, share, out=np.zeros_like(total), where=share >= _MIN_LIT_FRACTION)
    contested = _find_edge_windows(disparity, window_px) & (share >= _MIN_LIT_FRACTION)
    if contested.any():
        found[contested] = _resolve_contested_windows(contested, disparity, lit, light, window_px)
    return np.asarray(found, dtype=np.float32)


def _find_edge_windows(disparity: Floats, window_px: int) -> BoolArray:
    """Return where (h, w) a window may hold two surfaces."""
    around = np.ones((3, 3), np.uint8)
    steps = cv2.dilate(disparity, around) - cv2.erode(disparity, around)
    edge = (steps > _DISPARITY_EDGE_PX).astype(np.uint8)
    return np.asarray(cv2.dilate(edge, np.ones((window_px, window_px), np.uint8)) > 0)


def _resolve_contested_windows(
    contested: BoolArray, disparity: Floats, lit: BoolArray, light: Floats, window_px: int
) -> Floats:
    """Return the mean disparity (n,) of the surface that wins each contested window.

    A window is split half-way between its nearest and farthest disparity; a surface counts by the
    energy of its pattern, the square of its light.
    """
    square = np.ones((window_px, window_px), np.uint8)
    nearest = cv2.dilate(np.where(lit, disparity, np.float32(0)), square)[contested]
    farthest = cv2.erode(np.where(lit, disparity, _UNREACHABLE_DISPARITY), square)[contested]
    middle = (nearest + farthest) / 2
    margin = window_px // 2
    counts, energies, totals, values = (
        cv2.copyMakeBorder(
            array.astype(np.float32), margin, margin, margin, margin, cv2.BORDER_REPLICATE
        )
        for array in (lit, lit * light * light, lit * disparity, disparity)
    )
    rows, columns = np.nonzero(contested)
    corner = rows * values.shape[1] + columns
    near, both = np.zeros((2, 3, len(corner)), np.float32)
    for down in range(window_px):
        for right in range(window_px):
            at = corner + (down * values.shape[1] + right)
            is_near = values.take(at) > middle
            held = np.stack([layer.take(at) for layer in (counts, energies, totals)])
            both += held
            near += held * is_near
    count, _, total = np.where(near[1] > both[1] / 2, near, both - near)
    return np.asarray(total / np.maximum(count, 1), dtype=np.float32)


def _add_lateral_noise(
    disparity: Floats, slant: Floats, camera: StructuredLight, rng: np.random.Generator
) -> Floats:
    """Return the disparity (h, w), with that of a pixel near by where it is of another surface."""
    height, width = disparity.shape
    sigma_px = camera.lateral_noise_px + camera.lateral_slant_px * slant
    down, right = (
        np.rint(sigma_px * _sample_smooth_noise(disparity.shape, camera.window_px, rng)).astype(
            np.intp
        )
        for _ in range(2)
    )
    rows = np.clip(np.arange(height)[:, None] + down, 0, height - 1)
    columns = np.clip(np.arange(width) + right, 0, width - 1)
    near_by = disparity[rows, columns]
    # Within a surface the axial noise, which was measured on slanted ones too, holds this already.
    is_other = np.abs(near_by - disparity) > _DISPARITY_EDGE_PX
    return np.where(is_other, near_by, disparity)


def _compute_axial_noise_px(
    disparity: Floats, slant: Floats, view: PinholeView, camera: StructuredLight
) -> Floats:
    """Return the standard deviation (h, w) to add before quantization, which adds the rest."""
    depth = convert_depth_disparity(disparity, view.focal_px, camera.baseline_m)
    far = depth - camera.axial_nearest_m
    sigma = camera.axial_noise_m + camera.axial_growth_per_m * far * far
    sigma += camera.axial_slant_m * slant * slant / np.sqrt(np.maximum(depth, camera.min_range_m))
    sigma_px = sigma * np.divide(disparity, depth, out=np.zeros_like(depth), where=depth > 0)
    variance = np.maximum(sigma_px**2 - camera.disparity_step_px**2 / 12, 0)
    return np.asarray(np.sqrt(variance), dtype=np.float32)


def _sample_smooth_noise(
    shape: tuple[int, ...], window_px: int, rng: np.random.Generator
) -> Floats:
    """Return standard normal noise (h, w) that windows share as far as they overlap."""
    padded = (shape[0] + window_px - 1, shape[1] + window_px - 1)
    white = rng.standard_normal(padded, dtype=np.float32)
    mixed = cv2.blur(white, (window_px, window_px)) * window_px
    half = window_px // 2
    return np.asarray(mixed[half : half + shape[0], half : half + shape[1]], dtype=np.float32)
