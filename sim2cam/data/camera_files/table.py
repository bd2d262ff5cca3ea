"""Tables of calibration files whose errors name file, key and value."""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from sim2cam.data import parsing
from sim2cam.errors import InputError, LensError
from sim2cam.geometry.lens import Lens

MAX_BYTES = 4_000_000
_MAX_SHOWN = 100  # characters of an invalid value
HINT = "Correct the file or calibrate again."


@dataclass(frozen=True)
class CalibrationTable:
    """A table in a calibration file."""

    path: Path
    values: dict[Any, Any]
    prefix: str = ""

    def make_error(self, key: str, value: object, expected: str) -> InputError:
        """Return the error for an invalid value."""
        shown = reprlib.repr(value)[:_MAX_SHOWN]  # YAML aliases can nest without end
        return InputError(self.path, f"{self.prefix}{key} is {shown}. {expected}. {HINT}")

    def get_value(self, key: str) -> Any:
        """Return a value.

        Raises:
            InputError: If it is missing.
        """
        if key not in self.values:
            raise InputError(self.path, f"{self.prefix}{key} is missing. {HINT}")
        return self.values[key]

    def get_table(self, key: str) -> CalibrationTable:
        """Return a nested table."""
        value = self.get_value(key)
        if not isinstance(value, dict):
            raise self.make_error(key, value, "It must be a table")
        return CalibrationTable(self.path, value, f"{self.prefix}{key}.")

    def get_size(self, key: str) -> int:
        """Return a positive integer."""
        value = self.get_value(key)
        if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
            raise self.make_error(key, value, "It must be a positive integer of pixels")
        return value

    def get_choice(self, key: str, allowed: Collection[str]) -> str:
        """Return a string out of the allowed ones."""
        value = self.get_value(key)
        if not isinstance(value, str) or value not in allowed:
            raise self.make_error(key, value, f"Allowed: {', '.join(allowed)}")
        return value

    def get_numbers(self, key: str, counts: Collection[int]) -> list[float]:
        """Return a list of finite numbers with one of the allowed lengths."""
        value = self.get_value(key)
        entries = value if isinstance(value, list) else []
        numbers = [number for entry in entries if (number := parse_number(entry)) is not None]
        if (
            not isinstance(value, list)
            or len(numbers) != len(entries)
            or len(entries) not in counts
        ):
            allowed = " or ".join(str(count) for count in counts)
            raise self.make_error(key, value, f"It must be a list of {allowed} finite numbers")
        return numbers

    def get_camera_matrix(self, key: str) -> tuple[float, float, float, float]:
        """Return fx, fy, cx, cy of a table with ``data``, a row-major 3 x 3 matrix."""
        return self.get_table(key).parse_pinhole_matrix("data")

    def parse_pinhole_matrix(self, key: str) -> tuple[float, float, float, float]:
        """Return fx, fy, cx, cy of a row-major 3 x 3 matrix."""
        fx, skew, cx, zero, fy, cy, *last = self.get_numbers(key, [9])
        if skew or zero or last != [0, 0, 1]:
            expected = "A camera matrix is fx 0 cx, 0 fy cy, 0 0 1, without skew"
            raise self.make_error(key, self.get_value(key), expected)
        return fx, fy, cx, cy

    def build_lens(
        self, lens_type: Callable[..., Lens], *numbers: float, **parameters: float
    ) -> Lens:
        """Return a lens with the given parameters.

        Raises:
            InputError: If the parameters are invalid.
        """
        try:
            return lens_type(*numbers, **parameters)
        except LensError as error:
            location = f"{self.prefix.removesuffix('.')}: " if self.prefix else ""
            raise InputError(self.path, f"{location}{error}") from error


def parse_number(value: object) -> float | None:
    """Return a finite number, also from a string like ``1e-5``, or None."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def read_text(path: Path) -> str:
    """Read a calibration file.

    Raises:
        InputError: If it is missing, not text or too large.
    """
    return parsing.read_text(path, MAX_BYTES, "calibration")


def read_yaml(path: Path) -> CalibrationTable:
    """Read the first document of a YAML or JSON file, also in OpenCV's dialect.

    Raises:
        InputError: If it cannot be read or is not a table.
    """
    text = re.sub(r"\A%YAML.*|!!opencv-[\w-]+", "", read_text(path))
    try:
        values = next(yaml.safe_load_all(text), None)  # `ros2 topic echo` ends each message in ---
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        location = f" in line {mark.line + 1}" if mark else ""
        raise InputError(path, f"not YAML{location}. {HINT}") from error
    except (RecursionError, ValueError) as error:
        raise InputError(path, f"not YAML ({error}). {HINT}") from error
    if not isinstance(values, dict):
        raise InputError(path, "has no table of keys and values. Check the path.")
    return CalibrationTable(path, values)
