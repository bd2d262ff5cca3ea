"""Haze, and lens effects other than distortion: defocus, droplets, dirt, lateral colour, blur, glare, falloff.

Each function maps linear light (h, w, 3) to linear light.
"""

from __future__ import annotations

import math

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import affine_transform

from sim2cam.geometry.lens import Lens
from sim2cam.render.optics.defocus import apply_defocus, compute_blur_radius
from sim2cam.render.optics.views import compute_pixel_rays
from sim2cam.scene.camera import Camera
from sim2cam.scene.lens_effects import Dirt, Droplets, Falloff, FieldBlur, Glare, LateralColor
from sim2cam.scene.light import Haze
from sim2cam.seeds import derive_rng

Floats = NDArray[np.float32]

_DOWNSCALE = 4  # maximum downscaling for wide blurs
_BLOOM_SCALES = (1, 2, 4)
_GHOST_BLUR_FRACTION = 0.01  # of the width
_FIELD_VARIANCE_FRACTIONS = (
    0.25,
    1.0,
)  # blurred copies of the image, by their share of the variance in the corners
_DIRT_SCATTER_FRACTION = 0.5  # of the light that dirt blocks
_DROPLET_ZOOM = 4.0  # a droplet shows an area this many times as wide
_DROPLET_BLUR = 0.25  # of its radius; droplets are far out of focus
_DROPLET_RIM = 0.3  # of its radius, over which its rim fades


def apply_optics(radiance: Floats, depth_m: Floats, camera: Camera, haze: Haze | None) -> Floats:
    """Return the radiance (h, w, 3) at the sensor, after haze and lens effects.

    Args:
        radiance: (h, w, 3) linear RGB without haze, after distortion.
        depth_m: (h, w) depth; 0 for the background, at infinity.
        camera: camera with the lens.
        haze: haze of the air; None for clear air.
    """
    if haze is not None:
        radiance = apply_haze(radiance, haze, camera, depth_m)
    return apply_lens_effects(radiance, camera, depth_m)


def apply_haze(radiance: Floats, haze: Haze, camera: Camera, depth_m: Floats) -> Floats:
    """Attenuate the radiance (h, w, 3) and add airlight.

    Extinction follows Beer's law, and airlight Koschmieder's (Narasimhan and Nayar 2002, "Vision
    and the atmosphere"). Mixed pixels at edges take the distance at their centre.

    Args:
        radiance: (h, w, 3) linear RGB, after the lens.
        haze: extinction and airlight.
        camera: camera with the lens.
        depth_m: (h, w) depth; 0 for the background, at infinity.
    """
    if haze.extinction_per_m == 0:
        return radiance  # also for the background, where the exponent is not defined
    transmission = np.exp(-haze.extinction_per_m * compute_distances_m(camera, depth_m))[..., None]
    airlight = np.array(haze.airlight, np.float32)
    return np.asarray(radiance * transmission + airlight * (1 - transmission), np.float32)


def compute_distances_m(camera: Camera, depth_m: Floats) -> Floats:
    """Return the distance (h, w) to the visible surface, infinite for the background."""
    depth_or_inf = np.where(depth_m > 0, depth_m, np.inf)
    if camera.lens.depth_along == "ray":
        return np.asarray(depth_or_inf, np.float32)
    cosines = compute_pixel_rays(camera.lens, camera.width, camera.height)[2]
    return np.asarray(depth_or_inf / cosines, np.float32)


def apply_lens_effects(radiance: Floats, camera: Camera, depth_m: Floats) -> Floats:
    """Apply all lens effects of a camera.

    Args:
        radiance: (h, w, 3) linear RGB, after distortion.
        camera: camera with its lens effects.
        depth_m: (h, w) depth; 0 for the background, at infinity.
    """
    effects, light = camera.glass, radiance
    if effects is None:
        return radiance
    if effects.defocus:
        focal_px = _compute_central_focal_px(camera.lens, camera.width, camera.height)
        light = apply_defocus(light, compute_blur_radius(depth_m, effects.defocus, focal_px))
    if effects.droplets:
        light = apply_droplets(light, effects.droplets)
    if effects.dirt:
        light = apply_dirt(light, effects.dirt)
    if effects.lateral_color:
        light = apply_lateral_color(light, effects.lateral_color, _get_principal_point(camera.lens))
    if effects.field_blur:
        light = apply_field_blur(light, effects.field_blur)
    if effects.glare:
        light = apply_glare(light, effects.glare, _get_principal_point(camera.lens))
    if effects.falloff:
        light = apply_falloff(light, effects.falloff)
    return light


