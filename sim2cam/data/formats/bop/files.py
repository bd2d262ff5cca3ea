"""Files of a BOP dataset: scene folders and their tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, TypeAdapter

from sim2cam import images
from sim2cam.data.parsing import convert_validation_errors, read_json
from sim2cam.errors import InputError
from sim2cam.geometry.boxes import Box

T = TypeVar("T")

CAMERA_FILE, POSE_FILE, INFO_FILE = "scene_camera.json", "scene_gt.json", "scene_gt_info.json"
CATEGORY_FILE = "categories.json"
_SENSOR = "rgb"
MM_PER_M = 1000.0
"""Millimetres (unit of BOP) per metre."""
HINT = "Correct the file."

_MAX_BYTES = 200_000_000
_ROTATION_TOLERANCE = 0.05  # of the products of axes; up to 0.0096 in LM-O

_Vector3 = Annotated[list[float], Field(min_length=3, max_length=3)]
_Vector4 = Annotated[list[float], Field(min_length=4, max_length=4)]
_Vector9 = Annotated[list[float], Field(min_length=9, max_length=9)]


@dataclass(frozen=True)
class CameraEntry:
    """Entry of ``scene_camera.json``; ``depth_scale`` is millimetres per depth unit."""

    camera_matrix: Annotated[_Vector9, Field(alias="cam_K")]
    depth_scale: float = 1.0


@dataclass(frozen=True)
class PoseEntry:
    """Entry of ``scene_gt.json``: pose of an object in the camera's frame."""

    rotation: Annotated[_Vector9, Field(alias="cam_R_m2c")]
    position_mm: Annotated[_Vector3, Field(alias="cam_t_m2c")]
    obj_id: int


@dataclass(frozen=True)
class InfoEntry:
    """Entry of ``scene_gt_info.json``: boxes and visibility of an object."""

    bbox_obj: _Vector4
    bbox_visib: _Vector4
    px_count_visib: int
    visib_fract: float


CAMERA_TABLE: TypeAdapter[dict[int, CameraEntry]] = TypeAdapter(dict[int, CameraEntry])
POSE_TABLE: TypeAdapter[dict[int, list[PoseEntry]]] = TypeAdapter(dict[int, list[PoseEntry]])
INFO_TABLE: TypeAdapter[dict[int, list[InfoEntry]]] = TypeAdapter(dict[int, list[InfoEntry]])
POSE_LIST: TypeAdapter[list[PoseEntry]] = TypeAdapter(list[PoseEntry])
INFO_LIST: TypeAdapter[list[InfoEntry]] = TypeAdapter(list[InfoEntry])
_NAME_TABLE: TypeAdapter[dict[int, str]] = TypeAdapter(dict[int, str])


def find_scenes(root: Path) -> dict[str, list[Path]]:
    """Return the scene folders by split, for a dataset, one of its splits, or one scene."""
    root = root.resolve()  # folder names are the names of splits
    if any(root.glob("scene_camera*.json")):
        return {root.parent.name: [root]}
    by_split: dict[str, list[Path]] = defaultdict(list)
    for pattern in ("*/scene_camera*.json", "*/*/scene_camera*.json"):
        for folder in sorted({path.parent for path in root.glob(pattern)}):
            by_split[folder.parent.name].append(folder)
    return dict(by_split)


def resolve_table_path(folder: Path, name: str) -> Path:
    """Return the file of a scene's table, of the sensor ``rgb`` if there are several sensors.

    Raises:
        InputError: the scene has several sensors, but none named ``rgb``.
    """
    if (folder / CAMERA_FILE).is_file():
        return folder / name
    sensors = sorted(
        p.stem.removeprefix("scene_camera_") for p in folder.glob("scene_camera_*.json")
    )
    if sensors and _SENSOR not in sensors:
        raise InputError(
            folder,
            f"has images of the sensors {', '.join(sensors)}, but not of {_SENSOR}. Rename the files of one "
            f"sensor, e.g. scene_camera_{sensors[0]}.json to {CAMERA_FILE}.",
        )
    return folder / f"{Path(name).stem}_{_SENSOR}.json"


