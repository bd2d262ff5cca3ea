"""Reader of MTL files, the materials of OBJ."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sim2cam.assets.mesh_files.raw_mesh import warn
from sim2cam.assets.mesh_files.submesh import Rgb

_NUMBER_PATTERN = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
_UV_OPTION = re.compile(rf"(-[ost])((?:\s+{_NUMBER_PATTERN}(?=\s)){{1,3}})\s+", re.IGNORECASE)
_OTHER_OPTION = re.compile(
    r"(?:-mm\s+\S+|-(?:blendu|blendv|bm|boost|cc|clamp|imfchan|texres|type))\s+\S+\s+",
    re.IGNORECASE,
)
_IDENTITY = {"-o": 0.0, "-s": 1.0, "-t": 0.0}  # values without effect
_MAPS = ("map_", "bump", "norm", "disp", "decal", "refl")


@dataclass
class MtlMaterial:
    """Material of an MTL file.

    Attributes:
        color: sRGB; None without.
        image: Name of the colour image; empty without.
        uv_transform: Option that transforms the image; empty without.
        is_transparent: Whether the material is transparent.
        unused_images: Names of other images (bump, specular, …).
    """

    color: Rgb | None = None
    image: str = ""
    uv_transform: str = ""
    is_transparent: bool = False
    unused_images: tuple[str, ...] = ()


def read_materials(text: str, path: Path) -> dict[str, MtlMaterial]:
    """Parse an MTL file into materials by name."""
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
    if key == "kd":
        material.color = _parse_color(rest.split(), path)
    elif key == "map_kd":
        material.image, material.uv_transform = _strip_options(rest)
    elif key in ("d", "tr"):
        opacity = _parse_number(rest.split()[-1:])
        material.is_transparent |= opacity < 1 if key == "d" else opacity > 0
    elif key.startswith(_MAPS) and key != "map_ka":  # duplicates the colour image
        name, _ = _strip_options(rest)
        material.unused_images += (name,)


def _parse_color(words: Sequence[str], path: Path) -> Rgb | None:
    channels = [_parse_number([word]) for word in words[:3]]
    if len(channels) != 3 or not all(map(math.isfinite, channels)):
        warn(path, f"the invalid colour 'Kd {' '.join(words)[:60]}' is ignored.")
        return None
    red, green, blue = (round(255 * min(max(channel, 0.0), 1.0)) for channel in channels)
    return red, green, blue


def _parse_number(words: Sequence[str]) -> float:
    """Parse a number; return NaN if it is invalid."""
    try:
        return float(words[0])
    except (ValueError, IndexError):
        return math.nan


def _strip_options(rest: str) -> tuple[str, str]:
    """Split an image statement into the name and the first option with a uv transform."""
    uv_transform = ""
    while option := _UV_OPTION.match(rest) or _OTHER_OPTION.match(rest):
        if option.re is _UV_OPTION and any(
            float(word) != _IDENTITY[option[1].lower()] for word in option[2].split()[:2]
        ):
            uv_transform = uv_transform or option[0].strip()
        rest = rest[option.end() :]
    return rest.strip(), uv_transform
