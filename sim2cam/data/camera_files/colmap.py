"""COLMAP's ``cameras.txt``: one camera a line, with pixel centres at a half."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sim2cam.data.camera_files.intrinsics import Intrinsics
from sim2cam.data.camera_files.table import CalibrationTable, parse_number, read_text
from sim2cam.errors import InputError, OutputError
from sim2cam.files import write_atomic
from sim2cam.geometry.lens import BrownConrady, KannalaBrandt, Lens, Rational

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
_HEADER = "# CAMERA_ID, MODEL, WIDTH, HEIGHT, PARAMS[]"
_PIXEL_CENTER_OFFSET = 0.5  # COLMAP's upper left pixel has its centre at (0.5, 0.5)


def read_colmap(path: Path) -> tuple[Intrinsics, ...]:
    """Return the cameras of a ``cameras.txt``, named by their number.

    Raises:
        InputError: a line is no camera, or of a model that no lens here is.
    """
    lines = enumerate(read_text(path).splitlines(), start=1)
    texts = [(number, text.strip()) for number, text in lines]
    found = [_parse_camera(path, number, text) for number, text in texts if text and text[0] != "#"]
    if not found:
        raise InputError(path, "lists no camera. Check the path.")
    return tuple(found)


def write_colmap(path: Path, cameras: Sequence[Intrinsics]) -> None:
    """Write a ``cameras.txt``; cameras are numbered from 1.

    Raises:
        OutputError: COLMAP has no model for a lens, or the file cannot be written.
    """
    lines = [_HEADER]
    for number, camera in enumerate(cameras, start=1):
        model, numbers = _select_model(path, camera)
        texts = " ".join(repr(value) for value in numbers)
        lines.append(f"{number} {model} {camera.width} {camera.height} {texts}")
    write_atomic(path, ("\n".join(lines) + "\n").encode())


def _parse_camera(path: Path, line_number: int, text: str) -> Intrinsics:
    name, *words = text.split()
    model = words[0] if words else ""
    if model not in _MODELS:
        raise InputError(
            path,
            f"line {line_number}: model '{model}' is none of the lenses here, which are "
            f"{', '.join(_MODELS)}. Estimate one of them.",
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
        raise InputError(
            path, f"line {line_number}: {width:g} x {height:g} is no size of a picture."
        )
    named = {
        _PARAMETER_FIELDS.get(key, key): value for key, value in zip(keys[2:], values, strict=True)
    }
    named.setdefault("fy_px", named["fx_px"])
    named |= {key: named[key] - _PIXEL_CENTER_OFFSET for key in ("cx_px", "cy_px")}
    lens = CalibrationTable(path, {}, f"line {line_number}.").build_lens(kind, **named)
    return Intrinsics(name, int(width), int(height), lens)


def _select_model(path: Path, camera: Intrinsics) -> tuple[str, list[float]]:
    """Return the smallest model that holds a lens, and its numbers."""
    lens: Lens = camera.lens
    match lens:
        case KannalaBrandt():
            model = "OPENCV_FISHEYE"
        case BrownConrady() if lens.is_pinhole():
            model = "PINHOLE"
        case BrownConrady() if lens.k3 == 0:
            model = "OPENCV"
        case BrownConrady() | Rational():
            model = "FULL_OPENCV"
        case _:
            raise OutputError(
                path,
                f"COLMAP has no model for a {lens.kind} lens, which camera '{camera.name}' has.",
            )
    names = _MODELS[model][1].split()
    numbers = [float(getattr(lens, _PARAMETER_FIELDS.get(name, name), 0.0)) for name in names]
    numbers[2:4] = (number + _PIXEL_CENTER_OFFSET for number in numbers[2:4])
    return model, numbers
