"""Mesh files, opened: which kinds can be read, from what, and what is refused before it is."""

from __future__ import annotations

import hashlib
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.errors import InputError
from sim2cam.render.assets import gltf
from sim2cam.render.assets.collada import upright
from sim2cam.render.assets.decomposition import decomposer
from sim2cam.render.assets.mtl import without_options
from sim2cam.render.assets.raw_mesh import GREY, RawMesh, warn
from sim2cam.render.assets.unwrap import MAX_TEXTURE_PX, folded

MESH_SUFFIXES = (".obj", ".ply", ".stl", ".glb", ".gltf", ".dae")
MODEL_SUFFIXES = (".urdf", ".sdf", ".mjcf", ".xml")
"""Files of links and joints, which name meshes."""
SUFFIXES = (*MESH_SUFFIXES, *MODEL_SUFFIXES)
"""All files of shapes that can be read."""
MAX_BYTES = 256 * 2**20
"""Larger files are not opened."""

_GLASS = b"KHR_materials_transmission"  # of glTF's extensions; trimesh leaves them out
_MOVES = b"KHR_texture_transform"
_BROKEN = (
    ValueError, KeyError, IndexError, TypeError, AttributeError, AssertionError, EOFError, OSError,
    RuntimeError, OverflowError, ImportError,
)  # fmt: skip
"""What trimesh raises on damaged files; for text in no encoding that it knows, it wants a package."""


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


def file_hash(path: Path) -> str:
    """Returns the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_raw(path: Path, max_faces: int) -> tuple[RawMesh, Sources]:
    """Returns all that a mesh file draws as one mesh, and what it was read from.

    Raises:
        InputError: the file is missing, damaged, too large, of another kind, or has no faces or more
            than ``max_faces``.
    """
    solids, sources = read_solids(path, max_faces)
    with refusing(path):
        return joined(solids), sources


def read_solids(path: Path, max_faces: int, *, colored: bool = True) -> tuple[list[Any], Sources]:
    """Returns all meshes of trimesh's that a mesh file draws, and what they were read from.

    Args:
        path: of the file.
        max_faces: with more triangles it is refused.
        colored: whether the files that tell its colours are read.

    Raises:
        InputError: as ``read_raw``.
    """
    import trimesh

    check_file(path)
    with refusing(path):
        scene, sources = _opened(path, colored=colored)
        nodes = [scene.graph[node] for node in scene.graph.nodes_geometry]
        placed = [(scene.geometry[name], matrix) for matrix, name in nodes]
        placed = [(solid, m) for solid, m in placed if isinstance(solid, trimesh.Trimesh)]
        _check_count(sum(len(solid.faces) for solid, _ in placed), max_faces, path)
        return [moved(solid, matrix) for solid, matrix in placed], sources


def moved(solid: Any, matrix: NDArray[np.float64], *, has_normals: bool = True) -> Any:
    """Returns a mesh of trimesh's elsewhere; they have their colours in common.

    Args:
        solid: the mesh.
        matrix: (4, 4) of its way.
        has_normals: whether it keeps its normals, which not every way leaves right.
    """
    import trimesh

    found = solid.copy(include_cache=has_normals, include_visual=False)
    visual = solid.visual
    if visual.kind == "texture":
        found.visual = trimesh.visual.TextureVisuals(visual.uv, visual.material)
    else:
        found.visual = visual.copy()
    return found.apply_transform(matrix)


def check_file(path: Path) -> None:
    """Refuses a file that is not there, of another kind, or too large to be opened.

    Raises:
        InputError: saying which.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(path, f"no mesh of a kind that can be read ({', '.join(SUFFIXES)}).")
    if not path.is_file():
        raise InputError(path, "no such file. Check the path.")
    if path.stat().st_size > MAX_BYTES:
        raise InputError(path, f"larger than {MAX_BYTES >> 20} MiB. Simplify it.")


@contextmanager
def refusing(path: Path) -> Iterator[None]:
    """Turns what trimesh raises on a damaged file into an InputError that names it."""
    try:
        yield
    except _BROKEN as error:
        kind = path.suffix[1:].upper()
        problem = f"no {kind} that can be read ({type(error).__name__}: {error})."
        raise InputError(path, problem) from error


