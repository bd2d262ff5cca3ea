"""Reader of COLLADA (DAE) files, based on trimesh and pycollada."""

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
    """Read all meshes in the scene of a COLLADA file.

    Raises:
        InputError: The file cannot be read, or pycollada is not installed.
    """
    import trimesh

    transform = _read_up_rotation(files.path)

    class Resolver:
        """Access to companion files for trimesh."""

        def get(self, name: str) -> bytes:
            file_name = name if files.location.find(name) else unquote(name.removeprefix("file://"))
            if not colored or files.read_image(file_name) is None:  # trimesh hides the error
                raise FileNotFoundError(name)
            return files.read_optional(file_name) or b""

    with images.allow_large_textures():
        scene = trimesh.load_scene(
            io.BytesIO(files.data), file_type="dae", resolver=Resolver(), process=False
        )
    nodes = [scene.graph[node] for node in scene.graph.nodes_geometry]
    placed_meshes = [(scene.geometry[name], matrix) for matrix, name in nodes]
    placed_solids = [
        (_convert_mesh(mesh, colored=colored), matrix)
        for mesh, matrix in placed_meshes
        if isinstance(mesh, trimesh.Trimesh) and len(mesh.faces)
    ]
    if colored and any(map(_is_transparent, scene.geometry.values())):
        warn(files.path, "has transparent materials. They are rendered opaque.")
    return [solid.transform(transform @ matrix) for solid, matrix in placed_solids]


def _convert_mesh(mesh: Any, *, colored: bool) -> Submesh:
    """Convert a trimesh mesh to a submesh."""
    # reading the attribute would compute normals that the file lacks
    has_normals = "vertex_normals" in mesh._cache
    visual, vertex_colors, color = mesh.visual, None, None
    material = getattr(visual, "material", None)
    image = getattr(material, "baseColorTexture", getattr(material, "image", None))
    uvs = getattr(visual, "uv", None)
    if image is None or image.format is None or uvs is None:  # trimesh creates placeholders
        image = uvs = None
    if visual.kind in ("vertex", "face"):
        vertex_colors = np.array(visual.vertex_colors[:, :3], np.uint8)
    elif (factor := getattr(material, "baseColorFactor", None)) is not None:
        color = (int(factor[0]), int(factor[1]), int(factor[2]))
    return Submesh(
        np.array(mesh.vertices, np.float64),
        np.array(mesh.faces, np.int64),
        np.array(mesh.vertex_normals, np.float64) if has_normals else None,
        np.array(uvs, np.float64) if colored and uvs is not None else None,
        image if colored else None,
        vertex_colors if colored else None,
        color if colored else None,
    ).drop_unused_vertices()


def _is_transparent(mesh: Any) -> bool:
    material = getattr(getattr(mesh, "visual", None), "material", None)
    return getattr(material, "alphaMode", None) in ("BLEND", "MASK")


def _read_up_rotation(path: Path) -> NDArray[np.float64]:
    """Return the transform (4, 4) from file coordinates to metres with z up.

    Validates the XML first, because pycollada's parser is not hardened.

    Raises:
        InputError: The file cannot be read, or pycollada is not installed.
    """
    root = read_xml(path, _MAX_BYTES)
    if get_local_name(root) != "COLLADA":
        problem = f"not COLLADA: the root element is <{get_local_name(root)[:40]}>, not <COLLADA>."
        raise InputError(path, problem)
    if importlib.util.find_spec("collada") is None:
        raise InputError(path, 'needs pycollada. Run pip install "sim2cam[assets]".')
    elements = {
        get_local_name(child): child
        for element in root
        if get_local_name(element) == "asset"
        for child in element
    }
    transform = np.eye(4)
    up_axis = (elements["up_axis"].text or "").strip() if "up_axis" in elements else "Y_UP"
    if up_axis not in _UP_ROTATIONS:
        raise InputError(
            path, f"up_axis is '{up_axis[:20]}'. {suggest_name(up_axis, _UP_ROTATIONS)}."
        )
    transform[:3, :3] = _UP_ROTATIONS[up_axis]
    if "unit" in elements:
        unit_m = parse_number(elements["unit"].get("meter", "1"), "meter of a unit", path)
        if not _MIN_UNIT_M < unit_m < 1 / _MIN_UNIT_M:
            raise InputError(path, f"has an invalid length unit of {unit_m:g} m.")
        transform[:3, :3] *= unit_m
    return transform
