"""Shading on the CPU: the light that points of a surface send to the eye.

The same terms as ``shaders/light.frag``, but for the relief of the marks on dice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim2cam.render.light import (
    Beam,
    Lobe,
    falloffs,
    ground_irradiance,
    harmonic_irradiance,
    sky_harmonics,
    sky_radiance,
)
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
        roughness, specular, metallic, emission: (n,).
    """

    places_m: Floats
    normals: Floats
    to_eye: Floats
    colors: Floats
    roughness: Floats
    specular: Floats
    metallic: Floats
    emission: Floats


@dataclass(frozen=True)
class ShadowMap:
    """What a beam of light sees.

    Attributes:
        view: square; a parallel beam's is from very far away along it.
        depth_m: (h, w) depth of the nearest surface, 0 where there is none.
    """

    view: PinholeView
    depth_m: Floats


@dataclass(frozen=True)
class Lighting:
    """The light of a scene.

    Attributes:
        environment: its sky.
        beams: all of its light.
        lobes: its lamps and lights as glossy surfaces reflect them.
        shadows: one map for each beam.
        ground_color: (3,) linear reflectance of the table.
    """

    environment: Environment
    beams: tuple[Beam, ...]
    lobes: tuple[Lobe, ...]
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
    shine = fresnel * _reflected(towards, points, lighting, bounced)
    shine *= (1 - _OCCLUDED_SHINE * (1 - openness))[:, None]
    glow = points.colors * points.emission[:, None]
    return np.asarray(glow + diffuse * (1 - fresnel) + shine, dtype=np.float32)


def _irradiance(
    points: Points, lighting: Lighting, bounced: NDArray[np.float64]
) -> tuple[Floats, Floats]:
    """Returns the irradiance (n, 3) of the points and the share (n,) of their light that is open."""
    count = len(points.normals)
    irradiance = (np.pi * (0.5 - 0.5 * points.normals[:, 2]))[:, None] * bounced
    sky = np.full((2, count), 1e-6)  # light that arrives, and that would if all were open
    lights = np.zeros((2, count))
    for beam, shadow in zip(lighting.beams, lighting.shadows, strict=True):
        received = _received(points, beam)
        seen = received * _visible(points, beam, shadow)
        weights = np.stack([seen, received]) * beam.power.sum()
        if beam.is_sky:
            sky += weights
        else:
            lights += weights
            irradiance += seen[:, None] * beam.power
    normals = points.normals.astype(np.float64)
    of_sky = harmonic_irradiance(sky_harmonics(lighting.environment), normals)
    irradiance += of_sky * (sky[0] / sky[1])[:, None]
    arrives, would = sky + lights
    return irradiance.astype(np.float32), (arrives / would).astype(np.float32)


def _received(points: Points, beam: Beam) -> Floats:
    """Returns the share (n,) of a beam's power that the points receive where nothing is between."""
    to_beam, share = _arriving(points, beam)
    return np.asarray((points.normals * to_beam).sum(axis=1).clip(0) * share, np.float32)


def _arriving(points: Points, beam: Beam) -> tuple[Floats, Floats]:
    """Returns unit vectors (n, 3) towards a beam and the share (n,) of its power that arrives."""
    if not beam.is_placed:
        n = len(points.places_m)
        return np.tile(beam.place.astype(np.float32), (n, 1)), np.ones(n, np.float32)
    to_beam = beam.place.astype(np.float32) - points.places_m
    away = np.sqrt(np.einsum("ij,ij->i", to_beam, to_beam))
    to_beam /= away[:, None]
    off_axis = falloffs(beam, -to_beam @ beam.axis.astype(np.float32))
    return to_beam, np.asarray(off_axis / away**2, np.float32)


def _visible(points: Points, beam: Beam, shadow: ShadowMap) -> NDArray[np.bool_]:
    """Returns which points (n,) a beam reaches; beside its map all or, of several, none."""
    to_light = shadow.view.pose.inverse().matrix().astype(np.float32)
    depth_m = points.places_m @ to_light[2, :3] + to_light[2, 3]
    texel_m = (np.abs(depth_m) / np.float32(shadow.view.focal_px))[:, None]
    lifted = points.places_m + points.normals * texel_m
    x, y, depth = (lifted @ to_light[:3, :3].T + to_light[:3, 3]).T
    before = depth > 0
    scale = shadow.view.focal_px / np.where(before, depth, 1)
    column = np.rint(x * scale + shadow.view.cx_px).astype(np.int32)
    row = np.rint(y * scale + shadow.view.cy_px).astype(np.int32)
    side = shadow.view.width
    inside = before & (column >= 0) & (column < side) & (row >= 0) & (row < side)
    nearest = shadow.depth_m.ravel()[np.where(inside, row * side + column, 0)]
    reached = (nearest == 0) | (depth <= nearest)
    return np.asarray(np.where(inside, reached, beam.looks is None))


def _reflected(
    towards: Floats, points: Points, lighting: Lighting, bounced: NDArray[np.float64]
) -> Floats:
    """Returns the radiance (n, 3) that comes from directions (n, 3), blurred by the roughness."""
    alpha = points.roughness**2
    sky = sky_radiance(lighting.environment, towards[:, 2].astype(np.float64))
    share = _smooth_step(-0.1 - alpha, 0.1 + alpha, towards[:, 2])[:, None]
    light = bounced + share * (sky - bounced)
    for lobe in lighting.lobes:
        to_lobe, share = _arriving(points, lobe.beam)
        radius = lobe.radius
        if lobe.beam.is_placed:
            radius = radius / np.linalg.norm(lobe.beam.place - points.places_m, axis=1)
        width = radius**2 + alpha**2
        # a Gaussian on the sphere (Wang et al. 2009)
        off = 2 * ((towards * to_lobe).sum(axis=1) - 1) / width
        spot = share * np.exp(off) / (np.pi * width * (1 - np.exp(-4 / width)))
        light += spot[:, None] * lobe.beam.power
    return np.asarray(light, dtype=np.float32)


def _smooth_step(low: Floats, high: Floats, x: Floats) -> Floats:
    t = ((x - low) / (high - low)).clip(0, 1)
    return np.asarray(t * t * (3 - 2 * t))
