"""Benchmarking of poses: a detector's, or estimates in a file, against a data set of BOP."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.assets.mesh_files.reader import read_solids
from sim2cam.data.formats.bop.files import names_of
from sim2cam.data.formats.bop.poses import (
    ModelEntry,
    PoseResult,
    PoseView,
    place_of,
    read_models,
    read_pose_results,
    read_views,
    scored_scenes,
)
from sim2cam.data.formats.bop.reader import is_bop, read_bop
from sim2cam.errors import InputError
from sim2cam.geometry.central_lens import CentralLens
from sim2cam.metrics.poses import (
    Placings,
    PoseModel,
    PoseScore,
    Sought,
    evaluate_poses,
    judge_poses,
)
from sim2cam.metrics.resampling import Units, grouped
from sim2cam.metrics.surface_discrepancy import TAUS, depth_of, discrepancies
from sim2cam.models.inference.detections import Prediction
from sim2cam.models.inference.detector import AnyDetector, look
from sim2cam.models.inference.poses import NO_SHAPES, check_poses, placed
from sim2cam.seeds import stream

Floats = NDArray[np.float64]

_MAX_FACES = 10_000_000
_METRE = 1e-3  # meshes of BOP are in millimetres
_FAR_NEARER = 100
"""How many times nearer than what is sought poses lie that are taken for metres: those lie a thousand times nearer."""


@dataclass(frozen=True)
class PoseBench:
    """How good estimated poses are.

    Attributes:
        score: with 95 % intervals.
        views: the pictures in which something is sought.
        placings: how well each instance in them was found.
        scored: how many estimates were looked at: as many of an object in an image as are sought.
        left_out: how many were not, as nothing of their kind is sought or surer ones are enough.
        empty: how many of the pictures have no estimate at all.
        seconds: that an image took, on average; None where a line does not say it.
        in_metres: whether estimates look like metres, of which BOP knows nothing.
    """

    score: PoseScore
    views: tuple[PoseView, ...]
    placings: tuple[Placings, ...]
    scored: int
    left_out: int
    empty: int
    seconds: float | None
    in_metres: bool

    def to_json(self) -> dict[str, Any]:
        """Returns the numbers and counts as JSON values."""
        return self.score.to_json() | {
            "scored": self.scored,
            "left_out": self.left_out,
            "images_without": self.empty,
            "seconds_per_image": self.seconds,
        }


@dataclass(frozen=True, eq=False)
class PoseTask:
    """What poses are scored against: the test part of a BOP data set.

    Attributes:
        captures: folder of the data set.
        views: the pictures in which something is sought.
        models: of what is sought, by the object's number.
    """

    captures: Path
    views: tuple[PoseView, ...]
    models: Mapping[int, PoseModel]

    @property
    def units(self) -> Units:
        """What intervals are over."""
        return units_of_views(self.views)

    @property
    def with_depth(self) -> int:
        """How many pictures have depth, which VSD takes of all."""
        return sum(bool(view.depth) for view in self.views)


def read_task(captures: Path, *, limit: int | None = None) -> PoseTask:
    """Returns what poses are scored against.

    Args:
        captures: folder of a BOP data set, with the meshes of its objects.
        limit: only so many images count; all without.

    Raises:
        InputError: a file is missing, broken or contradicts another, or nothing is sought.
    """
    scenes = pose_scenes(captures)
    views, entries = read_views(scenes)[:limit], read_models(scenes)
    if not any(view.truths for view in views):
        raise InputError(captures, "shows no object that is seen well enough to be sought.")
    return PoseTask(captures, views, _models(captures, entries, views))


def bench_poses(
    results: Path, task: PoseTask, *, progress: Callable[[int, int], None] | None = None
) -> PoseBench:
    """Returns how good estimated poses are.

    Args:
        results: CSV file as of BOP's challenge of 2019.
        task: what they are scored against.
        progress: is told how many images of how many are done.

    Raises:
        InputError: a file is missing, broken or contradicts another, or nothing is sought.
    """
    estimates = read_pose_results(results)
    sought = sought_in(results, estimates, task, progress=progress)
    scored = sum(len(one.found) for one in sought)
    placings = tuple(map(judge_poses, sought))
    score = evaluate_poses(placings, task.units, rng=stream(0, "bench"))
    answered = {(one.scene_id, one.image_id) for one in estimates}
    return PoseBench(
        score,
        task.views,
        placings,
        scored,
        left_out=len(estimates) - scored,
        empty=sum((view.scene_id, view.image_id) not in answered for view in task.views),
        seconds=_seconds(estimates),
        in_metres=_look_like_metres(sought),
    )


def _look_like_metres(sought: Sequence[Sought]) -> bool:
    """Returns whether estimates lie so much nearer to the camera than what is sought that metres were written."""
    found, true = (
        np.linalg.norm(np.concatenate([getattr(one, side)[:, :3, 3] for one in sought]), axis=1)
        for side in ("found", "truths")
    )
    return bool(len(found)) and bool(_FAR_NEARER * np.median(found) < np.median(true))


def sought_in(
    results: Path,
    estimates: Sequence[PoseResult],
    task: PoseTask,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> list[Sought]:
    """Returns all that is sought, each with what was found of it.

    Args:
        results: file of the estimates, for the errors.
        estimates: that it holds.
        task: what they are held against.
        progress: is told how many images of how many are done.

    Raises:
        InputError: the estimates are of another data set, or a depth picture is broken.
    """
    by_place = _by_place(estimates)
    if estimates and not any(
        (v.scene_id, v.image_id, o) in by_place for v in task.views for o in v.truths
    ):
        raise InputError(
            results,
            f"has no pose of an object that is sought in {task.captures}. It is of another data set.",
        )
    has_depth = task.with_depth == len(task.views)
    sought = []
    for number, view in enumerate(task.views):
        for object_id, truths in view.truths.items():
            found = by_place.get((view.scene_id, view.image_id, object_id), [])[: len(truths)]
            poses = np.array([one.pose for one in found]).reshape(-1, 4, 4)
            model = task.models[object_id]
            vsd = _discrepancies(view, model, truths, poses) if has_depth else None
            sought.append(Sought(number, model, view.camera, view.width, truths, poses, vsd))
        if progress is not None:
            progress(number + 1, len(task.views))
    return sought


@dataclass(frozen=True, eq=False)
class PosesFound:
    """What a detector finds in the test part of a BOP data set.

    Attributes:
        poses: of all pictures.
        seen: what it says of them, short of surfaces, by the pictures' files.
    """

    poses: tuple[PoseResult, ...]
    seen: Mapping[Path, Prediction]


def estimate_poses(
    detector: AnyDetector,
    captures: Path,
    *,
    renamed: Mapping[str, str] | None = None,
    shapes: Mapping[str, Floats] = NO_SHAPES,
    limit: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> PosesFound:
    """Returns the poses that a detector finds in the test part of a BOP data set.

    Of each object as many as are sought in a picture, the surest of those that have a pose.

    Args:
        detector: trained with poses.
        captures: folder of the data set.
        renamed: category of the captures -> category of the detector, where the names differ.
        shapes: as ``placed`` takes them.
        limit: only so many images; all that ``read_task`` has without.
        progress: is told how many images of how many are done.

    Raises:
        UsageError: the detector finds no poses.
        InputError: no BOP data set, a file is missing or broken, or several objects of one category.
    """
    check_poses(detector)
    scenes = pose_scenes(captures)
    views = read_views(scenes)[:limit]
    numbers = _numbers(captures, names_of(scenes), renamed or {}, detector.card.categories)
    read = (part for scene in scenes for part in read_bop(scene, "real").values())
    samples = {place_of(sample): sample for part in read for sample in part.samples}
    results: list[PoseResult] = []
    predictions: dict[Path, Prediction] = {}
    for done, view in enumerate(views, 1):
        sample = samples[view.scene_id, view.image_id]
        assert sample.lens is not None  # of every image of BOP
        rgb = images.read_rgb(sample.rgb)
        start = time.perf_counter()
        seen = look(detector, rgb)
        found = _found(view, seen, numbers, rgb, sample.lens, shapes)
        seconds = time.perf_counter() - start
        results += [replace(one, seconds=seconds) for one in found]
        predictions[sample.rgb] = replace(seen, surfaces=None)  # which would fill the memory
        if progress is not None:
            progress(done, len(views))
    return PosesFound(tuple(results), predictions)


def _found(
    view: PoseView,
    seen: Prediction,
    numbers: Mapping[str, int],
    rgb: NDArray[np.uint8],
    lens: CentralLens,
    shapes: Mapping[str, Floats],
) -> list[PoseResult]:
    """Returns the poses of what is sought in a picture, surest first; what they took is not known yet."""
    assert seen.surfaces is not None  # of all that a detector with objects finds
    left = Counter({number: len(truths) for number, truths in view.truths.items()})
    results = []
    for one, surface in zip(seen.detections, seen.surfaces, strict=True):
        number = numbers.get(one.category)
        if number is None or not left[number]:
            continue
        pose = placed(one, surface, rgb, lens, shapes).pose
        if pose is not None:
            left[number] -= 1
            place = view.scene_id, view.image_id, number
            results.append(PoseResult(*place, one.score, pose.matrix(), -1.0))
    return results


def pose_scenes(captures: Path) -> list[Path]:
    """Returns the folders of the scenes that poses are scored on.

    Args:
        captures: folder of a BOP data set.

    Raises:
        InputError: it is none, or has no test part.
    """
    if not is_bop(captures):
        raise InputError(
            captures,
            "no BOP data set, which poses are scored on. Check the path, or write one with sim2cam "
            "export --format bop.",
        )
    return scored_scenes(captures)


def units_of_views(views: Sequence[PoseView]) -> Units:
    """Returns what intervals are over: BOP's scenes, where these are enough, or else pictures."""
    return grouped("scenes", [view.scene_id for view in views])


