"""Installed databases: their files, digests and licences. They are read where they are, never copied."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from sim2cam import images
from sim2cam.data.data_folder import list_system_data_folders
from sim2cam.errors import BackendError

NOISE_PROFILES, LENS_PROFILES = "darktable noise profiles", "Lensfun lens profiles"
DATABASE_LICENCES = {NOISE_PROFILES: "GPL-3.0-or-later", LENS_PROFILES: "CC-BY-SA-3.0"}
"""SPDX identifier by the name of the database."""

_NOISE_FILE = "darktable/noiseprofiles.json"
_LENS_FOLDER = "lensfun/version_1"
_LENSFUNPY_FOLDER = "db_files"
_MAX_FILES = 500


@dataclass(frozen=True)
class CameraDatabase:
    """Files of an installed database.

    Attributes:
        name: Name.
        files: Files, sorted.
    """

    name: str
    files: tuple[Path, ...]

    def compute_digest(self) -> str:
        """Return the SHA-256 of the digests of all files.

        Raises:
            InputError: If a file cannot be read.
        """
        digests = "".join(images.compute_digest(file) for file in self.files)
        return hashlib.sha256(digests.encode()).hexdigest()


def find_noise_database() -> CameraDatabase:
    """Return darktable's noise profiles, from the data folders of the system (``XDG_DATA_DIRS``).

    Raises:
        BackendError: If they are not installed.
    """
    for folder in list_system_data_folders():
        if (folder / _NOISE_FILE).is_file():
            return CameraDatabase(NOISE_PROFILES, (folder / _NOISE_FILE,))
    raise BackendError(
        f"no noise profiles of cameras: {_NOISE_FILE} is in no folder of XDG_DATA_DIRS. Install Debian's package "
        "'darktable'."
    )


def find_lens_database() -> CameraDatabase:
    """Return Lensfun's lens profiles, from the data folders of the system or from lensfunpy.

    Raises:
        BackendError: If they are not installed.
    """
    folders = [folder / _LENS_FOLDER for folder in list_system_data_folders()]
    spec = find_spec("lensfunpy")
    if spec is not None and spec.submodule_search_locations:
        folders += [Path(place) / _LENSFUNPY_FOLDER for place in spec.submodule_search_locations]
    for folder in folders:
        files = tuple(sorted(folder.glob("*.xml")))[:_MAX_FILES]
        if files:
            return CameraDatabase(LENS_PROFILES, files)
    raise BackendError(
        f"no lens profiles: {_LENS_FOLDER} is in no folder of XDG_DATA_DIRS. Install Debian's package "
        "'liblensfun-data-v1', or run: pip install lensfunpy"
    )
