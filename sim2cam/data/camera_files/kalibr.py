"""Kalibr's ``camchain.yaml``: pinhole cameras with radial-tangential or equidistant distortion."""

from __future__ import annotations

import re
from pathlib import Path

from sim2cam.data.camera_files.intrinsics import Intrinsics
from sim2cam.data.camera_files.table import CalibrationTable, read_yaml
from sim2cam.errors import InputError
from sim2cam.geometry.lens import BrownConrady, KannalaBrandt

_COEFFICIENT_COUNTS = {"none": 0, "radtan": 4, "equi": 4, "equidistant": 4}
"""Number of coefficients by distortion model."""


def read_kalibr(path: Path) -> tuple[Intrinsics, ...]:
    """Read the cameras of a chain in order; extrinsics are not read.

    Raises:
        InputError: If there is no camera, a value is missing or invalid, or the model is not supported.
    """
    table = read_yaml(path)
    names = [key for key in table.values if re.fullmatch(r"cam\d+", str(key))]
    if not names:
        raise InputError(path, "has no camera cam0. Check the path.")
    return tuple(
        _parse_camera(table.get_table(name), name)
        for name in sorted(names, key=lambda name: int(name[3:]))
    )


def _parse_camera(table: CalibrationTable, name: str) -> Intrinsics:
    table.get_choice("camera_model", ["pinhole"])
    model = table.get_choice("distortion_model", _COEFFICIENT_COUNTS)
    matrix = table.get_numbers("intrinsics", [4])
    count = _COEFFICIENT_COUNTS[model]
    coefficients = table.get_numbers("distortion_coeffs", [count]) if count else []
    width, height = table.get_numbers("resolution", [2])
    if min(width, height) < 1 or width % 1 or height % 1:
        raise table.make_error(
            "resolution", table.get_value("resolution"), "It must be width and height in pixels"
        )
    kind = BrownConrady if model in ("none", "radtan") else KannalaBrandt
    return Intrinsics(name, int(width), int(height), table.build_lens(kind, *matrix, *coefficients))
