"""The sensor: linear radiance to the bytes of a JPEG, in the order a camera does it.

Light falls off towards the corners and is blurred; electrons are counted with shot and read noise
(Poisson and Gaussian, EMVA 1288); the camera balances white, filters noise, applies its tone curve
and sharpens.
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.render.textures import encode_srgb
from sim2cam.scene.camera import Sensor

Floats = NDArray[np.float32]

METERED_LEVEL = 0.4
"""Linear level that the meter gives the picture's upper middle: bright, as phones expose."""

_METERED_QUANTILE = 0.6
_HIGHLIGHT_QUANTILE = 0.99
_HIGHLIGHT_LEVEL = 0.95  # the meter darkens rather than lose more than the brightest per cent
_MIDDLE_GREY = 0.18
_SHOULDER = 0.8  # brighter levels are rolled off
_SHARPENING_SIGMA_PX = 1.0


def develop(radiance: Floats, sensor: Sensor, metered: Floats | None = None) -> NDArray[np.uint8]:
    """Returns the picture (h, w, 3) RGB uint8 before compression. Deterministic.

    Args:
        radiance: (h, w, 3) linear RGB.
        sensor: what it falls on.
        metered: radiance that the meter sees, where that is another eye's.
    """
    light = _arriving(radiance, sensor)
    seen = light if metered is None else _arriving(metered, sensor)
    exposed = light * _meter(seen) * 2**sensor.exposure_ev
    noisy = _filtered(_counted(exposed, sensor), sensor.denoise)
    balanced = noisy * np.array([sensor.red_gain, 1.0, sensor.blue_gain], np.float32)
    toned = _toned(balanced, sensor.tone_contrast, sensor.saturation)
    return _sharpened(encode_srgb(toned), sensor.sharpening)


def expose_to_jpeg(radiance: Floats, sensor: Sensor, metered: Floats | None = None) -> bytes:
    """Returns the JPEG file of the picture; see ``develop``."""
    return images.encode_jpeg(develop(radiance, sensor, metered), sensor.jpeg_quality)


def _arriving(radiance: Floats, sensor: Sensor) -> Floats:
    """Returns the light (h, w, 3) that falls on the sensor."""
    return _blurred(radiance * _falloff(radiance.shape, sensor.vignetting), sensor.blur_px)


def _falloff(shape: tuple[int, ...], strength: float) -> Floats:
    """Returns relative light (h, w, 1): 1 in the middle, 1 - strength in the corners."""
    y, x = np.mgrid[-1 : 1 : shape[0] * 1j, -1 : 1 : shape[1] * 1j]
    return np.asarray((1 - strength * (x * x + y * y) / 2)[..., None], dtype=np.float32)


def _blurred(light: Floats, sigma_px: float) -> Floats:
    if sigma_px <= 0:
        return light
    return np.asarray(cv2.GaussianBlur(light, (0, 0), sigma_px), dtype=np.float32)


def _meter(light: Floats) -> float:
    levels = np.quantile(light[::4, ::4].mean(axis=-1), [_METERED_QUANTILE, _HIGHLIGHT_QUANTILE])
    middle, high = np.maximum(levels, 1e-6)
    return float(min(METERED_LEVEL / middle, _HIGHLIGHT_LEVEL / high))


def _counted(exposed: Floats, sensor: Sensor) -> Floats:
    """Returns what the sensor counts; the Poisson law is drawn as a normal one of its variance."""
    rng = np.random.default_rng(sensor.noise_seed)
    clipped = np.clip(exposed, 0, 1)
    variance = clipped / sensor.full_well_e + (sensor.read_noise_e / sensor.full_well_e) ** 2
    noise = rng.standard_normal(clipped.shape, dtype=np.float32)
    return np.asarray(np.clip(clipped + noise * np.sqrt(variance), 0, 1), dtype=np.float32)


def _filtered(noisy: Floats, strength: float) -> Floats:
    """Mixes in a median-filtered picture, which is what cheap in-camera filters look like."""
    if strength <= 0:
        return noisy
    smooth = cv2.medianBlur(np.ascontiguousarray(noisy), 3)
    return np.asarray(noisy + strength * (smooth - noisy), dtype=np.float32)


def _toned(linear: Floats, contrast: float, saturation: float) -> Floats:
    """Applies a power law through middle grey, rolled off at white, and scales colour strength."""
    curved = _MIDDLE_GREY * cv2.pow(np.maximum(linear, 0) / np.float32(_MIDDLE_GREY), contrast)
    bright = curved > _SHOULDER
    room = np.float32(1 - _SHOULDER)
    curved[bright] = 1 - room * np.exp((_SHOULDER - curved[bright]) / room)
    grey = cv2.transform(curved, np.full((1, 3), 1 / 3, np.float32))[..., None]
    return np.asarray(np.clip(grey + np.float32(saturation) * (curved - grey), 0, 1))


def _sharpened(picture: NDArray[np.uint8], weight: float) -> NDArray[np.uint8]:
    if weight <= 0:
        return picture
    soft = cv2.GaussianBlur(picture, (0, 0), _SHARPENING_SIGMA_PX)
    return np.asarray(cv2.addWeighted(picture, 1 + weight, soft, -weight, 0), dtype=np.uint8)
