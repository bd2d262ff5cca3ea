"""Light as beams: parallel ones from far away and ones from a place, each with one shadow map.

Soft light is several beams: a lamp a few around its middle, a light with an extent a few from points
on it. The sky is a few from all around too, but these only tell which share of its light arrives:
what an open sky sheds is known from spherical harmonics, and does not depend on where they lie.
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
from sim2cam.scene.light import AreaLight, Environment, Lamp, LocalLight, PointLight, SpotLight
from sim2cam.scene.scene import Body, Scene
from sim2cam.scene.shape import Cuboid, Ground

Floats = NDArray[np.float64]

DOME_BEAMS = 6
ROTATIONS = 4  # of skies and lamps, a quarter turn apart, of which neighbouring pixels see one each
LAMP_BEAMS = 8  # of all lamps together in all their turns, at least one of each
LOCAL_BEAMS = 4  # of each local light with an extent
CUBE_BEAMS = 6  # of a beam from among the bodies
MAX_LAMPS = 4
MAX_DIRECTIONAL = DOME_BEAMS + MAX_LAMPS
MAX_LOCAL = 24
MAX_SHADOW_MAPS = ROTATIONS * MAX_DIRECTIONAL + MAX_LOCAL

_SKY_SAMPLES = 1024
# squared factors of the harmonics of degree 0, 1, 2, times what a cosine lobe leaves of each
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
_MAX_HALF_ANGLE_RAD = 1.3  # half angle that one shadow map may see
_MIN_APPARENT_RADIUS_M = 0.005  # a point's reflection would be brighter than any picture holds
_NEAR_FRACTION = 0.02  # of the bodies' sphere: nearer to a light among them nothing casts a shadow
_MAP_MARGIN = 1.01  # the edge of a shadow map stays empty
_CUBE_AXES = np.concatenate([np.eye(3), -np.eye(3)])


@dataclass(frozen=True)
class Beam:
    """Light that one shadow map can tell from its shadow.

    Attributes:
        location: (3,) unit vector towards it, or where it is.
        is_local: whether ``location`` is a position.
        power: (3,) linear RGB irradiance on a surface that faces it; intensity of a placed one.
        axis: (3,) where a placed one shines.
        cone: cosines of the angles off the axis where a placed one begins to fall off and where it
            ends; None for one that falls off as the radiance of a surface does, with the cosine.
        shadow_axis: (3,) where its shadow map looks when it lights only what that sees, a right angle
            both ways; one of several that share a light.
        source_radius_m: of the part of a near light that it stands for, as glossy surfaces reflect it.
        is_sky: whether it stands for a part of the sky: it tells how much of the sky's light
            arrives, but that light is known better (``compute_sky_harmonics``).
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
    """What a shadow map shows.

    Attributes:
        eye, target: (3,) it looks from one to the other.
        half_extent: half of its side, metres; of a placed beam's, the tangent of half its angle.
        near_m, far_m: distances between which bodies lie.
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
    """Return the beams of the lights near the scene.

    Args:
        environment: its light.
        centre, radius: sphere (3,), () around the bodies that cast; a beam from within it becomes
            six that share its directions.
    """
    placed = [beam for light in environment.lights for beam in _make_source_beams(light)]
    return tuple(part for beam in placed for part in _split_beam(beam, centre, radius))


def make_directional_beams(environment: Environment, rotations: int = 1) -> tuple[Beam, ...]:
    """Return the sky as ``DOME_BEAMS`` beams, unless it is dark, and each lamp as a few.

    Args:
        environment: its sky and lamps.
        rotations: how many times each of them is used: also turned around the zenith, or the middle of
            the lamp, by equal angles; once for lamps that are hard.
    """
    beams = list(_make_dome_beams(environment))
    rotations = 1 if have_hard_shadows(environment.lamps) else rotations
    share = count_beams_per_lamp(environment.lamps, rotations)
    for lamp in environment.lamps:
        power = np.divide(lamp.irradiance, share)
        beams += [
            _make_directional_beam(d, power)
            for d in _sample_lamp_directions(lamp, share, rotations)
        ]
    return tuple(beams)


def count_beams_per_lamp(lamps: Sequence[Lamp], rotations: int = 1) -> int:
    """Return of how many beams each of these lamps is made: of one when all are hard."""
    return 1 if have_hard_shadows(lamps) else max(1, LAMP_BEAMS // (rotations * len(lamps)))


def have_hard_shadows(lamps: Sequence[Lamp]) -> bool:
    """Return whether the shadows of all lamps are as sharp as the sun's."""
    return all(lamp.radius_rad < _HARD_LAMP_RADIUS_RAD for lamp in lamps)


