"""ROS ``camera_info`` YAML with the models of ``sensor_msgs/distortion_models``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import yaml

from sim2cam.data.camera_files.intrinsics import Intrinsics
from sim2cam.data.camera_files.table import CalibrationTable, read_yaml
from sim2cam.errors import OutputError
from sim2cam.files import write_atomic
from sim2cam.geometry.lens import BrownConrady, KannalaBrandt, Lens, Rational

_MODELS: dict[str, tuple[type[BrownConrady | Rational | KannalaBrandt], list[int]]] = {
    "plumb_bob": (BrownConrady, [5, 4]),
    "rational_polynomial": (Rational, [8]),
    "equidistant": (KannalaBrandt, [4]),
}
"""Lens and allowed numbers of coefficients by distortion model."""


def read_ros(path: Path) -> Intrinsics:
    """Read the camera of a ROS calibration file or a printed ``sensor_msgs/CameraInfo`` message.

    Messages are as ``ros2 topic echo`` and ``rostopic echo`` print them. Rectification and projection matrices
    are ignored.

    Raises:
        InputError: If a value is missing or invalid, or the model is not supported.
    """
    table = read_yaml(path)
    if "camera_matrix" not in table.values:
        return _parse_camera_info(table)
    kind, counts = _MODELS[table.get_choice("distortion_model", _MODELS)]
    coefficients = table.get_table("distortion_coefficients").get_numbers("data", counts)
    lens = table.build_lens(kind, *table.get_camera_matrix("camera_matrix"), *coefficients)
    name = table.values.get("camera_name")
    name = name if isinstance(name, str) else ""
    return Intrinsics(name, table.get_size("image_width"), table.get_size("image_height"), lens)


def _parse_camera_info(table: CalibrationTable) -> Intrinsics:
    """Return the camera of a message, whose keys are d and k in ROS 2 and D and K in ROS 1."""
    kind, counts = _MODELS[table.get_choice("distortion_model", _MODELS)]
    d, k = ("d", "k") if "k" in table.values else ("D", "K")
    lens = table.build_lens(kind, *table.parse_pinhole_matrix(k), *table.get_numbers(d, counts))
    return Intrinsics("", table.get_size("width"), table.get_size("height"), lens)


def write_ros(path: Path, camera: Intrinsics) -> None:
    """Write an unrectified camera.

    Raises:
        OutputError: If ROS has no model for the lens or the file is not writable.
    """
    model, lens = _select_model(path, camera)
    matrix = lens.matrix()
    tables = {
        "image_width": camera.width,
        "image_height": camera.height,
        "camera_name": camera.name,
        "camera_matrix": _build_matrix_table(matrix),
        "distortion_model": model,
        "distortion_coefficients": _build_matrix_table(lens.coefficients()[None]),
        "rectification_matrix": _build_matrix_table(np.eye(3)),
        "projection_matrix": _build_matrix_table(np.hstack([matrix, np.zeros((3, 1))])),
    }
    text = yaml.safe_dump(tables, sort_keys=False, default_flow_style=None)
    write_atomic(path, text.encode())


def _select_model(
    path: Path, camera: Intrinsics
) -> tuple[str, BrownConrady | Rational | KannalaBrandt]:
    lens: Lens = camera.lens
    for model, (kind, _) in _MODELS.items():
        if isinstance(lens, kind):
            return model, lens
    raise OutputError(
        path, f"ROS has no model for a {lens.kind} lens, which camera '{camera.name}' has."
    )


def _build_matrix_table(values: np.ndarray) -> dict[str, Any]:
    rows, cols = values.shape
    return {"rows": rows, "cols": cols, "data": values.ravel().tolist()}
