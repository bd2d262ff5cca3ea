"""Light of what was drawn: sky, lamps, lights in the room, a window, haze."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sim2cam.geometry.poses import Pose, vec3
from sim2cam.randomize.illuminants import Daylight, daylight, tint, towards
from sim2cam.randomize.sampling import Draw
from sim2cam.scene.image_facts import NO_PICTURE, SkyFacts
from sim2cam.scene.light import (
    AreaLight,
    Environment,
    Flicker,
    Haze,
    Lamp,
    LocalLight,
    PointLight,
    SkyPicture,
    SpotLight,
)
from sim2cam.scene.material import Color

_LEAST_PANEL_M = 0.005
_SUN_RADIUS_RAD = 0.00465
_WHITE_K = 6504.0


def environment_of(drawn: Draw, skies: Sequence[SkyFacts]) -> Environment:
    """Returns the light of a scene.

    Args:
        drawn: everything that chance decided.
        skies: the pictures of skies that were drawn from.
    """
    zenith = _tint(drawn, "light", drawn.number("light/sky_level"))
    horizon = drawn.number("light/horizon")
    lamps = tuple(_lamp(drawn, f"lamp/{i}") for i in range(drawn.count("light/lamp_count")))
    near = drawn.count("light/near_count") if drawn.has("near_light") else 0
    lights = tuple(_near_light(drawn, f"near_light/{i}") for i in range(near))
    light = Environment(
        zenith, vec3(np.multiply(zenith, horizon)), lamps, lights, flicker=_flicker(drawn)
    )
    name = str(drawn.values.get("sky/picture", NO_PICTURE))
    if name != NO_PICTURE:
        light = _pictured(light, drawn, next(facts for facts in skies if facts.name == name))
    if drawn.has("window"):
        light = _windowed(light, drawn)
    return replace(light, haze=_haze(light, drawn))


def _near_light(drawn: Draw, path: str) -> LocalLight:
    towards_it = towards(drawn.number(f"{path}/elevation_rad"), drawn.number(f"{path}/azimuth_rad"))
    away, size = drawn.number(f"{path}/distance_m"), drawn.number(f"{path}/size_m")
    place, axis = vec3(np.multiply(towards_it, away)), vec3(np.multiply(towards_it, -1))
    color = np.array(_tint(drawn, path, drawn.number(f"{path}/level")))
    intensity, flicker = vec3(color * away**2), _depth_of_flicker(drawn, path)
    match drawn.text(f"{path}/kind"):
        case "point":
            return PointLight(place, intensity, size / 2, flicker)
        case "spot":
            edge = drawn.number(f"{path}/cone_rad")
            return SpotLight(place, axis, intensity, 0.8 * edge, edge, size / 2, flicker)
        case _:
            side = max(size, _LEAST_PANEL_M)
            pose = Pose.looking_at(place, (0.0, 0.0, 0.0), 0.0)
            return AreaLight(pose, side, side, vec3(color * (away / side) ** 2), flicker)


def _lamp(drawn: Draw, path: str) -> Lamp:
    return Lamp(
        towards(drawn.number(f"{path}/elevation_rad"), drawn.number(f"{path}/azimuth_rad")),
        drawn.number(f"{path}/radius_rad"),
        _tint(drawn, path, drawn.number(f"{path}/level")),
        _depth_of_flicker(drawn, path),
    )


def _tint(drawn: Draw, path: str, level: float) -> Color:
    """Returns a light's linear colour: of its temperature, or of its warmth.

    One step of warmth halves blue against red.
    """
    kelvin = drawn.values.get(f"{path}/temperature_k")
    if kelvin is not None:
        return vec3(np.multiply(tint(float(kelvin), _white_k(drawn)), level))
    warmth = drawn.number(f"{path}/warmth")
    return level * 2 ** (0.35 * warmth), level, level * 2 ** (-0.65 * warmth)


def _white_k(drawn: Draw) -> float:
    return drawn.number_or("light/white_k", _WHITE_K)


def _flicker(drawn: Draw) -> Flicker | None:
    hertz = drawn.number_or("light/flicker_hz", 0.0)
    return Flicker(hertz, drawn.number_or("light/flicker_phase_rad", 0.0)) if hertz else None


def _depth_of_flicker(drawn: Draw, path: str) -> float | None:
    return drawn.number_or(f"{path}/flicker", 0.0) or None


def _pictured(light: Environment, drawn: Draw, facts: SkyFacts) -> Environment:
    """Returns the light with a picture for its sky, whose sun is its one lamp."""
    level, turn = drawn.number("sky/level"), drawn.number("sky/turn_rad")
    scale = level / facts.radiance
    sun = facts.sun if drawn.values.get("sky/sun", True) else None
    picture = SkyPicture(facts.file, turn, scale, sun_apart=sun is not None)
    lamps = (_turned(sun, turn, scale),) if sun else ()
    even = (level, level, level)
    return replace(light, zenith=even, horizon=even, lamps=lamps, picture=picture)


def _turned(lamp: Lamp, turn_rad: float, level: float) -> Lamp:
    (x, y, z), c, s = lamp.direction, math.cos(turn_rad), math.sin(turn_rad)
    irradiance = vec3(np.multiply(lamp.irradiance, level))
    return Lamp((c * x - s * y, s * x + c * y, z), lamp.radius_rad, irradiance)


def _windowed(light: Environment, drawn: Draw) -> Environment:
    """Returns the light with what comes through a window: the sky, and the sun where it looks in."""
    hour, day, latitude, clearness = (
        drawn.number(f"window/{name}") for name in ("hour", "day", "latitude_rad", "transmittance")
    )
    outside = daylight(hour, day, latitude, clearness, _white_k(drawn))
    level = drawn.number("window/level")
    if not any(outside.sky):
        return light
    lights = (*light.lights, _pane(drawn, vec3(np.multiply(outside.sky, level))))
    sun = _sun_through(drawn, outside, level)
    return replace(light, lights=lights, lamps=(*light.lamps, *([sun] if sun else [])))


def _pane(drawn: Draw, radiance: Color) -> AreaLight:
    turn, away = drawn.number("window/azimuth_rad"), drawn.number("window/distance_m")
    width, height = (drawn.number(f"window/{name}") for name in ("width_m", "height_m"))
    middle = drawn.number("window/sill_m") + height / 2
    place = (away * math.cos(turn), away * math.sin(turn), middle)
    pose = Pose.looking_at(place, (0.0, 0.0, middle), 0.0)
    return AreaLight(pose, width, height, radiance)


def _sun_through(drawn: Draw, outside: Daylight, level: float) -> Lamp | None:
    """Returns the sun as a lamp where the middle of the table sees it through the window."""
    turn = drawn.number("window/azimuth_rad")
    # scenes count azimuths from x to y, compasses the other way round
    around = turn - (outside.azimuth_rad - drawn.number("window/facing_rad"))
    x, y, z = towards(outside.elevation_rad, around)
    ahead = x * math.cos(turn) + y * math.sin(turn)
    if ahead <= 0:
        return None
    reach = drawn.number("window/distance_m") / ahead
    aside = reach * (y * math.cos(turn) - x * math.sin(turn))
    above = reach * z - drawn.number("window/sill_m")
    if abs(aside) > drawn.number("window/width_m") / 2:
        return None
    if not 0 <= above <= drawn.number("window/height_m"):
        return None
    return Lamp((x, y, z), _SUN_RADIUS_RAD, vec3(np.multiply(outside.sun, level)))


def _haze(light: Environment, drawn: Draw) -> Haze | None:
    if not drawn.has("haze"):
        return None
    airlight = vec3(np.multiply(light.horizon, drawn.number("haze/brightness")))
    return Haze(drawn.number("haze/extinction_per_m"), airlight)
