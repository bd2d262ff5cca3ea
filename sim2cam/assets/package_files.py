"""Photographs and meshes in packages of Debian and npm, found where they are installed or unpacked."""

from __future__ import annotations

import base64
import binascii
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.data.data_folder import list_system_data_folders
from sim2cam.data.photo_sources import PhotoSource
from sim2cam.errors import InputError

BLENDER_DATA, PMNDRS_ASSETS, SWEETHOME3D = "blender-data", "@pmndrs/assets", "sweethome3d-furniture"
"""Packages: eight environment maps (Debian), 18 environment maps (npm), 820 household meshes (Debian)."""

_BLENDER_MAPS = "blender/datafiles/studiolights/world/*.exr"
_VERSIONED_BLENDER_MAPS = "blender/*/datafiles/studiolights/world/*.exr"
_PMNDRS_MAPS = f"{PMNDRS_ASSETS}/hdri/*.exr.js"
_FURNITURE = "sweethome3d/furniture/*.sh3f"
_NODE_MODULES = ("/usr/local/lib/node_modules", "/usr/lib/node_modules")
_DATA_PREFIX, _DATA_SUFFIX = "export default 'data:application/exr;base64,", "'"
_MAX_MODULE_BYTES = 64_000_000


@dataclass(frozen=True)
class PackagedPanorama:
    """An environment map in a package.

    Attributes:
        name: Unique name, from package and file.
        path: An OpenEXR file, or a JavaScript module with one as base64.
        source: Package, licence and author.
    """

    name: str
    path: Path
    source: PhotoSource

    def read(self) -> NDArray[np.float32]:
        """Return the linear radiance (rows, 2 rows, 3).

        Raises:
            InputError: If the file is broken, or the package ``OpenEXR`` is missing.
        """
        if self.path.suffix == ".exr":
            return images.read_linear_rgb(self.path)
        with tempfile.TemporaryDirectory() as folder:
            image_path = Path(folder) / "map.exr"
            image_path.write_bytes(_decode_module(self.path))
            try:
                return images.read_linear_rgb(image_path)
            except InputError as error:
                raise InputError(self.path, error.args[1]) from error


def find_panoramas() -> tuple[PackagedPanorama, ...]:
    """Return the environment maps of installed packages, sorted by name."""
    blender = PhotoSource(BLENDER_DATA, "CC0-1.0", "Greg Zaal (HDRI Haven)")
    pmndrs = PhotoSource(PMNDRS_ASSETS, "CC0-1.0", "Poly Haven")
    data_folders = list_system_data_folders()
    maps = _find_files(data_folders, _BLENDER_MAPS, _VERSIONED_BLENDER_MAPS)
    files = [("blender", blender, path) for path in maps]
    files += [("pmndrs", pmndrs, path) for path in _find_files(_list_node_modules(), _PMNDRS_MAPS)]
    panoramas = (
        PackagedPanorama(
            f"{prefix}-{path.name.partition('.')[0]}",
            path,
            PhotoSource(f"{source.source}: {path.name}", source.licence, source.author),
        )
        for prefix, source, path in files
    )
    return tuple(sorted(panoramas, key=lambda panorama: panorama.name))


def find_furniture_libraries() -> tuple[Path, ...]:
    """Return the furniture libraries (.sh3f) of the installed package, sorted by name."""
    return tuple(_find_files(list_system_data_folders(), _FURNITURE))


def _find_files(folders: Sequence[Path], *patterns: str) -> list[Path]:
    """Return the files of the first pattern with any, in the first folder that has them."""
    found = (sorted(folder.glob(pattern)) for folder in folders for pattern in patterns)
    return next(filter(None, found), [])


def _list_node_modules() -> list[Path]:
    """Return the folders of npm packages: those of ``NODE_PATH``, of the current folder and of the system."""
    configured = os.environ.get("NODE_PATH", "").split(os.pathsep)
    return [Path(path) for path in (*configured, "node_modules", *_NODE_MODULES) if path]


def _decode_module(path: Path) -> bytes:
    """Return the file that a JavaScript module exports as a base64 data address.

    Raises:
        InputError: If the module has another form.
    """
    if images.get_file_size(path) > _MAX_MODULE_BYTES:
        raise InputError(path, f"larger than {_MAX_MODULE_BYTES // 1_000_000} MB.")
    text = path.read_text(encoding="utf-8", errors="replace").strip().removesuffix(";")
    if not (text.startswith(_DATA_PREFIX) and text.endswith(_DATA_SUFFIX)):
        raise InputError(path, "holds no OpenEXR image. Install the package again.")
    try:
        return base64.b64decode(text[len(_DATA_PREFIX) : -len(_DATA_SUFFIX)], validate=True)
    except binascii.Error as error:
        raise InputError(path, f"is damaged ({error}). Install the package again.") from error
