"""Bodies with bounding volumes from sampled factors, before they are separated from each other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from sim2cam.geometry.poses import Pose, Quaternion, Vec3, quaternion, vec3
from sim2cam.randomize.curves import make_cable, make_hand
from sim2cam.randomize.materials import get_color, get_surface_image, linear_to_srgb, make_material
from sim2cam.randomize.sampling import FactorValues
from sim2cam.scene.asset_facts import AssetInfo
from sim2cam.scene.fasteners import Bolt, Nut
from sim2cam.scene.image_file import ImageFile
from sim2cam.scene.material import Color, Material
from sim2cam.scene.packages import Carton, PackageLabel, Sheet, Tin
from sim2cam.scene.scene import Body
from sim2cam.scene.shape import (
    CARD_BACK,
    Asset,
    Block,
    Board,
    Card,
    Cuboid,
    Cylinder,
    Die,
    Pips,
    Sphere,
)
from sim2cam.scene.twisty import TwistyCube, make_scramble

ASSET_SHAPE = "asset"
"""Shape of a distractor that is loaded from a file."""

_DISTRACTOR_MASS_KG = 0.05  # of primitive shapes
_MIN_HEIGHT_M = 0.002  # thinner bodies sink into the table within one step
_CABLE_KG_M3, _PAPER_KG_M3 = 1500.0, 800.0
_ORIGIN: Vec3 = (0.0, 0.0, 0.0)

_PrimitiveShape = Cuboid | Cylinder | Sphere


@dataclass(frozen=True)
class Placeable:
    """Body with its bounding volumes, in the frame of the body.

    Attributes:
        body: body; its pose gives the horizontal position and the rotation.
        center_m: centre of the bounding sphere.
        radius_m: radius of the bounding sphere.
        box_min_m, box_max_m: opposite corners of the bounding box.
        part_spheres: bounding spheres of its parts; empty for a single part.
    """

    body: Body
    center_m: Vec3
    radius_m: float
    box_min_m: Vec3
    box_max_m: Vec3
    part_spheres: tuple[tuple[Vec3, float], ...] = ()

    def get_bounding_spheres(self) -> list[tuple[NDArray[np.float64], float]]:
        """Return the bounding spheres of its parts at its pose: centres (3,) and radii."""
        spheres = self.part_spheres or ((self.center_m, self.radius_m),)
        return [(self.body.pose.apply(np.array([center]))[0], radius) for center, radius in spheres]

    @property
    def length_m(self) -> float:
        """Longest side of its bounding box."""
        return max(b - a for a, b in zip(self.box_min_m, self.box_max_m, strict=True))


@dataclass(frozen=True)
class Placeables:
    """All loose and fixed bodies of a scene, by role.

    Attributes:
        targets: labelled objects.
        distractors: unlabelled solids.
        cables: cables below targets and distractors.
        papers: sheets dropped on everything else.
        fixtures: fixed objects.
    """

    targets: Sequence[Placeable]
    distractors: Sequence[Placeable] = ()
    cables: Sequence[Placeable] = ()
    papers: Sequence[Placeable] = ()
    fixtures: Sequence[Placeable] = ()


def make_placeables(factors: FactorValues, assets: Sequence[AssetInfo]) -> Placeables:
    """Create all bodies of a scene except supports and hands.

    Args:
        factors: sampled values.
        assets: available objects from files.
    """
    makers: dict[str, Callable[[FactorValues, int], Placeable]] = {
        "distractor": lambda values, i: _make_distractor(values, i, assets),
        "cable": _make_cable_body,
        "paper": _make_paper,
    }
    distractors, cables, papers = (
        [make(factors, i) for i in range(int(factors.get_float_or(f"layout/{name}_count", 0)))]
        for name, make in makers.items()
    )
    targets, fixtures = _make_targets(factors, assets), _make_fixtures(factors, assets)
    return Placeables(targets, distractors, cables, papers, fixtures)


def make_hands(factors: FactorValues) -> list[Body]:
    """Create the hands over the objects, at their final poses."""
    return [
        _make_hand_body(factors, i)
        for i in range(int(factors.get_float_or("layout/hand_count", 0)))
    ]


def _make_targets(factors: FactorValues, assets: Sequence[AssetInfo]) -> list[Placeable]:
    makers: dict[str, Callable[[FactorValues, int], Placeable]] = {
        "die": _make_die,
        "object": lambda values, i: _make_file_object(
            values, i, _select_asset(values, f"object/{i}", assets)
        ),
        "block": _make_block,
        "board": _make_board,
        "card": _make_card,
        "twisty": _make_twisty,
        "tin": _make_tin,
        "carton": _make_carton,
        "bolt": _make_bolt,
        "nut": _make_nut,
    }
    return [
        make(factors, i)
        for group, make in makers.items()
        for i in range(int(factors.get_float_or(f"layout/{group}_count", 0)))
    ]


def _make_fixtures(factors: FactorValues, assets: Sequence[AssetInfo]) -> list[Placeable]:
    count = int(factors.get_float_or("layout/fixture_count", 0))
    return [
        _make_fixture(factors, i, _select_asset(factors, f"fixture/{i}", assets))
        for i in range(count)
    ]


def compute_position(factors: FactorValues, path: str, radius: str, angle: str) -> Vec3:
    """Return a point on the table from polar factors.

    Args:
        factors: sampled values.
        path: path of the group instance.
        radius, angle: names of the factors; the radius is relative to ``layout/region_m``.
    """
    r = factors.get_float("layout/region_m") * factors.get_float(f"{path}/{radius}")
    azimuth = factors.get_float(f"{path}/{angle}")
    return r * math.cos(azimuth), r * math.sin(azimuth), 0.0


def _make_die(factors: FactorValues, i: int) -> Placeable:
    shape = f"die/{i}"
    appearance = 0 if factors.get_bool("layout/same_look") else i
    edge = factors.get_float(f"{shape}/edge_m")
    body, pips = _compute_die_colors(factors, appearance)
    asset = Die(
        edge_m=edge,
        rounding=factors.get_float(f"die/{appearance}/rounding"),
        corner_cut=factors.get_float(f"die/{appearance}/corner_cut"),
        pips=Pips(
            factors.get_str(f"die/{appearance}/pip_shape"),  # type: ignore[arg-type]
            factors.get_float(f"die/{appearance}/pip_radius"),
            factors.get_float(f"die/{appearance}/pip_spread"),
            factors.get_float(f"die/{appearance}/pip_depth"),
            pips,
            *(
                factors.get_float_or(f"die/{appearance}/pip_{name}", 1.0)
                for name in ("ace", "two", "three", "rows")
            ),
        ),
        mirrored=factors.get_bool(f"die/{appearance}/mirrored"),
    )
    surface = make_material(factors, f"die_surface/{appearance}", body)
    sides = (edge, edge, edge)
    solid = _make_solid_body(
        factors, shape, asset, sides, edge**3, _compute_rotation(factors, shape), surface
    )
    return _wrap_centered(solid, sides, edge * math.sqrt(3) / 2)


def _select_asset(factors: FactorValues, path: str, assets: Sequence[AssetInfo]) -> AssetInfo:
    """Return the sampled asset with its joints at the sampled positions."""
    (facts,) = (asset for asset in assets if asset.name == factors.get_str(f"{path}/asset"))
    return facts.pose_joints(factors.get_named(f"{path}/joints"))


def _make_fixture(factors: FactorValues, i: int, facts: AssetInfo) -> Placeable:
    path = f"fixture/{i}"
    position = tuple(factors.get_float(f"{path}/{axis}_m") for axis in "xyz")
    body = Body(
        path,
        facts.mesh,
        make_material(factors, f"fixture_surface/{i}"),
        Pose(_compute_yaw_rotation(factors.get_float(f"{path}/yaw_rad")), vec3(np.array(position))),
        is_fixed=True,
        friction=facts.friction.interpolate(factors.get_float(f"{path}/friction_share")),
        restitution=1.0,  # coefficients multiply, so the falling body decides
        is_target=bool(facts.mesh.category) and factors.get_bool(f"{path}/labelled"),
    )
    return Placeable(
        body,
        facts.center_m,
        facts.radius_m,
        facts.low_m,
        facts.high_m,
        facts.compute_link_spheres(),
    )


def _make_file_object(factors: FactorValues, i: int, facts: AssetInfo) -> Placeable:
    path = f"object/{i}"
    body = Body(
        path,
        facts.mesh,
        make_material(factors, f"object_surface/{i}"),
        Pose(
            _compute_rotation(factors, path),
            compute_position(factors, path, "throw_radius", "throw_angle_rad"),
        ),
        mass_kg=facts.mass_kg.interpolate(factors.get_float(f"{path}/mass_share")),
        friction=facts.friction.interpolate(factors.get_float(f"{path}/friction_share")),
        restitution=facts.restitution.interpolate(factors.get_float(f"{path}/restitution_share")),
        is_target=bool(facts.mesh.category),
        **_compute_dynamics(factors, path, facts.size_m, facts.mass_offset_m or _ORIGIN),
    )
    return Placeable(body, facts.center_m, facts.radius_m, facts.low_m, facts.high_m)


def _make_block(factors: FactorValues, i: int) -> Placeable:
    path = f"block/{i}"
    length = factors.get_float(f"{path}/length_m")
    width, height = (length * factors.get_float(f"{path}/{name}") for name in ("width", "height"))
    size = (length, width, height)
    asset = Block(size, factors.get_float(f"{path}/rounding"), factors.get_str(f"{path}/category"))
    surface = make_material(factors, f"block_surface/{i}")
    rotation = _compute_rotation(factors, path)
    return _wrap_box(
        _make_solid_body(factors, path, asset, size, math.prod(size), rotation, surface), size
    )


def _make_board(factors: FactorValues, i: int) -> Placeable:
    path = f"board/{i}"
    ink = factors.get_float(f"{path}/ink")
    asset = Board(
        factors.get_str(f"{path}/pattern"),  # type: ignore[arg-type]
        factors.get_int(f"{path}/columns"),
        factors.get_int(f"{path}/rows"),
        factors.get_float(f"{path}/square_m"),
        factors.get_float(f"{path}/marker_share"),
        factors.get_str(f"{path}/dictionary"),
        factors.get_int(f"{path}/first_marker"),
        factors.get_float(f"{path}/margin_m"),
        factors.get_float(f"{path}/thickness_m"),
        (ink, ink, ink),
    )
    size, surface = asset.size_m, make_material(factors, f"board_surface/{i}")
    rotation = _compute_leaning_rotation(factors, path)
    body = _make_solid_body(factors, path, asset, size, math.prod(size), rotation, surface)
    return _wrap_box(replace(body, is_fixed=factors.get_bool(f"{path}/held")), size)


def _make_card(factors: FactorValues, i: int) -> Placeable:
    path = f"card/{i}"
    width = factors.get_float(f"{path}/width_m")
    size = (
        width,
        width * factors.get_float(f"{path}/aspect"),
        factors.get_float(f"{path}/thickness_m"),
    )
    asset = Card(
        factors.get_str(f"{path}/face"),
        size,
        min(size[:2]) * factors.get_float(f"{path}/corner"),
        get_color(factors, path, "back_"),
        *_get_card_images(factors, path),
    )
    rotation = _compute_leaning_rotation(factors, path)
    if factors.get_bool(f"{path}/face_down"):
        w, x, y, z = rotation
        rotation = (-y, -z, w, x)  # half a turn about its y axis
    surface = make_material(factors, f"card_surface/{i}")
    return _wrap_box(
        _make_solid_body(factors, path, asset, size, math.prod(size), rotation, surface), size
    )


def _make_twisty(factors: FactorValues, i: int) -> Placeable:
    path = f"twisty/{i}"
    edge = factors.get_float(f"{path}/edge_m")
    sides = ("up", "right", "front", "down", "left", "back")
    asset = TwistyCube(
        edge,
        factors.get_int(f"{path}/layers"),
        make_scramble(factors.get_int(f"{path}/scramble")),
        factors.get_str(f"{path}/turned"),  # type: ignore[arg-type]
        factors.get_float(f"{path}/turned_rad"),
        factors.get_float(f"{path}/rounding"),
        factors.get_float(f"{path}/sticker"),
        factors.get_float(f"{path}/sticker_corner"),
        tuple(get_color(factors, f"twisty_color/{i}", f"{side}_") for side in sides),  # type: ignore[arg-type]
    )
    surface, rotation = (
        make_material(factors, f"twisty_surface/{i}"),
        _compute_rotation(factors, path),
    )
    body = _make_solid_body(factors, path, asset, asset.size_m, edge**3, rotation, surface)
    return replace(_wrap_box(body, asset.size_m), radius_m=edge * math.sqrt(3) / 2)


def _make_tin(factors: FactorValues, i: int) -> Placeable:
    path = f"tin/{i}"
    radius = factors.get_float(f"{path}/radius_m")
    height = 2 * radius * factors.get_float(f"{path}/height")
    category = factors.get_str(f"{path}/category")
    asset = Tin(radius, height, _make_label(factors, f"tin_label/{i}", category), category)
    size, volume = (2 * radius, 2 * radius, height), math.pi * radius**2 * height
    surface, rotation = make_material(factors, f"tin_surface/{i}"), _compute_rotation(factors, path)
    body = _make_solid_body(factors, path, asset, size, volume, rotation, surface)
    return _wrap_centered(body, size, math.hypot(radius, height / 2))


def _make_carton(factors: FactorValues, i: int) -> Placeable:
    path = f"carton/{i}"
    height = factors.get_float(f"{path}/height_m")
    width, depth = (height * factors.get_float(f"{path}/{name}") for name in ("width", "depth"))
    size, category = (width, depth, height), factors.get_str(f"{path}/category")
    asset = Carton(size, _make_label(factors, f"carton_label/{i}", category), category)
    surface, rotation = (
        make_material(factors, f"carton_surface/{i}"),
        _compute_rotation(factors, path),
    )
    return _wrap_box(
        _make_solid_body(factors, path, asset, size, math.prod(size), rotation, surface), size
    )


def _make_bolt(factors: FactorValues, i: int) -> Placeable:
    path = f"bolt/{i}"
    diameter = factors.get_float(f"{path}/diameter_m")
    length, pitch, head, height = (
        diameter * factors.get_float(f"{path}/{name}")
        for name in ("length", "pitch", "head", "head_height")
    )
    threaded, category = factors.get_float(f"{path}/threaded"), factors.get_str(f"{path}/category")
    asset = Bolt(diameter, length, pitch, threaded, head, height, category)
    corner_width = 2 * head / math.sqrt(3)
    size, rotation = (head, corner_width, length + height), _compute_rotation(factors, path)
    surface = make_material(factors, f"bolt_surface/{i}")
    body = _make_solid_body(factors, path, asset, size, asset.volume_m3, rotation, surface)
    center_z = (asset.tip_z_m + asset.head_top_z_m) / 2
    low, high = (
        (-head / 2, -corner_width / 2, asset.tip_z_m),
        (head / 2, corner_width / 2, asset.head_top_z_m),
    )
    return Placeable(
        body, (0.0, 0.0, center_z), math.hypot(corner_width, length + height) / 2, low, high
    )


def _make_nut(factors: FactorValues, i: int) -> Placeable:
    path = f"nut/{i}"
    diameter = factors.get_float(f"{path}/diameter_m")
    pitch, across, height = (
        diameter * factors.get_float(f"{path}/{name}") for name in ("pitch", "across", "height")
    )
    asset = Nut(diameter, pitch, across, height, factors.get_str(f"{path}/category"))
    size, rotation = (across, 2 * across / math.sqrt(3), height), _compute_rotation(factors, path)
    surface = make_material(factors, f"nut_surface/{i}")
    body = _make_solid_body(factors, path, asset, size, asset.volume_m3, rotation, surface)
    return _wrap_centered(body, size, math.hypot(size[1], height) / 2)


def _make_label(factors: FactorValues, path: str, text: str) -> PackageLabel:
    ground, letters, pattern = (
        get_color(factors, path, f"{part}_") for part in ("ground", "letter", "pattern")
    )
    facts = get_surface_image(factors, path)
    image = facts.file if facts else None
    return PackageLabel(text, factors.get_int(f"{path}/seed"), ground, letters, pattern, image)


def _get_card_images(factors: FactorValues, path: str) -> tuple[ImageFile | None, ImageFile | None]:
    """Return the images of a card's face and back."""
    if not factors.values.get(f"{path}/pictured", False):
        return None, None
    by_stem = {PurePath(name).stem: facts.file for name, facts in factors.surface_images.items()}
    return by_stem[factors.get_str(f"{path}/face")], by_stem.get(CARD_BACK)


