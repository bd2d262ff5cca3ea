"""Light from far away, as a function of direction, and near lights. World frame, z up; linear RGB."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

from sim2cam.geometry.poses import Pose, Vec3
from sim2cam.scene.image_file import ImageFile
from sim2cam.scene.material import Color


@dataclass(frozen=True)
class Lamp:
    """A soft round light.

    Attributes:
        direction: unit vector towards it.
        radius_rad: angular radius at which its radiance has fallen to 1/e; small is hard light.
        irradiance: what it sheds on a surface that faces it.
        flicker: by which share of it it goes up and down with the mains; None for one that is steady.
    """

    direction: Vec3
    radius_rad: float
    irradiance: Color
    flicker: float | None = None


@dataclass(frozen=True)
class PointLight:
    """A ball that shines alike in all directions.

    Attributes:
        position_m: its middle.
        intensity: radiant intensity; a surface that faces it receives this over the squared
            distance.
        radius_m: of the ball; larger ones have softer shadows.
        flicker: see ``Lamp``.
    """

    position_m: Vec3
    intensity: Color
    radius_m: float = 0.0
    flicker: float | None = None
    kind: Literal["point"] = "point"


@dataclass(frozen=True)
class SpotLight:
    """A ball that shines into a cone.

    Attributes:
        position_m: its middle.
        direction: unit vector along the cone's axis.
        intensity: radiant intensity on the axis.
        inner_angle_rad, outer_angle_rad: angles off the axis up to which it shines fully, and at which it ends.
        radius_m: of the ball.
        flicker: see ``Lamp``.
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
    """A rectangle that shines along its z axis, with the same radiance in all directions.

    Attributes:
        pose: its middle and its axes in the world.
        width_m, height_m: along its x and y axes.
        radiance: of its surface.
        flicker: see ``Lamp``.
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
    """Light from all around as it was photographed: an equirectangular picture of linear radiance.

    Its top row looks up, its left edge along the world's y axis, and to the right it goes on over x.

    Attributes:
        file: Radiance's .hdr, or an ordinary picture, whose light ends at white.
        turn_rad: how far it is turned about the vertical, from x to y.
        radiance_scale: what its radiance is multiplied by.
        is_sun_removed: whether its brightest spot is left out, as a lamp stands for it.
    """

    file: ImageFile
    turn_rad: float = 0.0
    radiance_scale: float = 1.0
    is_sun_removed: bool = False


@dataclass(frozen=True)
class Flicker:
    """How lights on the mains go up and down, all together and as a cosine.

    Attributes:
        hertz: how often, twice the frequency of the mains: 100 or 120.
        phase_rad: in the middle of the exposure of the picture's middle.
    """

    hertz: float
    phase_rad: float = 0.0


@dataclass(frozen=True)
class Haze:
    """Air that scatters light, alike everywhere.

    Attributes:
        extinction_per_m: share of the light lost on a short way, over the way.
        airlight: radiance of air without end.
    """

    extinction_per_m: float
    airlight: Color


@dataclass(frozen=True)
class Environment:
    """A sky that brightens from horizon to zenith, lamps in it, and lights near the scene.

    Attributes:
        zenith, horizon: radiance straight up and level.
        lamps: the brightest lights of the sky.
        lights: lights in the room.
        environment_map: takes the place of zenith and horizon.
        flicker: of those lights that are not steady; None when all are.
        haze: between the scene and its cameras; None for clear air.
    """

    zenith: Color
    horizon: Color
    lamps: tuple[Lamp, ...]
    lights: tuple[LocalLight, ...] = ()
    environment_map: EnvironmentMap | None = None
    flicker: Flicker | None = None
    haze: Haze | None = None

    def extract_flickering(self) -> Environment | None:
        """Return the light that goes up and down at its most alone; None where all is steady."""
        dark = (0.0, 0.0, 0.0)
        lamps = tuple(_scale_power(lamp, lamp.flicker) for lamp in self.lamps if lamp.flicker)
        lights = tuple(_scale_power(light, light.flicker) for light in self.lights if light.flicker)
        if self.flicker is None or not (lamps or lights):
            return None
        return Environment(dark, dark, lamps, lights)


_LightT = TypeVar("_LightT", bound=Lamp | PointLight | SpotLight | AreaLight)


def _scale_power(light: _LightT, fraction: float) -> _LightT:
    """Return a light with so large a share of its power."""
    name = _POWER_FIELDS[type(light)]
    power: dict[str, Any] = {name: tuple(fraction * level for level in getattr(light, name))}
    return replace(light, **power)


_POWER_FIELDS: dict[type, str] = {
    Lamp: "irradiance",
    PointLight: "intensity",
    SpotLight: "intensity",
    AreaLight: "radiance",
}
