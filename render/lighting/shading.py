"""Shading of surface points on the CPU.

The terms are those of ``shaders/light.frag``, without normal maps.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sim2cam.render.gbuffer import PinholeView
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
from sim2cam.scene.light import Environment

Floats = NDArray[np.float32]

_SPECULAR_OCCLUSION = 0.7  # share of sky occlusion that applies to reflections, too
_BLOCK_POINTS = 1 << 14  # points per block: intermediate arrays fit the processor cache


@dataclass(frozen=True)
class SurfacePoints:
    """Points of surfaces, in the world frame.

    Attributes:
        positions_m: (3, n).
        normals: (3, n) unit vectors.
        view_directions: (3, n) unit vectors to the eye.
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
    """Depth map from a beam.

    Attributes:
        view: square view; from very far away for a directional beam.
        depth_m: (h, w) depth of the nearest surface, 0 for the background.
    """

    view: PinholeView
    depth_m: Floats

    @functools.cached_property
    def world_to_light(self) -> Floats:
        """Transform (3, 4) from the world to the frame of the view."""
        return self.view.pose.inverse().matrix()[:3].astype(np.float32)


@dataclass(frozen=True)
class Lighting:
    """Lights and shadow maps of a scene.

    Attributes:
        environment: sky and lamps.
        beams: beams of all lights.
        shadows: one shadow map per beam.
        ground_color: (3,) linear reflectance of the table.
    """

    environment: Environment
    beams: tuple[Beam, ...]
    shadows: tuple[ShadowMap, ...]
    ground_color: Floats


def shade(points: SurfacePoints, lighting: Lighting) -> Floats:
    """Return the linear radiance (3, n) of points towards the eye."""
    radiance = np.empty_like(points.albedo)
    sky = compute_sky_harmonics(lighting.environment).astype(np.float32)
    ground_radiance = (
        lighting.ground_color * compute_ground_irradiance(lighting.environment) / np.pi
    )
    for start in range(0, radiance.shape[1], _BLOCK_POINTS):
        block = slice(start, start + _BLOCK_POINTS)
        block_points = SurfacePoints(
            **{f.name: getattr(points, f.name)[..., block] for f in fields(points)}
        )
        radiance[:, block] = _shade_block(block_points, lighting, sky, _as_column(ground_radiance))
    return radiance


def _shade_block(
    points: SurfacePoints, lighting: Lighting, sky_coefficients: Floats, ground_radiance: Floats
) -> Floats:
    """Return the radiance (3, n) with sky harmonics (9, 3) and table radiance (3, 1)."""
    light = _compute_direct_light(points, lighting)
    sky_irradiance = compute_harmonic_irradiance(sky_coefficients, points.normals.T).T
    # occluders of the sky hide the table, too, in proportion to how far the surface faces up
    down = 0.5 - 0.5 * points.normals[2]
    ground_factor = np.pi * down * (light.sky_visibility + (1 - light.sky_visibility) * down)
    irradiance = (
        light.irradiance + sky_irradiance * light.sky_visibility + ground_factor * ground_radiance
    )
    nv = _dot(points.normals, points.view_directions)
    reflectance = _compute_environment_brdf(points, nv)
    reflected = _compute_reflected_radiance(points, nv, lighting.environment, ground_radiance)
    shine = light.specular + reflectance * reflected * (
        1 - _SPECULAR_OCCLUSION * (1 - light.sky_visibility)
    )
    diffuse = points.albedo * (1 - points.metallic) * irradiance / np.pi
    return np.asarray(points.albedo * points.emission + diffuse * (1 - reflectance) + shine)


@dataclass(frozen=True)
class _DirectLight:
    """Irradiance (3, n) and specular radiance (3, n) of lights, and visibility (n,) of the sky."""

    irradiance: Floats
    specular: Floats
    sky_visibility: Floats