def _make_solid_body(
    factors: FactorValues,
    path: str,
    asset: Asset,
    size_m: Vec3,
    volume_m3: float,
    rotation: Quaternion,
    surface: Material,
) -> Body:
    """Create a labelled body of uniform density."""
    return Body(
        path,
        asset,
        surface,
        Pose(rotation, compute_position(factors, path, "throw_radius", "throw_angle_rad")),
        mass_kg=factors.get_float(f"{path}/density_kg_m3") * volume_m3,
        friction=factors.get_float(f"{path}/friction"),
        restitution=factors.get_float(f"{path}/restitution"),
        is_target=True,
        **_compute_dynamics(factors, path, size_m),
    )


def _compute_dynamics(
    factors: FactorValues, path: str, size_m: Vec3, measured_offset_m: Vec3 = _ORIGIN
) -> dict[str, Any]:
    """Return initial velocities, centre of mass and damping of a body.

    Args:
        factors: sampled values.
        path: path of the body's group instance.
        size_m: sides of its bounding box.
        measured_offset_m: offset of the centre of mass defined by the asset; the sampled offset is
            added.
    """
    angle, share = factors.get_float(f"{path}/azimuth_rad"), factors.get_float(f"{path}/share")
    speed = share * factors.get_float("layout/speed_m_s")
    spin = share * factors.get_float("layout/spin_rad_s")
    offset = [factors.get_float_or(f"{path}/mass_offset_{axis}", 0.0) for axis in "xyz"]
    return {
        "velocity_m_s": (speed * math.cos(angle), speed * math.sin(angle), 0.0),
        "spin_rad_s": (-spin * math.sin(angle), spin * math.cos(angle), 0.3 * spin),
        "mass_offset_m": vec3(np.multiply(offset, size_m) + measured_offset_m),
        "drag": factors.get_float_or(f"{path}/drag", 0.0),
        "spin_drag": factors.get_float_or(f"{path}/spin_drag", 0.0),
    }


