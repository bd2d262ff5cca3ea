"""Kalibr's ``camchain.yaml``: pinhole cameras with radial-tangential or equidistant distortion."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from sim2cam.data.camera_files.intrinsics import Intrinsics
from sim2cam.data.camera_files.table import CalibrationTable, read_yaml
from sim2cam.errors import InputError, OutputError
from sim2cam.files import write_atomic
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


def write_kalibr(path: Path, cameras: Sequence[Intrinsics]) -> None:
    """Write a chain of cam0, cam1, ..., without extrinsics.

    Raises:
        OutputError: If Kalibr has no model for a lens or the file is not writable.
    """
    tables = {f"cam{i}": _build_camera_table(path, camera) for i, camera in enumerate(cameras)}
    text = yaml.safe_dump(tables, sort_keys=False, default_flow_style=None)
    write_atomic(path, text.encode())


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


def _build_camera_table(path: Path, camera: Intrinsics) -> dict[str, Any]:
    lens = camera.lens
    match lens:
        case KannalaBrandt():
            model, coefficients = "equi", lens.coefficients()
        case BrownConrady(k3=0.0):
            model, coefficients = "radtan", lens.coefficients()[:4]
        case BrownConrady():
            raise OutputError(
                path,
                f"Kalibr's radtan model has no k3, which is {lens.k3} in camera '{camera.name}'.",
            )
        case _:
            raise OutputError(
                path,
                f"Kalibr has no model for a {lens.kind} lens, which camera '{camera.name}' has.",
            )
    return {
        "camera_model": "pinhole",
        "distortion_coeffs": coefficients.tolist(),
        "distortion_model": model,
        "intrinsics": [lens.fx_px, lens.fy_px, lens.cx_px, lens.cy_px],
        "resolution": [camera.width, camera.height],
    }
