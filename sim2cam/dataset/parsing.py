"""What readers share: the first problem of a file in one line, and names that stay where they are."""

from __future__ import annotations

import json
from pathlib import PurePosixPath

from pydantic import ValidationError


def first_problem(error: ValidationError) -> str:
    """Returns the first problem in one line: ``images[3].width: ... (found "a")``."""
    first = error.errors()[0]
    steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"]]
    place = "".join(steps).removeprefix(".").removesuffix(".int").removesuffix(".str")
    if first["type"] == "missing":
        return f"{place} is missing"
    return f"{place}: {first['msg']} (found {json.dumps(first['input'], default=str)[:80]})"


def stays_inside(name: str) -> bool:
    """Returns whether a relative path names something inside its folder, in every reading of it."""
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts
