"""Twisty cubes: cubelets, and the atlas that holds the colours of their faces."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sim2cam.geometry.poses import Pose
from sim2cam.objects.block import FACE_VERTICES, build_rounded_box
from sim2cam.scene.material import Texture
from sim2cam.scene.twisty import FACE_NORMALS, FACES, TwistyCube, compute_facelet_positions
from sim2cam.surfaces.mesh import Mesh, join_meshes, make_grid_faces
from sim2cam.surfaces.textures import encode_srgb, make_color_sampler

Floats = NDArray[np.float64]

_TILE_PX = 64  # texels
_PADDING_PX = 8  # of them, on each side
_COLUMNS, _ROWS = 4, 2  # powers of two, so that smaller copies of the picture stay where they are
_BARE_TILE = len(FACES)
"""The tile of what has no colour of its own."""
_SIDE_NORMALS: tuple[tuple[int, int, int], ...] = tuple(
    FACE_NORMALS[face] for face in ("L", "R", "F", "B", "D", "U")
)
"""Of a box (-x, +x, -y, ...)."""


def build_twisty_mesh(cube: TwistyCube) -> Mesh:
    """Return the surface of a cube.

    Its parts are its facelets, from 1, in the order of ``compute_facelet_positions``; what lies between cubelets
    is one part more.
    """
    piece = build_rounded_box((cube.cubelet_m,) * 3, cube.rounding)
    number = {
        tuple(place): n for n, place in enumerate(compute_facelet_positions(cube.layers).tolist())
    }
    colors = cube.compute_facelet_colors()
    at = range(1 - cube.layers, cube.layers, 2)  # in half cubelets
    cubelets = []
    for place in itertools.product(at, repeat=3):
        outer = [number.get(tuple(np.add(place, side))) for side in _SIDE_NORMALS]
        if any(n is not None for n in outer):
            tiles = [_BARE_TILE if n is None else int(colors[n]) for n in outer]
            parts = [len(colors) if n is None else n for n in outer]
            cubelets.append(_build_cubelet(cube, piece, np.array(place), tiles, parts))
    whole = join_meshes(cubelets)
    coarse = make_grid_faces(FACE_VERTICES, FACE_VERTICES, step=FACE_VERTICES - 1)
    faces = len(whole.vertices_m) // FACE_VERTICES**2
    return replace(
        whole,
        parts=np.concatenate([one.parts for one in cubelets]),
        shadow_faces=np.concatenate([coarse + FACE_VERTICES**2 * face for face in range(faces)]),
    )


def render_twisty_texture(cube: TwistyCube, texture: Texture) -> NDArray[np.uint8]:
    """Return the atlas of colours, sRGB (h, w, 3): a tile for each of the six, and a bare one."""
    line = (np.arange(_TILE_PX) + 0.5 - _PADDING_PX) / (_TILE_PX - 2 * _PADDING_PX) * 2 - 1
    half = cube.cubelet_m / 2
    bare = make_color_sampler(texture)((half * line, half * line[:, None], np.zeros(1)))
    covered = _make_sticker_mask(cube, line)[..., None]
    tiles = [bare + covered * (np.array(color) - bare) for color in cube.colors]
    tiles += [bare] * (_COLUMNS * _ROWS - len(tiles))
    rows = [np.concatenate(tiles[i : i + _COLUMNS], axis=1) for i in (0, _COLUMNS)]
    return encode_srgb(np.concatenate(rows))


def _build_cubelet(
    cube: TwistyCube,
    template: Mesh,
    position: NDArray[np.int64],
    tiles: list[int],
    parts: list[int],
) -> Mesh:
    """Return one cubelet where it is, its sides (-x, +x, -y, ...) on their tiles."""
    middle = position[None] * cube.cubelet_m / 2
    is_turned, turn = cube.select_turned_layer(middle)
    pose = Pose(turn if is_turned[0] else Pose().rotation_wxyz)
    column, row = (
        np.repeat(n, FACE_VERTICES**2)
        for n in (np.mod(tiles, _COLUMNS), np.floor_divide(tiles, _COLUMNS))
    )
    within = (template.uvs / cube.cubelet_m + 0.5) * (_TILE_PX - 2 * _PADDING_PX) + _PADDING_PX
    uvs = (within / _TILE_PX + np.stack([column, row], axis=1)) / [_COLUMNS, _ROWS]
    return replace(
        template,
        vertices_m=pose.apply(template.vertices_m + middle),
        normals=pose.apply(template.normals),
        tangents=pose.apply(template.tangents),
        uvs=uvs,
        parts=np.repeat(np.array(parts, np.uint32) + 1, FACE_VERTICES**2),
    )


def _make_sticker_mask(cube: TwistyCube, texel_centers: Floats) -> Floats:
    """Return how much of each texel (n, n) of a tile is coloured, 0 to 1."""
    if cube.sticker == 1:
        return np.ones((len(texel_centers), len(texel_centers)))
    radius = cube.sticker * cube.sticker_corner
    beyond = np.clip(np.abs(texel_centers) - (cube.sticker - radius), 0, None)
    inside = radius - np.hypot(beyond, beyond[:, None])
    texel = texel_centers[1] - texel_centers[0]
    return np.asarray(np.clip(inside / texel + 0.5, 0, 1))
