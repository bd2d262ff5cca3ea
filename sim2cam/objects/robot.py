"""Robots of a soccer field as crude bodies of prisms: cones, towers on legs, masts and plain boxes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.errors import SpecError
from sim2cam.geometry.poses import Quaternion, Vec3
from sim2cam.objects.kind import (
    ColorFactors,
    ContactFactors,
    DropFactors,
    ObjectInstance,
    ObjectKind,
    compute_yaw_rotation,
)
from sim2cam.objects.solid import TextureMaps
from sim2cam.scene.material import Color, Texture, hsv_to_linear
from sim2cam.scene.parameters import Between, Seed, check_sizes
from sim2cam.seeds import derive_rng
from sim2cam.surfaces.mesh import Mesh, join_meshes, make_patch, make_single_part
from sim2cam.surfaces.printing import draw_text
from sim2cam.surfaces.textures import encode_srgb, make_color_sampler

Floats = NDArray[np.float64]

RobotForm = Literal["cone", "tower", "mast", "box"]

_ROUND = 24
"""Sides of round prisms."""
_MAX_EXTRAS = 40
_TILE_PX, _COLUMNS, _ROWS = 64, 4, 2
_TILE_MARGIN = 0.06  # of the side, so that mipmaps do not mix neighbours
_BODY, _SHIRT, _METAL, _FIRST_ACCENT = 0, 1, 2, 3
_N_ACCENTS = _COLUMNS * _ROWS - _FIRST_ACCENT
_LEG_RADIUS = 0.045


@dataclass(frozen=True)
class RobotFactors(DropFactors, ContactFactors):
    """One soccer robot; it stands still.

    Attributes:
        form: ``cone`` on a base, ``tower`` (head on legs), ``mast`` (pole with a mirror) or ``box`` (an
            obstacle).
        width_m: Width and length of its base.
        height_m: Height.
        sides: Sides of its base; a large number for a round one.
        base: Height of its base over the height.
        top: Width at the top over that of the base.
        shirt_top, shirt_height: Upper edge of its shirt over the height; height of the shirt over the height, 0
            for none.
        number: Number on its shirt.
        extras: Number of devices, cables and handles on it.
        seed: Seed of their shapes, positions and colours.
        yaw_rad: Rotation about the vertical.
    """

    form: RobotForm
    width_m: Annotated[float, Between(0.1, 1.5)]
    height_m: Annotated[float, Between(0.1, 2)]
    sides: Annotated[int, Between(3, _ROUND)]
    base: Annotated[float, Between(0.05, 0.7)]
    top: Annotated[float, Between(0.1, 1)]
    shirt_top: Annotated[float, Between(0.3, 1)]
    shirt_height: Annotated[float, Between(0, 0.6)]
    number: Annotated[int, Between(0, 99)]
    extras: Annotated[int, Between(0, _MAX_EXTRAS)]
    seed: Seed
    yaw_rad: float

    @property
    def is_held(self) -> bool:
        """Whether it is fixed in its initial pose."""
        return True

    def compute_rotation(self) -> Quaternion:
        """Return the yaw rotation."""
        return compute_yaw_rotation(self.yaw_rad)


@dataclass(frozen=True)
class Robot(ObjectKind):
    """A soccer robot, centred on the origin and upright along z.

    Attributes:
        form: Kind of its body.
        size_m: Width, depth and height.
        sides: Sides of its base.
        base, top: Height of the base over the height, and width at the top over the width.
        shirt_top, shirt_height: Upper edge and height of its shirt over the height.
        number: Number on its shirt.
        extras: Number of devices on it.
        seed: Seed of the devices.
        shirt_color: Linear RGB of its shirt.
    """

    factors_type: ClassVar[type[Any]] = RobotFactors
    group_types: ClassVar[dict[str, type[Any]]] = {"shirt": ColorFactors}
    has_atlas: ClassVar[bool] = True

    form: RobotForm
    size_m: Vec3
    sides: int
    base: float
    top: float
    shirt_top: float
    shirt_height: float
    number: int
    extras: int
    seed: int
    shirt_color: Color
    kind: Literal["robot"] = "robot"

    def __post_init__(self) -> None:
        check_sizes(self, "size_m", "base", "top", "shirt_top")
        if not (3 <= self.sides <= _ROUND and 0 <= self.extras <= _MAX_EXTRAS):
            raise SpecError(
                f"a robot has {self.sides} sides and {self.extras} extras. Allowed: 3 to {_ROUND}, and 0 to "
                f"{_MAX_EXTRAS}."
            )

    @classmethod
    def from_instance(cls, instance: ObjectInstance[RobotFactors]) -> Robot:
        """Return the robot."""
        own, shirt = instance.factors, instance.groups["shirt"]
        return cls(
            own.form,
            (own.width_m, own.width_m, own.height_m),
            own.sides,
            own.base,
            own.top,
            own.shirt_top,
            own.shirt_height,
            own.number,
            own.extras,
            own.seed,
            hsv_to_linear(shirt.hue, shirt.saturation, shirt.value),
        )

    @property
    def volume_m3(self) -> float:
        """Sum of the volumes of its prisms."""
        mesh = self.build_mesh()
        return float(np.linalg.det(mesh.vertices_m[mesh.faces]).sum() / 6)

    def build_mesh(self) -> Mesh:
        """Return the mesh; its parts are closed prisms: the base, the body, the shirt and the extras."""
        mesh = join_meshes([*_build_body(self), *_build_shirt(self), *_build_extras(self)])
        low, high = mesh.vertices_m.min(axis=0), mesh.vertices_m.max(axis=0)
        scale = np.array(self.size_m) / (high - low)
        normals, tangents = mesh.normals / scale, mesh.tangents * scale
        return replace(
            mesh,
            vertices_m=(mesh.vertices_m - (low + high) / 2) * scale,
            normals=normals / np.linalg.norm(normals, axis=1, keepdims=True),
            tangents=tangents / np.linalg.norm(tangents, axis=1, keepdims=True),
        )

    def render_maps(self, texture: Texture) -> TextureMaps:
        """Render the atlas: body, shirt with its number, metal, and the colours of the extras."""
        coordinates = (np.arange(_TILE_PX) + 0.5) / _TILE_PX * self.size_m[0]
        body = make_color_sampler(texture)((coordinates, coordinates[:, None], np.zeros(1)))
        canvas = np.zeros((4 * _TILE_PX, 4 * _TILE_PX), np.uint8)
        draw_text(canvas, str(self.number), (0.5, 0.5), 0.45, max_width=0.6)
        # row 0 of the atlas is at the bottom
        ink = cv2.resize(canvas, (_TILE_PX, _TILE_PX), interpolation=cv2.INTER_AREA)[::-1] / 255.0
        letter = 0.02 if sum(self.shirt_color) > 0.6 else 0.9
        shirt = np.broadcast_to(self.shirt_color, body.shape)
        shirt = shirt + ink[..., None] * (letter - shirt)
        rng = derive_rng(self.seed, "colors")
        accents = [
            hsv_to_linear(rng.random(), rng.choice([0.0, 0.2, 0.9]), rng.choice([0.1, 0.25, 0.8]))
            for _ in range(_N_ACCENTS)
        ]
        flat = [np.broadcast_to(color, body.shape) for color in ((0.4, 0.4, 0.42), *accents)]
        tiles = [body, shirt, *flat]
        rows = [np.concatenate(tiles[first : first + _COLUMNS], axis=1) for first in (0, _COLUMNS)]
        return encode_srgb(np.concatenate(rows)), None


def _build_body(robot: Robot) -> list[Mesh]:
    """Return base, body and head in a unit cell: width 1 and z from 0 to 1."""
    base = _build_prism(robot.sides, (0.5, 0.5), (0.0, robot.base), _BODY)
    top = robot.top / 2
    match robot.form:
        case "box":
            return [_build_prism(4, (0.5, 0.5 * max(robot.top, 0.8)), (0.0, 1.0), _BODY)]
        case "cone":
            cone = _build_prism(robot.sides, (0.42, top), (robot.base, 0.93), _BODY)
            return [base, cone, _build_prism(_ROUND, (0.4 * top, 0.6 * top), (0.93, 1.0), _METAL)]
        case "mast":
            mast = _build_prism(_ROUND, (0.08, 0.06), (robot.base, 0.94), _BODY)
            deck = (robot.base, min(robot.base + 0.18, 0.6))
            return [
                base,
                _build_prism(robot.sides, (0.38, 0.34), deck, _FIRST_ACCENT),
                mast,
                _build_prism(_ROUND, (0.08, top), (0.9, 1.0), _METAL),
            ]
        case "tower":
            corners = 0.25 * np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]])
            legs = [
                _build_prism(
                    6,
                    (_LEG_RADIUS, _LEG_RADIUS),
                    (robot.base, 0.85),
                    _BODY,
                    corner,
                    corner * 2 * top,
                )
                for corner in corners
            ]
            return [
                base,
                *legs,
                _build_prism(4, (0.8 * top + 0.08, top + 0.08), (0.82, 1.0), _BODY),
            ]


def _build_shirt(robot: Robot) -> list[Mesh]:
    """Return the shirt around the body; nothing without one."""
    if robot.shirt_height <= 0 or robot.form == "box":
        return []
    high = min(robot.shirt_top, 0.92)
    low = max(high - robot.shirt_height, robot.base)
    if high - low < 0.02:
        return []
    sides = robot.sides if robot.form == "cone" else 4
    narrow = {"cone": 0.43, "tower": 0.36, "mast": 0.28}[robot.form]
    radii = tuple(narrow + (robot.top / 2 + 0.02 - narrow) * (z - robot.base) / (0.93 - robot.base)
                  for z in (low, high))  # fmt: skip
    return [_build_prism(sides, (radii[0], radii[1]), (low, high), _SHIRT)]


def _build_extras(robot: Robot) -> list[Mesh]:
    """Return small prisms at random positions on the body, within the unit cell."""
    rng = derive_rng(robot.seed, "extras")
    extras = []
    for _ in range(robot.extras):
        is_round, tile = rng.random() < 0.3, int(rng.integers(_METAL, _COLUMNS * _ROWS))
        radius, height = rng.uniform(0.02, 0.14), rng.uniform(0.02, 0.16)
        z = rng.uniform(0.0, 0.95 - height)
        reach = (0.5 if z < robot.base else 0.45 + (robot.top / 2 - 0.45) * z) - 0.3 * radius
        angle = rng.uniform(0, 2 * math.pi)
        center = np.clip(reach, 0, 0.5 - radius) * np.array([math.cos(angle), math.sin(angle)])
        sides = _ROUND if is_round else 4
        extras.append(
            _build_prism(
                sides, (radius, radius * rng.uniform(0.6, 1)), (z, z + height), tile, center, center
            )
        )
    return extras


def _build_prism(
    sides: int,
    radii: tuple[float, float],
    heights: tuple[float, float],
    tile: int,
    low_center: Floats | tuple[float, float] = (0.0, 0.0),
    high_center: Floats | tuple[float, float] = (0.0, 0.0),
) -> Mesh:
    """Return a closed frustum with flat sides between two regular polygons, textured with one tile.

    Four sides make a box with that half width. Each of up to four groups of sides shows the tile once.
    """
    angles = (np.arange(sides + 1) + 0.5) * 2 * math.pi / sides
    stretch = math.sqrt(2) if sides == 4 else 1.0
    ring = stretch * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    low, high = (
        np.column_stack([np.asarray(center) + radius * ring, np.full(sides + 1, z)])
        for center, radius, z in zip((low_center, high_center), radii, heights, strict=True)
    )
    per_group = sides // 4 if sides % 4 == 0 else max(1, sides // 3)
    corners = np.stack([low[:-1], low[1:], high[1:], high[:-1]], axis=1)  # (sides, 4, 3)
    tangents = _normalize(corners[:, 1] - corners[:, 0])
    normals = _normalize(np.cross(tangents, corners[:, 3] - corners[:, 0]))
    left = np.arange(sides) % per_group / per_group
    right = left + 1 / per_group
    across = np.stack([left, right, right, left], axis=1)
    wall_uvs = np.stack([across, np.tile([0.0, 0.0, 1.0, 1.0], (sides, 1))], axis=-1)
    quads = 4 * np.arange(sides)[:, None, None] + np.array([[0, 1, 2], [0, 2, 3]])
    walls = Mesh(
        corners.reshape(-1, 3), np.repeat(normals, 4, axis=0), np.repeat(tangents, 4, axis=0),
        _map_to_tile(wall_uvs.reshape(-1, 2), tile), quads.reshape(-1, 3), make_single_part(4 * sides),
    )  # fmt: skip
    fan = np.array([[0, i, i + 1] for i in range(1, sides - 1)])
    x, y, z = np.eye(3)
    ends = []
    for polygon, sign in ((low[:-1], -1), (high[:-1], 1)):
        patch = make_patch(polygon, sign * z, x, sign * y, fan[:, ::sign])
        uvs = np.clip(polygon[:, :2] + 0.5, 0, 1)
        ends.append(replace(patch, uvs=_map_to_tile(uvs, _METAL if tile == _SHIRT else tile)))
    return join_meshes([walls, *ends])


def _normalize(vectors: Floats) -> Floats:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def _map_to_tile(uvs: Floats, tile: int) -> Floats:
    """Return atlas coordinates of coordinates 0 to 1 in a tile."""
    row, column = divmod(tile, _COLUMNS)
    inside = _TILE_MARGIN + uvs * (1 - 2 * _TILE_MARGIN)
    return np.asarray((inside + np.array([column, row])) / [_COLUMNS, _ROWS])
