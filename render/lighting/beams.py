"""Light sources as directional and local beams, each with one shadow map.

Soft lights are several beams: around the centre of a lamp, or from points on a local light. Beams
of the sky only estimate its visibility; the irradiance of the open sky comes from spherical
harmonics.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.assets import environment_map
from sim2cam.geometry.sphere_points import GOLDEN_ANGLE_RAD, make_fibonacci_directions
from sim2cam.objects.primitives import Cuboid, Ground
from sim2cam.scene.light import AreaLight, Environment, Lamp, LocalLight, PointLight, SpotLight
from sim2cam.scene.scene import Body, Scene

Floats = NDArray[np.float64]

DOME_BEAMS = 6
ROTATIONS = 4  # of sky and lamp beams by quarter turns; neighbouring pixels use different ones
LAMP_BEAMS = 8  # of all lamps in all rotations, at least one per lamp
MAX_LAMPS = 4
MAX_DIRECTIONAL = DOME_BEAMS + MAX_LAMPS
MAX_LOCAL = 24
MAX_SHADOW_MAPS = ROTATIONS * MAX_DIRECTIONAL + MAX_LOCAL

_SKY_SAMPLES = 1024
# squared normalization of the harmonics of degree 0, 1, 2, times the factors of a cosine lobe
_HARMONIC_FACTORS = np.array(
    [
        1 / (4 * math.pi) * math.pi,
        *[3 / (4 * math.pi) * (2 * math.pi / 3)] * 3,
        *[15 / (4 * math.pi) * (math.pi / 4)] * 2,
        5 / (16 * math.pi) * (math.pi / 4),
        15 / (4 * math.pi) * (math.pi / 4),
        15 / (16 * math.pi) * (math.pi / 4),
    ]
)
_HARD_LAMP_RADIUS_RAD = 0.01
_MAX_HALF_ANGLE_RAD = 1.3  # limit of one shadow map
_MIN_APPARENT_RADIUS_M = 0.005  # reflections of point lights would exceed any dynamic range
_NEAR_FRACTION = 0.02  # of the bounding sphere: near plane of lights among the bodies
_MAP_MARGIN = 1.01  # keeps the border of shadow maps empty
_CUBE_AXES = np.concatenate([np.eye(3), -np.eye(3)])


@dataclass(frozen=True)
class Beam:
    """Light with one shadow map.

    Attributes:
        location: (3,) unit vector to the light, or position of a local one.
        is_local: whether ``location`` is a position.
        power: (3,) linear RGB irradiance on a facing surface; intensity of a local beam.
        axis: (3,) direction of a local beam.
        cone: cosines of the angles off the axis where a local beam begins to fall off and ends;
            None for the cosine falloff of a surface.
        shadow_axis: (3,) axis of a shadow map of 90 degrees, outside of which the beam lights
            nothing; None for beams that are not split.
        source_radius_m: radius of the light source, for specular reflection of local beams.
        is_sky: whether the beam estimates the visibility of the sky only; the light of the sky
            comes from ``compute_sky_harmonics``.
    """

    location: Floats
    is_local: bool
    power: Floats
    axis: Floats
    cone: tuple[float, float] | None = (-1.0, -1.1)
    shadow_axis: Floats | None = None
    source_radius_m: float = 0.0
    is_sky: bool = False


@dataclass(frozen=True)
class ShadowView:
    """View of a shadow map.

    Attributes:
        eye, target: (3,) positions of the eye and of the point it looks at.
        half_extent: half the side in metres; for local beams, the tangent of half the angle.
        near_m, far_m: depth range of the bodies.
    """

    eye: Floats
    target: Floats
    half_extent: float
    near_m: float
    far_m: float


def make_beams(environment: Environment, centre: Floats, radius: float) -> tuple[Beam, ...]:
    """Return all beams of a scene; see ``make_directional_beams`` and ``make_local_beams``."""
    return (*make_directional_beams(environment), *make_local_beams(environment, centre, radius))


def make_local_beams(environment: Environment, centre: Floats, radius: float) -> tuple[Beam, ...]:
    """Return the beams of local lights.

    Args:
        environment: lights of the scene.
        centre, radius: bounding sphere of the shadow casters, centre (3,); a beam from inside is split
            into six by direction.
    """
    beams = [beam for light in environment.lights for beam in _make_source_beams(light)]
    return tuple(split_beam for beam in beams for split_beam in _split_beam(beam, centre, radius))


def make_directional_beams(environment: Environment, rotations: int = 1) -> tuple[Beam, ...]:
    """Return the beams of the sky and of lamps.

    Args:
        environment: sky and lamps of the scene.
        rotations: number of rotated copies in which each beam is used, around the zenith or the
            centre of the lamp; 1 for hard lamps.
    """
    beams = list(_make_dome_beams(environment))
    rotations = 1 if have_hard_shadows(environment.lamps) else rotations
    beam_count = count_beams_per_lamp(environment.lamps, rotations)
    for lamp in environment.lamps:
        power = np.divide(lamp.irradiance, beam_count)
        beams += [
            _make_directional_beam(direction, power)
            for direction in _sample_lamp_directions(lamp, beam_count, rotations)
        ]
    return tuple(beams)


def count_beams_per_lamp(lamps: Sequence[Lamp], rotations: int = 1) -> int:
    """Return the number of beams per lamp; 1 if all lamps are hard."""
    return 1 if have_hard_shadows(lamps) else max(1, LAMP_BEAMS // (rotations * len(lamps)))


def have_hard_shadows(lamps: Sequence[Lamp]) -> bool:
    """Return whether all lamps are as small as the sun, with sharp shadows."""
    return all(lamp.radius_rad < _HARD_LAMP_RADIUS_RAD for lamp in lamps)


def compute_map_radius(radius: float) -> float:
    """Return the half extent of directional shadow maps around a sphere of a radius."""
    return _MAP_MARGIN * radius


def fit_shadow_view(beam: Beam, centre: Floats, radius: float) -> ShadowView:
    """Return the view of a shadow map that covers a sphere with centre (3,), or its part if split."""
    if not beam.is_local:
        map_radius = compute_map_radius(radius)
        return ShadowView(
            centre + beam.location * 2 * map_radius, centre, map_radius, map_radius, 3 * map_radius
        )
    distance_m = float(np.linalg.norm(centre - beam.location))
    if beam.shadow_axis is not None:
        return ShadowView(
            beam.location,
            beam.location + beam.shadow_axis,
            1.0,
            _NEAR_FRACTION * radius,
            distance_m + radius,
        )
    half = math.tan(math.asin(radius / distance_m))
    return ShadowView(beam.location, centre, half, 0.9 * (distance_m - radius), distance_m + radius)


def compute_sky_radiance(environment: Environment, heights: NDArray[Any]) -> NDArray[Any]:
    """Return the linear RGB radiance (n, 3) of a gradient sky without lamps.

    Args:
        environment: zenith and horizon colours.
        heights: z (n,) of unit directions.
    """
    level = np.clip(heights, 0, 1)[:, None]
    ends = np.array([environment.horizon, environment.zenith], heights.dtype)
    return np.asarray((1 - level) * ends[0] + level * ends[1])


def compute_ground_irradiance(environment: Environment) -> Floats:
    """Return the linear RGB irradiance (3,) of an open, level surface at the origin."""
    up = np.array([[0.0, 0.0, 1.0]])
    total: Floats = compute_harmonic_irradiance(compute_sky_harmonics(environment), up)[0]
    for beam in make_beams(environment, np.zeros(3), 0.0):
        if beam.is_sky:
            continue
        total = total + beam.power * max(0.0, _compute_arrival_vector(beam)[2])
    return total


def find_ground_color(scene: Scene, centre: Floats) -> Floats:
    """Return the mean linear colour (3,) of the highest fixed table or box above or below a point (3,).

    Black without one.
    """
    surfaces = [
        (height, body.material.texture)
        for body in scene.bodies
        if body.is_fixed and (height := _find_surface_height(body, centre)) is not None
    ]
    if not surfaces:
        return np.zeros(3)
    texture = max(surfaces, key=lambda surface: surface[0])[1]
    a, b = np.array(texture.color_a), np.array(texture.color_b)
    return np.asarray(a + texture.contrast * (b - a) / 2)


def _find_surface_height(body: Body, point: Floats) -> float | None:
    """Return the height of the top of a table or box at the x and y of a point (3,); None beside it."""
    match body.asset:
        case Ground() if (
            body.pose.rotation().as_matrix()[2, 2] > 0.5
        ):  # vertical planes are backgrounds
            half = np.array([body.asset.side_m / 2] * 2 + [0.0])
        case Cuboid():
            half = np.array(body.asset.size_m) / 2
        case _:
            return None
    local = body.pose.inverse().apply(point[None])[0]
    if (np.abs(local[:2]) > half[:2]).any():
        return None
    return float(body.pose.apply(np.array([[local[0], local[1], half[2]]]))[0, 2])


def compute_sky_harmonics(environment: Environment) -> Floats:
    """Return the spherical harmonic coefficients (9, 3) of the sky's irradiance."""
    if environment.environment_map is not None:
        sky_directions, sky_radiance, solid_angles = environment_map.sample_upper_hemisphere(
            environment.environment_map
        )
        return np.asarray(
            _HARMONIC_FACTORS[:, None]
            * (_evaluate_harmonics(sky_directions).T @ (sky_radiance * solid_angles[:, None]))
        )
    directions = _sample_hemisphere(_SKY_SAMPLES)
    radiance = compute_sky_radiance(environment, directions[:, 2])
    solid_angle = 2 * math.pi / _SKY_SAMPLES
    return np.asarray(
        _HARMONIC_FACTORS[:, None] * (_evaluate_harmonics(directions).T @ radiance) * solid_angle
    )


