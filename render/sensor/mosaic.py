"""Raw images of a colour filter array, and demosaicing.

Signal and noise follow EMVA 1288: shot noise, dark current, read noise, fixed-pattern gains and
offsets, saturation and quantization.
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.render.sensor.noise import sample_standard_normal
from sim2cam.scene.sensor import Demosaic, Mosaic, Sensor
from sim2cam.seeds import derive_rng

Floats = NDArray[np.float32]

_MAX_UINT16 = 2**16 - 1  # demosaicing works in 16 bits


def simulate_raw(light: Floats, sensor: Sensor, mosaic: Mosaic) -> NDArray[np.uint16]:
    """Simulate the raw image (h, w) of a sensor with a colour filter array.

    Args:
        light: (h, w, 3) linear RGB; green saturates at 1.
        sensor: full well, responses, read noise and seed.
        mosaic: filter pattern, crosstalk, noise and levels.
    """
    electrons = sensor.full_well_e * _apply_color_filters(light, sensor, mosaic)
    noisy = _add_raw_noise(electrons, sensor, mosaic)
    black, white = mosaic.black_level(), mosaic.white_level()
    per_electron = np.float32((white - black) / sensor.full_well_e)
    clipped = np.minimum(noisy, np.float32(sensor.full_well_e))
    return np.asarray(np.clip(np.rint(black + per_electron * clipped), 0, white), dtype=np.uint16)


def demosaic_raw(
    raw: NDArray[np.uint16],
    sensor: Sensor,
    mosaic: Mosaic,
    demosaic: Demosaic,
    correction_strength: float,
) -> Floats:
    """Return linear RGB (h, w, 3), 0 to 1, of a raw image.

    Channels are scaled to equal white and clipped at the same level.

    Args:
        raw: (h, w) raw image of ``simulate_raw``.
        sensor, mosaic: parameters of that image.
        demosaic: interpolation method.
        correction_strength: share of the crosstalk to correct, 0 to 1.
    """
    black, white = mosaic.black_level(), mosaic.white_level()
    name = f"COLOR_Bayer{mosaic.pattern}2RGB" + ("_EA" if demosaic == "edge_aware" else "")
    stretched = np.rint(raw * np.float32(_MAX_UINT16 / white)).astype(np.uint16)
    interpolated = cv2.cvtColor(stretched, getattr(cv2, name)) * np.float32(white / _MAX_UINT16)
    linear = (interpolated - black) / np.float32(white - black)  # noise goes below 0
    balanced = np.minimum(
        linear / np.array([sensor.red_response, 1, sensor.blue_response], np.float32), 1
    )
    if mosaic.crosstalk and correction_strength:
        correction = np.linalg.inv(
            _make_crosstalk_matrix(mosaic.crosstalk)
        ) * correction_strength + np.eye(3) * (1 - correction_strength)
        balanced = cv2.transform(balanced, correction.astype(np.float32))
    return np.asarray(np.clip(balanced, 0, 1), dtype=np.float32)


def _make_crosstalk_matrix(amount: float) -> NDArray[np.float64]:
    """Return the crosstalk matrix (3, 3); its rows add up to 1."""
    return np.asarray(np.full((3, 3), amount) + np.eye(3) * (1 - 3 * amount))


def _apply_color_filters(light: Floats, sensor: Sensor, mosaic: Mosaic) -> Floats:
    """Return the light (h, w) behind the colour filters."""
    filtered = np.maximum(light, 0)
    if mosaic.crosstalk:
        filtered = cv2.transform(
            filtered, _make_crosstalk_matrix(mosaic.crosstalk).astype(np.float32)
        )
    response = {"R": sensor.red_response, "G": 1.0, "B": sensor.blue_response}
    plane = np.zeros(light.shape[:2], np.float32)
    for index, color in enumerate(mosaic.pattern):
        rows, columns = slice(index // 2, None, 2), slice(index % 2, None, 2)
        plane[rows, columns] = response[color] * filtered[rows, columns, "RGB".index(color)]
    return plane


def _add_raw_noise(electrons: Floats, sensor: Sensor, mosaic: Mosaic) -> Floats:
    """Return the electrons (h, w) with noise; Poisson noise is approximated as normal."""
    mean = electrons + np.float32(mosaic.dark_e)
    if mosaic.prnu:
        mean = mean + np.float32(mosaic.prnu) * electrons * _sample_fixed_pattern(
            "gains", mosaic, mean.shape
        )
    if mosaic.hot_share:
        _add_hot_pixels(mean, mosaic)
    rng = np.random.default_rng(sensor.noise_seed)
    variance = np.maximum(mean, 0) + np.float32(sensor.read_noise_e**2)
    noisy = mean + sample_standard_normal(rng, mean.shape) * np.sqrt(variance)
    if mosaic.row_noise_e:
        row_offsets = sample_standard_normal(rng, (len(mean), 1))
        noisy = noisy + np.float32(mosaic.row_noise_e) * row_offsets
    if mosaic.dsnu_e:
        noisy = noisy + np.float32(mosaic.dsnu_e) * _sample_fixed_pattern(
            "offsets", mosaic, mean.shape
        )
    return np.asarray(noisy, dtype=np.float32)


def _sample_fixed_pattern(name: str, mosaic: Mosaic, shape: tuple[int, ...]) -> Floats:
    """Return standard normal values (h, w) that are the same in all images of a camera."""
    return sample_standard_normal(derive_rng(mosaic.pattern_seed, name), shape)


def _add_hot_pixels(electrons: Floats, mosaic: Mosaic) -> None:
    rng = derive_rng(mosaic.pattern_seed, "hot pixels")
    count = rng.binomial(electrons.size, mosaic.hot_share)
    indices = rng.choice(electrons.size, count, replace=False)
    electrons.flat[indices] += rng.exponential(mosaic.hot_e, count).astype(np.float32)
