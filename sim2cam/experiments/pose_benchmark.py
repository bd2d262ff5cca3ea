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
from sim2cam.data.formats.bop.files import read_category_names
from sim2cam.data.formats.bop.poses import (
    BopModel,
    PoseEstimate,
    PoseImage,
    find_test_scenes,
    get_bop_ids,
    read_bop_models,
    read_pose_images,
    read_pose_results,
)
from sim2cam.data.formats.bop.reader import is_bop, read_bop
from sim2cam.errors import InputError
from sim2cam.geometry.central_lens import CentralLens
from sim2cam.metrics.poses import (
    PoseEvaluationModel,
    PoseMatches,
    PoseMetrics,
    PoseTarget,
    evaluate_poses,
    match_pose_target,
)
from sim2cam.metrics.resampling import ResamplingUnits, make_group_units
from sim2cam.metrics.surface_discrepancy import VSD_TAUS, compute_vsd, rasterize_depth
from sim2cam.models.inference.detections import Prediction
from sim2cam.models.inference.detector import AnyDetector, predict_image
from sim2cam.models.inference.poses import NO_MESHES, check_poses, estimate_pose
from sim2cam.seeds import derive_rng

Floats = NDArray[np.float64]

_MAX_FACES = 10_000_000
_METRES_PER_MM = 1e-3  # meshes of BOP are in millimetres
_METRES_RATIO = 100
"""How many times nearer than what is sought poses lie that are taken for metres: those lie a thousand times nearer."""


@dataclass(frozen=True)
class PoseBenchResult:
    """How good estimated poses are.

    Attributes:
        score: with 95 % intervals.
        views: the pictures in which something is sought.
        placings: how well each instance in them was found.
        scored_count: how many estimates were looked at: as many of an object in an image as are sought.
        ignored_count: how many were not, as nothing of their kind is sought or surer ones are enough.
        images_without_poses: how many of the pictures have no estimate at all.
        seconds_per_image: that an image took, on average; None where a line does not say it.
        in_metres: whether estimates look like metres, of which BOP knows nothing.
    """

    score: PoseMetrics
    views: tuple[PoseImage, ...]
    placings: tuple[PoseMatches, ...]
    scored_count: int
    ignored_count: int
    images_without_poses: int
    seconds_per_image: float | None
    in_metres: bool

    def to_json(self) -> dict[str, Any]:
        """Return the numbers and counts as JSON values."""
        return self.score.to_json() | {
            "scored": self.scored_count,
            "left_out": self.ignored_count,
            "images_without_poses": self.images_without_poses,
            "seconds_per_image": self.seconds_per_image,
        }


@dataclass(frozen=True, eq=False)
class PoseTask:
    """What poses are scored against: the test part of a BOP data set.

    Attributes:
        bop_root: folder of the data set.
        views: the pictures in which something is sought.
        models: of what is sought, by the object's number.
    """

    bop_root: Path
    views: tuple[PoseImage, ...]
    models: Mapping[int, PoseEvaluationModel]

    @property
    def units(self) -> ResamplingUnits:
        """What intervals are over."""
        return group_views(self.views)

    @property
    def depth_count(self) -> int:
        """How many pictures have depth, which VSD takes of all."""
        return sum(bool(view.depth) for view in self.views)


def read_pose_task(bop_root: Path, *, limit: int | None = None) -> PoseTask:
    """Return what poses are scored against.

    Args:
        bop_root: folder of a BOP data set, with the meshes of its objects.
        limit: only so many images count; all without.

    Raises:
        InputError: a file is missing, broken or contradicts another, or nothing is sought.
    """
    scenes = list_pose_scenes(bop_root)
    views, entries = read_pose_images(scenes)[:limit], read_bop_models(scenes)
    if not any(view.ground_truth_poses for view in views):
        raise InputError(bop_root, "shows no object that is seen well enough to be sought.")
    return PoseTask(bop_root, views, _load_models(bop_root, entries, views))


def bench_poses(
    results: Path, task: PoseTask, *, progress: Callable[[int, int], None] | None = None
) -> PoseBenchResult:
    """Return how good estimated poses are.

    Args:
        results: CSV file as of BOP's challenge of 2019.
        task: what they are scored against.
        progress: is told how many images of how many are done.

    Raises:
        InputError: a file is missing, broken or contradicts another, or nothing is sought.
    """
    estimates = read_pose_results(results)
    sought = match_estimates(results, estimates, task, progress=progress)
    scored = sum(len(one.estimated_poses) for one in sought)
    placings = tuple(map(match_pose_target, sought))
    score = evaluate_poses(placings, task.units, rng=derive_rng(0, "bench"))
    answered = {(one.scene_id, one.image_id) for one in estimates}
    return PoseBenchResult(
        score,
        task.views,
        placings,
        scored,
        ignored_count=len(estimates) - scored,
        images_without_poses=sum(
            (view.scene_id, view.image_id) not in answered for view in task.views
        ),
        seconds_per_image=_compute_mean_seconds(estimates),
        in_metres=_detect_metres(sought),
    )


