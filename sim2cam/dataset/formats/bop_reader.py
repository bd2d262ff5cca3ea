"""Reading BOP: data sets of its benchmark, and what ``bop`` wrote."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError

from sim2cam import images
from sim2cam.dataset.formats.bop import CAMERAS, INFOS, MM, NAMES, POSES
from sim2cam.dataset.parsing import first_problem, read_json
from sim2cam.dataset.sample import Dataset, ObjectLabel, Origin, Sample
from sim2cam.errors import InputError, LensError
from sim2cam.geometry.boxes import Box
from sim2cam.geometry.lens import BrownConrady
from sim2cam.geometry.poses import Pose

T = TypeVar("T")

_MOST_BYTES = 200_000_000
_CURE = "Correct the file."
_OFF_ROTATION = 0.05  # products of axes; LM-O's annotations are off by up to 0.0096

_Three = Annotated[list[float], Field(min_length=3, max_length=3)]
_Four = Annotated[list[float], Field(min_length=4, max_length=4)]
_Nine = Annotated[list[float], Field(min_length=9, max_length=9)]


@dataclass(frozen=True)
class _Camera:
    matrix: Annotated[_Nine, Field(alias="cam_K")]
    depth_scale: float = 1.0


@dataclass(frozen=True)
class _Gt:
    rotation: Annotated[_Nine, Field(alias="cam_R_m2c")]
    position_mm: Annotated[_Three, Field(alias="cam_t_m2c")]
    obj_id: int


@dataclass(frozen=True)
class _Info:
    bbox_obj: _Four
    bbox_visib: _Four
    px_count_visib: int
    visib_fract: float


_NAMES: TypeAdapter[dict[int, str]] = TypeAdapter(dict[int, str])
_CAMERAS: TypeAdapter[dict[int, _Camera]] = TypeAdapter(dict[int, _Camera])
_POSES: TypeAdapter[dict[int, list[_Gt]]] = TypeAdapter(dict[int, list[_Gt]])
_INFOS: TypeAdapter[dict[int, list[_Info]]] = TypeAdapter(dict[int, list[_Info]])


def is_bop(path: Path) -> bool:
    """Returns whether a path is a folder of scenes, or one."""
    return bool(_scenes_below(path))


def _scenes_below(root: Path) -> dict[str, list[Path]]:
    """Returns the folders of scenes by part, for a data set, one part of it, or one scene."""
    if (root / CAMERAS).is_file():
        return {root.parent.name: [root]}
    found: dict[str, list[Path]] = defaultdict(list)
    for pattern in (f"*/{CAMERAS}", f"*/*/{CAMERAS}"):
        for path in sorted(root.glob(pattern)):
            found[path.parent.parent.name].append(path.parent)
    return dict(found)


def read_bop(root: Path, origin: Origin) -> dict[str, Dataset]:
    """Returns the parts of a data set (``test``, ``train_pbr``, ...), of one part or of one scene.

    Boxes are those of what is seen; objects that are hidden whole are left out. Categories are named
    by ``categories.json`` where our export wrote one, and else as the files of their meshes:
    ``obj_000001``. Depth is that of a depth camera, ``sensor_depth``.

    Raises:
        InputError: a file is missing, broken or contradicts itself.
    """
    parts = _scenes_below(root)
    scenes = [scene for found in parts.values() for scene in found]
    names = _names(scenes)
    samples: dict[str, list[Sample]] = {part: [] for part in parts}
    number = 0
    for part, folders in parts.items():
        for folder in folders:
            samples[part].extend(_scene(root, folder, number, names, origin))
            number += 1
    found = {o.category for part in samples.values() for s in part for o in s.objects or ()}
    listed = tuple(dict.fromkeys(names.values()))  # several models may be of one category
    categories = tuple(name for name in listed if name in found) or listed
    return {part: Dataset(root, categories, tuple(read)) for part, read in samples.items()}


def _names(scenes: list[Path]) -> dict[int, str]:
    """Returns the categories by ``obj_id``, of all that the scenes show."""
    path = scenes[0].parents[1] / NAMES
    given = _table(path, _NAMES) if path.is_file() else {}
    shown = {
        pose.obj_id
        for scene in scenes
        if (scene / POSES).is_file()
        for poses in _table(scene / POSES, _POSES).values()
        for pose in poses
    }
    return {number: given.get(number, f"obj_{number:06d}") for number in sorted(shown | set(given))}


def _scene(
    root: Path, folder: Path, scene_index: int, names: Mapping[int, str], origin: Origin
) -> Iterator[Sample]:
    cameras = _table(folder / CAMERAS, _CAMERAS)
    labelled = (folder / POSES).is_file()
    poses = _table(folder / POSES, _POSES) if labelled else {}
    infos = _table(folder / INFOS, _INFOS) if labelled else {}
    for number, camera in sorted(cameras.items()):
        path = _picture_file(folder, number)
        width, height = images.read_size(path)
        objects = None
        if labelled:
            objects = tuple(_labels(folder, number, poses, infos, names))
        depth = folder / f"depth/{number:06d}.png"
        yield Sample(
            name=path.relative_to(root).as_posix(),
            rgb=path,
            width=width,
            height=height,
            objects=objects,
            origin=origin,
            channels={"sensor_depth": depth} if depth.is_file() else {},
            lens=_lens(folder / CAMERAS, number, camera),
            scene_index=scene_index,
            depth_unit_m=camera.depth_scale / MM if depth.is_file() else None,
        )


def _table(path: Path, adapter: TypeAdapter[T]) -> T:
    try:
        return adapter.validate_python(read_json(path, _MOST_BYTES, "file of a scene"))
    except ValidationError as error:
        raise InputError(path, f"{first_problem(error)}. {_CURE}") from error


def _picture_file(folder: Path, number: int) -> Path:
    for place in ("rgb", "gray"):
        for suffix in images.SUFFIXES:
            path = folder / f"{place}/{number:06d}{suffix}"
            if path.is_file():
                return path
    raise InputError(
        folder, f"image {number} is in {CAMERAS}, but not in rgb/ or gray/. Copy the scene again."
    )


def _lens(path: Path, number: int, camera: _Camera) -> BrownConrady:
    fx, skew, cx, zero, fy, cy, *last = camera.matrix
    if skew or zero or last != [0, 0, 1]:
        raise InputError(path, f"image {number}: cam_K is not fx 0 cx, 0 fy cy, 0 0 1. {_CURE}")
    try:
        return BrownConrady(fx, fy, cx, cy)
    except LensError as error:
        raise InputError(path, f"image {number}: {error}") from error


def _labels(
    folder: Path,
    number: int,
    poses: Mapping[int, list[_Gt]],
    infos: Mapping[int, list[_Info]],
    names: Mapping[int, str],
) -> Iterator[ObjectLabel]:
    given, beside = poses.get(number, []), infos.get(number, [])
    if len(given) != len(beside):
        raise InputError(
            folder / INFOS,
            f"image {number}: {len(beside)} objects, but {POSES} has {len(given)}. Calculate it "
            "again.",
        )
    for index, (pose, info) in enumerate(zip(given, beside, strict=True)):
        if info.px_count_visib > 0:
            box, whole = _box(info.bbox_visib), _box(info.bbox_obj)
            if box is None or whole is None or not 0 < info.visib_fract <= 1:
                raise InputError(
                    folder / INFOS,
                    f"image {number}, object {index}: impossible box or visib_fract. {_CURE}",
                )
            yield ObjectLabel(
                category=names[pose.obj_id],
                box_xyxy=box,
                area_px=info.px_count_visib,
                box_amodal_xyxy=whole,
                visible_fraction=info.visib_fract,
                pose=_pose_of(folder / POSES, number, index, pose),
            )


def _box(first_and_more: list[float]) -> Box | None:
    x, y, width, height = first_and_more
    if not all(map(math.isfinite, first_and_more)) or width < 0 or height < 0:
        return None
    return x, y, x + width + 1, y + height + 1


def _pose_of(path: Path, number: int, index: int, pose: _Gt) -> Pose:
    matrix = np.eye(4)
    matrix[:3, :3] = np.reshape(pose.rotation, (3, 3))
    matrix[:3, 3] = np.array(pose.position_mm) / MM
    rotation = matrix[:3, :3]
    is_rotation = np.allclose(rotation @ rotation.T, np.eye(3), atol=_OFF_ROTATION)
    if not np.isfinite(matrix).all() or not is_rotation or np.linalg.det(rotation) < 0:
        raise InputError(
            path,
            f"image {number}, object {index}: cam_R_m2c is no rotation, or cam_t_m2c is not finite. "
            f"{_CURE}",
        )
    return Pose.from_matrix(matrix)
