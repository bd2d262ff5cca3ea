"""Light from far away, as directions to draw shadows for."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim2cam.scene.light import Environment, Lamp

Floats = NDArray[np.float64]

DOME_RAYS = 6
LAMP_RAYS = 6
MAX_RAYS = DOME_RAYS + LAMP_RAYS
MAX_LAMPS = 4

_GOLDEN_ANGLE = math.pi * (3 - math.sqrt(5))


@dataclass(frozen=True)
class Rays:
    """An environment as parallel lights.

    Attributes:
        directions: (n, 3) unit vectors towards them.
        irradiances: (n, 3) linear RGB on a surface that faces one.
    """

    directions: Floats
    irradiances: Floats


def rays_of(environment: Environment) -> Rays:
    """Returns the sky as ``DOME_RAYS`` parallel lights and each lamp as a few around its middle."""
    directions, irradiances = _dome(environment)
    share = LAMP_RAYS // max(1, len(environment.lamps))
    for lamp in environment.lamps:
        around = _cone(lamp, share)
        directions = np.vstack([directions, around])
        irradiances = np.vstack(
            [irradiances, np.tile(np.divide(lamp.irradiance, share), (share, 1))]
        )
    return Rays(directions, irradiances)


def sky_radiance(environment: Environment, heights: Floats) -> Floats:
    """Returns the sky's linear RGB (n, 3) for the z (n,) of unit directions, lamps left out."""
    level = np.clip(heights, 0, 1)[:, None]
    horizon, zenith = np.array(environment.horizon), np.array(environment.zenith)
    return np.asarray((1 - level) * horizon + level * zenith)


def ground_irradiance(environment: Environment) -> Floats:
    """Returns the linear RGB irradiance (3,) of an open, level surface."""
    rays = rays_of(environment)
    return np.asarray((rays.irradiances * rays.directions[:, 2:].clip(0)).sum(axis=0))


def _dome(environment: Environment) -> tuple[Floats, Floats]:
    """Spreads points over the hemisphere on a Fibonacci spiral, each for the same solid angle."""
    i = np.arange(DOME_RAYS)
    z = (i + 0.5) / DOME_RAYS
    angle = i * _GOLDEN_ANGLE
    r = np.sqrt(1 - z * z)
    directions = np.stack([r * np.cos(angle), r * np.sin(angle), z], axis=1)
    return directions, sky_radiance(environment, z) * (2 * math.pi / DOME_RAYS)


def _cone(lamp: Lamp, count: int) -> Floats:
    """Returns directions (count, 3) whose spread is that of the lamp's Gaussian lobe."""
    axis = np.array(lamp.direction)
    side = np.cross(axis, np.eye(3)[int(np.argmin(np.abs(axis)))])
    side /= np.linalg.norm(side)
    other = np.cross(axis, side)
    i = np.arange(count)
    reach = lamp.radius_rad * np.sqrt(-np.log(1 - (i + 0.5) / count)) if count > 1 else np.zeros(1)
    angle = i * _GOLDEN_ANGLE
    offset = (np.cos(angle)[:, None] * side + np.sin(angle)[:, None] * other) * np.tan(reach)[
        :, None
    ]
    directions = axis + offset
    directions[:, 2] = np.maximum(directions[:, 2], 0.05)  # nothing shines from below the table
    return np.asarray(directions / np.linalg.norm(directions, axis=1, keepdims=True))
