"""Generating: a recipe and a seed to a data set of labelled pictures, shard by shard."""

from __future__ import annotations

import itertools
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.data.card import card_of, write_card
from sim2cam.data.environment import environment_facts
from sim2cam.data.reader import read_dataset, read_scenes
from sim2cam.data.sample import Dataset, Gains, Moment, RawFormat
from sim2cam.data.shards import Quarantined, read_content, read_quarantined
from sim2cam.data.writer import (
    FORMAT_VERSION,
    QUARANTINED,
    SAMPLES_PER_SHARD,
    NewSample,
    prepare_folder,
    write_environment,
    write_shard,
)
from sim2cam.engines.process_pool import STALL_S, beat, map_units
from sim2cam.errors import RepairWarning, SceneError
from sim2cam.files import locked
from sim2cam.pipeline.recipe import Recipe
from sim2cam.pipeline.scene_records import check_scenes, read_settled
from sim2cam.pipeline.scene_sampling import Instant, SettledScene, check_change, settled_scene
from sim2cam.randomize.counterfactual import NO_CHANGE, Change
from sim2cam.randomize.limits import shown_categories
from sim2cam.render.frame import FLOWS, Frame, flow_channel, shoot, tracks_of
from sim2cam.render.meshes.mesh import surface_points
from sim2cam.render.rasterizer import BACKEND_VARIABLE, rasterizer
from sim2cam.render.sensor.auto_exposure import Earlier
from sim2cam.scene.camera import Camera
from sim2cam.scene.shape import DIE_FACES
from sim2cam.scene.symmetry import OBJECT_KINDS
from sim2cam.seeds import stream

Floats = NDArray[np.float64]

_TRIALS = 4
_PREVIEW_PX = 400
_LEAST_PX = 16
_MOST_FAILED = 5  # first scenes of a shard, after which the recipe is to blame
_SHOWN = 3

Progress = Callable[[int, int], None]
"""Called with samples done and samples in all."""


@dataclass(frozen=True)
class Unit:
    """One shard to be made; with the recipe as JSON, so that it travels to another process.

    Attributes:
        change: of every scene.
        scenes: data set whose settled scenes are taken; None settles them.
        pictures: whether they are rendered too.
    """

    recipe: str
    seed: int
    root: Path
    shard: int
    count: int
    change: Change = NO_CHANGE
    scenes: Path | None = None
    pictures: bool = True


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
    change: Change = NO_CHANGE,
    scenes: Path | None = None,
) -> Dataset:
    """Returns the data set of ``count`` samples, made or completed in the folder ``root``.

    Equal recipe, seed and change give equal bytes, with any number of workers, after any
    interruption. With a change, sample *i* is the counterfactual of sample *i* of the data set
    without it. With the folder of a data set of the same scenes, they are not settled again: other
    channels, or another machine's pictures, of what that one settled.

    A scene that does not settle, or does not become what is required, within its budget is
    quarantined: the data set lacks its samples, a RepairWarning names it, and its shard lists it.
    Finished shards whose files are damaged, by their sizes and times, are made anew.

    Raises:
        InputError: the data set of scenes has other ones.
        OutputError: the folder holds something else, is in use, or cannot be written.
        SceneError: no scene can be made.
        Sim2CamError: worker processes died or hung; all other shards are finished.
        UsageError: a change of what the recipe does not have.
    """
    check_change(recipe, change)
    if scenes is not None:
        check_scenes(scenes, recipe, seed, change)
    with locked(root):
        prepare_folder(root, _header(recipe, seed, change), resume=resume, overwrite=overwrite)
        write_environment(root, environment_facts(rasterizer().name, workers), wanted=count)
        units = _units(recipe, root, count, seed, change, scenes)
        _make(recipe, units, workers, progress)
        _report_quarantined(root, units)
        dataset = read_dataset(root)
        write_card(card_of(dataset), root)
    return dataset


def settle_scenes(
    recipe: Recipe,
    root: Path,
    *,
    count: int,
    seed: int,
    workers: int,
    resume: bool,
    overwrite: bool,
    progress: Progress,
    change: Change = NO_CHANGE,
) -> int:
    """Returns how many scenes there are, settled, in the folder ``root``: those of ``count`` samples, without
    their pictures, which ``generate`` makes of it as ``scenes``, here or on a machine without physics.

    Arguments and errors are those of ``generate``.
    """
    check_change(recipe, change)
    with locked(root):
        prepare_folder(root, _header(recipe, seed, change), resume=resume, overwrite=overwrite)
        units = _units(recipe, root, count, seed, change, None)
        _make(recipe, [replace(unit, pictures=False) for unit in units], workers, progress)
        _report_quarantined(root, units)
        return sum(map(_count_scenes, units))


