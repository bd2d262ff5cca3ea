"""The sensor: linear radiance to the bytes of a file, in the order a camera does it.

Light falls off towards the corners and is blurred; the meter chooses the exposure; electrons are
counted with their noise (EMVA 1288), in all colours or behind a mosaic of filters, whose colours are
then interpolated and corrected. The camera balances white, filters noise, applies its tone curves
and sharpens.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.render.sensor.auto_exposure import AutoSettings, PreviousSettings, choose_settings
from sim2cam.render.sensor.mosaic import demosaic_raw, simulate_raw
from sim2cam.render.sensor.noise import sample_standard_normal
from sim2cam.render.sensor.tone import apply_tone_curve, compress_local_tone
from sim2cam.scene.sensor import Processing, Sensor
from sim2cam.surfaces.textures import encode_srgb

Floats = NDArray[np.float32]

_SHARPENING_SIGMA_PX = 1.0


@dataclass(frozen=True, eq=False)
class CapturedImage:
    """What a camera writes.

    Attributes:
        encoded: the picture's.
        raw: (h, w) uint16, what its pixels counted; None without a mosaic.
        auto_settings: what its automatics chose.
    """

    encoded: bytes
    raw: NDArray[np.uint16] | None
    auto_settings: AutoSettings


def capture_image(
    radiance: Floats, sensor: Sensor, previous: PreviousSettings | None = None
) -> CapturedImage:
    """Return the photo of a radiance (h, w, 3), linear RGB. Deterministic.

    Args:
        radiance: what comes through the lens.
        sensor: what it falls on.
        previous: what the camera's automatics chose before; None for a first picture.
    """
    picture, raw, settings = _form_image(radiance, sensor, previous)
    return CapturedImage(_encode_image(picture, sensor), raw, settings)


def develop(radiance: Floats, sensor: Sensor) -> NDArray[np.uint8]:
    """Return the picture (h, w, 3) RGB uint8 of a first photo before compression; see ``take``."""
    return _form_image(radiance, sensor, None)[0]


def _encode_image(image: NDArray[np.uint8], sensor: Sensor) -> bytes:
    if sensor.file_format == "png":
        return images.encode_png(image)
    subsampling = (sensor.processing or Processing()).jpeg_subsampling
    return images.encode_jpeg(image, sensor.jpeg_quality, subsampling)


def _form_image(
    radiance: Floats, sensor: Sensor, previous: PreviousSettings | None
) -> tuple[NDArray[np.uint8], NDArray[np.uint16] | None, AutoSettings]:
    """Return the picture (h, w, 3), the raw one (h, w), and what the automatics chose."""
    light = _apply_vignetting_and_blur(radiance, sensor)
    settings = choose_settings(light, sensor.automatics, previous)
    light *= settings.gain
    light *= 2**sensor.exposure_ev
    linear, raw = _read_sensor(light, sensor)
    return _apply_isp(linear, sensor, settings), raw, settings


def _read_sensor(light: Floats, sensor: Sensor) -> tuple[Floats, NDArray[np.uint16] | None]:
    """Return linear RGB (h, w, 3), 0 to 1, and the raw picture (h, w) that it was made from."""
    if sensor.mosaic is None:
        return _add_sensor_noise(light, sensor), None
    of = sensor.processing or Processing()
    raw = simulate_raw(light, sensor, sensor.mosaic)
    return demosaic_raw(raw, sensor, sensor.mosaic, of.demosaic, of.color_correction), raw


def _apply_isp(linear: Floats, sensor: Sensor, auto_settings: AutoSettings) -> NDArray[np.uint8]:
    """Return the picture (h, w, 3) RGB uint8; the light is used up."""
    processing = sensor.processing or Processing()
    if processing.shading_correction:
        falloff = _compute_vignetting(linear.shape, sensor.vignetting)
        kept = 1 + np.float32(processing.shading_correction) * (falloff - 1)
        linear /= kept[..., None]
    gains = [
        sensor.red_gain * auto_settings.red_gain,
        1.0,
        sensor.blue_gain * auto_settings.blue_gain,
    ]
    quiet = _denoise(linear, sensor.denoise)
    balanced = cv2.transform(quiet, np.diag(gains).astype(np.float32), quiet)
    even = compress_local_tone(np.asarray(balanced, dtype=np.float32), processing.local_tone)
    picture = encode_srgb(
        apply_tone_curve(even, sensor.tone_contrast, sensor.tone_shoulder, sensor.saturation)
    )
    return _blur_chroma(_sharpen(picture, sensor.sharpening), processing.chroma_blur_px)


def _apply_vignetting_and_blur(radiance: Floats, sensor: Sensor) -> Floats:
    """Return the light (h, w, 3) that falls on the sensor."""
    light = np.asarray(
        cv2.merge([_compute_vignetting(radiance.shape, sensor.vignetting)] * 3), np.float32
    )
    light *= radiance
    return _blur(light, sensor.blur_px)


def _compute_vignetting(shape: tuple[int, ...], strength: float) -> Floats:
    """Return relative light (h, w): 1 in the middle, 1 - strength in the corners."""
    y, x = np.ogrid[-1 : 1 : shape[0] * 1j, -1 : 1 : shape[1] * 1j]
    return np.asarray(1 - strength * (x * x + y * y) / 2, dtype=np.float32)


def _blur(light: Floats, sigma_px: float) -> Floats:
    if sigma_px <= 0:
        return light
    return np.asarray(cv2.GaussianBlur(light, (0, 0), sigma_px, light), dtype=np.float32)


def _add_sensor_noise(light: Floats, sensor: Sensor) -> Floats:
    """Return what the sensor counts, in place; the Poisson law is drawn as a normal one."""
    rng = np.random.default_rng(sensor.noise_seed)
    clipped = np.clip(light, 0, 1, out=light)
    full = _compute_full_wells(sensor)
    spread = np.asarray(clipped / full, dtype=np.float32)
    spread += (sensor.read_noise_e / full) ** 2
    np.sqrt(spread, out=spread)
    spread *= sample_standard_normal(rng, clipped.shape)
    clipped += spread
    return np.asarray(np.clip(clipped, 0, 1, out=clipped))


def _compute_full_wells(sensor: Sensor) -> float | Floats:
    """Return the electrons that white is, of each colour (3,) where they differ."""
    if sensor.red_response == sensor.blue_response == 1:
        return sensor.full_well_e  # one number is divided by much faster
    shares = np.array([sensor.red_response, 1, sensor.blue_response], np.float32)
    return np.asarray(sensor.full_well_e * shares, dtype=np.float32)


def _denoise(linear: Floats, strength: float) -> Floats:
    """Mix in a median-filtered picture, which is what cheap in-camera filters look like."""
    if strength <= 0:
        return linear
    smooth = np.asarray(cv2.medianBlur(np.ascontiguousarray(linear), 3), dtype=np.float32)
    smooth -= linear
    smooth *= strength
    smooth += linear
    return smooth


def _sharpen(image: NDArray[np.uint8], weight: float) -> NDArray[np.uint8]:
    if weight <= 0:
        return image
    soft = cv2.GaussianBlur(image, (0, 0), _SHARPENING_SIGMA_PX)
    return np.asarray(cv2.addWeighted(image, 1 + weight, soft, -weight, 0), dtype=np.uint8)


def _blur_chroma(image: NDArray[np.uint8], sigma_px: float) -> NDArray[np.uint8]:
    """Blur what is colour and leaves what is brightness (Y of ITU-R BT.601)."""
    if sigma_px <= 0:
        return image
    brightness, *color = cv2.split(cv2.cvtColor(image, cv2.COLOR_RGB2YCrCb))
    soft = (cv2.GaussianBlur(plane, (0, 0), sigma_px) for plane in color)
    return np.asarray(cv2.cvtColor(cv2.merge([brightness, *soft]), cv2.COLOR_YCrCb2RGB), np.uint8)
