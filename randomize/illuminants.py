"""Colours of illuminants: black bodies, direct sunlight and skylight."""

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
_RGB_WAVELENGTHS_UM = np.array([0.61, 0.55, 0.465])  # approximate dominant wavelengths
_OVERCAST_SKY, _CLEAR_SKY = (0.4, 6500.0), (0.75, 12000.0)  # transmittance, colour temperature


@functools.lru_cache(maxsize=4096)
def compute_blackbody_color(kelvin: float) -> Color:
    """Return the linear sRGB colour of a black body, with luminance 1.

    Planck's law with the CIE 1931 observer in the approximation of Wyman, Sloan and Shirley (2013,
    "Simple analytic approximations to the CIE XYZ color matching functions"). Components outside
    the sRGB gamut are clipped to 0.
    """
    nm = np.arange(360.0, 831.0, 5.0)
    power = nm**-5 / np.expm1(_PLANCK_NM_K / (nm * kelvin))
    xyz = _compute_color_matching(nm) @ power
    rgb = np.maximum(_XYZ_TO_SRGB @ (xyz / xyz[1]), 0)
    return vec3(rgb)


def compute_tint(kelvin: float, white_k: float) -> Color:
    """Return the colour of a light for a camera that is white balanced to another temperature.

    Channels are scaled independently (von Kries); their mean is 1.
    """
    rgb = np.divide(
        compute_blackbody_color(kelvin), np.maximum(compute_blackbody_color(white_k), 1e-3)
    )
    return vec3(rgb / rgb.mean())


@dataclass(frozen=True)
class Daylight:
    """Daylight relative to the solar irradiance outside the atmosphere.

    Attributes:
        elevation_rad, azimuth_rad: position of the sun; azimuth from north over east.
        sun: linear RGB irradiance on a surface that faces the sun.
        sky: linear RGB radiance of a uniform sky.
    """

    elevation_rad: float
    azimuth_rad: float
    sun: Color
    sky: Color


def compute_daylight(
    hour: float, day: float, latitude_rad: float, transmittance: float, white_k: float
) -> Daylight:
    """Return the daylight of a time and place; black at night.

    Direct and diffuse irradiance follow Campbell and Norman (1998, "An introduction to
    environmental biophysics", chapter 11), the colour of the sun follows Rayleigh scattering. The
    sky ranges from 6500 K (overcast) to 12,000 K (clear), a choice of this project.

    Args:
        hour: solar time, 12 is noon.
        day: day of the year.
        latitude_rad: latitude, north positive.
        transmittance: of the atmosphere at the zenith: 0.75 on the clearest days, up to 0.4 if
            overcast.
        white_k: colour temperature that the camera renders as white.
    """
    elevation, azimuth = compute_sun_position(hour, day, latitude_rad)
    sin_elevation = math.sin(elevation)
    if sin_elevation <= 0:
        return Daylight(elevation, azimuth, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    air_mass = compute_air_mass(elevation)
    direct = transmittance**air_mass
    sun_color = np.multiply(
        compute_tint(SOLAR_K, white_k), np.exp(-air_mass * _compute_rayleigh_depth())
    )
    diffuse = 0.3 * (1 - direct) * sin_elevation / math.pi
    share = (transmittance - _OVERCAST_SKY[0]) / (_CLEAR_SKY[0] - _OVERCAST_SKY[0])
    kelvin = _OVERCAST_SKY[1] + min(1.0, max(0.0, share)) * (_CLEAR_SKY[1] - _OVERCAST_SKY[1])
    sun = vec3(direct * sun_color / sun_color.mean())
    return Daylight(
        elevation, azimuth, sun, vec3(np.multiply(compute_tint(kelvin, white_k), diffuse))
    )


def compute_sun_position(hour: float, day: float, latitude_rad: float) -> tuple[float, float]:
    """Return elevation and azimuth (from north over east) of the sun in radians."""
    declination = -math.radians(23.44) * math.cos(2 * math.pi * (day + 10) / 365)
    hour_angle = math.radians(15) * (hour - 12)
    sin_lat, cos_lat = math.sin(latitude_rad), math.cos(latitude_rad)
    sin_dec, cos_dec = math.sin(declination), math.cos(declination)
    east = -cos_dec * math.sin(hour_angle)
    north = cos_lat * sin_dec - sin_lat * cos_dec * math.cos(hour_angle)
    up = sin_lat * sin_dec + cos_lat * cos_dec * math.cos(hour_angle)
    return math.asin(max(-1.0, min(1.0, up))), math.atan2(east, north) % (2 * math.pi)


def compute_air_mass(elevation_rad: float) -> float:
    """Return the relative optical air mass of the sun (Kasten and Young 1989)."""
    degrees = math.degrees(elevation_rad)
    return 1 / (math.sin(elevation_rad) + 0.50572 * math.pow(degrees + 6.07995, -1.6364))


def compute_direction(elevation_rad: float, azimuth_rad: float) -> Vec3:
    """Return the unit vector of an elevation and an azimuth (from x to y)."""
    horizontal = math.cos(elevation_rad)
    return (
        horizontal * math.cos(azimuth_rad),
        horizontal * math.sin(azimuth_rad),
        math.sin(elevation_rad),
    )


def _compute_rayleigh_depth() -> Floats:
    """Return the Rayleigh optical depth of the atmosphere for RGB (3,)."""
    return np.asarray(0.0088 * _RGB_WAVELENGTHS_UM**-4.0)


def _compute_color_matching(nm: Floats) -> Floats:
    """Return the colour matching functions (3, n) at wavelengths (n,) in nm."""

    def lobe(height: float, peak: float, left: float, right: float) -> Floats:
        rate = np.where(nm < peak, left, right)
        return np.asarray(height * np.exp(-0.5 * ((nm - peak) * rate) ** 2))

    x = lobe(0.362, 442.0, 0.0624, 0.0374) + lobe(1.056, 599.8, 0.0264, 0.0323)
    x += lobe(-0.065, 501.1, 0.0490, 0.0382)
    y = lobe(0.821, 568.8, 0.0213, 0.0247) + lobe(0.286, 530.9, 0.0613, 0.0322)
    z = lobe(1.217, 437.0, 0.0845, 0.0278) + lobe(0.681, 459.0, 0.0385, 0.0725)
    return np.stack([x, y, z])
