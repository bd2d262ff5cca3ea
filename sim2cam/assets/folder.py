"""Folders of assets: which files there are, and what is written beside them."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from html import unescape
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from scipy.spatial.transform import Rotation

from sim2cam.assets.mesh_files.companions import FileLocation
from sim2cam.assets.mesh_files.reader import MESH_SUFFIXES, MODEL_SUFFIXES, SUFFIXES
from sim2cam.assets.model_files.mesh_names import find_mesh
from sim2cam.assets.model_files.xml_file import MAX_XML_BYTES
from sim2cam.assets.walk import is_file, walk_folder
from sim2cam.errors import InputError, suggest_name
from sim2cam.geometry.poses import Vec3, quaternion
from sim2cam.scene.asset_facts import AssetMetadata, PropertyRange
from sim2cam.scene.image_facts import ImageMetadata
from sim2cam.scene.symmetry import Symmetries

MODELS_INFO = "models_info.json"

UNREADABLE_SUFFIXES = (
    ".3dm", ".3ds", ".3mf", ".abc", ".amf", ".blend", ".brep", ".c4d", ".ctm", ".fbx", ".iges", ".igs",
    ".lwo", ".ma", ".max", ".mb", ".off", ".sldprt", ".step", ".stp", ".usd", ".usda", ".usdc", ".usdz",
    ".vrml", ".wrl", ".x3d", ".x_t", ".zae",
)  # fmt: skip
"""Files of shapes that cannot be brought in."""

_MESH_FOLDER = re.compile(r"\b(?:meshdir|assetdir)\s*=\s*[\"']([^\"']*)")  # of MJCF
_MAX_FILES = 5000
_PREFIX_BYTES = 4096
_MAX_TEXT_BYTES = 2**20
_MAX_OFFSET = 0.02  # of an object's size, by which the axis of a symmetry may miss the origin

_TABLES: dict[str, type[Any]] = {
    "mass_kg": PropertyRange,
    "friction": PropertyRange,
    "restitution": PropertyRange,
    "symmetries": Symmetries,
}
"""Keys of cards that are tables of names of ours."""
_EXAMPLES = {PropertyRange: "low = 0.3, high = 0.3", Symmetries: "axes = [[0, 0, 1]]"}


def list_assets(folder: Path) -> tuple[str, ...]:
    """Return the files of all assets in a folder and those in it, as relative paths, sorted.

    Links to files and folders are followed. Left out are hidden ones, and meshes that a model (a URDF)
    names, which are its parts.

    Raises:
        InputError: there is no such folder, or no file or too many in it.
    """
    found = _list_names(folder, SUFFIXES)
    if not found:
        others = _list_names(folder, UNREADABLE_SUFFIXES)
        hint = f"; {others[0]} cannot, convert it to GLB" if others else ""
        raise InputError(
            folder, f"holds no mesh of a kind that can be read ({', '.join(SUFFIXES)}){hint}."
        )
    parts = {part for name in filter(_is_model, found) for part in _list_parts(folder, name)}
    real = {name: os.path.realpath(folder / name) for name in found} if parts else {}
    return tuple(name for name in found if _is_model(name) or real.get(name) not in parts)


def _list_parts(folder: Path, name: str) -> Iterator[str]:
    """Yield the real paths of the meshes that a model names."""
    place = FileLocation(folder / name, folder)
    text = unescape(_read_prefix(place.path).decode("utf-8", "replace"))
    folders = ["", *(f"{one}/" for one in _MESH_FOLDER.findall(text)[:2])]
    words = {word for word in map(str.strip, re.split(r"[\"'<>]", text)) if word}
    for word in words:
        if not word.lower().endswith(MESH_SUFFIXES):
            continue
        for start in folders:
            if found := find_mesh(f"{start}{word}", place):
                yield str(found)


def _is_mjcf(path: Path) -> bool:
    """Return whether an XML file, which may be anything, begins as those of MuJoCo do."""
    text = _read_prefix(path)
    bare = b"".join(part.partition(b"<!--")[0] for part in text.split(b"-->"))  # without comments
    return b"<mujoco" in bare[:_PREFIX_BYTES]


def _read_prefix(path: Path) -> bytes:
    """Return as much of a model as is read of any; nothing of what cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_XML_BYTES)
    except OSError:  # whose it may be
        return b""


def _is_model(name: str) -> bool:
    return PurePosixPath(name).suffix.lower() in MODEL_SUFFIXES


def list_unreadable(folder: Path) -> tuple[str, ...]:
    """Return the files of shapes in a folder, as relative paths, of kinds that cannot be read."""
    return _list_names(folder, UNREADABLE_SUFFIXES)


def list_images(folder: Path, suffixes: tuple[str, ...]) -> tuple[str, ...]:
    """Return the pictures of these kinds in a folder and those in it, as ``list_assets`` does.

    Raises:
        InputError: there is no such folder, or no file or too many in it.
    """
    found = _list_names(folder, suffixes)
    if not found:
        raise InputError(
            folder, f"holds no picture of a kind that is read ({', '.join(suffixes)})."
        )
    return found


