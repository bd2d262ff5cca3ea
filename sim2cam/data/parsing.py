"""What readers share: bounded texts, the first problem in one line, names that stay where they are."""

from __future__ import annotations

import gzip
import json
import re
import tomllib
import zlib
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import ConfigDict, ValidationError

from sim2cam import images
from sim2cam.errors import InputError

STRICT_CONFIG = ConfigDict(extra="forbid", allow_inf_nan=False)
"""Of values that are read from files: known keys, finite numbers."""
_CONTROL_CHARACTERS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_MAX_NESTING = 64  # lists and tables within one another, of what people write
_MAX_NAME_LENGTH = 200  # characters; files are named after categories and images


def format_validation_error(error: ValidationError, location: str = "") -> str:
    """Return the first problem in one line: ``images[3].width: ... (found "a")``.

    Args:
        error: of pydantic.
        location: place of the validated value in its file, as ``images[3]``.
    """
    first = error.errors()[0]
    steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"]]
    place = "".join([location, *steps]).removeprefix(".").removesuffix(".int").removesuffix(".str")
    place = place.removesuffix(".[key]")
    if first["type"] == "missing":
        return f"{place} is missing"
    head = f"{place}: " if place else ""
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "value_error" and isinstance(first["input"], dict):
        return f"{head}{message}"  # which names what is wrong in it
    return f"{head}{message} (found {json.dumps(first['input'], default=str)[:80]})"


def find_name_problem(name: str) -> str | None:
    """Return why nothing can have a name that stands in one line of text; None where it can."""
    return (
        f"{json.dumps(name)[:80]} holds a control character. Rename it."
        if _CONTROL_CHARACTERS.search(name)
        else None
    )


def find_category_problem(name: str) -> str | None:
    """Return why a category cannot have a name; None where it can. Files are named after categories."""
    if len(name) > _MAX_NAME_LENGTH:
        return f"'{name[:40]}…' has {len(name)} characters. Use at most {_MAX_NAME_LENGTH}."
    return find_name_problem(name)


def is_file(path: Path) -> bool:
    """Return whether a path is a regular file; False also for names that no file can have."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def is_inside_folder(name: str) -> bool:
    """Return whether a relative path names something inside its folder, in every reading of it."""
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts


def read_text(path: Path, max_bytes: int, content: str) -> str:
    """Return the text of a file, without a byte order mark, unpacked where its name ends in .gz.

    Args:
        path: the file.
        max_bytes: a longer one is refused before it is read, or unpacked.
        content: it is, for the error.

    Raises:
        InputError: it is missing, damaged, not a text, too long, or no regular file.
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
        raise InputError(path, f"is damaged ({error}). Make it anew.") from error
    except OSError as error:
        raise InputError(path, f"cannot be read ({error.strerror}). Check the path.") from error
    except UnicodeDecodeError as error:
        raise InputError(path, "not a text in UTF-8. Check the path.") from error


def read_json(path: Path, max_bytes: int, content: str, hint: str = "Correct the file.") -> Any:
    """Return the values of a JSON file; takes and raises what ``read_text`` does.

    Args:
        path: the file.
        max_bytes: a longer one is refused.
        content: it is, for the error.
        hint: what to do if the file is not JSON, for the error.

    Raises:
        InputError: it is no JSON.
    """
    try:
        return json.loads(read_text(path, max_bytes, content))
    except RecursionError as error:
        raise _make_nesting_error(path) from error
    except ValueError as error:
        raise InputError(path, f"not JSON ({error}). {hint}") from error


def read_toml(path: Path, max_bytes: int, content: str) -> dict[str, Any]:
    """Return the tables of a TOML file; takes and raises what ``read_text`` does.

    Raises:
        InputError: it is no TOML, or ``check_nesting`` refuses it.
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
    """Refuse values that no function that calls itself can handle.

    Raises:
        InputError: lists and tables in the file are nested more deeply than any that people write.
    """
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
