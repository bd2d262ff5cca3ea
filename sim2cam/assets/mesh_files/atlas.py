"""Meshes of several materials as one mesh with one image."""

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

_PADDING_PX = 2  # around each tile, so that neighbours do not show where texels mix
_FLAT_PX = 4  # sides of a tile of one colour


def join_solids(
    solids: Sequence[Submesh], path: Path, parts: Sequence[int] | None = None
) -> RawMesh:
    """Return meshes as one, with one image or colours of vertices.

    Args:
        solids: the meshes.
        path: of the file, for errors.
        parts: number of the part that each of them is; all are part 1 without.

    Raises:
        InputError: an image is damaged.
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
    """Return the colours (n, 3) of the vertices of all meshes; None where none has any."""
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
    """An image within the atlas.

    Attributes:
        pixels: (h, w, 3).
        solids: numbers of the meshes that have it.
        repeats: how many times (2,) it stands there across and up.
        corner: row and column where it begins.
    """

    pixels: Pixels
    solids: list[int]
    repeats: NDArray[np.int64]
    corner: tuple[int, int] = (0, 0)


def _build_atlas(solids: Sequence[Submesh], path: Path) -> tuple[list[Submesh], Any]:
    """Return meshes with places in one image, and that image, as Pillow has it."""
    from PIL import Image

    found = [_paint_image(solid) for solid in solids]
    if len({id(solid.image) for solid in found}) == 1:
        return found, found[0].image
    tiles = _collect_tiles(found, path)
    if len(tiles) == 1:
        return found, Image.fromarray(tiles[0].pixels)
    for tile in tiles:
        folds = [wrap_uvs(_get_uvs(found[number]), path) for number in tile.solids]
        tile.repeats = np.max([times for _, times in folds], axis=0)
        for number, (within, times) in zip(tile.solids, folds, strict=True):
            found[number] = replace(found[number], uvs=within * times / tile.repeats)
    share_px = MAX_TEXTURE_PX // math.ceil(math.sqrt(len(tiles)))
    for tile in tiles:
        tile.pixels = _repeat_tile(tile, share_px, path)
    whole = _pack_tiles(tiles)
    for tile in tiles:
        for number in tile.solids:
            found[number] = replace(
                found[number], uvs=_move_uvs(_get_uvs(found[number]), tile, whole)
            )
    return found, Image.fromarray(whole)


def _paint_image(solid: Submesh) -> Submesh:
    """Return a mesh with an image of its colours, if it has none."""
    from PIL import Image

    if solid.image is not None:
        return solid
    paint = _get_colors(solid)
    if (paint == paint[0]).all():
        flat = np.broadcast_to(paint[0], (_FLAT_PX, _FLAT_PX, 3)).copy()
        return replace(
            solid, image=Image.fromarray(flat), uvs=np.full((len(solid.vertices), 2), 0.5)
        )
    raw, colors = apply_vertex_colors(join_solids([replace(solid, image=None)], Path()), paint)
    return replace(
        solid, vertices=raw.vertices, faces=raw.faces, normals=raw.normals, uvs=raw.uvs,
        vertex_colors=None, image=Image.fromarray(colors[::-1].copy()),
    )  # fmt: skip


def _collect_tiles(solids: Sequence[Submesh], path: Path) -> list[_Tile]:
    """Return the different images of meshes."""
    pictures = {id(solid.image): solid.image for solid in solids}
    pixels_all = sum(math.prod(image.size) for image in pictures.values())
    share = min(1.0, 2 * MAX_TEXTURE_PX / math.sqrt(pixels_all))  # twice what is kept of the whole
    known: dict[str, _Tile] = {}
    keys: dict[int, str] = {}
    for number, solid in enumerate(solids):
        if id(solid.image) not in keys:
            most_px = min(MAX_TEXTURE_PX, math.ceil(share * max(solid.image.size)))
            pixels = images.shrink_image(solid.image, most_px, path)
            key = hashlib.sha256(pixels.tobytes() + str(pixels.shape).encode()).hexdigest()
            keys[id(solid.image)] = key
            known.setdefault(key, _Tile(pixels, [], np.ones(2, np.int64)))
        known[keys[id(solid.image)]].solids.append(number)
    return [*known.values()]


def _repeat_tile(tile: _Tile, share_px: int, path: Path) -> Pixels:
    """Return the pixels of a tile, as often as it repeats, of at most so many pixels then."""
    from PIL import Image

    most = int(tile.repeats.max())
    if most == 1:
        return tile.pixels
    side = max(1, share_px // most)
    pixels = images.shrink_image(Image.fromarray(tile.pixels), side, path)
    return np.tile(pixels, (tile.repeats[1], tile.repeats[0], 1))


def _pack_tiles(tiles: Sequence[_Tile]) -> Pixels:
    """Return one image of all tiles, which it gives their corners: the highest first, row by row."""
    order = sorted(tiles, key=lambda tile: tile.pixels.shape[:2], reverse=True)
    sizes = [np.add(tile.pixels.shape[:2], 2 * _PADDING_PX) for tile in order]
    area = sum(int(height) * int(width) for height, width in sizes)
    most = max(math.isqrt(area - 1) + 1, *(int(width) for _, width in sizes))
    row, column, high = 0, 0, int(sizes[0][0])
    width = 0
    for tile, size in zip(order, sizes, strict=True):
        if column + size[1] > most:
            row, column, high = row + high, 0, int(size[0])
        tile.corner = (row + _PADDING_PX, column + _PADDING_PX)
        column += int(size[1])
        width = max(width, column)
    whole = np.zeros((row + high, width, 3), np.uint8)
    for tile in order:
        (top, left), (height, across) = tile.corner, tile.pixels.shape[:2]
        rows = slice(top - _PADDING_PX, top + height + _PADDING_PX)
        columns = slice(left - _PADDING_PX, left + across + _PADDING_PX)
        pads = ((_PADDING_PX, _PADDING_PX), (_PADDING_PX, _PADDING_PX), (0, 0))
        whole[rows, columns] = np.pad(tile.pixels, pads, "edge")
    return whole


def _move_uvs(uvs: Floats, tile: _Tile, whole: Pixels) -> Floats:
    """Return uvs (n, 2) of a tile as those of the whole image."""
    height, width = whole.shape[:2]
    (top, left), (high, across) = tile.corner, tile.pixels.shape[:2]
    down = top + (1 - uvs[:, 1]) * high
    return np.stack([(left + uvs[:, 0] * across) / width, 1 - down / height], axis=1)


def _get_uvs(solid: Submesh) -> Floats:
    assert solid.uvs is not None
    return solid.uvs
