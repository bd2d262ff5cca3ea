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
    CAMERA_TABLE,
    CAMERAS,
    CURE,
    INFO_TABLE,
    INFOS,
    MM,
    POSE_TABLE,
    POSES,
    CameraEntry,
    InfoEntry,
    PoseEntry,
    matrix_of,
    names_of,
    picture_file,
    pose_matrix,
    read_table,
    scenes_below,
    table_file,
)
from sim2cam.data.parsing import read_text
from sim2cam.data.sample import Dataset, Sample
from sim2cam.errors import InputError
from sim2cam.files import write_whole
from sim2cam.metrics.matching import LEAST_VISIBLE
from sim2cam.metrics.pose_errors import symmetry_transforms

Floats = NDArray[np.float64]

TARGETS = "test_targets_bop19.json"
"""Beside the parts of a data set: which images are scored, and which objects in them."""

_HEADER = "scene_id,im_id,obj_id,score,R,t,time"
_COLUMNS = _HEADER.split(",")
_MODELS = ("models_eval", "models")
_MODELS_INFO = "models_info.json"
_MOST_BYTES = 500_000_000
_SAME_TIME_S = 0.001


@dataclass(frozen=True, eq=False)
class PoseResult:
    """An estimated pose.

    Attributes:
        scene_id, image_id, object_id: numbers of the scene, of the picture in it and of the object.
        score: how sure it is; any number, larger is surer.
        pose: matrix (4, 4) from the object's frame to the camera's, metres.
        seconds: that its picture took; -1 where unknown.
    """

    scene_id: int
    image_id: int
    object_id: int
    score: float
    pose: Floats
    seconds: float = -1.0


@dataclass(frozen=True, eq=False)
class PoseView:
    """A picture in which objects are to be found.

    Attributes:
        scene_id, image_id: numbers of its scene and of itself.
        camera: matrix (3, 3) of its pinhole.
        width, height: pixels.
        truths: poses (m, 4, 4) of the instances that count, by the object's number.
        depth: file of the depth camera's picture; None without one.
        depth_unit_m: of its steps.
    """

    scene_id: int
    image_id: int
    camera: Floats
    width: int
    height: int
    truths: Mapping[int, Floats]
    depth: Path | None
    depth_unit_m: float