def _make(recipe: Recipe, units: Sequence[Unit], workers: int, progress: Progress) -> None:
    """Make the shards that are missing or damaged."""
    missing = [unit for unit in units if _is_missing(unit, recipe)]
    count = sum(unit.count for unit in units)
    done = count - sum(unit.count for unit in missing)
    progress(done, count)
    for finished in map_units(make_shard, missing, workers, stall_s=STALL_S):
        done += finished
        progress(done, count)


def _report_quarantined(root: Path, units: Sequence[Unit]) -> None:
    """Warn of scenes that could not be made.

    Raises:
        SceneError: none could.
    """
    failed = read_quarantined(root)
    if not failed:
        return
    scenes = sum(map(_count_scenes, units))
    reasons = "".join(f"\n  {one.reason}" for one in failed[:_SHOWN])
    more = f"\n  … and {len(failed) - _SHOWN} more" if len(failed) > _SHOWN else ""
    if not scenes:
        raise SceneError(failed[0].reason)
    warnings.warn(
        f"{root}: {len(failed)} of {scenes + len(failed)} scenes could not be made and are left out; "
        f"{QUARANTINED}.jsonl of their shards lists them:{reasons}{more}",
        RepairWarning,
        stacklevel=2,
    )


def preview(recipe: Recipe, root: Path, *, seed: int, change: Change = NO_CHANGE) -> Dataset:
    """Returns a data set of one shard of small stills in the folder ``root``: what the first camera
    sees of the first scenes that ``generate`` makes, which are held to what is required at full size.

    Raises:
        SceneError: a scene cannot be settled.
        UsageError: a change of what the recipe does not have.
    """
    render = recipe.render
    scale = min(1.0, _PREVIEW_PX / max(render.width, render.height))
    small = replace(
        render,
        width=max(_LEAST_PX, round(render.width * scale)),
        height=max(_LEAST_PX, round(render.height * scale)),
        views=1,
        channels=(),
        film=None,
    )
    shrunk, full = replace(recipe, render=small), recipe.of_stills()
    prepare_folder(root, _header(shrunk, seed, change), resume=False, overwrite=False)
    scenes: list[dict[str, Any]] = []

    def samples() -> Iterator[NewSample]:
        for index in range(SAMPLES_PER_SHARD):
            settled = _retaken(settled_scene(full, seed, index, change), shrunk)
            scenes.append(_scene_facts(settled, shrunk))
            yield from _scene_samples(shrunk, settled, seed)

    write_shard(root, 0, samples(), scenes)
    return read_dataset(root)


def _retaken(settled: SettledScene, recipe: Recipe) -> SettledScene:
    """Returns a scene at rest with cameras of a recipe's size."""
    scene = replace(settled.scene, cameras=recipe.composed(settled.drawn).cameras)
    return replace(settled, scene=scene, film=(replace(settled.film[-1], scene=scene),))


def unfound(change: Change, root: Path) -> tuple[str, ...]:
    """Returns what a change names that none of the scenes of a data set has."""
    names = dict.fromkeys(change.instances())
    for scene in read_scenes(root) if names else ():
        there = {path.rpartition("/")[0] for path in scene.drawn} | scene.drawn.keys()
        names = {name: None for name in names if name not in there}
    return tuple(names)


def estimate(
    recipe: Recipe, *, count: int, seed: int, workers: int, change: Change = NO_CHANGE
) -> dict[str, float]:
    """Returns shards, seconds and gigabytes that a data set would take, from a few trial samples.

    Raises:
        SceneError: a scene cannot be settled.
        UsageError: a change of what the recipe does not have.
    """
    trials = max(_TRIALS, recipe.render.samples)
    shards = -(-count // SAMPLES_PER_SHARD)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        rasterizer()
        start = time.monotonic()
        make_shard(Unit(recipe.to_json(), seed, root, 0, trials, change))
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
    failed: list[dict[str, Any]] = []
    samples = _samples(recipe, unit, scenes, failed)
    write_shard(unit.root, unit.shard, samples, scenes, quarantined=failed)
    return unit.count


def _header(recipe: Recipe, seed: int, change: Change) -> dict[str, Any]:
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
        **({"change": change} if change else {}),
        **({"licences": recipe.licences()} if recipe.licences() else {}),
    } | _symmetries(recipe)


