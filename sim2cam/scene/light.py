"""Distant and local lights in the world frame (z up), in linear RGB."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

from sim2cam.geometry.poses import Pose, Vec3
from sim2cam.scene.image_file import ImageFile
from sim2cam.scene.material import Color


@dataclass(frozen=True)
class Lamp:
    """A soft round distant light.

    Attributes:
        direction: Unit vector towards it.
        radius_rad: Angular radius at which the radiance falls to 1/e; small values are hard light.
        irradiance: Irradiance on a surface that faces it.
        flicker: Relative amplitude of mains flicker; None for steady light.
    """

    direction: Vec3
    radius_rad: float
    irradiance: Color
    flicker: float | None = None


@dataclass(frozen=True)
class PointLight:
    """A sphere that emits equally in all directions.

    Attributes:
        position_m: Its centre.
        intensity: Radiant intensity; a facing surface receives it over the squared distance.
        radius_m: Radius; larger spheres have softer shadows.
        flicker: See ``Lamp``.
    """

    position_m: Vec3
    intensity: Color
    radius_m: float = 0.0
    flicker: float | None = None
    kind: Literal["point"] = "point"


@dataclass(frozen=True)
class SpotLight:
    """A sphere that emits into a cone.

    Attributes:
        position_m: Its centre.
        direction: Unit vector along the axis of the cone.
        intensity: Radiant intensity on the axis.
        inner_angle_rad, outer_angle_rad: Angles off the axis of full intensity and of the end of the cone.
        radius_m: Radius of the sphere.
        flicker: See ``Lamp``.
    """

    position_m: Vec3
    direction: Vec3
    intensity: Color
    inner_angle_rad: float
    outer_angle_rad: float
    radius_m: float = 0.0
    flicker: float | None = None
    kind: Literal["spot"] = "spot"


@dataclass(frozen=True)
class AreaLight:
    """A rectangle that emits along its z axis with equal radiance in all directions.

    Attributes:
        pose: Pose of its centre in the world.
        width_m, height_m: Size along its x and y axes.
        radiance: Radiance of its surface.
        flicker: See ``Lamp``.
    """

    pose: Pose
    width_m: float
    height_m: float
    radiance: Color
    flicker: float | None = None
    kind: Literal["area"] = "area"


LocalLight = Annotated[PointLight | SpotLight | AreaLight, Field(discriminator="kind")]


@dataclass(frozen=True)
class EnvironmentMap:
    """An equirectangular image of distant radiance.

    The top row is up, the left edge is at the world's y axis, and azimuth runs over x to the right.

    Attributes:
        file: A Radiance .hdr file, or an ordinary image, clipped at white.
        turn_rad: Rotation about the vertical, from x to y.
        radiance_scale: Factor of the radiance.
        is_sun_removed: Whether the brightest spot is removed, because a lamp replaces it.
    """

    file: ImageFile
    turn_rad: float = 0.0
    radiance_scale: float = 1.0
    is_sun_removed: bool = False


@dataclass(frozen=True)
class Flicker:
    """Sinusoidal flicker of lights on the mains, in phase.

    Attributes:
        hertz: Flicker frequency, twice that of the mains: 100 or 120.
        phase_rad: Phase at the middle of the exposure of the image centre.
    """

    hertz: float
    phase_rad: float = 0.0


@dataclass(frozen=True)
class Haze:
    """Homogeneous scattering air.

    Attributes:
        extinction_per_m: Extinction coefficient.
        airlight: Radiance of an infinite path through the air.
    """

    extinction_per_m: float
    airlight: Color


@dataclass(frozen=True)
class Environment:
    """A sky gradient with lamps, and local lights.

    Attributes:
        zenith, horizon: Radiance straight up and horizontally.
        lamps: Brightest distant lights.
        lights: Local lights.
        environment_map: Image instead of zenith and horizon.
        flicker: Flicker of lights that are not steady; None without flicker.
        haze: Haze between scene and cameras; None for clear air.
    """

    zenith: Color
    horizon: Color
    lamps: tuple[Lamp, ...]
    lights: tuple[LocalLight, ...] = ()
    environment_map: EnvironmentMap | None = None
    flicker: Flicker | None = None
    haze: Haze | None = None

    def extract_flickering(self) -> Environment | None:
        """Return the flickering part of the light at its peak, or None without flicker."""
        dark = (0.0, 0.0, 0.0)
        lamps = tuple(_scale_power(lamp, lamp.flicker) for lamp in self.lamps if lamp.flicker)
        lights = tuple(_scale_power(light, light.flicker) for light in self.lights if light.flicker)
        if self.flicker is None or not (lamps or lights):
            return None
        return Environment(dark, dark, lamps, lights)


_LightT = TypeVar("_LightT", bound=Lamp | PointLight | SpotLight | AreaLight)


def _scale_power(light: _LightT, fraction: float) -> _LightT:
    name = _POWER_FIELDS[type(light)]
    power: dict[str, Any] = {name: tuple(fraction * level for level in getattr(light, name))}
    return replace(light, **power)


_POWER_FIELDS: dict[type, str] = {
    Lamp: "irradiance",
    PointLight: "intensity",
    SpotLight: "intensity",
    AreaLight: "radiance",
}