def compute_map_radius(radius: float) -> float:
    """Return the radius of what parallel beams' shadow maps show around a sphere of some radius."""
    return _MAP_MARGIN * radius


def fit_shadow_view(beam: Beam, centre: Floats, radius: float) -> ShadowView:
    """Return what a beam's shadow map shows: all of a sphere (3,), () or, split, its share."""
    if not beam.is_local:
        shown = compute_map_radius(radius)
        return ShadowView(centre + beam.location * 2 * shown, centre, shown, shown, 3 * shown)
    away = float(np.linalg.norm(centre - beam.location))
    if beam.shadow_axis is not None:
        return ShadowView(
            beam.location,
            beam.location + beam.shadow_axis,
            1.0,
            _NEAR_FRACTION * radius,
            away + radius,
        )
    half = math.tan(math.asin(radius / away))
    return ShadowView(beam.location, centre, half, 0.9 * (away - radius), away + radius)


def compute_sky_radiance(environment: Environment, heights: NDArray[Any]) -> NDArray[Any]:
    """Return the linear RGB (n, 3) of a sky that is no picture, lamps left out.

    Args:
        environment: its zenith and horizon.
        heights: z (n,) of unit directions.
    """
    level = np.clip(heights, 0, 1)[:, None]
    ends = np.array([environment.horizon, environment.zenith], heights.dtype)
    return np.asarray((1 - level) * ends[0] + level * ends[1])


def compute_ground_irradiance(environment: Environment) -> Floats:
    """Return the linear RGB irradiance (3,) of an open, level surface around the origin."""
    up = np.array([[0.0, 0.0, 1.0]])
    total: Floats = compute_harmonic_irradiance(compute_sky_harmonics(environment), up)[0]
    for beam in make_beams(environment, np.zeros(3), 0.0):
        if beam.is_sky:
            continue
        total = total + beam.power * max(0.0, _compute_arrival_vector(beam)[2])
    return total


def find_ground_color(scene: Scene, centre: Floats) -> Floats:
    """Return the mean linear colour (3,) of the highest fixed surface below a point (3,).

    A mat hides the table. Black where there is none.
    """
    tops = [
        (top, body.material.texture)
        for body in scene.bodies
        if body.is_fixed and (top := _find_surface_height(body, centre)) is not None
    ]
    if not tops:
        return np.zeros(3)
    texture = max(tops, key=lambda found: found[0])[1]
    a, b = np.array(texture.color_a), np.array(texture.color_b)
    return np.asarray(a + texture.contrast * (b - a) / 2)


def _find_surface_height(body: Body, point: Floats) -> float | None:
    """Return the height at which a plumb line from a point meets a table or a box; None beside."""
    match body.asset:
        case Ground() if body.pose.rotation().as_matrix()[2, 2] > 0.5:  # a backdrop is upright
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
    """Return what ``compute_harmonic_irradiance`` knows of a sky, (9, 3)."""
    if environment.environment_map is not None:
        around, light, solid = environment_map.sample_upper_hemisphere(environment.environment_map)
        return np.asarray(
            _HARMONIC_FACTORS[:, None] * (_evaluate_harmonics(around).T @ (light * solid[:, None]))
        )
    directions = _sample_hemisphere(_SKY_SAMPLES)
    radiance = compute_sky_radiance(environment, directions[:, 2])
    share = 2 * math.pi / _SKY_SAMPLES
    return np.asarray(
        _HARMONIC_FACTORS[:, None] * (_evaluate_harmonics(directions).T @ radiance) * share
    )


def compute_harmonic_irradiance(coefficients: NDArray[Any], normals: NDArray[Any]) -> NDArray[Any]:
    """Return the linear RGB irradiance (n, 3) of the open sky on surfaces of normals (n, 3).

    The sky is taken in spherical harmonics up to degree 2, which hold all but a few per cent of any
    irradiance (Ramamoorthi and Hanrahan 2001, "An efficient representation for irradiance
    environment maps").
    """
    return np.asarray(np.maximum(_evaluate_harmonics(normals) @ coefficients, 0))


def _evaluate_harmonics(directions: NDArray[Any]) -> NDArray[Any]:
    """Return the harmonics (n, 9) of directions (n, 3), without their factors."""
    x, y, z = directions.T
    terms = [np.ones_like(x), y, z, x, x * y, y * z, 3 * z * z - 1, x * z, x * x - y * y]
    return np.stack(terms, axis=1)


def _sample_hemisphere(count: int) -> Floats:
    """Return directions (count, 3) on a Fibonacci spiral, each for the same solid angle."""
    return make_fibonacci_directions((np.arange(count) + 0.5) / count)