def compute_harmonic_irradiance(coefficients: NDArray[Any], normals: NDArray[Any]) -> NDArray[Any]:
    """Return the linear RGB irradiance (n, 3) of the open sky on surfaces with normals (n, 3).

    Spherical harmonics up to degree 2 represent irradiance to a few per cent (Ramamoorthi and
    Hanrahan 2001, "An efficient representation for irradiance environment maps").
    """
    return np.asarray(np.maximum(_evaluate_harmonics(normals) @ coefficients, 0))


def _evaluate_harmonics(directions: NDArray[Any]) -> NDArray[Any]:
    """Return the unnormalized harmonics (n, 9) of directions (n, 3)."""
    x, y, z = directions.T
    terms = [np.ones_like(x), y, z, x, x * y, y * z, 3 * z * z - 1, x * z, x * x - y * y]
    return np.stack(terms, axis=1)


def _sample_hemisphere(count: int) -> Floats:
    """Return directions (count, 3) of equal solid angle on a Fibonacci spiral."""
    return make_fibonacci_directions((np.arange(count) + 0.5) / count)


def _compute_arrival_vector(beam: Beam) -> Floats:
    """Return the unit vector (3,) from the origin to a beam, times its relative irradiance."""
    if not beam.is_local:
        return beam.location
    distance_m = float(np.linalg.norm(beam.location))
    towards = beam.location / distance_m
    return np.asarray(
        towards * compute_falloff(beam, np.array(-towards @ beam.axis)) / distance_m**2
    )