def _numbers(
    captures: Path, names: Mapping[int, str], renamed: Mapping[str, str], known: Sequence[str]
) -> dict[str, int]:
    """Returns the objects' numbers by the detector's categories; those that it does not know are none."""
    found: dict[str, int] = {}
    for number, name in names.items():
        category = renamed.get(name, name)
        if category in known and found.setdefault(category, number) != number:
            raise InputError(
                captures,
                f"objects {found[category]} and {number} are both '{category}', so a pose of one does "
                "not say of which. Score poses in a file (.csv), which has numbers.",
            )
    return found


def _by_place(estimates: Sequence[PoseResult]) -> Mapping[tuple[int, int, int], list[PoseResult]]:
    """Returns the estimates by scene, image and object, surest first."""
    found: dict[tuple[int, int, int], list[PoseResult]] = defaultdict(list)
    for one in sorted(estimates, key=lambda one: -one.score):
        found[one.scene_id, one.image_id, one.object_id].append(one)
    return dict(found)


def _models(
    captures: Path, entries: Mapping[int, ModelEntry], views: Sequence[PoseView]
) -> dict[int, PoseModel]:
    """Returns the objects that are sought, by their numbers."""
    models = {}
    for number in sorted({number for view in views for number in view.truths}):
        if number not in entries:
            raise InputError(
                captures, f"object {number} is sought, but models_info.json does not have it."
            )
        models[number] = _model(entries[number])
    return models


