"""Furniture libraries of Sweet Home 3D (.sh3f): zip files of OBJ meshes with sizes, licences and authors."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from sim2cam.data.cache import get_cache_folder, unpack_cached
from sim2cam.data.parsing import is_inside_folder
from sim2cam.data.public.archive import unpack
from sim2cam.errors import InputError
from sim2cam.files import convert_write_errors, write_bytes

FURNITURE_SUFFIX = ".sh3f"

_VERSION = "furniture-1"  # changes with the written cards
_CATALOGUE, _LICENCE_FILE = "PluginFurnitureCatalog.properties", "LICENSE.TXT"
_MAX_TEXT_BYTES = 4_000_000
_MAX_SIDE_M = 2.99  # of the scaled objects; the import allows 3 m
_ENTRY = re.compile(r"(\w+)#(\d+)\s*=\s*(.*)")
_UNICODE_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")
_LICENCES = (
    (re.compile(r"creativecommons\.org/licenses/by/3\.0/us"), "CC-BY-3.0-US"),
    (re.compile(r"creativecommons\.org/licenses/by/3\.0"), "CC-BY-3.0"),
    (re.compile(r"creativecommons\.org/(?:choose|publicdomain)/zero"), "CC0-1.0"),
)


def unpack_furniture(libraries: Sequence[Path]) -> Path:
    """Unpack furniture libraries into the cache and return the folder of their meshes.

    Each mesh gets a card (TOML) with its longest side, licence and author. One library is the folder itself,
    several are subfolders with their names.

    Raises:
        InputError: If a library is broken.
        OutputError: If the cache is not writable.
    """
    folders = [unpack_cached(path, _VERSION, partial(_fill_folder, path)) for path in libraries]
    if len(folders) == 1:
        return folders[0]
    digest = hashlib.sha256("".join(folder.name for folder in folders).encode()).hexdigest()
    root = get_cache_folder() / _VERSION / f"all-{digest}"
    with convert_write_errors(root):
        root.mkdir(exist_ok=True)
        for path, folder in zip(libraries, folders, strict=True):
            if not (link := root / path.stem).is_symlink():
                link.symlink_to(folder)
    return root


def _fill_folder(library: Path, folder: Path) -> None:
    unpack(library, folder)
    licence = _find_licence(library, folder)
    catalogue = _read_text(library, folder / _CATALOGUE)
    name = _read_property(catalogue, "name") or library.stem
    for entry in _parse_entries(catalogue):
        model = entry.get("model", "").lstrip("/")
        mesh = folder / model
        if not (mesh.suffix.lower() == ".obj" and is_inside_folder(model) and mesh.is_file()):
            continue
        side_m = _read_longest_side_m(library, entry)
        credit = ", ".join(filter(None, (entry.get("creator"), f"{name} for Sweet Home 3D")))
        card = f"longest_side_m = {side_m:.6g}\nlicence = {_quote(licence)}\ncredit = {_quote(credit)}\n"
        write_bytes(mesh.with_suffix(".toml"), card.encode())


def _parse_entries(catalogue: str) -> Iterator[Mapping[str, str]]:
    """Yield the properties of each piece of furniture, such as ``model`` and ``width``."""
    entries: dict[str, dict[str, str]] = {}
    for line in catalogue.splitlines():
        if match := _ENTRY.fullmatch(line.strip()):
            key, number, value = match.groups()
            entries.setdefault(number, {})[key] = _unescape(value)
    yield from entries.values()


def _read_longest_side_m(library: Path, entry: Mapping[str, str]) -> float:
    """Return the longest of the sides, which are in centimetres, at most ``_MAX_SIDE_M``."""
    try:
        sides_cm = [float(entry[key]) for key in ("width", "depth", "height")]
    except (KeyError, ValueError) as error:
        raise InputError(library, f"{entry['model']}: no width, depth and height in cm.") from error
    if not all(0 < side < math.inf for side in sides_cm):
        raise InputError(library, f"{entry['model']}: a side is not above 0: {sides_cm} cm.")
    return min(max(sides_cm) / 100, _MAX_SIDE_M)


def _find_licence(library: Path, folder: Path) -> str:
    """Return the SPDX identifier of a library's licence; empty if unknown."""
    path = folder / _LICENCE_FILE
    text = _read_text(library, path) if path.is_file() else ""
    return next((name for pattern, name in _LICENCES if pattern.search(text)), "")


def _read_property(catalogue: str, key: str) -> str:
    match = re.search(rf"(?m)^{key}\s*=\s*(.+)$", catalogue)
    return _unescape(match[1].strip()) if match else ""


def _read_text(library: Path, path: Path) -> str:
    """Return a text file in Latin-1, as Java's properties are."""
    if not path.is_file():
        raise InputError(
            library, f"holds no {path.name}, so it is no furniture library. Choose another folder."
        )
    if path.stat().st_size > _MAX_TEXT_BYTES:
        raise InputError(library, f"{path.name} is larger than {_MAX_TEXT_BYTES // 1_000_000} MB.")
    return path.read_text(encoding="latin-1")


def _unescape(value: str) -> str:
    return _UNICODE_ESCAPE.sub(lambda match: chr(int(match[1], 16)), value)


def _quote(text: str) -> str:
    """Return a text as a TOML string, without characters that TOML does not allow."""
    return json.dumps("".join(c for c in text if c.isprintable()), ensure_ascii=False)
