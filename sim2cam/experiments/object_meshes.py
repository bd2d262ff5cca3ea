"""The meshes of the objects that a detector knows, to fit their outlines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sim2cam.assets.mesh import content_of
from sim2cam.data.known_objects import ObjectGeometry
from sim2cam.errors import InputError
from sim2cam.pipeline.asset_folder import AssetFolder, import_asset_folder
from sim2cam.scene.asset_facts import AssetInfo

Floats = NDArray[np.float64]

_MAX_BOX_DEVIATION = 0.02  # of an object's longest side, that corners of its box may have moved


def read_meshes(folder: Path, objects: Mapping[str, ObjectGeometry]) -> dict[str, Floats]:
    """Return the triangles (n, 3, 3) of objects in their own frames, by their categories, metres.

    Args:
        folder: of meshes, as ``sim2cam assets`` takes it.
        objects: that a detector knows, by their categories; those without a mesh are left out.

    Raises:
        InputError: there is no mesh of any, several of one or one that cannot be used, or it is not what the
            detector learned.
    """
    found: dict[str, AssetInfo] = {}
    for facts in import_asset_folder(AssetFolder(str(folder.resolve())), folder):
        category = facts.mesh.category
        if category not in objects:
            continue
        if category in found:
            raise InputError(
                folder, f"{found[category].name} and {facts.name} are both '{category}'. Keep one."
            )
        _check_mesh_box(folder / facts.name, facts, objects[category])
        found[category] = facts
    if not found:
        raise InputError(
            folder,
            f"has no mesh of what the weights know: {', '.join(sorted(objects))}. Name files or their folders so.",
        )
    return {category: _load_triangles(facts) for category, facts in found.items()}


def _check_mesh_box(path: Path, facts: AssetInfo, known_object: ObjectGeometry) -> None:
    """Refuse a mesh whose box is not that of what was learned.

    Raises:
        InputError: it is not.
    """
    here, there = np.array([facts.low_m, facts.high_m]), np.array(known_object.extent_m)
    if np.abs(here - there).max() > _MAX_BOX_DEVIATION * np.ptp(there, axis=0).max():
        raise InputError(
            path,
            f"its box is {_format_box(here)}, but that of the object which the weights know is "
            f"{_format_box(there)}. Give the meshes that were rendered.",
        )


def _format_box(corners_m: Floats) -> str:
    low, high = (", ".join(f"{1e3 * x:.3g}" for x in corner) for corner in corners_m)
    return f"({low}) to ({high}) mm"


def _load_triangles(facts: AssetInfo) -> Floats:
    mesh = content_of(facts.mesh).mesh
    return np.asarray(mesh.vertices_m[mesh.faces], np.float64)
