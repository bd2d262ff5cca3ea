"""Meshes from files: read, checked, repaired where that is safe, and brought into our form."""

from __future__ import annotations

import functools
import hashlib
import io
import json
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from sim2cam import images
from sim2cam.errors import InputError, RepairWarning
from sim2cam.render import cache
from sim2cam.render.decomposition import center_of, decompose, decomposer
from sim2cam.render.mesh import Mesh
from sim2cam.scene.asset import MeshFile

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

SUFFIXES = (".obj", ".ply", ".stl", ".glb", ".gltf")
MAX_TEXTURE_PX = 4096
MAX_BYTES = 256 * 2**20
"""Larger files are not opened."""

_CREASE_RAD = np.radians(30)
"""Between faces that meet at more, normals that had to be made do not run on."""

_COLLIDER_DIRECTIONS = 512
_SOLID = 0.9  # of its hull; what fills more of it collides as the hull
_LEAST_AREA = 1e-12  # of the square of the mesh's size
_UV_SLACK = 1e-4  # beyond the picture's edge that is no repetition
_GREY = (204, 204, 204, 255)  # sRGB of objects without a picture in a file with pictures
_X = np.array([1.0, 0.0, 0.0])

_BROKEN = (
    ValueError, KeyError, IndexError, TypeError, AttributeError, AssertionError, EOFError, OSError,
    RuntimeError, OverflowError, ImportError,
)  # fmt: skip
"""What trimesh raises on damaged files; for text in no encoding that it knows, it wants a package."""


@dataclass(frozen=True, eq=False)
class MeshContent:
    """What a file holds.

    Attributes:
        mesh: in metres; uvs within 0 to 1 with a picture, in metres without.
        colors: its picture, or one that holds the colours of its vertices, sRGB uint8 (h, w, 3), row
            0 at v = 0; None when there is neither.
        is_closed: whether it is the skin of a solid.
        parts: corners (n, 3) of the convex solids as which it collides; none when it does as its
            hull.
    """

    mesh: Mesh
    colors: NDArray[np.uint8] | None
    is_closed: bool
    parts: tuple[Floats, ...] = ()

    def volume(self) -> float:
        """Returns the volume of a solid, in its unit cubed."""
        a, b, c = self.mesh.vertices_m[self.mesh.faces].swapaxes(0, 1)
        return float((a * np.cross(b, c)).sum() / 6)

    def scaled(self, unit_m: float) -> MeshContent:
        """Returns it with every length so many times as long."""
        uvs = self.mesh.uvs * unit_m if self.colors is None else self.mesh.uvs
        mesh = replace(self.mesh, vertices_m=self.mesh.vertices_m * unit_m, uvs=uvs)
        return replace(self, mesh=mesh, parts=tuple(part * unit_m for part in self.parts))


@dataclass(frozen=True)
class Sources:
    """What a mesh was read from.

    Attributes:
        hashes: SHA-256 of each file, by its path from the folder of the first, which is the mesh.
        missing: names of files that were not there.
    """

    hashes: Mapping[str, str]
    missing: tuple[str, ...]

    def digest(self) -> str:
        """Returns a SHA-256 over all of them, and over what takes concave solids apart here."""
        facts = [decomposer(), *self.hashes.items()]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class _Raw:
    """A mesh as the file has it.

    Attributes:
        vertices: (n, 3).
        faces: (m, 3).
        normals: (n, 3); None without.
        uvs: (n, 2), v upwards; None without a picture.
        picture: as Pillow opened it.
        paint: sRGB (n, 3) of the vertices; None without.
    """

    vertices: Floats
    faces: Indices
    normals: Floats | None
    uvs: Floats | None
    picture: Any
    paint: NDArray[np.uint8] | None


@functools.lru_cache(maxsize=64)
def read_mesh_file(asset: MeshFile) -> MeshContent:
    """Returns the content of a mesh file; the last ones that were read are remembered.

    Warns with a ``RepairWarning`` of what was repaired: no normals, faces inside out, faces without
    an area, textures that are missing or too large.

    Raises:
        InputError: the file is missing, damaged, has no faces, too many, or numbers that are none.
    """
    content = _unpacked(cache.read(f"{asset.digest}.npz")) if asset.digest else None
    if content is None:
        content, sources = parse_mesh_file(Path(asset.path), asset.max_faces)
        if asset.digest:
            content = taken_apart(content)
        if asset.digest not in ("", sources.digest()):
            raise InputError(asset.path, "is not what it was when it was brought in. Start anew.")
    return content.scaled(asset.unit_m)