def _model(entry: ModelEntry) -> PoseModel:
    solids, _ = read_solids(entry.mesh, _MAX_FACES, colored=False)
    first = np.cumsum([0, *(len(solid.vertices) for solid in solids)])
    return PoseModel(
        entry.name,
        np.concatenate([np.asarray(solid.vertices, np.float64) for solid in solids]) * _METRE,
        np.concatenate([np.asarray(s.faces) + at for s, at in zip(solids, first, strict=False)]),
        entry.diameter_m,
        entry.symmetries,
    )


def _discrepancies(view: PoseView, model: PoseModel, truths: Floats, found: Floats) -> Floats:
    """Returns the VSD (n, m, taus) of found poses (n, 4, 4) to true ones (m, 4, 4)."""
    assert view.depth is not None
    measured = images.read_16bit(view.depth).astype(np.float64) * view.depth_unit_m
    if measured.shape != (view.height, view.width):
        raise InputError(
            view.depth, f"is not of {view.width}x{view.height} pixels, as its picture."
        )
    triangles = model.points_m[model.triangles]
    drawn = [
        [depth_of(triangles, pose, view.camera, view.width, view.height) for pose in poses]
        for poses in (truths, found)
    ]
    table = [
        [discrepancies(measured, t, f, view.camera, model.diameter_m) for t in drawn[0]]
        for f in drawn[1]
    ]
    return np.array(table, np.float64).reshape(len(found), len(truths), len(TAUS))


def _seconds(estimates: Sequence[PoseResult]) -> float | None:
    times = {(one.scene_id, one.image_id): one.seconds for one in estimates}
    known = [seconds for seconds in times.values() if seconds >= 0]
    return float(np.mean(known)) if known and len(known) == len(times) else None
