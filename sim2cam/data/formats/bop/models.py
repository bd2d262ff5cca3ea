"""BOP object models: a PLY file per object in millimetres, and ``models_info.json``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.data.formats.bop.files import MM_PER_M
from sim2cam.data.formats.writing import to_json
from sim2cam.data.sample import Sample
from sim2cam.files import write_bytes
from sim2cam.geometry.poses import Pose
from sim2cam.scene.shape import Shape
from sim2cam.scene.symmetry import Symmetries

MODEL_FOLDER = "models"
MODEL_INFO_FILE = "models_info.json"


Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ObjectModel:
    """A rigid object, in its own frame.

    Attributes:
        vertices_m: vertices (n, 3).
        normals: unit vectors (n, 3).
        faces: triangle indices (m, 3).
        rgb: sRGB colours (n, 3), uint8; None without own colours.
    """

    vertices_m: Floats
    normals: Floats
    faces: NDArray[np.int64]
    rgb: NDArray[np.uint8] | None
    symmetries: Symmetries


@dataclass(frozen=True, eq=False)
class ModelSource:
    """Access to the object models of a dataset's scenes.

    Attributes:
        find_assets: returns the assets of a sample's objects by ``instance_id``.
        load_model: returns the model of an asset of a sample; raises ``InputError`` if its file is
            missing.
    """

    find_assets: Callable[[Sample], Mapping[int, Shape]]
    load_model: Callable[[Sample, Shape], ObjectModel]


def write_models(models: Mapping[int, ObjectModel], folder: Path) -> None:
    """Write ``models/obj_000001.ply``, ... and ``models/models_info.json``.

    Raises:
        OutputError: the folder cannot be written.
    """
    for object_id, model in models.items():
        write_bytes(folder / MODEL_FOLDER / f"obj_{object_id:06d}.ply", _encode_ply(model))
    infos = {str(object_id): _build_info(model) for object_id, model in models.items()}
    write_bytes(folder / MODEL_FOLDER / MODEL_INFO_FILE, to_json(infos, folder, indent=1))


def _encode_ply(model: ObjectModel) -> bytes:
    import trimesh

    mesh = trimesh.Trimesh(
        MM_PER_M * model.vertices_m,
        model.faces,
        vertex_normals=model.normals,
        vertex_colors=model.rgb,
        process=False,
    )
    return bytes(mesh.export(file_type="ply", vertex_normal=True))


def _build_info(model: ObjectModel) -> dict[str, Any]:
    low = MM_PER_M * model.vertices_m.min(axis=0)
    size = MM_PER_M * np.ptp(model.vertices_m, axis=0)
    info: dict[str, Any] = {"diameter": MM_PER_M * compute_diameter(model.vertices_m)}
    info |= {f"min_{axis}": float(value) for axis, value in zip("xyz", low, strict=True)}
    info |= {f"size_{axis}": float(value) for axis, value in zip("xyz", size, strict=True)}
    rotations, axes = model.symmetries.rotations_wxyz, model.symmetries.axes
    if rotations:
        info["symmetries_discrete"] = [
            Pose(rotation).matrix().ravel().tolist() for rotation in rotations
        ]
    if axes:
        info["symmetries_continuous"] = [
            {"axis": list(axis), "offset": [0.0, 0.0, 0.0]} for axis in axes
        ]
    return info


def compute_diameter(points: Floats) -> float:
    """Return the largest distance between two of the points (n, 3)."""
    from scipy.spatial import ConvexHull
    from scipy.spatial.distance import pdist

    corners = points[
        ConvexHull(points, qhull_options="QJ").vertices
    ]  # joggled, as points may be coplanar
    return float(pdist(corners).max())
