"""Shapes: which assets the objects of a data set are, and their models, from what its scenes record."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from sim2cam.assets.mesh import content_of
from sim2cam.data.formats.bop.models import ModelSource, ObjectModel
from sim2cam.data.reader import read_header, read_sample_records
from sim2cam.data.sample import Sample
from sim2cam.pipeline.scene_records import read_scene_record
from sim2cam.render.meshes.mesh import build_mesh
from sim2cam.render.rasterizer import assign_label_ids
from sim2cam.scene.shape import Asset, MeshFile
from sim2cam.scene.symmetry import Symmetries, get_symmetries

_SYMMETRIES_ADAPTER: TypeAdapter[Symmetries] = TypeAdapter(Symmetries)


def create_recorded_models() -> ModelSource:
    """Return the shapes of rendered data sets, translated ones too; captures have none.

    Meshes of files are those that were brought in, in the cache.
    """
    return ModelSource(_find_assets, _build_model)


def _find_assets(sample: Sample) -> Mapping[int, Asset]:
    """Return the assets of a sample's objects by ``instance_id``; none without a record."""
    if "ids" not in sample.channels:
        return {}
    ids = sample.channels["ids"]  # where it was rendered, even if it was translated since
    shard = ids.parents[1]
    index = _index_scenes(shard.parents[1]).get(ids) if (shard / "scenes.jsonl").is_file() else None
    return {} if index is None else _read_scene_assets(shard / "scenes.jsonl", index)


@functools.lru_cache(maxsize=4)
def _index_scenes(root: Path) -> Mapping[Path, int]:
    """Return the numbers of scenes by the files of their ids."""
    return {
        raw.shard / place: raw.fields.get("scene_index", 0)
        for raw in read_sample_records(root)
        for place in raw.fields.get("files", {})
        if place.startswith("ids/")
    }


@functools.lru_cache(maxsize=32)
def _read_scene_assets(path: Path, index: int) -> Mapping[int, Asset]:
    scene = read_scene_record(path, index).scene
    assets = {body.name: body.asset for body in scene.bodies}
    return {number: assets[name] for name, number in assign_label_ids(scene).items()}


def _build_model(sample: Sample, asset: Asset) -> ObjectModel:
    mesh, rgb, symmetries = build_mesh(asset), None, get_symmetries(asset)
    if isinstance(asset, MeshFile):
        rgb = _read_vertex_colors(asset)
        symmetries = _read_symmetries(sample.channels["ids"].parents[3], asset.path)
    return ObjectModel(mesh.vertices_m, mesh.normals, mesh.faces, rgb, symmetries)


def _read_vertex_colors(asset: MeshFile) -> NDArray[np.uint8] | None:
    """Return the colours (n, 3) that a file gives its vertices; None where it gives none."""
    content = content_of(asset)
    if content.colors is None:
        return None
    sides = np.array(content.colors.shape[1::-1])
    column, row = np.clip(content.mesh.uvs * sides, 0, sides - 1).astype(np.intp).T
    return np.asarray(content.colors[row, column])


def _read_symmetries(root: Path, name: str) -> Symmetries:
    """Return those that the recipe of a data set knows of a file, by its name."""
    for facts in read_header(root).get("recipe", {}).get("assets", []):
        if facts.get("name") == name:
            return _SYMMETRIES_ADAPTER.validate_python(facts.get("symmetries", {}))
    return Symmetries()
