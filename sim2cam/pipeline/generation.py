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

from sim2cam.data.card import build_card, write_card
from sim2cam.data.environment import collect_environment
from sim2cam.data.reader import read_dataset, read_scenes
from sim2cam.data.sample import CameraGains, Dataset, FrameInfo, RawFormat
from sim2cam.data.shards import QuarantinedScene, read_quarantined, read_shard_content
from sim2cam.data.writer import (
    FORMAT_VERSION,
    QUARANTINED,
    SAMPLES_PER_SHARD,
    NewSample,
    prepare_folder,
    write_environment,
    write_shard,
)
from sim2cam.engines.process_pool import STALL_S, map_units, send_heartbeat
from sim2cam.errors import RepairWarning, SceneError
from sim2cam.files import lock_folder
from sim2cam.pipeline.recipe import Recipe
from sim2cam.pipeline.scene_records import check_scenes, read_settled_scene
from sim2cam.pipeline.scene_sampling import Instant, SettledScene, check_change, simulate_scene
from sim2cam.randomize.counterfactual import NO_INTERVENTION, Intervention
from sim2cam.randomize.limits import list_categories
from sim2cam.render.frame import (
    FLOW_CHANNELS,
    Frame,
    compute_flow_channel,
    shoot,
    track_labelled_points,
)
from sim2cam.render.meshes.mesh import sample_surface_points
from sim2cam.render.rasterizer import BACKEND_VARIABLE, get_rasterizer
from sim2cam.render.sensor.auto_exposure import PreviousSettings
from sim2cam.scene.camera import Camera
from sim2cam.scene.shape import DIE_FACE_NORMALS
from sim2cam.scene.symmetry import OBJECT_KINDS
from sim2cam.seeds import derive_rng

Floats = NDArray[np.float64]

_TRIAL_SAMPLES = 4
_PREVIEW_PX = 400
_MIN_PX = 16
_MAX_INITIAL_FAILURES = 5  # first scenes of a shard, after which the recipe is to blame
_MAX_SHOWN = 3

Progress = Callable[[int, int], None]
"""Called with samples done and samples in all."""


