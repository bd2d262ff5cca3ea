"""Illumination from sampled factors: sky, lamps, near lights, window and haze."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sim2cam.geometry.poses import Pose, vec3
from sim2cam.randomize.factors import (
    HazeFactors,
    LampFactors,
    LightFactors,
    NearLightFactors,
    SkyFactors,
    WindowFactors,
)
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


def make_environment(factors: FactorValues, skies: Sequence[EnvironmentMapInfo]) -> Environment:
    """Return the illumination of a scene.

    Args:
        factors: sampled values.
        skies: available environment maps.
    """
    light = factors.read(LightFactors, "light")
    zenith = _compute_light_color(light, light.sky_level, light.white_k)
    lamps = [factors.read(LampFactors, f"lamp/{i}") for i in range(light.lamp_count)]
    near_count = light.near_count if factors.has_group("near_light") else 0
    near = [factors.read(NearLightFactors, f"near_light/{i}") for i in range(near_count)]
    flicker = Flicker(light.flicker_hz, light.flicker_phase_rad) if light.flicker_hz else None
    environment = Environment(
        zenith,
        vec3(np.multiply(zenith, light.horizon)),
        tuple(_make_lamp(lamp, light.white_k) for lamp in lamps),
        tuple(_make_near_light(each, light.white_k) for each in near),
        flicker=flicker,
    )
    sky = factors.read(SkyFactors, "sky") if factors.has_group("sky") else None
    if sky is not None and sky.picture not in (None, NO_IMAGE):
        info = next(info for info in skies if info.name == sky.picture)
        environment = _replace_with_sky_image(environment, sky, info)
    if factors.has_group("window"):
        window = factors.read(WindowFactors, "window")
        environment = _add_window(environment, window, light.white_k)
    if factors.has_group("haze"):
        haze = factors.read(HazeFactors, "haze")
        airlight = vec3(np.multiply(environment.horizon, haze.brightness))
        environment = replace(environment, haze=Haze(haze.extinction_per_m, airlight))
    return environment


def _make_near_light(light: NearLightFactors, white_k: float) -> LocalLight:
    direction = compute_direction(light.elevation_rad, light.azimuth_rad)
    distance, size = light.distance_m, light.size_m
    position, axis = vec3(np.multiply(direction, distance)), vec3(np.multiply(direction, -1))
    color = np.array(_compute_light_color(light, light.level, white_k))
    intensity, flicker = vec3(color * distance**2), light.flicker or None
    match light.kind:
        case "point":
            return PointLight(position, intensity, size / 2, flicker)
        case "spot":
            edge = light.cone_rad
            return SpotLight(position, axis, intensity, 0.8 * edge, edge, size / 2, flicker)
        case _:
            side = max(size, _MIN_PANEL_M)
            pose = Pose.look_at(position, (0.0, 0.0, 0.0), 0.0)
            return AreaLight(pose, side, side, vec3(color * (distance / side) ** 2), flicker)


def _make_lamp(lamp: LampFactors, white_k: float) -> Lamp:
    return Lamp(
        compute_direction(lamp.elevation_rad, lamp.azimuth_rad),
        lamp.radius_rad,
        _compute_light_color(lamp, lamp.level, white_k),
        lamp.flicker or None,
    )


def _compute_light_color(
    light: LightFactors | LampFactors | NearLightFactors, level: float, white_k: float
) -> Color:
    """Return the linear colour of a light from its temperature or its warmth.

    A warmth increment of 1 halves the ratio of blue to red.
    """
    if light.temperature_k is not None:
        return vec3(np.multiply(compute_tint(light.temperature_k, white_k), level))
    return level * 2 ** (0.35 * light.warmth), level, level * 2 ** (-0.65 * light.warmth)


def _replace_with_sky_image(
    environment: Environment, sky: SkyFactors, info: EnvironmentMapInfo
) -> Environment:
    """Replace the sky by an environment map, and all lamps by its sun."""
    level, yaw, scale = sky.level, sky.turn_rad, sky.level / info.radiance
    sun = info.sun if sky.sun else None
    environment_map = EnvironmentMap(info.file, yaw, scale, is_sun_removed=sun is not None)
    lamps = (_rotate_lamp(sun, yaw, scale),) if sun else ()
    uniform = (level, level, level)
    return replace(
        environment, zenith=uniform, horizon=uniform, lamps=lamps, environment_map=environment_map
    )


def _rotate_lamp(lamp: Lamp, turn_rad: float, scale: float) -> Lamp:
    (x, y, z), c, s = lamp.direction, math.cos(turn_rad), math.sin(turn_rad)
    irradiance = vec3(np.multiply(lamp.irradiance, scale))
    return Lamp((c * x - s * y, s * x + c * y, z), lamp.radius_rad, irradiance)


def _add_window(environment: Environment, window: WindowFactors, white_k: float) -> Environment:
    """Add the sky visible through a window, and the sun if it shines in."""
    daylight = compute_daylight(
        window.hour, window.day, window.latitude_rad, window.transmittance, white_k
    )
    if not any(daylight.sky):
        return environment
    light = _make_window_light(window, vec3(np.multiply(daylight.sky, window.level)))
    sun = _make_window_sun(window, daylight)
    lamps = (*environment.lamps, *([sun] if sun else []))
    return replace(environment, lights=(*environment.lights, light), lamps=lamps)


def _make_window_light(window: WindowFactors, radiance: Color) -> AreaLight:
    azimuth, distance = window.azimuth_rad, window.distance_m
    center_z = window.sill_m + window.height_m / 2
    position = (distance * math.cos(azimuth), distance * math.sin(azimuth), center_z)
    pose = Pose.look_at(position, (0.0, 0.0, center_z), 0.0)
    return AreaLight(pose, window.width_m, window.height_m, radiance)


def _make_window_sun(window: WindowFactors, daylight: Daylight) -> Lamp | None:
    """Return the sun as a lamp if it is visible through the window from the centre of the table."""
    azimuth = window.azimuth_rad
    # scene azimuths run from x to y, compass azimuths in the opposite direction
    sun_azimuth = azimuth - (daylight.azimuth_rad - window.facing_rad)
    x, y, z = compute_direction(daylight.elevation_rad, sun_azimuth)
    towards_window = x * math.cos(azimuth) + y * math.sin(azimuth)
    if towards_window <= 0:
        return None
    range_m = window.distance_m / towards_window
    lateral = range_m * (y * math.cos(azimuth) - x * math.sin(azimuth))
    height = range_m * z - window.sill_m
    if abs(lateral) > window.width_m / 2 or not 0 <= height <= window.height_m:
        return None
    return Lamp((x, y, z), _SUN_RADIUS_RAD, vec3(np.multiply(daylight.sun, window.level)))