def _list_names(folder: Path, suffixes: tuple[str, ...]) -> tuple[str, ...]:
    if not folder.is_dir():
        raise InputError(folder, "no such folder. Check the path.")
    root = folder.resolve()
    found = []
    for place, _, files in walk_folder(root):
        for name in files:
            path = place / name
            if path.suffix.lower() not in suffixes or not is_file(path):
                continue
            if path.suffix.lower() == ".xml" and not _is_mjcf(path):
                continue
            found.append(path.relative_to(root).as_posix())
            if len(found) > _MAX_FILES:
                raise InputError(folder, f"holds more than {_MAX_FILES} assets. Split it.")
    return tuple(sorted(found))


def get_category(name: str, card: AssetMetadata) -> str:
    """Return what an asset is labelled as: by its card, its folder, or its file."""
    path = Path(name)
    return card.category or (path.stem if len(path.parts) == 1 else path.parent.name)


def read_asset_card(path: Path) -> AssetMetadata:
    """Return what is written beside an asset, in its TOML file and in BOP's ``models_info.json``.

    What both tell is as the TOML file has it.

    Raises:
        InputError: naming that file, and what is wrong in it.
    """
    beside, info = path.with_suffix(".toml"), path.with_name(MODELS_INFO)
    told = _read_table(beside, AssetMetadata) if beside.is_file() else {}
    found = AssetMetadata()
    if info.is_file() and path.stem.startswith("obj_") and path.stem[4:].isdecimal():
        found = _apply_bop_info(info, path, told)
    return replace(found, **told)


def read_image_card(path: Path) -> ImageMetadata:
    """Return what is written beside a picture, in its TOML file.

    Raises:
        InputError: naming that file, and what is wrong in it.
    """
    beside = path.with_suffix(".toml")
    return (
        ImageMetadata(**_read_table(beside, ImageMetadata)) if beside.is_file() else ImageMetadata()
    )


def _read_table(path: Path, kind: type[AssetMetadata | ImageMetadata]) -> dict[str, Any]:
    """Return what a TOML file tells of the fields of a card, by their names."""
    try:
        table = tomllib.loads(_read_text(path))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(path, f"not TOML: {error}.") from error
    _check_keys(table, kind, "", path)
    for name, inner in _TABLES.items():
        if name not in table:
            continue
        if not isinstance(table[name], dict):
            example = _EXAMPLES[inner]
            found = json.dumps(table[name], default=str)[:80]
            raise InputError(path, f"'{name}' takes a table, as {{ {example} }} (found {found}).")
        _check_keys(table[name], inner, f"{name}.", path)
    try:
        card = TypeAdapter(kind).validate_python(table)
    except ValidationError as error:
        raise InputError(path, f"{_format_first_error(error)}.") from error
    return {name: getattr(card, name) for name in table}


def _check_keys(table: dict[str, Any], kind: type[Any], within: str, path: Path) -> None:
    known = [field.name for field in fields(kind)]
    for key in table:
        if key not in known:
            raise InputError(path, f"unknown key '{within}{key}'. {suggest_name(key, known)}")


class _SymmetryAxis(BaseModel):
    """An axis of a continuous symmetry, through a point."""

    axis: Vec3
    offset: Vec3 = (0.0, 0.0, 0.0)


class _ModelInfo(BaseModel):
    """One object of BOP's ``models_info.json``; lengths in millimetres, matrices row by row."""

    diameter: float
    symmetries_discrete: list[Annotated[list[float], Field(min_length=16, max_length=16)]] = []
    symmetries_continuous: list[_SymmetryAxis] = []


_INFOS: TypeAdapter[dict[int, _ModelInfo]] = TypeAdapter(dict[int, _ModelInfo])


def _apply_bop_info(info: Path, path: Path, card: Mapping[str, Any]) -> AssetMetadata:
    """Return what BOP has of a model; of its symmetries nothing if they are told elsewhere."""
    try:
        found = _INFOS.validate_json(_read_text(info)).get(int(path.stem[4:]))
    except ValidationError as error:
        raise InputError(info, f"{_format_first_error(error)}.") from error
    if found is None or "symmetries" in card:
        return AssetMetadata(unit="mm")
    matrices = np.reshape(found.symmetries_discrete, (-1, 4, 4))
    offsets = [*matrices[:, :3, 3], *(np.array(one.offset) for one in found.symmetries_continuous)]
    if any(np.linalg.norm(offset) > _MAX_OFFSET * found.diameter for offset in offsets):
        raise InputError(
            info, f"{path.stem}: a symmetry that is none about the origin is not known."
        )
    try:
        rotations = [Rotation.from_matrix(matrix[:3, :3]) for matrix in matrices]
    except ValueError as error:
        raise InputError(info, f"{path.stem}: symmetries_discrete: {error}.") from error
    turns = tuple(quaternion(rotation, canonical=True) for rotation in rotations)
    axes = tuple(one.axis for one in found.symmetries_continuous)
    return AssetMetadata(unit="mm", symmetries=Symmetries(turns, axes))


def _read_text(path: Path) -> str:
    if path.stat().st_size > _MAX_TEXT_BYTES:
        raise InputError(path, f"larger than {_MAX_TEXT_BYTES >> 20} MiB.")
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(path, f"no text that can be read ({error}).") from error


def _format_first_error(error: ValidationError) -> str:
    """Return the first problem: the key, what is wrong, and what was found."""
    first: Any = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    shown = json.dumps(first["input"], default=str)[:80]
    return f"'{place}': {message} (found {shown})" if place else message
