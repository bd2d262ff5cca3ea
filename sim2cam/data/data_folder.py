"""Where data sets lie that recipes and commands call by their names."""

from __future__ import annotations

import os
from pathlib import Path

from sim2cam.data.cache import get_cache_folder

DATA_FOLDER_VARIABLE = "SIM2CAM_REAL"
"""Names the folder of data sets that recipes and commands call by their names."""


def locate_data_folder() -> Path:
    """Return that folder; without the variable, the one in the cache that ``fetch`` fills."""
    given = os.environ.get(DATA_FOLDER_VARIABLE)
    return Path(given).absolute() if given else get_cache_folder() / "data"
