"""Things: bodies that are let go, as they were drawn, not yet apart from each other."""

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
from sim2cam.randomize.curves import cable_of, hand_of
from sim2cam.randomize.materials import color_of, material_of, picture_of, shown_color
from sim2cam.randomize.sampling import Draw
from sim2cam.scene.asset_facts import AssetFacts
from sim2cam.scene.fasteners import Bolt, Nut
from sim2cam.scene.image_file import PictureFile
from sim2cam.scene.material import Color, Material
from sim2cam.scene.packages import Carton, Label, Sheet, Tin
from sim2cam.scene.scene import Body
from sim2cam.scene.shape import (
    CARD_BACK,
    Asset,
    Block,
    Board,
    Box,
    Card,
    Cylinder,
    Die,
    Pips,
    Sphere,
)
from sim2cam.scene.twisty import TwistyCube, scramble

ASSET = "asset"
"""The shape of a distractor from a file."""

_SOLID_KG = 0.05  # of the others
_MIN_HEIGHT_M = 0.002  # thinner bodies sink into the table within one step
_CABLE_KG_M3, _PAPER_KG_M3 = 1500.0, 800.0
_ORIGIN: Vec3 = (0.0, 0.0, 0.0)

_Shape = Box | Cylinder | Sphere


@dataclass(frozen=True)
class Thing:
    """A body that is let go, and what is around it.

    Attributes:
        body: its pose says where above the table, and how it is turned.
        center_m: of a ball around it, in its own frame.
        radius_m: of the ball.
        low_m, high_m: opposite corners of its box, in its own frame.
        parts: a ball around each of its parts, in its own frame; none of a thing of one.
    """

    body: Body
    center_m: Vec3
    radius_m: float
    low_m: Vec3
    high_m: Vec3
    parts: tuple[tuple[Vec3, float], ...] = ()

    def balls(self) -> list[tuple[NDArray[np.float64], float]]:
        """Returns balls around its parts where it stands: places (3,) and radii."""
        found = self.parts or ((self.center_m, self.radius_m),)
        return [(self.body.pose.apply(np.array([place]))[0], radius) for place, radius in found]

    @property
    def length_m(self) -> float:
        """The longest side of its box."""
        return max(b - a for a, b in zip(self.low_m, self.high_m, strict=True))


@dataclass(frozen=True)
class Things:
    """Everything that is let go.

    Attributes:
        targets: what is to be found.
        distractors: solids that are not.
        cables: which lie below both.
        papers: which are dropped on all.
        fixtures: which stand fixed.
    """

    targets: Sequence[Thing]
    distractors: Sequence[Thing] = ()
    cables: Sequence[Thing] = ()
    papers: Sequence[Thing] = ()
    fixtures: Sequence[Thing] = ()


def things_of(drawn: Draw, assets: Sequence[AssetFacts]) -> Things:
    """Returns everything that is let go.

    Args:
        drawn: everything that chance decided.
        assets: the objects from files that were drawn from.
    """
    makers: dict[str, Callable[[Draw, int], Thing]] = {
        "distractor": lambda drawn, i: _distractor(drawn, i, assets),
        "cable": _cable,
        "paper": _paper,
    }
    distractors, cables, papers = (
        [make(drawn, i) for i in range(int(drawn.number_or(f"layout/{name}_count", 0)))]
        for name, make in makers.items()
    )
    targets, fixtures = _targets_of(drawn, assets), _fixtures_of(drawn, assets)
    return Things(targets, distractors, cables, papers, fixtures)


def hands_of(drawn: Draw) -> list[Body]:
    """Returns the hands that are held over the objects, where they are."""
    return [_hand(drawn, i) for i in range(int(drawn.number_or("layout/hand_count", 0)))]


def _targets_of(drawn: Draw, assets: Sequence[AssetFacts]) -> list[Thing]:
    makers: dict[str, Callable[[Draw, int], Thing]] = {
        "die": _die,
        "object": lambda drawn, i: _object(drawn, i, _facts(drawn, f"object/{i}", assets)),
        "block": _block,
        "board": _board,
        "card": _card,
        "twisty": _twisty,
        "tin": _tin,
        "carton": _carton,
        "bolt": _bolt,
        "nut": _nut,
    }
    return [
        make(drawn, i)
        for group, make in makers.items()
        for i in range(int(drawn.number_or(f"layout/{group}_count", 0)))
    ]