@dataclass(frozen=True)
class RenderUnit:
    """One shard to be made; with the recipe as JSON, so that it travels to another process.

    Attributes:
        change: of every scene.
        scenes: data set whose settled scenes are taken; None settles them.
        render_images: whether they are rendered too.
    """

    recipe: str
    seed: int
    root: Path
    shard: int
    count: int
    change: Intervention = NO_INTERVENTION
    scenes: Path | None = None
    render_images: bool = True


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
    change: Intervention = NO_INTERVENTION,
    scenes: Path | None = None,
) -> Dataset:
    """Return the data set of ``count`` samples, made or completed in the folder ``root``.

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
    with lock_folder(root):
        prepare_folder(
            root, _build_header(recipe, seed, change), resume=resume, overwrite=overwrite
        )
        write_environment(
            root, collect_environment(get_rasterizer().name, workers), expected_samples=count
        )
        units = _split_units(recipe, root, count, seed, change, scenes)
        _make_shards(recipe, units, workers, progress)
        _warn_quarantined(root, units)
        dataset = read_dataset(root)
        write_card(build_card(dataset), root)
    return dataset


def simulate_scenes(
    recipe: Recipe,
    root: Path,
    *,
    count: int,
    seed: int,
    workers: int,
    resume: bool,
    overwrite: bool,
    progress: Progress,
    change: Intervention = NO_INTERVENTION,
) -> int:
    """Return how many scenes there are, settled, in the folder ``root``: those of ``count`` samples, without
    their pictures, which ``generate`` makes of it as ``scenes``, here or on a machine without physics.

    Arguments and errors are those of ``generate``.
    """
    check_change(recipe, change)
    with lock_folder(root):
        prepare_folder(
            root, _build_header(recipe, seed, change), resume=resume, overwrite=overwrite
        )
        units = _split_units(recipe, root, count, seed, change, None)
        _make_shards(
            recipe, [replace(unit, render_images=False) for unit in units], workers, progress
        )
        _warn_quarantined(root, units)
        return sum(map(_count_scenes, units))


def _make_shards(
    recipe: Recipe, units: Sequence[RenderUnit], workers: int, progress: Progress
) -> None:
    """Make the shards that are missing or damaged."""
    missing = [unit for unit in units if _is_missing(unit, recipe)]
    count = sum(unit.count for unit in units)
    done = count - sum(unit.count for unit in missing)
    progress(done, count)
    for finished in map_units(make_shard, missing, workers, stall_s=STALL_S):
        done += finished
        progress(done, count)


def _warn_quarantined(root: Path, units: Sequence[RenderUnit]) -> None:
    """Warn of scenes that could not be made.

    Raises:
        SceneError: none could.
    """
    failed = read_quarantined(root)
    if not failed:
        return
    scenes = sum(map(_count_scenes, units))
    reasons = "".join(f"\n  {one.reason}" for one in failed[:_MAX_SHOWN])
    more = f"\n  … and {len(failed) - _MAX_SHOWN} more" if len(failed) > _MAX_SHOWN else ""
    if not scenes:
        raise SceneError(failed[0].reason)
    warnings.warn(
        f"{root}: {len(failed)} of {scenes + len(failed)} scenes could not be made and are left out; "
        f"{QUARANTINED}.jsonl of their shards lists them:{reasons}{more}",
        RepairWarning,
        stacklevel=2,
    )


def render_preview(
    recipe: Recipe, root: Path, *, seed: int, change: Intervention = NO_INTERVENTION
) -> Dataset:
    """Return a data set of one shard of small stills in the folder ``root``: what the first camera
    sees of the first scenes that ``generate`` makes, which are held to what is required at full size.

    Raises:
        SceneError: a scene cannot be settled.
        UsageError: a change of what the recipe does not have.
    """
    render = recipe.render
    scale = min(1.0, _PREVIEW_PX / max(render.width, render.height))
    small = replace(
        render,
        width=max(_MIN_PX, round(render.width * scale)),
        height=max(_MIN_PX, round(render.height * scale)),
        views=1,
        channels=(),
        sequence=None,
    )
    shrunk, full = replace(recipe, render=small), recipe.to_stills()
    prepare_folder(root, _build_header(shrunk, seed, change), resume=False, overwrite=False)
    scenes: list[dict[str, Any]] = []

    def render_samples() -> Iterator[NewSample]:
        for index in range(SAMPLES_PER_SHARD):
            settled = _replace_cameras(simulate_scene(full, seed, index, change), shrunk)
            scenes.append(_serialize_scene(settled, shrunk))
            yield from _render_scene(shrunk, settled, seed)

    write_shard(root, 0, render_samples(), scenes)
    return read_dataset(root)


def _replace_cameras(settled: SettledScene, recipe: Recipe) -> SettledScene:
    """Return a scene at rest with cameras of a recipe's size."""
    scene = replace(settled.scene, cameras=recipe.compose_scene(settled.sampled_values).cameras)
    return replace(settled, scene=scene, sequence=(replace(settled.sequence[-1], scene=scene),))


def find_unknown_instances(change: Intervention, root: Path) -> tuple[str, ...]:
    """Return what a change names that none of the scenes of a data set has."""
    names = dict.fromkeys(change.list_instances())
    for scene in read_scenes(root) if names else ():
        there = {
            path.rpartition("/")[0] for path in scene.sampled_values
        } | scene.sampled_values.keys()
        names = {name: None for name in names if name not in there}
    return tuple(names)