def _compute_arrival_vector(beam: Beam) -> Floats:
    """Return the unit vector (3,) from the origin to a beam times the share that arrives there."""
    if not beam.is_local:
        return beam.location
    away = float(np.linalg.norm(beam.location))
    towards = beam.location / away
    return np.asarray(towards * compute_falloff(beam, np.array(-towards @ beam.axis)) / away**2)


def compute_falloff(beam: Beam, cosines: NDArray[Any]) -> NDArray[Any]:
    """Return the shares of its intensity that a placed beam sends at cosines off its axis."""
    if beam.cone is None:
        return np.asarray(np.maximum(cosines, 0))
    begin, end = beam.cone
    t = np.clip((cosines - end) / (begin - end), 0, 1)
    return np.asarray(t * t * (3 - 2 * t))


def _make_dome_beams(environment: Environment) -> tuple[Beam, ...]:
    """Return the sky as beams from all around, each for the same solid angle."""
    directions = _sample_hemisphere(DOME_BEAMS)
    power = compute_dome_powers(environment)[0]
    if not power.any():
        return ()
    beams = (_make_directional_beam(d, p) for d, p in zip(directions, power, strict=True))
    return tuple(replace(beam, is_sky=True) for beam in beams)


def compute_dome_powers(environment: Environment) -> Floats:
    """Return what each beam of the sky stands for, in each of its ``ROTATIONS`` (turns, beams, 3)."""
    directions = _sample_hemisphere(DOME_BEAMS)
    if environment.environment_map is None:
        power = compute_sky_radiance(environment, directions[:, 2]) * (2 * math.pi / DOME_BEAMS)
        return np.broadcast_to(power, (ROTATIONS, *power.shape))
    around, light, solid = environment_map.sample_upper_hemisphere(environment.environment_map)
    powers = []
    for turn in range(ROTATIONS):
        beams = environment_map.rotate_about_vertical(directions, turn * math.pi / 2)
        is_near = np.eye(DOME_BEAMS)[(around @ beams.T).argmax(axis=1)] * solid[:, None]
        powers.append(is_near.T @ light / is_near.sum(axis=0)[:, None])
    return np.array(powers) * (2 * math.pi / DOME_BEAMS)


def _sample_lamp_directions(lamp: Lamp, count: int, rotations: int) -> Floats:
    """Return directions (count, 3) whose spread, with all turns, is that of the lamp's Gaussian lobe."""
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
    directions[:, 2] = np.maximum(directions[:, 2], 0.05)  # nothing shines from below the table
    return np.asarray(directions / np.linalg.norm(directions, axis=1, keepdims=True))


def _make_directional_beam(direction: Floats, power: Floats) -> Beam:
    return Beam(direction, False, power, -direction)


def _make_center_beam(light: LocalLight) -> Beam:
    """Return all of a light from its middle."""
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
    """Return the light shared among places on it."""
    middle = _make_center_beam(light)
    offsets = (
        _sample_rectangle(light) if isinstance(light, AreaLight) else _sample_ball(light.radius_m)
    )
    parts = len(offsets)
    part = replace(
        middle,
        power=middle.power / parts,
        source_radius_m=_compute_apparent_radius_m(light) / math.sqrt(parts),
    )
    return [replace(part, location=middle.location + offset) for offset in offsets]


def _compute_apparent_radius_m(light: LocalLight) -> float:
    """Return the radius of the disc with as much area as the light shows."""
    if isinstance(light, AreaLight):
        return math.sqrt(light.width_m * light.height_m / math.pi)
    return max(light.radius_m, _MIN_APPARENT_RADIUS_M)


def _sample_rectangle(light: AreaLight) -> Floats:
    """Return the middles (4, 3) of a rectangle's quarters, from its own middle."""
    quarter = np.array([light.width_m, light.height_m, 0.0]) / 4
    corners = np.array([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]])
    return np.asarray(light.pose.rotation().apply(corners * quarter))


_DOWN = np.array([0.0, 0.0, -1.0])


def _sample_ball(radius_m: float) -> Floats:
    """Return the corners (4, 3) of a tetrahedron in a ball; its middle (1, 3) when it has none."""
    if radius_m == 0:
        return np.zeros((1, 3))
    corners = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]) / math.sqrt(3)
    # a ball's points lie at 0.77 of its radius in the mean square
    return np.asarray(corners * radius_m * math.sqrt(3 / 5))


def _split_beam(beam: Beam, centre: Floats, radius: float) -> list[Beam]:
    """Return the beam, or six that see a right angle each when no map could see all bodies."""
    away = float(np.linalg.norm(centre - beam.location))
    if away > radius and math.asin(radius / away) < _MAX_HALF_ANGLE_RAD:
        return [beam]
    return [replace(beam, shadow_axis=axis) for axis in _CUBE_AXES]
