"""Illumination from sampled factors: sky, lamps, near lights, window and haze."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sim2cam.geometry.poses import Pose, vec3
from sim2cam.randomize.illuminants import (
    Daylight,
    compute_daylight,
    compute_direction,
    compute_tint,
)
from sim2cam.randomize.sampling import FactorValues
from sim2cam.scene.image_facts import NO_IMAGE, EnvironmentMapInfo
from sim2cam.scene.light import (
    AreaLight,
    Environment,
    EnvironmentMap,
    Flicker,
    Haze,
    Lamp,
    LocalLight,
    PointLight,
    SpotLight,
)
from sim2cam.scene.material import Color

_MIN_PANEL_M = 0.005
_SUN_RADIUS_RAD = 0.00465
_WHITE_K = 6504.0


def make_environment(factors: FactorValues, skies: Sequence[EnvironmentMapInfo]) -> Environment:
    """Return the illumination of a scene.

    Args:
        factors: sampled values.
        skies: available environment maps.
    """
    zenith = _compute_light_color(factors, "light", factors.get_float("light/sky_level"))
    horizon = factors.get_float("light/horizon")
    lamps = tuple(
        _make_lamp(factors, f"lamp/{i}") for i in range(factors.get_int("light/lamp_count"))
    )
    near_count = factors.get_int("light/near_count") if factors.has_group("near_light") else 0
    lights = tuple(_make_near_light(factors, f"near_light/{i}") for i in range(near_count))
    environment = Environment(
        zenith, vec3(np.multiply(zenith, horizon)), lamps, lights, flicker=_make_flicker(factors)
    )
    name = str(factors.values.get("sky/picture", NO_IMAGE))
    if name != NO_IMAGE:
        environment = _replace_with_sky_image(
            environment, factors, next(facts for facts in skies if facts.name == name)
        )
    if factors.has_group("window"):
        environment = _add_window(environment, factors)
    return replace(environment, haze=_make_haze(environment, factors))


def _make_near_light(factors: FactorValues, path: str) -> LocalLight:
    direction = compute_direction(
        factors.get_float(f"{path}/elevation_rad"), factors.get_float(f"{path}/azimuth_rad")
    )
    distance, size = factors.get_float(f"{path}/distance_m"), factors.get_float(f"{path}/size_m")
    position, axis = vec3(np.multiply(direction, distance)), vec3(np.multiply(direction, -1))
    color = np.array(_compute_light_color(factors, path, factors.get_float(f"{path}/level")))
    intensity, flicker = vec3(color * distance**2), _get_flicker_depth(factors, path)
    match factors.get_str(f"{path}/kind"):
        case "point":
            return PointLight(position, intensity, size / 2, flicker)
        case "spot":
            edge = factors.get_float(f"{path}/cone_rad")
            return SpotLight(position, axis, intensity, 0.8 * edge, edge, size / 2, flicker)
        case _:
            side = max(size, _MIN_PANEL_M)
            pose = Pose.look_at(position, (0.0, 0.0, 0.0), 0.0)
            return AreaLight(pose, side, side, vec3(color * (distance / side) ** 2), flicker)


def _make_lamp(factors: FactorValues, path: str) -> Lamp:
    return Lamp(
        compute_direction(
            factors.get_float(f"{path}/elevation_rad"), factors.get_float(f"{path}/azimuth_rad")
        ),
        factors.get_float(f"{path}/radius_rad"),
        _compute_light_color(factors, path, factors.get_float(f"{path}/level")),
        _get_flicker_depth(factors, path),
    )


def _compute_light_color(factors: FactorValues, path: str, level: float) -> Color:
    """Return the linear colour of a light from its temperature or its warmth.

    A warmth increment of 1 halves the ratio of blue to red.
    """
    kelvin = factors.values.get(f"{path}/temperature_k")
    if kelvin is not None:
        return vec3(np.multiply(compute_tint(float(kelvin), _get_white_k(factors)), level))
    warmth = factors.get_float(f"{path}/warmth")
    return level * 2 ** (0.35 * warmth), level, level * 2 ** (-0.65 * warmth)


def _get_white_k(factors: FactorValues) -> float:
    return factors.get_float_or("light/white_k", _WHITE_K)


def _make_flicker(factors: FactorValues) -> Flicker | None:
    frequency_hz = factors.get_float_or("light/flicker_hz", 0.0)
    return (
        Flicker(frequency_hz, factors.get_float_or("light/flicker_phase_rad", 0.0))
        if frequency_hz
        else None
    )


def _get_flicker_depth(factors: FactorValues, path: str) -> float | None:
    return factors.get_float_or(f"{path}/flicker", 0.0) or None


def _replace_with_sky_image(
    environment: Environment, factors: FactorValues, facts: EnvironmentMapInfo
) -> Environment:
    """Replace the sky by an environment map, and all lamps by its sun."""
    level, yaw = factors.get_float("sky/level"), factors.get_float("sky/turn_rad")
    scale = level / facts.radiance
    sun = facts.sun if factors.values.get("sky/sun", True) else None
    environment_map = EnvironmentMap(facts.file, yaw, scale, is_sun_removed=sun is not None)
    lamps = (_rotate_lamp(sun, yaw, scale),) if sun else ()
    uniform = (level, level, level)
    return replace(
        environment, zenith=uniform, horizon=uniform, lamps=lamps, environment_map=environment_map
    )


def _rotate_lamp(lamp: Lamp, turn_rad: float, scale: float) -> Lamp:
    (x, y, z), c, s = lamp.direction, math.cos(turn_rad), math.sin(turn_rad)
    irradiance = vec3(np.multiply(lamp.irradiance, scale))
    return Lamp((c * x - s * y, s * x + c * y, z), lamp.radius_rad, irradiance)


def _add_window(environment: Environment, factors: FactorValues) -> Environment:
    """Add the sky visible through a window, and the sun if it shines in."""
    hour, day, latitude, transmittance = (
        factors.get_float(f"window/{name}")
        for name in ("hour", "day", "latitude_rad", "transmittance")
    )
    daylight = compute_daylight(hour, day, latitude, transmittance, _get_white_k(factors))
    level = factors.get_float("window/level")
    if not any(daylight.sky):
        return environment
    lights = (
        *environment.lights,
        _make_window_light(factors, vec3(np.multiply(daylight.sky, level))),
    )
    sun = _make_window_sun(factors, daylight, level)
    return replace(environment, lights=lights, lamps=(*environment.lamps, *([sun] if sun else [])))


def _make_window_light(factors: FactorValues, radiance: Color) -> AreaLight:
    azimuth, distance = (
        factors.get_float("window/azimuth_rad"),
        factors.get_float("window/distance_m"),
    )
    width, height = (factors.get_float(f"window/{name}") for name in ("width_m", "height_m"))
    center_z = factors.get_float("window/sill_m") + height / 2
    position = (distance * math.cos(azimuth), distance * math.sin(azimuth), center_z)
    pose = Pose.look_at(position, (0.0, 0.0, center_z), 0.0)
    return AreaLight(pose, width, height, radiance)


def _make_window_sun(factors: FactorValues, outdoor_light: Daylight, level: float) -> Lamp | None:
    """Return the sun as a lamp if it is visible through the window from the centre of the table."""
    azimuth = factors.get_float("window/azimuth_rad")
    # scene azimuths run from x to y, compass azimuths in the opposite direction
    sun_azimuth = azimuth - (outdoor_light.azimuth_rad - factors.get_float("window/facing_rad"))
    x, y, z = compute_direction(outdoor_light.elevation_rad, sun_azimuth)
    towards_window = x * math.cos(azimuth) + y * math.sin(azimuth)
    if towards_window <= 0:
        return None
    range_m = factors.get_float("window/distance_m") / towards_window
    lateral = range_m * (y * math.cos(azimuth) - x * math.sin(azimuth))
    height = range_m * z - factors.get_float("window/sill_m")
    if abs(lateral) > factors.get_float("window/width_m") / 2:
        return None
    if not 0 <= height <= factors.get_float("window/height_m"):
        return None
    return Lamp((x, y, z), _SUN_RADIUS_RAD, vec3(np.multiply(outdoor_light.sun, level)))


def _make_haze(environment: Environment, factors: FactorValues) -> Haze | None:
    if not factors.has_group("haze"):
        return None
    airlight = vec3(np.multiply(environment.horizon, factors.get_float("haze/brightness")))
    return Haze(factors.get_float("haze/extinction_per_m"), airlight)
