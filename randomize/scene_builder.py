"""Composing: from drawn values to a scene. No chance here; equal draws give equal scenes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np
from scipy.spatial.transform import Rotation

from sim2cam.geometry.lens import BrownConrady, KannalaBrandt, Lens, Rational, ThinPrism
from sim2cam.geometry.motion import Twist
from sim2cam.geometry.poses import Pose, Quaternion, Vec3, quaternion, vec3
from sim2cam.randomize.bodies import hands_of, place_of, things_of
from sim2cam.randomize.decals import with_decals
from sim2cam.randomize.layout import BOARD_THICKNESS_M, MAT_THICKNESS_M, arrange
from sim2cam.randomize.lights import environment_of
from sim2cam.randomize.materials import material_of, picture_of
from sim2cam.randomize.sampling import Draw
from sim2cam.scene.asset_facts import AssetFacts
from sim2cam.scene.camera import Camera, Shutter
from sim2cam.scene.depth_camera import DEPTH_CAMERAS, AnyDepthCamera
from sim2cam.scene.image_facts import PictureFacts, SkyFacts
from sim2cam.scene.lens_effects import (
    Defocus,
    Dirt,
    Droplets,
    FieldBlur,
    Glare,
    Glass,
    LateralColor,
)
from sim2cam.scene.material import Material, Texture
from sim2cam.scene.scene import Body, Scene
from sim2cam.scene.sensor import Automatics, Mosaic, Processing, Sensor
from sim2cam.scene.shape import Box, Ground

Part = TypeVar("Part")

_GROUND_SIDE_M = 6.0
_BACKDROP_ROUGHNESS = 0.9
_WALL_THICKNESS_M = 0.004
_REFERENCE_DIE_M = 0.016
_REFERENCE_WIDTH_PX = 640
_AS_TOLD = 1.0  # numbers of two bodies multiply: what lies on this rubs and bounces by its own
_UPRIGHT: Quaternion = (1.0, 0.0, 0.0, 0.0)
_NUMBERS: Mapping[str, Callable[[Any], int | float]] = {"int": int, "float": float}


def compose(
    drawn: Draw,
    width: int,
    height: int,
    assets: Sequence[AssetFacts] = (),
    skies: Sequence[SkyFacts] = (),
    pictures: Sequence[PictureFacts] = (),
) -> Scene:
    """Returns the scene, not yet settled.

    Args:
        drawn: everything that chance decided.
        width, height: pixels of its cameras.
        assets: the objects from files that were drawn from.
        skies, pictures: those of skies and of surfaces that were drawn from.
    """
    drawn = replace(drawn, pictures={facts.name: facts for facts in pictures})
    things = things_of(drawn, assets)
    loose = arrange(things, drawn, _inner_limit(drawn))
    fixtures = (thing.body for thing in things.fixtures)
    bodies = (*_supports(drawn), *_backdrop(drawn), *fixtures, *loose, *hands_of(drawn))
    lengths = [thing.length_m for thing in things.targets or things.fixtures]
    length = float(np.median(lengths))
    cameras = tuple(_camera(drawn, view, width, height, length) for view in range(drawn.views))
    return Scene(with_decals(bodies, drawn), environment_of(drawn, skies), cameras)


def _supports(drawn: Draw) -> list[Body]:
    ground = Body(
        "table", Ground(_GROUND_SIDE_M), material_of(drawn, "table"), Pose(), is_fixed=True,
        friction=_AS_TOLD, restitution=_AS_TOLD,
    )  # fmt: skip
    surface = drawn.text("layout/surface")
    if surface == "table":
        return [ground]
    side = drawn.number("layout/surface_side_m")
    size = (side, side * drawn.number("layout/aspect"))
    if surface == "shelf":
        return [ground, *_shelf(drawn, size)]
    mat = _slab(
        "mat",
        (*size, MAT_THICKNESS_M),
        (0.0, 0.0, MAT_THICKNESS_M / 2),
        material_of(drawn, "wall" if surface == "bin" else "mat"),
    )
    return [ground, mat] if surface == "mat" else [ground, mat, *_walls(drawn, size)]


def _backdrop(drawn: Draw) -> list[Body]:
    """Returns the photo behind the scene, where one was drawn."""
    facts = picture_of(drawn, "backdrop")
    if facts is None:
        return []
    width = drawn.number("backdrop/width_m")
    photo = Texture("plain", facts.color, facts.color, width, 0.0, 0.0, 0, facts.file)
    turn, away = drawn.number("backdrop/azimuth_rad"), drawn.number("backdrop/distance_m")
    towards = np.array([math.cos(turn), math.sin(turn), 0.0])
    up = np.array([0.0, 0.0, 1.0])
    stands = Rotation.from_matrix(np.column_stack([np.cross(up, towards), up, towards]))
    place = vec3(drawn.number("backdrop/height_m") * up - away * towards)
    material = Material(photo, _BACKDROP_ROUGHNESS)
    pose = Pose(quaternion(stands), place)
    return [Body("backdrop", Ground(width), material, pose, is_fixed=True)]


def _walls(drawn: Draw, size: tuple[float, float]) -> list[Body]:
    height, thick = drawn.number("layout/wall_m"), _WALL_THICKNESS_M
    material = material_of(drawn, "wall")
    x, y = (size[0] + thick) / 2, (size[1] + thick) / 2
    along_x, along_y = (size[0] + 2 * thick, thick, height), (thick, size[1], height)
    return [
        _slab("wall/0", along_x, (0.0, y, height / 2), material),
        _slab("wall/1", along_x, (0.0, -y, height / 2), material),
        _slab("wall/2", along_y, (x, 0.0, height / 2), material),
        _slab("wall/3", along_y, (-x, 0.0, height / 2), material),
    ]


def _shelf(drawn: Draw, size: tuple[float, float]) -> list[Body]:
    """Returns the boards, the sides and the back of a shelf on the table."""
    count, gap, thick = (
        drawn.count("layout/shelf_count"),
        drawn.number("layout/wall_m"),
        BOARD_THICKNESS_M,
    )
    material, (width, depth) = material_of(drawn, "wall"), size
    height = count * gap + thick
    x, y, z = (width + thick) / 2, (depth + thick) / 2, height / 2
    boards = [
        _slab(f"shelf/{k}", (width, depth, thick), (0.0, 0.0, k * gap + thick / 2), material)
        for k in range(count + 1)
    ]
    return [
        *boards,
        _slab("wall/0", (width + 2 * thick, thick, height), (0.0, y, z), material),
        _slab("wall/1", (thick, depth, height), (x, 0.0, z), material),
        _slab("wall/2", (thick, depth, height), (-x, 0.0, z), material),
    ]


def _slab(name: str, size_m: Vec3, position_m: Vec3, material: Material) -> Body:
    pose = Pose(_UPRIGHT, position_m)
    return Body(
        name, Box(size_m), material, pose, is_fixed=True, friction=_AS_TOLD, restitution=_AS_TOLD
    )


def _inner_limit(drawn: Draw) -> np.ndarray:
    """Returns the half sides (2,) inside which bodies are let go: those of what has walls."""
    if drawn.text("layout/surface") in ("table", "mat"):
        return np.array([_GROUND_SIDE_M, _GROUND_SIDE_M])
    side = drawn.number("layout/surface_side_m")
    return np.array([side, side * drawn.number("layout/aspect")]) / 2


def _camera(drawn: Draw, view: int, width: int, height: int, length_m: float) -> Camera:
    """Returns a camera of a scene whose middle object, by size, is so long."""
    path = f"view/{view}"
    half = drawn.number(f"{path}/fov_rad") / 2
    focal_px = width / 2 / (half if drawn.has(f"fisheye/{view}") else math.tan(half))
    known_m, known_px = _known_length(drawn, path, length_m)
    distance = focal_px * known_m / (known_px * width / _REFERENCE_WIDTH_PX)
    tilt, turn = drawn.number(f"{path}/tilt_rad"), drawn.number(f"{path}/azimuth_rad")
    x, y, _ = place_of(drawn, path, "aim_radius", "aim_angle_rad")
    z = drawn.number_or(f"{path}/aim_height_m", 0.0)
    reach = distance * math.sin(tilt)
    eye = (x + reach * math.cos(turn), y + reach * math.sin(turn), z + distance * math.cos(tilt))
    pose = Pose.looking_at(eye, (x, y, z), drawn.number(f"{path}/roll_rad"))
    return Camera(
        pose=pose,
        width=width,
        height=height,
        lens=_lens(drawn, view, focal_px, width, height),
        sensor=_sensor(drawn, view),
        shutter=_shutter(drawn, view),
        twist=_twist(drawn, view, pose),
        depth=_depth_camera(drawn, view),
        baseline_m=_baseline_m(drawn, view),
        glass=_glass(drawn, view, distance),
    )


def _known_length(drawn: Draw, path: str, length_m: float) -> tuple[float, float]:
    """Returns a length in metres, and the pixels that it covers in a picture of the reference width."""
    if f"{path}/die_px" in drawn.values:
        return _REFERENCE_DIE_M, drawn.number(f"{path}/die_px")
    return length_m, drawn.number(f"{path}/object_px")


def _shutter(drawn: Draw, view: int) -> Shutter | None:
    path = f"shutter/{view}"
    if not drawn.has(path):
        return None
    return Shutter(drawn.number(f"{path}/exposure_s"), drawn.number(f"{path}/readout_s"))


def _twist(drawn: Draw, view: int, pose: Pose) -> Twist | None:
    """Returns how a camera at this pose moves in the world."""
    path = f"motion/{view}"
    if not drawn.has(path):
        return None
    ways, turns = (
        np.array([drawn.number(f"{path}/{name}") for name in names])
        for names in (
            ("right_m_s", "down_m_s", "forward_m_s"),
            ("pitch_rad_s", "yaw_rad_s", "roll_rad_s"),
        )
    )
    to_world = pose.rotation()
    return Twist(vec3(to_world.apply(ways)), vec3(to_world.apply(turns)))


def _depth_camera(drawn: Draw, view: int) -> AnyDepthCamera | None:
    path = f"depth_camera/{view}"
    if not drawn.has(path):
        return None
    return _given(drawn, path, DEPTH_CAMERAS[drawn.text(f"{path}/kind")])


def _fields(drawn: Draw, path: str, kind: type[Any]) -> dict[str, Any]:
    """Returns what was drawn of a part of a camera, by the names of its fields."""
    found: dict[str, Any] = {}
    for field in fields(kind):
        value = drawn.values.get(f"{path}/{field.name}")
        if value is not None:
            number = _NUMBERS.get(str(field.type))
            found[field.name] = number(value) if number else value
    return found


def _given(drawn: Draw, path: str, kind: type[Part]) -> Part:
    """Returns a part of a camera of what was drawn of it; the rest is as that kind has it."""
    return kind(**_fields(drawn, path, kind))


def _part(drawn: Draw, path: str, kind: type[Part]) -> Part | None:
    return _given(drawn, path, kind) if drawn.has(path) else None


def _glass(drawn: Draw, view: int, distance_m: float) -> Glass | None:
    """Returns the glass of a camera that looks at a point at a distance; None without any part."""
    glass = Glass(
        defocus=_defocus(drawn, view, distance_m),
        lateral_color=_part(drawn, f"lateral_color/{view}", LateralColor),
        field_blur=_part(drawn, f"field_blur/{view}", FieldBlur),
        glare=_part(drawn, f"glare/{view}", Glare),
        dirt=_part(drawn, f"dirt/{view}", Dirt),
        droplets=_part(drawn, f"droplets/{view}", Droplets),
    )
    return None if glass == Glass() else glass


def _defocus(drawn: Draw, view: int, distance_m: float) -> Defocus | None:
    path = f"defocus/{view}"
    if not drawn.has(path):
        return None
    focus_m = distance_m * drawn.number(f"{path}/focus")
    return Defocus(drawn.number(f"{path}/aperture_m"), focus_m)


def _baseline_m(drawn: Draw, view: int) -> float | None:
    path = f"stereo/{view}"
    return drawn.number(f"{path}/baseline_m") if drawn.has(path) else None


def _lens(drawn: Draw, view: int, focal_px: float, width: int, height: int) -> Lens:
    path, fisheye = f"lens/{view}", f"fisheye/{view}"
    centre = (
        (width - 1) / 2 + width * drawn.number(f"{path}/shift_x"),
        (height - 1) / 2 + width * drawn.number(f"{path}/shift_y"),
    )
    focal = focal_px, focal_px * drawn.number_or(f"{path}/aspect", 1.0)
    if drawn.has(fisheye):
        k1, k2, k3, k4 = (drawn.number(f"{fisheye}/{name}") for name in ("k1", "k2", "k3", "k4"))
        return KannalaBrandt(*focal, *centre, k1, k2, k3, k4)
    bends: list[Any] = [drawn.number_or(f"{path}/{name}", 0.0) for name in _BENDS]
    if any(f"{path}/{name}" in drawn.values for name in _BENDS[8:]):
        return ThinPrism(*focal, *centre, *bends)
    if any(f"{path}/{name}" in drawn.values for name in _BENDS[5:8]):
        return Rational(*focal, *centre, *bends[:8])
    return BrownConrady(*focal, *centre, *bends[:5])


_BENDS = ("k1", "k2", "p1", "p2", "k3", "k4", "k5", "k6", "s1", "s2", "s3", "s4")


def _sensor(drawn: Draw, view: int) -> Sensor:
    return Sensor(
        **_fields(drawn, f"exposure/{view}", Sensor),
        **_fields(drawn, f"sensor/{view}", Sensor),
        mosaic=_part(drawn, f"mosaic/{view}", Mosaic),
        processing=_part(drawn, f"processing/{view}", Processing),
        automatics=_part(drawn, f"automatics/{view}", Automatics),
    )