def find_mask_folder(folder: Path) -> Path:
    """Return the folder of a scene's masks of visible pixels."""
    sensor_folder = folder / f"mask_visib_{_SENSOR}"
    return sensor_folder if sensor_folder.is_dir() else folder / "mask_visib"


def make_default_name(obj_id: int) -> str:
    """Return the name of a category without a name in ``categories.json``."""
    return f"obj_{obj_id:06d}"


def clip_bop_box(bop_box: Sequence[float], size: tuple[int, int]) -> Box:
    """Return a BOP box clipped to an image (width, height); empty if outside.

    BOP boxes are the first pixel and the number of further pixels.
    """
    x, y, width, height = bop_box
    x0, x1 = (min(max(side, 0.0), size[0]) for side in (x, x + width + 1))
    y0, y1 = (min(max(side, 0.0), size[1]) for side in (y, y + height + 1))
    return x0, y0, x1, y1


def read_category_names(scenes: Sequence[Path]) -> dict[int, str]:
    """Return the category names by ``obj_id``, of all objects in the scenes.

    Raises:
        InputError: a table is broken.
    """
    path = scenes[0].parents[1] / CATEGORY_FILE
    names = read_table(path, _NAME_TABLE) if path.is_file() else {}
    object_ids = {
        pose.obj_id
        for scene in scenes
        if resolve_table_path(scene, POSE_FILE).is_file()
        for poses in read_table(resolve_table_path(scene, POSE_FILE), POSE_TABLE).values()
        for pose in poses
    }
    return {
        object_id: names.get(object_id, make_default_name(object_id))
        for object_id in sorted(object_ids | set(names))
    }


def read_table(path: Path, adapter: TypeAdapter[T]) -> T:
    """Return the validated table of a JSON file.

    Raises:
        InputError: the file is missing or invalid.
    """
    with convert_validation_errors(path, HINT):
        return adapter.validate_python(read_json(path, _MAX_BYTES, "scene file"))


def find_image(folder: Path, image_id: int) -> Path:
    """Return the image of a scene by its id.

    Raises:
        InputError: the image is missing.
    """
    for name in ("rgb", "gray"):
        for suffix in images.IMAGE_SUFFIXES:
            path = folder / f"{name}/{image_id:06d}{suffix}"
            if path.is_file():
                return path
    raise InputError(
        folder,
        f"image {image_id} of {CAMERA_FILE} is missing in rgb/ and gray/. Copy the scene again.",
    )


def parse_pose_matrix(
    path: Path, location: str, entry: PoseEntry, hint: str = ""
) -> NDArray[np.float64]:
    """Return the pose matrix (4, 4) to the camera's frame, metres, with the rotation as given.

    Raises:
        InputError: the pose is invalid.
    """
    matrix = build_pose_matrix(entry.rotation, entry.position_mm)
    if matrix is None:
        problem = f"{location}: cam_R_m2c is not a rotation, or cam_t_m2c is not finite. {hint}"
        raise InputError(path, problem.rstrip())
    return matrix


def check_same_length(
    path: Path, location: str, infos: Sequence[InfoEntry], poses: Sequence[PoseEntry]
) -> None:
    """Raise InputError if the tables of an image list different numbers of objects."""
    if len(poses) != len(infos):
        raise InputError(
            path,
            f"{location}: {len(infos)} objects, but {POSE_FILE} has {len(poses)}. Run calc_gt_info.py again.",
        )


def build_pose_matrix(
    rotation: Sequence[float], position_mm: Sequence[float]
) -> NDArray[np.float64] | None:
    """Return the matrix (4, 4) of a BOP rotation and translation, metres; None if invalid."""
    matrix = np.eye(4)
    matrix[:3, :3] = np.reshape(rotation, (3, 3))
    matrix[:3, 3] = np.array(position_mm) / MM_PER_M
    axes = matrix[:3, :3]
    if not np.isfinite(matrix).all() or np.linalg.det(axes) < 0:
        return None
    return matrix if np.allclose(axes @ axes.T, np.eye(3), atol=_ROTATION_TOLERANCE) else None
