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
    compute_falloff,
    compute_ground_irradiance,
    compute_harmonic_irradiance,
    compute_sky_harmonics,
    compute_sky_radiance,
    count_beams_per_lamp,
)
from sim2cam.render.lighting.microfacets import compute_smith_masking, interpolate_split_sum
from sim2cam.render.rasterizer import PinholeView
from sim2cam.scene.light import Environment

Floats = NDArray[np.float32]

_SPECULAR_OCCLUSION = 0.7  # how much of what hides the sky hides its reflections too
_BLOCK_POINTS = (
    1 << 14
)  # points at a time, so that what is known of them stays in the processor's cache


@dataclass(frozen=True)
class SurfacePoints:
    """Points of surfaces, in the world.

    Attributes:
        positions_m: (3, n).
        normals: (3, n) unit vectors.
        view_directions: (3, n) unit vectors.
        albedo: (3, n) linear reflectance.
        roughness, specular, metallic, emission: (n,).
    """

    positions_m: Floats
    normals: Floats
    view_directions: Floats
    albedo: Floats
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
    def world_to_light(self) -> Floats:
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


def shade(points: SurfacePoints, lighting: Lighting) -> Floats:
    """Return the linear radiance (3, n) that the points send to the eye."""
    radiance = np.empty_like(points.albedo)
    sky = compute_sky_harmonics(lighting.environment).astype(np.float32)
    bounced = lighting.ground_color * compute_ground_irradiance(lighting.environment) / np.pi
    for start in range(0, radiance.shape[1], _BLOCK_POINTS):
        block = slice(start, start + _BLOCK_POINTS)
        some = SurfacePoints(
            **{f.name: getattr(points, f.name)[..., block] for f in fields(points)}
        )
        radiance[:, block] = _shade_block(some, lighting, sky, _as_column(bounced))
    return radiance


def _shade_block(
    points: SurfacePoints, lighting: Lighting, sky_coefficients: Floats, ground_radiance: Floats
) -> Floats:
    """Return the radiance (3, n) under a sky of harmonics (9, 3) over a table of radiance (3, 1)."""
    light = _compute_direct_light(points, lighting)
    of_sky = compute_harmonic_irradiance(sky_coefficients, points.normals.T).T
    # what hides the sky from a surface hides the table, too, as far as it faces the sky at all
    down = 0.5 - 0.5 * points.normals[2]
    of_table = np.pi * down * (light.sky_visibility + (1 - light.sky_visibility) * down)
    irradiance = light.irradiance + of_sky * light.sky_visibility + of_table * ground_radiance
    nv = _dot(points.normals, points.view_directions)
    share = _compute_environment_brdf(points, nv)
    around = _compute_reflected_radiance(points, nv, lighting.environment, ground_radiance)
    shine = light.specular + share * around * (1 - _SPECULAR_OCCLUSION * (1 - light.sky_visibility))
    diffuse = points.albedo * (1 - points.metallic) * irradiance / np.pi
    return np.asarray(points.albedo * points.emission + diffuse * (1 - share) + shine)


@dataclass(frozen=True)
class _DirectLight:
    """What lamps and near lights shed (3, n) and reflect (3, n), and how open (n,) the sky is."""

    irradiance: Floats
    specular: Floats
    sky_visibility: Floats


