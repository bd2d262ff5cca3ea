"""Shading on the CPU: the light that points of a surface send to the eye.

The same terms as ``shaders/color.frag``, but for the relief of the marks on dice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim2cam.render.light import Rays, ground_irradiance, sky_radiance
from sim2cam.render.rasterizer import PinholeView
from sim2cam.scene.light import Environment

Floats = NDArray[np.float32]

_OCCLUDED_SHINE = 0.7  # how much of what hides a point's light hides its reflections too


@dataclass(frozen=True)
class Points:
    """Points of surfaces, in the world.

    Attributes:
        places_m: (n, 3).
        normals: (n, 3) unit vectors.
        to_eye: (n, 3) unit vectors.
        colors: (n, 3) linear reflectance.
        roughness, specular, metallic: (n,).
    """

    places_m: Floats
    normals: Floats
    to_eye: Floats
    colors: Floats
    roughness: Floats
    specular: Floats
    metallic: Floats


@dataclass(frozen=True)
class ShadowMap:
    """What a parallel light sees.

    Attributes:
        view: a view from very far away along the light, square.
        depth_m: (h, w) depth of the nearest surface, 0 where there is none.
        texel_m: side of a pixel in the world.
    """

    view: PinholeView
    depth_m: Floats
    texel_m: float


@dataclass(frozen=True)
class Lighting:
    """The light of a scene.

    Attributes:
        environment: sky and lamps.
        rays: both as parallel lights.
        shadows: one map for each of them.
        ground_color: (3,) linear reflectance of the table.
    """

    environment: Environment
    rays: Rays
    shadows: tuple[ShadowMap, ...]
    ground_color: Floats


def shade(points: Points, lighting: Lighting) -> Floats:
    """Returns the linear radiance (n, 3) that the points send to the eye."""
    bounced = lighting.ground_color * ground_irradiance(lighting.environment) / np.pi
    irradiance, openness = _irradiance(points, lighting, bounced)
    metallic = points.metallic[:, None]
    f0 = points.specular[:, None] * (1 - metallic) + points.colors * metallic
    facing_eye = np.einsum("ij,ij->i", points.normals, points.to_eye).clip(0, 1)
    # Schlick's Fresnel term, held down on rough surfaces (Lagarde 2011).
    rim = np.maximum(1 - points.roughness[:, None], f0) - f0
    fresnel = f0 + rim * (1 - facing_eye[:, None]) ** 5
    diffuse = points.colors * (1 - metallic) * irradiance / np.pi
    towards = 2 * facing_eye[:, None] * points.normals - points.to_eye
    shine = fresnel * _reflected(towards, points.roughness**2, lighting.environment, bounced)
    shine *= (1 - _OCCLUDED_SHINE * (1 - openness))[:, None]
    return np.asarray(diffuse * (1 - fresnel) + shine, dtype=np.float32)


def _irradiance(
    points: Points, lighting: Lighting, bounced: NDArray[np.float64]
) -> tuple[Floats, Floats]:
    """Returns the irradiance (n, 3) of the points and the share (n,) of their light that is open."""
    from_below = (np.pi * (0.5 - 0.5 * points.normals[:, 2]))[:, None] * bounced
    irradiance = from_below.astype(np.float32)
    open_light, all_light = np.zeros(len(irradiance)), np.full(len(irradiance), 1e-4)
    rays = zip(lighting.rays.directions, lighting.rays.irradiances, lighting.shadows, strict=True)
    for direction, power, shadow in rays:
        facing = (points.normals @ direction.astype(np.float32)).clip(0)
        seen = facing * _visible(points, shadow)
        irradiance += seen[:, None] * power.astype(np.float32)
        open_light += seen * power.sum()
        all_light += facing * power.sum()
    return irradiance, (open_light / all_light).astype(np.float32)


def _visible(points: Points, shadow: ShadowMap) -> NDArray[np.bool_]:
    """Returns which points (n,) a parallel light reaches; those beside its map are open."""
    to_light = shadow.view.pose.inverse().matrix().astype(np.float32)
    lifted = points.places_m + points.normals * np.float32(shadow.texel_m)
    x, y, depth = (lifted @ to_light[:3, :3].T + to_light[:3, 3]).T
    scale = shadow.view.focal_px / depth
    column = np.rint(x * scale + shadow.view.cx_px).astype(np.int32)
    row = np.rint(y * scale + shadow.view.cy_px).astype(np.int32)
    side = shadow.view.width
    inside = (column >= 0) & (column < side) & (row >= 0) & (row < side)
    nearest = shadow.depth_m.ravel()[np.where(inside, row * side + column, 0)]
    return np.asarray(~inside | (nearest == 0) | (depth <= nearest))


def _reflected(
    towards: Floats, alpha: Floats, environment: Environment, bounced: NDArray[np.float64]
) -> Floats:
    """Returns the radiance (n, 3) that comes from directions (n, 3), blurred by roughness (n,)."""
    sky = sky_radiance(environment, towards[:, 2].astype(np.float64))
    share = _smooth_step(-0.1 - alpha, 0.1 + alpha, towards[:, 2])[:, None]
    light = bounced + share * (sky - bounced)
    for lamp in environment.lamps:
        width = lamp.radius_rad**2 + alpha**2
        away = np.arccos((towards @ np.array(lamp.direction, np.float32)).clip(-1, 1))
        lobe = np.exp(-away * away / width) / (np.pi * width)
        light += lobe[:, None] * np.array(lamp.irradiance)
    return np.asarray(light, dtype=np.float32)


def _smooth_step(low: Floats, high: Floats, x: Floats) -> Floats:
    t = ((x - low) / (high - low)).clip(0, 1)
    return np.asarray(t * t * (3 - 2 * t))
