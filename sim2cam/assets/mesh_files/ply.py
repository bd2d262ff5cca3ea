"""PLY: faces, colours and texture coordinates of its elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sim2cam.assets.mesh_files.companions import CompanionFiles
from sim2cam.assets.mesh_files.ply_data import Element, ListColumn, read_ply_data
from sim2cam.assets.mesh_files.raw_mesh import warn, warn_unused
from sim2cam.assets.mesh_files.submesh import Submesh
from sim2cam.assets.mesh_files.triangulation import triangulate
from sim2cam.errors import InputError

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_INDICES = ("vertex_indices", "vertex_index")
_COLORS = (("red", "green", "blue"), ("diffuse_red", "diffuse_green", "diffuse_blue"), ("r", "g", "b"))  # fmt: skip
_UVS = (("texture_u", "texture_v"), ("u", "v"), ("s", "t"), ("texture_s", "texture_t"))


def read_ply(files: CompanionFiles, *, colored: bool) -> list[Submesh]:
    """Return the mesh of a PLY file.

    Args:
        files: the file and its companions.
        colored: whether the image that it names is read.

    Raises:
        InputError: the file breaks the format.
    """
    found = read_ply_data(files.data, files.path)
    vertex, face = (found.elements.get(name, Element(0)) for name in ("vertex", "face"))
    if not face.count and found.elements.get("tristrips", Element(0)).count:
        raise InputError(files.path, "triangle strips are not read. Export it as faces.")
    if not vertex.count or not face.count:
        return []
    polygons = _read_polygons(face, vertex.count, files)
    vertices = _stack_columns(vertex, [("x", "y", "z")])
    if vertices is None:
        raise InputError(files.path, "its vertices have no x, y and z.")
    indices = polygons.values.astype(np.int64)
    triangles, owner = triangulate(vertices[indices], polygons.counts)
    whole = Submesh(
        vertices,
        indices[triangles],
        _stack_columns(vertex, [("nx", "ny", "nz")]),
        _stack_columns(vertex, _UVS),
        vertex_colors=_read_colors(vertex),
    )
    whole = _split_corners(whole, face, triangles, owner, polygons)
    comments = found.comments if colored else ()
    return [_add_texture(whole, comments, files).drop_unused_vertices()] if len(whole.faces) else []


def _read_polygons(face: Element, count: int, files: CompanionFiles) -> ListColumn:
    """Return the vertices of all polygons; those of fewer than three corners are left out."""
    found = next((face.lists[name] for name in _INDICES if name in face.lists), None)
    if found is None:
        raise InputError(files.path, "its faces have no list 'vertex_indices'.")
    values = found.values.astype(np.int64)
    wrong = np.flatnonzero((values < 0) | (values >= count))
    if len(wrong):
        number = np.searchsorted(np.cumsum(found.counts), wrong[0], side="right") + 1
        problem = (
            f"face {number} names vertex {found.values[wrong[0]]:g}; they are 0 to {count - 1}."
        )
        raise InputError(files.path, problem)
    short = found.counts < 3
    if short.any():
        warn(files.path, f"{short.sum()} of its faces have fewer than three corners. They are left out.")  # fmt: skip
        keeps = np.repeat(~short, found.counts)
        _select_rows(face, ~short)
        return ListColumn(values[keeps], found.counts[~short])
    return ListColumn(values, found.counts)


def _select_rows(face: Element, kept: NDArray[np.bool_]) -> None:
    """Drop rows of an element."""
    face.columns = {name: values[kept] for name, values in face.columns.items()}
    face.lists = {
        name: ListColumn(one.values[np.repeat(kept, one.counts)], one.counts[kept])
        for name, one in face.lists.items()
    }


def _stack_columns(element: Element, names: Sequence[tuple[str, ...]]) -> Floats | None:
    """Return the first of some sets of properties (n, k) that an element has; None without."""
    for group in names:
        if all(name in element.columns for name in group):
            return np.stack([element.columns[name].astype(np.float64) for name in group], axis=1)
    return None


def _read_colors(element: Element) -> NDArray[np.uint8] | None:
    """Return the colours (n, 3) of the rows of an element; None without.

    Whole numbers reach to the most of their kind; others to 1, or to 255 if any is above 1.
    """
    shares = _stack_columns(element, _COLORS)
    if shares is None:
        return None
    names = next(group for group in _COLORS if all(name in element.columns for name in group))
    kind = next(one.kind for one in element.properties if one.name == names[0])
    most = 65535.0 if kind == "u2" else 255.0
    if kind.startswith("f") and not np.nanmax(shares, initial=0.0) > 1:
        most = 1.0
    return np.round(np.nan_to_num(shares / most).clip(0, 1) * 255).astype(np.uint8)


def _split_corners(
    whole: Submesh, face: Element, triangles: Indices, owner: Indices, polygons: ListColumn
) -> Submesh:
    """Return a mesh with the colours and texture coordinates that its faces have of their own."""
    paint = _read_colors(face) if whole.vertex_colors is None else None
    places = face.lists.get("texcoord")
    has_places = places is not None and np.array_equal(places.counts, 2 * polygons.counts)
    if paint is None and not has_places:
        return whole
    corners = whole.faces.ravel()
    found = replace(
        whole,
        vertices=whole.vertices[corners],
        faces=np.arange(len(corners)).reshape(-1, 3),
        normals=None if whole.normals is None else whole.normals[corners],
        uvs=None if whole.uvs is None else whole.uvs[corners],
        vertex_colors=None if whole.vertex_colors is None else whole.vertex_colors[corners],
    )
    if paint is not None:
        found = replace(found, vertex_colors=np.repeat(paint[owner], 3, axis=0))
    if has_places and places is not None:
        uvs = places.values.astype(np.float64).reshape(-1, 2)[triangles.ravel()]
        found = replace(found, uvs=uvs)
    return found


def _add_texture(whole: Submesh, comments: tuple[str, ...], files: CompanionFiles) -> Submesh:
    """Return a mesh with the image that a comment names; without texture coordinates if there is none."""
    names = [one[11:].strip() for one in comments if one.lower().startswith("texturefile")]
    if len(names) > 1:
        warn(files.path, warn_unused(names[1:]))
    if names and whole.uvs is None:
        warn(files.path, f"its image '{names[0]}' is left out: it has no texture coordinates.")
    image = files.read_image(names[0]) if names and whole.uvs is not None else None
    return replace(whole, image=image, uvs=None if image is None else whole.uvs)
