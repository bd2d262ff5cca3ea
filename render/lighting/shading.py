"""Shading on the CPU: the light that points of a surface send to the eye.

The same terms as ``shaders/light.frag``, but for the relief of the marks on dice.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
_BLOCK = 1 << 14  # points at a time, so that what is known of them stays in the processor's cache


@dataclass(frozen=True)
class Points:
    """Points of surfaces, in the world.

    Attributes:
        places_m: (3, n).
        normals: (3, n) unit vectors.
        to_eye: (3, n) unit vectors.
        colors: (3, n) linear reflectance.
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

    @functools.cached_property
    def to_light(self) -> Floats:
        """What maps points of the world to the beam's frame, (3, 4)."""
        return self.view.pose.inverse().matrix()[:3].astype(np.float32)


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
    """Returns the linear radiance (3, n) that the points send to the eye."""
    radiance = np.empty_like(points.colors)
    sky = sky_harmonics(lighting.environment).astype(np.float32)
    bounced = lighting.ground_color * ground_irradiance(lighting.environment) / np.pi
    for start in range(0, radiance.shape[1], _BLOCK):
        block = slice(start, start + _BLOCK)
        some = Points(**{f.name: getattr(points, f.name)[..., block] for f in fields(points)})
        radiance[:, block] = _shade(some, lighting, sky, _column(bounced))
    return radiance


def _shade(points: Points, lighting: Lighting, sky: Floats, bounced: Floats) -> Floats:
    """Returns the radiance (3, n) under a sky of harmonics (9, 3) over a table of radiance (3, 1)."""
    light = _direct(points, lighting)
    of_sky = harmonic_irradiance(sky, points.normals.T).T
    # what hides the sky from a surface hides the table, too, as far as it faces the sky at all
    down = 0.5 - 0.5 * points.normals[2]
    of_table = np.pi * down * (light.openness + (1 - light.openness) * down)
    irradiance = light.irradiance + of_sky * light.openness + of_table * bounced
    nv = _dots(points.normals, points.to_eye)
    share = _mirrored_share(points, nv)
    around = _around(points, nv, lighting.environment, bounced)
    shine = light.shine + share * around * (1 - _OCCLUDED_SHINE * (1 - light.openness))
    diffuse = points.colors * (1 - points.metallic) * irradiance / np.pi
    return np.asarray(points.colors * points.emission + diffuse * (1 - share) + shine)


@dataclass(frozen=True)
class _Direct:
    """What lamps and near lights shed (3, n) and reflect (3, n), and how open (n,) the sky is."""

    irradiance: Floats
    shine: Floats
    openness: Floats


