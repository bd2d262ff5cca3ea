"""MTL, the materials of OBJ, as far as the options before a picture's name, which trimesh takes for part of it."""

from __future__ import annotations

import re
from pathlib import Path

from sim2cam.render.assets.raw_mesh import warn

_PICTURE = re.compile(r"(\s*map_kd\s+)(-.*)", re.IGNORECASE)
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
_MOVE = re.compile(rf"(-[ost])((?:\s+{_NUMBER}(?=\s)){{1,3}})\s+", re.IGNORECASE)
_OTHER = re.compile(
    r"(?:-mm\s+\S+|-(?:blendu|blendv|bm|boost|cc|clamp|imfchan|texres|type))\s+\S+\s+",
    re.IGNORECASE,
)
_STILL = {"-o": 0.0, "-s": 1.0, "-t": 0.0}  # what leaves a picture where it is


def without_options(text: str, path: Path) -> str:
    """Returns an MTL file without the options of its pictures; warns of those that would move them.

    Args:
        text: of the file.
        path: of the mesh.
    """
    moves: list[str] = []
    lines = [_without(line, moves) for line in text.splitlines()]
    if moves:
        warn(path, f"its pictures are drawn without '{moves[0]}', which is not known.")
    return "\n".join(lines)


def _without(line: str, moves: list[str]) -> str:
    """Returns a line without options; those that would move its picture are added to ``moves``."""
    found = _PICTURE.fullmatch(line)
    if found is None:
        return line
    start, rest = found.groups()
    while option := _MOVE.match(rest) or _OTHER.match(rest):
        if option.re is _MOVE and any(
            float(one) != _STILL[option[1].lower()] for one in option[2].split()[:2]
        ):
            moves.append(option[0].strip())
        rest = rest[option.end() :]
    return start + rest
