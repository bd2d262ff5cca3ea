"""Time of flight: depth from the phase of modulated light, counted in electrons.

The light of each pixel is a complex number: how much is modulated, and by what phase it is late.
Blur and scatter add such numbers, so that a pixel on an edge reads a depth between.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.render.depth.infrared import DepthCameraInput, compute_ray_lengths
from sim2cam.render.rasterizer import PinholeView
from sim2cam.scene.depth_camera import SPEED_OF_LIGHT_M_S, TimeOfFlight

Floats = NDArray[np.float32]


def measure_time_of_flight(
    view: PinholeView, inputs: DepthCameraInput, camera: TimeOfFlight
) -> Floats:
    """Return the depth (h, w) that is read, 0 where none is. Deterministic.

    The noise is that of four samples a period: a standard deviation of c / (4 pi f) sqrt(B / 2) / A
    for A modulated of B electrons a sample (Lange and Seitz 2001, "Solid-state time-of-flight range
    camera"). Several frequencies are taken to count whole periods without mistakes. Light that
    arrives by way of other surfaces is not modelled: the depth map does not know it.
    """
    slant = compute_ray_lengths(view)
    distance = inputs.depth_m * slant
    signal, ambient = _collect_electrons(distance, inputs.returned_light, camera)
    radians_per_m = np.float32(4 * np.pi * camera.modulation_hz / SPEED_OF_LIGHT_M_S)
    turn = np.exp(1j * radians_per_m * distance)
    modulated = camera.modulation_contrast * signal * turn
    arriving = _apply_lens_blur(modulated.real, camera) + 1j * _apply_lens_blur(
        modulated.imag, camera
    )
    charge = _apply_lens_blur(signal + ambient, camera)

    measured = arriving + _sample_noise(charge, camera)
    late_m = np.angle(measured * turn.conj()) / radians_per_m
    read = np.mod(distance + late_m, np.float32(camera.ambiguity_m)) / slant
    good = (np.abs(measured) >= camera.min_amplitude_e) & (charge <= camera.full_well_e)
    good &= (read >= camera.min_range_m) & (read <= camera.max_range_m) & (inputs.depth_m > 0)
    return np.where(good, read, np.float32(0))


def _collect_electrons(
    distance: Floats, returned: Floats, camera: TimeOfFlight
) -> tuple[Floats, Floats]:
    """Return electrons (h, w) of the lamp and of other light, before the lens mixes them."""
    lit = np.where(distance > 0, returned, np.float32(0))
    # Without the falloff, the light that comes back is about the reflectance.
    reflectance = np.minimum(lit * distance * distance, 1)
    return _as_float32(camera.signal_e * lit), _as_float32(camera.ambient_e * reflectance)


def _apply_lens_blur(light: Floats, camera: TimeOfFlight) -> Floats:
    """Return the light (h, w) behind the lens."""
    sharp = light
    if camera.blur_px > 0:
        edge = cv2.BORDER_REPLICATE
        sharp = _as_float32(cv2.GaussianBlur(light, (0, 0), camera.blur_px, borderType=edge))
    return _as_float32((1 - camera.scatter_share) * sharp + camera.scatter_share * light.mean())


def _sample_noise(charge: Floats, camera: TimeOfFlight) -> NDArray[np.complex64]:
    """Return the noise (h, w) of what the four samples make: I and Q, half a difference each."""
    rng = np.random.default_rng(camera.noise_seed)
    normal = rng.standard_normal((2, *charge.shape), dtype=np.float32)
    sigma = np.sqrt((charge + np.float32(camera.read_noise_e**2)) / 2)
    return np.asarray(sigma * (normal[0] + 1j * normal[1]), dtype=np.complex64)


def _as_float32(values: NDArray[Any]) -> Floats:
    return np.asarray(values, dtype=np.float32)