def _symmetries(recipe: Recipe) -> dict[str, Any]:
    """Returns those of the kinds of object that the recipe labels, where it asks for them."""
    if "symmetries" not in recipe.render.channels:
        return {}
    kinds: dict[str, Any] = {}
    shown = {"die": tuple(sorted(DIE_FACES))} if recipe.domain.die is not None else {}
    for name, categories in (shown | shown_categories(recipe.domain)).items():
        kind = OBJECT_KINDS[name]
        kinds[name] = {
            "categories": categories,
            "symmetries": kind.symmetries,
            "shape_symmetries": kind.shape_symmetries,
        }
    labelled = (one for one in recipe.assets if one.mesh.category)
    for facts in labelled:  # their cards tell one kind of symmetry, that of shape and colours
        kinds[facts.name] = {
            "categories": [facts.mesh.category],
            "symmetries": facts.symmetries,
            "shape_symmetries": facts.symmetries,
        }
    return {"objects": kinds}


def _units(
    recipe: Recipe, root: Path, count: int, seed: int, change: Change, scenes: Path | None
) -> list[Unit]:
    text, size = recipe.to_json(), SAMPLES_PER_SHARD
    return [
        Unit(text, seed, root, first // size, min(size, count - first), change, scenes)
        for first in range(0, count, size)
    ]


def _is_missing(unit: Unit, recipe: Recipe) -> bool:
    content = read_content(unit.root, unit.shard)
    if content is None:
        return True
    scenes = content.scenes + len(content.quarantined)
    is_short = unit.pictures and not content.is_of(unit.count)
    return is_short or scenes < len(_scene_indices(unit, recipe))


def _count_scenes(unit: Unit) -> int:
    """Return how many scenes a finished shard has."""
    content = read_content(unit.root, unit.shard)
    return 0 if content is None else content.scenes


def _scene_indices(unit: Unit, recipe: Recipe) -> range:
    """Returns the scenes of a shard."""
    first, per_scene = unit.shard * SAMPLES_PER_SHARD, recipe.render.samples
    return range(first // per_scene, -(-(first + unit.count) // per_scene))


def _samples(
    recipe: Recipe, unit: Unit, scenes: list[dict[str, Any]], failed: list[dict[str, Any]]
) -> Iterator[NewSample]:
    """Yield the samples of a shard, and fill in the records of scenes that are made and of those that fail.

    Raises:
        SceneError: the first scenes fail, one after another.
    """
    per_scene = recipe.render.samples
    past = unit.shard * SAMPLES_PER_SHARD + unit.count
    for scene_index in _scene_indices(unit, recipe):
        beat()
        count = min(per_scene, past - scene_index * per_scene)
        try:
            settled = _settled(recipe, unit, scene_index)
        except SceneError as error:
            failed.append(asdict(Quarantined(scene_index, count, str(error))))
            if len(failed) == _MOST_FAILED and not scenes:
                raise
            continue
        scenes.append(_scene_facts(settled, recipe))
        if not unit.pictures:
            continue
        for sample in itertools.islice(_scene_samples(recipe, settled, unit.seed), count):
            beat()
            yield sample


def _settled(recipe: Recipe, unit: Unit, index: int) -> SettledScene:
    if unit.scenes is not None:
        return read_settled(unit.scenes, recipe, index)
    return settled_scene(recipe, unit.seed, index, unit.change)


def _scene_samples(recipe: Recipe, settled: SettledScene, seed: int) -> Iterator[NewSample]:
    """Yields the samples of a scene, one camera's film after another's."""
    points = _tracked_points(recipe, settled, seed)
    for view in range(recipe.render.views):
        for number, neighbours in enumerate(_with_neighbours(_frames(recipe, settled, view))):
            yield _sample(recipe, settled, view, number, neighbours, points)


def _tracked_points(recipe: Recipe, settled: SettledScene, seed: int) -> dict[str, Floats]:
    """Returns the points (n, 3) of each labelled body that are followed, in its own frame."""
    count = recipe.render.film.tracks if recipe.render.film else 0
    streams = {
        body: stream(
            seed, f"tracks/{body.name}", scene_index=settled.index, attempt=settled.attempt
        )
        for body in settled.scene.bodies
        if body.is_target and count
    }
    return {body.name: surface_points(body.asset, count, rng) for body, rng in streams.items()}


def _with_neighbours(frames: Iterator[Frame]) -> Iterator[tuple[Frame | None, Frame, Frame | None]]:
    """Yields each frame between the one before and the one after it, no more of them at a time."""
    before, now = None, next(frames)
    for after in frames:
        yield before, now, after
        before, now = now, after
    yield before, now, None


def _frames(recipe: Recipe, settled: SettledScene, view: int) -> Iterator[Frame]:
    """Yields the frames of one camera's film, whose automatics follow the light."""
    earlier: Earlier | None = None
    for instant, following in itertools.zip_longest(settled.film, settled.film[1:]):
        scene = instant.scene
        if view == 0 or len(settled.film) > 1:
            rasterizer().load(scene)
        frame = shoot(scene, scene.cameras[view], rasterizer(), recipe.render.channels, earlier)
        yield frame
        if following:
            earlier = Earlier(frame.settings, following.seconds - instant.seconds)


def _sample(
    recipe: Recipe,
    settled: SettledScene,
    view: int,
    number: int,
    neighbours: tuple[Frame | None, Frame, Frame | None],
    points: Mapping[str, Floats],
) -> NewSample:
    before, frame, after = neighbours
    camera = frame.shot.camera
    flows = {
        name: flow_channel(frame.shot, other.shot)
        for name, other in zip(FLOWS, (before, after), strict=True)
        if other is not None and name in recipe.render.channels
    }
    facts: dict[str, Any] = {
        "scene_index": settled.index,
        "view": view,
        "lens": camera.lens,
        "depth_along": camera.lens.depth_along,
    }
    if len(settled.film) > 1 or camera.shutter or camera.twist:
        facts["moment"] = _moment(camera, number, settled.film[number].seconds)
    if len(settled.film) > 1:
        chosen = frame.settings
        facts["gains"] = Gains(exposure=chosen.gain, red=chosen.red, blue=chosen.blue)
    return NewSample(
        index=settled.index * recipe.render.samples + view * len(settled.film) + number,
        picture=frame.picture,
        width=camera.width,
        height=camera.height,
        origin="sim",
        objects=frame.objects,
        channels={**frame.channels, **flows},
        right=frame.right,
        facts=facts
        | _known(
            occlusions=frame.occlusions,
            depth_unit_m=camera.depth and camera.depth.depth_unit_m,
            baseline_m=camera.baseline_m,
            raw=_raw_format(camera) if "raw" in frame.channels else None,
        ),
        tracks=tracks_of(points, frame.shot) if points else None,
    )


def _raw_format(camera: Camera) -> RawFormat | None:
    mosaic = camera.sensor.mosaic
    if mosaic is None:
        return None
    return RawFormat(mosaic.pattern, mosaic.black_level(), mosaic.white_level())


def _moment(camera: Camera, number: int, seconds: float) -> Moment:
    return Moment(
        frame=number,
        first_row_s=seconds + float(camera.row_seconds()[0]),
        row_s=camera.row_s(),
        exposure_s=camera.shutter.exposure_s if camera.shutter else 0.0,
        camera=camera.pose,
        twist=camera.course().twist.seen_from(camera.pose),
    )


def _known(**facts: object) -> dict[str, object]:
    return {name: value for name, value in facts.items() if value is not None}


def _scene_facts(settled: SettledScene, recipe: Recipe) -> dict[str, Any]:
    """Returns what is recorded of a scene; files go by their names in the recipe."""
    facts: dict[str, Any] = {
        "scene_index": settled.index,
        "attempt": settled.attempt,
        "rejections": list(settled.rejections),
        "certificate": asdict(settled.certificate),
        "drawn": dict(settled.drawn.values),
        "scene": settled.scene.with_paths(recipe.file_names()),
    }
    if settled.counterfactual:
        facts["counterfactual"] = settled.counterfactual
    if settled.reached:
        facts["reached"] = dict(settled.reached)
    if len(settled.film) > 1:
        facts["film"] = [_instant_facts(instant) for instant in settled.film]
    return facts


def _instant_facts(instant: Instant) -> dict[str, Any]:
    """Returns where bodies that can move are at a time, how they move, and what touches."""
    moving = [body for body in instant.scene.bodies if not body.is_fixed]
    return {
        "seconds": instant.seconds,
        "bodies": {body.name: body.course() for body in moving},
        "contacts": instant.contacts,
    }
