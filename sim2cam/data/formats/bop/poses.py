"""BOP pose benchmark: targets, object models, and results in CSV."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, TypeAdapter

from sim2cam import images
from sim2cam.data.formats.bop.files import (
    CAMERA_FILE,
    CAMERA_TABLE,
    HINT,
    INFO_FILE,
    INFO_TABLE,
    MM_PER_M,
    POSE_FILE,
    POSE_TABLE,
    CameraEntry,
    InfoEntry,
    PoseEntry,
    build_pose_matrix,
    check_same_length,
    find_image,
    find_scenes,
    make_default_name,
    parse_pose_matrix,
    read_category_names,
    read_table,
    resolve_table_path,
)
from sim2cam.data.parsing import read_text
from sim2cam.data.sample import Dataset, Sample
from sim2cam.errors import InputError
from sim2cam.files import write_atomic
from sim2cam.metrics.matching import MIN_VISIBLE_FRACTION
from sim2cam.metrics.pose_errors import compute_symmetry_transforms

Floats = NDArray[np.float64]

TARGETS_FILE = "test_targets_bop19.json"
"""File in the dataset's folder with the scored images and objects."""

_HEADER = "scene_id,im_id,obj_id,score,R,t,time"
_COLUMNS = _HEADER.split(",")
_MODEL_FOLDERS = ("models_eval", "models")
_MODEL_INFO_FILE = "models_info.json"
_MAX_BYTES = 500_000_000
_TIME_TOLERANCE_S = 0.001


@dataclass(frozen=True, eq=False)
class PoseEstimate:
    """An estimated pose.

    Attributes:
        scene_id, image_id, object_id: ids of scene, image and object.
        score: confidence; any number, higher is better.
        pose: matrix (4, 4) from the object's to the camera's frame, metres.
        time_s: processing time of the image; -1 if unknown.
    """

    scene_id: int
    image_id: int
    object_id: int
    score: float
    pose: Floats
    time_s: float = -1.0


@dataclass(frozen=True, eq=False)
class PoseImage:
    """An image with target objects.

    Attributes:
        scene_id, image_id: ids of scene and image.
        camera_matrix: pinhole camera matrix (3, 3).
        width, height: image size, pixels.
        ground_truth_poses: poses of the scored instances (m, 4, 4) by object id.
        depth: depth image file; None without one.
        depth_unit_m: unit of the depth image.
    """

    scene_id: int
    image_id: int
    camera_matrix: Floats
    width: int
    height: int
    ground_truth_poses: Mapping[int, Floats]
    depth: Path | None
    depth_unit_m: float


@dataclass(frozen=True, eq=False)
class BopModel:
    """Model of an object.

    Attributes:
        name: category name.
        mesh: mesh file, in millimetres.
        diameter_m: largest distance between two points.
        symmetries: result of ``compute_symmetry_transforms`` (n, 4, 4), metres.
    """

    name: str
    mesh: Path
    diameter_m: float
    symmetries: Floats


@dataclass(frozen=True)
class _Target:
    scene_id: int
    im_id: int
    obj_id: int
    inst_count: Annotated[int, Field(ge=1)]


_Vector = Annotated[list[float], Field(min_length=3, max_length=3)]
_Matrix = Annotated[list[float], Field(min_length=16, max_length=16)]


@dataclass(frozen=True)
class _SymmetryAxis:
    axis: _Vector
    offset: _Vector


@dataclass(frozen=True)
class _ModelInfo:
    diameter: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    symmetries_discrete: list[_Matrix] = field(default_factory=list)
    symmetries_continuous: list[_SymmetryAxis] = field(default_factory=list)


_TARGETS: TypeAdapter[list[_Target]] = TypeAdapter(list[_Target])
_MODEL_INFO_TABLE: TypeAdapter[dict[int, _ModelInfo]] = TypeAdapter(dict[int, _ModelInfo])

TargetCounts = dict[tuple[int, int], dict[int, int]]
"""Number of target instances by object id, by scene and image ids."""