def parse_mesh_file(path: Path, max_faces: int) -> tuple[MeshContent, Sources]:
    """Returns the content of a mesh file in its own unit, and what it was read from.

    Raises:
        InputError: as ``read_mesh_file``.
    """
    raw, sources = _read(path, max_faces)
    _check(raw, path)
    raw = _turned_outwards(_without_slivers(raw, path), path)
    if raw.normals is None:
        raw = _smoothed(raw)
    is_closed = bool(_welded(raw).is_watertight)
    if raw.uvs is not None:
        raw, colors = _pictured(raw, raw.uvs, path)
    elif raw.paint is not None:
        raw, colors = _painted(raw, raw.paint)
    else:
        raw, colors = _wrapped(raw), None
    assert raw.normals is not None
    assert raw.uvs is not None
    tangents = _tangents(raw.vertices, raw.faces, raw.normals, raw.uvs)
    parts = np.ones(len(raw.vertices), np.uint32)
    mesh = Mesh(raw.vertices, raw.normals, tangents, raw.uvs, raw.faces, parts)
    return MeshContent(mesh, colors, is_closed), sources


@dataclass(frozen=True, eq=False)
class Hull:
    """A convex solid around a mesh.

    Attributes:
        points: (n, 3) corners, those of the mesh that lie farthest in many directions.
        center: (3,) of its mass.
        volume: 0 of a flat one.
    """

    points: Floats
    center: Floats
    volume: float


@dataclass(frozen=True, eq=False)
class Collider:
    """What a mesh collides as.

    Attributes:
        parts: corners (n, 3) of convex solids, metres.
        center: (3,) of the mass of all of them.
    """

    parts: tuple[Floats, ...]
    center: Floats


@functools.lru_cache(maxsize=64)
def collider_of(asset: MeshFile) -> Collider:
    """Returns what a mesh file collides as: its parts if it was brought in, its hull otherwise."""
    content = read_mesh_file(asset)
    if content.parts:
        return Collider(content.parts, center_of(content.parts))
    hull = hull_of(content.mesh.vertices_m)
    return Collider((hull.points,), hull.center)


def taken_apart(content: MeshContent) -> MeshContent:
    """Returns a content with the parts as which it collides, if it is concave enough to need them."""
    vertices = content.mesh.vertices_m
    hull = hull_of(vertices)
    if hull.volume == 0 or (content.is_closed and content.volume() > _SOLID * hull.volume):
        return content
    places, place = np.unique(vertices, axis=0, return_inverse=True)
    faces = place.ravel()[content.mesh.faces]
    once = np.unique(np.sort(faces, axis=1), axis=0, return_index=True)[1]
    return replace(content, parts=decompose(places, faces[np.sort(once)], hull.points))


def hull_of(vertices: Floats) -> Hull:
    """Returns the hull of the extreme points of vertices (n, 3) in ``_COLLIDER_DIRECTIONS``."""
    from scipy.spatial import QhullError
    from trimesh.convex import convex_hull

    i = np.arange(_COLLIDER_DIRECTIONS)
    z = 1 - (2 * i + 1) / _COLLIDER_DIRECTIONS
    angle = i * np.pi * (3 - np.sqrt(5))  # a Fibonacci spiral from pole to pole
    around = np.sqrt(1 - z * z)
    directions = np.stack([around * np.cos(angle), around * np.sin(angle), z], axis=1)
    points = vertices[np.unique([(vertices @ way).argmax() for way in directions])]
    try:
        solid = convex_hull(points)
        return Hull(points, np.array(solid.center_mass), float(solid.volume))
    except QhullError:  # flat, so there is no solid
        return Hull(points, (points.min(axis=0) + points.max(axis=0)) / 2, 0.0)


def packed(content: MeshContent) -> bytes:
    """Returns a content as a file of numpy's, for the cache."""
    mesh = {name: value for name, value in vars(content.mesh).items() if _is_array(value)}
    colors = {} if content.colors is None else {"colors": content.colors}
    file = io.BytesIO()
    parts = {f"part/{number:03d}": part for number, part in enumerate(content.parts)}
    np.savez(file, allow_pickle=False, is_closed=content.is_closed, **mesh, **colors, **parts)
    return file.getvalue()


