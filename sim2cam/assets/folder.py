"""Folders of assets: file lists and metadata cards."""

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
from sim2cam.data.photo_sources import find_photo_sources
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
"""Known 3D formats without a reader."""

_MESH_FOLDER = re.compile(r"\b(?:meshdir|assetdir)\s*=\s*[\"']([^\"']*)")  # of MJCF
_MAX_FILES = 5000
_PREFIX_BYTES = 4096
_MAX_TEXT_BYTES = 2**20
_MAX_OFFSET = 0.02  # distance of a symmetry axis from the origin, as a fraction of the diameter

_TABLES: dict[str, type[Any]] = {
    "mass_kg": PropertyRange,
    "friction": PropertyRange,
    "restitution": PropertyRange,
    "symmetries": Symmetries,
}
"""Keys of cards whose values are tables."""
_EXAMPLES = {PropertyRange: "low = 0.3, high = 0.3", Symmetries: "axes = [[0, 0, 1]]"}


def list_assets(folder: Path) -> tuple[str, ...]:
    """Return the assets in a folder and its subfolders, as sorted relative paths.

    Links are followed. Hidden files and meshes that belong to a model (URDF, SDF, MJCF) are omitted.

    Raises:
        InputError: The folder is missing, has no asset, or has too many.
    """
    names = _list_names(folder, SUFFIXES)
    if not names:
        unreadable = _list_names(folder, UNREADABLE_SUFFIXES)
        hint = f" Convert {unreadable[0]} to GLB." if unreadable else ""
        raise InputError(
            folder, f"contains no mesh in a supported format ({', '.join(SUFFIXES)}).{hint}"
        )
    parts = {part for name in filter(_is_model, names) for part in _list_parts(folder, name)}
    real = {name: os.path.realpath(folder / name) for name in names} if parts else {}
    return tuple(name for name in names if _is_model(name) or real.get(name) not in parts)


def _list_parts(folder: Path, name: str) -> Iterator[str]:
    """Yield the resolved paths of the meshes of a model."""
    location = FileLocation(folder / name, folder)
    text = unescape(_read_prefix(location.path).decode("utf-8", "replace"))
    prefixes = ["", *(f"{name}/" for name in _MESH_FOLDER.findall(text)[:2])]
    words = {word for word in map(str.strip, re.split(r"[\"'<>]", text)) if word}
    for word in words:
        if not word.lower().endswith(MESH_SUFFIXES):
            continue
        for prefix in prefixes:
            if mesh := find_mesh(f"{prefix}{word}", location):
                yield str(mesh)


def _is_mjcf(path: Path) -> bool:
    """Return whether an XML file begins like an MJCF file."""
    text = _read_prefix(path)
    uncommented = b"".join(part.partition(b"<!--")[0] for part in text.split(b"-->"))
    return b"<mujoco" in uncommented[:_PREFIX_BYTES]


