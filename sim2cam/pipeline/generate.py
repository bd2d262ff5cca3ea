"""Generating: a recipe and a seed to a data set of labelled pictures, shard by shard."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sim2cam.dataset.reader import read_dataset
from sim2cam.dataset.sample import Dataset
from sim2cam.dataset.writer import (
    FORMAT_VERSION,
    SAMPLES_PER_SHARD,
    NewSample,
    prepare_folder,
    shard_size,
    write_environment,
    write_shard,
)
from sim2cam.errors import SceneError
from sim2cam.pipeline.engines import map_units
from sim2cam.pipeline.environment import environment_facts
from sim2cam.pipeline.recipe import Recipe
from sim2cam.randomize.compose import compose
from sim2cam.randomize.draw import Draw, draw
from sim2cam.render.frame import shoot
from sim2cam.render.optics import blind_spot
from sim2cam.render.physics import PhysicsCertificate, settle
from sim2cam.render.rasterizer import BACKEND_VARIABLE, rasterizer
from sim2cam.scene.asset import DIE_FACES
from sim2cam.scene.objects import OBJECT_KINDS
from sim2cam.scene.scene import Scene

MAX_ATTEMPTS = 20
_TRIALS = 4

Progress = Callable[[int, int], None]
"""Called with samples done and samples in all."""


@dataclass(frozen=True)
class Unit:
    """One shard to be made; with the recipe as JSON, so that it travels to another process."""

    recipe: str
    seed: int
    root: Path
    shard: int
    count: int


@dataclass(frozen=True)
class SettledScene:
    """A drawn scene at rest.

    Attributes:
        index: scene index.
        attempt: how many drafts were rejected before it.
        rejections: why.
        drawn: everything that was drawn.
        scene: bodies where they lie.
        certificate: how they got there.
    """

    index: int
    attempt: int
    rejections: tuple[str, ...]
    drawn: Draw
    scene: Scene
    certificate: PhysicsCertificate


def generate(
    recipe: Recipe,
    root: Path,
    *,
    count: int,
    seed: int,
    workers: int,
    resume: bool,
    overwrite: bool,
    progress: Progress,
) -> Dataset:
    """Returns the data set of ``count`` samples, made or completed in the folder ``root``.

    Equal recipe and seed give equal bytes, with any number of workers, after any interruption.

    Raises:
        OutputError: the folder holds something else or cannot be written.
        SceneError: a scene cannot be settled in ``MAX_ATTEMPTS`` attempts.
    """
    prepare_folder(root, _header(recipe, seed), resume=resume, overwrite=overwrite)
    write_environment(root, environment_facts(rasterizer().name, workers), wanted=count)
    units = [unit for unit in _units(recipe, root, count, seed) if _is_missing(unit)]
    done = count - sum(unit.count for unit in units)
    progress(done, count)
    for finished in map_units(make_shard, units, workers):
        done += finished
        progress(done, count)
    return read_dataset(root)


def estimate(recipe: Recipe, *, count: int, seed: int, workers: int) -> dict[str, float]:
    """Returns shards, seconds and gigabytes that a data set would take, from a few trial samples.

    Raises:
        SceneError: a scene cannot be settled.
    """
    trials = max(_TRIALS, recipe.render.views)
    shards = -(-count // SAMPLES_PER_SHARD)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        rasterizer()
        start = time.monotonic()
        make_shard(Unit(recipe.to_json(), seed, root, 0, trials))
        seconds = time.monotonic() - start
        size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
    share = count / trials
    at_once = min(workers, shards, os.cpu_count() or 1)
    return {
        "shards": shards,
        "seconds": seconds * share / at_once,
        "gigabytes": size * share / 1e9,
    }


def make_shard(unit: Unit) -> int:
    """Makes one shard and returns its number of samples."""
    recipe = Recipe.from_json(unit.recipe)
    scenes: list[dict[str, Any]] = []
    write_shard(unit.root, unit.shard, _samples(recipe, unit, scenes), scenes)
    return unit.count


def settled_scene(recipe: Recipe, seed: int, index: int) -> SettledScene:
    """Returns scene ``index``, drawn again until it comes to rest properly.

    Raises:
        SceneError: no attempt did.
    """
    rejections: list[str] = []
    for attempt in range(MAX_ATTEMPTS):
        drawn = draw(recipe.domain, seed, index, views=recipe.render.views, attempt=attempt)
        draft = compose(drawn, recipe.render.width, recipe.render.height)
        problem = blind_spot(draft)
        if problem is None:
            scene, certificate = settle(draft)
            if certificate.rejection is None:
                return SettledScene(index, attempt, tuple(rejections), drawn, scene, certificate)
            problem = certificate.rejection
        rejections.append(problem)
    raise SceneError(
        f"scene {index} of recipe '{recipe.name}' did not settle in {MAX_ATTEMPTS} attempts (last: "
        f"{rejections[-1]}). Use fewer objects, a larger region or slower throws."
    )


def _header(recipe: Recipe, seed: int) -> dict[str, Any]:
    backend = os.environ.get(BACKEND_VARIABLE) or rasterizer().name.split(":")[0]
    return {
        "format": FORMAT_VERSION,
        "origin": "sim",
        "recipe": recipe.rendering_facts(),
        "recipe_digest": recipe.digest(),
        "seed": seed,
        "backend": backend,
        "categories": recipe.categories,
        "samples_per_shard": SAMPLES_PER_SHARD,
    } | _symmetries(recipe)


def _symmetries(recipe: Recipe) -> dict[str, Any]:
    """Returns those of the kind of object that the recipe labels, where it asks for them."""
    if "symmetries" not in recipe.render.channels:
        return {}
    kind = OBJECT_KINDS["die"]
    table = {"symmetries": kind.symmetries, "shape_symmetries": kind.shape_symmetries}
    return {"objects": {"die": {"categories": sorted(DIE_FACES), **table}}}


def _units(recipe: Recipe, root: Path, count: int, seed: int) -> list[Unit]:
    text = recipe.to_json()
    starts = range(0, count, SAMPLES_PER_SHARD)
    return [
        Unit(text, seed, root, start // SAMPLES_PER_SHARD, min(SAMPLES_PER_SHARD, count - start))
        for start in starts
    ]


def _is_missing(unit: Unit) -> bool:
    return shard_size(unit.root, unit.shard) < unit.count


def _samples(recipe: Recipe, unit: Unit, scenes: list[dict[str, Any]]) -> Iterator[NewSample]:
    """Yields the samples of a shard, and fills in what is recorded of their scenes."""
    views = recipe.render.views
    first = unit.shard * SAMPLES_PER_SHARD
    indices = range(first, first + unit.count)
    for scene_index in range(first // views, -(-(first + unit.count) // views)):
        settled = settled_scene(recipe, unit.seed, scene_index)
        scenes.append(_scene_facts(settled))
        rasterizer().load(settled.scene)
        for view in range(views):
            index = scene_index * views + view
            if index in indices:
                yield _shoot(recipe, settled, view, index)


def _shoot(recipe: Recipe, settled: SettledScene, view: int, index: int) -> NewSample:
    camera = settled.scene.cameras[view]
    frame = shoot(settled.scene, camera, rasterizer(), recipe.render.channels)
    return NewSample(
        index=index,
        jpeg=frame.jpeg,
        width=camera.width,
        height=camera.height,
        origin="sim",
        objects=frame.objects,
        channels=frame.channels,
        right=frame.right,
        facts={
            "scene_index": settled.index,
            "view": view,
            "lens": camera.lens,
            "depth_along": camera.lens.depth_along,
            **_known(
                occlusions=frame.occlusions,
                depth_unit_m=camera.depth and camera.depth.depth_unit_m,
                baseline_m=camera.baseline_m,
            ),
        },
    )


def _known(**facts: object) -> dict[str, object]:
    return {name: value for name, value in facts.items() if value is not None}


def _scene_facts(settled: SettledScene) -> dict[str, Any]:
    return {
        "scene_index": settled.index,
        "attempt": settled.attempt,
        "rejections": list(settled.rejections),
        "certificate": asdict(settled.certificate),
        "drawn": dict(settled.drawn.values),
        "scene": settled.scene,
    }