def compute_falloff(beam: Beam, cosines: NDArray[Any]) -> NDArray[Any]:
    """Return the relative intensity of a local beam at cosines of the angle to its axis."""
    if beam.cone is None:
        return np.asarray(np.maximum(cosines, 0))
    begin, end = beam.cone
    t = np.clip((cosines - end) / (begin - end), 0, 1)
    return np.asarray(t * t * (3 - 2 * t))


def _make_dome_beams(environment: Environment) -> tuple[Beam, ...]:
    """Return the beams of the sky, of equal solid angle; none for a black sky."""
    directions = _sample_hemisphere(DOME_BEAMS)
    power = compute_dome_powers(environment)[0]
    if not power.any():
        return ()
    beams = (_make_directional_beam(d, p) for d, p in zip(directions, power, strict=True))
    return tuple(replace(beam, is_sky=True) for beam in beams)


def compute_dome_powers(environment: Environment) -> Floats:
    """Return the irradiance of each sky beam in each rotation, (rotations, beams, 3)."""
    directions = _sample_hemisphere(DOME_BEAMS)
    if environment.environment_map is None:
        power = compute_sky_radiance(environment, directions[:, 2]) * (2 * math.pi / DOME_BEAMS)
        return np.broadcast_to(power, (ROTATIONS, *power.shape))
    sky_directions, sky_radiance, solid_angles = environment_map.sample_upper_hemisphere(
        environment.environment_map
    )
    powers = []
    for rotation in range(ROTATIONS):
        beams = environment_map.rotate_about_vertical(directions, rotation * math.pi / 2)
        is_near = (
            np.eye(DOME_BEAMS)[(sky_directions @ beams.T).argmax(axis=1)] * solid_angles[:, None]
        )
        powers.append(is_near.T @ sky_radiance / is_near.sum(axis=0)[:, None])
    return np.array(powers) * (2 * math.pi / DOME_BEAMS)