def _read_prefix(path: Path) -> bytes:
    """Return the first bytes of a model; empty if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_XML_BYTES)
    except OSError:
        return b""


def _is_model(name: str) -> bool:
    return PurePosixPath(name).suffix.lower() in MODEL_SUFFIXES


def list_unreadable(folder: Path) -> tuple[str, ...]:
    """Return the files in known but unsupported 3D formats, as sorted relative paths."""
    return _list_names(folder, UNREADABLE_SUFFIXES)


def list_images(folder: Path, suffixes: tuple[str, ...]) -> tuple[str, ...]:
    """Return the images in a folder and its subfolders, as sorted relative paths.

    Raises:
        InputError: The folder is missing, has no image, or has too many.
    """
    names = _list_names(folder, suffixes)
    if not names:
        raise InputError(
            folder, f"contains no image in a supported format ({', '.join(suffixes)})."
        )
    return names


def _list_names(folder: Path, suffixes: tuple[str, ...]) -> tuple[str, ...]:
    if not folder.is_dir():
        raise InputError(folder, "no such folder. Check the path.")
    root = folder.resolve()
    names = []
    for subfolder, _, files in walk_folder(root):
        for file_name in files:
            path = subfolder / file_name
            if path.suffix.lower() not in suffixes or not is_file(path):
                continue
            if path.suffix.lower() == ".xml" and not _is_mjcf(path):
                continue
            names.append(path.relative_to(root).as_posix())
            if len(names) > _MAX_FILES:
                raise InputError(
                    folder, f"contains more than {_MAX_FILES} files. Split the folder."
                )
    return tuple(sorted(names))


def get_category(name: str, card: AssetMetadata) -> str:
    """Return the category: from the card, else the parent folder, else the file name."""
    path = Path(name)
    return card.category or (path.stem if len(path.parts) == 1 else path.parent.name)


def read_asset_card(path: Path) -> AssetMetadata:
    """Read the metadata of an asset from its TOML file and BOP's ``models_info.json``.

    The TOML file takes precedence.

    Raises:
        InputError: A metadata file is invalid.
    """
    card_path, info = path.with_suffix(".toml"), path.with_name(MODELS_INFO)
    values = _read_table(card_path, AssetMetadata) if card_path.is_file() else {}
    card = AssetMetadata()
    if info.is_file() and path.stem.startswith("obj_") and path.stem[4:].isdecimal():
        card = _apply_bop_info(info, path, values)
    return replace(card, **values)


def read_image_card(path: Path) -> ImageMetadata:
    """Read the metadata of an image from its TOML file, else from the list of photographs of its folder.

    Raises:
        InputError: A file is invalid.
    """
    card_path = path.with_suffix(".toml")
    if card_path.is_file():
        return ImageMetadata(**_read_table(card_path, ImageMetadata))
    source = find_photo_sources([path]).get(path)
    return (
        ImageMetadata()
        if source is None
        else ImageMetadata(source.licence, credit=source.format_credit())
    )


def _read_table(path: Path, kind: type[AssetMetadata | ImageMetadata]) -> dict[str, Any]:
    """Return the fields of a card that a TOML file sets."""
    try:
        table = tomllib.loads(_read_text(path))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(path, f"not TOML: {error}.") from error
    _check_keys(table, kind, "", path)
    for name, value_kind in _TABLES.items():
        if name not in table:
            continue
        if not isinstance(table[name], dict):
            example = _EXAMPLES[value_kind]
            value = json.dumps(table[name], default=str)[:80]
            raise InputError(
                path, f"'{name}' must be a table such as {{ {example} }} (found {value})."
            )
        _check_keys(table[name], value_kind, f"{name}.", path)
    try:
        card = TypeAdapter(kind).validate_python(table)
    except ValidationError as error:
        raise InputError(path, f"{_format_first_error(error)}.") from error
    return {name: getattr(card, name) for name in table}


def _check_keys(table: dict[str, Any], kind: type[Any], prefix: str, path: Path) -> None:
    allowed = [field.name for field in fields(kind)]
    for key in table:
        if key not in allowed:
            raise InputError(path, f"unknown key '{prefix}{key}'. {suggest_name(key, allowed)}")


class _SymmetryAxis(BaseModel):
    """Axis of a continuous symmetry, through a point."""

    axis: Vec3
    offset: Vec3 = (0.0, 0.0, 0.0)


class _ModelInfo(BaseModel):
    """Object of BOP's ``models_info.json``; lengths in millimetres, matrices row-major."""

    diameter: float
    symmetries_discrete: list[Annotated[list[float], Field(min_length=16, max_length=16)]] = []
    symmetries_continuous: list[_SymmetryAxis] = []


_INFOS: TypeAdapter[dict[int, _ModelInfo]] = TypeAdapter(dict[int, _ModelInfo])


def _apply_bop_info(info: Path, path: Path, card: Mapping[str, Any]) -> AssetMetadata:
    """Return the BOP metadata of a model; symmetries of the card take precedence."""
    try:
        model_info = _INFOS.validate_json(_read_text(info)).get(int(path.stem[4:]))
    except ValidationError as error:
        raise InputError(info, f"{_format_first_error(error)}.") from error
    if model_info is None or "symmetries" in card:
        return AssetMetadata(unit="mm")
    matrices = np.reshape(model_info.symmetries_discrete, (-1, 4, 4))
    offsets = [
        *matrices[:, :3, 3],
        *(np.array(axis.offset) for axis in model_info.symmetries_continuous),
    ]
    if any(np.linalg.norm(offset) > _MAX_OFFSET * model_info.diameter for offset in offsets):
        raise InputError(
            info, f"{path.stem}: symmetries must be about the origin. Move the origin of the model."
        )
    try:
        rotations = [Rotation.from_matrix(matrix[:3, :3]) for matrix in matrices]
    except ValueError as error:
        raise InputError(info, f"{path.stem}: symmetries_discrete: {error}.") from error
    turns = tuple(quaternion(rotation, canonical=True) for rotation in rotations)
    axes = tuple(axis.axis for axis in model_info.symmetries_continuous)
    return AssetMetadata(unit="mm", symmetries=Symmetries(turns, axes))


def _read_text(path: Path) -> str:
    if path.stat().st_size > _MAX_TEXT_BYTES:
        raise InputError(path, f"larger than {_MAX_TEXT_BYTES >> 20} MiB.")
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(path, f"cannot be read as UTF-8 text ({error}).") from error


def _format_first_error(error: ValidationError) -> str:
    """Return the first error as text: key, message, value."""
    first: Any = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    value = json.dumps(first["input"], default=str)[:80]
    return f"'{key}': {message} (found {value})" if key else message
