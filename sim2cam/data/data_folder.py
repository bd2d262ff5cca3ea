"""Folder of the datasets that recipes and commands refer to by name."""

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
