"""Reader of PLY meshes: faces, colours and texture coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sim2cam.assets.mesh_files.companions import CompanionFiles
from sim2cam.assets.mesh_files.ply_data import Element, ListColumn, read_ply_data
from sim2cam.assets.mesh_files.raw_mesh import format_unused_images, warn
from sim2cam.assets.mesh_files.submesh import Submesh
from sim2cam.assets.mesh_files.triangulation import triangulate
from sim2cam.errors import InputError

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_INDICES = ("vertex_indices", "vertex_index")
_COLORS = (("red", "green", "blue"), ("diffuse_red", "diffuse_green", "diffuse_blue"), ("r", "g", "b"))  # fmt: skip
_UVS = (("texture_u", "texture_v"), ("u", "v"), ("s", "t"), ("texture_s", "texture_t"))


def read_ply(files: CompanionFiles, *, colored: bool) -> list[Submesh]:
    """Read the mesh of a PLY file.

    Raises:
        InputError: The file is invalid.
    """
    ply = read_ply_data(files.data, files.path)
    vertex, face = (ply.elements.get(name, Element(0)) for name in ("vertex", "face"))
    if not face.count and ply.elements.get("tristrips", Element(0)).count:
        raise InputError(files.path, "triangle strips are not supported. Export faces.")
    if not vertex.count or not face.count:
        return []
    polygons = _read_polygons(face, vertex.count, files)
    vertices = _stack_columns(vertex, [("x", "y", "z")])
    if vertices is None:
        raise InputError(files.path, "the vertices have no x, y and z.")
    indices = polygons.values.astype(np.int64)
    triangles, face_index = triangulate(vertices[indices], polygons.counts)
    mesh = Submesh(
        vertices,
        indices[triangles],
        _stack_columns(vertex, [("nx", "ny", "nz")]),
        _stack_columns(vertex, _UVS),
        vertex_colors=_read_colors(vertex),
    )
    mesh = _split_corners(mesh, face, triangles, face_index, polygons)
    comments = ply.comments if colored else ()
    return [_add_texture(mesh, comments, files).drop_unused_vertices()] if len(mesh.faces) else []


def _read_polygons(face: Element, count: int, files: CompanionFiles) -> ListColumn:
    """Return the vertex indices of all polygons; drop those with fewer than three corners."""
    column = next((face.lists[name] for name in _INDICES if name in face.lists), None)
    if column is None:
        raise InputError(files.path, "the faces have no list 'vertex_indices'.")
    values = column.values.astype(np.int64)
    invalid = np.flatnonzero((values < 0) | (values >= count))
    if len(invalid):
        number = np.searchsorted(np.cumsum(column.counts), invalid[0], side="right") + 1
        problem = f"face {number} refers to vertex {column.values[invalid[0]]:g}; allowed are 0 to {count - 1}."
        raise InputError(files.path, problem)
    is_short = column.counts < 3
    if is_short.any():
        warn(files.path, f"{is_short.sum()} faces with fewer than three corners are ignored.")  # fmt: skip
        is_kept = np.repeat(~is_short, column.counts)
        _select_rows(face, ~is_short)
        return ListColumn(values[is_kept], column.counts[~is_short])
    return ListColumn(values, column.counts)


def _select_rows(face: Element, kept: NDArray[np.bool_]) -> None:
    """Keep the selected rows of an element, in place."""
    face.columns = {name: values[kept] for name, values in face.columns.items()}
    face.lists = {
        name: ListColumn(column.values[np.repeat(kept, column.counts)], column.counts[kept])
        for name, column in face.lists.items()
    }


def _stack_columns(element: Element, names: Sequence[tuple[str, ...]]) -> Floats | None:
    """Return the first complete set of properties as columns (n, k); None without."""
    for group in names:
        if all(name in element.columns for name in group):
            return np.stack([element.columns[name].astype(np.float64) for name in group], axis=1)
    return None


def _read_colors(element: Element) -> NDArray[np.uint8] | None:
    """Return the colours (n, 3) of an element; None without.

    Integers are scaled by their type's maximum; floats by 1, or by 255 if any is above 1.
    """
    channels = _stack_columns(element, _COLORS)
    if channels is None:
        return None
    names = next(group for group in _COLORS if all(name in element.columns for name in group))
    kind = next(p.kind for p in element.properties if p.name == names[0])
    max_value = 65535.0 if kind == "u2" else 255.0
    if kind.startswith("f") and not np.nanmax(channels, initial=0.0) > 1:
        max_value = 1.0
    return np.round(np.nan_to_num(channels / max_value).clip(0, 1) * 255).astype(np.uint8)


def _split_corners(
    mesh: Submesh, face: Element, triangles: Indices, face_index: Indices, polygons: ListColumn
) -> Submesh:
    """Split vertices at corners if faces have their own colours or texture coordinates."""
    face_colors = _read_colors(face) if mesh.vertex_colors is None else None
    uv_lists = face.lists.get("texcoord")
    has_uvs = uv_lists is not None and np.array_equal(uv_lists.counts, 2 * polygons.counts)
    if face_colors is None and not has_uvs:
        return mesh
    corners = mesh.faces.ravel()
    split = mesh.select_vertices(corners, np.arange(len(corners)).reshape(-1, 3))
    if face_colors is not None:
        split = replace(split, vertex_colors=np.repeat(face_colors[face_index], 3, axis=0))
    if has_uvs and uv_lists is not None:
        uvs = uv_lists.values.astype(np.float64).reshape(-1, 2)[triangles.ravel()]
        split = replace(split, uvs=uvs)
    return split


def _add_texture(mesh: Submesh, comments: tuple[str, ...], files: CompanionFiles) -> Submesh:
    """Add the image of a TextureFile comment; drop the texture coordinates if there is none."""
    names = [c[11:].strip() for c in comments if c.lower().startswith("texturefile")]
    if len(names) > 1:
        warn(files.path, format_unused_images(names[1:]))
    if names and mesh.uvs is None:
        warn(files.path, f"image '{names[0]}' is ignored: the mesh has no texture coordinates.")
    image = files.read_image(names[0]) if names and mesh.uvs is not None else None
    return replace(mesh, image=image, uvs=None if image is None else mesh.uvs)