def _fixtures_of(drawn: Draw, assets: Sequence[AssetFacts]) -> list[Thing]:
    count = int(drawn.number_or("layout/fixture_count", 0))
    return [_fixture(drawn, i, _facts(drawn, f"fixture/{i}", assets)) for i in range(count)]


def place_of(drawn: Draw, path: str, radius: str, angle: str) -> Vec3:
    """Returns a place on the table, the radius over that in which objects are dropped."""
    r = drawn.number("layout/region_m") * drawn.number(f"{path}/{radius}")
    turn = drawn.number(f"{path}/{angle}")
    return r * math.cos(turn), r * math.sin(turn), 0.0


def _die(drawn: Draw, i: int) -> Thing:
    shape = f"die/{i}"
    look = 0 if drawn.flag("layout/same_look") else i
    edge = drawn.number(f"{shape}/edge_m")
    body, pips = _die_colors(drawn, look)
    asset = Die(
        edge_m=edge,
        rounding=drawn.number(f"die/{look}/rounding"),
        corner_cut=drawn.number(f"die/{look}/corner_cut"),
        pips=Pips(
            drawn.text(f"die/{look}/pip_shape"),  # type: ignore[arg-type]
            drawn.number(f"die/{look}/pip_radius"),
            drawn.number(f"die/{look}/pip_spread"),
            drawn.number(f"die/{look}/pip_depth"),
            pips,
            *(
                drawn.number_or(f"die/{look}/pip_{name}", 1.0)
                for name in ("ace", "two", "three", "rows")
            ),
        ),
        mirrored=drawn.flag(f"die/{look}/mirrored"),
    )
    surface = material_of(drawn, f"die_surface/{look}", body)
    sides = (edge, edge, edge)
    solid = _solid(drawn, shape, asset, sides, edge**3, _tumbled(drawn, shape), surface)
    return _centred(solid, sides, edge * math.sqrt(3) / 2)


def _facts(drawn: Draw, path: str, assets: Sequence[AssetFacts]) -> AssetFacts:
    """Returns the asset that was drawn, with its joints as they were."""
    (facts,) = (one for one in assets if one.name == drawn.text(f"{path}/asset"))
    return facts.posed(drawn.named(f"{path}/joints"))


def _fixture(drawn: Draw, i: int, facts: AssetFacts) -> Thing:
    path = f"fixture/{i}"
    place = tuple(drawn.number(f"{path}/{axis}_m") for axis in "xyz")
    body = Body(
        path,
        facts.mesh,
        material_of(drawn, f"fixture_surface/{i}"),
        Pose(_turned(drawn.number(f"{path}/yaw_rad")), vec3(np.array(place))),
        is_fixed=True,
        friction=facts.friction.at(drawn.number(f"{path}/friction_share")),
        restitution=1.0,  # what falls on it bounces by its own
        is_target=bool(facts.mesh.category) and drawn.flag(f"{path}/labelled"),
    )
    return Thing(
        body, facts.center_m, facts.radius_m, facts.low_m, facts.high_m, facts.balls_of_links()
    )


def _object(drawn: Draw, i: int, facts: AssetFacts) -> Thing:
    path = f"object/{i}"
    body = Body(
        path,
        facts.mesh,
        material_of(drawn, f"object_surface/{i}"),
        Pose(_tumbled(drawn, path), place_of(drawn, path, "throw_radius", "throw_angle_rad")),
        mass_kg=facts.mass_kg.at(drawn.number(f"{path}/mass_share")),
        friction=facts.friction.at(drawn.number(f"{path}/friction_share")),
        restitution=facts.restitution.at(drawn.number(f"{path}/restitution_share")),
        is_target=bool(facts.mesh.category),
        **_mechanics(drawn, path, facts.size_m, facts.mass_offset_m or _ORIGIN),
    )
    return Thing(body, facts.center_m, facts.radius_m, facts.low_m, facts.high_m)