def estimate_cost(
    recipe: Recipe, *, count: int, seed: int, workers: int, change: Intervention = NO_INTERVENTION
) -> dict[str, float]:
    """Return shards, seconds and gigabytes that a data set would take, from a few trial samples.

    Raises:
        SceneError: a scene cannot be settled.
        UsageError: a change of what the recipe does not have.
    """
    trials = max(_TRIAL_SAMPLES, recipe.render.samples_per_scene)
    shards = -(-count // SAMPLES_PER_SHARD)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        get_rasterizer()
        start = time.monotonic()
        make_shard(RenderUnit(recipe.to_json(), seed, root, 0, trials, change))
        seconds = time.monotonic() - start
        size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
    share = count / trials
    at_once = min(workers, shards, os.cpu_count() or 1)
    return {
        "shards": shards,
        "seconds": seconds * share / at_once,
        "gigabytes": size * share / 1e9,
    }


def make_shard(unit: RenderUnit) -> int:
    """Make one shard and returns its number of samples."""
    recipe = Recipe.from_json(unit.recipe)
    scenes: list[dict[str, Any]] = []
    failed: list[dict[str, Any]] = []
    samples = _render_unit(recipe, unit, scenes, failed)
    write_shard(unit.root, unit.shard, samples, scenes, quarantined=failed)
    return unit.count


def _build_header(recipe: Recipe, seed: int, change: Intervention) -> dict[str, Any]:
    backend = os.environ.get(BACKEND_VARIABLE) or get_rasterizer().name.split(":")[0]
    return {
        "format": FORMAT_VERSION,
        "origin": "sim",
        "recipe": recipe.collect_rendering_settings(),
        "recipe_digest": recipe.digest(),
        "seed": seed,
        "backend": backend,
        "categories": recipe.categories,
        "samples_per_shard": SAMPLES_PER_SHARD,
        **({"change": change} if change else {}),
        **({"licences": recipe.collect_licences()} if recipe.collect_licences() else {}),
    } | _collect_symmetries(recipe)


def _collect_symmetries(recipe: Recipe) -> dict[str, Any]:
    """Return those of the kinds of object that the recipe labels, where it asks for them."""
    if "symmetries" not in recipe.render.channels:
        return {}
    kinds: dict[str, Any] = {}
    shown = {"die": tuple(sorted(DIE_FACE_NORMALS))} if recipe.domain.die is not None else {}
    for name, categories in (shown | list_categories(recipe.domain)).items():
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


def _split_units(
    recipe: Recipe, root: Path, count: int, seed: int, change: Intervention, scenes: Path | None
) -> list[RenderUnit]:
    text, size = recipe.to_json(), SAMPLES_PER_SHARD
    return [
        RenderUnit(text, seed, root, first // size, min(size, count - first), change, scenes)
        for first in range(0, count, size)
    ]


def _is_missing(unit: RenderUnit, recipe: Recipe) -> bool:
    content = read_shard_content(unit.root, unit.shard)
    if content is None:
        return True
    scenes = content.scenes + len(content.quarantined)
    is_short = unit.render_images and not content.is_complete(unit.count)
    return is_short or scenes < len(_list_scene_indices(unit, recipe))


def _count_scenes(unit: RenderUnit) -> int:
    """Return how many scenes a finished shard has."""
    content = read_shard_content(unit.root, unit.shard)
    return 0 if content is None else content.scenes


def _list_scene_indices(unit: RenderUnit, recipe: Recipe) -> range:
    """Return the scenes of a shard."""
    first, per_scene = unit.shard * SAMPLES_PER_SHARD, recipe.render.samples_per_scene
    return range(first // per_scene, -(-(first + unit.count) // per_scene))


def _render_unit(
    recipe: Recipe, unit: RenderUnit, scenes: list[dict[str, Any]], failures: list[dict[str, Any]]
) -> Iterator[NewSample]:
    """Yield the samples of a shard, and fill in the records of scenes that are made and of those that fail.

    Raises:
        SceneError: the first scenes fail, one after another.
    """
    per_scene = recipe.render.samples_per_scene
    past = unit.shard * SAMPLES_PER_SHARD + unit.count
    for scene_index in _list_scene_indices(unit, recipe):
        send_heartbeat()
        count = min(per_scene, past - scene_index * per_scene)
        try:
            settled = _get_settled_scene(recipe, unit, scene_index)
        except SceneError as error:
            failures.append(asdict(QuarantinedScene(scene_index, count, str(error))))
            if len(failures) == _MAX_INITIAL_FAILURES and not scenes:
                raise
            continue
        scenes.append(_serialize_scene(settled, recipe))
        if not unit.render_images:
            continue
        for sample in itertools.islice(_render_scene(recipe, settled, unit.seed), count):
            send_heartbeat()
            yield sample


def _get_settled_scene(recipe: Recipe, unit: RenderUnit, index: int) -> SettledScene:
    if unit.scenes is not None:
        return read_settled_scene(unit.scenes, recipe, index)
    return simulate_scene(recipe, unit.seed, index, unit.change)


def _render_scene(recipe: Recipe, settled: SettledScene, seed: int) -> Iterator[NewSample]:
    """Yield the samples of a scene, one camera's film after another's."""
    points = _sample_track_points(recipe, settled, seed)
    for view in range(recipe.render.views):
        for number, neighbours in enumerate(
            _iterate_neighbours(_render_frames(recipe, settled, view))
        ):
            yield _build_sample(recipe, settled, view, number, neighbours, points)


def _sample_track_points(recipe: Recipe, settled: SettledScene, seed: int) -> dict[str, Floats]:
    """Return the points (n, 3) of each labelled body that are followed, in its own frame."""
    count = recipe.render.sequence.track_count if recipe.render.sequence else 0
    streams = {
        body: derive_rng(
            seed, f"tracks/{body.name}", scene_index=settled.index, attempt=settled.attempt
        )
        for body in settled.scene.bodies
        if body.is_target and count
    }
    return {
        body.name: sample_surface_points(body.asset, count, rng) for body, rng in streams.items()
    }


def _iterate_neighbours(
    frames: Iterator[Frame],
) -> Iterator[tuple[Frame | None, Frame, Frame | None]]:
    """Yield each frame between the one before and the one after it, no more of them at a time."""
    before, now = None, next(frames)
    for after in frames:
        yield before, now, after
        before, now = now, after
    yield before, now, None


def _render_frames(recipe: Recipe, settled: SettledScene, view: int) -> Iterator[Frame]:
    """Yield the frames of one camera's film, whose automatics follow the light."""
    earlier: PreviousSettings | None = None
    for instant, following in itertools.zip_longest(settled.sequence, settled.sequence[1:]):
        scene = instant.scene
        if view == 0 or len(settled.sequence) > 1:
            get_rasterizer().load(scene)
        frame = shoot(scene, scene.cameras[view], get_rasterizer(), recipe.render.channels, earlier)
        yield frame
        if following:
            earlier = PreviousSettings(frame.auto_settings, following.seconds - instant.seconds)


def _build_sample(
    recipe: Recipe,
    settled: SettledScene,
    view: int,
    frame_number: int,
    neighbours: tuple[Frame | None, Frame, Frame | None],
    track_points: Mapping[str, Floats],
) -> NewSample:
    before, frame, after = neighbours
    camera = frame.view.camera
    flows = {
        name: compute_flow_channel(frame.view, other.view)
        for name, other in zip(FLOW_CHANNELS, (before, after), strict=True)
        if other is not None and name in recipe.render.channels
    }
    facts: dict[str, Any] = {
        "scene_index": settled.index,
        "view": view,
        "lens": camera.lens,
        "depth_along": camera.lens.depth_along,
    }
    if len(settled.sequence) > 1 or camera.shutter or camera.twist:
        facts["frame_info"] = _build_moment(
            camera, frame_number, settled.sequence[frame_number].seconds
        )
    if len(settled.sequence) > 1:
        chosen = frame.auto_settings
        facts["gains"] = CameraGains(
            exposure=chosen.gain, red=chosen.red_gain, blue=chosen.blue_gain
        )
    return NewSample(
        index=settled.index * recipe.render.samples_per_scene
        + view * len(settled.sequence)
        + frame_number,
        image_bytes=frame.image,
        width=camera.width,
        height=camera.height,
        origin="sim",
        objects=frame.objects,
        channels={**frame.channels, **flows},
        right_image_bytes=frame.right,
        metadata=facts
        | _drop_missing(
            occlusions=frame.occlusions,
            depth_unit_m=camera.depth_camera and camera.depth_camera.depth_unit_m,
            baseline_m=camera.baseline_m,
            raw_format=_build_raw_format(camera) if "raw" in frame.channels else None,
        ),
        tracks=track_labelled_points(track_points, frame.view) if track_points else None,
    )


def _build_raw_format(camera: Camera) -> RawFormat | None:
    mosaic = camera.sensor.mosaic
    if mosaic is None:
        return None
    return RawFormat(mosaic.pattern, mosaic.black_level(), mosaic.white_level())


def _build_moment(camera: Camera, frame_number: int, seconds: float) -> FrameInfo:
    return FrameInfo(
        frame_index=frame_number,
        first_row_s=seconds + float(camera.compute_row_times_s()[0]),
        row_s=camera.get_row_delay_s(),
        exposure_s=camera.shutter.exposure_s if camera.shutter else 0.0,
        camera_pose=camera.pose,
        twist=camera.get_motion().twist.express_in(camera.pose),
    )


def _drop_missing(**facts: object) -> dict[str, object]:
    return {name: value for name, value in facts.items() if value is not None}


def _serialize_scene(settled: SettledScene, recipe: Recipe) -> dict[str, Any]:
    """Return what is recorded of a scene; files go by their names in the recipe."""
    facts: dict[str, Any] = {
        "scene_index": settled.index,
        "attempt": settled.attempt,
        "rejections": list(settled.rejections),
        "certificate": asdict(settled.certificate),
        "sampled_values": dict(settled.sampled_values.values),
        "scene": settled.scene.replace_paths(recipe.map_file_names()),
    }
    if settled.counterfactual:
        facts["counterfactual"] = settled.counterfactual
    if settled.requirement_values:
        facts["requirement_values"] = dict(settled.requirement_values)
    if len(settled.sequence) > 1:
        facts["sequence"] = [_serialize_instant(instant) for instant in settled.sequence]
    return facts


def _serialize_instant(instant: Instant) -> dict[str, Any]:
    """Return where bodies that can move are at a time, how they move, and what touches."""
    moving = [body for body in instant.scene.bodies if not body.is_fixed]
    return {
        "seconds": instant.seconds,
        "bodies": {body.name: body.get_motion() for body in moving},
        "contacts": instant.contacts,
    }
