"""Scenes from sampled factors, deterministically: equal factors give equal scenes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from scipy.spatial.transform import Rotation

from sim2cam.geometry.lens import BrownConrady, KannalaBrandt, Lens, Rational, ThinPrism
from sim2cam.geometry.motion import Twist
from sim2cam.geometry.poses import Pose, Quaternion, Vec3, quaternion, vec3
from sim2cam.objects.primitives import Cuboid, Ground
from sim2cam.randomize.bodies import compute_position, make_hands, make_placeables
from sim2cam.randomize.decals import add_decals
from sim2cam.randomize.domain import Domain
from sim2cam.randomize.layout import BOARD_THICKNESS_M, MAT_THICKNESS_M, arrange_bodies
from sim2cam.randomize.lights import make_environment
from sim2cam.randomize.materials import get_surface_image, make_material
from sim2cam.randomize.sampling import FactorValues
from sim2cam.scene.asset_facts import AssetInfo
from sim2cam.scene.camera import Camera, Shutter
from sim2cam.scene.depth_camera import DEPTH_CAMERA_TYPES, AnyDepthCamera
from sim2cam.scene.image_facts import EnvironmentMapInfo, TextureImageInfo
from sim2cam.scene.lens_effects import (
    Defocus,
    Dirt,
    Droplets,
    FieldBlur,
    Glare,
    LateralColor,
    LensEffects,
)
from sim2cam.scene.material import Material, Texture
from sim2cam.scene.parameters import read_parameters
from sim2cam.scene.scene import Body, Scene
from sim2cam.scene.sensor import Automatics, Mosaic, Processing, Sensor

Part = TypeVar("Part")

_GROUND_SIDE_M = 6.0
_BACKGROUND_ROUGHNESS = 0.9
_WALL_THICKNESS_M = 0.004
_REFERENCE_DIE_M = 0.016
_REFERENCE_WIDTH_PX = 640
_NEUTRAL_CONTACT = 1.0  # contact coefficients multiply, so the body on top decides
_UPRIGHT: Quaternion = (1.0, 0.0, 0.0, 0.0)


def build_scene(
    factors: FactorValues,
    domain: Domain,
    width: int,
    height: int,
    assets: Sequence[AssetInfo] = (),
    skies: Sequence[EnvironmentMapInfo] = (),
    surface_images: Sequence[TextureImageInfo] = (),
) -> Scene:
    """Build a scene with bodies at their initial poses.

    Args:
        factors: sampled values.
        domain: domain with the kinds of its objects.
        width, height: image size of the cameras in pixels.
        assets: available objects from files.
        skies, surface_images: available environment maps and texture images.
    """
    factors = replace(factors, surface_images={facts.name: facts for facts in surface_images})
    placeables = make_placeables(factors, domain, assets)
    loose = arrange_bodies(placeables, factors, _compute_half_extents(factors))
    fixtures = (fixture.body for fixture in placeables.fixtures)
    bodies = (
        *_make_supports(factors),
        *_make_background_image(factors),
        *fixtures,
        *loose,
        *make_hands(factors),
    )
    lengths = [target.length_m for target in placeables.targets or placeables.fixtures]
    length = float(np.median(lengths))
    cameras = tuple(
        _make_camera(factors, view, width, height, length) for view in range(factors.views)
    )
    return Scene(add_decals(bodies, factors), make_environment(factors, skies), cameras)


def _make_supports(factors: FactorValues) -> list[Body]:
    ground = Body(
        "table", Ground(_GROUND_SIDE_M), make_material(factors, "table"), Pose(), is_fixed=True,
        friction=_NEUTRAL_CONTACT, restitution=_NEUTRAL_CONTACT,
    )  # fmt: skip
    surface = factors.get_str("layout/surface")
    if surface == "table":
        return [ground]
    side = factors.get_float("layout/surface_side_m")
    size = (side, side * factors.get_float("layout/aspect"))
    if surface == "shelf":
        return [ground, *_make_shelf(factors, size)]
    mat = _make_slab(
        "mat",
        (*size, MAT_THICKNESS_M),
        (0.0, 0.0, MAT_THICKNESS_M / 2),
        make_material(factors, "wall" if surface == "bin" else "mat"),
    )
    return [ground, mat] if surface == "mat" else [ground, mat, *_make_walls(factors, size)]


def _make_background_image(factors: FactorValues) -> list[Body]:
    """Return the background image as a body; empty if none was sampled."""
    facts = get_surface_image(factors, "backdrop")
    if facts is None:
        return []
    width = factors.get_float("backdrop/width_m")
    photo = Texture("plain", facts.color, facts.color, width, 0.0, 0.0, 0, facts.file)
    azimuth = factors.get_float("backdrop/azimuth_rad")
    normal = np.array([math.cos(azimuth), math.sin(azimuth), 0.0])
    up = np.array([0.0, 0.0, 1.0])
    rotation = Rotation.from_matrix(np.column_stack([np.cross(up, normal), up, normal]))
    distance = factors.get_float("backdrop/distance_m")
    position = vec3(factors.get_float("backdrop/height_m") * up - distance * normal)
    material = Material(photo, _BACKGROUND_ROUGHNESS)
    pose = Pose(quaternion(rotation), position)
    return [Body("backdrop", Ground(width), material, pose, is_fixed=True)]


def _make_walls(factors: FactorValues, size: tuple[float, float]) -> list[Body]:
    height, thickness = factors.get_float("layout/wall_m"), _WALL_THICKNESS_M
    material = make_material(factors, "wall")
    x, y = (size[0] + thickness) / 2, (size[1] + thickness) / 2
    along_x, along_y = (size[0] + 2 * thickness, thickness, height), (thickness, size[1], height)
    return [
        _make_slab("wall/0", along_x, (0.0, y, height / 2), material),
        _make_slab("wall/1", along_x, (0.0, -y, height / 2), material),
        _make_slab("wall/2", along_y, (x, 0.0, height / 2), material),
        _make_slab("wall/3", along_y, (-x, 0.0, height / 2), material),
    ]


def _make_shelf(factors: FactorValues, size: tuple[float, float]) -> list[Body]:
    """Return the boards, the sides and the back of a shelf."""
    count, gap, thickness = (
        factors.get_int("layout/shelf_count"),
        factors.get_float("layout/wall_m"),
        BOARD_THICKNESS_M,
    )
    material, (width, depth) = make_material(factors, "wall"), size
    height = count * gap + thickness
    x, y, z = (width + thickness) / 2, (depth + thickness) / 2, height / 2
    boards = [
        _make_slab(
            f"shelf/{k}", (width, depth, thickness), (0.0, 0.0, k * gap + thickness / 2), material
        )
        for k in range(count + 1)
    ]
    return [
        *boards,
        _make_slab("wall/0", (width + 2 * thickness, thickness, height), (0.0, y, z), material),
        _make_slab("wall/1", (thickness, depth, height), (x, 0.0, z), material),
        _make_slab("wall/2", (thickness, depth, height), (-x, 0.0, z), material),
    ]


def _make_slab(name: str, size_m: Vec3, position_m: Vec3, material: Material) -> Body:
    pose = Pose(_UPRIGHT, position_m)
    return Body(
        name,
        Cuboid(size_m),
        material,
        pose,
        is_fixed=True,
        friction=_NEUTRAL_CONTACT,
        restitution=_NEUTRAL_CONTACT,
    )


def _compute_half_extents(factors: FactorValues) -> np.ndarray:
    """Return the half sides (2,) of the area in which bodies are placed."""
    if factors.get_str("layout/surface") in ("table", "mat"):
        return np.array([_GROUND_SIDE_M, _GROUND_SIDE_M])
    side = factors.get_float("layout/surface_side_m")
    return np.array([side, side * factors.get_float("layout/aspect")]) / 2


def _make_camera(
    factors: FactorValues, view: int, width: int, height: int, length_m: float
) -> Camera:
    """Return a camera; ``length_m`` is the longest side of the object of median size."""
    path = f"view/{view}"
    half = factors.get_float(f"{path}/fov_rad") / 2
    focal_px = width / 2 / (half if factors.has_group(f"fisheye/{view}") else math.tan(half))
    reference_m, reference_px = _get_reference_length(factors, path, length_m)
    distance = focal_px * reference_m / (reference_px * width / _REFERENCE_WIDTH_PX)
    tilt, azimuth = factors.get_float(f"{path}/tilt_rad"), factors.get_float(f"{path}/azimuth_rad")
    x, y, _ = compute_position(
        factors, factors.get_float(f"{path}/aim_radius"), factors.get_float(f"{path}/aim_angle_rad")
    )
    z = factors.get_float_or(f"{path}/aim_height_m", 0.0)
    radius = distance * math.sin(tilt)
    eye = (
        x + radius * math.cos(azimuth),
        y + radius * math.sin(azimuth),
        z + distance * math.cos(tilt),
    )
    pose = Pose.look_at(eye, (x, y, z), factors.get_float(f"{path}/roll_rad"))
    return Camera(
        pose=pose,
        width=width,
        height=height,
        lens=_make_lens(factors, view, focal_px, width, height),
        sensor=_make_sensor(factors, view),
        shutter=_make_part(factors, f"shutter/{view}", Shutter),
        twist=_make_twist(factors, view, pose),
        depth_camera=_make_depth_camera(factors, view),
        baseline_m=_get_baseline_m(factors, view),
        glass=_make_glass(factors, view, distance),
    )


def _get_reference_length(factors: FactorValues, path: str, length_m: float) -> tuple[float, float]:
    """Return a reference length in metres and its size in pixels at the reference image width."""
    if f"{path}/die_px" in factors.values:
        return _REFERENCE_DIE_M, factors.get_float(f"{path}/die_px")
    return length_m, factors.get_float(f"{path}/object_px")


def _make_twist(factors: FactorValues, view: int, pose: Pose) -> Twist | None:
    """Return the motion of a camera at this pose, in world coordinates."""
    path = f"motion/{view}"
    if not factors.has_group(path):
        return None
    velocity, spin = (
        np.array([factors.get_float(f"{path}/{name}") for name in names])
        for names in (
            ("right_m_s", "down_m_s", "forward_m_s"),
            ("pitch_rad_s", "yaw_rad_s", "roll_rad_s"),
        )
    )
    to_world = pose.rotation()
    return Twist(vec3(to_world.apply(velocity)), vec3(to_world.apply(spin)))


def _make_depth_camera(factors: FactorValues, view: int) -> AnyDepthCamera | None:
    path = f"depth_camera/{view}"
    if not factors.has_group(path):
        return None
    return factors.read(DEPTH_CAMERA_TYPES[factors.get_str(f"{path}/kind")], path)


def _make_part(factors: FactorValues, path: str, part_type: type[Part]) -> Part | None:
    """Return a camera component with the sampled values; None if its group is absent."""
    return factors.read(part_type, path) if factors.has_group(path) else None


def _make_glass(factors: FactorValues, view: int, distance_m: float) -> LensEffects | None:
    """Return the lens effects of a camera with this look-at distance; None without any."""
    effects = LensEffects(
        defocus=_make_defocus(factors, view, distance_m),
        lateral_color=_make_part(factors, f"lateral_color/{view}", LateralColor),
        field_blur=_make_part(factors, f"field_blur/{view}", FieldBlur),
        glare=_make_part(factors, f"glare/{view}", Glare),
        dirt=_make_part(factors, f"dirt/{view}", Dirt),
        droplets=_make_part(factors, f"droplets/{view}", Droplets),
    )
    return None if effects == LensEffects() else effects


def _make_defocus(factors: FactorValues, view: int, distance_m: float) -> Defocus | None:
    path = f"defocus/{view}"
    if not factors.has_group(path):
        return None
    focus_m = distance_m * factors.get_float(f"{path}/focus")
    return Defocus(factors.get_float(f"{path}/aperture_m"), focus_m)


def _get_baseline_m(factors: FactorValues, view: int) -> float | None:
    path = f"stereo/{view}"
    return factors.get_float(f"{path}/baseline_m") if factors.has_group(path) else None


def _make_lens(factors: FactorValues, view: int, focal_px: float, width: int, height: int) -> Lens:
    path, fisheye = f"lens/{view}", f"fisheye/{view}"
    center = (
        (width - 1) / 2 + width * factors.get_float(f"{path}/shift_x"),
        (height - 1) / 2 + width * factors.get_float(f"{path}/shift_y"),
    )
    focal = focal_px, focal_px * factors.get_float_or(f"{path}/aspect", 1.0)
    if factors.has_group(fisheye):
        k1, k2, k3, k4 = (
            factors.get_float(f"{fisheye}/{name}") for name in ("k1", "k2", "k3", "k4")
        )
        return KannalaBrandt(*focal, *center, k1, k2, k3, k4)
    distortion: list[Any] = [
        factors.get_float_or(f"{path}/{name}", 0.0) for name in _DISTORTION_COEFFICIENTS
    ]
    if any(f"{path}/{name}" in factors.values for name in _DISTORTION_COEFFICIENTS[8:]):
        return ThinPrism(*focal, *center, *distortion)
    if any(f"{path}/{name}" in factors.values for name in _DISTORTION_COEFFICIENTS[5:8]):
        return Rational(*focal, *center, *distortion[:8])
    return BrownConrady(*focal, *center, *distortion[:5])


_DISTORTION_COEFFICIENTS = ("k1", "k2", "p1", "p2", "k3", "k4", "k5", "k6", "s1", "s2", "s3", "s4")


def _make_sensor(factors: FactorValues, view: int) -> Sensor:
    groups = (f"exposure/{view}/", f"sensor/{view}/")
    values = {
        f"sensor/{path.rpartition('/')[2]}": value
        for path, value in factors.values.items()
        if path.startswith(groups)
    }
    return replace(
        read_parameters(Sensor, values, "sensor"),
        mosaic=_make_part(factors, f"mosaic/{view}", Mosaic),
        processing=_make_part(factors, f"processing/{view}", Processing),
        automatics=_make_part(factors, f"automatics/{view}", Automatics),
    )
