"""Twisty cubes: cubelets, and the atlas that holds the colours of their faces."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sim2cam.geometry.poses import Pose
from sim2cam.objects.block import LINES, rounded_box
from sim2cam.scene.material import Texture
from sim2cam.scene.twisty import FACES, NORMALS, TwistyCube, facelet_places
from sim2cam.surfaces.mesh import Mesh, grid_faces, joined
from sim2cam.surfaces.textures import encode_srgb, paint

Floats = NDArray[np.float64]

_TILE = 64  # texels
_PADDING = 8  # of them, on each side
_COLUMNS, _ROWS = 4, 2  # powers of two, so that smaller copies of the picture stay where they are
_BARE = len(FACES)
"""The tile of what has no colour of its own."""
_SIDES: tuple[tuple[int, int, int], ...] = tuple(
    NORMALS[face] for face in ("L", "R", "F", "B", "D", "U")
)
"""Of a box (-x, +x, -y, ...)."""


def twisty_surface(cube: TwistyCube) -> Mesh:
    """Returns the surface of a cube.

    Its parts are its facelets, from 1, in the order of ``facelet_places``; what lies between cubelets
    is one part more.
    """
    piece = rounded_box((cube.cubelet_m,) * 3, cube.rounding)
    number = {tuple(place): n for n, place in enumerate(facelet_places(cube.layers).tolist())}
    colors = cube.facelets()
    at = range(1 - cube.layers, cube.layers, 2)  # in half cubelets
    cubelets = []
    for place in itertools.product(at, repeat=3):
        outer = [number.get(tuple(np.add(place, side))) for side in _SIDES]
        if any(n is not None for n in outer):
            tiles = [_BARE if n is None else int(colors[n]) for n in outer]
            parts = [len(colors) if n is None else n for n in outer]
            cubelets.append(_cubelet(cube, piece, np.array(place), tiles, parts))
    whole = joined(cubelets)
    coarse = grid_faces(LINES, LINES, step=LINES - 1)
    faces = len(whole.vertices_m) // LINES**2
    return replace(
        whole,
        parts=np.concatenate([one.parts for one in cubelets]),
        shadow_faces=np.concatenate([coarse + LINES**2 * face for face in range(faces)]),
    )


def twisty_map(cube: TwistyCube, texture: Texture) -> NDArray[np.uint8]:
    """Returns the atlas of colours, sRGB (h, w, 3): a tile for each of the six, and a bare one."""
    line = (np.arange(_TILE) + 0.5 - _PADDING) / (_TILE - 2 * _PADDING) * 2 - 1
    half = cube.cubelet_m / 2
    bare = paint(texture)((half * line, half * line[:, None], np.zeros(1)))
    covered = _sticker(cube, line)[..., None]
    tiles = [bare + covered * (np.array(color) - bare) for color in cube.colors]
    tiles += [bare] * (_COLUMNS * _ROWS - len(tiles))
    rows = [np.concatenate(tiles[i : i + _COLUMNS], axis=1) for i in (0, _COLUMNS)]
    return encode_srgb(np.concatenate(rows))


def _cubelet(
    cube: TwistyCube, piece: Mesh, place: NDArray[np.int64], tiles: list[int], parts: list[int]
) -> Mesh:
    """Returns one cubelet where it is, its sides (-x, +x, -y, ...) on their tiles."""
    middle = place[None] * cube.cubelet_m / 2
    is_turned, turn = cube.layer_pose(middle)
    pose = Pose(turn if is_turned[0] else Pose().rotation_wxyz)
    column, row = (
        np.repeat(n, LINES**2) for n in (np.mod(tiles, _COLUMNS), np.floor_divide(tiles, _COLUMNS))
    )
    within = (piece.uvs / cube.cubelet_m + 0.5) * (_TILE - 2 * _PADDING) + _PADDING
    uvs = (within / _TILE + np.stack([column, row], axis=1)) / [_COLUMNS, _ROWS]
    return replace(
        piece,
        vertices_m=pose.apply(piece.vertices_m + middle),
        normals=pose.apply(piece.normals),
        tangents=pose.apply(piece.tangents),
        uvs=uvs,
        parts=np.repeat(np.array(parts, np.uint32) + 1, LINES**2),
    )


def _sticker(cube: TwistyCube, line: Floats) -> Floats:
    """Returns how much of each texel (n, n) of a tile is coloured, 0 to 1."""
    if cube.sticker == 1:
        return np.ones((len(line), len(line)))
    radius = cube.sticker * cube.sticker_corner
    beyond = np.clip(np.abs(line) - (cube.sticker - radius), 0, None)
    inside = radius - np.hypot(beyond, beyond[:, None])
    texel = line[1] - line[0]
    return np.asarray(np.clip(inside / texel + 0.5, 0, 1))
