"""COLLADA, as trimesh and pycollada read it."""

from __future__ import annotations

import importlib.util
import io
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.assets.mesh_files.companions import CompanionFiles
from sim2cam.assets.mesh_files.raw_mesh import warn
from sim2cam.assets.mesh_files.submesh import Submesh
from sim2cam.assets.model_files.xml_file import get_local_name, parse_number, read_xml
from sim2cam.errors import InputError, suggest_name

_MAX_BYTES = 64 * 2**20
_MIN_UNIT_M = 1e-6
_UP_ROTATIONS = {
    "X_UP": ((0, -1, 0), (1, 0, 0), (0, 0, 1)),
    "Y_UP": ((1, 0, 0), (0, 0, -1), (0, 1, 0)),
    "Z_UP": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
}


def read_collada(files: CompanionFiles, *, colored: bool) -> list[Submesh]:
    """Return all meshes of a COLLADA file's scene.

    Args:
        files: the file and its companions.
        colored: whether its colours are read.

    Raises:
        InputError: it cannot be read, or pycollada is not there.
    """
    import trimesh

    turn = _read_up_rotation(files.path)

    class Beside:
        """Hand out the files that may be read."""

        def get(self, name: str) -> bytes:
            found_name = (
                name if files.location.find(name) else unquote(name.removeprefix("file://"))
            )
            if not colored or files.read_image(found_name) is None:  # trimesh does not report it
                raise FileNotFoundError(name)
            return files.read_optional(found_name) or b""

    with images.allow_large_textures():
        scene = trimesh.load_scene(
            io.BytesIO(files.data), file_type="dae", resolver=Beside(), process=False
        )
    nodes = [scene.graph[node] for node in scene.graph.nodes_geometry]
    placed = [(scene.geometry[name], matrix) for matrix, name in nodes]
    found = [
        (_convert_mesh(mesh, colored=colored), matrix)
        for mesh, matrix in placed
        if isinstance(mesh, trimesh.Trimesh) and len(mesh.faces)
    ]
    if colored and any(map(_is_transparent, scene.geometry.values())):
        warn(files.path, "has materials that let light through. They are drawn opaque.")
    return [solid.transform(turn @ matrix) for solid, matrix in found]


def _convert_mesh(mesh: Any, *, colored: bool) -> Submesh:
    """Return a mesh of trimesh's as one of ours."""
    # reading the attribute would compute normals that the file lacks
    has_normals = "vertex_normals" in mesh._cache
    visual, paint, color = mesh.visual, None, None
    material = getattr(visual, "material", None)
    image = getattr(material, "baseColorTexture", getattr(material, "image", None))
    uvs = getattr(visual, "uv", None)
    if image is None or image.format is None or uvs is None:  # trimesh makes some up
        image = uvs = None
    if visual.kind in ("vertex", "face"):
        paint = np.array(visual.vertex_colors[:, :3], np.uint8)
    elif (factor := getattr(material, "baseColorFactor", None)) is not None:
        color = (int(factor[0]), int(factor[1]), int(factor[2]))
    return Submesh(
        np.array(mesh.vertices, np.float64),
        np.array(mesh.faces, np.int64),
        np.array(mesh.vertex_normals, np.float64) if has_normals else None,
        np.array(uvs, np.float64) if colored and uvs is not None else None,
        image if colored else None,
        paint if colored else None,
        color if colored else None,
    ).drop_unused_vertices()


def _is_transparent(mesh: Any) -> bool:
    material = getattr(getattr(mesh, "visual", None), "material", None)
    return getattr(material, "alphaMode", None) in ("BLEND", "MASK")


def _read_up_rotation(path: Path) -> NDArray[np.float64]:
    """Return the way (4, 4) of a COLLADA file's numbers to metres with z up.

    The file is read with all caution here: pycollada's parser follows whatever XML says.

    Raises:
        InputError: it cannot be read, or pycollada is not there.
    """
    root = read_xml(path, _MAX_BYTES)
    if get_local_name(root) != "COLLADA":
        problem = f"no COLLADA: it begins with <{get_local_name(root)[:40]}>, not with <COLLADA>."
        raise InputError(path, problem)
    if importlib.util.find_spec("collada") is None:
        raise InputError(path, 'needs pycollada. Run pip install "sim2cam[assets]".')
    facts = {
        get_local_name(fact): fact for one in root if get_local_name(one) == "asset" for fact in one
    }
    found = np.eye(4)
    up = (facts["up_axis"].text or "").strip() if "up_axis" in facts else "Y_UP"
    if up not in _UP_ROTATIONS:
        raise InputError(path, f"up_axis is '{up[:20]}'. {suggest_name(up, _UP_ROTATIONS)}.")
    found[:3, :3] = _UP_ROTATIONS[up]
    if "unit" in facts:
        metres = parse_number(facts["unit"].get("meter", "1"), "meter of its unit", path)
        if not _MIN_UNIT_M < metres < 1 / _MIN_UNIT_M:
            raise InputError(path, f"one unit of it is {metres:g} m.")
        found[:3, :3] *= metres
    return found
