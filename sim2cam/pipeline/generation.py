"""Generation of a labelled dataset from a recipe and a seed, shard by shard."""

from __future__ import annotations

import itertools
import os
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
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
from sim2cam.progress import Progress, ignore_progress
from sim2cam.randomize.counterfactual import NO_INTERVENTION, Intervention
from sim2cam.randomize.domain_checks import list_label_classes
from sim2cam.render.frame import Frame
from sim2cam.render.labels.ground_truth import (
    FLOW_CHANNELS,
    compute_flow_channel,
    track_labelled_points,
)
from sim2cam.render.meshes.mesh import sample_surface_points
from sim2cam.render.renderer import BACKEND_VARIABLE, get_renderer
from sim2cam.render.sensor.auto_exposure import PreviousSettings
from sim2cam.scene.camera import Camera
from sim2cam.seeds import derive_rng

Floats = NDArray[np.float64]

_TRIAL_SAMPLES = 4
_PREVIEW_PX = 240
PREVIEW_CPU_S = 6.0
"""CPU time after which a preview starts no further scene."""

_MIN_PX = 16
_MAX_INITIAL_FAILURES = 5  # failed scenes at the start of a shard before the recipe is refused
_MAX_SHOWN = 3


@dataclass(frozen=True)
class RenderUnit:
    """A shard to render.

    Attributes:
        recipe: recipe as JSON, for other processes.
        scenes: dataset whose settled scenes are used; None to simulate scenes.
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
    workers: int = 1,
    resume: bool = False,
    overwrite: bool = False,
    progress: Progress = ignore_progress,
    change: Intervention = NO_INTERVENTION,
    scenes: Path | None = None,
) -> Dataset:
    """Generate or complete a dataset in a folder.

    Equal recipe, seed and change give equal bytes, with any number of workers and after any
    interruption. With a change, sample *i* is the counterfactual of sample *i* without it. With a
    dataset of settled scenes, nothing is simulated: this renders other channels, or images on
    another machine.

    A scene that exceeds its budget of rejections is quarantined: the dataset lacks its samples, a
    RepairWarning names it, and its shard lists it. Finished shards with damaged files, by size and
    time, are generated again.

    Args:
        change: intervention on every scene.
        scenes: folder of a dataset with the same settled scenes; None to simulate scenes.

    Raises:
        InputError: if the dataset of settled scenes has other scenes.
        OutputError: if the folder has other content, is in use, or cannot be written.
        SceneError: if no scene is valid.
        Sim2CamError: if worker processes die or hang; all other shards are finished.
        UsageError: if the change does not fit the recipe.
    """
    check_change(recipe, change)
    if scenes is not None:
        check_scenes(scenes, recipe, seed, change)
    with lock_folder(root):
        prepare_folder(
            root, _build_header(recipe, seed, change), resume=resume, overwrite=overwrite
        )
        write_environment(
            root, collect_environment(get_renderer().name, workers), expected_samples=count
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
    workers: int = 1,
    resume: bool = False,
    overwrite: bool = False,
    progress: Progress = ignore_progress,
    change: Intervention = NO_INTERVENTION,
) -> int:
    """Simulate the scenes of a dataset without images, and return their number.

    ``generate`` renders them with ``scenes``, also on a machine without physics. Arguments and
    errors are those of ``generate``.
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
    """Make missing or damaged shards."""
    missing = [unit for unit in units if _is_missing(unit, recipe)]
    count = sum(unit.count for unit in units)
    done = count - sum(unit.count for unit in missing)
    progress(done, count)

    def report(unfinished: int) -> None:
        progress(done + unfinished, count)

    for finished in map_units(make_shard, missing, workers, stall_s=STALL_S, on_items=report):
        done += finished


