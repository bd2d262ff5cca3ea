"""Photographs and meshes in packages of Debian and npm, found where they are installed or unpacked."""

from __future__ import annotations

import base64
import binascii
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.data.photo_sources import PhotoSource
from sim2cam.errors import InputError

PACKAGES_VARIABLE = "SIM2CAM_PACKAGES"
"""Environment variable with folders of unpacked packages, searched before the system."""

BLENDER_DATA, PMNDRS_ASSETS, SWEETHOME3D = "blender-data", "@pmndrs/assets", "sweethome3d-furniture"
"""Packages: eight environment maps (Debian), 18 environment maps (npm), 820 household meshes (Debian)."""

_BLENDER_MAPS = (
    "usr/share/blender/datafiles/studiolights/world",
    "usr/share/blender/*/datafiles/studiolights/world",
)
_NODE_MODULES = ("node_modules", "usr/lib/node_modules", "usr/local/lib/node_modules")
_FURNITURE = "usr/share/sweethome3d/furniture"
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
    files = [("blender", blender, path) for path in _find_files(_BLENDER_MAPS, "*.exr")]
    npm_folders = tuple(f"{folder}/{PMNDRS_ASSETS}/hdri" for folder in _NODE_MODULES)
    files += [("pmndrs", pmndrs, path) for path in _find_files(npm_folders, "*.exr.js")]
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
    return tuple(_find_files((_FURNITURE,), "*.sh3f"))


def _find_files(folders: tuple[str, ...], pattern: str) -> list[Path]:
    """Return the files in the first existing folder of the first root that has one."""
    for root in _list_roots():
        for folder in folders:
            paths = sorted(root.glob(f"{folder}/{pattern}"))
            if paths:
                return paths
    return []


def _list_roots() -> Iterator[Path]:
    yield from (Path(p) for p in os.environ.get(PACKAGES_VARIABLE, "").split(os.pathsep) if p)
    yield from (Path.cwd(), Path("/"))


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
