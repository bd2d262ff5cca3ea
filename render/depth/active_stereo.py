"""Active stereo: two pictures of dots thrown on a scene, and what a matcher makes of them."""

from __future__ import annotations

import math
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.render.depth.infrared import Seen, stretch
from sim2cam.render.labels.disparity import disparity_of, from_the_right
from sim2cam.render.rasterizer import PinholeView
from sim2cam.scene.depth_camera import ActiveStereo

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]

_STEPS_PER_PX = 16  # of OpenCV's matcher; its disparities are whole numbers of this
_EXPOSED_QUANTILE, _EXPOSED_LEVEL = 0.98, 0.9  # automatic exposure lets few dots clip
_SMOOTH, _EDGE = 8, 32  # penalties a pixel of the window, those of OpenCV's examples
_CONTRAST_CAP = 31
_REFINEMENTS = 3
_LEAST_ENERGY = np.float32(1.0)  # grey levels squared: below it there is nothing to match
_SPECK_PX, _SPECK_STEP_PX = 60, 1  # smaller islands are mistakes


def depth_by_stereo(view: PinholeView, seen: Seen, camera: ActiveStereo) -> Floats:
    """Returns the depth (h, w) that the left camera reads, 0 where none is. Deterministic."""
    left, right = infrared_pair(view, seen, camera)
    disparity = _refine(left, right, _match(left, right, view, camera), camera)
    read = disparity_of(disparity, view.focal_px, camera.baseline_m)
    good = (read >= camera.min_range_m) & (read <= camera.max_range_m) & (seen.depth_m > 0)
    return np.where(good, read, np.float32(0))


def infrared_pair(view: PinholeView, seen: Seen, camera: ActiveStereo) -> tuple[Bytes, Bytes]:
    """Returns what the left and the right camera see (h, w)."""
    disparity = disparity_of(seen.depth_m, view.focal_px, camera.baseline_m)
    lamp = np.where(seen.depth_m > 0, seen.returned, np.float32(0))
    # Without the falloff, the light that comes back is about the reflectance.
    ambient = np.minimum(lamp * (seen.depth_m * stretch(view)) ** 2, 1) * camera.ambient_share
    right_disparity, right_lamp, right_ambient = _right_view(disparity, lamp, ambient)
    share = camera.projector_m / camera.baseline_m
    dots = _dots(view, camera)
    left = lamp * _thrown(dots, -share * disparity) + ambient
    right = right_lamp * _thrown(dots, (1 - share) * right_disparity) + right_ambient
    rng = np.random.default_rng(camera.noise_seed)
    gain = _EXPOSED_LEVEL / max(float(np.quantile(left, _EXPOSED_QUANTILE)), 1e-12)
    return _exposed(left * gain, camera, rng), _exposed(right * gain, camera, rng)


def _searched_px(view: PinholeView, camera: ActiveStereo) -> int:
    """Returns how many disparities are tried: those up to the nearest range, in sixteens."""
    nearest = view.focal_px * camera.baseline_m / camera.min_range_m
    return 16 * math.ceil((nearest + 1) / 16)


def _dots(view: PinholeView, camera: ActiveStereo) -> Floats:
    """Returns the projected light (h, w + 2 s), 1 on average, that is s pixels wider each side."""
    size = (view.height, view.width + 2 * _searched_px(view, camera))
    spacing_px = max(1.0, camera.dot_spacing_rad * view.focal_px)
    rng = np.random.default_rng(camera.pattern_seed)
    points = (rng.random(size) < spacing_px**-2).astype(np.float32)
    light = cv2.GaussianBlur(points, (0, 0), camera.dot_radius_rad * view.focal_px)
    return np.asarray(light / max(float(light.mean()), 1e-12), dtype=np.float32)


def _thrown(dots: Floats, shift_px: Floats) -> Floats:
    """Returns the dots (h, w) where a pixel's column in the pattern is shifted by (h, w)."""
    margin = (dots.shape[1] - shift_px.shape[1]) // 2
    return _looked_up(dots, shift_px + margin)


def _looked_up(picture: Floats, shift_px: Floats, how: int = cv2.INTER_LINEAR) -> Floats:
    """Returns a picture (h, any) in the columns of (h, w) pixels plus their shift to the right."""
    height, width = shift_px.shape
    x = np.arange(width, dtype=np.float32) + shift_px
    y = np.broadcast_to(np.arange(height, dtype=np.float32)[:, None], x.shape)
    return _floats(cv2.remap(picture, _floats(x), y, how))