def _make_distractor(factors: FactorValues, i: int, assets: Sequence[AssetInfo]) -> Placeable:
    path = f"distractor/{i}"
    shape, size = factors.get_str(f"{path}/shape"), factors.get_float(f"{path}/size_m")
    if shape == ASSET_SHAPE:
        facts = _select_asset(factors, path, assets)
        body = _make_distractor_body(factors, i, facts.mesh, facts.mass_kg.interpolate(0.5))
        body = replace(body, mass_offset_m=facts.mass_offset_m or _ORIGIN)
        return Placeable(body, facts.center_m, facts.radius_m, facts.low_m, facts.high_m)
    height = max(_MIN_HEIGHT_M, size * factors.get_float(f"{path}/flatness"))
    width = size * factors.get_float(f"{path}/slimness")
    shapes: dict[str, tuple[_PrimitiveShape, Vec3, float]] = {
        "box": (
            Cuboid((size, width, height)),
            (size, width, height),
            math.hypot(size, width, height) / 2,
        ),
        "cylinder": (
            Cylinder(size / 2, height),
            (size, size, height),
            math.hypot(size / 2, height / 2),
        ),
        "sphere": (Sphere(size / 2), (size, size, size), size / 2),
    }
    asset, sides, radius = shapes[shape]
    return _wrap_centered(
        _make_distractor_body(factors, i, asset, _DISTRACTOR_MASS_KG), sides, radius
    )