def _sample_lamp_directions(lamp: Lamp, count: int, rotations: int) -> Floats:
    """Return directions (count, 3); over all rotations they sample the Gaussian lobe of a lamp."""
    axis = np.array(lamp.direction)
    side = np.cross(axis, np.eye(3)[int(np.argmin(np.abs(axis)))])
    side /= np.linalg.norm(side)
    other = np.cross(axis, side)
    i = np.arange(count)
    reach = lamp.radius_rad * np.sqrt(-np.log(1 - (i + 0.5) / count))
    if count * rotations == 1:
        reach = np.zeros(1)
    angle = i * GOLDEN_ANGLE_RAD
    offset = (np.cos(angle)[:, None] * side + np.sin(angle)[:, None] * other) * np.tan(reach)[
        :, None
    ]
    directions = axis + offset
    directions[:, 2] = np.maximum(directions[:, 2], 0.05)  # no light from below the table
    return np.asarray(directions / np.linalg.norm(directions, axis=1, keepdims=True))


def _make_directional_beam(direction: Floats, power: Floats) -> Beam:
    return Beam(direction, False, power, -direction)


def _make_center_beam(light: LocalLight) -> Beam:
    """Return a beam from the centre of a light."""
    match light:
        case PointLight():
            return Beam(np.array(light.position_m), True, np.array(light.intensity), _DOWN)
        case SpotLight():
            cone = (math.cos(light.inner_angle_rad), math.cos(light.outer_angle_rad))
            axis = np.array(light.direction)
            return Beam(np.array(light.position_m), True, np.array(light.intensity), axis, cone)
        case AreaLight():
            axis = light.pose.rotation().as_matrix()[:, 2]
            power = np.array(light.radiance) * light.width_m * light.height_m
            return Beam(np.array(light.pose.position_m), True, power, axis, None)


def _make_source_beams(light: LocalLight) -> list[Beam]:
    """Return beams from points on a light, which share its power."""
    centre_beam = _make_center_beam(light)
    offsets = (
        _sample_rectangle(light) if isinstance(light, AreaLight) else _sample_ball(light.radius_m)
    )
    parts = len(offsets)
    part = replace(
        centre_beam,
        power=centre_beam.power / parts,
        source_radius_m=_compute_apparent_radius_m(light) / math.sqrt(parts),
    )
    return [replace(part, location=centre_beam.location + offset) for offset in offsets]


def _compute_apparent_radius_m(light: LocalLight) -> float:
    """Return the radius of the disc with the area of the light."""
    if isinstance(light, AreaLight):
        return math.sqrt(light.width_m * light.height_m / math.pi)
    return max(light.radius_m, _MIN_APPARENT_RADIUS_M)


def _sample_rectangle(light: AreaLight) -> Floats:
    """Return the centres (4, 3) of a rectangle's quarters, relative to its own centre."""
    quarter = np.array([light.width_m, light.height_m, 0.0]) / 4
    corners = np.array([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]])
    return np.asarray(light.pose.rotation().apply(corners * quarter))


_DOWN = np.array([0.0, 0.0, -1.0])


def _sample_ball(radius_m: float) -> Floats:
    """Return the vertices (4, 3) of a tetrahedron in a ball; its centre (1, 3) at radius 0."""
    if radius_m == 0:
        return np.zeros((1, 3))
    corners = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]) / math.sqrt(3)
    # the RMS radius of the points of a ball is 0.77 of its radius
    return np.asarray(corners * radius_m * math.sqrt(3 / 5))


def _split_beam(beam: Beam, centre: Floats, radius: float) -> list[Beam]:
    """Return the beam, or six of 90 degrees each if one map cannot cover all bodies."""
    distance_m = float(np.linalg.norm(centre - beam.location))
    if distance_m > radius and math.asin(radius / distance_m) < _MAX_HALF_ANGLE_RAD:
        return [beam]
    return [replace(beam, shadow_axis=axis) for axis in _CUBE_AXES]
