"""Folder of the datasets that recipes and commands refer to by name, and data folders of the system."""

from __future__ import annotations

import os
from pathlib import Path

from sim2cam.data.cache import get_cache_folder

DATA_FOLDER_VARIABLE = "SIM2CAM_REAL"
"""Environment variable with the folder of named datasets."""


def locate_data_folder() -> Path:
    """Return the folder of named datasets; by default the folder that ``fetch`` fills."""
    configured = os.environ.get(DATA_FOLDER_VARIABLE)
    return Path(configured).absolute() if configured else get_cache_folder() / "data"


_SYSTEM_DATA_FOLDERS = "/usr/local/share:/usr/share"


def list_system_data_folders() -> list[Path]:
    """Return the data folders of the XDG Base Directory Specification (``XDG_DATA_DIRS``)."""
    folders = os.environ.get("XDG_DATA_DIRS") or _SYSTEM_DATA_FOLDERS
    return [Path(folder) for folder in folders.split(os.pathsep) if folder]