def _make_distractor_body(factors: FactorValues, i: int, asset: Asset, mass_kg: float) -> Body:
    """Create a distractor at its drop position, upright in its own frame."""
    path = f"distractor/{i}"
    position = compute_position(factors, path, "radius", "angle_rad")
    return Body(
        path,
        asset,
        make_material(factors, f"distractor_surface/{i}"),
        Pose(_compute_yaw_rotation(factors.get_float(f"{path}/yaw_rad")), position),
        mass_kg=mass_kg,
        friction=0.9,
        restitution=0.0,
    )


def _make_cable_body(factors: FactorValues, i: int) -> Placeable:
    path = f"cable/{i}"
    asset = make_cable(factors, path)
    (strand,) = asset.strands
    radius, points = strand.radii_m[0], np.array(strand.points_m)
    pose = Pose(
        _compute_yaw_rotation(factors.get_float(f"{path}/yaw_rad")),
        compute_position(factors, path, "radius", "angle_rad"),
    )
    length = factors.get_float(f"{path}/length_m")
    body = Body(
        path,
        asset,
        make_material(factors, f"cable_surface/{i}"),
        pose,
        mass_kg=_CABLE_KG_M3 * math.pi * radius**2 * length,
        friction=0.9,
        restitution=0.0,
    )
    reach = float(np.linalg.norm(points, axis=1).max()) + radius
    low, high = points.min(axis=0) - radius, points.max(axis=0) + radius
    return Placeable(body, _ORIGIN, reach, vec3(low), vec3(high))