def _block(drawn: Draw, i: int) -> Thing:
    path = f"block/{i}"
    length = drawn.number(f"{path}/length_m")
    width, height = (length * drawn.number(f"{path}/{name}") for name in ("width", "height"))
    size = (length, width, height)
    asset = Block(size, drawn.number(f"{path}/rounding"), drawn.text(f"{path}/category"))
    surface = material_of(drawn, f"block_surface/{i}")
    rotation = _tumbled(drawn, path)
    return _boxed(_solid(drawn, path, asset, size, math.prod(size), rotation, surface), size)


def _board(drawn: Draw, i: int) -> Thing:
    path = f"board/{i}"
    ink = drawn.number(f"{path}/ink")
    asset = Board(
        drawn.text(f"{path}/pattern"),  # type: ignore[arg-type]
        drawn.count(f"{path}/columns"),
        drawn.count(f"{path}/rows"),
        drawn.number(f"{path}/square_m"),
        drawn.number(f"{path}/marker_share"),
        drawn.text(f"{path}/dictionary"),
        drawn.count(f"{path}/first_marker"),
        drawn.number(f"{path}/margin_m"),
        drawn.number(f"{path}/thickness_m"),
        (ink, ink, ink),
    )
    size, surface = asset.size_m, material_of(drawn, f"board_surface/{i}")
    rotation = _leaning(drawn, path)
    body = _solid(drawn, path, asset, size, math.prod(size), rotation, surface)
    return _boxed(replace(body, is_fixed=drawn.flag(f"{path}/held")), size)


def _card(drawn: Draw, i: int) -> Thing:
    path = f"card/{i}"
    width = drawn.number(f"{path}/width_m")
    size = (width, width * drawn.number(f"{path}/aspect"), drawn.number(f"{path}/thickness_m"))
    asset = Card(
        drawn.text(f"{path}/face"),
        size,
        min(size[:2]) * drawn.number(f"{path}/corner"),
        color_of(drawn, path, "back_"),
        *_card_pictures(drawn, path),
    )
    turned = _leaning(drawn, path)
    if drawn.flag(f"{path}/face_down"):
        w, x, y, z = turned
        turned = (-y, -z, w, x)  # after half a turn about its own y
    surface = material_of(drawn, f"card_surface/{i}")
    return _boxed(_solid(drawn, path, asset, size, math.prod(size), turned, surface), size)


def _twisty(drawn: Draw, i: int) -> Thing:
    path = f"twisty/{i}"
    edge = drawn.number(f"{path}/edge_m")
    sides = ("up", "right", "front", "down", "left", "back")
    asset = TwistyCube(
        edge,
        drawn.count(f"{path}/layers"),
        scramble(drawn.count(f"{path}/scramble")),
        drawn.text(f"{path}/turned"),  # type: ignore[arg-type]
        drawn.number(f"{path}/turned_rad"),
        drawn.number(f"{path}/rounding"),
        drawn.number(f"{path}/sticker"),
        drawn.number(f"{path}/sticker_corner"),
        tuple(color_of(drawn, f"twisty_color/{i}", f"{side}_") for side in sides),  # type: ignore[arg-type]
    )
    surface, rotation = material_of(drawn, f"twisty_surface/{i}"), _tumbled(drawn, path)
    body = _solid(drawn, path, asset, asset.size_m, edge**3, rotation, surface)
    return replace(_boxed(body, asset.size_m), radius_m=edge * math.sqrt(3) / 2)


def _tin(drawn: Draw, i: int) -> Thing:
    path = f"tin/{i}"
    radius = drawn.number(f"{path}/radius_m")
    height = 2 * radius * drawn.number(f"{path}/height")
    category = drawn.text(f"{path}/category")
    asset = Tin(radius, height, _label(drawn, f"tin_label/{i}", category), category)
    size, volume = (2 * radius, 2 * radius, height), math.pi * radius**2 * height
    surface, rotation = material_of(drawn, f"tin_surface/{i}"), _tumbled(drawn, path)
    body = _solid(drawn, path, asset, size, volume, rotation, surface)
    return _centred(body, size, math.hypot(radius, height / 2))


