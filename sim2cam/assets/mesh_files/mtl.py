"""MTL, the materials of OBJ: colour and image of each."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sim2cam.assets.mesh_files.raw_mesh import warn
from sim2cam.assets.mesh_files.submesh import Rgb

_NUMBER_PATTERN = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
_MOVE = re.compile(rf"(-[ost])((?:\s+{_NUMBER_PATTERN}(?=\s)){{1,3}})\s+", re.IGNORECASE)
_OTHER = re.compile(
    r"(?:-mm\s+\S+|-(?:blendu|blendv|bm|boost|cc|clamp|imfchan|texres|type))\s+\S+\s+",
    re.IGNORECASE,
)
_IDENTITY = {"-o": 0.0, "-s": 1.0, "-t": 0.0}  # what leaves an image where it is
_MAPS = ("map_", "bump", "norm", "disp", "decal", "refl")


@dataclass
class MtlMaterial:
    """A material of an MTL file.

    Attributes:
        color: sRGB; None without.
        image: name of its image; empty without.
        has_uv_transform: the option that moves the image; empty without.
        is_transparent: whether it lets light through.
        unused_images: names of images of anything but its colour.
    """

    color: Rgb | None = None
    image: str = ""
    has_uv_transform: str = ""
    is_transparent: bool = False
    unused_images: tuple[str, ...] = ()


def read_materials(text: str, path: Path) -> dict[str, MtlMaterial]:
    """Return the materials of an MTL file by their names.

    Args:
        text: of the file.
        path: of the mesh, for warnings.
    """
    materials: dict[str, MtlMaterial] = {}
    current = MtlMaterial()
    for line in text.split("\n"):
        key, _, rest = line.strip().replace("\t", " ").partition(" ")
        if key.lower() == "newmtl":
            current = materials[rest.strip()] = MtlMaterial()
        elif rest:
            _apply_line(current, key.lower(), rest.strip(), path)
    return materials


def _apply_line(material: MtlMaterial, key: str, rest: str, path: Path) -> None:
    """Put one line into a material."""
    if key == "kd":
        material.color = _parse_color(rest.split(), path)
    elif key == "map_kd":
        material.image, material.has_uv_transform = _strip_options(rest)
    elif key in ("d", "tr"):
        share = _parse_number(rest.split()[-1:])
        material.is_transparent |= share < 1 if key == "d" else share > 0
    elif key.startswith(_MAPS) and key != "map_ka":  # which repeats the colour
        name, _ = _strip_options(rest)
        material.unused_images += (name,)


def _parse_color(words: Sequence[str], path: Path) -> Rgb | None:
    shares = [_parse_number([word]) for word in words[:3]]
    if len(shares) != 3 or not all(map(math.isfinite, shares)):
        warn(path, f"a colour of its materials is 'Kd {' '.join(words)[:60]}'. It is left out.")
        return None
    red, green, blue = (round(255 * min(max(share, 0.0), 1.0)) for share in shares)
    return red, green, blue


def _parse_number(words: Sequence[str]) -> float:
    """Return a word as a number; one that is none is neither below nor above any other."""
    try:
        return float(words[0])
    except (ValueError, IndexError):
        return math.nan


def _strip_options(rest: str) -> tuple[str, str]:
    """Return the name of an image, and the first option before it that moves the image."""
    moves = ""
    while option := _MOVE.match(rest) or _OTHER.match(rest):
        if option.re is _MOVE and any(
            float(word) != _IDENTITY[option[1].lower()] for word in option[2].split()[:2]
        ):
            moves = moves or option[0].strip()
        rest = rest[option.end() :]
    return rest.strip(), moves
