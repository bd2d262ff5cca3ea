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
"""Coefficients of each model."""


def read_kalibr(path: Path) -> tuple[Intrinsics, ...]:
    """Return the cameras of a chain, in its order; where they stand to one another is not read.

    Raises:
        InputError: there is none, a value is missing or wrong, or of a model no lens here is.
    """
    whole = read_yaml(path)
    names = [key for key in whole.values if re.fullmatch(r"cam\d+", str(key))]
    if not names:
        raise InputError(path, "holds no camera cam0. Check the path.")
    return tuple(
        _parse_camera(whole.get_table(name), name)
        for name in sorted(names, key=lambda n: int(n[3:]))
    )


def write_kalibr(path: Path, cameras: Sequence[Intrinsics]) -> None:
    """Write a chain of cam0, cam1, ..., without poses.

    Raises:
        OutputError: Kalibr has no model for a lens, or the file cannot be written.
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
            "resolution", table.get_value("resolution"), "It is width and height in pixels"
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