def _carton(drawn: Draw, i: int) -> Thing:
    path = f"carton/{i}"
    height = drawn.number(f"{path}/height_m")
    width, depth = (height * drawn.number(f"{path}/{name}") for name in ("width", "depth"))
    size, category = (width, depth, height), drawn.text(f"{path}/category")
    asset = Carton(size, _label(drawn, f"carton_label/{i}", category), category)
    surface, rotation = material_of(drawn, f"carton_surface/{i}"), _tumbled(drawn, path)
    return _boxed(_solid(drawn, path, asset, size, math.prod(size), rotation, surface), size)


def _bolt(drawn: Draw, i: int) -> Thing:
    path = f"bolt/{i}"
    diameter = drawn.number(f"{path}/diameter_m")
    length, pitch, head, height = (
        diameter * drawn.number(f"{path}/{name}")
        for name in ("length", "pitch", "head", "head_height")
    )
    threaded, category = drawn.number(f"{path}/threaded"), drawn.text(f"{path}/category")
    asset = Bolt(diameter, length, pitch, threaded, head, height, category)
    wide = 2 * head / math.sqrt(3)
    size, rotation = (head, wide, length + height), _tumbled(drawn, path)
    surface = material_of(drawn, f"bolt_surface/{i}")
    body = _solid(drawn, path, asset, size, asset.volume_m3, rotation, surface)
    middle = (asset.low_m + asset.high_m) / 2
    low, high = (-head / 2, -wide / 2, asset.low_m), (head / 2, wide / 2, asset.high_m)
    return Thing(body, (0.0, 0.0, middle), math.hypot(wide, length + height) / 2, low, high)


def _nut(drawn: Draw, i: int) -> Thing:
    path = f"nut/{i}"
    diameter = drawn.number(f"{path}/diameter_m")
    pitch, across, height = (
        diameter * drawn.number(f"{path}/{name}") for name in ("pitch", "across", "height")
    )
    asset = Nut(diameter, pitch, across, height, drawn.text(f"{path}/category"))
    size, rotation = (across, 2 * across / math.sqrt(3), height), _tumbled(drawn, path)
    surface = material_of(drawn, f"nut_surface/{i}")
    body = _solid(drawn, path, asset, size, asset.volume_m3, rotation, surface)
    return _centred(body, size, math.hypot(size[1], height) / 2)


def _label(drawn: Draw, path: str, text: str) -> Label:
    ground, letters, pattern = (
        color_of(drawn, path, f"{part}_") for part in ("ground", "letter", "pattern")
    )
    facts = picture_of(drawn, path)
    picture = facts.file if facts else None
    return Label(text, drawn.count(f"{path}/seed"), ground, letters, pattern, picture)


def _card_pictures(drawn: Draw, path: str) -> tuple[PictureFile | None, PictureFile | None]:
    """Returns the pictures of a card's face and of its back."""
    if not drawn.values.get(f"{path}/pictured", False):
        return None, None
    by_stem = {PurePath(name).stem: facts.file for name, facts in drawn.pictures.items()}
    return by_stem[drawn.text(f"{path}/face")], by_stem.get(CARD_BACK)


def _solid(
    drawn: Draw,
    path: str,
    asset: Asset,
    size_m: Vec3,
    volume_m3: float,
    rotation: Quaternion,
    surface: Material,
) -> Body:
    """Returns a body of one stuff that is to be found."""
    return Body(
        path,
        asset,
        surface,
        Pose(rotation, place_of(drawn, path, "throw_radius", "throw_angle_rad")),
        mass_kg=drawn.number(f"{path}/density_kg_m3") * volume_m3,
        friction=drawn.number(f"{path}/friction"),
        restitution=drawn.number(f"{path}/restitution"),
        is_target=True,
        **_mechanics(drawn, path, size_m),
    )


