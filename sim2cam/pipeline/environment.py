"""Where a run took place: facts that do not decide its bytes, kept beside it."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

_PACKAGES = (
    "numpy",
    "torch",
    "torchvision",
    "pybullet",
    "scikit-robot-pyrender",
    "opencv-python-headless",
)


def environment_facts(renderer: str | None, workers: int) -> dict[str, Any]:
    """Returns machine, versions, command line and renderer; of absolute paths only the last part.

    Data sets and results are published, and whose folder they were made in is nobody's business.
    """
    from sim2cam import __version__

    return {
        "sim2cam": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "packages": {name: version(name) for name in _PACKAGES},
        "command": " ".join(Path(a).name if Path(a).is_absolute() else a for a in sys.argv[1:]),
        "renderer": renderer,
        "workers": workers,
    }
