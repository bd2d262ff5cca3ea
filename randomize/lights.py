"""Light of what was drawn: sky, lamps, lights in the room, a window, haze."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sim2cam.geometry.poses import Pose, vec3
from sim2cam.randomize.illuminants import Daylight, compute_daylight, compute_tint, direction_vector
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
    """Return the light of a scene.

    Args:
        factors: everything that chance decided.
        skies: the pictures of skies that were drawn from.
    """
    zenith = _compute_light_color(factors, "light", factors.get_float("light/sky_level"))
    horizon = factors.get_float("light/horizon")
    lamps = tuple(
        _make_lamp(factors, f"lamp/{i}") for i in range(factors.get_int("light/lamp_count"))
    )
    near = factors.get_int("light/near_count") if factors.has_group("near_light") else 0
    lights = tuple(_make_near_light(factors, f"near_light/{i}") for i in range(near))
    light = Environment(
        zenith, vec3(np.multiply(zenith, horizon)), lamps, lights, flicker=_make_flicker(factors)
    )
    name = str(factors.values.get("sky/picture", NO_IMAGE))
    if name != NO_IMAGE:
        light = _replace_with_sky_image(
            light, factors, next(facts for facts in skies if facts.name == name)
        )
    if factors.has_group("window"):
        light = _add_window(light, factors)
    return replace(light, haze=_make_haze(light, factors))


def _make_near_light(factors: FactorValues, path: str) -> LocalLight:
    towards_it = direction_vector(
        factors.get_float(f"{path}/elevation_rad"), factors.get_float(f"{path}/azimuth_rad")
    )
    away, size = factors.get_float(f"{path}/distance_m"), factors.get_float(f"{path}/size_m")
    place, axis = vec3(np.multiply(towards_it, away)), vec3(np.multiply(towards_it, -1))
    color = np.array(_compute_light_color(factors, path, factors.get_float(f"{path}/level")))
    intensity, flicker = vec3(color * away**2), _get_flicker_depth(factors, path)
    match factors.get_str(f"{path}/kind"):
        case "point":
            return PointLight(place, intensity, size / 2, flicker)
        case "spot":
            edge = factors.get_float(f"{path}/cone_rad")
            return SpotLight(place, axis, intensity, 0.8 * edge, edge, size / 2, flicker)
        case _:
            side = max(size, _MIN_PANEL_M)
            pose = Pose.look_at(place, (0.0, 0.0, 0.0), 0.0)
            return AreaLight(pose, side, side, vec3(color * (away / side) ** 2), flicker)


def _make_lamp(factors: FactorValues, path: str) -> Lamp:
    return Lamp(
        direction_vector(
            factors.get_float(f"{path}/elevation_rad"), factors.get_float(f"{path}/azimuth_rad")
        ),
        factors.get_float(f"{path}/radius_rad"),
        _compute_light_color(factors, path, factors.get_float(f"{path}/level")),
        _get_flicker_depth(factors, path),
    )


def _compute_light_color(factors: FactorValues, path: str, level: float) -> Color:
    """Return a light's linear colour: of its temperature, or of its warmth.

    One step of warmth halves blue against red.
    """
    kelvin = factors.values.get(f"{path}/temperature_k")
    if kelvin is not None:
        return vec3(np.multiply(compute_tint(float(kelvin), _get_white_k(factors)), level))
    warmth = factors.get_float(f"{path}/warmth")
    return level * 2 ** (0.35 * warmth), level, level * 2 ** (-0.65 * warmth)


def _get_white_k(factors: FactorValues) -> float:
    return factors.get_float_or("light/white_k", _WHITE_K)


def _make_flicker(factors: FactorValues) -> Flicker | None:
    hertz = factors.get_float_or("light/flicker_hz", 0.0)
    return Flicker(hertz, factors.get_float_or("light/flicker_phase_rad", 0.0)) if hertz else None


def _get_flicker_depth(factors: FactorValues, path: str) -> float | None:
    return factors.get_float_or(f"{path}/flicker", 0.0) or None


def _replace_with_sky_image(
    light: Environment, factors: FactorValues, facts: EnvironmentMapInfo
) -> Environment:
    """Return the light with a picture for its sky, whose sun is its one lamp."""
    level, turn = factors.get_float("sky/level"), factors.get_float("sky/turn_rad")
    scale = level / facts.radiance
    sun = facts.sun if factors.values.get("sky/sun", True) else None
    picture = EnvironmentMap(facts.file, turn, scale, is_sun_removed=sun is not None)
    lamps = (_rotate_lamp(sun, turn, scale),) if sun else ()
    even = (level, level, level)
    return replace(light, zenith=even, horizon=even, lamps=lamps, environment_map=picture)


def _rotate_lamp(lamp: Lamp, turn_rad: float, scale: float) -> Lamp:
    (x, y, z), c, s = lamp.direction, math.cos(turn_rad), math.sin(turn_rad)
    irradiance = vec3(np.multiply(lamp.irradiance, scale))
    return Lamp((c * x - s * y, s * x + c * y, z), lamp.radius_rad, irradiance)


def _add_window(light: Environment, factors: FactorValues) -> Environment:
    """Return the light with what comes through a window: the sky, and the sun where it looks in."""
    hour, day, latitude, clearness = (
        factors.get_float(f"window/{name}")
        for name in ("hour", "day", "latitude_rad", "transmittance")
    )
    outside = compute_daylight(hour, day, latitude, clearness, _get_white_k(factors))
    level = factors.get_float("window/level")
    if not any(outside.sky):
        return light
    lights = (*light.lights, _make_window_light(factors, vec3(np.multiply(outside.sky, level))))
    sun = _make_window_sun(factors, outside, level)
    return replace(light, lights=lights, lamps=(*light.lamps, *([sun] if sun else [])))


def _make_window_light(factors: FactorValues, radiance: Color) -> AreaLight:
    turn, away = factors.get_float("window/azimuth_rad"), factors.get_float("window/distance_m")
    width, height = (factors.get_float(f"window/{name}") for name in ("width_m", "height_m"))
    middle = factors.get_float("window/sill_m") + height / 2
    place = (away * math.cos(turn), away * math.sin(turn), middle)
    pose = Pose.look_at(place, (0.0, 0.0, middle), 0.0)
    return AreaLight(pose, width, height, radiance)


def _make_window_sun(factors: FactorValues, outdoor_light: Daylight, level: float) -> Lamp | None:
    """Return the sun as a lamp where the middle of the table sees it through the window."""
    turn = factors.get_float("window/azimuth_rad")
    # scenes count azimuths from x to y, compasses the other way round
    around = turn - (outdoor_light.azimuth_rad - factors.get_float("window/facing_rad"))
    x, y, z = direction_vector(outdoor_light.elevation_rad, around)
    ahead = x * math.cos(turn) + y * math.sin(turn)
    if ahead <= 0:
        return None
    reach = factors.get_float("window/distance_m") / ahead
    aside = reach * (y * math.cos(turn) - x * math.sin(turn))
    above = reach * z - factors.get_float("window/sill_m")
    if abs(aside) > factors.get_float("window/width_m") / 2:
        return None
    if not 0 <= above <= factors.get_float("window/height_m"):
        return None
    return Lamp((x, y, z), _SUN_RADIUS_RAD, vec3(np.multiply(outdoor_light.sun, level)))


def _make_haze(light: Environment, factors: FactorValues) -> Haze | None:
    if not factors.has_group("haze"):
        return None
    airlight = vec3(np.multiply(light.horizon, factors.get_float("haze/brightness")))
    return Haze(factors.get_float("haze/extinction_per_m"), airlight)