def _compute_direct_light(points: SurfacePoints, lighting: Lighting) -> _DirectLight:
    count = points.normals.shape[1]
    irradiance, shine = np.zeros((2, 3, count), np.float32)
    # light of the sky that arrives, and that would if all were open
    sky = np.full((2, count), 1e-6, np.float32)
    lamps = lighting.environment.lamps
    seen = np.zeros((len(lamps), count), np.float32)
    parts, part = count_beams_per_lamp(lamps), 0
    for beam, shadow in zip(lighting.beams, lighting.shadows, strict=True):
        to_beam, share, radii = _compute_incidence(points, beam)
        received = _dot(points.normals, to_beam).clip(0) * share
        visible = _find_lit_points(points, beam, shadow)
        if beam.is_sky:
            power = np.float32(beam.power.sum())
            sky[0] += received * visible * power
            sky[1] += received * power
            continue
        irradiance += received * visible * _as_column(beam.power)
        if beam.is_local:
            shine += (
                visible * share * _as_column(beam.power) * _compute_specular(points, to_beam, radii)
            )
        elif lamps:
            seen[part // parts] += visible / np.float32(parts)
            part += 1
    for lamp, open_share in zip(lamps, seen, strict=True):
        glint = _compute_specular(points, _as_column(lamp.direction), lamp.radius_rad)
        shine += open_share * _as_column(lamp.irradiance) * glint
    return _DirectLight(irradiance, shine, sky[0] / sky[1])


def _as_column(values: ArrayLike) -> Floats:
    """Return three numbers as (3, 1)."""
    return np.asarray(values, np.float32)[:, None]


def _dot(vectors: Floats, others: Floats) -> Floats:
    """Return the scalar products (n,) of vectors (3, n) or (3, 1)."""
    products = vectors * others
    return np.asarray(products[0] + products[1] + products[2])


def _compute_f0(points: SurfacePoints) -> Floats:
    """Return what mirrors of the points' surfaces reflect straight back (3, n)."""
    return points.specular * (1 - points.metallic) + points.albedo * points.metallic


def _compute_f90(f0: Floats) -> Floats:
    """Return what mirrors reflect (3, n) at grazing angles.

    All light, or less where no real dielectric reflects as little straight back.
    """
    return np.clip(50 * f0, 0, 1)


def _compute_specular(
    points: SurfacePoints, light_directions: Floats, source_radii: Floats | float
) -> Floats:
    """Return the radiance (3, n) that lights (3, n) or (3, 1) reflect for each irradiance facing them.

    The facets look as far around as to blur the radii (n,) in, radians.
    """
    middle = points.view_directions + light_directions
    middle /= np.sqrt(_dot(middle, middle))
    nl = _dot(points.normals, light_directions).clip(0)
    nv = _dot(points.normals, points.view_directions).clip(1e-3)
    nh = _dot(points.normals, middle)
    away = 1 - _dot(points.view_directions, middle)
    wide = np.minimum(np.square(np.square(points.roughness)) + 0.25 * np.square(source_radii), 1)
    density = wide / (np.pi * np.square(1 - np.square(nh) * (1 - wide)))
    f0 = _compute_f0(points)
    fresnel = f0 + (_compute_f90(f0) - f0) * (np.square(np.square(away)) * away)  # Schlick 1994
    return np.asarray(
        fresnel * (density * nl / (2 * np.maximum(compute_smith_masking(nl, nv, wide), 1e-5)))
    )


def _compute_environment_brdf(points: SurfacePoints, cos_view: Floats) -> Floats:
    """Return the shares (3, n) of an even environment that points at cosines nv (n,) reflect."""
    factor, added = interpolate_split_sum(points.roughness, cos_view.clip(0, 1))
    f0 = _compute_f0(points)
    return np.asarray(f0 * factor + _compute_f90(f0) * added)


def _compute_incidence(
    points: SurfacePoints, beam: Beam
) -> tuple[Floats, Floats | float, Floats | float]:
    """Return unit vectors (3, n) or (3, 1) towards a beam, the share (n,) of its power that arrives
    and the radius (n,) that it shows, radians.
    """
    if not beam.is_local:
        return _as_column(beam.location), 1.0, 0.0
    to_beam = _as_column(beam.location) - points.positions_m
    away = np.sqrt(_dot(to_beam, to_beam))
    to_beam /= away
    off_axis = compute_falloff(beam, -_dot(to_beam, _as_column(beam.axis)))
    return to_beam, np.asarray(off_axis / np.square(away)), np.asarray(beam.source_radius_m / away)


def _find_lit_points(points: SurfacePoints, beam: Beam, shadow: ShadowMap) -> NDArray[np.bool_]:
    """Return which points (n,) a beam reaches; beside its map all or, of several, none."""
    view, turn, moved = shadow.view, shadow.world_to_light[:, :3], shadow.world_to_light[:, 3:]
    seen = turn @ points.positions_m + moved
    texel_m = np.abs(seen[2]) / np.float32(view.focal_px)
    x, y, depth = seen + turn @ points.normals * texel_m
    before = depth > 0
    scale = np.float32(view.focal_px) / np.where(before, depth, np.float32(1))
    column = np.rint(x * scale + np.float32(view.cx_px)).astype(np.int32)
    row = np.rint(y * scale + np.float32(view.cy_px)).astype(np.int32)
    inside = before & (column >= 0) & (column < view.width) & (row >= 0) & (row < view.width)
    nearest = shadow.depth_m.ravel()[np.where(inside, row * view.width + column, 0)]
    reached = (nearest == 0) | (depth <= nearest)
    return np.asarray(np.where(inside, reached, beam.shadow_axis is None))


def _compute_reflected_radiance(
    points: SurfacePoints, cos_view: Floats, environment: Environment, ground_radiance: Floats
) -> Floats:
    """Return the radiance (3, n) of sky and table that mirrors show, blurred by the roughness."""
    towards = 2 * cos_view * points.normals[2] - points.view_directions[2]
    alpha = np.square(points.roughness)
    sky = compute_sky_radiance(environment, towards).T
    share = _smoothstep(-0.1 - alpha, 0.1 + alpha, towards)
    return np.asarray(ground_radiance + share * (sky - ground_radiance))


def _smoothstep(low: NDArray[Any], high: NDArray[Any], x: Floats) -> Floats:
    t = ((x - low) / (high - low)).clip(0, 1)
    return np.asarray(t * t * (3 - 2 * t))
