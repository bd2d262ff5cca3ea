"""Image sensor and ISP: linear radiance to encoded image, in the order of a camera.

Vignetting and blur; automatic exposure; electrons with noise (EMVA 1288), for full RGB or a colour
filter array with demosaicing and colour correction; shading correction, denoising, white balance, tone
curves, sharpening and chroma blur.
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
    """Output of the sensor.

    Attributes:
        encoded: encoded image file.
        raw: (h, w) uint16 raw image; None without a mosaic.
        auto_settings: automatic exposure and white balance.
    """

    encoded: bytes
    raw: NDArray[np.uint16] | None
    auto_settings: AutoSettings


def capture_image(
    radiance: Floats, sensor: Sensor, previous: PreviousSettings | None = None
) -> CapturedImage:
    """Capture an image. Deterministic.

    Args:
        radiance: (h, w, 3) linear RGB radiance behind the lens.
        sensor: sensor and ISP parameters.
        previous: automatic settings of the previous frame; None for the first frame.
    """
    image, raw, settings = _form_image(radiance, sensor, previous)
    return CapturedImage(_encode_image(image, sensor), raw, settings)


def develop(radiance: Floats, sensor: Sensor) -> NDArray[np.uint8]:
    """Return the image (h, w, 3) RGB uint8 of a first frame, before compression."""
    return _form_image(radiance, sensor, None)[0]


def _encode_image(image: NDArray[np.uint8], sensor: Sensor) -> bytes:
    if sensor.file_format == "png":
        return images.encode_png(image)
    subsampling = (sensor.processing or Processing()).jpeg_subsampling
    return images.encode_jpeg(image, sensor.jpeg_quality, subsampling)


def _form_image(
    radiance: Floats, sensor: Sensor, previous: PreviousSettings | None
) -> tuple[NDArray[np.uint8], NDArray[np.uint16] | None, AutoSettings]:
    """Return the image (h, w, 3), the raw image (h, w) and the automatic settings."""
    light = _apply_vignetting_and_blur(radiance, sensor)
    settings = choose_settings(light, sensor.automatics, previous)
    light *= settings.gain
    light *= 2**sensor.exposure_ev
    linear, raw = _read_sensor(light, sensor)
    return _apply_isp(linear, sensor, settings), raw, settings


def _read_sensor(light: Floats, sensor: Sensor) -> tuple[Floats, NDArray[np.uint16] | None]:
    """Return linear RGB (h, w, 3), 0 to 1, and the raw image (h, w) with a mosaic."""
    if sensor.mosaic is None:
        return _add_sensor_noise(light, sensor), None
    processing = sensor.processing or Processing()
    raw = simulate_raw(light, sensor, sensor.mosaic)
    return demosaic_raw(
        raw, sensor, sensor.mosaic, processing.demosaic, processing.color_correction
    ), raw


def _apply_isp(linear: Floats, sensor: Sensor, auto_settings: AutoSettings) -> NDArray[np.uint8]:
    """Return the image (h, w, 3) RGB uint8; overwrites ``linear``."""
    processing = sensor.processing or Processing()
    if processing.shading_correction:
        falloff = _compute_vignetting(linear.shape, sensor.vignetting)
        correction = 1 + np.float32(processing.shading_correction) * (falloff - 1)
        linear /= correction[..., None]
    gains = [
        sensor.red_gain * auto_settings.red_gain,
        1.0,
        sensor.blue_gain * auto_settings.blue_gain,
    ]
    denoised = _denoise(linear, sensor.denoise)
    balanced = cv2.transform(denoised, np.diag(gains).astype(np.float32), denoised)
    compressed = compress_local_tone(np.asarray(balanced, dtype=np.float32), processing.local_tone)
    image = encode_srgb(
        apply_tone_curve(compressed, sensor.tone_contrast, sensor.tone_shoulder, sensor.saturation)
    )
    return _blur_chroma(_sharpen(image, sensor.sharpening), processing.chroma_blur_px)


def _apply_vignetting_and_blur(radiance: Floats, sensor: Sensor) -> Floats:
    """Return the light (h, w, 3) at the sensor."""
    light = np.asarray(
        cv2.merge([_compute_vignetting(radiance.shape, sensor.vignetting)] * 3), np.float32
    )
    light *= radiance
    return _blur(light, sensor.blur_px)


def _compute_vignetting(shape: tuple[int, ...], strength: float) -> Floats:
    """Return the relative illumination (h, w): 1 in the centre, 1 - strength in the corners."""
    y, x = np.ogrid[-1 : 1 : shape[0] * 1j, -1 : 1 : shape[1] * 1j]
    return np.asarray(1 - strength * (x * x + y * y) / 2, dtype=np.float32)


def _blur(light: Floats, sigma_px: float) -> Floats:
    if sigma_px <= 0:
        return light
    return np.asarray(cv2.GaussianBlur(light, (0, 0), sigma_px, light), dtype=np.float32)


def _add_sensor_noise(light: Floats, sensor: Sensor) -> Floats:
    """Add sensor noise in place; Poisson noise is approximated as normal."""
    rng = np.random.default_rng(sensor.noise_seed)
    clipped = np.clip(light, 0, 1, out=light)
    full_wells = _compute_full_wells(sensor)
    noise = np.asarray(clipped / full_wells, dtype=np.float32)
    noise += (sensor.read_noise_e / full_wells) ** 2
    np.sqrt(noise, out=noise)
    noise *= sample_standard_normal(rng, clipped.shape)
    clipped += noise
    return np.asarray(np.clip(clipped, 0, 1, out=clipped))


def _compute_full_wells(sensor: Sensor) -> float | Floats:
    """Return the electrons at white, per channel (3,) if they differ."""
    if sensor.red_response == sensor.blue_response == 1:
        return sensor.full_well_e  # division by a scalar is much faster
    shares = np.array([sensor.red_response, 1, sensor.blue_response], np.float32)
    return np.asarray(sensor.full_well_e * shares, dtype=np.float32)


def _denoise(linear: Floats, strength: float) -> Floats:
    """Blend with a median-filtered image, which resembles simple in-camera denoising."""
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
    blurred = cv2.GaussianBlur(image, (0, 0), _SHARPENING_SIGMA_PX)
    return np.asarray(cv2.addWeighted(image, 1 + weight, blurred, -weight, 0), dtype=np.uint8)


def _blur_chroma(image: NDArray[np.uint8], sigma_px: float) -> NDArray[np.uint8]:
    """Blur chroma and keep luma (Y of ITU-R BT.601)."""
    if sigma_px <= 0:
        return image
    luma, *chroma = cv2.split(cv2.cvtColor(image, cv2.COLOR_RGB2YCrCb))
    blurred = (cv2.GaussianBlur(plane, (0, 0), sigma_px) for plane in chroma)
    return np.asarray(cv2.cvtColor(cv2.merge([luma, *blurred]), cv2.COLOR_YCrCb2RGB), np.uint8)
