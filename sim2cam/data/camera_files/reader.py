"""Reader of camera files that detects their format."""

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
    """Return whether a JSON file is from OpenCV's FileStorage and not from ``calibrate``.

    Raises:
        InputError: If it cannot be read or is not JSON.
    """
    values = read_json(path, MAX_BYTES, "calibration")
    return isinstance(values, dict) and "camera_matrix" in values


def read_cameras(path: Path) -> tuple[Intrinsics, ...]:
    """Read the cameras of a COLMAP (``.txt``), Kalibr, ROS or OpenCV file (YAML or JSON).

    Raises:
        InputError: If the format is not supported or a value is invalid.
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
        "unknown camera format. Allowed: COLMAP's cameras.txt, and YAML of Kalibr (cam0), ROS "
        "(camera_matrix, distortion_model) or OpenCV (camera_matrix).",
    )