def _unpacked(data: bytes | None) -> MeshContent | None:
    """Returns the content of a file of the cache; None when there is none or it is damaged."""
    if data is None:
        return None
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            found = dict(file)
        is_closed, colors = bool(found.pop("is_closed")), found.pop("colors", None)
        parts = tuple(found.pop(name) for name in sorted(found) if name.startswith("part/"))
        return MeshContent(Mesh(**found), colors, is_closed, parts)
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile):
        return None


def _is_array(value: object) -> bool:
    return isinstance(value, np.ndarray)


def _read(path: Path, max_faces: int) -> tuple[_Raw, Sources]:
    import trimesh

    if path.suffix.lower() not in SUFFIXES:
        raise InputError(path, f"no mesh of a kind that can be read ({', '.join(SUFFIXES)}).")
    if not path.is_file():
        raise InputError(path, "no such file. Check the path.")
    if path.stat().st_size > MAX_BYTES:
        raise InputError(path, f"larger than {MAX_BYTES >> 20} MiB. Simplify it.")
    try:
        scene, sources = _opened(path)
        nodes = [scene.graph[node] for node in scene.graph.nodes_geometry]
        placed = [(scene.geometry[name], matrix) for matrix, name in nodes]
        placed = [(solid, m) for solid, m in placed if isinstance(solid, trimesh.Trimesh)]
        _check_count(sum(len(solid.faces) for solid, _ in placed), max_faces, path)
        is_pictured = any(_is_real(_image(solid)) for solid, _ in placed)
        solids = [solid.copy(include_cache=True).apply_transform(m) for solid, m in placed]
        return _joined(solids, is_pictured=is_pictured), sources
    except _BROKEN as error:
        kind = path.suffix[1:].upper()
        problem = f"no {kind} that can be read ({type(error).__name__}: {error})."
        raise InputError(path, problem) from error


def _opened(path: Path) -> tuple[Any, Sources]:
    """Returns a file as a scene of trimesh's, and what it was read from.

    Warns of what it names and its folder does not hold.
    """
    import trimesh
    from trimesh.resolvers import FilePathResolver

    missing: list[str] = []
    data, kind = path.read_bytes(), path.suffix[1:].lower()
    hashes = {path.name: hashlib.sha256(data).hexdigest()}

    class Resolver(FilePathResolver):  # type: ignore[misc]
        """Remembers what was asked for; trimesh says nothing of what was not found."""

        def absolute(self, name: str) -> Path:
            place: Path = super().absolute(name)
            if place.exists() and not (place.is_file() and place.stat().st_size <= MAX_BYTES):
                raise ValueError(f"'{name}' is no file of at most {MAX_BYTES >> 20} MiB")
            self.last = place
            return place

        def get(self, name: str) -> Any:
            try:
                found = super().get(name)
            except (OSError, ValueError, RuntimeError):
                missing.append(name.strip())
                raise
            inside = self.last.relative_to(path.parent.resolve()).as_posix()
            hashes[inside] = hashlib.sha256(found).hexdigest()
            return _as_utf8(found) if inside.lower().endswith(".mtl") else found

    with images.opening_textures():
        file = io.BytesIO(_as_utf8(data) if kind == "obj" else data)
        resolver = Resolver(str(path))
        scene = trimesh.load_scene(file, file_type=kind, resolver=resolver, process=False)
    for name in missing:
        _warn(path, f"'{name}', which it names, is not in its folder. It is left out.")
    return scene, Sources(hashes, tuple(missing))


def _as_utf8(text: bytes) -> bytes:
    """Returns text of any encoding as UTF-8; what of it is neither becomes question marks."""
    return text.decode("utf-8", "replace").encode()


def _check_count(count: int, most: int, path: Path) -> None:
    if not count:
        raise InputError(path, "has no faces.")
    if count > most:
        raise InputError(
            path, f"has {count} faces, more than {most}. Simplify it, or raise max_faces."
        )


def _joined(solids: list[Any], *, is_pictured: bool) -> _Raw:
    """Returns meshes of trimesh's as one, in plain arrays."""
    import trimesh

    # asked for by name, normals that the file does not have would be made
    has_normals = all("vertex_normals" in solid._cache for solid in solids)
    normals = [np.array(solid.vertex_normals) for solid in solids] if has_normals else []
    if is_pictured and len(solids) > 1:  # all of them need places in one picture
        grey = trimesh.visual.material.PBRMaterial(baseColorFactor=_GREY)
        for solid in solids:
            if getattr(solid.visual, "uv", None) is None:
                nowhere = np.zeros((len(solid.vertices), 2))
                solid.visual = trimesh.visual.TextureVisuals(nowhere, grey)
    whole = trimesh.util.concatenate(solids) if len(solids) > 1 else solids[0]
    return _Raw(
        np.array(whole.vertices, np.float64),
        np.array(whole.faces, np.int64),
        np.vstack(normals) if has_normals else None,
        np.array(whole.visual.uv, np.float64) if is_pictured else None,
        _image(whole) if is_pictured else None,
        None if is_pictured else _paint(solids),
    )


