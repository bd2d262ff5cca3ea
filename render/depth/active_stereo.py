"""Active stereo depth camera: a projected dot pattern, matched between two infrared images."""

from __future__ import annotations

import math
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.render.depth.infrared import DepthCameraInput, compute_ray_lengths
from sim2cam.render.gbuffer import PinholeView
from sim2cam.render.labels.disparity import convert_depth_disparity, warp_to_right_view
from sim2cam.scene.depth_camera import ActiveStereo

Floats = NDArray[np.float32]
ByteImage = NDArray[np.uint8]

_SUBPIXEL_STEPS = 16  # per pixel, in the fixed-point disparities of OpenCV
_EXPOSURE_QUANTILE, _EXPOSURE_LEVEL = 0.98, 0.9  # automatic exposure clips few dots
_P1_PER_PX, _P2_PER_PX = 8, 32  # per pixel of the window, as in OpenCV's examples
_PREFILTER_CAP = 31
_REFINEMENT_ITERATIONS = 3
_MIN_GRADIENT_ENERGY = np.float32(1.0)  # grey levels squared; below it windows have no texture
_SPECKLE_WINDOW_PX, _SPECKLE_RANGE_PX = 60, 1  # smaller regions are mismatches


def measure_active_stereo(
    view: PinholeView, inputs: DepthCameraInput, camera: ActiveStereo
) -> Floats:
    """Return the depth (h, w) of the left camera, 0 without a reading. Deterministic."""
    left, right = render_infrared_pair(view, inputs, camera)
    disparity = _refine_disparity(left, right, _match_stereo(left, right, view, camera), camera)
    depth = convert_depth_disparity(disparity, view.focal_px, camera.baseline_m)
    is_valid = (depth >= camera.min_range_m) & (depth <= camera.max_range_m) & (inputs.depth_m > 0)
    return np.where(is_valid, depth, np.float32(0))


def render_infrared_pair(
    view: PinholeView, inputs: DepthCameraInput, camera: ActiveStereo
) -> tuple[ByteImage, ByteImage]:
    """Render the left and the right infrared image (h, w)."""
    disparity = convert_depth_disparity(inputs.depth_m, view.focal_px, camera.baseline_m)
    lamp = np.where(inputs.depth_m > 0, inputs.returned_light, np.float32(0))
    # without the inverse-square falloff, returned light is about the reflectance
    ambient = (
        np.minimum(lamp * (inputs.depth_m * compute_ray_lengths(view)) ** 2, 1)
        * camera.ambient_share
    )
    right_disparity, right_lamp, right_ambient = _warp_layers_to_right(disparity, lamp, ambient)
    share = camera.projector_m / camera.baseline_m
    dots = _make_dot_pattern(view, camera)
    left = lamp * _project_dots(dots, -share * disparity) + ambient
    right = right_lamp * _project_dots(dots, (1 - share) * right_disparity) + right_ambient
    rng = np.random.default_rng(camera.noise_seed)
    gain = _EXPOSURE_LEVEL / max(float(np.quantile(left, _EXPOSURE_QUANTILE)), 1e-12)
    return _add_image_noise(left * gain, camera, rng), _add_image_noise(right * gain, camera, rng)


def _count_disparities(view: PinholeView, camera: ActiveStereo) -> int:
    """Return the number of disparities up to the minimum range, a multiple of 16."""
    nearest = view.focal_px * camera.baseline_m / camera.min_range_m
    return 16 * math.ceil((nearest + 1) / 16)


def _make_dot_pattern(view: PinholeView, camera: ActiveStereo) -> Floats:
    """Return the dot pattern (h, w + 2 s) with mean 1, extended by s disparities on each side."""
    size = (view.height, view.width + 2 * _count_disparities(view, camera))
    spacing_px = max(1.0, camera.dot_spacing_rad * view.focal_px)
    rng = np.random.default_rng(camera.pattern_seed)
    points = (rng.random(size) < spacing_px**-2).astype(np.float32)
    light = cv2.GaussianBlur(points, (0, 0), camera.dot_radius_rad * view.focal_px)
    return np.asarray(light / max(float(light.mean()), 1e-12), dtype=np.float32)


def _project_dots(dots: Floats, shift_px: Floats) -> Floats:
    """Return the dots (h, w) at pattern columns shifted by (h, w) pixels."""
    margin = (dots.shape[1] - shift_px.shape[1]) // 2
    return _shift_columns(dots, shift_px + margin)


def _shift_columns(
    image: Floats, shift_px: Floats, interpolation: int = cv2.INTER_LINEAR
) -> Floats:
    """Sample an image (h, n) at the columns of (h, w) pixels plus their shift."""
    height, width = shift_px.shape
    x = np.arange(width, dtype=np.float32) + shift_px
    y = np.broadcast_to(np.arange(height, dtype=np.float32)[:, None], x.shape)
    return _as_float32(cv2.remap(image, _as_float32(x), y, interpolation))


