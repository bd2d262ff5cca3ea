"""Glass: what a lens does to the light of a picture, besides bending it.

Each step takes linear light (h, w, 3) and the numbers of one part, and returns linear light.
"""

from __future__ import annotations

import math

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import affine_transform

from sim2cam.geometry.lens import Lens
from sim2cam.render.optics.defocus import apply_defocus, compute_blur_radius
from sim2cam.scene.camera import Camera
from sim2cam.scene.lens_effects import Dirt, Droplets, FieldBlur, Glare, LateralColor
from sim2cam.seeds import derive_rng

Floats = NDArray[np.float32]

_DOWNSCALE = 4  # pixels a side over which wide spreads are first averaged
_BLOOM_SCALES = (1, 2, 4)
_GHOST_BLUR_FRACTION = 0.01  # of the width
_FIELD_VARIANCE_FRACTIONS = (
    0.25,
    1.0,
)  # of the variance in the corners, at which the picture is blurred
_DIRT_SCATTER_FRACTION = 0.5  # of the light that dirt takes
_DROPLET_ZOOM = 4.0  # a drop shows what is this many times as wide
_DROPLET_BLUR = 0.25  # of its radius, which is far out of focus
_DROPLET_RIM = 0.3  # of its radius over which it fades


def apply_lens_effects(radiance: Floats, camera: Camera, depth_m: Floats) -> Floats:
    """Return the light (h, w, 3) behind a camera's lens; what has no depth is infinitely far.

    Args:
        radiance: (h, w, 3) linear RGB, where the lens projects it.
        camera: with its glass.
        depth_m: (h, w) depth of what is seen, 0 where nothing is.
    """
    glass, light = camera.glass, radiance
    if glass is None:
        return radiance
    if glass.defocus:
        focal_px = _compute_central_focal_px(camera.lens, camera.width, camera.height)
        light = apply_defocus(light, compute_blur_radius(depth_m, glass.defocus, focal_px))
    if glass.droplets:
        light = apply_droplets(light, glass.droplets)
    if glass.dirt:
        light = apply_dirt(light, glass.dirt)
    if glass.lateral_color:
        light = apply_lateral_color(light, glass.lateral_color, _get_principal_point(camera.lens))
    if glass.field_blur:
        light = apply_field_blur(light, glass.field_blur)
    if glass.glare:
        light = apply_glare(light, glass.glare, _get_principal_point(camera.lens))
    return light