def _make_paper(factors: FactorValues, i: int) -> Placeable:
    path = f"paper/{i}"
    width = factors.get_float(f"{path}/width_m")
    size = (
        width,
        width * factors.get_float(f"{path}/aspect"),
        factors.get_float(f"{path}/thickness_m"),
    )
    label = _make_label(factors, f"paper_label/{i}", factors.get_str(f"{path}/heading"))
    body = Body(
        path,
        Sheet(size, label),
        make_material(factors, f"paper_surface/{i}"),
        Pose(
            _compute_yaw_rotation(factors.get_float(f"{path}/yaw_rad")),
            compute_position(factors, path, "radius", "angle_rad"),
        ),
        mass_kg=_PAPER_KG_M3 * math.prod(size),
        friction=0.6,
        restitution=0.0,
    )
    return _wrap_box(body, size)


def _make_hand_body(factors: FactorValues, i: int) -> Body:
    path = f"hand/{i}"
    asset = make_hand(factors, path)
    # the hand points along its x: roll about the arm, then pitch, then azimuth
    angles = (
        factors.get_float(f"{path}/{name}") for name in ("azimuth_rad", "pitch_rad", "roll_rad")
    )
    rotation = Rotation.from_euler("ZYX", [*angles])
    heights = [rotation.apply(strand.points_m)[:, 2] - strand.radii_m for strand in asset.strands]
    lowest = min(float(strand_heights.min()) for strand_heights in heights)
    x, y, _ = compute_position(factors, path, "radius", "angle_rad")
    position = (x, y, factors.get_float(f"{path}/height_m") - lowest)
    surface = make_material(factors, f"hand_surface/{i}")
    return Body(
        path, asset, surface, Pose(quaternion(rotation), position), is_fixed=True, arrives_last=True
    )