def apply_lateral_color(
    light: Floats, lateral_color: LateralColor, center_px: tuple[float, float]
) -> Floats:
    """Scale red and blue about a pixel by spline interpolation; keep green.

    OpenCV's cubic interpolation exaggerates subpixel shifts of edges by up to half; splines do not.
    """
    shifted = light.copy()
    for channel, share in ((0, lateral_color.red), (2, lateral_color.blue)):
        if share:
            offset = [m * share / (1 + share) for m in reversed(center_px)]
            plane = affine_transform(
                light[..., channel], [1 / (1 + share)] * 2, offset, order=3, mode="nearest"
            )
            shifted[..., channel] = np.maximum(plane, 0)
    return shifted


def apply_falloff(light: Floats, falloff: Falloff) -> Floats:
    """Darken the light (h, w, 3) towards the corners."""
    height, width = light.shape[:2]
    y, x = np.ogrid[: float(height), : float(width)]
    half_width, half_height = (width - 1) / 2, (height - 1) / 2
    r2 = (x - half_width) ** 2 + (y - half_height) ** 2
    r2 /= half_width**2 + half_height**2 or 1.0  # one pixel
    gain = 1 + r2 * (falloff.k1 + r2 * (falloff.k2 + r2 * falloff.k3))
    return np.asarray(light * np.maximum(gain, 0)[..., None], dtype=np.float32)


def apply_field_blur(light: Floats, blur: FieldBlur) -> Floats:
    """Blur with a standard deviation that grows linearly from the centre to the corners.

    Blurred copies are mixed; the variance of a mixture is the mixture of the variances.
    """
    if blur.corner_px <= 0:
        return light
    height, width = light.shape[:2]
    y, x = np.mgrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j]
    variance_share = np.asarray((x * x + y * y) / 2, dtype=np.float32)[..., None]
    blurred_half, blurred_full = (
        np.asarray(cv2.GaussianBlur(light, (0, 0), blur.corner_px * math.sqrt(part)))
        for part in _FIELD_VARIANCE_FRACTIONS
    )
    knee = _FIELD_VARIANCE_FRACTIONS[0]
    inner = light + (blurred_half - light) * np.minimum(variance_share / knee, 1)
    return np.asarray(
        inner + (blurred_full - blurred_half) * np.maximum((variance_share - knee) / (1 - knee), 0)
    )


def apply_glare(light: Floats, glare: Glare, center_px: tuple[float, float]) -> Floats:
    """Add veiling glare, bloom and ghosts. Light from outside the image equals its mean."""
    direct = np.float32(1 - glare.veil - glare.bloom - glare.ghost)
    result = direct * light
    if glare.veil:
        result = result + np.float32(glare.veil) * light.mean(axis=(0, 1))
    if glare.bloom:
        result = result + np.float32(glare.bloom) * _compute_bloom(light, glare.bloom_radius)
    if glare.ghost:
        blurred, mean = (
            _blur_downscaled(light, _GHOST_BLUR_FRACTION * light.shape[1]),
            light.mean(axis=(0, 1)),
        )
        ghost = _scale_about(blurred, -glare.ghost_scale, center_px, tuple(mean.tolist()))
        result = result + np.float32(glare.ghost) * ghost
    return np.asarray(result, dtype=np.float32)


def apply_dirt(light: Floats, dirt: Dirt) -> Floats:
    """Attenuate light behind smears, which scatter half of the blocked light."""
    blocked = np.float32(dirt.loss) * _generate_smears(light.shape[:2], dirt)[..., None]
    scattered = (blocked * light).mean(axis=(0, 1)) * np.float32(_DIRT_SCATTER_FRACTION)
    return np.asarray(light * (1 - blocked) + scattered)