def _mechanics(drawn: Draw, path: str, size_m: Vec3, found_off_m: Vec3 = _ORIGIN) -> dict[str, Any]:
    """Returns how a body moves when it is let go, where its mass lies and what the air takes away.

    Args:
        drawn: everything that chance decided.
        path: of the body's group.
        size_m: sides of its box.
        found_off_m: how far off its middle its mass was found to lie; what is drawn adds to it.
    """
    angle, share = drawn.number(f"{path}/azimuth_rad"), drawn.number(f"{path}/share")
    speed = share * drawn.number("layout/speed_m_s")
    spin = share * drawn.number("layout/spin_rad_s")
    offset = [drawn.number_or(f"{path}/mass_offset_{axis}", 0.0) for axis in "xyz"]
    return {
        "velocity_m_s": (speed * math.cos(angle), speed * math.sin(angle), 0.0),
        "spin_rad_s": (-spin * math.sin(angle), spin * math.cos(angle), 0.3 * spin),
        "mass_offset_m": vec3(np.multiply(offset, size_m) + found_off_m),
        "drag": drawn.number_or(f"{path}/drag", 0.0),
        "spin_drag": drawn.number_or(f"{path}/spin_drag", 0.0),
    }


def _distractor(drawn: Draw, i: int, assets: Sequence[AssetFacts]) -> Thing:
    path = f"distractor/{i}"
    shape, size = drawn.text(f"{path}/shape"), drawn.number(f"{path}/size_m")
    if shape == ASSET:
        facts = _facts(drawn, path, assets)
        body = _in_the_way(drawn, i, facts.mesh, facts.mass_kg.at(0.5))
        body = replace(body, mass_offset_m=facts.mass_offset_m or _ORIGIN)
        return Thing(body, facts.center_m, facts.radius_m, facts.low_m, facts.high_m)
    tall = max(_MIN_HEIGHT_M, size * drawn.number(f"{path}/flatness"))
    wide = size * drawn.number(f"{path}/slimness")
    shapes: dict[str, tuple[_Shape, Vec3, float]] = {
        "box": (Box((size, wide, tall)), (size, wide, tall), math.hypot(size, wide, tall) / 2),
        "cylinder": (Cylinder(size / 2, tall), (size, size, tall), math.hypot(size / 2, tall / 2)),
        "sphere": (Sphere(size / 2), (size, size, size), size / 2),
    }
    asset, sides, radius = shapes[shape]
    return _centred(_in_the_way(drawn, i, asset, _SOLID_KG), sides, radius)


def _in_the_way(drawn: Draw, i: int, asset: Asset, mass_kg: float) -> Body:
    """Returns a distractor where it is let go, standing as its shape or file has it."""
    path = f"distractor/{i}"
    place = place_of(drawn, path, "radius", "angle_rad")
    return Body(
        path,
        asset,
        material_of(drawn, f"distractor_surface/{i}"),
        Pose(_turned(drawn.number(f"{path}/yaw_rad")), place),
        mass_kg=mass_kg,
        friction=0.9,
        restitution=0.0,
    )


def _cable(drawn: Draw, i: int) -> Thing:
    path = f"cable/{i}"
    asset = cable_of(drawn, path)
    (strand,) = asset.strands
    radius, points = strand.radii_m[0], np.array(strand.points_m)
    pose = Pose(
        _turned(drawn.number(f"{path}/yaw_rad")), place_of(drawn, path, "radius", "angle_rad")
    )
    length = drawn.number(f"{path}/length_m")
    body = Body(
        path,
        asset,
        material_of(drawn, f"cable_surface/{i}"),
        pose,
        mass_kg=_CABLE_KG_M3 * math.pi * radius**2 * length,
        friction=0.9,
        restitution=0.0,
    )
    reach = float(np.linalg.norm(points, axis=1).max()) + radius
    low, high = points.min(axis=0) - radius, points.max(axis=0) + radius
    return Thing(body, _ORIGIN, reach, vec3(low), vec3(high))


def _paper(drawn: Draw, i: int) -> Thing:
    path = f"paper/{i}"
    width = drawn.number(f"{path}/width_m")
    size = (width, width * drawn.number(f"{path}/aspect"), drawn.number(f"{path}/thickness_m"))
    label = _label(drawn, f"paper_label/{i}", drawn.text(f"{path}/heading"))
    body = Body(
        path,
        Sheet(size, label),
        material_of(drawn, f"paper_surface/{i}"),
        Pose(
            _turned(drawn.number(f"{path}/yaw_rad")), place_of(drawn, path, "radius", "angle_rad")
        ),
        mass_kg=_PAPER_KG_M3 * math.prod(size),
        friction=0.6,
        restitution=0.0,
    )
    return _boxed(body, size)


