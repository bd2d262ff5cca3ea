"""Light that comes from far away, as a function of direction. World frame, z up; linear RGB."""

from __future__ import annotations

from dataclasses import dataclass

from sim2cam.geometry.poses import Vec3
from sim2cam.scene.material import Color


@dataclass(frozen=True)
class Lamp:
    """A soft round light.

    Attributes:
        direction: unit vector towards it.
        radius_rad: angular radius at which its radiance has fallen to 1/e; small is hard light.
        irradiance: what it sheds on a surface that faces it.
    """

    direction: Vec3
    radius_rad: float
    irradiance: Color


@dataclass(frozen=True)
class Environment:
    """A sky that brightens from horizon to zenith, and lamps in it.

    Attributes:
        zenith, horizon: radiance straight up and level.
        lamps: the brightest lights.
    """

    zenith: Color
    horizon: Color
    lamps: tuple[Lamp, ...]
