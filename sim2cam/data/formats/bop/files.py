"""The files of a BOP data set, as they are read: folders of scenes and their tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, TypeAdapter, ValidationError

from sim2cam import images
from sim2cam.data.parsing import format_validation_error, read_json
from sim2cam.errors import InputError
from sim2cam.geometry.boxes import Box

T = TypeVar("T")

CAMERA_FILE, POSE_FILE, INFO_FILE = "scene_camera.json", "scene_gt.json", "scene_gt_info.json"
CATEGORY_FILE = "categories.json"
_SENSOR = "rgb"
MM_PER_M = 1000.0
"""BOP's unit of length, in a metre."""
HINT = "Correct the file."

_MAX_BYTES = 200_000_000
_ROTATION_TOLERANCE = 0.05  # products of axes; LM-O's annotations are off by up to 0.0096

_Vector3 = Annotated[list[float], Field(min_length=3, max_length=3)]
_Vector4 = Annotated[list[float], Field(min_length=4, max_length=4)]
_Vector9 = Annotated[list[float], Field(min_length=9, max_length=9)]


@dataclass(frozen=True)
class CameraEntry:
    """A camera in ``scene_camera.json``; ``depth_scale`` is millimetres in a step of depth."""

    camera_matrix: Annotated[_Vector9, Field(alias="cam_K")]
    depth_scale: float = 1.0


@dataclass(frozen=True)
class PoseEntry:
    """An object's pose in ``scene_gt.json``: the object's frame in the camera's."""

    rotation: Annotated[_Vector9, Field(alias="cam_R_m2c")]
    position_mm: Annotated[_Vector3, Field(alias="cam_t_m2c")]
    obj_id: int


@dataclass(frozen=True)
class InfoEntry:
    """What ``scene_gt_info.json`` says of how an object is seen."""

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
    """Return the folders of scenes by part, for a data set, one part of it, or one scene."""
    root = root.resolve()  # whose parts are told by the names of folders
    if _is_scene(root):
        return {root.parent.name: [root]}
    found: dict[str, list[Path]] = defaultdict(list)
    for pattern in ("*/scene_camera*.json", "*/*/scene_camera*.json"):
        for folder in sorted({path.parent for path in root.glob(pattern)}):
            found[folder.parent.name].append(folder)
    return dict(found)


def _is_scene(folder: Path) -> bool:
    return any(folder.glob("scene_camera*.json"))


def resolve_table_path(folder: Path, name: str) -> Path:
    """Return the file of a table of a scene: that of the sensor ``rgb`` where it has several sensors.

    Raises:
        InputError: the scene has several sensors, none of which is called ``rgb``.
    """
    if (folder / CAMERA_FILE).is_file():
        return folder / name
    sensors = sorted(
        p.stem.removeprefix("scene_camera_") for p in folder.glob("scene_camera_*.json")
    )
    if sensors and _SENSOR not in sensors:
        raise InputError(
            folder,
            f"has images of the sensors {', '.join(sensors)}, of which none is called {_SENSOR}. Rename the files "
            f"of one, as scene_camera_{sensors[0]}.json to {CAMERA_FILE}.",
        )
    return folder / f"{Path(name).stem}_{_SENSOR}.json"


def find_mask_folder(folder: Path) -> Path:
    """Return the folder of the masks of what is seen in a scene."""
    own = folder / f"mask_visib_{_SENSOR}"
    return own if own.is_dir() else folder / "mask_visib"


def make_default_name(obj_id: int) -> str:
    """Return the name of a category that has none."""
    return f"obj_{obj_id:06d}"


def clip_bop_box(bop_box: Sequence[float], size: tuple[int, int]) -> Box:
    """Return a box of BOP, which names its first pixel and how many more there are, as far as it lies in a
    picture (width, height); empty where it lies beside.
    """
    x, y, width, height = bop_box
    x0, x1 = (min(max(side, 0.0), size[0]) for side in (x, x + width + 1))
    y0, y1 = (min(max(side, 0.0), size[1]) for side in (y, y + height + 1))
    return x0, y0, x1, y1


def read_category_names(scenes: Sequence[Path]) -> dict[int, str]:
    """Return the categories by ``obj_id``, of all that the scenes show.

    Raises:
        InputError: a table is broken.
    """
    path = scenes[0].parents[1] / CATEGORY_FILE
    given = read_table(path, _NAME_TABLE) if path.is_file() else {}
    shown = {
        pose.obj_id
        for scene in scenes
        if resolve_table_path(scene, POSE_FILE).is_file()
        for poses in read_table(resolve_table_path(scene, POSE_FILE), POSE_TABLE).values()
        for pose in poses
    }
    return {
        number: given.get(number, make_default_name(number))
        for number in sorted(shown | set(given))
    }


def read_table(path: Path, adapter: TypeAdapter[T]) -> T:
    """Return a table of a BOP data set.

    Raises:
        InputError: it is missing or broken.
    """
    try:
        return adapter.validate_python(read_json(path, _MAX_BYTES, "file of a scene"))
    except ValidationError as error:
        raise InputError(path, f"{format_validation_error(error)}. {HINT}") from error


def find_image(folder: Path, image_id: int) -> Path:
    """Return the picture with a number in the folder of its scene.

    Raises:
        InputError: there is none.
    """
    for place in ("rgb", "gray"):
        for suffix in images.IMAGE_SUFFIXES:
            path = folder / f"{place}/{image_id:06d}{suffix}"
            if path.is_file():
                return path
    raise InputError(
        folder,
        f"image {image_id} is in {CAMERA_FILE}, but not in rgb/ or gray/. Copy the scene again.",
    )


def parse_pose_matrix(
    path: Path, image_id: int, index: int, entry: PoseEntry
) -> NDArray[np.float64]:
    """Return the matrix (4, 4) to the camera's frame, metres, with the rotation as it is given.

    Args:
        path: of the table, for the error.
        image_id: of the image.
        index: of the object in it.
        entry: the entry.

    Raises:
        InputError: it is no pose.
    """
    matrix = build_pose_matrix(entry.rotation, entry.position_mm)
    if matrix is None:
        raise InputError(
            path,
            f"image {image_id}, object {index}: cam_R_m2c is no rotation, or cam_t_m2c is not finite. "
            f"{HINT}",
        )
    return matrix


def build_pose_matrix(
    rotation: Sequence[float], position_mm: Sequence[float]
) -> NDArray[np.float64] | None:
    """Return the matrix (4, 4) of BOP's nine and three numbers, metres; None when they are no pose."""
    matrix = np.eye(4)
    matrix[:3, :3] = np.reshape(rotation, (3, 3))
    matrix[:3, 3] = np.array(position_mm) / MM_PER_M
    turn = matrix[:3, :3]
    if not np.isfinite(matrix).all() or np.linalg.det(turn) < 0:
        return None
    return matrix if np.allclose(turn @ turn.T, np.eye(3), atol=_ROTATION_TOLERANCE) else None
