"""OpenCV's FileStorage YAML, with the names that its calibration programs write."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sim2cam.data.camera_files.intrinsics import Intrinsics
from sim2cam.data.camera_files.table import Table, read_yaml
from sim2cam.errors import OutputError
from sim2cam.files import write_whole
from sim2cam.geometry.lens import (
    BrownConrady,
    KannalaBrandt,
    Lens,
    RadialTable,
    Rational,
    ThinPrism,
)

_MODELS = {4: BrownConrady, 5: BrownConrady, 8: Rational, 12: ThinPrism, 14: ThinPrism}
"""By the number of coefficients; the last two of 14 tilt the sensor."""
_MOST = 12


def read_opencv(path: Path) -> Intrinsics:
    """Returns the camera of a file; it is a fisheye where ``fisheye_model`` is 1.

    Raises:
        InputError: a value is missing or wrong, or the sensor is tilted.
    """
    table = read_yaml(path)
    matrix = table.camera_matrix("camera_matrix")
    size = table.size("image_width"), table.size("image_height")
    return Intrinsics("", *size, _lens(table, matrix))


def write_opencv(path: Path, camera: Intrinsics) -> None:
    """Writes a camera as ``cv2.FileStorage`` reads it.

    Raises:
        OutputError: OpenCV has no model for the lens, or the file cannot be written.
    """
    lens = camera.lens
    if isinstance(lens, RadialTable):
        raise OutputError(
            path, f"OpenCV has no model for a {lens.kind} lens, which camera '{camera.name}' has."
        )
    text = (
        f"%YAML:1.0\n---\nimage_width: {camera.width}\nimage_height: {camera.height}\n"
        f"fisheye_model: {int(isinstance(lens, KannalaBrandt))}\n"
        f"camera_matrix: {_matrix(lens.matrix())}"
        f"distortion_coefficients: {_matrix(lens.coefficients()[None])}"
    )
    write_whole(path, text.encode())


def _lens(table: Table, matrix: tuple[float, ...]) -> Lens:
    inner = table.table("distortion_coefficients")
    if table.values.get("fisheye_model") in (1, True):
        return table.lens(KannalaBrandt, *matrix, *inner.numbers("data", [4]))
    found = inner.numbers("data", list(_MODELS))
    if any(found[_MOST:]):
        raise inner.wrong(
            "data", found[_MOST:], "Its last two tilt the sensor, as no lens here does"
        )
    return table.lens(_MODELS[len(found)], *matrix, *found[:_MOST])


def _matrix(values: NDArray[np.float64]) -> str:
    rows, cols = values.shape
    data = ", ".join(repr(value) for value in values.ravel().tolist())
    return f"!!opencv-matrix\n   rows: {rows}\n   cols: {cols}\n   dt: d\n   data: [ {data} ]\n"