def apply_droplets(light: Floats, droplets: Droplets) -> Floats:
    """Add droplets, each of which shows a wide, inverted and blurred part of the image."""
    if droplets.count == 0:
        return light
    height, width = light.shape[:2]
    rng = derive_rng(droplets.seed, "droplets")
    centres = rng.uniform(0, (width, height), (droplets.count, 2))
    radii = droplets.radius * width * rng.uniform(0.5, 1, droplets.count)
    y, x = np.mgrid[:height, :width].astype(np.float32)
    map_x, map_y, opacity = x.copy(), y.copy(), np.zeros((height, width), np.float32)
    for (cx, cy), radius in zip(centres.tolist(), radii.tolist(), strict=True):
        distance = np.hypot(x - cx, y - cy) / np.float32(radius)
        inside = distance < 1
        map_x[inside] = cx - _DROPLET_ZOOM * (x[inside] - cx)
        map_y[inside] = cy - _DROPLET_ZOOM * (y[inside] - cy)
        opacity = np.maximum(opacity, np.clip((1 - distance) / _DROPLET_RIM, 0, 1))
    blurred = _blur_downscaled(light, _DROPLET_BLUR * _DROPLET_ZOOM * float(radii.mean()))
    refracted = cv2.remap(
        blurred, map_x, map_y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT_101
    )
    return np.asarray(light + opacity[..., None] * (refracted - light))


def _compute_central_focal_px(lens: Lens, width: int, height: int) -> float:
    """Return the horizontal focal length at the image centre."""
    middle = np.array([(width - 1) / 2, (height - 1) / 2])
    left, right = lens.unproject(middle + np.array([[-0.5, 0.0], [0.5, 0.0]]))
    return 1 / math.atan2(float(np.linalg.norm(np.cross(left, right))), float(left @ right))


def _get_principal_point(lens: Lens) -> tuple[float, float]:
    return lens.cx_px, lens.cy_px


def _scale_about(
    light: Floats, scale: float, center_px: tuple[float, float], border_value: tuple[float, ...]
) -> Floats:
    """Scale an image about a pixel (x, y); negative scales invert it.

    ``border_value`` is the light outside the image.
    """
    height, width = light.shape[:2]
    to_source = np.array(
        [
            [1 / scale, 0, center_px[0] * (1 - 1 / scale)],
            [0, 1 / scale, center_px[1] * (1 - 1 / scale)],
        ]
    )
    scaled = cv2.warpAffine(
        light,
        to_source,
        (width, height),
        flags=cv2.INTER_CUBIC | cv2.WARP_INVERSE_MAP,
        borderMode=cv2.BORDER_CONSTANT,
        borderValue=border_value,
    )
    return np.asarray(np.maximum(scaled, 0))


def _compute_bloom(light: Floats, radius_fraction: float) -> Floats:
    blurred = [
        _blur_downscaled(light, radius_fraction * scale * light.shape[1]) for scale in _BLOOM_SCALES
    ]
    return np.asarray(sum(blurred) / np.float32(len(blurred)))


def _blur_downscaled(light: Floats, sigma_px: float) -> Floats:
    """Blur with a wide Gaussian, computed on a coarser grid."""
    height, width = light.shape[:2]
    factor = max(1, min(_DOWNSCALE, int(sigma_px)))
    small = cv2.resize(
        light, (-(-width // factor), -(-height // factor)), interpolation=cv2.INTER_AREA
    )
    blurred = cv2.GaussianBlur(
        small, (0, 0), max(sigma_px / factor, 0.1), borderType=cv2.BORDER_REFLECT_101
    )
    return np.asarray(cv2.resize(blurred, (width, height), interpolation=cv2.INTER_LINEAR))


def _generate_smears(shape: tuple[int, int], dirt: Dirt) -> Floats:
    """Return the thickness (h, w) of smears, 0 to 1: smooth noise above the quantile of coverage."""
    if dirt.coverage <= 0:
        return np.zeros(shape, np.float32)
    height, width = shape
    cells = max(4, math.ceil(2 / dirt.size))
    noise = derive_rng(dirt.seed, "dirt").standard_normal(
        (math.ceil(cells * height / width) + 4, cells + 4)
    )
    smooth = cv2.resize(
        cv2.GaussianBlur(noise.astype(np.float32), (0, 0), 1.0),
        (width, height),
        interpolation=cv2.INTER_CUBIC,
    )
    level, peak = np.quantile(smooth, 1 - dirt.coverage), smooth.max()
    return np.asarray(np.clip((smooth - level) / max(peak - level, 1e-6), 0, 1), dtype=np.float32)
