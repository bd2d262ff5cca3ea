"""Mitsuba emitters of a scene's lights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.assets import environment_map
from sim2cam.geometry.poses import Pose, vec3
from sim2cam.geometry.sphere_points import GOLDEN_ANGLE_RAD
from sim2cam.render.lighting.beams import Beam, compute_falloff, compute_sky_radiance
from sim2cam.scene.light import AreaLight, Environment, LocalLight, PointLight, SpotLight

Floats = NDArray[np.float32]

_SKY_MAP_ROWS = 256  # 0.012 rad per texel; lamps are wider
_SKY_TO_WORLD = np.array([[1, 0, 0, 0], [0, 0, -1, 0], [0, 1, 0, 0], [0, 0, 0, 1.0]])
_CONE_TEXTURE_PX = 512
_SPOT_SAMPLES = 32  # point lights that approximate the disk of a spot light


def build_emitters(mi: Any, environment: Environment) -> list[dict[str, Any]]:
    """Return Mitsuba descriptions of the sky with its lamps, then of the local lights.

    Unlike in the rasterizers, luminous balls and rectangles are visible to the camera.
    """
    sky = {
        "type": "envmap",
        "bitmap": mi.Bitmap(render_sky_map(environment, _SKY_MAP_ROWS)),
        "to_world": mi.ScalarTransform4f(_SKY_TO_WORLD),
    }
    return [
        sky,
        *(part for light in environment.lights for part in _build_local_emitters(mi, light)),
    ]


def render_sky_map(environment: Environment, rows: int) -> Floats:
    """Render sky and lamps as an equirectangular radiance map.

    Returns:
        (rows, 2 rows, 3) linear RGB. Row 0 is the direction +z, the last row -z; columns run
        from +y towards +x.
    """
    directions = environment_map.compute_texel_directions(rows)
    if environment.environment_map is None:
        heights = directions[..., 2].ravel()
        radiance = compute_sky_radiance(environment, heights).reshape(directions.shape)
    else:
        radiance = environment_map.compute_rotated_sky_light(environment.environment_map, rows)
    for lamp in environment.lamps:
        angles = np.arccos((directions @ lamp.direction).clip(-1, 1))
        lobe = np.exp(-((angles / lamp.radius_rad) ** 2)) / (math.pi * lamp.radius_rad**2)
        radiance += lobe[..., None] * np.array(lamp.irradiance)
    return np.asarray(radiance, dtype=np.float32)


def _build_local_emitters(mi: Any, light: LocalLight) -> list[dict[str, Any]]:
    match light:
        case PointLight():
            return [_build_ball(mi, light)]
        case SpotLight():
            return _build_spots(mi, light)
        case AreaLight():
            half = np.diag([light.width_m / 2, light.height_m / 2, 1.0, 1.0])
            to_world = mi.ScalarTransform4f(light.pose.matrix() @ half)
            return [
                {"type": "rectangle", "to_world": to_world, **_make_surface_emitter(light.radiance)}
            ]


def _build_ball(mi: Any, light: PointLight) -> dict[str, Any]:
    if light.radius_m == 0:
        position = mi.ScalarPoint3f(*light.position_m)
        return {"type": "point", "position": position, "intensity": _make_rgb(light.intensity)}
    radiance = np.array(light.intensity) / (math.pi * light.radius_m**2)
    position = mi.ScalarPoint3f(*light.position_m)
    return {
        "type": "sphere",
        "center": position,
        "radius": light.radius_m,
        **_make_surface_emitter(radiance),
    }


def _build_spots(mi: Any, light: SpotLight) -> list[dict[str, Any]]:
    """Return point spots on the visible disk of the light, which share its intensity."""
    count = _SPOT_SAMPLES if light.radius_m > 0 else 1
    target = vec3(np.add(light.position_m, light.direction))
    pose = Pose.look_at(light.position_m, target, 0.0)
    index = np.arange(count)
    radii, angle = light.radius_m * np.sqrt((index + 0.5) / count), index * GOLDEN_ANGLE_RAD
    offsets = np.stack([radii * np.cos(angle), radii * np.sin(angle), np.zeros(count)], axis=1)
    cone = {"type": "bitmap", "bitmap": mi.Bitmap(_render_cone_texture(light)), "raw": True}
    edge = math.degrees(light.outer_angle_rad)
    spot = {
        "type": "spot",
        "cutoff_angle": edge,
        "beam_width": edge * (1 - 1e-5),
        "texture": cone,
        "intensity": _make_rgb(np.divide(light.intensity, count)),
    }
    poses = [Pose(pose.rotation_wxyz, vec3(offset)) for offset in pose.apply(offsets)]
    return [spot | {"to_world": mi.ScalarTransform4f(pose.matrix())} for pose in poses]


def _render_cone_texture(light: SpotLight) -> Floats:
    """Return the relative intensity (n, n, 3) over the square around the cone, at z = 1.

    Mitsuba's falloff is linear in the angle; here it is smooth in the cosine.
    """
    coordinates = ((np.arange(_CONE_TEXTURE_PX) + 0.5) / _CONE_TEXTURE_PX * 2 - 1) * math.tan(
        light.outer_angle_rad
    )
    cosines = 1 / np.sqrt(1 + coordinates**2 + coordinates[:, None] ** 2)
    cone = (math.cos(light.inner_angle_rad), math.cos(light.outer_angle_rad))
    beam = Beam(np.zeros(3), True, np.ones(3), np.array(light.direction), cone)
    share = compute_falloff(beam, cosines)
    return np.repeat(share[..., None], 3, axis=2).astype(np.float32)


def _make_surface_emitter(radiance: Any) -> dict[str, Any]:
    """Return an area emitter with a black surface."""
    black = {"type": "diffuse", "reflectance": _make_rgb((0.0, 0.0, 0.0))}
    return {"emitter": {"type": "area", "radiance": _make_rgb(radiance)}, "bsdf": black}


def _make_rgb(linear: Any) -> dict[str, Any]:
    return {"type": "rgb", "value": [float(c) for c in linear]}