def _wrap_box(body: Body, size_m: Vec3) -> Placeable:
    return _wrap_centered(body, size_m, math.hypot(*size_m) / 2)


def _wrap_centered(body: Body, size_m: Vec3, radius_m: float) -> Placeable:
    half = np.divide(size_m, 2)
    return Placeable(body, _ORIGIN, radius_m, vec3(-half), vec3(half))


def _compute_rotation(factors: FactorValues, path: str) -> Quaternion:
    """Return a yaw rotation, or a uniform rotation from three uniform numbers (Shoemake 1992)."""
    if f"{path}/yaw_rad" in factors.values:
        return _compute_yaw_rotation(factors.get_float(f"{path}/yaw_rad"))
    a, b, c = (factors.get_float(f"{path}/rotation_{name}") for name in "abc")
    outer, inner = math.sqrt(a), math.sqrt(1 - a)
    b, c = 2 * math.pi * b, 2 * math.pi * c
    return (outer * math.cos(c), inner * math.sin(b), inner * math.cos(b), outer * math.sin(c))


def _compute_yaw_rotation(yaw_rad: float) -> Quaternion:
    return math.cos(yaw_rad / 2), 0.0, 0.0, math.sin(yaw_rad / 2)


def _compute_leaning_rotation(factors: FactorValues, path: str) -> Quaternion:
    """Return a yaw rotation followed by a tilt off the vertical."""
    lean, direction = (
        factors.get_float(f"{path}/lean_rad"),
        factors.get_float(f"{path}/lean_angle_rad"),
    )
    axis = np.array([-math.sin(direction), math.cos(direction), 0.0])
    yaw = Rotation.from_euler("z", factors.get_float(f"{path}/yaw_rad"))
    return quaternion(Rotation.from_rotvec(lean * axis) * yaw)


