"""Camera files of any kind, told apart by what they hold."""

from __future__ import annotations

from pathlib import Path

from sim2cam.data.camera_files.colmap import read_colmap
from sim2cam.data.camera_files.intrinsics import Intrinsics
from sim2cam.data.camera_files.kalibr import read_kalibr
from sim2cam.data.camera_files.opencv import read_opencv
from sim2cam.data.camera_files.ros import read_ros
from sim2cam.data.camera_files.table import MAX_BYTES, read_yaml
from sim2cam.data.parsing import read_json
from sim2cam.errors import InputError


def is_opencv_calibration(path: Path) -> bool:
    """Return whether a JSON file is one that OpenCV's FileStorage wrote, not one of ``calibrate``.

    Raises:
        InputError: it cannot be read, or is not JSON.
    """
    values = read_json(path, MAX_BYTES, "calibration")
    return isinstance(values, dict) and "camera_matrix" in values


def read_cameras(path: Path) -> tuple[Intrinsics, ...]:
    """Return the cameras of a file of COLMAP (``.txt``), Kalibr, ROS or OpenCV (YAML or JSON).

    Raises:
        InputError: it is none of them, or something in it is wrong.
    """
    if path.suffix.lower() == ".txt":
        return read_colmap(path)
    keys = {str(key) for key in read_yaml(path).values}
    if "cam0" in keys:
        return read_kalibr(path)
    if "distortion_model" in keys:
        return (read_ros(path),)
    if "camera_matrix" in keys:
        return (read_opencv(path),)
    raise InputError(
        path,
        "no camera is known by what it holds. COLMAP's cameras.txt, and YAML of Kalibr (cam0), ROS "
        "(camera_matrix, distortion_model) and OpenCV (camera_matrix) are.",
    )
