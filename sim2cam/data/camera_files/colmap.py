"""COLMAP's ``cameras.txt``, with pixel centres at half-integers."""

from __future__ import annotations

from pathlib import Path

from sim2cam.data.camera_files.intrinsics import Intrinsics
from sim2cam.data.camera_files.table import CalibrationTable, parse_number, read_text
from sim2cam.errors import InputError
from sim2cam.geometry.lens import BrownConrady, KannalaBrandt, Rational

_MODELS: dict[str, tuple[type[BrownConrady | Rational | KannalaBrandt], str]] = {
    "SIMPLE_PINHOLE": (BrownConrady, "f cx cy"),
    "PINHOLE": (BrownConrady, "fx fy cx cy"),
    "SIMPLE_RADIAL": (BrownConrady, "f cx cy k1"),
    "RADIAL": (BrownConrady, "f cx cy k1 k2"),
    "OPENCV": (BrownConrady, "fx fy cx cy k1 k2 p1 p2"),
    "FULL_OPENCV": (Rational, "fx fy cx cy k1 k2 p1 p2 k3 k4 k5 k6"),
    "SIMPLE_RADIAL_FISHEYE": (KannalaBrandt, "f cx cy k1"),
    "RADIAL_FISHEYE": (KannalaBrandt, "f cx cy k1 k2"),
    "OPENCV_FISHEYE": (KannalaBrandt, "fx fy cx cy k1 k2 k3 k4"),
}
_PARAMETER_FIELDS = {"f": "fx_px", "fx": "fx_px", "fy": "fy_px", "cx": "cx_px", "cy": "cy_px"}
_PIXEL_CENTER_OFFSET = 0.5  # COLMAP has the centre of the upper left pixel at (0.5, 0.5)


def read_colmap(path: Path) -> tuple[Intrinsics, ...]:
    """Read the cameras of a ``cameras.txt``, named by their number.

    Raises:
        InputError: If a line is not a camera or its model is not supported.
    """
    lines = enumerate(read_text(path).splitlines(), start=1)
    texts = [(number, text.strip()) for number, text in lines]
    cameras = [
        _parse_camera(path, number, text) for number, text in texts if text and text[0] != "#"
    ]
    if not cameras:
        raise InputError(path, "lists no camera. Check the path.")
    return tuple(cameras)


def _parse_camera(path: Path, line_number: int, text: str) -> Intrinsics:
    name, *words = text.split()
    model = words[0] if words else ""
    if model not in _MODELS:
        raise InputError(
            path,
            f"line {line_number}: model '{model}' is not supported. Allowed: {', '.join(_MODELS)}.",
        )
    kind, params = _MODELS[model]
    keys = ["WIDTH", "HEIGHT", *params.split()]
    numbers = [number for word in words[1:] if (number := parse_number(word)) is not None]
    if not len(numbers) == len(words) - 1 == len(keys):
        raise InputError(
            path, f"line {line_number}: {model} takes {' '.join(keys)}, found: {text[:80]}"
        )
    width, height, *values = numbers
    if min(width, height) < 1 or width % 1 or height % 1:
        raise InputError(path, f"line {line_number}: {width:g} x {height:g} is not an image size.")
    parameters = {
        _PARAMETER_FIELDS.get(key, key): value for key, value in zip(keys[2:], values, strict=True)
    }
    parameters.setdefault("fy_px", parameters["fx_px"])
    parameters |= {key: parameters[key] - _PIXEL_CENTER_OFFSET for key in ("cx_px", "cy_px")}
    lens = CalibrationTable(path, {}, f"line {line_number}.").build_lens(kind, **parameters)
    return Intrinsics(name, int(width), int(height), lens)