def find_test_scenes(root: Path) -> list[Path]:
    """Return the scene folders of a dataset's test split.

    Raises:
        InputError: there are several splits, but none is ``test`` or ``test_...``.
    """
    splits = find_scenes(root)
    test_splits = [scenes for split, scenes in splits.items() if split.split("_")[0] == "test"]
    if not test_splits and len(splits) == 1:
        test_splits = list(splits.values())
    if not test_splits:
        raise InputError(
            root,
            f"has no test split. Splits: {', '.join(sorted(splits)) or 'none'}. Give the folder of a split.",
        )
    return [scene for scenes in test_splits for scene in scenes]


def read_targets(scenes: Sequence[Path]) -> TargetCounts | None:
    """Return the targets in scenes of one dataset; None without a targets file.

    Raises:
        InputError: the file is broken, or has no target in these scenes.
    """
    path = scenes[0].parents[1] / TARGETS_FILE
    if not path.is_file():
        return None
    targets: TargetCounts = defaultdict(dict)
    scene_ids = {parse_scene_id(scene) for scene in scenes}
    for target in read_table(path, _TARGETS):
        if target.scene_id in scene_ids:
            targets[target.scene_id, target.im_id][target.obj_id] = target.inst_count
    if not targets:
        raise InputError(path, f"has no target in scene {min(scene_ids)}. {HINT}")
    return dict(targets)


def select_bop_targets(root: Path, captures: Dataset) -> Dataset:
    """Return captures of a BOP dataset as BOP scores detections.

    With a targets file, only its images are scored, with amodal boxes; without one, captures are
    unchanged.

    Args:
        root: folder of the dataset, a split or a scene.
        captures: samples read from there.

    Raises:
        InputError: the targets file is broken, or has no target here.
    """
    scenes = find_test_scenes(root) if has_targets(root) else []
    targets = read_targets(scenes) if scenes else None
    if targets is None:
        return captures
    folders = {scene.resolve() for scene in scenes}
    samples = tuple(
        replace(
            sample, objects=sample.objects and tuple(o.use_amodal_box() for o in sample.objects)
        )
        for sample in captures.samples
        if sample.rgb.parents[1].resolve() in folders and get_bop_ids(sample) in targets
    )
    return replace(captures, samples=samples)


def has_targets(root: Path) -> bool:
    """Return whether a BOP dataset has a targets file."""
    return (_find_dataset_root(root) / TARGETS_FILE).is_file()


def get_bop_ids(sample: Sample) -> tuple[int, int]:
    """Return the scene and image ids of a sample of a BOP dataset."""
    return parse_scene_id(sample.rgb.parents[1]), int(sample.rgb.stem)


def _find_dataset_root(root: Path) -> Path:
    """Return the folder of the dataset, which contains the splits."""
    (scene, *_), *_ = find_scenes(root).values()
    return scene.parents[1]


def read_pose_images(scenes: Sequence[Path]) -> tuple[PoseImage, ...]:
    """Return the images with target objects, as in the BOP Challenge 2019.

    With a targets file, the most visible instances of each object, as many as it lists; without
    one, all instances with a visible fraction of at least ``MIN_VISIBLE_FRACTION``.

    Raises:
        InputError: a file is missing, broken or inconsistent.
    """
    targets = read_targets(scenes)
    return tuple(image for scene in scenes for image in _iterate_pose_images(scene, targets))


def _iterate_pose_images(scene: Path, target_counts: TargetCounts | None) -> Iterator[PoseImage]:
    cameras = read_table(resolve_table_path(scene, CAMERA_FILE), CAMERA_TABLE)
    poses = read_table(resolve_table_path(scene, POSE_FILE), POSE_TABLE)
    infos = read_table(resolve_table_path(scene, INFO_FILE), INFO_TABLE)
    scene_id = parse_scene_id(scene)
    counts_by_image: dict[int, Mapping[int, int]]
    if target_counts is None:
        counts_by_image = {
            image_id: _count_visible(poses, infos, image_id) for image_id in sorted(cameras)
        }
    else:
        counts_by_image = {
            image_id: counts
            for (target_scene, image_id), counts in target_counts.items()
            if target_scene == scene_id
        }
    for image_id, counts in counts_by_image.items():
        for table, name in ((cameras, CAMERA_FILE), (poses, POSE_FILE), (infos, INFO_FILE)):
            if image_id not in table:
                raise InputError(
                    resolve_table_path(scene, name),
                    f"image {image_id} is missing. Copy the scene again.",
                )
        yield _build_pose_image(
            scene,
            image_id,
            cameras[image_id],
            _select_ground_truth(scene, image_id, counts, poses, infos),
        )


