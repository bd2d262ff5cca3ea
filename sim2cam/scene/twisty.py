"""Twisty cubes: their geometry, and the colours of their facelets after moves.

The frame of a cube is that of its core: R faces +x, B faces +y, U faces +z. Moves do not change it. Colours are in
the order of ``FACES``.
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


@dataclass(frozen=True)
class TwistyCube:
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

    @property
    def category(self) -> str:
        """Number of layers along each side, as ``3x3x3``."""
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
    def keypoints(self) -> tuple[tuple[str, Vec3], ...]:
        """Corners, named by the faces that meet there, on their rounded edges."""
        inset = self.rounding * self.cubelet_m * (1 - math.sqrt(1 / 3))
        directions = [
            np.sum([FACE_NORMALS[face] for face in FACES if face in name], axis=0)
            for name in CORNERS
        ]
        points = (self.edge_m / 2 - inset) * np.array(directions, np.float64)
        is_turned, rotation = self.select_turned_layer(points)
        points[is_turned] = Pose(rotation).apply(points[is_turned])
        return tuple(zip(CORNERS, map(vec3, points), strict=True))

    def compute_facelet_colors(self) -> Integers:
        """Return the colour of each facelet after the moves."""
        return apply_moves(self.moves, self.layers)


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
