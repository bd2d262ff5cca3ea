"""OpenCV's FileStorage YAML, with the keys of OpenCV's calibration programs."""

from __future__ import annotations

from pathlib import Path

from sim2cam.data.camera_files.intrinsics import Intrinsics
from sim2cam.data.camera_files.table import CalibrationTable, read_yaml
from sim2cam.geometry.lens import BrownConrady, KannalaBrandt, Lens, Rational, ThinPrism

_MODELS = {4: BrownConrady, 5: BrownConrady, 8: Rational, 12: ThinPrism, 14: ThinPrism}
"""Lens by number of coefficients; the last two of 14 tilt the sensor."""
_MAX_COEFFICIENTS = 12


def read_opencv(path: Path) -> Intrinsics:
    """Read the camera of a file; it is a fisheye camera if ``fisheye_model`` is 1.

    Raises:
        InputError: If a value is missing or invalid or the sensor is tilted.
    """
    table = read_yaml(path)
    matrix = table.get_camera_matrix("camera_matrix")
    size = table.get_size("image_width"), table.get_size("image_height")
    return Intrinsics("", *size, _parse_lens(table, matrix))


def _parse_lens(table: CalibrationTable, matrix: tuple[float, ...]) -> Lens:
    coefficients_table = table.get_table("distortion_coefficients")
    if table.values.get("fisheye_model") in (1, True):
        return table.build_lens(
            KannalaBrandt, *matrix, *coefficients_table.get_numbers("data", [4])
        )
    coefficients = coefficients_table.get_numbers("data", list(_MODELS))
    if any(coefficients[_MAX_COEFFICIENTS:]):
        raise coefficients_table.make_error(
            "data",
            coefficients[_MAX_COEFFICIENTS:],
            "Tilted sensors (the last two coefficients) are not supported",
        )
    return table.build_lens(_MODELS[len(coefficients)], *matrix, *coefficients[:_MAX_COEFFICIENTS])
