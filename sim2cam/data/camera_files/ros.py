"""ROS ``camera_info`` YAML with the models of ``sensor_msgs/distortion_models``."""

from __future__ import annotations

from pathlib import Path

from sim2cam.data.camera_files.intrinsics import Intrinsics
from sim2cam.data.camera_files.table import CalibrationTable, read_yaml
from sim2cam.geometry.lens import BrownConrady, KannalaBrandt, Rational

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