def _hand(drawn: Draw, i: int) -> Body:
    path = f"hand/{i}"
    asset = hand_of(drawn, path)
    # the hand points along its x: turned about the arm, then down, then to the side
    angles = (drawn.number(f"{path}/{name}") for name in ("azimuth_rad", "pitch_rad", "roll_rad"))
    turn = Rotation.from_euler("ZYX", [*angles])
    heights = [turn.apply(strand.points_m)[:, 2] - strand.radii_m for strand in asset.strands]
    lowest = min(float(one.min()) for one in heights)
    x, y, _ = place_of(drawn, path, "radius", "angle_rad")
    place = (x, y, drawn.number(f"{path}/height_m") - lowest)
    surface = material_of(drawn, f"hand_surface/{i}")
    return Body(
        path, asset, surface, Pose(quaternion(turn), place), is_fixed=True, arrives_last=True
    )


def _boxed(body: Body, size_m: Vec3) -> Thing:
    return _centred(body, size_m, math.hypot(*size_m) / 2)


def _centred(body: Body, size_m: Vec3, radius_m: float) -> Thing:
    half = np.divide(size_m, 2)
    return Thing(body, _ORIGIN, radius_m, vec3(-half), vec3(half))


def _tumbled(drawn: Draw, path: str) -> Quaternion:
    """Returns a uniform rotation from three uniform numbers (Shoemake 1992), or one about the vertical."""
    if f"{path}/yaw_rad" in drawn.values:
        return _turned(drawn.number(f"{path}/yaw_rad"))
    a, b, c = (drawn.number(f"{path}/rotation_{name}") for name in "abc")
    outer, inner = math.sqrt(a), math.sqrt(1 - a)
    b, c = 2 * math.pi * b, 2 * math.pi * c
    return (outer * math.cos(c), inner * math.sin(b), inner * math.cos(b), outer * math.sin(c))


def _turned(yaw_rad: float) -> Quaternion:
    return math.cos(yaw_rad / 2), 0.0, 0.0, math.sin(yaw_rad / 2)


def _leaning(drawn: Draw, path: str) -> Quaternion:
    """Returns a rotation that leans what was turned about the vertical."""
    lean, way = drawn.number(f"{path}/lean_rad"), drawn.number(f"{path}/lean_angle_rad")
    axis = np.array([-math.sin(way), math.cos(way), 0.0])
    turn = Rotation.from_euler("z", drawn.number(f"{path}/yaw_rad"))
    return quaternion(Rotation.from_rotvec(lean * axis) * turn)


def _die_colors(drawn: Draw, i: int) -> tuple[Color, Color]:
    """Returns the linear colours of body and pips.

    Pips are moved towards white or black until they are ``pip_contrast`` from what they stand on, both
    colours of a body that is mottled, or else as far as they can be.
    """
    white, black = (0.8, 0.8, 0.76), (0.02, 0.02, 0.02)
    tones: dict[str, Color] = {"white": white, "black": black}
    path, surface = f"die_color/{i}", f"die_surface/{i}"
    body = tones.get(drawn.text(f"{path}/body_tone")) or color_of(drawn, surface, "")
    pips = tones.get(drawn.text(f"{path}/pip_tone")) or color_of(drawn, path, "pip_")
    grounds = [body]
    if drawn.text(f"{surface}/family") != "plain":
        second = color_of(drawn, surface, "second_")
        grounds.append(_mixed(body, second, drawn.number(f"{surface}/contrast")))

    def contrast(color: Color) -> float:
        return min(math.dist(shown_color(color), shown_color(ground)) for ground in grounds)

    choices = [_mixed(pips, tone, n / 4) for n in range(5) for tone in (white, black)]
    least = drawn.number(f"{path}/pip_contrast")
    clear = (color for color in choices if contrast(color) >= least)
    return body, next(clear, max(choices, key=contrast))


def _mixed(first: Color, second: Color, share: float) -> Color:
    """Returns a colour with a share of another one."""
    r, g, b = ((1 - share) * a + share * b for a, b in zip(first, second, strict=True))
    return r, g, b