def _compute_die_colors(factors: FactorValues, i: int) -> tuple[Color, Color]:
    """Return the linear colours of body and pips.

    Pips are moved towards white or black until their sRGB distance to the body, and to the second
    colour of a patterned body, is at least ``pip_contrast``; otherwise as far as possible.
    """
    white, black = (0.8, 0.8, 0.76), (0.02, 0.02, 0.02)
    tones: dict[str, Color] = {"white": white, "black": black}
    path, surface = f"die_color/{i}", f"die_surface/{i}"
    body = tones.get(factors.get_str(f"{path}/body_tone")) or get_color(factors, surface, "")
    pips = tones.get(factors.get_str(f"{path}/pip_tone")) or get_color(factors, path, "pip_")
    backgrounds = [body]
    if factors.get_str(f"{surface}/family") != "plain":
        second = get_color(factors, surface, "second_")
        backgrounds.append(_mix_colors(body, second, factors.get_float(f"{surface}/contrast")))

    def compute_contrast(color: Color) -> float:
        return min(
            math.dist(linear_to_srgb(color), linear_to_srgb(background))
            for background in backgrounds
        )

    choices = [_mix_colors(pips, tone, n / 4) for n in range(5) for tone in (white, black)]
    min_contrast = factors.get_float(f"{path}/pip_contrast")
    valid = (color for color in choices if compute_contrast(color) >= min_contrast)
    return body, next(valid, max(choices, key=compute_contrast))


def _mix_colors(first: Color, second: Color, share: float) -> Color:
    """Return a linear blend of two colours."""
    r, g, b = ((1 - share) * a + share * b for a, b in zip(first, second, strict=True))
    return r, g, b
