"""MTL, the materials of OBJ: colour and image of each."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sim2cam.assets.mesh_files.raw_mesh import warn
from sim2cam.assets.mesh_files.submesh import Rgb

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
_MOVE = re.compile(rf"(-[ost])((?:\s+{_NUMBER}(?=\s)){{1,3}})\s+", re.IGNORECASE)
_OTHER = re.compile(
    r"(?:-mm\s+\S+|-(?:blendu|blendv|bm|boost|cc|clamp|imfchan|texres|type))\s+\S+\s+",
    re.IGNORECASE,
)
_STILL = {"-o": 0.0, "-s": 1.0, "-t": 0.0}  # what leaves an image where it is
_MAPS = ("map_", "bump", "norm", "disp", "decal", "refl")


@dataclass
class Material:
    """A material of an MTL file.

    Attributes:
        color: sRGB; None without.
        image: name of its image; empty without.
        moves: the option that moves the image; empty without.
        is_clear: whether it lets light through.
        others: names of images of anything but its colour.
    """

    color: Rgb | None = None
    image: str = ""
    moves: str = ""
    is_clear: bool = False
    others: tuple[str, ...] = ()


def read_materials(text: str, path: Path) -> dict[str, Material]:
    """Return the materials of an MTL file by their names.

    Args:
        text: of the file.
        path: of the mesh, for warnings.
    """
    materials: dict[str, Material] = {}
    current = Material()
    for line in text.split("\n"):
        key, _, rest = line.strip().replace("\t", " ").partition(" ")
        if key.lower() == "newmtl":
            current = materials[rest.strip()] = Material()
        elif rest:
            _tell(current, key.lower(), rest.strip(), path)
    return materials


def _tell(material: Material, key: str, rest: str, path: Path) -> None:
    """Put one line into a material."""
    if key == "kd":
        material.color = _color(rest.split(), path)
    elif key == "map_kd":
        material.image, material.moves = _without_options(rest)
    elif key in ("d", "tr"):
        share = _number(rest.split()[-1:])
        material.is_clear |= share < 1 if key == "d" else share > 0
    elif key.startswith(_MAPS) and key != "map_ka":  # which repeats the colour
        name, _ = _without_options(rest)
        material.others += (name,)


def _color(words: Sequence[str], path: Path) -> Rgb | None:
    shares = [_number([word]) for word in words[:3]]
    if len(shares) != 3 or not all(map(math.isfinite, shares)):
        warn(path, f"a colour of its materials is 'Kd {' '.join(words)[:60]}'. It is left out.")
        return None
    red, green, blue = (round(255 * min(max(share, 0.0), 1.0)) for share in shares)
    return red, green, blue


def _number(words: Sequence[str]) -> float:
    """Return a word as a number; one that is none is neither below nor above any other."""
    try:
        return float(words[0])
    except (ValueError, IndexError):
        return math.nan


def _without_options(rest: str) -> tuple[str, str]:
    """Return the name of an image, and the first option before it that moves the image."""
    moves = ""
    while option := _MOVE.match(rest) or _OTHER.match(rest):
        if option.re is _MOVE and any(
            float(word) != _STILL[option[1].lower()] for word in option[2].split()[:2]
        ):
            moves = moves or option[0].strip()
        rest = rest[option.end() :]
    return rest.strip(), moves