def _image(solid: Any) -> Any:
    """Returns the picture of a mesh of trimesh's, None without one."""
    material = getattr(solid.visual, "material", None)
    return getattr(material, "baseColorTexture", getattr(material, "image", None))


def _paint(solids: list[Any]) -> NDArray[np.uint8] | None:
    """Returns the colours (n, 3) of the vertices of all meshes; None where none has any."""
    found = [_paint_of(solid) for solid in solids]
    if all(paint is None for paint in found):
        return None
    grey = np.array(_GREY[:3], np.uint8)
    return np.vstack(
        [
            np.tile(grey, (len(solid.vertices), 1)) if paint is None else paint
            for solid, paint in zip(solids, found, strict=True)
        ]
    )


def _paint_of(solid: Any) -> NDArray[np.uint8] | None:
    """Returns the colours (n, 3) of the vertices of a mesh, or of all of it; None without."""
    if solid.visual.kind in ("vertex", "face"):
        return np.array(solid.visual.vertex_colors[:, :3], np.uint8)
    material = getattr(solid.visual, "material", None)
    flat = getattr(material, "baseColorFactor", None)
    if flat is None and material is not None and "kd" in getattr(material, "kwargs", {}):
        flat = material.diffuse
    return None if flat is None else np.tile(np.array(flat[:3], np.uint8), (len(solid.vertices), 1))


def _is_real(image: Any) -> bool:
    """Returns whether a picture comes from a file; trimesh makes some up, which have no format."""
    return getattr(image, "format", None) is not None


def _check(raw: _Raw, path: Path) -> None:
    """Refuses numbers that are none, vertices that are not there, and meshes without a size."""
    if raw.vertices.ndim != 2 or raw.vertices.shape[1] != 3:
        raise InputError(path, "its vertices have no three coordinates each.")
    if raw.faces.min() < 0 or raw.faces.max() >= len(raw.vertices):
        raise InputError(path, f"a face names a vertex that is none of its {len(raw.vertices)}.")
    wrong = np.flatnonzero(~np.isfinite(raw.vertices).all(axis=1))
    if len(wrong):
        place = ", ".join(f"{c:g}" for c in raw.vertices[wrong[0]])
        raise InputError(path, f"vertex {wrong[0] + 1} lies at ({place}).")
    if raw.uvs is not None and not np.isfinite(raw.uvs).all():
        row = int(np.flatnonzero(~np.isfinite(raw.uvs).all(axis=1))[0])
        raise InputError(path, f"the place of vertex {row + 1} in the texture is not finite.")
    if not np.ptp(raw.vertices, axis=0).any():
        raise InputError(path, "has no size: all its vertices lie at one place.")


def _without_slivers(raw: _Raw, path: Path) -> _Raw:
    """Returns the mesh without the faces that have no area."""
    size = np.ptp(raw.vertices, axis=0).max()
    area = np.linalg.norm(_across(raw), axis=1)
    whole = area > _LEAST_AREA * size**2
    if not whole.any():
        raise InputError(path, f"none of its {len(whole)} faces has an area.")
    if not whole.all():
        _warn(path, f"{(~whole).sum()} of its {len(whole)} faces have no area. They are left out.")
    return replace(raw, faces=raw.faces[whole])


def _turned_outwards(raw: _Raw, path: Path) -> _Raw:
    """Returns the mesh with its faces counter-clockwise seen from outside, as far as that is known.

    Faces of one surface are turned alike; a closed one so that its volume is positive.
    """
    welded = _welded(raw)
    turned = _against_most(welded)
    welded.faces = np.where(turned[:, None], welded.faces[:, ::-1], welded.faces)
    if welded.is_watertight and welded.volume < 0:
        turned = ~turned
    if not turned.any():
        if raw.normals is None and path.suffix.lower() != ".stl":  # which never has any
            _warn(path, "has no normals. They are made from its faces.")
        return raw
    _warn(
        path,
        f"{turned.sum()} of its {len(turned)} faces were inside out. They are turned, and all "
        "normals made anew.",
    )
    faces = np.where(turned[:, None], raw.faces[:, ::-1], raw.faces)
    return replace(raw, faces=faces, normals=None)


