"""Reader of the meshes in a glTF scene, converted to z up."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from sim2cam.assets.mesh_files.companions import CompanionFiles
from sim2cam.assets.mesh_files.gltf_data import GltfData
from sim2cam.assets.mesh_files.gltf_materials import GltfMaterials
from sim2cam.assets.mesh_files.submesh import Submesh

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_Z_UP = np.array([[1.0, 0, 0, 0], [0, 0, -1, 0], [0, 1, 0, 0], [0, 0, 0, 1]])
"""Transform (4, 4) from y up to z up."""
_TRIANGLES, _STRIP, _FAN = 4, 5, 6
_INSTANCES = "EXT_mesh_gpu_instancing"
_DRACO = "KHR_draco_mesh_compression"


def read_gltf(files: CompanionFiles, max_faces: int, *, colored: bool) -> list[Submesh]:
    """Read all meshes in the scene of a glTF file; stop after ``max_faces`` triangles.

    Raises:
        InputError: The file is invalid, or requires an unsupported extension.
    """
    data = GltfData(files)
    materials = GltfMaterials(data, colored=colored)
    solids_by_mesh: dict[int, list[Submesh]] = {}
    solids: list[Submesh] = []
    count = 0
    for node, matrix in _place_nodes(data):
        if "mesh" not in node:
            continue
        if _INSTANCES in (node.get("extensions") or {}):
            raise data.error(f"{_INSTANCES} is not supported. Export without instances.")
        if "skin" in node or node.get("weights"):
            data.files.warn_once("skins and morph targets are ignored.")
        mesh = data.get_item("meshes", node["mesh"])
        if node["mesh"] not in solids_by_mesh:
            solids_by_mesh[node["mesh"]] = _read_mesh(data, mesh, materials)
        for solid in solids_by_mesh[node["mesh"]] if count <= max_faces else ():
            solids.append(solid.transform(_Z_UP @ matrix))
            count += len(solid.faces)
    materials.report_unused()
    return solids


def _place_nodes(data: GltfData) -> list[tuple[dict[str, Any], Floats]]:
    """Return the nodes of the scene, each with its transform (4, 4) to the scene."""
    nodes = data.get_list("nodes")
    children = {child for node in nodes for child in _read_indices(data, node, "children")}
    roots = [index for index in range(len(nodes)) if index not in children]
    if data.get_list("scenes"):
        roots = _read_indices(data, data.get_item("scenes", data.header.get("scene", 0)), "nodes")
    placed: list[tuple[dict[str, Any], Floats]] = []
    visited: set[int] = set()
    pending = [(index, np.eye(4)) for index in reversed(roots)]
    while pending:
        index, parent_matrix = pending.pop()
        node = data.get_item("nodes", index)
        if index in visited:
            raise data.error(f"nodes[{index}] has two parents; glTF nodes must form trees.")
        visited.add(index)
        matrix = parent_matrix @ _read_matrix(data, node, index)
        placed.append((node, matrix))
        pending += [(child, matrix) for child in reversed(_read_indices(data, node, "children"))]
    return placed


def _read_indices(data: GltfData, owner: dict[str, Any], key: str) -> list[int]:
    indices = owner.get(key, [])
    if not isinstance(indices, list) or not all(isinstance(i, int) for i in indices):
        raise data.error(f"'{key}' is not a list of integers.")
    return indices


def _read_matrix(data: GltfData, node: dict[str, Any], index: int) -> Floats:
    """Return the transform (4, 4) from a node to its parent."""
    try:
        if "matrix" in node:
            matrix = np.array(node["matrix"], np.float64).reshape(4, 4).T
        else:
            matrix = np.eye(4)
            rotation = np.array(node.get("rotation", (0, 0, 0, 1)), np.float64).reshape(4)
            scale = np.array(node.get("scale", (1, 1, 1)), np.float64).reshape(3)
            matrix[:3, :3] = Rotation.from_quat(rotation).as_matrix() * scale
            matrix[:3, 3] = np.array(node.get("translation", (0, 0, 0)), np.float64).reshape(3)
    except (TypeError, ValueError):
        raise data.error(f"nodes[{index}] has an invalid transform.") from None
    if not np.isfinite(matrix).all():
        raise data.error(f"nodes[{index}] has a transform that is not finite.")
    return matrix


def _read_mesh(data: GltfData, mesh: dict[str, Any], materials: GltfMaterials) -> list[Submesh]:
    """Read the triangle primitives of a mesh; points and lines are ignored."""
    solids = []
    if any(mesh.get("weights") or ()):
        data.files.warn_once("skins and morph targets are ignored.")
    primitives = mesh.get("primitives")
    if not isinstance(primitives, list):
        raise data.error("a mesh has no list of primitives.")
    for primitive in primitives:
        if not isinstance(primitive, dict) or not isinstance(primitive.get("attributes"), dict):
            raise data.error("a primitive has no attributes.")
        mode = primitive.get("mode", _TRIANGLES)
        if mode in (_TRIANGLES, _STRIP, _FAN) and "POSITION" in primitive["attributes"]:
            solid = _read_primitive(data, primitive, mode)
            if len(solid.faces):
                vertex_colors = _read_colors(data, primitive, len(solid.vertices))
                solids.append(
                    materials.apply(solid, primitive, vertex_colors).drop_unused_vertices()
                )
    return solids


def _read_primitive(data: GltfData, primitive: dict[str, Any], mode: int) -> Submesh:
    attributes = primitive["attributes"]
    accessor = data.get_item("accessors", attributes["POSITION"])
    if _DRACO in (primitive.get("extensions") or {}) and not {"bufferView", "sparse"} & {*accessor}:
        raise data.make_compression_error(_DRACO)
    vertices = data.read_accessor(attributes["POSITION"]).astype(np.float64)
    if vertices.shape[1] != 3:
        raise data.error("POSITION must be VEC3.")
    order = np.arange(len(vertices))
    if "indices" in primitive:
        order = data.read_accessor(primitive["indices"])[:, 0].astype(np.int64)
        if len(order) and not 0 <= order.min() <= order.max() < len(vertices):
            raise data.error(
                f"an index refers to the missing vertex {order.max()} ({len(vertices)} vertices)."
            )
    faces = _build_faces(order, mode)
    used_vertices = vertices[faces.ravel()]
    for row in np.flatnonzero(~np.isfinite(used_vertices).all(axis=1))[:1]:
        coordinates = ", ".join(f"{c:g}" for c in used_vertices[row])
        raise data.error(f"vertex {faces.ravel()[row] + 1} is not finite: ({coordinates}).")
    normals = None
    if "NORMAL" in attributes:
        normals = data.read_accessor(attributes["NORMAL"]).astype(np.float64)
        if normals.shape != vertices.shape:
            raise data.error("NORMAL must be one VEC3 for each vertex.")
    return Submesh(vertices, faces, normals)


def _build_faces(order: Indices, mode: int) -> Indices:
    """Return the triangles (n, 3) of a vertex order; drop an incomplete last triangle."""
    if mode == _TRIANGLES:
        return order[: len(order) // 3 * 3].reshape(-1, 3)
    if len(order) < 3:
        return np.zeros((0, 3), np.int64)
    if mode == _FAN:
        return np.stack([np.full(len(order) - 2, order[0]), order[1:-1], order[2:]], axis=1)
    faces = np.stack([order[:-2], order[1:-1], order[2:]], axis=1)
    faces[1::2] = faces[1::2, [1, 0, 2]]
    return faces


def _read_colors(data: GltfData, primitive: dict[str, Any], count: int) -> Floats | None:
    """Return the linear vertex colours (n, 3) of a primitive; None without."""
    index = primitive["attributes"].get("COLOR_0")
    if index is None:
        return None
    values = data.read_accessor(index)
    if len(values) != count or values.shape[1] < 3:
        raise data.error("COLOR_0 must be one colour for each vertex.")
    max_value = 1.0 if values.dtype.kind == "f" else float(np.iinfo(values.dtype).max)
    colors = values[:, :3].astype(np.float64) / max_value
    return np.nan_to_num(colors).clip(0.0, 1.0)
