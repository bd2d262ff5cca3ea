"""Shading on the CPU: the light that points of a surface send to the eye.

The same terms as ``shaders/light.frag``, but for the relief of the marks on dice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.render.lighting.beams import (
    Beam,
    falloffs,
    ground_irradiance,
    harmonic_irradiance,
    lamp_parts,
    sky_harmonics,
    sky_radiance,
)
from sim2cam.render.lighting.microfacets import hidden, split_sum_at
from sim2cam.render.rasterizer import PinholeView
from sim2cam.scene.light import Environment

Floats = NDArray[np.float32]

_OCCLUDED_SHINE = 0.7  # how much of what hides the sky hides its reflections too


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
        shadows: one map for each beam.
        ground_color: (3,) linear reflectance of the table.
    """

    environment: Environment
    beams: tuple[Beam, ...]
    shadows: tuple[ShadowMap, ...]
    ground_color: Floats


def shade(points: Points, lighting: Lighting) -> Floats:
    """Returns the linear radiance (n, 3) that the points send to the eye."""
    bounced = lighting.ground_color * ground_irradiance(lighting.environment) / np.pi
    light = _direct(points, lighting)
    normals = points.normals.astype(np.float64)
    of_sky = harmonic_irradiance(sky_harmonics(lighting.environment), normals)
    # what hides the sky from a surface hides the table, too, as far as it faces the sky at all
    down = 0.5 - 0.5 * points.normals[:, 2]
    of_table = np.pi * down * (light.openness + (1 - light.openness) * down)
    irradiance = light.irradiance + of_sky * light.openness[:, None] + of_table[:, None] * bounced
    share = _mirrored_share(points)
    around = _around(points, lighting.environment, bounced)
    shine = light.shine + share * around * (1 - _OCCLUDED_SHINE * (1 - light.openness))[:, None]
    glow = points.colors * points.emission[:, None]
    diffuse = points.colors * (1 - points.metallic[:, None]) * irradiance / np.pi
    return np.asarray(glow + diffuse * (1 - share) + shine, dtype=np.float32)


@dataclass(frozen=True)
class _Direct:
    """What lamps and near lights shed (n, 3) and reflect (n, 3), and how open (n,) the sky is."""

    irradiance: NDArray[np.float64]
    shine: NDArray[np.float64]
    openness: NDArray[np.float64]


def _direct(points: Points, lighting: Lighting) -> _Direct:
    count = len(points.normals)
    irradiance, shine = np.zeros((2, count, 3))
    sky = np.full((2, count), 1e-6)  # light that arrives, and that would if all were open
    lamps = lighting.environment.lamps
    seen = np.zeros((len(lamps), count))
    parts, part = lamp_parts(lamps), 0
    for beam, shadow in zip(lighting.beams, lighting.shadows, strict=True):
        to_beam, share = _arriving(points, beam)
        received = (points.normals * to_beam).sum(axis=1).clip(0) * share
        visible = _visible(points, beam, shadow)
        if beam.is_sky:
            sky += np.stack([received * visible, received]) * beam.power.sum()
            continue
        irradiance += (received * visible)[:, None] * beam.power
        if beam.is_placed:
            away = np.linalg.norm(beam.place - points.places_m, axis=1)
            glint = _glint(points, to_beam, beam.radius_m / away)
            shine += (visible * share)[:, None] * beam.power * glint
        elif lamps:
            seen[part // parts] += visible / parts
            part += 1
    for lamp, open_share in zip(lamps, seen, strict=True):
        towards = np.broadcast_to(np.array(lamp.direction, np.float32), (count, 3))
        radii = np.full(count, lamp.radius_rad)
        shine += open_share[:, None] * np.array(lamp.irradiance) * _glint(points, towards, radii)
    return _Direct(irradiance, shine, sky[0] / sky[1])


def _f0(points: Points) -> Floats:
    """Returns what mirrors of the points' surfaces reflect straight back (n, 3)."""
    metallic = points.metallic[:, None]
    return points.specular[:, None] * (1 - metallic) + points.colors * metallic


def _edge(f0: Floats) -> Floats:
    """Returns what mirrors reflect (n, 3) at grazing angles.

    All light, or less where no real dielectric reflects as little straight back.
    """
    return np.clip(50 * f0, 0, 1)


def _glint(points: Points, to_light: Floats, radius: NDArray[Any]) -> NDArray[np.float64]:
    """Returns the radiance (n, 3) that lights reflect to the eye for each irradiance facing them.

    The facets look as far around as to blur the radii (n,) in, radians.
    """
    middle = points.to_eye + to_light
    middle = middle / np.linalg.norm(middle, axis=1, keepdims=True)
    nl = (points.normals * to_light).sum(axis=1).clip(0)
    nv = (points.normals * points.to_eye).sum(axis=1).clip(1e-3)
    nh = (points.normals * middle).sum(axis=1)
    away = 1 - (points.to_eye * middle).sum(axis=1)
    wide = np.minimum(points.roughness**4 + 0.25 * radius**2, 1)
    density = wide / (np.pi * (1 - nh**2 * (1 - wide)) ** 2)
    f0 = _f0(points)
    fresnel = f0 + (_edge(f0) - f0) * (away**5)[:, None]  # Schlick 1994
    return np.asarray(
        fresnel * (density * nl / (2 * np.maximum(hidden(nl, nv, wide), 1e-5)))[:, None]
    )


def _mirrored_share(points: Points) -> Floats:
    """Returns the shares (n, 3) of an even environment that the points reflect."""
    nv = (points.normals * points.to_eye).sum(axis=1).clip(0, 1)
    factor, added = split_sum_at(points.roughness, nv).T
    f0 = _f0(points)
    return np.asarray(f0 * factor[:, None] + _edge(f0) * added[:, None], np.float32)


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


def _around(points: Points, environment: Environment, bounced: NDArray[np.float64]) -> Floats:
    """Returns the radiance (n, 3) of sky and table that mirrors show, blurred by the roughness."""
    nv = (points.normals * points.to_eye).sum(axis=1)
    towards = 2 * nv * points.normals[:, 2] - points.to_eye[:, 2]
    alpha = points.roughness**2
    sky = sky_radiance(environment, towards.astype(np.float64))
    share = _smooth_step(-0.1 - alpha, 0.1 + alpha, towards)[:, None]
    return np.asarray(bounced + share * (sky - bounced), dtype=np.float32)


def _smooth_step(low: Floats, high: Floats, x: Floats) -> Floats:
    t = ((x - low) / (high - low)).clip(0, 1)
    return np.asarray(t * t * (3 - 2 * t))