def _opened(path: Path, *, colored: bool) -> tuple[Any, Sources]:
    """Returns a file as a scene of trimesh's, and what it was read from.

    Warns of what it names and its folder does not hold.
    """
    import trimesh
    from trimesh.resolvers import FilePathResolver

    is_gltf = path.suffix.lower() in gltf.SUFFIXES
    turn = _turn(path)
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
            if not colored and name.lower().endswith(".mtl"):
                raise FileNotFoundError(name)
            if is_gltf and not _is_file(path.parent / name):
                name = unquote(name)
            try:
                found = super().get(name)
            except (OSError, ValueError, RuntimeError) as error:
                missing.append(name.strip())
                raise InputError(path, f"{_absent(name)} Put it there.") from error
            inside = self.last.relative_to(path.parent.resolve()).as_posix()
            hashes[inside] = hashlib.sha256(found).hexdigest()
            return _readable(found, inside, path)

    with images.opening_textures():
        file = io.BytesIO(_readable(data, path.name, path))
        resolver = Resolver(str(path))
        scene = trimesh.load_scene(file, file_type=kind, resolver=resolver, process=False)
    if turn is not None:
        scene.apply_transform(turn)
    for name in dict.fromkeys(missing):
        warn(path, f"{_absent(name)} It is left out.")
    if colored:
        _show(list(scene.geometry.values()), data, path)
    return scene, Sources(hashes, tuple(missing))


def _show(solids: list[Any], data: bytes, path: Path) -> None:
    """Gives meshes of trimesh's the sRGB that they are drawn in; warns of what is not drawn."""
    if _GLASS in data or any(map(_is_clear, solids)):
        warn(path, "has materials that let light through. They are drawn opaque.")
    if _MOVES in data:
        warn(path, f"its pictures are drawn without '{_MOVES.decode()}', which is not known.")
    if path.suffix.lower() in gltf.SUFFIXES:
        gltf.show_in_srgb(solids, path)


def _turn(path: Path) -> NDArray[np.float64] | None:
    """Returns the way (4, 4) of a file's numbers to those with z up; None where nobody knows."""
    suffix = path.suffix.lower()
    if suffix == ".dae":
        return upright(path)
    return gltf.UPRIGHT if suffix in gltf.SUFFIXES else None


def _absent(name: str) -> str:
    return f"'{name}', which it names, is not in its folder."


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # no name that a file can have
        return False


def _is_clear(solid: Any) -> bool:
    """Returns whether the material of a shape of trimesh's lets light through, if only in places."""
    material = getattr(solid.visual, "material", None)
    told = getattr(material, "kwargs", {})  # all words of an MTL file
    opaque, clear = _number(told.get("d", "1")), _number(told.get("tr", "0"))
    is_mixed = getattr(material, "alphaMode", None) in ("BLEND", "MASK")
    return is_mixed or opaque < 1 or clear > 0


def _number(words: Sequence[str]) -> float:
    """Returns the last word as a number; one that is none is neither below nor above any other."""
    try:
        return float(words[-1])
    except ValueError:
        return math.nan


def _readable(data: bytes, name: str, path: Path) -> bytes:
    """Returns what a file holds, in a form that trimesh reads: as UTF-8, with plain names of pictures.

    What is text in another encoding becomes question marks.
    """
    suffix = Path(name).suffix.lower()
    if suffix not in (".obj", ".mtl"):
        return data
    text = data.decode("utf-8", "replace")
    return (without_options(text, path) if suffix == ".mtl" else text).encode()


def _check_count(count: int, most: int, path: Path) -> None:
    if not count:
        raise InputError(path, "has no faces.")
    if count > most:
        raise InputError(
            path, f"has {count} faces, more than {most}. Simplify it, or raise max_faces."
        )