def _against_most(welded: Any) -> NDArray[np.bool_]:
    """Returns which faces (m,) of a mesh of trimesh's are turned unlike most of their surface."""
    count = len(welded.faces)
    if welded.is_winding_consistent:
        return np.zeros(count, bool)
    pairs, edges = welded.face_adjacency, welded.face_adjacency_edges
    one, other = (_runs_along(welded.faces[pairs[:, side]], edges) for side in (0, 1))
    unlike = one == other  # along an edge that they share, faces that are turned alike run apart
    # each face twice, as it is and turned; joined is what belongs to one way of turning a surface
    starts = np.concatenate([pairs[:, 0], pairs[:, 0] + count])
    ends = np.concatenate([pairs[:, 1] + count * unlike, pairs[:, 1] + count * ~unlike])
    links = coo_array((np.ones(len(starts)), (starts, ends)), shape=(2 * count, 2 * count))
    way = connected_components(links, directed=False)[1]
    surface = np.unique(np.minimum(way[:count], way[count:]), return_inverse=True)[1]
    turned = way[:count] > way[count:]
    share = np.bincount(surface, turned) / np.bincount(surface)
    return np.asarray(turned ^ (share > 0.5)[surface])


def _runs_along(faces: Indices, edges: Indices) -> NDArray[np.bool_]:
    """Returns whether faces (n, 3) run along edges (n, 2) of theirs from the first end to the second."""
    follows = np.roll(faces, -1, axis=1)
    return np.asarray(((faces == edges[:, :1]) & (follows == edges[:, 1:])).any(axis=1))


def _smoothed(raw: _Raw) -> _Raw:
    """Returns the mesh with normals: the mean of the faces around, up to creases."""
    welded = _welded(raw)
    near = welded.face_adjacency[welded.face_adjacency_angles < _CREASE_RAD]
    count = len(raw.faces)
    links = coo_array((np.ones(len(near)), near.T), shape=(count, count))
    smooth = connected_components(links, directed=False)[1]
    corners = np.stack([welded.faces.ravel(), np.repeat(smooth, 3)], axis=1)
    _, point = np.unique(corners, axis=0, return_inverse=True)
    total = np.zeros((point.max() + 1, 3))
    np.add.at(total, point.ravel(), np.repeat(_across(raw), 3, axis=0))
    split = _split(raw, smooth)
    normals = np.zeros_like(split.vertices)
    normals[split.faces.ravel()] = _unit(total, _X)[point.ravel()]
    return replace(split, normals=normals)


def _wrapped(raw: _Raw) -> _Raw:
    """Returns the mesh with uvs in metres: each face is seen along the axis that it faces most."""
    axis = np.abs(_across(raw)).argmax(axis=1)
    split = _split(raw, axis)
    of_vertex = np.zeros(len(split.vertices), np.int64)
    of_vertex[split.faces.ravel()] = np.repeat(axis, 3)
    rows = np.arange(len(of_vertex))
    ways = [split.vertices[rows, (of_vertex + step) % 3] for step in (1, 2)]
    return replace(split, uvs=np.stack(ways, axis=1))


