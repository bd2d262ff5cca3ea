"""Meshes of a detector's objects, for contour-based pose refinement."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sim2cam.assets.mesh import load_content
from sim2cam.data.known_objects import ObjectGeometry
from sim2cam.errors import InputError
from sim2cam.pipeline.asset_folder import AssetFolder, import_asset_folder
from sim2cam.scene.asset_facts import AssetInfo

Floats = NDArray[np.float64]

_MAX_BOX_DEVIATION = 0.02  # deviation of box corners, over the object's longest side


def read_meshes(folder: Path, objects: Mapping[str, ObjectGeometry]) -> dict[str, Floats]:
    """Return the triangles (n, 3, 3) of objects in their own frames, in metres, by category.

    Args:
        objects: objects of a detector by category; objects without a mesh are left out.

    Raises:
        InputError: if no object has a mesh, an object has several, or a mesh is unusable or has
            another size than the trained object.
    """
    assets: dict[str, AssetInfo] = {}
    for asset in import_asset_folder(AssetFolder(str(folder.resolve())), folder):
        category = asset.mesh.category
        if category not in objects:
            continue
        if category in assets:
            raise InputError(
                folder, f"{assets[category].name} and {asset.name} are both '{category}'. Keep one."
            )
        _check_mesh_box(folder / asset.name, asset, objects[category])
        assets[category] = asset
    if not assets:
        raise InputError(
            folder,
            f"no mesh of the detector's categories ({', '.join(sorted(objects))}). Name files or folders "
            "after the categories.",
        )
    return {category: _load_triangles(asset) for category, asset in assets.items()}


def _check_mesh_box(path: Path, asset: AssetInfo, known_object: ObjectGeometry) -> None:
    box, trained_box = np.array([asset.low_m, asset.high_m]), np.array(known_object.extent_m)
    if np.abs(box - trained_box).max() > _MAX_BOX_DEVIATION * np.ptp(trained_box, axis=0).max():
        raise InputError(
            path,
            f"the bounding box is {_format_box(box)}; the detector was trained on "
            f"{_format_box(trained_box)}. Use the meshes of its training renders.",
        )


def _format_box(corners_m: Floats) -> str:
    low, high = (", ".join(f"{1e3 * x:.3g}" for x in corner) for corner in corners_m)
    return f"({low}) to ({high}) mm"


def _load_triangles(asset: AssetInfo) -> Floats:
    mesh = load_content(asset.mesh).mesh
    return np.asarray(mesh.vertices_m[mesh.faces], np.float64)
