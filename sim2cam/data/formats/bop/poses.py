"""Poses as BOP benchmarks them: what is to be found, what is known of the objects, and results in CSV."""

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
    find_image,
    find_scenes,
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
"""Beside the parts of a data set: which images are scored, and which objects in them."""

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
        scene_id, image_id, object_id: numbers of the scene, of the picture in it and of the object.
        score: how sure it is; any number, larger is surer.
        pose: matrix (4, 4) from the object's frame to the camera's, metres.
        time_s: that its picture took; -1 where unknown.
    """

    scene_id: int
    image_id: int
    object_id: int
    score: float
    pose: Floats
    time_s: float = -1.0


@dataclass(frozen=True, eq=False)
class PoseImage:
    """A picture in which objects are to be found.

    Attributes:
        scene_id, image_id: numbers of its scene and of itself.
        camera_matrix: matrix (3, 3) of its pinhole.
        width, height: pixels.
        ground_truth_poses: poses (m, 4, 4) of the instances that count, by the object's number.
        depth: file of the depth camera's picture; None without one.
        depth_unit_m: of its steps.
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
    """What is known of an object.

    Attributes:
        name: its category.
        mesh: its file, in millimetres.
        diameter_m: the largest distance between two of its points.
        symmetries: matrices (n, 4, 4), metres, of ``compute_symmetry_transforms``.
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
"""How many instances of each object are to be found, by the numbers of scene and image."""


def find_test_scenes(root: Path) -> list[Path]:
    """Return the folders of the scenes of a data set that are scored: its test part.

    Raises:
        InputError: it has several parts and none of them is ``test`` or ``test_...``.
    """
    parts = find_scenes(root)
    tests = [scenes for part, scenes in parts.items() if part.split("_")[0] == "test"]
    if not tests and len(parts) == 1:
        tests = list(parts.values())
    if not tests:
        raise InputError(
            root, f"has no part test among {', '.join(sorted(parts)) or 'none'}. Name the part."
        )
    return [scene for scenes in tests for scene in scenes]


def read_targets(scenes: Sequence[Path]) -> TargetCounts | None:
    """Return what is to be found in scenes of one data set; None without a list of it.

    Raises:
        InputError: the list is broken, or names nothing in these scenes.
    """
    path = scenes[0].parents[1] / TARGETS_FILE
    if not path.is_file():
        return None
    wanted: TargetCounts = defaultdict(dict)
    numbers = {parse_scene_id(scene) for scene in scenes}
    for target in read_table(path, _TARGETS):
        if target.scene_id in numbers:
            wanted[target.scene_id, target.im_id][target.obj_id] = target.inst_count
    if not wanted:
        raise InputError(path, f"names nothing in scene {min(numbers)}. {HINT}")
    return dict(wanted)


def select_bop_targets(root: Path, captures: Dataset) -> Dataset:
    """Return captures of a BOP data set as BOP scores detections in them.

    With a list of targets, only its images count, and boxes are those of whole objects, also where
    something hides them; without one, captures stay as they are.

    Args:
        root: of the data set, a part of it or a scene.
        captures: read from there.

    Raises:
        InputError: the list is broken, or names nothing here.
    """
    scenes = find_test_scenes(root) if has_targets(root) else []
    wanted = read_targets(scenes) if scenes else None
    if wanted is None:
        return captures
    folders = {scene.resolve() for scene in scenes}
    samples = tuple(
        replace(
            sample, objects=sample.objects and tuple(o.use_amodal_box() for o in sample.objects)
        )
        for sample in captures.samples
        if sample.rgb.parents[1].resolve() in folders and get_bop_ids(sample) in wanted
    )
    return replace(captures, samples=samples)


def has_targets(root: Path) -> bool:
    """Return whether a list of targets lies beside the parts of a BOP data set."""
    return (_find_dataset_root(root) / TARGETS_FILE).is_file()


def get_bop_ids(sample: Sample) -> tuple[int, int]:
    """Return the numbers of the scene and of the image of a sample of a BOP data set."""
    return parse_scene_id(sample.rgb.parents[1]), int(sample.rgb.stem)


def _find_dataset_root(root: Path) -> Path:
    """Return the folder beside whose parts the list of targets lies."""
    (scene, *_), *_ = find_scenes(root).values()
    return scene.parents[1]


def read_pose_images(scenes: Sequence[Path]) -> tuple[PoseImage, ...]:
    """Return the pictures in which objects are to be found, as BOP's challenge of 2019 has it.

    With a list of targets, of each object the instances that are seen most, as many as it says;
    without one, all those of which at least ``matching.LEAST_VISIBLE`` is seen.

    Raises:
        InputError: a file is missing, broken or contradicts another.
    """
    wanted = read_targets(scenes)
    return tuple(view for scene in scenes for view in _iterate_pose_images(scene, wanted))


def _iterate_pose_images(scene: Path, target_counts: TargetCounts | None) -> Iterator[PoseImage]:
    cameras = read_table(resolve_table_path(scene, CAMERA_FILE), CAMERA_TABLE)
    poses = read_table(resolve_table_path(scene, POSE_FILE), POSE_TABLE)
    infos = read_table(resolve_table_path(scene, INFO_FILE), INFO_TABLE)
    scene_id = parse_scene_id(scene)
    listed: dict[int, Mapping[int, int]]
    if target_counts is None:
        listed = {number: _count_visible(poses, infos, number) for number in sorted(cameras)}
    else:
        listed = {
            number: counts for (of, number), counts in target_counts.items() if of == scene_id
        }
    for number, counts in listed.items():
        for table, name in ((cameras, CAMERA_FILE), (poses, POSE_FILE), (infos, INFO_FILE)):
            if number not in table:
                raise InputError(
                    resolve_table_path(scene, name),
                    f"image {number} is not in it. Copy the scene again.",
                )
        yield _build_pose_image(
            scene,
            number,
            cameras[number],
            _select_ground_truth(scene, number, counts, poses, infos),
        )


def _count_visible(
    poses: Mapping[int, list[PoseEntry]], infos: Mapping[int, list[InfoEntry]], image_id: int
) -> Counter[int]:
    """Return how many instances of each object are seen well enough."""
    pairs = zip(poses.get(image_id, ()), infos.get(image_id, ()), strict=False)
    return Counter(pose.obj_id for pose, info in pairs if info.visib_fract >= MIN_VISIBLE_FRACTION)


def _select_ground_truth(
    scene: Path,
    image_id: int,
    counts: Mapping[int, int],
    poses: Mapping[int, list[PoseEntry]],
    infos: Mapping[int, list[InfoEntry]],
) -> dict[int, Floats]:
    """Return the poses of the instances that are seen most, by their object."""
    given, beside = poses[image_id], infos[image_id]
    if len(given) != len(beside):
        raise InputError(
            resolve_table_path(scene, INFO_FILE),
            f"image {image_id}: {len(beside)} objects, but {POSE_FILE} has {len(given)}. Calculate it "
            "again.",
        )
    truths: dict[int, list[Floats]] = {object_id: [] for object_id in counts}
    for index in sorted(range(len(given)), key=lambda i: -beside[i].visib_fract):
        chosen = truths.get(given[index].obj_id)
        if chosen is not None and len(chosen) < counts[given[index].obj_id]:
            chosen.append(
                parse_pose_matrix(
                    resolve_table_path(scene, POSE_FILE), image_id, index, given[index]
                )
            )
    for object_id, chosen in truths.items():
        if len(chosen) < counts[object_id]:
            raise InputError(
                resolve_table_path(scene, POSE_FILE),
                f"image {image_id}: {len(chosen)} instances of object {object_id}, but {TARGETS_FILE} asks "
                f"for {counts[object_id]}. They are of different data sets.",
            )
    return {object_id: np.stack(chosen) for object_id, chosen in truths.items()}


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
    """Return the number of a scene, which is the name of its folder.

    Raises:
        InputError: it is none.
    """
    try:
        return int(scene.name)
    except ValueError as error:
        raise InputError(scene, "is no number, as folders of scenes are. Rename it.") from error


def read_bop_models(scenes: Sequence[Path]) -> dict[int, BopModel]:
    """Return what is known of the objects of scenes, by their numbers.

    Raises:
        InputError: the folder of meshes is missing, or its table of them is broken.
    """
    base = scenes[0].parents[1]
    folder = next((base / name for name in _MODEL_FOLDERS if (base / name).is_dir()), None)
    if folder is None:
        raise InputError(
            base,
            f"holds no {_MODEL_FOLDERS[0]}/ with the meshes of the objects. Unpack them there.",
        )
    path = folder / _MODEL_INFO_FILE
    names = read_category_names(scenes)
    return {
        number: BopModel(
            names.get(number, f"obj_{number:06d}"),
            folder / f"obj_{number:06d}.ply",
            model.diameter / MM_PER_M,
            _parse_symmetries(path, number, model),
        )
        for number, model in read_table(path, _MODEL_INFO_TABLE).items()
    }


def _parse_symmetries(path: Path, object_id: int, model: _ModelInfo) -> Floats:
    discrete = []
    for values in model.symmetries_discrete:
        rows = np.reshape(values, (4, 4))
        matrix = build_pose_matrix(rows[:3, :3].ravel().tolist(), rows[:3, 3].tolist())
        if matrix is None:
            raise InputError(path, f"object {object_id}: a symmetry is no rigid motion. {HINT}")
        discrete.append(matrix)
    continuous = []
    for turn in model.symmetries_continuous:
        axis, point = np.array(turn.axis), np.array(turn.offset) / MM_PER_M
        if not (np.isfinite([*axis, *point]).all() and axis.any()):
            raise InputError(path, f"object {object_id}: a symmetry has no axis. {HINT}")
        continuous.append((axis, point))
    return compute_symmetry_transforms(discrete, continuous)


def read_pose_results(path: Path) -> tuple[PoseEstimate, ...]:
    """Return the estimated poses of a CSV file in the format of BOP's challenge of 2019.

    Its columns are ``scene_id,im_id,obj_id,score,R,t,time``: the nine numbers of the rotation, by
    rows, and the three of the translation, in millimetres, have spaces between them. The line that
    names the columns may be missing.

    Raises:
        InputError: it is missing or broken, or images took several times.
    """
    lines = read_text(path, _MAX_BYTES, "list of poses").splitlines()
    if not lines:
        raise InputError(path, f"is empty. Without any pose, it is the line {_HEADER}")
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
        known = times.setdefault((result.scene_id, result.image_id), result.time_s)
        if abs(known - result.time_s) > _TIME_TOLERANCE_S:
            raise InputError(
                path,
                f"line {number}: time {result.time_s:g}, but another line of its image has "
                f"{known:g}. Give every line the time that the whole image took.",
            )
        results.append(result)
    return tuple(results)


def _parse_result(cells: Sequence[str]) -> PoseEstimate:
    if len(cells) != len(_COLUMNS):
        raise ValueError(f"{len(cells)} cells, not {len(_COLUMNS)}.")
    named = dict(zip(_COLUMNS, cells, strict=True))
    scene_id, image_id, object_id = (_parse_integer(named, name) for name in _COLUMNS[:3])
    (score,), (seconds,) = _parse_floats(named, "score", 1), _parse_floats(named, "time", 1)
    pose = build_pose_matrix(_parse_floats(named, "R", 9), _parse_floats(named, "t", 3))
    if pose is None:
        raise ValueError(f"R {named['R']} is no rotation.")
    return PoseEstimate(scene_id, image_id, object_id, score, pose, seconds)


def _parse_integer(row: Mapping[str, str], name: str) -> int:
    text = row[name]
    if not text.isdecimal():
        raise ValueError(f"{name} '{text}' is no whole number of 0 or more.")
    return int(text)


def _parse_floats(row: Mapping[str, str], name: str, count: int) -> list[float]:
    try:
        values = [float(word) for word in row[name].split()]
    except ValueError:
        values = []
    if len(values) != count or not all(map(math.isfinite, values)):
        raise ValueError(f"{name} '{row[name][:80]}' is not {count} finite numbers.")
    return values


def write_pose_results(results: Sequence[PoseEstimate], path: Path) -> None:
    """Write estimated poses as ``read_pose_results`` reads them.

    Raises:
        OutputError: the file cannot be written.
    """
    lines = [_HEADER]
    for one in results:
        rotation = " ".join(map(repr, one.pose[:3, :3].ravel().tolist()))
        position = " ".join(map(repr, (one.pose[:3, 3] * MM_PER_M).tolist()))
        numbers = f"{one.scene_id},{one.image_id},{one.object_id},{float(one.score)!r}"
        lines.append(f"{numbers},{rotation},{position},{float(one.time_s)!r}")
    write_atomic(path, "".join(f"{line}\n" for line in lines).encode())