def apply_lateral_color(
    light: Floats, lateral_color: LateralColor, center_px: tuple[float, float]
) -> Floats:
    """Return red and blue enlarged about a pixel, along cubic splines; green as it is.

    OpenCV's cubic interpolation moves edges up to half as far again as it is asked to, by less than a
    pixel; splines move them right.
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


def apply_field_blur(light: Floats, blur: FieldBlur) -> Floats:
    """Return light under a point spread whose standard deviation grows linearly from the middle.

    The variance is right everywhere: that of a mixture is the mixture of the variances.
    """
    if blur.corner_px <= 0:
        return light
    height, width = light.shape[:2]
    y, x = np.mgrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j]
    share = np.asarray((x * x + y * y) / 2, dtype=np.float32)[..., None]
    half, full = (
        np.asarray(cv2.GaussianBlur(light, (0, 0), blur.corner_px * math.sqrt(part)))
        for part in _FIELD_VARIANCE_FRACTIONS
    )
    knee = _FIELD_VARIANCE_FRACTIONS[0]
    inner = light + (half - light) * np.minimum(share / knee, 1)
    return np.asarray(inner + (full - half) * np.maximum((share - knee) / (1 - knee), 0))


def apply_glare(light: Floats, glare: Glare, center_px: tuple[float, float]) -> Floats:
    """Return light of which shares go astray; what is beside the picture is as bright as its mean."""
    kept = np.float32(1 - glare.veil - glare.bloom - glare.ghost)
    spread = kept * light
    if glare.veil:
        spread = spread + np.float32(glare.veil) * light.mean(axis=(0, 1))
    if glare.bloom:
        spread = spread + np.float32(glare.bloom) * _compute_bloom(light, glare.bloom_radius)
    if glare.ghost:
        soft, mean = (
            _blur_downscaled(light, _GHOST_BLUR_FRACTION * light.shape[1]),
            light.mean(axis=(0, 1)),
        )
        ghost = _scale_about(soft, -glare.ghost_scale, center_px, tuple(mean.tolist()))
        spread = spread + np.float32(glare.ghost) * ghost
    return np.asarray(spread, dtype=np.float32)


def apply_dirt(light: Floats, dirt: Dirt) -> Floats:
    """Return light behind smears, which take some of it and scatter half of that."""
    taken = np.float32(dirt.loss) * _generate_smears(light.shape[:2], dirt)[..., None]
    scattered = (taken * light).mean(axis=(0, 1)) * np.float32(_DIRT_SCATTER_FRACTION)
    return np.asarray(light * (1 - taken) + scattered)


def apply_droplets(light: Floats, droplets: Droplets) -> Floats:
    """Return light with drops before it, each of which shows a wide part upside down, blurred."""
    if droplets.count == 0:
        return light
    height, width = light.shape[:2]
    rng = derive_rng(droplets.seed, "droplets")
    centres = rng.uniform(0, (width, height), (droplets.count, 2))
    radii = droplets.radius * width * rng.uniform(0.5, 1, droplets.count)
    y, x = np.mgrid[:height, :width].astype(np.float32)
    map_x, map_y, cover = x.copy(), y.copy(), np.zeros((height, width), np.float32)
    for (cx, cy), radius in zip(centres.tolist(), radii.tolist(), strict=True):
        away = np.hypot(x - cx, y - cy) / np.float32(radius)
        inside = away < 1
        map_x[inside] = cx - _DROPLET_ZOOM * (x[inside] - cx)
        map_y[inside] = cy - _DROPLET_ZOOM * (y[inside] - cy)
        cover = np.maximum(cover, np.clip((1 - away) / _DROPLET_RIM, 0, 1))
    blurred = _blur_downscaled(light, _DROPLET_BLUR * _DROPLET_ZOOM * float(radii.mean()))
    seen = cv2.remap(blurred, map_x, map_y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT_101)
    return np.asarray(light + cover[..., None] * (seen - light))


def _compute_central_focal_px(lens: Lens, width: int, height: int) -> float:
    """Return the focal length of a lens in the middle of its picture, across."""
    middle = np.array([(width - 1) / 2, (height - 1) / 2])
    left, right = lens.unproject(middle + np.array([[-0.5, 0.0], [0.5, 0.0]]))
    return 1 / math.atan2(float(np.linalg.norm(np.cross(left, right))), float(left @ right))


def _get_principal_point(lens: Lens) -> tuple[float, float]:
    return lens.cx_px, lens.cy_px


def _scale_about(
    light: Floats,
    scale: float,
    center_px: tuple[float, float],
    border_value: tuple[float, ...] | None = None,
) -> Floats:
    """Return a picture some times as large about a pixel; below 0, upside down.

    Args:
        light: (h, w) or (h, w, 3).
        scale: not 0.
        center_px: the pixel (x, y) that stays.
        border_value: light beyond the edges; None for that of the nearest pixel.
    """
    height, width = light.shape[:2]
    to_source = np.array(
        [
            [1 / scale, 0, center_px[0] * (1 - 1 / scale)],
            [0, 1 / scale, center_px[1] * (1 - 1 / scale)],
        ]
    )
    found = cv2.warpAffine(
        light,
        to_source,
        (width, height),
        flags=cv2.INTER_CUBIC | cv2.WARP_INVERSE_MAP,
        borderMode=cv2.BORDER_REPLICATE if border_value is None else cv2.BORDER_CONSTANT,
        borderValue=border_value or (0.0,),
    )
    return np.asarray(np.maximum(found, 0))


def _compute_bloom(light: Floats, radius_fraction: float) -> Floats:
    wide = [
        _blur_downscaled(light, radius_fraction * scale * light.shape[1]) for scale in _BLOOM_SCALES
    ]
    return np.asarray(sum(wide) / np.float32(len(wide)))


def _blur_downscaled(light: Floats, sigma_px: float) -> Floats:
    """Return light under a wide normal law, computed on a coarser grid where that is enough."""
    height, width = light.shape[:2]
    coarse = max(1, min(_DOWNSCALE, int(sigma_px)))
    small = cv2.resize(
        light, (-(-width // coarse), -(-height // coarse)), interpolation=cv2.INTER_AREA
    )
    soft = cv2.GaussianBlur(
        small, (0, 0), max(sigma_px / coarse, 0.1), borderType=cv2.BORDER_REFLECT_101
    )
    return np.asarray(cv2.resize(soft, (width, height), interpolation=cv2.INTER_LINEAR))


def _generate_smears(shape: tuple[int, int], dirt: Dirt) -> Floats:
    """Return how thick (h, w) smears are, 0 to 1: smooth noise above the level of their coverage."""
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
    level, most = np.quantile(smooth, 1 - dirt.coverage), smooth.max()
    return np.asarray(np.clip((smooth - level) / max(most - level, 1e-6), 0, 1), dtype=np.float32)
