"""Pose benchmark: a detector's poses, or estimates from a file, on a BOP dataset."""

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
"""Ratio of true to estimated distance from which on estimates are taken for metres; the exact ratio
is 1000."""


@dataclass(frozen=True)
class PoseBenchResult:
    """Scores of estimated poses.

    Attributes:
        scored_count: scored estimates: per object and image at most as many as there are targets.
        ignored_count: estimates that are not scored, of other objects or beyond the number of
            targets.
        seconds_per_image: mean time per image; None if an estimate has no time.
        in_metres: whether estimates seem to be in metres instead of BOP's millimetres.
    """

    score: PoseMetrics
    views: tuple[PoseImage, ...]
    matches: tuple[PoseMatches, ...]
    scored_count: int
    ignored_count: int
    images_without_poses: int
    seconds_per_image: float | None
    in_metres: bool

    def to_json(self) -> dict[str, Any]:
        """Return the scores and counts as JSON values."""
        return self.score.to_json() | {
            "scored": self.scored_count,
            "left_out": self.ignored_count,
            "images_without_poses": self.images_without_poses,
            "seconds_per_image": self.seconds_per_image,
        }


@dataclass(frozen=True, eq=False)
class PoseTask:
    """Targets of a pose benchmark: the test part of a BOP dataset."""

    bop_root: Path
    views: tuple[PoseImage, ...]
    models: Mapping[int, PoseEvaluationModel]

    @property
    def units(self) -> ResamplingUnits:
        """Resampling units of the intervals."""
        return group_views(self.views)

    @property
    def depth_count(self) -> int:
        """Number of images with depth; VSD needs depth of all images."""
        return sum(bool(view.depth) for view in self.views)


def read_pose_task(bop_root: Path, *, limit: int | None = None) -> PoseTask:
    """Read the targets of a pose benchmark.

    Raises:
        InputError: if a file is missing, broken or contradicts another, or the dataset has no
            target.
    """
    scenes = list_pose_scenes(bop_root)
    views, entries = read_pose_images(scenes)[:limit], read_bop_models(scenes)
    if not any(view.ground_truth_poses for view in views):
        raise InputError(bop_root, "has no sufficiently visible object in its test images.")
    return PoseTask(bop_root, views, _load_models(bop_root, entries, views))


def bench_poses(
    results: Path, task: PoseTask, *, progress: Callable[[int, int], None] | None = None
) -> PoseBenchResult:
    """Score the pose estimates of a file.

    Raises:
        InputError: if a file is missing, broken or contradicts another, or the dataset has no
            target.
    """
    estimates = read_pose_results(results)
    targets = match_estimates(results, estimates, task, progress=progress)
    scored_count = sum(len(target.estimated_poses) for target in targets)
    matches = tuple(map(match_pose_target, targets))
    score = evaluate_poses(matches, task.units, rng=derive_rng(0, "bench"))
    estimated_images = {(estimate.scene_id, estimate.image_id) for estimate in estimates}
    return PoseBenchResult(
        score,
        task.views,
        matches,
        scored_count,
        ignored_count=len(estimates) - scored_count,
        images_without_poses=sum(
            (view.scene_id, view.image_id) not in estimated_images for view in task.views
        ),
        seconds_per_image=_compute_mean_seconds(estimates),
        in_metres=_detect_metres(targets),
    )


def _detect_metres(targets: Sequence[PoseTarget]) -> bool:
    """Return whether estimates are so near to the camera that they must be in metres."""
    estimated, true = (
        np.linalg.norm(
            np.concatenate([getattr(target, poses)[:, :3, 3] for target in targets]), axis=1
        )
        for poses in ("estimated_poses", "true_poses")
    )
    return bool(len(estimated)) and bool(_METRES_RATIO * np.median(estimated) < np.median(true))


