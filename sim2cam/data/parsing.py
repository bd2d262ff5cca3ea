"""Shared helpers of file readers: size limits, validation errors in one line, safe names."""

from __future__ import annotations

import gzip
import json
import re
import tomllib
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import ConfigDict, ValidationError

from sim2cam import images
from sim2cam.errors import InputError

STRICT_CONFIG = ConfigDict(extra="forbid", allow_inf_nan=False)
"""Pydantic configuration of values from files: unknown keys and non-finite numbers are refused."""
_CONTROL_CHARACTERS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_MAX_NESTING = 64  # levels of lists and tables
_MAX_NAME_LENGTH = 200  # characters; file names contain categories


def format_validation_error(error: ValidationError, location: str = "") -> str:
    """Return the first validation error in one line: ``images[3].width: ... (found "a")``."""
    first = error.errors()[0]
    steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"]]
    place = "".join([location, *steps]).removeprefix(".").removesuffix(".int").removesuffix(".str")
    place = place.removesuffix(".[key]")
    if first["type"] == "missing":
        return f"{place} is missing"
    head = f"{place}: " if place else ""
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "value_error" and isinstance(first["input"], dict):
        return f"{head}{message}"  # the message names the wrong entry
    return f"{head}{message} (found {json.dumps(first['input'], default=str)[:80]})"


@contextmanager
def convert_validation_errors(
    path: Path, hint: str = "", *, prefix: str = "", location: str = ""
) -> Iterator[None]:
    """Turn a pydantic error into an InputError with the first invalid value; see ``format_validation_error``."""
    try:
        yield
    except ValidationError as error:
        problem = f"{prefix}{format_validation_error(error, location)}. {hint}"
        raise InputError(path, problem.rstrip()) from error


def find_name_problem(name: str) -> str | None:
    """Return why a name cannot be printed on one line, or None if it can."""
    return (
        f"{json.dumps(name)[:80]} holds a control character. Rename it."
        if _CONTROL_CHARACTERS.search(name)
        else None
    )


def find_category_problem(name: str) -> str | None:
    """Return why a category name is invalid, or None if it is valid; file names contain categories."""
    if len(name) > _MAX_NAME_LENGTH:
        return f"'{name[:40]}…' has {len(name)} characters. Use at most {_MAX_NAME_LENGTH}."
    return find_name_problem(name)


def is_file(path: Path) -> bool:
    """Return whether a path is a regular file; False for names that are invalid as paths."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def is_inside_folder(name: str) -> bool:
    """Return whether a relative path stays inside its folder."""
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts


def read_text(path: Path, max_bytes: int, content: str) -> str:
    """Read a UTF-8 text file without its byte order mark; decompress ``.gz``.

    Raises:
        InputError: If the file is missing, damaged, too long, not regular or not UTF-8.
    """
    is_packed = path.suffix == ".gz"
    too_long = f"more than {max_bytes} bytes. No {content} is that long."
    if images.get_file_size(path) > max_bytes and not is_packed:
        raise InputError(path, too_long)
    try:
        with gzip.open(path) if is_packed else path.open("rb") as file:
            data = file.read(max_bytes + 1)
        if len(data) > max_bytes:
            raise InputError(path, too_long)
        return data.decode("utf-8-sig")
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(path, f"is damaged ({error}). Create it again.") from error
    except OSError as error:
        raise InputError(path, f"cannot be read ({error.strerror}). Check the path.") from error
    except UnicodeDecodeError as error:
        raise InputError(path, "not a text in UTF-8. Check the path.") from error


def read_json(path: Path, max_bytes: int, content: str, hint: str = "Correct the file.") -> Any:
    """Read a JSON file; arguments and errors as for ``read_text``.

    Raises:
        InputError: If the file is not JSON.
    """
    try:
        return json.loads(read_text(path, max_bytes, content))
    except RecursionError as error:
        raise _make_nesting_error(path) from error
    except ValueError as error:
        raise InputError(path, f"not JSON ({error}). {hint}") from error


def read_toml(path: Path, max_bytes: int, content: str) -> dict[str, Any]:
    """Read a TOML file; arguments and errors as for ``read_text``.

    Raises:
        InputError: If the file is not TOML or is nested too deeply.
    """
    try:
        tables = tomllib.loads(read_text(path, max_bytes, content))
    except tomllib.TOMLDecodeError as error:
        raise InputError(path, f"not TOML: {error}.") from error
    except RecursionError as error:
        raise _make_nesting_error(path) from error
    check_nesting(path, tables)
    return tables


def check_nesting(path: Path, values: object) -> None:
    """Raise InputError if lists and tables are nested more than 64 levels deep."""
    level, depth = [values], 0
    while level:
        if depth > _MAX_NESTING:
            raise _make_nesting_error(path)
        level = [
            inner
            for value in level
            if isinstance(value, dict | list)
            for inner in (value.values() if isinstance(value, dict) else value)
        ]
        depth += 1


def _make_nesting_error(path: Path) -> InputError:
    return InputError(
        path, f"lists or tables are nested more than {_MAX_NESTING} deep. Correct the file."
    )