def _warn_quarantined(root: Path, units: Sequence[RenderUnit]) -> None:
    """Warn of quarantined scenes.

    Raises:
        SceneError: if no scene is valid.
    """
    failed = read_quarantined(root)
    if not failed:
        return
    scenes = sum(map(_count_scenes, units))
    reasons = "".join(f"\n  {scene.reason}" for scene in failed[:_MAX_SHOWN])
    more = f"\n  … and {len(failed) - _MAX_SHOWN} more" if len(failed) > _MAX_SHOWN else ""
    if not scenes:
        raise SceneError(failed[0].reason)
    warnings.warn(
        f"{root}: {len(failed)} of {scenes + len(failed)} scenes are not valid and are left out; "
        f"{QUARANTINED}.jsonl in their shards lists them:{reasons}{more}",
        RepairWarning,
        stacklevel=2,
    )


def render_preview(
    recipe: Recipe,
    root: Path,
    *,
    seed: int,
    change: Intervention = NO_INTERVENTION,
    max_cpu_s: float = PREVIEW_CPU_S,
) -> Dataset:
    """Render at most a shard of small stills: the first camera of the first scenes of ``generate``.

    Requirements are checked at full size. The only channel is keypoints, if the recipe has them.

    Args:
        max_cpu_s: CPU time after which no further scene is started.

    Raises:
        SceneError: if a scene does not come to rest.
        UsageError: if the change does not fit the recipe.
    """
    render = recipe.render
    scale = min(1.0, _PREVIEW_PX / max(render.width, render.height))
    small = replace(
        render,
        width=max(_MIN_PX, round(render.width * scale)),
        height=max(_MIN_PX, round(render.height * scale)),
        views=1,
        channels=tuple(name for name in render.channels if name == "keypoints"),
        sequence=None,
    )
    preview, full = replace(recipe, render=small), recipe.to_stills()
    prepare_folder(root, _build_header(preview, seed, change), resume=False, overwrite=False)
    scenes: list[dict[str, Any]] = []
    start_s = time.process_time()

    def render_samples() -> Iterator[NewSample]:
        for index in range(SAMPLES_PER_SHARD):
            if scenes and time.process_time() - start_s > max_cpu_s:
                return
            settled = _replace_cameras(simulate_scene(full, seed, index, change), preview)
            scenes.append(_serialize_scene(settled, preview))
            yield from _render_scene(preview, settled, seed)

    write_shard(root, 0, render_samples(), scenes)
    return read_dataset(root)


def _replace_cameras(settled: SettledScene, recipe: Recipe) -> SettledScene:
    """Return the scene at rest with the cameras of another recipe."""
    scene = replace(settled.scene, cameras=recipe.compose_scene(settled.sampled_values).cameras)
    return replace(settled, scene=scene, sequence=(replace(settled.sequence[-1], scene=scene),))


def find_unknown_instances(change: Intervention, root: Path) -> tuple[str, ...]:
    """Return the instances of a change that no scene of a dataset has."""
    names = dict.fromkeys(change.list_instances())
    for scene in read_scenes(root) if names else ():
        groups = {path.rpartition("/")[0] for path in scene.sampled_values}
        present = groups | scene.sampled_values.keys()
        names = {name: None for name in names if name not in present}
    return tuple(names)


def estimate_cost(
    recipe: Recipe, *, count: int, seed: int, workers: int, change: Intervention = NO_INTERVENTION
) -> dict[str, float]:
    """Estimate shards, seconds and gigabytes of a dataset from a few samples.

    Raises:
        SceneError: if a scene does not come to rest.
        UsageError: if the change does not fit the recipe.
    """
    trials = max(_TRIAL_SAMPLES, recipe.render.samples_per_scene)
    shards = -(-count // SAMPLES_PER_SHARD)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        get_renderer()
        start = time.monotonic()
        make_shard(RenderUnit(recipe.to_json(), seed, root, 0, trials, change))
        seconds = time.monotonic() - start
        size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
    factor = count / trials
    parallel = min(workers, shards, os.cpu_count() or 1)
    return {
        "shards": shards,
        "seconds": seconds * factor / parallel,
        "gigabytes": size * factor / 1e9,
    }


def make_shard(unit: RenderUnit) -> int:
    """Make one shard and return its number of samples."""
    recipe = Recipe.from_json(unit.recipe)
    scenes: list[dict[str, Any]] = []
    failed: list[dict[str, Any]] = []
    samples = _render_unit(recipe, unit, scenes, failed)
    write_shard(unit.root, unit.shard, samples, scenes, quarantined=failed)
    return unit.count


def _build_header(recipe: Recipe, seed: int, change: Intervention) -> dict[str, Any]:
    backend = os.environ.get(BACKEND_VARIABLE) or get_renderer().name.split(":")[0]
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
        **({"credits": recipe.collect_credits()} if recipe.collect_credits() else {}),
    } | _collect_symmetries(recipe)


