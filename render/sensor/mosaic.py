"""Mosaic: the numbers that a sensor with one colour filter a pixel gives, and colour from them.

Signal, noise and saturation are those of EMVA 1288: shot noise, dark current with its own shot
noise, read noise, gains and offsets that differ from pixel to pixel, and rounding.
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.render.sensor.noise import sample_standard_normal
from sim2cam.scene.sensor import Demosaic, Mosaic, Sensor
from sim2cam.seeds import derive_rng

Floats = NDArray[np.float32]

_MAX_UINT16 = 2**16 - 1  # in its 16 bits colour is interpolated


def simulate_raw(light: Floats, sensor: Sensor, mosaic: Mosaic) -> NDArray[np.uint16]:
    """Return the raw picture (h, w): of each pixel what passes its filter, as the sensor reads it.

    Args:
        light: (h, w, 3) linear RGB; 1 is the white at which green is full.
        sensor: its electrons, responses, read noise and seed.
        mosaic: the filters, and everything else that is added.
    """
    electrons = sensor.full_well_e * _apply_color_filters(light, sensor, mosaic)
    gathered = _add_raw_noise(electrons, sensor, mosaic)
    black, white = mosaic.black_level(), mosaic.white_level()
    per_electron = np.float32((white - black) / sensor.full_well_e)
    full = np.minimum(gathered, np.float32(sensor.full_well_e))
    return np.asarray(np.clip(np.rint(black + per_electron * full), 0, white), dtype=np.uint16)


def demosaic_raw(
    raw: NDArray[np.uint16],
    sensor: Sensor,
    mosaic: Mosaic,
    demosaic: Demosaic,
    correction_strength: float,
) -> Floats:
    """Return linear RGB (h, w, 3), 0 to 1, of a raw picture: white is white, and clipped as one.

    Args:
        raw: as ``counted`` gives it.
        sensor, mosaic: what gave it.
        demosaic: how the two other colours of a pixel are guessed.
        correction_strength: of the crosstalk that is undone.
    """
    black, white = mosaic.black_level(), mosaic.white_level()
    name = f"COLOR_Bayer{mosaic.pattern}2RGB" + ("_EA" if demosaic == "edge_aware" else "")
    stretched = np.rint(raw * np.float32(_MAX_UINT16 / white)).astype(np.uint16)
    whole = cv2.cvtColor(stretched, getattr(cv2, name)) * np.float32(white / _MAX_UINT16)
    linear = (whole - black) / np.float32(white - black)  # below 0 too: that is noise
    balanced = np.minimum(
        linear / np.array([sensor.red_response, 1, sensor.blue_response], np.float32), 1
    )
    if mosaic.crosstalk and correction_strength:
        undone = np.linalg.inv(
            _make_crosstalk_matrix(mosaic.crosstalk)
        ) * correction_strength + np.eye(3) * (1 - correction_strength)
        balanced = cv2.transform(balanced, undone.astype(np.float32))
    return np.asarray(np.clip(balanced, 0, 1), dtype=np.float32)


def _make_crosstalk_matrix(amount: float) -> NDArray[np.float64]:
    """Return what filters pass (3, 3) of red, green and blue; each as much of white."""
    return np.asarray(np.full((3, 3), amount) + np.eye(3) * (1 - 3 * amount))


def _apply_color_filters(light: Floats, sensor: Sensor, mosaic: Mosaic) -> Floats:
    """Return what passes the filters (h, w)."""
    passed = np.maximum(light, 0)
    if mosaic.crosstalk:
        passed = cv2.transform(passed, _make_crosstalk_matrix(mosaic.crosstalk).astype(np.float32))
    response = {"R": sensor.red_response, "G": 1.0, "B": sensor.blue_response}
    plane = np.zeros(light.shape[:2], np.float32)
    for place, color in enumerate(mosaic.pattern):
        rows, columns = slice(place // 2, None, 2), slice(place % 2, None, 2)
        plane[rows, columns] = response[color] * passed[rows, columns, "RGB".index(color)]
    return plane


def _add_raw_noise(electrons: Floats, sensor: Sensor, mosaic: Mosaic) -> Floats:
    """Return the electrons (h, w) that are read; Poisson laws are drawn as normal ones."""
    mean = electrons + np.float32(mosaic.dark_e)
    if mosaic.prnu:
        mean = mean + np.float32(mosaic.prnu) * electrons * _sample_fixed_pattern(
            "gains", mosaic, mean.shape
        )
    if mosaic.hot_share:
        _add_hot_pixels(mean, mosaic)
    rng = np.random.default_rng(sensor.noise_seed)
    variance = np.maximum(mean, 0) + np.float32(sensor.read_noise_e**2)
    read = mean + sample_standard_normal(rng, mean.shape) * np.sqrt(variance)
    if mosaic.row_noise_e:
        rows = sample_standard_normal(rng, (len(mean), 1))
        read = read + np.float32(mosaic.row_noise_e) * rows
    if mosaic.dsnu_e:
        read = read + np.float32(mosaic.dsnu_e) * _sample_fixed_pattern(
            "offsets", mosaic, mean.shape
        )
    return np.asarray(read, dtype=np.float32)


def _sample_fixed_pattern(name: str, mosaic: Mosaic, shape: tuple[int, ...]) -> Floats:
    """Return normal numbers (h, w) that are the same in every picture of a camera."""
    return sample_standard_normal(derive_rng(mosaic.pattern_seed, name), shape)


def _add_hot_pixels(electrons: Floats, mosaic: Mosaic) -> None:
    rng = derive_rng(mosaic.pattern_seed, "hot pixels")
    count = rng.binomial(electrons.size, mosaic.hot_share)
    places = rng.choice(electrons.size, count, replace=False)
    electrons.flat[places] += rng.exponential(mosaic.hot_e, count).astype(np.float32)
