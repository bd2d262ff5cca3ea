"""Assets and models of the objects in a dataset, from its scene records."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from sim2cam.assets.mesh import load_content
from sim2cam.data.formats.bop.models import ModelSource, ObjectModel
from sim2cam.data.reader import read_header, read_sample_records
from sim2cam.data.sample import Sample
from sim2cam.pipeline.scene_records import read_scene_record
from sim2cam.render.gbuffer import assign_label_ids
from sim2cam.render.meshes.mesh import build_mesh
from sim2cam.scene.shape import MeshFile, Shape
from sim2cam.scene.symmetry import Symmetries

_SYMMETRIES_ADAPTER: TypeAdapter[Symmetries] = TypeAdapter(Symmetries)


def create_recorded_models() -> ModelSource:
    """Return the model source of rendered and translated datasets; real images have no models.

    Meshes from files are read from the asset cache.
    """
    return ModelSource(_find_assets, _build_model)


def _find_assets(sample: Sample) -> Mapping[int, Shape]:
    """Return the assets of a sample's objects by ``instance_id``; empty without a scene record."""
    if "ids" not in sample.channels:
        return {}
    ids = sample.channels["ids"]  # in the rendered dataset, also for translated samples
    shard = ids.parents[1]
    index = _index_scenes(shard.parents[1]).get(ids) if (shard / "scenes.jsonl").is_file() else None
    return {} if index is None else _read_scene_assets(shard / "scenes.jsonl", index)


@functools.lru_cache(maxsize=4)
def _index_scenes(root: Path) -> Mapping[Path, int]:
    """Return the scene index of each file of instance ids."""
    return {
        record.shard / name: record.fields.get("scene_index", 0)
        for record in read_sample_records(root)
        for name in record.fields.get("files", {})
        if name.startswith("ids/")
    }


@functools.lru_cache(maxsize=32)
def _read_scene_assets(path: Path, index: int) -> Mapping[int, Shape]:
    scene = read_scene_record(path, index).scene
    assets = {body.name: body.asset for body in scene.bodies}
    return {number: assets[name] for name, number in assign_label_ids(scene).items()}


def _build_model(sample: Sample, asset: Shape) -> ObjectModel:
    mesh, rgb, symmetries = build_mesh(asset), None, asset.get_symmetries()
    if isinstance(asset, MeshFile):
        rgb = _read_vertex_colors(asset)
        symmetries = _read_symmetries(sample.channels["ids"].parents[3], asset.path)
    return ObjectModel(mesh.vertices_m, mesh.normals, mesh.faces, rgb, symmetries)


def _read_vertex_colors(asset: MeshFile) -> NDArray[np.uint8] | None:
    """Return the vertex colours (n, 3) of a mesh file; None without colours."""
    content = load_content(asset)
    if content.colors is None:
        return None
    size = np.array(content.colors.shape[1::-1])
    column, row = np.clip(content.mesh.uvs * size, 0, size - 1).astype(np.intp).T
    return np.asarray(content.colors[row, column])


def _read_symmetries(root: Path, name: str) -> Symmetries:
    """Return the symmetries of a file in the recipe of a dataset."""
    for asset in read_header(root).get("recipe", {}).get("assets", []):
        if asset.get("name") == name:
            return _SYMMETRIES_ADAPTER.validate_python(asset.get("symmetries", {}))
    return Symmetries()
