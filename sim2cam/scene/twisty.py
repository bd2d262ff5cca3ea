"""Twisty cubes: what they are made of, and how turns of their faces move their colours.

The frame of a cube is that of its core: R looks along +x, B along +y, U along +z. Turns of faces leave
the core where it is. Colours count in the order of ``FACES``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from sim2cam.errors import SpecError
from sim2cam.geometry.poses import Pose, Quaternion, Vec3, quaternion, vec3
from sim2cam.scene.bounds import check_sizes
from sim2cam.scene.material import Color

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
MOVES = tuple(face + way for face in FACES for way in _TURN_SUFFIXES)
"""Turns of a face, seen from outside: by a quarter clockwise, by a half, by a quarter back."""

SCRAMBLE_MOVES = 16
N_SCRAMBLES = 18 * 15 ** (SCRAMBLE_MOVES - 1)
"""How many scrambles of so many moves there are in which no face turns twice running."""


def make_scramble(index: int) -> tuple[str, ...]:
    """Return the moves of a scramble by its number, 0 to ``SCRAMBLES - 1``; no two are the same."""
    index, first = divmod(index, len(MOVES))
    found = [MOVES[first]]
    for _ in range(SCRAMBLE_MOVES - 1):
        index, digit = divmod(index, len(MOVES) - len(_TURN_SUFFIXES))
        found.append([move for move in MOVES if move[0] != found[-1][0]][digit])
    return tuple(found)


@dataclass(frozen=True)
class TwistyCube:
    """A cube of cubelets whose faces turn; its category tells its layers, as ``3x3x3``.

    Attributes:
        edge_m: side of the whole.
        layers: cubelets along a side, 2 or 3.
        moves: turns that its colours have been through, of ``MOVES``.
        turned: the face that is not quite where it belongs.
        turned_rad: how far it is turned, clockwise seen from outside, -pi / 4 to pi / 4.
        rounding: radius of the cubelets' edges, over their side.
        sticker: side of what is coloured, over that of a cubelet; 1 when all of it is.
        sticker_corner: radius of its corners, over half of its side.
        colors: linear RGB of U, R, F, D, L, B before any move. All else is of the body's material.
    """

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
        wrong = [move for move in self.moves if move not in MOVES]
        if wrong or len(self.moves) > _MAX_MOVES:
            what = f"the move '{wrong[0][:20]}'" if wrong else f"{len(self.moves)} moves"
            raise SpecError(
                f"a twisty cube cannot take {what}. It takes up to {_MAX_MOVES} of {', '.join(MOVES)}."
            )
        if not abs(self.turned_rad) <= math.pi / 4 + 1e-9:
            raise SpecError(
                f"a face is turned by {self.turned_rad:g} rad. It takes -pi / 4 to pi / 4; turn further "
                "by moves."
            )
        if not (0 < self.rounding < 0.5 and self.sticker <= 1 and 0 <= self.sticker_corner <= 1):
            raise SpecError(
                f"cubelets with a rounding of {self.rounding} and stickers of {self.sticker} with "
                f"corners of {self.sticker_corner} cannot be. Allowed: 0 to 0.5, 0 to 1, 0 to 1."
            )

    @property
    def category(self) -> str:
        """How many layers it has each way."""
        return "x".join([str(self.layers)] * 3)

    @property
    def cubelet_m(self) -> float:
        """Side of a cubelet."""
        return self.edge_m / self.layers

    @property
    def size_m(self) -> Vec3:
        """Sides of the box around it."""
        wide = self.edge_m * (math.cos(self.turned_rad) + abs(math.sin(self.turned_rad)))
        axis = np.abs(FACE_NORMALS[self.turned])
        return vec3(np.where(axis, self.edge_m, wide))

    def select_turned_layer(
        self, points: NDArray[np.floating]
    ) -> tuple[NDArray[np.bool_], Quaternion]:
        """Return which places (n, 3) lie in the layer of the turned face, and how that is turned."""
        normal = np.array(FACE_NORMALS[self.turned])
        turn = quaternion(Rotation.from_rotvec(-self.turned_rad * normal))
        return points @ normal > self.edge_m / 2 - self.cubelet_m, turn

    @property
    def keypoints(self) -> tuple[tuple[str, Vec3], ...]:
        """Its corners, by the faces that meet there, on the round of their edges."""
        inset = self.rounding * self.cubelet_m * (1 - math.sqrt(1 / 3))
        ways = [
            np.sum([FACE_NORMALS[face] for face in FACES if face in name], axis=0)
            for name in CORNERS
        ]
        points = (self.edge_m / 2 - inset) * np.array(ways, np.float64)
        is_turned, turn = self.select_turned_layer(points)
        points[is_turned] = Pose(turn).apply(points[is_turned])
        return tuple(zip(CORNERS, map(vec3, points), strict=True))

    def compute_facelet_colors(self) -> Integers:
        """Return the colour of each facelet, as ``apply_moves`` has them."""
        return apply_moves(self.moves, self.layers)


@functools.lru_cache(maxsize=8)
def compute_facelet_positions(layers: int) -> Integers:
    """Return where the facelets (6 layers², 3) of a cube are, in half cubelets from its middle.

    They go face by face in the order of ``FACES``, row by row as each face is usually laid out: the
    net of a cube with U above F, and R, B and L folded away to its right.
    """
    at = 2 * np.arange(layers) - (layers - 1)
    found = []
    for face in FACES:
        right, down = (np.array(FACE_NORMALS[way]) for way in _FACE_AXES[face])
        rows, columns = (g.reshape(-1, 1) for g in np.meshgrid(at, at, indexing="ij"))
        found.append(layers * np.array(FACE_NORMALS[face]) + columns * right + rows * down)
    return np.concatenate(found)


def apply_moves(moves: Sequence[str], layers: int) -> Integers:
    """Return the colour (6 layers²,) of each facelet, an index of ``FACES``, after moves.

    Args:
        moves: of ``MOVES``, on a cube whose faces have one colour each.
        layers: cubelets along a side.
    """
    colors = np.repeat(np.arange(len(FACES)), layers**2)
    for move in moves:
        for _ in range(_TURN_SUFFIXES.index(move[1:]) + 1):
            colors = colors[_compute_quarter_turn_sources(move[0], layers)]
    return colors


@functools.lru_cache(maxsize=16)
def _compute_quarter_turn_sources(face: CubeFace, layers: int) -> Integers:
    """Return from which facelet each takes its colour when a face turns clockwise by a quarter."""
    places, normal = compute_facelet_positions(layers), np.array(FACE_NORMALS[face])
    along = places @ normal
    back = along[:, None] * normal + np.cross(normal, places)  # where what comes here was
    sources = np.where((along >= layers - 1)[:, None], back, places)
    number = {tuple(place): i for i, place in enumerate(places.tolist())}
    return np.array([number[tuple(place)] for place in sources.tolist()])
