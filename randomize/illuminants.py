"""Colours of light: black bodies, the sun through the air, and the sky."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim2cam.geometry.poses import Vec3, vec3
from sim2cam.scene.material import Color

Floats = NDArray[np.float64]

SOLAR_K = 5778.0

_PLANCK_NM_K = 1.438777e7  # hc/k
_XYZ_TO_SRGB = np.array(
    [
        [3.2404542, -1.5371385, -0.4985314],
        [-0.9692660, 1.8760108, 0.0415560],
        [0.0556434, -0.2040259, 1.0572252],
    ]
)  # IEC 61966-2-1
_RGB_WAVELENGTHS_UM = np.array([0.61, 0.55, 0.465])  # about where the three colours lie
_OVERCAST_SKY, _CLEAR_SKY = (0.4, 6500.0), (0.75, 12000.0)  # transmittance and colour of such a sky


@functools.lru_cache(maxsize=4096)
def compute_blackbody_color(kelvin: float) -> Color:
    """Return the linear sRGB of a black body of a temperature, of luminance 1.

    Planck's law, seen by the CIE 1931 observer as Wyman, Sloan and Shirley (2013, "Simple analytic
    approximations to the CIE XYZ color matching functions") have it. What is redder or bluer than
    sRGB holds ends at 0.
    """
    nm = np.arange(360.0, 831.0, 5.0)
    power = nm**-5 / np.expm1(_PLANCK_NM_K / (nm * kelvin))
    xyz = _compute_color_matching(nm) @ power
    rgb = np.maximum(_XYZ_TO_SRGB @ (xyz / xyz[1]), 0)
    return vec3(rgb)


def compute_tint(kelvin: float, white_k: float) -> Color:
    """Return the colour of a light for a camera to which light of another temperature is white.

    Its channels are scaled one by one (von Kries), and their mean is 1.
    """
    rgb = np.divide(
        compute_blackbody_color(kelvin), np.maximum(compute_blackbody_color(white_k), 1e-3)
    )
    return vec3(rgb / rgb.mean())


@dataclass(frozen=True)
class Daylight:
    """The light of a time of day, over that of the sun outside the air.

    Attributes:
        elevation_rad, azimuth_rad: of the sun; the azimuth from north over east.
        sun: linear RGB irradiance facing it.
        sky: linear RGB radiance of the sky, taken to be even.
    """

    elevation_rad: float
    azimuth_rad: float
    sun: Color
    sky: Color


def compute_daylight(
    hour: float, day: float, latitude_rad: float, transmittance: float, white_k: float
) -> Daylight:
    """Return the light of a time and place; dark at night.

    The sun's beam and what the air scatters of it follow Campbell and Norman (1998, "An introduction
    to environmental biophysics", chapter 11), the sun's colour Rayleigh's law. That skies go from
    6500 K when overcast to 12,000 K when clear is our choice.

    Args:
        hour: by the sun, 12 is noon.
        day: of the year.
        latitude_rad: of the place, north positive.
        transmittance: of the air straight up: 0.75 on the clearest days, 0.4 and less overcast.
        white_k: temperature of what the camera takes for white.
    """
    elevation, azimuth = compute_sun_position(hour, day, latitude_rad)
    up = math.sin(elevation)
    if up <= 0:
        return Daylight(elevation, azimuth, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    mass = compute_air_mass(elevation)
    beam = transmittance**mass
    reddened = np.multiply(
        compute_tint(SOLAR_K, white_k), np.exp(-mass * _compute_rayleigh_depth())
    )
    scattered = 0.3 * (1 - beam) * up / math.pi
    share = (transmittance - _OVERCAST_SKY[0]) / (_CLEAR_SKY[0] - _OVERCAST_SKY[0])
    kelvin = _OVERCAST_SKY[1] + min(1.0, max(0.0, share)) * (_CLEAR_SKY[1] - _OVERCAST_SKY[1])
    sun = vec3(beam * reddened / reddened.mean())
    return Daylight(
        elevation, azimuth, sun, vec3(np.multiply(compute_tint(kelvin, white_k), scattered))
    )


def compute_sun_position(hour: float, day: float, latitude_rad: float) -> tuple[float, float]:
    """Return elevation and azimuth (from north over east) of the sun."""
    tilt = -math.radians(23.44) * math.cos(2 * math.pi * (day + 10) / 365)
    turn = math.radians(15) * (hour - 12)
    east = -math.cos(tilt) * math.sin(turn)
    north = math.cos(latitude_rad) * math.sin(tilt) - math.sin(latitude_rad) * math.cos(
        tilt
    ) * math.cos(turn)
    up = math.sin(latitude_rad) * math.sin(tilt) + math.cos(latitude_rad) * math.cos(
        tilt
    ) * math.cos(turn)
    return math.asin(max(-1.0, min(1.0, up))), math.atan2(east, north) % (2 * math.pi)


def compute_air_mass(elevation_rad: float) -> float:
    """Return how much air lies before the sun, over that straight up (Kasten and Young 1989)."""
    degrees = math.degrees(elevation_rad)
    return 1 / (math.sin(elevation_rad) + 0.50572 * math.pow(degrees + 6.07995, -1.6364))


def direction_vector(elevation_rad: float, azimuth_rad: float) -> Vec3:
    """Return the unit vector in that direction, the azimuth from x to y."""
    level = math.cos(elevation_rad)
    return (
        level * math.cos(azimuth_rad),
        level * math.sin(azimuth_rad),
        math.sin(elevation_rad),
    )


def _compute_rayleigh_depth() -> Floats:
    """Return how deep the air is for the three colours (3,), by the fourth power of the wavelength."""
    return np.asarray(0.0088 * _RGB_WAVELENGTHS_UM**-4.0)


def _compute_color_matching(nm: Floats) -> Floats:
    """Return the colour matching functions (3, n) at wavelengths (n,)."""

    def lobe(height: float, middle: float, left: float, right: float) -> Floats:
        rate = np.where(nm < middle, left, right)
        return np.asarray(height * np.exp(-0.5 * ((nm - middle) * rate) ** 2))

    x = lobe(0.362, 442.0, 0.0624, 0.0374) + lobe(1.056, 599.8, 0.0264, 0.0323)
    x += lobe(-0.065, 501.1, 0.0490, 0.0382)
    y = lobe(0.821, 568.8, 0.0213, 0.0247) + lobe(0.286, 530.9, 0.0613, 0.0322)
    z = lobe(1.217, 437.0, 0.0845, 0.0278) + lobe(0.681, 459.0, 0.0385, 0.0725)
    return np.stack([x, y, z])
