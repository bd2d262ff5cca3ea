"""Twisty cubes: cubes of cubelets with turning faces, in the colours of any sequence of moves.

The frame of a cube is that of its core: R faces +x, B faces +y, U faces +z. Moves do not change it. Colours are in
the order of ``FACES``.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from sim2cam.errors import SpecError
from sim2cam.geometry.poses import Pose, Quaternion, Vec3, quaternion, vec3
from sim2cam.objects.kind import (
    ContactFactors,
    LabelClass,
    ObjectInstance,
    ObjectKind,
    PossibleValues,
    TumblingFactors,
)
from sim2cam.objects.solid import ConvexPart, TextureMaps
from sim2cam.scene import symmetry
from sim2cam.scene.material import Color, Texture, hsv_to_linear
from sim2cam.scene.parameters import Between, Fraction, check_sizes
from sim2cam.surfaces.mesh import Mesh, join_meshes, make_grid_faces
from sim2cam.surfaces.rounded_box import FACE_VERTICES, build_rounded_box
from sim2cam.surfaces.textures import encode_srgb, make_color_sampler

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
CubeFace = Literal["U", "R", "F", "D", "L", "B"]
FACES: tuple[CubeFace, ...] = get_args(CubeFace)
"""Up, right, front, down, left, back."""

FACE_NORMALS: dict[CubeFace, tuple[int, int, int]] = {
    "U": (0, 0, 1), "R": (1, 0, 0), "F": (0, -1, 0), "D": (0, 0, -1), "L": (-1, 0, 0), "B": (0, 1, 0),
}  # fmt: skip
_FACE_AXES: dict[CubeFace, tuple[CubeFace, CubeFace]] = {
    "U": ("R", "F"), "R": ("B", "D"), "F": ("R", "D"), "D": ("R", "B"), "L": ("F", "D"), "B": ("L", "D"),
}  # fmt: skip
CORNERS = ("URF", "UFL", "ULB", "UBR", "DFR", "DLF", "DBL", "DRB")

_LAYERS = (2, 3)
_MAX_MOVES = 1000
_TURN_SUFFIXES = ("", "2", "'")
MOVES = tuple(face + suffix for face in FACES for suffix in _TURN_SUFFIXES)
"""Turns of a face, seen from outside: a quarter clockwise, a half, a quarter counter-clockwise."""

SCRAMBLE_MOVES = 16
N_SCRAMBLES = 18 * 15 ** (SCRAMBLE_MOVES - 1)
"""Number of scrambles of ``SCRAMBLE_MOVES`` moves that never turn a face twice in succession."""


def make_scramble(index: int) -> tuple[str, ...]:
    """Return the moves of the scramble with an index, 0 to ``N_SCRAMBLES - 1``; all are different."""
    index, first = divmod(index, len(MOVES))
    moves = [MOVES[first]]
    for _ in range(SCRAMBLE_MOVES - 1):
        index, digit = divmod(index, len(MOVES) - len(_TURN_SUFFIXES))
        moves.append([move for move in MOVES if move[0] != moves[-1][0]][digit])
    return tuple(moves)


_TILE_PX = 64  # texels
_PADDING_PX = 8  # texels on each side of a tile
_COLUMNS, _ROWS = 4, 2  # powers of two, so that mipmaps stay aligned
_BARE_TILE = len(FACES)
"""Tile of surfaces without a sticker."""
_SIDE_NORMALS: tuple[tuple[int, int, int], ...] = tuple(
    FACE_NORMALS[face] for face in ("L", "R", "F", "B", "D", "U")
)
"""Normals of the sides of a box (-x, +x, -y, ...)."""


@dataclass(frozen=True)
class TwistyFactors(TumblingFactors, ContactFactors):
    """One twisty cube; see ``TwistyCube``.

    Attributes:
        edge_m: Side of the cube.
        layers: Cubelets along a side.
        scramble: Number of the scramble, 0 to ``N_SCRAMBLES - 1``.
        turned, turned_rad: Face that is not aligned, and its angle.
        rounding: Radius of the cubelets' edges over their side.
        sticker: Side of the coloured area over that of a cubelet; 1 for fully coloured.
        sticker_corner: Radius of its corners over half of its side.
    """

    edge_m: Annotated[float, Between(0.005, 0.5)]
    layers: Annotated[int, Between(2, 3)]
    scramble: Annotated[int, Between(0, N_SCRAMBLES - 1)]
    turned: CubeFace
    turned_rad: Annotated[float, Between(-math.pi / 4, math.pi / 4)]
    rounding: Annotated[float, Between(0.01, 0.49)]
    sticker: Annotated[float, Between(0.2, 1)]
    sticker_corner: Fraction


@dataclass(frozen=True)
class TwistyColorFactors:
    """Six face colours of one twisty cube before any move.

    Attributes:
        up_hue, up_saturation, up_value: Colour of the upper face.
        right_hue, right_saturation, right_value: Colour of the right face.
        front_hue, front_saturation, front_value: Colour of the front face.
        down_hue, down_saturation, down_value: Colour of the lower face.
        left_hue, left_saturation, left_value: Colour of the left face.
        back_hue, back_saturation, back_value: Colour of the back face.
    """

    up_hue: float
    up_saturation: Fraction
    up_value: Fraction
    right_hue: float
    right_saturation: Fraction
    right_value: Fraction
    front_hue: float
    front_saturation: Fraction
    front_value: Fraction
    down_hue: float
    down_saturation: Fraction
    down_value: Fraction
    left_hue: float
    left_saturation: Fraction
    left_value: Fraction
    back_hue: float
    back_saturation: Fraction
    back_value: Fraction

    def to_colors(self) -> tuple[Color, Color, Color, Color, Color, Color]:
        """Return the linear RGB of the faces, in the order of ``FACES``."""
        return (
            hsv_to_linear(self.up_hue, self.up_saturation, self.up_value),
            hsv_to_linear(self.right_hue, self.right_saturation, self.right_value),
            hsv_to_linear(self.front_hue, self.front_saturation, self.front_value),
            hsv_to_linear(self.down_hue, self.down_saturation, self.down_value),
            hsv_to_linear(self.left_hue, self.left_saturation, self.left_value),
            hsv_to_linear(self.back_hue, self.back_saturation, self.back_value),
        )


@dataclass(frozen=True)
class TwistyCube(ObjectKind):
    """A cube of cubelets with turning faces; its category is its number of layers, as ``3x3x3``.

    Attributes:
        edge_m: Side of the cube.
        layers: Cubelets along a side, 2 or 3.
        moves: Moves of ``MOVES`` applied to its colours.
        turned: Face that is partly turned.
        turned_rad: Angle of that face, clockwise from outside, -pi / 4 to pi / 4.
        rounding: Radius of the cubelets' edges over their side.
        sticker: Side of the coloured area over that of a cubelet; 1 for fully coloured.
        sticker_corner: Radius of its corners over half of its side.
        colors: Linear RGB of U, R, F, D, L, B before any move. The rest has the body's material.
    """

    factors_type: ClassVar[type[Any]] = TwistyFactors
    group_types: ClassVar[dict[str, type[Any]]] = {"color": TwistyColorFactors}
    shape_symmetries: ClassVar[symmetry.Symmetries] = symmetry.CUBE
    has_atlas: ClassVar[bool] = True
    is_compound: ClassVar[bool] = True

    edge_m: float
    layers: int
    moves: tuple[str, ...]
    turned: CubeFace
    turned_rad: float
    rounding: float
    sticker: float
    sticker_corner: float
    colors: tuple[Color, Color, Color, Color, Color, Color]
    kind: Literal["twisty"] = "twisty"

    def __post_init__(self) -> None:
        check_sizes(self, "edge_m", "sticker")
        if self.layers not in _LAYERS:
            raise SpecError(f"a twisty cube has {self.layers} layers. Allowed: 2, 3.")
        unknown_moves = [move for move in self.moves if move not in MOVES]
        if unknown_moves or len(self.moves) > _MAX_MOVES:
            problem = (
                f"the move '{unknown_moves[0][:20]}'"
                if unknown_moves
                else f"{len(self.moves)} moves"
            )
            raise SpecError(
                f"a twisty cube has {problem}. Allowed: up to {_MAX_MOVES} of {', '.join(MOVES)}."
            )
        if not abs(self.turned_rad) <= math.pi / 4 + 1e-9:
            raise SpecError(
                f"a face is turned by {self.turned_rad:g} rad. Allowed: -pi / 4 to pi / 4. Use moves for "
                "larger angles."
            )
        if not (0 < self.rounding < 0.5 and self.sticker <= 1 and 0 <= self.sticker_corner <= 1):
            raise SpecError(
                f"rounding, sticker and sticker_corner are {self.rounding}, {self.sticker} and "
                f"{self.sticker_corner}. Allowed: 0 to 0.5, 0 to 1, 0 to 1."
            )

    @classmethod
    def from_instance(cls, instance: ObjectInstance[TwistyFactors]) -> TwistyCube:
        """Return the cube."""
        factors = instance.factors
        return cls(
            factors.edge_m,
            factors.layers,
            make_scramble(factors.scramble),
            factors.turned,
            factors.turned_rad,
            factors.rounding,
            factors.sticker,
            factors.sticker_corner,
            instance.groups["color"].to_colors(),
        )

    @classmethod
    def list_label_classes(cls, possible: PossibleValues) -> tuple[LabelClass, ...]:
        """Return one class; cubes with a turned face have no symmetric shape."""
        categories = tuple(f"{n}x{n}x{n}" for n in sorted(possible("layers")))
        if possible("turned_rad") == {0}:
            return (cls.make_label_class(categories),)
        none = symmetry.NO_SYMMETRIES
        return (LabelClass("turned twisty", categories, none, none),)

    def get_category(self, pose: object) -> str:
        """Return the number of layers along each side, as ``3x3x3``."""
        return "x".join([str(self.layers)] * 3)

    @property
    def cubelet_m(self) -> float:
        """Side of a cubelet."""
        return self.edge_m / self.layers

    @property
    def size_m(self) -> Vec3:
        """Sides of the bounding box."""
        width = self.edge_m * (math.cos(self.turned_rad) + abs(math.sin(self.turned_rad)))
        axis = np.abs(FACE_NORMALS[self.turned])
        return vec3(np.where(axis, self.edge_m, width))

    def select_turned_layer(
        self, points: NDArray[np.floating]
    ) -> tuple[NDArray[np.bool_], Quaternion]:
        """Return whether points (n, 3) are in the turned layer, and the rotation of that layer."""
        normal = np.array(FACE_NORMALS[self.turned])
        rotation = quaternion(Rotation.from_rotvec(-self.turned_rad * normal))
        return points @ normal > self.edge_m / 2 - self.cubelet_m, rotation

    @property
    def volume_m3(self) -> float:
        """Volume of the cube."""
        return self.edge_m**3

    @property
    def bounding_radius_m(self) -> float:
        """Distance of the corners from the centre."""
        return self.edge_m * math.sqrt(3) / 2

    def get_keypoints(self) -> dict[str, Vec3]:
        """Return the corners, on their rounded edges, named by the core faces that meet there.

        Corners of a turned face turn with it.
        """
        inset = self.rounding * self.cubelet_m * (1 - math.sqrt(1 / 3))
        directions = [
            np.sum([FACE_NORMALS[face] for face in FACES if face in name], axis=0)
            for name in CORNERS
        ]
        points = (self.edge_m / 2 - inset) * np.array(directions, np.float64)
        is_turned, rotation = self.select_turned_layer(points)
        points[is_turned] = Pose(rotation).apply(points[is_turned])
        return dict(zip(CORNERS, map(vec3, points), strict=True))

    def compute_facelet_colors(self) -> Integers:
        """Return the colour of each facelet after the moves."""
        return apply_moves(self.moves, self.layers)

    def build_collider(self) -> tuple[ConvexPart, ...]:
        """Return the turned layer and the other layers; one part for a cube that is not turned."""
        if self.turned_rad == 0:
            return (ConvexPart("box", (self.edge_m, self.edge_m, self.edge_m)),)
        normal = np.array(FACE_NORMALS[self.turned], np.float64)
        axis = np.abs(normal)
        rest_m = self.edge_m - self.cubelet_m
        layer_center = normal * rest_m / 2
        _, rotation = self.select_turned_layer(layer_center[None])
        layer, rest = (
            vec3(np.where(axis > 0, thickness_m, self.edge_m))
            for thickness_m in (self.cubelet_m, rest_m)
        )
        return (
            ConvexPart("box", layer, Pose(rotation, vec3(layer_center))),
            ConvexPart("box", rest, Pose(position_m=vec3(-normal * self.cubelet_m / 2))),
        )

    def build_mesh(self) -> Mesh:
        """Return the mesh.

        Its parts are the facelets, from 1, in the order of ``compute_facelet_positions``; inner
        surfaces are one further part.
        """
        piece = build_rounded_box((self.cubelet_m,) * 3, self.rounding)
        facelet_indices = {
            tuple(position): index
            for index, position in enumerate(compute_facelet_positions(self.layers).tolist())
        }
        colors = self.compute_facelet_colors()
        coordinates = range(1 - self.layers, self.layers, 2)  # in half cubelets
        cubelets = []
        for position in itertools.product(coordinates, repeat=3):
            facelets = [
                facelet_indices.get(tuple(np.add(position, normal))) for normal in _SIDE_NORMALS
            ]
            if any(index is not None for index in facelets):
                tiles = [_BARE_TILE if index is None else int(colors[index]) for index in facelets]
                parts = [len(colors) if index is None else index for index in facelets]
                cubelets.append(_build_cubelet(self, piece, np.array(position), tiles, parts))
        joined = join_meshes(cubelets)
        coarse_faces = make_grid_faces(FACE_VERTICES, FACE_VERTICES, step=FACE_VERTICES - 1)
        face_count = len(joined.vertices_m) // FACE_VERTICES**2
        return replace(
            joined,
            parts=np.concatenate([cubelet.parts for cubelet in cubelets]),
            shadow_faces=np.concatenate(
                [coarse_faces + FACE_VERTICES**2 * face for face in range(face_count)]
            ),
        )

    def render_maps(self, texture: Texture) -> TextureMaps:
        """Render the atlas: a tile per colour and a bare one."""
        coordinates = (np.arange(_TILE_PX) + 0.5 - _PADDING_PX) / (
            _TILE_PX - 2 * _PADDING_PX
        ) * 2 - 1
        half_edge_m = self.cubelet_m / 2
        bare = make_color_sampler(texture)(
            (half_edge_m * coordinates, half_edge_m * coordinates[:, None], np.zeros(1))
        )
        sticker_mask = _make_sticker_mask(self, coordinates)[..., None]
        tiles = [bare + sticker_mask * (np.array(color) - bare) for color in self.colors]
        tiles += [bare] * (_COLUMNS * _ROWS - len(tiles))
        rows = [np.concatenate(tiles[start : start + _COLUMNS], axis=1) for start in (0, _COLUMNS)]
        return encode_srgb(np.concatenate(rows)), None


@functools.lru_cache(maxsize=8)
def compute_facelet_positions(layers: int) -> Integers:
    """Return the positions (6 layers², 3) of facelets in half cubelets from the centre.

    Facelets are ordered by face as in ``FACES``, then row by row in the usual net, with U above F and R, B and L to the
    right.
    """
    offsets = 2 * np.arange(layers) - (layers - 1)
    positions = []
    for face in FACES:
        right, down = (np.array(FACE_NORMALS[axis]) for axis in _FACE_AXES[face])
        rows, columns = (
            grid.reshape(-1, 1) for grid in np.meshgrid(offsets, offsets, indexing="ij")
        )
        positions.append(layers * np.array(FACE_NORMALS[face]) + columns * right + rows * down)
    return np.concatenate(positions)


def apply_moves(moves: Sequence[str], layers: int) -> Integers:
    """Return the colour (6 layers²,) of each facelet after moves, as an index of ``FACES``.

    Args:
        moves: Moves of ``MOVES``, applied to a solved cube.
        layers: Cubelets along a side.
    """
    colors = np.repeat(np.arange(len(FACES)), layers**2)
    for move in moves:
        for _ in range(_TURN_SUFFIXES.index(move[1:]) + 1):
            colors = colors[_compute_quarter_turn_sources(move[0], layers)]
    return colors


@functools.lru_cache(maxsize=16)
def _compute_quarter_turn_sources(face: CubeFace, layers: int) -> Integers:
    """Return the facelet from which each facelet takes its colour at a quarter turn clockwise."""
    positions, normal = compute_facelet_positions(layers), np.array(FACE_NORMALS[face])
    heights = positions @ normal
    previous = heights[:, None] * normal + np.cross(normal, positions)  # positions before the turn
    sources = np.where((heights >= layers - 1)[:, None], previous, positions)
    indices = {tuple(position): index for index, position in enumerate(positions.tolist())}
    return np.array([indices[tuple(position)] for position in sources.tolist()])


def _build_cubelet(
    cube: TwistyCube,
    template: Mesh,
    position: NDArray[np.int64],
    tiles: list[int],
    parts: list[int],
) -> Mesh:
    """Return a cubelet at its position, with sides (-x, +x, -y, ...) mapped to tiles."""
    center_m = position[None] * cube.cubelet_m / 2
    is_turned, rotation = cube.select_turned_layer(center_m)
    pose = Pose(rotation if is_turned[0] else Pose().rotation_wxyz)
    column, row = (
        np.repeat(values, FACE_VERTICES**2)
        for values in (np.mod(tiles, _COLUMNS), np.floor_divide(tiles, _COLUMNS))
    )
    tile_px = (template.uvs / cube.cubelet_m + 0.5) * (_TILE_PX - 2 * _PADDING_PX) + _PADDING_PX
    uvs = (tile_px / _TILE_PX + np.stack([column, row], axis=1)) / [_COLUMNS, _ROWS]
    return replace(
        template,
        vertices_m=pose.apply(template.vertices_m + center_m),
        normals=pose.apply(template.normals),
        tangents=pose.apply(template.tangents),
        uvs=uvs,
        parts=np.repeat(np.array(parts, np.uint32) + 1, FACE_VERTICES**2),
    )


def _make_sticker_mask(cube: TwistyCube, texel_centers: Floats) -> Floats:
    """Return the sticker coverage (n, n) of the texels of a tile, 0 to 1."""
    if cube.sticker == 1:
        return np.ones((len(texel_centers), len(texel_centers)))
    radius = cube.sticker * cube.sticker_corner
    beyond = np.clip(np.abs(texel_centers) - (cube.sticker - radius), 0, None)
    inside = radius - np.hypot(beyond, beyond[:, None])
    texel = texel_centers[1] - texel_centers[0]
    return np.asarray(np.clip(inside / texel + 0.5, 0, 1))
