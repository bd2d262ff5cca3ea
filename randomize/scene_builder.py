"""Scenes from sampled factors, deterministically: equal factors give equal scenes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.spatial.transform import Rotation

from sim2cam.geometry.poses import Pose, Quaternion, Vec3, quaternion, vec3
from sim2cam.objects.hall import Hall
from sim2cam.objects.lens_hood import LensHood
from sim2cam.objects.primitives import MAX_TARGET_DISTANCE, Cuboid, Ground
from sim2cam.randomize.bodies import Placeables, make_hands, make_placeables
from sim2cam.randomize.cameras import make_camera
from sim2cam.randomize.decals import add_decals
from sim2cam.randomize.domain import Domain
from sim2cam.randomize.factors import HoodFactors
from sim2cam.randomize.field import make_field
from sim2cam.randomize.layout import BOARD_THICKNESS_M, MAT_THICKNESS_M, arrange_bodies
from sim2cam.randomize.lights import make_environment
from sim2cam.randomize.materials import get_surface_image, make_material
from sim2cam.randomize.sampling import FactorValues
from sim2cam.scene.asset_facts import AssetInfo
from sim2cam.scene.camera import Camera
from sim2cam.scene.image_facts import EnvironmentMapInfo, TextureImageInfo
from sim2cam.scene.material import Material, Texture, hsv_to_linear
from sim2cam.scene.scene import Body, Scene

_MIN_GROUND_SIDE_M = 6.0
_ROLL_LENGTHS = 2.0  # room to roll, over the length of a body
_BACKGROUND_ROUGHNESS = 0.9
_HOOD_ROUGHNESS = 0.9
_WALL_THICKNESS_M = 0.004
_FLOOR_CORNERS = np.array([(x, y, 0.0) for x in (-0.5, 0.5) for y in (-0.5, 0.5)])
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
    ground_side_m = _compute_ground_side_m(placeables)
    loose = arrange_bodies(placeables, factors, _compute_half_extents(factors, ground_side_m))
    fixtures = (fixture.body for fixture in placeables.fixtures)
    bodies = (
        *_make_supports(factors, ground_side_m),
        *_make_background_image(factors),
        *fixtures,
        *loose,
        *make_hands(factors),
    )
    lengths = [target.length_m for target in placeables.targets or placeables.fixtures]
    length = float(np.median(lengths))
    cameras = tuple(
        make_camera(factors, domain, view, width, height, length) for view in range(factors.views)
    )
    bodies = (*bodies, *_make_hoods(factors, cameras))
    return Scene(add_decals(bodies, factors), make_environment(factors, skies), cameras)


def _compute_ground_side_m(placeables: Placeables) -> float:
    """Return a side of the ground such that no body rolls over its edge."""
    reaches_m = (
        math.hypot(*placeable.body.pose.position_m) + _ROLL_LENGTHS * placeable.length_m
        for placeable in (*placeables.targets, *placeables.distractors)
    )
    reach_m = max(reaches_m, default=0.0)
    return max(_MIN_GROUND_SIDE_M, reach_m / MAX_TARGET_DISTANCE)


def _make_supports(factors: FactorValues, ground_side_m: float) -> list[Body]:
    ground = Body(
        "table", Ground(ground_side_m), make_material(factors, "table"), Pose(), is_fixed=True,
        friction=_NEUTRAL_CONTACT, restitution=_NEUTRAL_CONTACT,
    )  # fmt: skip
    surface = factors.get_str("layout/surface")
    if surface == "table":
        return [ground]
    if surface == "field":
        field = make_field(factors)
        side_m = max(ground_side_m, 2 * _compute_reach_m(field))
        return [replace(ground, asset=Ground(side_m)), *field]
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


def _compute_reach_m(bodies: Sequence[Body]) -> float:
    """Return the largest distance of the hall's floor from the origin along x or y."""
    corners = [
        body.pose.apply(_FLOOR_CORNERS * body.asset.size_m)
        for body in bodies
        if isinstance(body.asset, Hall)
    ]
    return float(np.abs(np.vstack(corners)[:, :2]).max())


def _make_hoods(factors: FactorValues, cameras: Sequence[Camera]) -> list[Body]:
    """Return the hood of each camera; empty without hoods."""
    bodies = []
    for view, camera in enumerate(cameras):
        path = f"hood/{view}"
        if not factors.has_group(path):
            continue
        hood = factors.read(HoodFactors, path)
        edge_rad = hood.edge * factors.get_float(f"view/{view}/fov_rad") / 2
        grey = hsv_to_linear(0.0, 0.0, hood.value)
        shape = LensHood(
            edge_rad, (hood.tilt_x_rad, hood.tilt_y_rad), hood.lumps, hood.lump_rad, hood.seed
        )
        material = Material(Texture("plain", grey, grey, 1.0, 0.0, 0.0, 0), _HOOD_ROUGHNESS)
        bodies.append(Body(path, shape, material, camera.pose, is_fixed=True))
    return bodies


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


def _compute_half_extents(factors: FactorValues, ground_side_m: float) -> np.ndarray:
    """Return the half sides (2,) of the area in which bodies are placed."""
    if factors.get_str("layout/surface") in ("table", "mat", "field"):
        return np.array([ground_side_m, ground_side_m]) / 2
    side = factors.get_float("layout/surface_side_m")
    return np.array([side, side * factors.get_float("layout/aspect")]) / 2