def _right_view(disparity: Floats, *layers: Floats) -> tuple[Floats, ...]:
    """Returns the disparity and layers (h, w) as the right camera sees them.

    What only the right camera sees is taken to be more of the farther surface beside it.
    """
    found = from_the_right(disparity)
    seen = [found, *(_looked_up(layer, found) for layer in layers)]
    donor = _farther_neighbour(found)
    return tuple(np.take_along_axis(array, donor, axis=1) for array in seen)


def _farther_neighbour(disparity: Floats) -> NDArray[np.intp]:
    """Returns the column (h, w) itself, or in a gap that of the farther of its two ends."""
    width = disparity.shape[1]
    known, columns = disparity > 0, np.arange(1, width + 1)
    left = np.maximum.accumulate(np.where(known, columns, 0), axis=1)
    right = np.minimum.accumulate(np.where(known, columns, width + 1)[:, ::-1], axis=1)[:, ::-1]
    ends = np.pad(disparity, ((0, 0), (1, 1)), constant_values=np.inf)
    at_left, at_right = (np.take_along_axis(ends, side, axis=1) for side in (left, right))
    return np.where(at_left <= at_right, left, right) - 1


def _exposed(light: Floats, camera: ActiveStereo, rng: np.random.Generator) -> Bytes:
    """Returns a picture (h, w) with speckle, shot and read noise."""
    normal = rng.standard_normal((2, *light.shape), dtype=np.float32)
    shining = light * np.maximum(1 + camera.speckle_contrast * normal[0], 0)
    variance = shining / camera.full_well_e + (camera.read_noise_e / camera.full_well_e) ** 2
    counted = shining + normal[1] * np.sqrt(variance)
    return np.asarray(np.rint(255 * np.clip(counted, 0, 1)), dtype=np.uint8)


def _match(left: Bytes, right: Bytes, view: PinholeView, camera: ActiveStereo) -> Floats:
    """Returns the disparity (h, w) by semi-global matching (Hirschmueller 2008), 0 for none."""
    searched = _searched_px(view, camera)
    area = camera.window_px**2
    matcher = cv2.StereoSGBM.create(
        0, searched, camera.window_px, _SMOOTH * area, _EDGE * area, camera.left_right_px,
        _CONTRAST_CAP, camera.uniqueness_percent, _SPECK_PX, _SPECK_STEP_PX,
        cv2.StereoSGBM_MODE_SGBM_3WAY,
    )  # fmt: skip
    # It leaves as many columns empty as it searches; a margin gives those back that both see.
    eyes = [
        cv2.copyMakeBorder(eye, 0, 0, searched, 0, cv2.BORDER_CONSTANT) for eye in (left, right)
    ]
    found = matcher.compute(eyes[0], eyes[1])[:, searched:].astype(np.float32) / _STEPS_PER_PX
    both_see = np.arange(view.width, dtype=np.float32) >= found
    return np.where((found > 0) & both_see, found, np.float32(0))


def _refine(left: Bytes, right: Bytes, matched: Floats, camera: ActiveStereo) -> Floats:
    """Returns the disparity (h, w) to a fraction of a pixel by least squares in each window.

    The matcher's own fractions crowd around whole pixels. What the residuals say of the error
    (Lucas and Kanade 1981; Foerstner 1982) decides which readings are kept.
    """
    weight = _floats(matched > 0)
    slope = _floats(cv2.Sobel(right, cv2.CV_32F, 1, 0, ksize=1) / 2)
    count = np.maximum(_summed(weight, camera), 1)
    found = matched
    for _ in range(_REFINEMENTS):
        residual = weight * (left - _looked_up(_floats(right), -found, cv2.INTER_CUBIC))
        along = weight * _looked_up(slope, -found, cv2.INTER_CUBIC)
        energy = _summed(along * along, camera) + _LEAST_ENERGY
        change = _summed(along * residual, camera) / energy
        variance = _summed(residual * residual, camera) / count / energy
        found = np.clip(found - np.clip(change, -0.5, 0.5), matched - 1, matched + 1)
    good = (matched > 0) & (variance < camera.max_error_px**2)
    step = np.float32(camera.disparity_step_px)
    return np.where(good, np.rint(found / step) * step, np.float32(0))


def _summed(layer: Floats, camera: ActiveStereo) -> Floats:
    """Returns the sum (h, w) over each window."""
    size = (camera.window_px, camera.window_px)
    return _floats(cv2.boxFilter(layer, -1, size, normalize=False))


def _floats(values: NDArray[Any]) -> Floats:
    return np.asarray(values, dtype=np.float32)