def joined(solids: list[Any], parts: Sequence[int] | None = None) -> RawMesh:
    """Returns meshes of trimesh's as one, in plain arrays.

    Args:
        solids: the meshes.
        parts: number of the part that each of them is; all are part 1 without.
    """
    import trimesh

    is_pictured = any(_is_real(_image(solid)) for solid in solids)
    # asked for by name, normals that the file does not have would be made
    has_normals = all("vertex_normals" in solid._cache for solid in solids)
    normals = [np.array(solid.vertex_normals) for solid in solids] if has_normals else []
    if is_pictured and len(solids) > 1:
        _lay_out(solids)
    whole = trimesh.util.concatenate(solids) if len(solids) > 1 else solids[0]
    return RawMesh(
        np.array(whole.vertices, np.float64),
        np.array(whole.faces, np.int64),
        np.vstack(normals) if has_normals else None,
        np.array(whole.visual.uv, np.float64) if is_pictured else None,
        _image(whole) if is_pictured else None,
        None if is_pictured else _paint(solids),
        np.repeat(
            np.array(parts or [1] * len(solids), np.uint32),
            [len(solid.vertices) for solid in solids],
        ),
    )


def _lay_out(solids: list[Any]) -> None:
    """Gives all meshes places in pictures, of which trimesh makes one that holds each of them once.

    Pictures that repeat are laid out as often, unless there is only one.
    """
    import trimesh

    known: dict[str, Any] = {}
    materials = [_simple(solid, known) for solid in solids]
    uvs = [getattr(solid.visual, "uv", None) for solid in solids]
    places = [
        np.zeros((len(solid.vertices), 2)) if found is None else found
        for solid, found in zip(solids, uvs, strict=True)
    ]
    share_px = MAX_TEXTURE_PX // math.ceil(math.sqrt(len(known)))
    for material in known.values() if len(known) > 1 else ():
        mine = [i for i, one in enumerate(materials) if one is material]
        folds = [folded(places[i]) for i in mine]
        repeats = np.max([times for _, times in folds], axis=0)
        for i, (within, times) in zip(mine, folds, strict=True):
            places[i] = within * times / repeats
        if material.image is not None and repeats.max() > 1:
            material.image = _repeated(material.image, repeats, share_px)
    for solid, material, found in zip(solids, materials, places, strict=True):
        solid.visual = trimesh.visual.TextureVisuals(found, material)


def _simple(solid: Any, known: dict[str, Any]) -> Any:
    """Returns the colours of a mesh of trimesh's as a plain material, the same one for the same colours.

    Args:
        solid: the mesh.
        known: materials by what is in them; new ones are added.
    """
    from trimesh.visual.material import SimpleMaterial

    image, paint = _image(solid), _paint_of(solid)
    if not _is_real(image):
        color = GREY if paint is None else (*paint[0].tolist(), 255)
        return known.setdefault(str(color), SimpleMaterial(diffuse=color))
    image = image.convert("RGB")
    key = hashlib.sha256(image.tobytes()).hexdigest()
    return known.setdefault(key, SimpleMaterial(image=image))


def _repeated(image: Any, repeats: NDArray[np.int64], most_px: int) -> Any:
    """Returns a picture that stands so often (2,) across and up, of at most so many pixels."""
    from PIL import Image

    side = max(1, most_px // int(repeats.max()))
    image.thumbnail((side, side))
    return Image.fromarray(np.tile(image, (repeats[1], repeats[0], 1)))


def tinted(solid: Any, color: tuple[int, int, int]) -> Any:
    """Returns a mesh of trimesh's in a colour (sRGB), where its file gives it none."""
    import trimesh

    if not _is_real(_image(solid)) and _paint_of(solid) is None:
        share = [channel / 255 for channel in color]
        flat = trimesh.visual.material.SimpleMaterial(diffuse=(*color, 255), kd=share)
        solid.visual = trimesh.visual.TextureVisuals(material=flat)
    return solid


def _image(solid: Any) -> Any:
    """Returns the picture of a mesh of trimesh's, None without one."""
    material = getattr(solid.visual, "material", None)
    return getattr(material, "baseColorTexture", getattr(material, "image", None))


def _paint(solids: list[Any]) -> NDArray[np.uint8] | None:
    """Returns the colours (n, 3) of the vertices of all meshes; None where none has any."""
    found = [_paint_of(solid) for solid in solids]
    if all(paint is None for paint in found):
        return None
    grey = np.array(GREY[:3], np.uint8)
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
