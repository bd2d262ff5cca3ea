"""Meshes and texture atlases of twisty cubes."""

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
_PADDING_PX = 8  # texels on each side of a tile
_COLUMNS, _ROWS = 4, 2  # powers of two, so that mipmaps stay aligned
_BARE_TILE = len(FACES)
"""Tile of surfaces without a sticker."""
_SIDE_NORMALS: tuple[tuple[int, int, int], ...] = tuple(
    FACE_NORMALS[face] for face in ("L", "R", "F", "B", "D", "U")
)
"""Normals of the sides of a box (-x, +x, -y, ...)."""


def build_twisty_mesh(cube: TwistyCube) -> Mesh:
    """Return the mesh of a cube.

    Its parts are the facelets, from 1, in the order of ``compute_facelet_positions``; inner
    surfaces are one further part.
    """
    piece = build_rounded_box((cube.cubelet_m,) * 3, cube.rounding)
    facelet_indices = {
        tuple(position): index
        for index, position in enumerate(compute_facelet_positions(cube.layers).tolist())
    }
    colors = cube.compute_facelet_colors()
    coordinates = range(1 - cube.layers, cube.layers, 2)  # in half cubelets
    cubelets = []
    for position in itertools.product(coordinates, repeat=3):
        facelets = [
            facelet_indices.get(tuple(np.add(position, normal))) for normal in _SIDE_NORMALS
        ]
        if any(index is not None for index in facelets):
            tiles = [_BARE_TILE if index is None else int(colors[index]) for index in facelets]
            parts = [len(colors) if index is None else index for index in facelets]
            cubelets.append(_build_cubelet(cube, piece, np.array(position), tiles, parts))
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


def render_twisty_texture(cube: TwistyCube, texture: Texture) -> NDArray[np.uint8]:
    """Render the atlas, sRGB (h, w, 3): a tile per colour and a bare one."""
    coordinates = (np.arange(_TILE_PX) + 0.5 - _PADDING_PX) / (_TILE_PX - 2 * _PADDING_PX) * 2 - 1
    half_edge_m = cube.cubelet_m / 2
    bare = make_color_sampler(texture)(
        (half_edge_m * coordinates, half_edge_m * coordinates[:, None], np.zeros(1))
    )
    sticker_mask = _make_sticker_mask(cube, coordinates)[..., None]
    tiles = [bare + sticker_mask * (np.array(color) - bare) for color in cube.colors]
    tiles += [bare] * (_COLUMNS * _ROWS - len(tiles))
    rows = [np.concatenate(tiles[start : start + _COLUMNS], axis=1) for start in (0, _COLUMNS)]
    return encode_srgb(np.concatenate(rows))


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
