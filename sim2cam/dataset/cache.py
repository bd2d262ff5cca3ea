"""The user's cache: what was made of users' files. It may be removed at any time; what is in it is ours."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "SIM2CAM_CACHE"
"""Names the folder of caches; by default ``sim2cam`` in the user's."""


def cache_folder() -> Path:
    """Returns the folder of caches, which need not exist yet."""
    users = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get(VARIABLE) or users / "sim2cam")