def _detect_metres(targets: Sequence[PoseTarget]) -> bool:
    """Return whether estimates lie so much nearer to the camera than what is sought that metres were written."""
    found, true = (
        np.linalg.norm(np.concatenate([getattr(one, side)[:, :3, 3] for one in targets]), axis=1)
        for side in ("estimated_poses", "true_poses")
    )
    return bool(len(found)) and bool(_METRES_RATIO * np.median(found) < np.median(true))


def match_estimates(
    results: Path,
    estimates: Sequence[PoseEstimate],
    task: PoseTask,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> list[PoseTarget]:
    """Return all that is sought, each with what was found of it.

    Args:
        results: file of the estimates, for the errors.
        estimates: that it holds.
        task: what they are held against.
        progress: is told how many images of how many are done.

    Raises:
        InputError: the estimates are of another data set, or a depth picture is broken.
    """
    by_place = _group_estimates(estimates)
    if estimates and not any(
        (v.scene_id, v.image_id, o) in by_place for v in task.views for o in v.ground_truth_poses
    ):
        raise InputError(
            results,
            f"has no pose of an object that is sought in {task.bop_root}. It is of another data set.",
        )
    has_depth = task.depth_count == len(task.views)
    sought = []
    for number, view in enumerate(task.views):
        for object_id, truths in view.ground_truth_poses.items():
            found = by_place.get((view.scene_id, view.image_id, object_id), [])[: len(truths)]
            poses = np.array([one.pose for one in found]).reshape(-1, 4, 4)
            model = task.models[object_id]
            vsd = _compute_vsd(view, model, truths, poses) if has_depth else None
            sought.append(
                PoseTarget(number, model, view.camera_matrix, view.width, truths, poses, vsd)
            )
        if progress is not None:
            progress(number + 1, len(task.views))
    return sought


@dataclass(frozen=True, eq=False)
class PosePredictions:
    """What a detector finds in the test part of a BOP data set.

    Attributes:
        poses: of all pictures.
        predictions: what it says of them, short of surfaces, by the pictures' files.
    """

    poses: tuple[PoseEstimate, ...]
    predictions: Mapping[Path, Prediction]


def estimate_poses(
    detector: AnyDetector,
    bop_root: Path,
    *,
    category_map: Mapping[str, str] | None = None,
    meshes: Mapping[str, Floats] = NO_MESHES,
    limit: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> PosePredictions:
    """Return the poses that a detector finds in the test part of a BOP data set.

    Of each object as many as are sought in a picture, the surest of those that have a pose.

    Args:
        detector: trained with poses.
        bop_root: folder of the data set.
        category_map: category of the captures -> category of the detector, where the names differ.
        meshes: as ``placed`` takes them.
        limit: only so many images; all that ``read_pose_task`` has without.
        progress: is told how many images of how many are done.

    Raises:
        UsageError: the detector finds no poses.
        InputError: no BOP data set, a file is missing or broken, or several objects of one category.
    """
    check_poses(detector)
    scenes = list_pose_scenes(bop_root)
    views = read_pose_images(scenes)[:limit]
    numbers = _map_object_ids(
        bop_root, read_category_names(scenes), category_map or {}, detector.card.categories
    )
    read = (part for scene in scenes for part in read_bop(scene, "real").values())
    samples = {get_bop_ids(sample): sample for part in read for sample in part.samples}
    results: list[PoseEstimate] = []
    predictions: dict[Path, Prediction] = {}
    for done, view in enumerate(views, 1):
        sample = samples[view.scene_id, view.image_id]
        assert sample.lens is not None  # of every image of BOP
        rgb = images.read_rgb(sample.rgb)
        start = time.perf_counter()
        seen = predict_image(detector, rgb)
        found = _estimate_image_poses(view, seen, numbers, rgb, sample.lens, meshes)
        seconds = time.perf_counter() - start
        results += [replace(one, time_s=seconds) for one in found]
        predictions[sample.rgb] = replace(seen, surfaces=None)  # which would fill the memory
        if progress is not None:
            progress(done, len(views))
    return PosePredictions(tuple(results), predictions)


def _estimate_image_poses(
    view: PoseImage,
    prediction: Prediction,
    object_ids: Mapping[str, int],
    rgb: NDArray[np.uint8],
    lens: CentralLens,
    meshes: Mapping[str, Floats],
) -> list[PoseEstimate]:
    """Return the poses of what is sought in a picture, surest first; what they took is not known yet."""
    assert prediction.surfaces is not None  # of all that a detector with objects finds
    left = Counter({number: len(truths) for number, truths in view.ground_truth_poses.items()})
    results = []
    for one, surface in zip(prediction.detections, prediction.surfaces, strict=True):
        number = object_ids.get(one.category)
        if number is None or not left[number]:
            continue
        pose = estimate_pose(one, surface, rgb, lens, meshes).pose
        if pose is not None:
            left[number] -= 1
            place = view.scene_id, view.image_id, number
            results.append(PoseEstimate(*place, one.score, pose.matrix(), -1.0))
    return results


def list_pose_scenes(bop_root: Path) -> list[Path]:
    """Return the folders of the scenes that poses are scored on.

    Args:
        bop_root: folder of a BOP data set.

    Raises:
        InputError: it is none, or has no test part.
    """
    if not is_bop(bop_root):
        raise InputError(
            bop_root,
            "no BOP data set, which poses are scored on. Check the path, or write one with sim2cam "
            "export --format bop.",
        )
    return find_test_scenes(bop_root)


def group_views(views: Sequence[PoseImage]) -> ResamplingUnits:
    """Return what intervals are over: BOP's scenes, where these are enough, or else pictures."""
    return make_group_units("scenes", [view.scene_id for view in views])


def _map_object_ids(
    bop_root: Path,
    names: Mapping[int, str],
    category_map: Mapping[str, str],
    categories: Sequence[str],
) -> dict[str, int]:
    """Return the objects' numbers by the detector's categories; those that it does not know are none."""
    found: dict[str, int] = {}
    for number, name in names.items():
        category = category_map.get(name, name)
        if category in categories and found.setdefault(category, number) != number:
            raise InputError(
                bop_root,
                f"objects {found[category]} and {number} are both '{category}', so a pose of one does "
                "not say of which. Score poses in a file (.csv), which has numbers.",
            )
    return found


def _group_estimates(
    estimates: Sequence[PoseEstimate],
) -> Mapping[tuple[int, int, int], list[PoseEstimate]]:
    """Return the estimates by scene, image and object, surest first."""
    found: dict[tuple[int, int, int], list[PoseEstimate]] = defaultdict(list)
    for one in sorted(estimates, key=lambda one: -one.score):
        found[one.scene_id, one.image_id, one.object_id].append(one)
    return dict(found)


def _load_models(
    bop_root: Path, entries: Mapping[int, BopModel], views: Sequence[PoseImage]
) -> dict[int, PoseEvaluationModel]:
    """Return the objects that are sought, by their numbers."""
    models = {}
    for number in sorted({number for view in views for number in view.ground_truth_poses}):
        if number not in entries:
            raise InputError(
                bop_root, f"object {number} is sought, but models_info.json does not have it."
            )
        models[number] = _load_model(entries[number])
    return models


def _load_model(entry: BopModel) -> PoseEvaluationModel:
    solids, _ = read_solids(entry.mesh, _MAX_FACES, colored=False)
    first = np.cumsum([0, *(len(solid.vertices) for solid in solids)])
    return PoseEvaluationModel(
        entry.name,
        np.concatenate([np.asarray(solid.vertices, np.float64) for solid in solids])
        * _METRES_PER_MM,
        np.concatenate([np.asarray(s.faces) + at for s, at in zip(solids, first, strict=False)]),
        entry.diameter_m,
        entry.symmetries,
    )


def _compute_vsd(
    view: PoseImage, model: PoseEvaluationModel, truths: Floats, estimates: Floats
) -> Floats:
    """Return the VSD (n, m, taus) of found poses (n, 4, 4) to true ones (m, 4, 4)."""
    assert view.depth is not None
    measured = images.read_16bit(view.depth).astype(np.float64) * view.depth_unit_m
    if measured.shape != (view.height, view.width):
        raise InputError(
            view.depth, f"is not of {view.width}x{view.height} pixels, as its picture."
        )
    triangles = model.points_m[model.triangles]
    drawn = [
        [
            rasterize_depth(triangles, pose, view.camera_matrix, view.width, view.height)
            for pose in poses
        ]
        for poses in (truths, estimates)
    ]
    table = [
        [compute_vsd(measured, t, f, view.camera_matrix, model.diameter_m) for t in drawn[0]]
        for f in drawn[1]
    ]
    return np.array(table, np.float64).reshape(len(estimates), len(truths), len(VSD_TAUS))


def _compute_mean_seconds(estimates: Sequence[PoseEstimate]) -> float | None:
    times = {(one.scene_id, one.image_id): one.time_s for one in estimates}
    known = [seconds for seconds in times.values() if seconds >= 0]
    return float(np.mean(known)) if known and len(known) == len(times) else None
