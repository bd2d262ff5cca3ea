"""Tables of calibration files: look-ups that name file, key and value when something is wrong."""

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
_MAX_SHOWN = 100  # characters of a wrong value
HINT = "Correct the file or calibrate again."


@dataclass(frozen=True)
class CalibrationTable:
    """A table of a file.

    Attributes:
        path: the file.
        values: what the table holds.
        prefix: where in the file it stands, with a dot at its end; empty for the whole file.
    """

    path: Path
    values: dict[Any, Any]
    prefix: str = ""

    def make_error(self, key: str, value: object, expected: str) -> InputError:
        """Return the error that a value is not what is needed."""
        shown = reprlib.repr(value)[:_MAX_SHOWN]  # aliases may make a small file hold endless lists
        return InputError(self.path, f"{self.prefix}{key} is {shown}. {expected}. {HINT}")

    def get_value(self, key: str) -> Any:
        """Return a value.

        Raises:
            InputError: it is missing.
        """
        if key not in self.values:
            raise InputError(self.path, f"{self.prefix}{key} is missing. {HINT}")
        return self.values[key]

    def get_table(self, key: str) -> CalibrationTable:
        """Return a table within."""
        value = self.get_value(key)
        if not isinstance(value, dict):
            raise self.make_error(key, value, "It is a table")
        return CalibrationTable(self.path, value, f"{self.prefix}{key}.")

    def get_size(self, key: str) -> int:
        """Return a whole number above 0."""
        value = self.get_value(key)
        if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
            raise self.make_error(key, value, "It is a whole number of pixels above 0")
        return value

    def get_choice(self, key: str, allowed: Collection[str]) -> str:
        """Return a word that is allowed."""
        value = self.get_value(key)
        if not isinstance(value, str) or value not in allowed:
            raise self.make_error(key, value, f"Lenses here are of {', '.join(allowed)}")
        return value

    def get_numbers(self, key: str, counts: Collection[int]) -> list[float]:
        """Return a list of finite numbers, as many as one of the counts."""
        value = self.get_value(key)
        given = value if isinstance(value, list) else []
        numbers = [number for entry in given if (number := parse_number(entry)) is not None]
        if not isinstance(value, list) or len(numbers) != len(given) or len(given) not in counts:
            allowed = " or ".join(str(count) for count in counts)
            raise self.make_error(key, value, f"It is a list of {allowed} finite numbers")
        return numbers

    def get_camera_matrix(self, key: str) -> tuple[float, float, float, float]:
        """Return fx, fy, cx, cy of a table with ``data``, row by row, of a 3 x 3 matrix."""
        return self.get_table(key).parse_pinhole_matrix("data")

    def parse_pinhole_matrix(self, key: str) -> tuple[float, float, float, float]:
        """Return fx, fy, cx, cy of a 3 x 3 matrix, row by row."""
        fx, skew, cx, zero, fy, cy, *last = self.get_numbers(key, [9])
        if skew or zero or last != [0, 0, 1]:
            needed = "A camera matrix is fx 0 cx, 0 fy cy, 0 0 1; no lens here has a skew"
            raise self.make_error(key, self.get_value(key), needed)
        return fx, fy, cx, cy

    def build_lens(
        self, lens_type: Callable[..., Lens], *numbers: float, **parameters: float
    ) -> Lens:
        """Return the lens that is made of numbers; one that cannot be is the file's fault."""
        try:
            return lens_type(*numbers, **parameters)
        except LensError as error:
            place = f"{self.prefix.removesuffix('.')}: " if self.prefix else ""
            raise InputError(self.path, f"{place}{error}") from error


def parse_number(value: object) -> float | None:
    """Return a finite number, also one that YAML takes for a word (``1e-5``); None for others."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def read_text(path: Path) -> str:
    """Return the text of a calibration file.

    Raises:
        InputError: it is missing, not a text, or too large to be one.
    """
    return parsing.read_text(path, MAX_BYTES, "calibration")


def read_yaml(path: Path) -> CalibrationTable:
    """Return the table of a YAML or JSON file, also of OpenCV's dialect; of several documents the first.

    Raises:
        InputError: it cannot be read, or is no YAML table.
    """
    text = re.sub(r"\A%YAML.*|!!opencv-[\w-]+", "", read_text(path))
    try:
        values = next(yaml.safe_load_all(text), None)  # `ros2 topic echo` ends each message in ---
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" in line {mark.line + 1}" if mark else ""
        raise InputError(path, f"not YAML{place}. {HINT}") from error
    except (RecursionError, ValueError) as error:
        raise InputError(path, f"not YAML ({error}). {HINT}") from error
    if not isinstance(values, dict):
        raise InputError(path, "holds no table of names and values. Check the path.")
    return CalibrationTable(path, values)