def _count_visible(
    poses: Mapping[int, list[PoseEntry]], infos: Mapping[int, list[InfoEntry]], image_id: int
) -> Counter[int]:
    """Return the number of sufficiently visible instances by object id."""
    pairs = zip(poses.get(image_id, ()), infos.get(image_id, ()), strict=False)
    return Counter(pose.obj_id for pose, info in pairs if info.visib_fract >= MIN_VISIBLE_FRACTION)


def _select_ground_truth(
    scene: Path,
    image_id: int,
    counts: Mapping[int, int],
    poses: Mapping[int, list[PoseEntry]],
    infos: Mapping[int, list[InfoEntry]],
) -> dict[int, Floats]:
    """Return the poses of the most visible instances by object id."""
    image_poses, image_infos = poses[image_id], infos[image_id]
    check_same_length(
        resolve_table_path(scene, INFO_FILE), f"image {image_id}", image_infos, image_poses
    )
    path = resolve_table_path(scene, POSE_FILE)
    selected: dict[int, list[Floats]] = {object_id: [] for object_id in counts}
    for index in sorted(range(len(image_poses)), key=lambda i: -image_infos[i].visib_fract):
        matrices = selected.get(image_poses[index].obj_id)
        if matrices is not None and len(matrices) < counts[image_poses[index].obj_id]:
            location = f"image {image_id}, object {index}"
            matrices.append(parse_pose_matrix(path, location, image_poses[index]))
    for object_id, matrices in selected.items():
        if len(matrices) < counts[object_id]:
            raise InputError(
                path,
                f"image {image_id}: {len(matrices)} instances of object {object_id}, but {TARGETS_FILE} lists "
                f"{counts[object_id]}. Use files of one dataset.",
            )
    return {object_id: np.stack(matrices) for object_id, matrices in selected.items()}


def _build_pose_image(
    scene: Path, image_id: int, camera: CameraEntry, ground_truth_poses: dict[int, Floats]
) -> PoseImage:
    width, height = images.read_size(find_image(scene, image_id))
    depth = scene / f"depth/{image_id:06d}.png"
    return PoseImage(
        parse_scene_id(scene),
        image_id,
        np.reshape(camera.camera_matrix, (3, 3)),
        width,
        height,
        ground_truth_poses,
        depth if depth.is_file() else None,
        camera.depth_scale / MM_PER_M,
    )


def parse_scene_id(scene: Path) -> int:
    """Return the id of a scene, the name of its folder.

    Raises:
        InputError: the name is not a number.
    """
    try:
        return int(scene.name)
    except ValueError as error:
        raise InputError(
            scene, "the name of a scene folder must be a number. Rename it."
        ) from error


def read_bop_models(scenes: Sequence[Path]) -> dict[int, BopModel]:
    """Return the models of the objects of scenes by object id.

    Raises:
        InputError: the model folder is missing, or ``models_info.json`` is broken.
    """
    base = scenes[0].parents[1]
    folder = next((base / name for name in _MODEL_FOLDERS if (base / name).is_dir()), None)
    if folder is None:
        raise InputError(
            base,
            f"folder {_MODEL_FOLDERS[0]}/ with the meshes of the objects is missing. Unpack them there.",
        )
    path = folder / _MODEL_INFO_FILE
    names = read_category_names(scenes)
    return {
        object_id: BopModel(
            names.get(object_id, make_default_name(object_id)),
            folder / f"obj_{object_id:06d}.ply",
            model.diameter / MM_PER_M,
            _parse_symmetries(path, object_id, model),
        )
        for object_id, model in read_table(path, _MODEL_INFO_TABLE).items()
    }