def _direct(points: Points, lighting: Lighting) -> _Direct:
    count = points.normals.shape[1]
    irradiance, shine = np.zeros((2, 3, count), np.float32)
    # light of the sky that arrives, and that would if all were open
    sky = np.full((2, count), 1e-6, np.float32)
    lamps = lighting.environment.lamps
    seen = np.zeros((len(lamps), count), np.float32)
    parts, part = lamp_parts(lamps), 0
    for beam, shadow in zip(lighting.beams, lighting.shadows, strict=True):
        to_beam, share, radii = _arriving(points, beam)
        received = _dots(points.normals, to_beam).clip(0) * share
        visible = _visible(points, beam, shadow)
        if beam.is_sky:
            power = np.float32(beam.power.sum())
            sky[0] += received * visible * power
            sky[1] += received * power
            continue
        irradiance += received * visible * _column(beam.power)
        if beam.is_placed:
            shine += visible * share * _column(beam.power) * _glint(points, to_beam, radii)
        elif lamps:
            seen[part // parts] += visible / np.float32(parts)
            part += 1
    for lamp, open_share in zip(lamps, seen, strict=True):
        glint = _glint(points, _column(lamp.direction), lamp.radius_rad)
        shine += open_share * _column(lamp.irradiance) * glint
    return _Direct(irradiance, shine, sky[0] / sky[1])


def _column(values: ArrayLike) -> Floats:
    """Returns three numbers as (3, 1)."""
    return np.asarray(values, np.float32)[:, None]


def _dots(vectors: Floats, others: Floats) -> Floats:
    """Returns the scalar products (n,) of vectors (3, n) or (3, 1)."""
    products = vectors * others
    return np.asarray(products[0] + products[1] + products[2])


def _f0(points: Points) -> Floats:
    """Returns what mirrors of the points' surfaces reflect straight back (3, n)."""
    return points.specular * (1 - points.metallic) + points.colors * points.metallic


def _edge(f0: Floats) -> Floats:
    """Returns what mirrors reflect (3, n) at grazing angles.

    All light, or less where no real dielectric reflects as little straight back.
    """
    return np.clip(50 * f0, 0, 1)


def _glint(points: Points, to_light: Floats, radii: Floats | float) -> Floats:
    """Returns the radiance (3, n) that lights (3, n) or (3, 1) reflect for each irradiance facing them.

    The facets look as far around as to blur the radii (n,) in, radians.
    """
    middle = points.to_eye + to_light
    middle /= np.sqrt(_dots(middle, middle))
    nl = _dots(points.normals, to_light).clip(0)
    nv = _dots(points.normals, points.to_eye).clip(1e-3)
    nh = _dots(points.normals, middle)
    away = 1 - _dots(points.to_eye, middle)
    wide = np.minimum(np.square(np.square(points.roughness)) + 0.25 * np.square(radii), 1)
    density = wide / (np.pi * np.square(1 - np.square(nh) * (1 - wide)))
    f0 = _f0(points)
    fresnel = f0 + (_edge(f0) - f0) * (np.square(np.square(away)) * away)  # Schlick 1994
    return np.asarray(fresnel * (density * nl / (2 * np.maximum(hidden(nl, nv, wide), 1e-5))))


def _mirrored_share(points: Points, nv: Floats) -> Floats:
    """Returns the shares (3, n) of an even environment that points at cosines nv (n,) reflect."""
    factor, added = split_sum_at(points.roughness, nv.clip(0, 1))
    f0 = _f0(points)
    return np.asarray(f0 * factor + _edge(f0) * added)


def _arriving(points: Points, beam: Beam) -> tuple[Floats, Floats | float, Floats | float]:
    """Returns unit vectors (3, n) or (3, 1) towards a beam, the share (n,) of its power that arrives
    and the radius (n,) that it shows, radians.
    """
    if not beam.is_placed:
        return _column(beam.place), 1.0, 0.0
    to_beam = _column(beam.place) - points.places_m
    away = np.sqrt(_dots(to_beam, to_beam))
    to_beam /= away
    off_axis = falloffs(beam, -_dots(to_beam, _column(beam.axis)))
    return to_beam, np.asarray(off_axis / np.square(away)), np.asarray(beam.radius_m / away)


def _visible(points: Points, beam: Beam, shadow: ShadowMap) -> NDArray[np.bool_]:
    """Returns which points (n,) a beam reaches; beside its map all or, of several, none."""
    view, turn, moved = shadow.view, shadow.to_light[:, :3], shadow.to_light[:, 3:]
    seen = turn @ points.places_m + moved
    texel_m = np.abs(seen[2]) / np.float32(view.focal_px)
    x, y, depth = seen + turn @ points.normals * texel_m
    before = depth > 0
    scale = np.float32(view.focal_px) / np.where(before, depth, np.float32(1))
    column = np.rint(x * scale + np.float32(view.cx_px)).astype(np.int32)
    row = np.rint(y * scale + np.float32(view.cy_px)).astype(np.int32)
    inside = before & (column >= 0) & (column < view.width) & (row >= 0) & (row < view.width)
    nearest = shadow.depth_m.ravel()[np.where(inside, row * view.width + column, 0)]
    reached = (nearest == 0) | (depth <= nearest)
    return np.asarray(np.where(inside, reached, beam.looks is None))


def _around(points: Points, nv: Floats, environment: Environment, bounced: Floats) -> Floats:
    """Returns the radiance (3, n) of sky and table that mirrors show, blurred by the roughness."""
    towards = 2 * nv * points.normals[2] - points.to_eye[2]
    alpha = np.square(points.roughness)
    sky = sky_radiance(environment, towards).T
    share = _smooth_step(-0.1 - alpha, 0.1 + alpha, towards)
    return np.asarray(bounced + share * (sky - bounced))


def _smooth_step(low: NDArray[Any], high: NDArray[Any], x: Floats) -> Floats:
    t = ((x - low) / (high - low)).clip(0, 1)
    return np.asarray(t * t * (3 - 2 * t))