def match_estimates(
    results: Path,
    estimates: Sequence[PoseEstimate],
    task: PoseTask,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> list[PoseTarget]:
    """Return all targets with their estimates.

    Raises:
        InputError: if the estimates belong to another dataset, or a depth image is broken.
    """
    by_object = _group_estimates(estimates)
    if estimates and not any(
        (v.scene_id, v.image_id, o) in by_object for v in task.views for o in v.ground_truth_poses
    ):
        raise InputError(
            results, f"no pose of a target in {task.bop_root}. The file belongs to another dataset."
        )
    has_depth = task.depth_count == len(task.views)
    targets = []
    for number, view in enumerate(task.views):
        for object_id, truths in view.ground_truth_poses.items():
            key = view.scene_id, view.image_id, object_id
            scored = by_object.get(key, [])[: len(truths)]
            poses = np.array([estimate.pose for estimate in scored]).reshape(-1, 4, 4)
            model = task.models[object_id]
            vsd = _compute_vsd(view, model, truths, poses) if has_depth else None
            targets.append(
                PoseTarget(number, model, view.camera_matrix, view.width, truths, poses, vsd)
            )
        if progress is not None:
            progress(number + 1, len(task.views))
    return targets


@dataclass(frozen=True, eq=False)
class PosePredictions:
    """Predictions of a detector on the test part of a BOP dataset."""

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
    """Estimate poses on the test part of a BOP dataset.

    Per image and object, as many poses are returned as there are targets, by score.

    Raises:
        UsageError: if the detector predicts no poses.
        InputError: if the folder is no BOP dataset, a file is missing or broken, or several objects
            have one category.
    """
    check_poses(detector)
    scenes = list_pose_scenes(bop_root)
    views = read_pose_images(scenes)[:limit]
    object_ids = _map_object_ids(
        bop_root, read_category_names(scenes), category_map or {}, detector.card.categories
    )
    datasets = (dataset for scene in scenes for dataset in read_bop(scene, "real").values())
    samples = {get_bop_ids(sample): sample for dataset in datasets for sample in dataset.samples}
    results: list[PoseEstimate] = []
    predictions: dict[Path, Prediction] = {}
    for done, view in enumerate(views, 1):
        sample = samples[view.scene_id, view.image_id]
        assert sample.lens is not None  # every BOP image has a lens
        rgb = images.read_rgb(sample.rgb)
        start = time.perf_counter()
        prediction = predict_image(detector, rgb)
        estimates = _estimate_image_poses(view, prediction, object_ids, rgb, sample.lens, meshes)
        seconds = time.perf_counter() - start
        results += [replace(estimate, time_s=seconds) for estimate in estimates]
        predictions[sample.rgb] = replace(prediction, surfaces=None)  # to save memory
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
    """Return the poses of the targets of an image, by descending score; their times are unset."""
    assert prediction.surfaces is not None  # check_poses ensures it
    remaining = Counter({o: len(truths) for o, truths in view.ground_truth_poses.items()})
    results = []
    for detection, surface in zip(prediction.detections, prediction.surfaces, strict=True):
        object_id = object_ids.get(detection.category)
        if object_id is None or not remaining[object_id]:
            continue
        pose = estimate_pose(detection, surface, rgb, lens, meshes).pose
        if pose is not None:
            remaining[object_id] -= 1
            key = view.scene_id, view.image_id, object_id
            results.append(PoseEstimate(*key, detection.score, pose.matrix(), -1.0))
    return results


def list_pose_scenes(bop_root: Path) -> list[Path]:
    """Return the scene folders of the test part of a BOP dataset.

    Raises:
        InputError: if the folder is no BOP dataset, or has no test part.
    """
    if not is_bop(bop_root):
        raise InputError(
            bop_root,
            "not a BOP dataset, which the pose benchmark needs. Check the path, or write one with "
            "sim2cam export --format bop.",
        )
    return find_test_scenes(bop_root)


def group_views(views: Sequence[PoseImage]) -> ResamplingUnits:
    """Return the resampling units: BOP scenes if there are enough, or else images."""
    return make_group_units("scenes", [view.scene_id for view in views])


def _map_object_ids(
    bop_root: Path,
    names: Mapping[int, str],
    category_map: Mapping[str, str],
    categories: Sequence[str],
) -> dict[str, int]:
    """Return the object ids by detector category; unknown categories are left out."""
    object_ids: dict[str, int] = {}
    for object_id, name in names.items():
        category = category_map.get(name, name)
        if category in categories and object_ids.setdefault(category, object_id) != object_id:
            raise InputError(
                bop_root,
                f"objects {object_ids[category]} and {object_id} are both '{category}', so that poses are "
                "ambiguous. Score a file of poses (.csv), which has object ids.",
            )
    return object_ids


def _group_estimates(
    estimates: Sequence[PoseEstimate],
) -> Mapping[tuple[int, int, int], list[PoseEstimate]]:
    """Return the estimates by scene, image and object, by descending score."""
    groups: dict[tuple[int, int, int], list[PoseEstimate]] = defaultdict(list)
    for estimate in sorted(estimates, key=lambda estimate: -estimate.score):
        groups[estimate.scene_id, estimate.image_id, estimate.object_id].append(estimate)
    return dict(groups)


def _load_models(
    bop_root: Path, entries: Mapping[int, BopModel], views: Sequence[PoseImage]
) -> dict[int, PoseEvaluationModel]:
    """Return the models of the targets, by object id."""
    models = {}
    for object_id in sorted({o for view in views for o in view.ground_truth_poses}):
        if object_id not in entries:
            raise InputError(
                bop_root, f"object {object_id} is a target, but missing in models_info.json."
            )
        models[object_id] = _load_model(entries[object_id])
    return models


def _load_model(entry: BopModel) -> PoseEvaluationModel:
    solids, _ = read_solids(entry.mesh, _MAX_FACES, colored=False)
    offsets = np.cumsum([0, *(len(solid.vertices) for solid in solids)])
    return PoseEvaluationModel(
        entry.name,
        np.concatenate([np.asarray(solid.vertices, np.float64) for solid in solids])
        * _METRES_PER_MM,
        np.concatenate(
            [np.asarray(s.faces) + offset for s, offset in zip(solids, offsets, strict=False)]
        ),
        entry.diameter_m,
        entry.symmetries,
    )


def _compute_vsd(
    view: PoseImage, model: PoseEvaluationModel, truths: Floats, estimates: Floats
) -> Floats:
    """Return the VSD (n, m, taus) of estimated poses (n, 4, 4) to true poses (m, 4, 4)."""
    assert view.depth is not None
    measured = images.read_16bit(view.depth).astype(np.float64) * view.depth_unit_m
    if measured.shape != (view.height, view.width):
        raise InputError(
            view.depth, f"must have {view.width}x{view.height} pixels, like its image."
        )
    triangles = model.points_m[model.triangles]
    true_depths, estimated_depths = (
        [
            rasterize_depth(triangles, pose, view.camera_matrix, view.width, view.height)
            for pose in poses
        ]
        for poses in (truths, estimates)
    )
    vsd = [
        [
            compute_vsd(measured, true, estimated, view.camera_matrix, model.diameter_m)
            for true in true_depths
        ]
        for estimated in estimated_depths
    ]
    return np.array(vsd, np.float64).reshape(len(estimates), len(truths), len(VSD_TAUS))


def _compute_mean_seconds(estimates: Sequence[PoseEstimate]) -> float | None:
    times = {(estimate.scene_id, estimate.image_id): estimate.time_s for estimate in estimates}
    known = [seconds for seconds in times.values() if seconds >= 0]
    return float(np.mean(known)) if known and len(known) == len(times) else None
