"""Merging of submeshes with several materials into one mesh with a texture atlas."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.assets.mesh_files.raw_mesh import GREY, RawMesh
from sim2cam.assets.mesh_files.submesh import Submesh
from sim2cam.assets.unwrap import MAX_TEXTURE_PX, apply_vertex_colors, wrap_uvs

Floats = NDArray[np.float64]
Pixels = NDArray[np.uint8]

_PADDING_PX = 2  # around each tile, against bleeding under interpolation
_FLAT_PX = 4  # side of a single-colour tile


def join_solids(
    solids: Sequence[Submesh], path: Path, parts: Sequence[int] | None = None
) -> RawMesh:
    """Merge submeshes into one mesh, with one texture or vertex colours.

    Raises:
        InputError: An image is damaged.
    """
    numbers = [*(parts or [1] * len(solids))]
    image: Any = None
    if any(solid.image is not None for solid in solids):
        solids, image = _build_atlas(solids, path)
    first = np.cumsum([0, *(len(solid.vertices) for solid in solids)])
    normals = [solid.normals for solid in solids if solid.normals is not None]
    uvs = [solid.uvs for solid in solids if solid.uvs is not None]
    return RawMesh(
        np.vstack([solid.vertices for solid in solids]),
        np.vstack([solid.faces + at for solid, at in zip(solids, first, strict=False)]),
        np.vstack(normals) if len(normals) == len(solids) else None,
        np.vstack(uvs) if image is not None else None,
        image,
        None if image is not None else _collect_colors(solids),
        np.repeat(np.array(numbers, np.uint32), [len(solid.vertices) for solid in solids]),
    )


def _collect_colors(solids: Sequence[Submesh]) -> Pixels | None:
    """Return the vertex colours (n, 3) of all submeshes; None if no submesh has colours."""
    if all(solid.vertex_colors is None and solid.color is None for solid in solids):
        return None
    return np.vstack([_get_colors(solid) for solid in solids])


def _get_colors(solid: Submesh) -> Pixels:
    if solid.vertex_colors is not None:
        return solid.vertex_colors
    color = np.array(solid.color or GREY[:3], np.uint8)
    return np.tile(color, (len(solid.vertices), 1))


@dataclass(eq=False)
class _Tile:
    """Image in the atlas.

    Attributes:
        pixels: Image (h, w, 3).
        solids: Indices of the submeshes with this image.
        repeats: Repetitions (2,) along u and v.
        corner: Row and column of the top left corner.
    """

    pixels: Pixels
    solids: list[int]
    repeats: NDArray[np.int64]
    corner: tuple[int, int] = (0, 0)


def _build_atlas(solids: Sequence[Submesh], path: Path) -> tuple[list[Submesh], Any]:
    """Return submeshes with uvs in a common atlas, and the atlas as a Pillow image."""
    from PIL import Image

    textured = [_paint_image(solid) for solid in solids]
    if len({id(solid.image) for solid in textured}) == 1:
        return textured, textured[0].image
    tiles = _collect_tiles(textured, path)
    if len(tiles) == 1:
        return textured, Image.fromarray(tiles[0].pixels)
    for tile in tiles:
        wrapped = [wrap_uvs(_get_uvs(textured[number]), path) for number in tile.solids]
        tile.repeats = np.max([repeats for _, repeats in wrapped], axis=0)
        for number, (uvs, repeats) in zip(tile.solids, wrapped, strict=True):
            textured[number] = replace(textured[number], uvs=uvs * repeats / tile.repeats)
    share_px = MAX_TEXTURE_PX // math.ceil(math.sqrt(len(tiles)))
    for tile in tiles:
        tile.pixels = _repeat_tile(tile, share_px, path)
    atlas = _pack_tiles(tiles)
    for tile in tiles:
        for number in tile.solids:
            textured[number] = replace(
                textured[number], uvs=_move_uvs(_get_uvs(textured[number]), tile, atlas)
            )
    return textured, Image.fromarray(atlas)


def _paint_image(solid: Submesh) -> Submesh:
    """Add an image of the colours to a submesh without an image."""
    from PIL import Image

    if solid.image is not None:
        return solid
    colors = _get_colors(solid)
    if (colors == colors[0]).all():
        flat = np.broadcast_to(colors[0], (_FLAT_PX, _FLAT_PX, 3)).copy()
        return replace(
            solid, image=Image.fromarray(flat), uvs=np.full((len(solid.vertices), 2), 0.5)
        )
    raw, texture = apply_vertex_colors(join_solids([replace(solid, image=None)], Path()), colors)
    return replace(
        solid, vertices=raw.vertices, faces=raw.faces, normals=raw.normals, uvs=raw.uvs,
        vertex_colors=None, image=Image.fromarray(texture[::-1].copy()),
    )  # fmt: skip


def _collect_tiles(solids: Sequence[Submesh], path: Path) -> list[_Tile]:
    """Return the distinct images of submeshes as tiles."""
    distinct_images = {id(solid.image): solid.image for solid in solids}
    pixels_all = sum(math.prod(image.size) for image in distinct_images.values())
    share = min(1.0, 2 * MAX_TEXTURE_PX / math.sqrt(pixels_all))  # twice the atlas's resolution
    tiles: dict[str, _Tile] = {}
    key_by_image: dict[int, str] = {}
    for number, solid in enumerate(solids):
        if id(solid.image) not in key_by_image:
            most_px = min(MAX_TEXTURE_PX, math.ceil(share * max(solid.image.size)))
            pixels = images.shrink_image(solid.image, most_px, path)
            key = hashlib.sha256(pixels.tobytes() + str(pixels.shape).encode()).hexdigest()
            key_by_image[id(solid.image)] = key
            tiles.setdefault(key, _Tile(pixels, [], np.ones(2, np.int64)))
        tiles[key_by_image[id(solid.image)]].solids.append(number)
    return [*tiles.values()]


def _repeat_tile(tile: _Tile, share_px: int, path: Path) -> Pixels:
    """Return the repeated pixels of a tile, at most ``share_px`` wide and high."""
    from PIL import Image

    max_repeats = int(tile.repeats.max())
    if max_repeats == 1:
        return tile.pixels
    side_px = max(1, share_px // max_repeats)
    pixels = images.shrink_image(Image.fromarray(tile.pixels), side_px, path)
    return np.tile(pixels, (tile.repeats[1], tile.repeats[0], 1))


def _pack_tiles(tiles: Sequence[_Tile]) -> Pixels:
    """Pack tiles into one image by shelves, tallest first; set their corners."""
    order = sorted(tiles, key=lambda tile: tile.pixels.shape[:2], reverse=True)
    sizes = [np.add(tile.pixels.shape[:2], 2 * _PADDING_PX) for tile in order]
    area = sum(int(height) * int(width) for height, width in sizes)
    max_width = max(math.isqrt(area - 1) + 1, *(int(width) for _, width in sizes))
    row, column, high = 0, 0, int(sizes[0][0])
    width = 0
    for tile, size in zip(order, sizes, strict=True):
        if column + size[1] > max_width:
            row, column, high = row + high, 0, int(size[0])
        tile.corner = (row + _PADDING_PX, column + _PADDING_PX)
        column += int(size[1])
        width = max(width, column)
    atlas = np.zeros((row + high, width, 3), np.uint8)
    for tile in order:
        (top, left), (height, tile_width) = tile.corner, tile.pixels.shape[:2]
        rows = slice(top - _PADDING_PX, top + height + _PADDING_PX)
        columns = slice(left - _PADDING_PX, left + tile_width + _PADDING_PX)
        pads = ((_PADDING_PX, _PADDING_PX), (_PADDING_PX, _PADDING_PX), (0, 0))
        atlas[rows, columns] = np.pad(tile.pixels, pads, "edge")
    return atlas


def _move_uvs(uvs: Floats, tile: _Tile, atlas: Pixels) -> Floats:
    """Convert uvs (n, 2) of a tile to uvs of the atlas."""
    height, width = atlas.shape[:2]
    (top, left), (tile_height, tile_width) = tile.corner, tile.pixels.shape[:2]
    row = top + (1 - uvs[:, 1]) * tile_height
    return np.stack([(left + uvs[:, 0] * tile_width) / width, 1 - row / height], axis=1)


def _get_uvs(solid: Submesh) -> Floats:
    assert solid.uvs is not None
    return solid.uvs