def _collect_symmetries(recipe: Recipe) -> dict[str, Any]:
    """Return the symmetries of the labelled objects, if the recipe has that channel."""
    if "symmetries" not in recipe.render.channels:
        return {}
    kinds: dict[str, Any] = {
        label_class.name: {
            "categories": label_class.categories,
            "symmetries": label_class.symmetries,
            "shape_symmetries": label_class.shape_symmetries,
        }
        for label_class in list_label_classes(recipe.domain)
    }
    for asset in recipe.assets:
        if asset.mesh.category:  # assets have only symmetries of shape and colours together
            kinds[asset.name] = {
                "categories": [asset.mesh.category],
                "symmetries": asset.symmetries,
                "shape_symmetries": asset.symmetries,
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
    """Return the number of scenes of a finished shard."""
    content = read_shard_content(unit.root, unit.shard)
    return 0 if content is None else content.scenes


def _list_scene_indices(unit: RenderUnit, recipe: Recipe) -> range:
    """Return the scene indices of a shard."""
    first, per_scene = unit.shard * SAMPLES_PER_SHARD, recipe.render.samples_per_scene
    return range(first // per_scene, -(-(first + unit.count) // per_scene))


def _render_unit(
    recipe: Recipe, unit: RenderUnit, scenes: list[dict[str, Any]], failures: list[dict[str, Any]]
) -> Iterator[NewSample]:
    """Yield the samples of a shard; append records of valid and of failed scenes.

    Raises:
        SceneError: if the first scenes all fail.
    """
    per_scene, finished = recipe.render.samples_per_scene, 0
    end = unit.shard * SAMPLES_PER_SHARD + unit.count
    for scene_index in _list_scene_indices(unit, recipe):
        send_heartbeat(finished)
        count = min(per_scene, end - scene_index * per_scene)
        try:
            settled = _get_settled_scene(recipe, unit, scene_index)
        except SceneError as error:
            failures.append(asdict(QuarantinedScene(scene_index, count, str(error))))
            if len(failures) == _MAX_INITIAL_FAILURES and not scenes:
                raise
            finished += count
            continue
        scenes.append(_serialize_scene(settled, recipe))
        if not unit.render_images:
            finished += count
            continue
        for sample in itertools.islice(_render_scene(recipe, settled, unit.seed), count):
            yield sample  # written when the consumer asks for the next one
            finished += 1
            send_heartbeat(finished)


def _get_settled_scene(recipe: Recipe, unit: RenderUnit, index: int) -> SettledScene:
    if unit.scenes is not None:
        return read_settled_scene(unit.scenes, recipe, index)
    return simulate_scene(recipe, unit.seed, index, unit.change)


def _render_scene(recipe: Recipe, settled: SettledScene, seed: int) -> Iterator[NewSample]:
    """Yield the samples of a scene, camera by camera."""
    points = _sample_track_points(recipe, settled, seed)
    if len(settled.sequence) == 1:
        with get_renderer().open(settled.sequence[0].scene) as stage:
            for view in range(recipe.render.views):
                frame = stage.shoot(stage.scene.cameras[view], recipe.render.channels)
                yield _build_sample(recipe, settled, view, 0, (None, frame, None), points)
        return
    for view in range(recipe.render.views):
        for number, neighbours in enumerate(
            _iterate_neighbours(_render_sequence(recipe, settled, view))
        ):
            yield _build_sample(recipe, settled, view, number, neighbours, points)


def render_view(recipe: Recipe, settled: SettledScene, view: int) -> Frame:
    """Return the frame of one camera at rest; in sequences, the last frame."""
    *_, frame = _render_sequence(recipe, settled, view)
    return frame


def _sample_track_points(recipe: Recipe, settled: SettledScene, seed: int) -> dict[str, Floats]:
    """Return the tracked points (n, 3) of each labelled body, in its own frame."""
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
    """Yield each frame with the frames before and after it, holding three frames at most."""
    previous, current = None, next(frames)
    for following in frames:
        yield previous, current, following
        previous, current = current, following
    yield previous, current, None


def _render_sequence(recipe: Recipe, settled: SettledScene, view: int) -> Iterator[Frame]:
    """Yield the frames of one camera; auto exposure and white balance follow the earlier frames."""
    previous: PreviousSettings | None = None
    for instant, following in itertools.zip_longest(settled.sequence, settled.sequence[1:]):
        with get_renderer().open(instant.scene) as stage:
            frame = stage.shoot(stage.scene.cameras[view], recipe.render.channels, previous)
        yield frame
        if following:
            previous = PreviousSettings(frame.auto_settings, following.seconds - instant.seconds)


def _build_sample(
    recipe: Recipe,
    settled: SettledScene,
    view: int,
    frame_number: int,
    neighbours: tuple[Frame | None, Frame, Frame | None],
    track_points: Mapping[str, Floats],
) -> NewSample:
    previous, frame, following = neighbours
    camera = frame.view.camera
    flows = {
        name: compute_flow_channel(frame.view, neighbour.view)
        for name, neighbour in zip(FLOW_CHANNELS, (previous, following), strict=True)
        if neighbour is not None and name in recipe.render.channels
    }
    metadata: dict[str, Any] = {
        "scene_index": settled.index,
        "view": view,
        "lens": camera.lens,
        "depth_along": camera.lens.depth_along,
    }
    if len(settled.sequence) > 1 or camera.shutter or camera.twist:
        metadata["frame_info"] = _build_frame_info(
            camera, frame_number, settled.sequence[frame_number].seconds
        )
    if len(settled.sequence) > 1:
        settings = frame.auto_settings
        metadata["gains"] = CameraGains(
            exposure=settings.gain, red=settings.red_gain, blue=settings.blue_gain
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
        metadata=metadata
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


def _build_frame_info(camera: Camera, frame_number: int, seconds: float) -> FrameInfo:
    return FrameInfo(
        frame_index=frame_number,
        first_row_s=seconds + float(camera.compute_row_times_s()[0]),
        row_s=camera.get_row_delay_s(),
        exposure_s=camera.shutter.exposure_s if camera.shutter else 0.0,
        camera_pose=camera.pose,
        twist=camera.get_motion().twist.express_in(camera.pose),
    )


def _drop_missing(**fields: object) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}


def _serialize_scene(settled: SettledScene, recipe: Recipe) -> dict[str, Any]:
    """Return the record of a scene, with files by their names in the recipe."""
    record: dict[str, Any] = {
        "scene_index": settled.index,
        "attempt": settled.attempt,
        "rejections": list(settled.rejections),
        "certificate": asdict(settled.certificate),
        "sampled_values": dict(settled.sampled_values.values),
        "scene": settled.scene.replace_paths(recipe.map_file_names()),
    }
    if settled.counterfactual:
        record["counterfactual"] = settled.counterfactual
    if settled.requirement_values:
        record["requirement_values"] = dict(settled.requirement_values)
    if len(settled.sequence) > 1:
        record["sequence"] = [_serialize_instant(instant) for instant in settled.sequence]
    return record


def _serialize_instant(instant: Instant) -> dict[str, Any]:
    """Return the poses and velocities of movable bodies at a time, and the contacts."""
    movable = [body for body in instant.scene.bodies if not body.is_fixed]
    return {
        "seconds": instant.seconds,
        "bodies": {body.name: body.get_motion() for body in movable},
        "contacts": instant.contacts,
    }