def _pictured(raw: _Raw, uvs: Floats, path: Path) -> tuple[_Raw, NDArray[np.uint8]]:
    """Returns the mesh with uvs within 0 to 1, and the picture for them, repeated where it has to be."""
    moved = uvs - np.floor(uvs.min(axis=0))
    repeats = np.ceil(moved.max(axis=0) - _UV_SLACK).astype(int).clip(1)
    width, height = raw.picture.size
    if max(width, height) > MAX_TEXTURE_PX:
        _warn(path, f"its texture of {width} x {height} pixels is scaled down to {MAX_TEXTURE_PX}.")
    side = max(1, MAX_TEXTURE_PX // int(repeats.max()))
    tile = images.shrunk(raw.picture, side, path)[::-1]
    return replace(raw, uvs=moved / repeats), np.tile(tile, (repeats[1], repeats[0], 1))


def _painted(raw: _Raw, paint: NDArray[np.uint8]) -> tuple[_Raw, NDArray[np.uint8]]:
    """Returns the mesh with uvs within 0 to 1, and a picture for them of its vertices' colours.

    Each face has four texels, three of them at its corners; between them bilinear interpolation is
    that of the triangle. Faces that are near in space are so in the picture, so that what is seen
    from afar, where texels of neighbours mix, keeps its colours.
    """
    order = np.argsort(_z_order(raw.vertices[raw.faces].mean(axis=1)))
    row, column = _unfolded(np.arange(len(order)))
    side = 1 << int(np.ceil(np.log2(max(row.max(), column.max()) + 1)))
    a, b, c = paint[raw.faces[order]].swapaxes(0, 1).astype(int)
    picture = np.full((2 * side, 2 * side, 3), _GREY[:3], np.uint8)
    for dy, dx, texel in ((0, 0, a), (0, 1, b), (1, 0, c), (1, 1, (b + c - a).clip(0, 255))):
        picture[2 * row + dy, 2 * column + dx] = texel
    corners = np.array([[0.5, 0.5], [1.5, 0.5], [0.5, 1.5]])
    split = _split(raw, np.arange(len(raw.faces)))
    uvs = np.zeros((len(split.vertices), 2))
    uvs[split.faces[order]] = (2 * np.stack([column, row], axis=1)[:, None] + corners) / (2 * side)
    return replace(split, uvs=uvs), picture


def _z_order(points: Floats) -> Indices:
    """Returns numbers (n,) along a curve through space on which neighbours are near."""
    low, size = points.min(axis=0), np.ptp(points, axis=0).max()
    cells = ((points - low) / (size or 1) * 1023).astype(np.int64)
    bits = np.arange(10)
    spread = ((cells[..., None] >> bits) & 1) << (3 * bits)
    return np.asarray(spread.sum(axis=-1) @ np.array([1, 2, 4]))


def _unfolded(numbers: Indices) -> tuple[Indices, Indices]:
    """Returns row and column (n,) of numbers along such a curve through a square."""
    bits = np.arange(16)
    row, column = (
        (((numbers[:, None] >> (2 * bits + step)) & 1) << bits).sum(axis=1) for step in (1, 0)
    )
    return row, column


def _tangents(vertices: Floats, faces: Indices, normals: Floats, uvs: Floats) -> Floats:
    """Returns unit vectors (n, 3) across the normals along which u grows."""
    a, b, c = vertices[faces].swapaxes(0, 1)
    (du, dv), (eu, ev) = ((uvs[faces[:, i]] - uvs[faces[:, 0]]).T for i in (1, 2))
    # solved for the way that u takes; its length is that of the face, its sign that of the picture
    along = ((b - a) * ev[:, None] - (c - a) * dv[:, None]) * np.sign(du * ev - eu * dv)[:, None]
    total = np.zeros_like(vertices)
    np.add.at(total, faces.ravel(), np.repeat(along, 3, axis=0))
    total -= normals * (total * normals).sum(axis=1, keepdims=True)
    any_across = np.cross(normals, np.eye(3)[np.abs(normals).argmin(axis=1)])
    return _unit(total, any_across / np.linalg.norm(any_across, axis=1, keepdims=True))


def _welded(raw: _Raw) -> Any:
    """Returns the mesh as trimesh has it, with one vertex a place."""
    import trimesh

    places, place = np.unique(raw.vertices, axis=0, return_inverse=True)
    return trimesh.Trimesh(places, place.ravel()[raw.faces], process=False)


def _split(raw: _Raw, group: NDArray[Any]) -> _Raw:
    """Returns the mesh with a vertex of its own for each group of faces (m,) that meets there."""
    corners = np.stack([raw.faces.ravel(), np.repeat(group, 3)], axis=1)
    found, corner = np.unique(corners, axis=0, return_inverse=True)
    old = found[:, 0]
    return replace(
        raw,
        vertices=raw.vertices[old],
        faces=corner.reshape(-1, 3).astype(np.int64),
        normals=None if raw.normals is None else raw.normals[old],
        uvs=None if raw.uvs is None else raw.uvs[old],
        paint=None if raw.paint is None else raw.paint[old],
    )


def _across(raw: _Raw) -> Floats:
    """Returns the normals (m, 3) of the faces, twice as long as their areas."""
    a, b, c = raw.vertices[raw.faces].swapaxes(0, 1)
    return np.cross(b - a, c - a)


def _unit(vectors: Floats, otherwise: Floats) -> Floats:
    """Returns vectors (n, 3) with length 1; others for those that have none."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.where(lengths > 0, vectors / np.where(lengths > 0, lengths, 1), otherwise)


def _warn(path: Path, flaw: str) -> None:
    warnings.warn(f"{path}: {flaw}", RepairWarning, stacklevel=2)