def _parse_symmetries(path: Path, object_id: int, model: _ModelInfo) -> Floats:
    discrete = []
    for values in model.symmetries_discrete:
        rows = np.reshape(values, (4, 4))
        matrix = build_pose_matrix(rows[:3, :3].ravel().tolist(), rows[:3, 3].tolist())
        if matrix is None:
            raise InputError(
                path, f"object {object_id}: a symmetry is not a rigid transform. {HINT}"
            )
        discrete.append(matrix)
    continuous = []
    for symmetry in model.symmetries_continuous:
        axis, point = np.array(symmetry.axis), np.array(symmetry.offset) / MM_PER_M
        if not (np.isfinite([*axis, *point]).all() and axis.any()):
            raise InputError(
                path, f"object {object_id}: the axis of a symmetry is zero or not finite. {HINT}"
            )
        continuous.append((axis, point))
    return compute_symmetry_transforms(discrete, continuous)


def read_pose_results(path: Path) -> tuple[PoseEstimate, ...]:
    """Return the estimated poses of a CSV file in the format of the BOP Challenge 2019.

    Columns are ``scene_id,im_id,obj_id,score,R,t,time``: the nine numbers of the rotation, by rows,
    and the three of the translation, in millimetres, are separated by spaces. The header is
    optional.

    Raises:
        InputError: the file is missing or broken, or an image has several times.
    """
    lines = read_text(path, _MAX_BYTES, "list of poses").splitlines()
    if not lines:
        raise InputError(path, f"is empty. A file without poses has the line {_HEADER}")
    results = []
    times: dict[tuple[int, int], float] = {}
    for number, line in enumerate(lines, start=1):
        cells = [cell.strip() for cell in line.split(",")]
        if not line.strip() or (number == 1 and cells == _COLUMNS):
            continue
        try:
            result = _parse_result(cells)
        except ValueError as error:
            raise InputError(path, f"line {number}: {error} {HINT}") from error
        time_s = times.setdefault((result.scene_id, result.image_id), result.time_s)
        if abs(time_s - result.time_s) > _TIME_TOLERANCE_S:
            raise InputError(
                path,
                f"line {number}: time {result.time_s:g}, but another line of the image has "
                f"{time_s:g}. Give all lines the time of the whole image.",
            )
        results.append(result)
    return tuple(results)


def _parse_result(cells: Sequence[str]) -> PoseEstimate:
    if len(cells) != len(_COLUMNS):
        raise ValueError(f"{len(cells)} cells, not {len(_COLUMNS)}.")
    row = dict(zip(_COLUMNS, cells, strict=True))
    scene_id, image_id, object_id = (_parse_integer(row, name) for name in _COLUMNS[:3])
    (score,), (time_s,) = _parse_floats(row, "score", 1), _parse_floats(row, "time", 1)
    pose = build_pose_matrix(_parse_floats(row, "R", 9), _parse_floats(row, "t", 3))
    if pose is None:
        raise ValueError(f"R {row['R']} is not a rotation.")
    return PoseEstimate(scene_id, image_id, object_id, score, pose, time_s)


def _parse_integer(row: Mapping[str, str], name: str) -> int:
    text = row[name]
    if not text.isdecimal():
        raise ValueError(f"{name} '{text}' must be an integer of 0 or more.")
    return int(text)


def _parse_floats(row: Mapping[str, str], name: str, count: int) -> list[float]:
    try:
        values = [float(word) for word in row[name].split()]
    except ValueError:
        values = []
    if len(values) != count or not all(map(math.isfinite, values)):
        expected = "a finite number" if count == 1 else f"{count} finite numbers"
        raise ValueError(f"{name} '{row[name][:80]}' must be {expected}.")
    return values


def write_pose_results(results: Sequence[PoseEstimate], path: Path) -> None:
    """Write estimated poses in the format of ``read_pose_results``.

    Raises:
        OutputError: the file cannot be written.
    """
    lines = [_HEADER]
    for estimate in results:
        rotation = " ".join(map(repr, estimate.pose[:3, :3].ravel().tolist()))
        translation = " ".join(map(repr, (estimate.pose[:3, 3] * MM_PER_M).tolist()))
        head = f"{estimate.scene_id},{estimate.image_id},{estimate.object_id},{float(estimate.score)!r}"
        lines.append(f"{head},{rotation},{translation},{float(estimate.time_s)!r}")
    write_atomic(path, "".join(f"{line}\n" for line in lines).encode())