@dataclass(frozen=True, eq=False)
class ModelEntry:
    """What is known of an object.

    Attributes:
        name: its category.
        mesh: its file, in millimetres.
        diameter_m: the largest distance between two of its points.
        symmetries: matrices (n, 4, 4), metres, of ``symmetry_transforms``.
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
class _Axis:
    axis: _Vector
    offset: _Vector


@dataclass(frozen=True)
class _Model:
    diameter: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    symmetries_discrete: list[_Matrix] = field(default_factory=list)
    symmetries_continuous: list[_Axis] = field(default_factory=list)


_TARGETS: TypeAdapter[list[_Target]] = TypeAdapter(list[_Target])
_MODEL_TABLE: TypeAdapter[dict[int, _Model]] = TypeAdapter(dict[int, _Model])

Wanted = dict[tuple[int, int], dict[int, int]]
"""How many instances of each object are to be found, by the numbers of scene and image."""


def scored_scenes(root: Path) -> list[Path]:
    """Returns the folders of the scenes of a data set that are scored: its test part.

    Raises:
        InputError: it has several parts and none of them is ``test`` or ``test_...``.
    """
    parts = scenes_below(root)
    tests = [scenes for part, scenes in parts.items() if part.split("_")[0] == "test"]
    if not tests and len(parts) == 1:
        tests = list(parts.values())
    if not tests:
        raise InputError(
            root, f"has no part test among {', '.join(sorted(parts)) or 'none'}. Name the part."
        )
    return [scene for scenes in tests for scene in scenes]


def read_targets(scenes: Sequence[Path]) -> Wanted | None:
    """Returns what is to be found in scenes of one data set; None without a list of it.

    Raises:
        InputError: the list is broken, or names nothing in these scenes.
    """
    path = scenes[0].parents[1] / TARGETS
    if not path.is_file():
        return None
    wanted: Wanted = defaultdict(dict)
    numbers = {scene_number(scene) for scene in scenes}
    for target in read_table(path, _TARGETS):
        if target.scene_id in numbers:
            wanted[target.scene_id, target.im_id][target.obj_id] = target.inst_count
    if not wanted:
        raise InputError(path, f"names nothing in scene {min(numbers)}. {CURE}")
    return dict(wanted)


def as_scored(root: Path, captures: Dataset) -> Dataset:
    """Returns captures of a BOP data set as BOP scores detections in them.

    With a list of targets, only its images count, and boxes are those of whole objects, also where
    something hides them; without one, captures stay as they are.

    Args:
        root: of the data set, a part of it or a scene.
        captures: read from there.

    Raises:
        InputError: the list is broken, or names nothing here.
    """
    scenes = scored_scenes(root) if has_targets(root) else []
    wanted = read_targets(scenes) if scenes else None
    if wanted is None:
        return captures
    folders = {scene.resolve() for scene in scenes}
    samples = tuple(
        replace(sample, objects=sample.objects and tuple(o.whole() for o in sample.objects))
        for sample in captures.samples
        if sample.rgb.parents[1].resolve() in folders and place_of(sample) in wanted
    )
    return replace(captures, samples=samples)


def has_targets(root: Path) -> bool:
    """Return whether a list of targets lies beside the parts of a BOP data set."""
    return (_base_of(root) / TARGETS).is_file()


def place_of(sample: Sample) -> tuple[int, int]:
    """Returns the numbers of the scene and of the image of a sample of a BOP data set."""
    return scene_number(sample.rgb.parents[1]), int(sample.rgb.stem)


def _base_of(root: Path) -> Path:
    """Returns the folder beside whose parts the list of targets lies."""
    (scene, *_), *_ = scenes_below(root).values()
    return scene.parents[1]


def read_views(scenes: Sequence[Path]) -> tuple[PoseView, ...]:
    """Returns the pictures in which objects are to be found, as BOP's challenge of 2019 has it.

    With a list of targets, of each object the instances that are seen most, as many as it says;
    without one, all those of which at least ``matching.LEAST_VISIBLE`` is seen.

    Raises:
        InputError: a file is missing, broken or contradicts another.
    """
    wanted = read_targets(scenes)
    return tuple(view for scene in scenes for view in _views(scene, wanted))


def _views(scene: Path, wanted: Wanted | None) -> Iterator[PoseView]:
    cameras = read_table(table_file(scene, CAMERAS), CAMERA_TABLE)
    poses = read_table(table_file(scene, POSES), POSE_TABLE)
    infos = read_table(table_file(scene, INFOS), INFO_TABLE)
    scene_id = scene_number(scene)
    listed: dict[int, Mapping[int, int]]
    if wanted is None:
        listed = {number: _visible(poses, infos, number) for number in sorted(cameras)}
    else:
        listed = {number: counts for (of, number), counts in wanted.items() if of == scene_id}
    for number, counts in listed.items():
        for table, name in ((cameras, CAMERAS), (poses, POSES), (infos, INFOS)):
            if number not in table:
                raise InputError(
                    table_file(scene, name), f"image {number} is not in it. Copy the scene again."
                )
        yield _view(scene, number, cameras[number], _truths(scene, number, counts, poses, infos))


def _visible(
    poses: Mapping[int, list[PoseEntry]], infos: Mapping[int, list[InfoEntry]], number: int
) -> Counter[int]:
    """Returns how many instances of each object are seen well enough."""
    pairs = zip(poses.get(number, ()), infos.get(number, ()), strict=False)
    return Counter(pose.obj_id for pose, info in pairs if info.visib_fract >= LEAST_VISIBLE)


def _truths(
    scene: Path,
    number: int,
    counts: Mapping[int, int],
    poses: Mapping[int, list[PoseEntry]],
    infos: Mapping[int, list[InfoEntry]],
) -> dict[int, Floats]:
    """Returns the poses of the instances that are seen most, by their object."""
    given, beside = poses[number], infos[number]
    if len(given) != len(beside):
        raise InputError(
            table_file(scene, INFOS),
            f"image {number}: {len(beside)} objects, but {POSES} has {len(given)}. Calculate it "
            "again.",
        )
    truths: dict[int, list[Floats]] = {object_id: [] for object_id in counts}
    for index in sorted(range(len(given)), key=lambda i: -beside[i].visib_fract):
        chosen = truths.get(given[index].obj_id)
        if chosen is not None and len(chosen) < counts[given[index].obj_id]:
            chosen.append(matrix_of(table_file(scene, POSES), number, index, given[index]))
    for object_id, chosen in truths.items():
        if len(chosen) < counts[object_id]:
            raise InputError(
                table_file(scene, POSES),
                f"image {number}: {len(chosen)} instances of object {object_id}, but {TARGETS} asks "
                f"for {counts[object_id]}. They are of different data sets.",
            )
    return {object_id: np.stack(chosen) for object_id, chosen in truths.items()}


def _view(scene: Path, number: int, camera: CameraEntry, truths: dict[int, Floats]) -> PoseView:
    width, height = images.read_size(picture_file(scene, number))
    depth = scene / f"depth/{number:06d}.png"
    return PoseView(
        scene_number(scene),
        number,
        np.reshape(camera.matrix, (3, 3)),
        width,
        height,
        truths,
        depth if depth.is_file() else None,
        camera.depth_scale / MM,
    )


def scene_number(scene: Path) -> int:
    """Returns the number of a scene, which is the name of its folder.

    Raises:
        InputError: it is none.
    """
    try:
        return int(scene.name)
    except ValueError as error:
        raise InputError(scene, "is no number, as folders of scenes are. Rename it.") from error


def read_models(scenes: Sequence[Path]) -> dict[int, ModelEntry]:
    """Returns what is known of the objects of scenes, by their numbers.

    Raises:
        InputError: the folder of meshes is missing, or its table of them is broken.
    """
    base = scenes[0].parents[1]
    folder = next((base / name for name in _MODELS if (base / name).is_dir()), None)
    if folder is None:
        raise InputError(
            base, f"holds no {_MODELS[0]}/ with the meshes of the objects. Unpack them there."
        )
    path = folder / _MODELS_INFO
    names = names_of(scenes)
    return {
        number: ModelEntry(
            names.get(number, f"obj_{number:06d}"),
            folder / f"obj_{number:06d}.ply",
            model.diameter / MM,
            _symmetries(path, number, model),
        )
        for number, model in read_table(path, _MODEL_TABLE).items()
    }


def _symmetries(path: Path, number: int, model: _Model) -> Floats:
    discrete = []
    for values in model.symmetries_discrete:
        rows = np.reshape(values, (4, 4))
        matrix = pose_matrix(rows[:3, :3].ravel().tolist(), rows[:3, 3].tolist())
        if matrix is None:
            raise InputError(path, f"object {number}: a symmetry is no rigid motion. {CURE}")
        discrete.append(matrix)
    continuous = []
    for turn in model.symmetries_continuous:
        axis, point = np.array(turn.axis), np.array(turn.offset) / MM
        if not (np.isfinite([*axis, *point]).all() and axis.any()):
            raise InputError(path, f"object {number}: a symmetry has no axis. {CURE}")
        continuous.append((axis, point))
    return symmetry_transforms(discrete, continuous)


def read_pose_results(path: Path) -> tuple[PoseResult, ...]:
    """Returns the estimated poses of a CSV file in the format of BOP's challenge of 2019.

    Its columns are ``scene_id,im_id,obj_id,score,R,t,time``: the nine numbers of the rotation, by
    rows, and the three of the translation, in millimetres, have spaces between them. The line that
    names the columns may be missing.

    Raises:
        InputError: it is missing or broken, or images took several times.
    """
    lines = read_text(path, _MOST_BYTES, "list of poses").splitlines()
    if not lines:
        raise InputError(path, f"is empty. Without any pose, it is the line {_HEADER}")
    results = []
    times: dict[tuple[int, int], float] = {}
    for number, line in enumerate(lines, start=1):
        cells = [cell.strip() for cell in line.split(",")]
        if not line.strip() or (number == 1 and cells == _COLUMNS):
            continue
        try:
            result = _result(cells)
        except ValueError as error:
            raise InputError(path, f"line {number}: {error} {CURE}") from error
        known = times.setdefault((result.scene_id, result.image_id), result.seconds)
        if abs(known - result.seconds) > _SAME_TIME_S:
            raise InputError(
                path,
                f"line {number}: time {result.seconds:g}, but another line of its image has "
                f"{known:g}. Give every line the time that the whole image took.",
            )
        results.append(result)
    return tuple(results)


def _result(cells: Sequence[str]) -> PoseResult:
    if len(cells) != len(_COLUMNS):
        raise ValueError(f"{len(cells)} cells, not {len(_COLUMNS)}.")
    named = dict(zip(_COLUMNS, cells, strict=True))
    scene_id, image_id, object_id = (_integer(named, name) for name in _COLUMNS[:3])
    (score,), (seconds,) = _floats(named, "score", 1), _floats(named, "time", 1)
    pose = pose_matrix(_floats(named, "R", 9), _floats(named, "t", 3))
    if pose is None:
        raise ValueError(f"R {named['R']} is no rotation.")
    return PoseResult(scene_id, image_id, object_id, score, pose, seconds)


def _integer(named: Mapping[str, str], name: str) -> int:
    text = named[name]
    if not text.isdecimal():
        raise ValueError(f"{name} '{text}' is no whole number of 0 or more.")
    return int(text)


def _floats(named: Mapping[str, str], name: str, count: int) -> list[float]:
    try:
        values = [float(word) for word in named[name].split()]
    except ValueError:
        values = []
    if len(values) != count or not all(map(math.isfinite, values)):
        raise ValueError(f"{name} '{named[name][:80]}' is not {count} finite numbers.")
    return values


def write_pose_results(results: Sequence[PoseResult], path: Path) -> None:
    """Writes estimated poses as ``read_pose_results`` reads them.

    Raises:
        OutputError: the file cannot be written.
    """
    lines = [_HEADER]
    for one in results:
        rotation = " ".join(map(repr, one.pose[:3, :3].ravel().tolist()))
        position = " ".join(map(repr, (one.pose[:3, 3] * MM).tolist()))
        numbers = f"{one.scene_id},{one.image_id},{one.object_id},{float(one.score)!r}"
        lines.append(f"{numbers},{rotation},{position},{float(one.seconds)!r}")
    write_whole(path, "".join(f"{line}\n" for line in lines).encode())