def _warp_layers_to_right(disparity: Floats, *layers: Floats) -> tuple[Floats, ...]:
    """Warp the disparity and layers (h, w) to the right camera.

    Regions that only the right camera sees continue the farther adjacent surface.
    """
    right_disparity = warp_to_right_view(disparity)
    warped = [right_disparity, *(_shift_columns(layer, right_disparity) for layer in layers)]
    donor = _find_farther_neighbor(right_disparity)
    return tuple(np.take_along_axis(array, donor, axis=1) for array in warped)


def _find_farther_neighbor(disparity: Floats) -> NDArray[np.intp]:
    """Return the column (h, w) of each pixel; in gaps, that of the farther of the two ends."""
    width = disparity.shape[1]
    is_known, columns = disparity > 0, np.arange(1, width + 1)
    left = np.maximum.accumulate(np.where(is_known, columns, 0), axis=1)
    right = np.minimum.accumulate(np.where(is_known, columns, width + 1)[:, ::-1], axis=1)[:, ::-1]
    ends = np.pad(disparity, ((0, 0), (1, 1)), constant_values=np.inf)
    at_left, at_right = (np.take_along_axis(ends, side, axis=1) for side in (left, right))
    return np.where(at_left <= at_right, left, right) - 1


def _add_image_noise(light: Floats, camera: ActiveStereo, rng: np.random.Generator) -> ByteImage:
    """Return an image (h, w) with speckle, shot and read noise."""
    normal = rng.standard_normal((2, *light.shape), dtype=np.float32)
    speckled = light * np.maximum(1 + camera.speckle_contrast * normal[0], 0)
    variance = speckled / camera.full_well_e + (camera.read_noise_e / camera.full_well_e) ** 2
    noisy = speckled + normal[1] * np.sqrt(variance)
    return np.asarray(np.rint(255 * np.clip(noisy, 0, 1)), dtype=np.uint8)


def _match_stereo(
    left: ByteImage, right: ByteImage, view: PinholeView, camera: ActiveStereo
) -> Floats:
    """Return the disparity (h, w) by semi-global matching (Hirschmueller 2008), 0 for none."""
    disparity_count = _count_disparities(view, camera)
    area = camera.window_px**2
    matcher = cv2.StereoSGBM.create(
        0, disparity_count, camera.window_px, _P1_PER_PX * area, _P2_PER_PX * area, camera.left_right_px,
        _PREFILTER_CAP, camera.uniqueness_percent, _SPECKLE_WINDOW_PX, _SPECKLE_RANGE_PX,
        cv2.StereoSGBM_MODE_SGBM_3WAY,
    )  # fmt: skip
    # the matcher leaves as many columns empty as it searches; padding keeps columns that both see
    padded = [
        cv2.copyMakeBorder(image, 0, 0, disparity_count, 0, cv2.BORDER_CONSTANT)
        for image in (left, right)
    ]
    disparity = (
        matcher.compute(padded[0], padded[1])[:, disparity_count:].astype(np.float32)
        / _SUBPIXEL_STEPS
    )
    both_see = np.arange(view.width, dtype=np.float32) >= disparity
    return np.where((disparity > 0) & both_see, disparity, np.float32(0))


def _refine_disparity(
    left: ByteImage, right: ByteImage, initial_disparity: Floats, camera: ActiveStereo
) -> Floats:
    """Refine the disparity (h, w) to subpixel accuracy by least squares in each window.

    The subpixel values of the matcher are biased to whole pixels. Readings are kept by the
    variance that their residuals imply (Lucas and Kanade 1981; Foerstner 1982).
    """
    weight = _as_float32(initial_disparity > 0)
    slope = _as_float32(cv2.Sobel(right, cv2.CV_32F, 1, 0, ksize=1) / 2)
    count = np.maximum(_sum_windows(weight, camera), 1)
    disparity = initial_disparity
    for _ in range(_REFINEMENT_ITERATIONS):
        residual = weight * (left - _shift_columns(_as_float32(right), -disparity, cv2.INTER_CUBIC))
        gradient = weight * _shift_columns(slope, -disparity, cv2.INTER_CUBIC)
        energy = _sum_windows(gradient * gradient, camera) + _MIN_GRADIENT_ENERGY
        update = _sum_windows(gradient * residual, camera) / energy
        variance = _sum_windows(residual * residual, camera) / count / energy
        disparity = np.clip(
            disparity - np.clip(update, -0.5, 0.5), initial_disparity - 1, initial_disparity + 1
        )
    is_valid = (initial_disparity > 0) & (variance < camera.max_error_px**2)
    step = np.float32(camera.disparity_step_px)
    return np.where(is_valid, np.rint(disparity / step) * step, np.float32(0))


def _sum_windows(layer: Floats, camera: ActiveStereo) -> Floats:
    """Return the sum over the window of each pixel (h, w)."""
    size = (camera.window_px, camera.window_px)
    return _as_float32(cv2.boxFilter(layer, -1, size, normalize=False))


def _as_float32(values: NDArray[Any]) -> Floats:
    return np.asarray(values, dtype=np.float32)