def _compute_direct_light(points: SurfacePoints, lighting: Lighting) -> _DirectLight:
    count = points.normals.shape[1]
    irradiance, shine = np.zeros((2, 3, count), np.float32)
    # visible light of the sky, and its total
    sky = np.full((2, count), 1e-6, np.float32)
    lamps = lighting.environment.lamps
    lamp_visibility = np.zeros((len(lamps), count), np.float32)
    beams_per_lamp, beam_index = count_beams_per_lamp(lamps), 0
    for beam, shadow in zip(lighting.beams, lighting.shadows, strict=True):
        to_beam, relative_power, radii = _compute_incidence(points, beam)
        incident = _dot(points.normals, to_beam).clip(0) * relative_power
        visible = _find_lit_points(points, beam, shadow)
        if beam.is_sky:
            power = np.float32(beam.power.sum())
            sky[0] += incident * visible * power
            sky[1] += incident * power
            continue
        irradiance += incident * visible * _as_column(beam.power)
        if beam.is_local:
            shine += (
                visible
                * relative_power
                * _as_column(beam.power)
                * _compute_specular(points, to_beam, radii)
            )
        elif lamps:
            lamp_visibility[beam_index // beams_per_lamp] += visible / np.float32(beams_per_lamp)
            beam_index += 1
    for lamp, visibility in zip(lamps, lamp_visibility, strict=True):
        glint = _compute_specular(points, _as_column(lamp.direction), lamp.radius_rad)
        shine += visibility * _as_column(lamp.irradiance) * glint
    return _DirectLight(irradiance, shine, sky[0] / sky[1])


def _as_column(values: ArrayLike) -> Floats:
    """Return three numbers as (3, 1)."""
    return np.asarray(values, np.float32)[:, None]


def _dot(vectors: Floats, others: Floats) -> Floats:
    """Return the scalar products (n,) of vectors (3, n) or (3, 1)."""
    products = vectors * others
    return np.asarray(products[0] + products[1] + products[2])


def _compute_f0(points: SurfacePoints) -> Floats:
    """Return the reflectance (3, n) at normal incidence."""
    return points.specular * (1 - points.metallic) + points.albedo * points.metallic


def _compute_f90(f0: Floats) -> Floats:
    """Return the reflectance (3, n) at grazing incidence.

    It is 1, or less where f0 is below that of real dielectrics.
    """
    return np.clip(50 * f0, 0, 1)


def _compute_specular(
    points: SurfacePoints, light_directions: Floats, source_radii: Floats | float
) -> Floats:
    """Return the specular radiance (3, n) per unit irradiance of lights (3, n) or (3, 1).

    The distribution of normals is widened by the angular radii (n,) of the lights, in radians.
    """
    half_vectors = points.view_directions + light_directions
    half_vectors /= np.sqrt(_dot(half_vectors, half_vectors))
    nl = _dot(points.normals, light_directions).clip(0)
    nv = _dot(points.normals, points.view_directions).clip(1e-3)
    nh = _dot(points.normals, half_vectors)
    one_minus_vh = 1 - _dot(points.view_directions, half_vectors)
    alpha_squared = np.minimum(
        np.square(np.square(points.roughness)) + 0.25 * np.square(source_radii), 1
    )
    density = alpha_squared / (np.pi * np.square(1 - np.square(nh) * (1 - alpha_squared)))
    f0 = _compute_f0(points)
    fresnel = f0 + (_compute_f90(f0) - f0) * (
        np.square(np.square(one_minus_vh)) * one_minus_vh
    )  # Schlick 1994
    return np.asarray(
        fresnel
        * (density * nl / (2 * np.maximum(compute_smith_masking(nl, nv, alpha_squared), 1e-5)))
    )


def _compute_environment_brdf(points: SurfacePoints, cos_view: Floats) -> Floats:
    """Return the reflectance (3, n) of a uniform environment at view cosines (n,)."""
    scale, bias = interpolate_split_sum(points.roughness, cos_view.clip(0, 1))
    f0 = _compute_f0(points)
    return np.asarray(f0 * scale + _compute_f90(f0) * bias)


def _compute_incidence(
    points: SurfacePoints, beam: Beam
) -> tuple[Floats, Floats | float, Floats | float]:
    """Return unit vectors (3, n) or (3, 1) to a beam, its relative irradiance (n,) and angular
    radius (n,).
    """
    if not beam.is_local:
        return _as_column(beam.location), 1.0, 0.0
    to_beam = _as_column(beam.location) - points.positions_m
    distance = np.sqrt(_dot(to_beam, to_beam))
    to_beam /= distance
    falloff = compute_falloff(beam, -_dot(to_beam, _as_column(beam.axis)))
    return (
        to_beam,
        np.asarray(falloff / np.square(distance)),
        np.asarray(beam.source_radius_m / distance),
    )


def _find_lit_points(points: SurfacePoints, beam: Beam, shadow: ShadowMap) -> NDArray[np.bool_]:
    """Return whether a beam reaches points (n,).

    Points outside its shadow map are lit, unless the beam is split.
    """
    view, rotation, translation = (
        shadow.view,
        shadow.world_to_light[:, :3],
        shadow.world_to_light[:, 3:],
    )
    local_points = rotation @ points.positions_m + translation
    texel_m = np.abs(local_points[2]) / np.float32(view.focal_px)
    x, y, depth = local_points + rotation @ points.normals * texel_m
    is_in_front = depth > 0
    scale = np.float32(view.focal_px) / np.where(is_in_front, depth, np.float32(1))
    column = np.rint(x * scale + np.float32(view.cx_px)).astype(np.int32)
    row = np.rint(y * scale + np.float32(view.cy_px)).astype(np.int32)
    inside = is_in_front & (column >= 0) & (column < view.width) & (row >= 0) & (row < view.width)
    nearest = shadow.depth_m.ravel()[np.where(inside, row * view.width + column, 0)]
    is_lit = (nearest == 0) | (depth <= nearest)
    return np.asarray(np.where(inside, is_lit, beam.shadow_axis is None))


def _compute_reflected_radiance(
    points: SurfacePoints, cos_view: Floats, environment: Environment, ground_radiance: Floats
) -> Floats:
    """Return the radiance (3, n) of sky and table in mirror direction, blurred by roughness."""
    towards = 2 * cos_view * points.normals[2] - points.view_directions[2]
    alpha = np.square(points.roughness)
    sky = compute_sky_radiance(environment, towards).T
    share = _smoothstep(-0.1 - alpha, 0.1 + alpha, towards)
    return np.asarray(ground_radiance + share * (sky - ground_radiance))


def _smoothstep(low: NDArray[Any], high: NDArray[Any], x: Floats) -> Floats:
    t = ((x - low) / (high - low)).clip(0, 1)
    return np.asarray(t * t * (3 - 2 * t))
