"""Time-of-flight depth camera: depth from the phase of modulated light, in electrons.

The light of a pixel is a complex number of modulated amplitude and phase. Blur and scatter add
these numbers, so a pixel on an edge reads an intermediate depth.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.render.depth.infrared import DepthCameraInput, compute_ray_lengths
from sim2cam.render.gbuffer import PinholeView
from sim2cam.scene.depth_camera import SPEED_OF_LIGHT_M_S, TimeOfFlight

Floats = NDArray[np.float32]


def measure_time_of_flight(
    view: PinholeView, inputs: DepthCameraInput, camera: TimeOfFlight
) -> Floats:
    """Return the measured depth (h, w), 0 without a reading. Deterministic.

    The noise is that of four samples per period: a standard deviation of
    c / (4 pi f) sqrt(B / 2) / A for A modulated of B electrons per sample (Lange and Seitz 2001,
    "Solid-state time-of-flight range camera"). Phase unwrapping is assumed to be free of errors.
    Multipath interference is not modelled.
    """
    ray_lengths = compute_ray_lengths(view)
    distance = inputs.depth_m * ray_lengths
    signal, ambient = _collect_electrons(distance, inputs.returned_light, camera)
    radians_per_m = np.float32(4 * np.pi * camera.modulation_hz / SPEED_OF_LIGHT_M_S)
    phasor = np.exp(1j * radians_per_m * distance)
    modulated = camera.modulation_contrast * signal * phasor
    arriving = _apply_lens_blur(modulated.real, camera) + 1j * _apply_lens_blur(
        modulated.imag, camera
    )
    charge = _apply_lens_blur(signal + ambient, camera)

    measured = arriving + _sample_noise(charge, camera)
    error_m = np.angle(measured * phasor.conj()) / radians_per_m
    depth = np.mod(distance + error_m, np.float32(camera.ambiguity_m)) / ray_lengths
    is_valid = (np.abs(measured) >= camera.min_amplitude_e) & (charge <= camera.full_well_e)
    is_valid &= (depth >= camera.min_range_m) & (depth <= camera.max_range_m) & (inputs.depth_m > 0)
    return np.where(is_valid, depth, np.float32(0))


def _collect_electrons(
    distance: Floats, returned: Floats, camera: TimeOfFlight
) -> tuple[Floats, Floats]:
    """Return electrons (h, w) of the lamp and of ambient light, before lens blur."""
    lit = np.where(distance > 0, returned, np.float32(0))
    # without the inverse-square falloff, returned light is about the reflectance
    reflectance = np.minimum(lit * distance * distance, 1)
    return _as_float32(camera.signal_e * lit), _as_float32(camera.ambient_e * reflectance)


def _apply_lens_blur(light: Floats, camera: TimeOfFlight) -> Floats:
    """Return the light (h, w) after blur and scatter of the lens."""
    sharp = light
    if camera.blur_px > 0:
        edge = cv2.BORDER_REPLICATE
        sharp = _as_float32(cv2.GaussianBlur(light, (0, 0), camera.blur_px, borderType=edge))
    return _as_float32((1 - camera.scatter_share) * sharp + camera.scatter_share * light.mean())


def _sample_noise(charge: Floats, camera: TimeOfFlight) -> NDArray[np.complex64]:
    """Return the noise (h, w) of I + iQ, each half a difference of two samples."""
    rng = np.random.default_rng(camera.noise_seed)
    normal = rng.standard_normal((2, *charge.shape), dtype=np.float32)
    sigma = np.sqrt((charge + np.float32(camera.read_noise_e**2)) / 2)
    return np.asarray(sigma * (normal[0] + 1j * normal[1]), dtype=np.complex64)


def _as_float32(values: NDArray[Any]) -> Floats:
    return np.asarray(values, dtype=np.float32)
