"""Where a run took place: facts that do not decide its bytes, kept beside it."""

from __future__ import annotations

import os
import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, version
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


_CPU_INFO = Path("/proc/cpuinfo")
_SIMD_EXTENSIONS = ("avx512_bf16", "avx512f", "avx2", "asimd")
"""Instructions that decide how fast networks are, of which the first that there is tells of those after it."""


def collect_environment(renderer: str | None, workers: int) -> dict[str, Any]:
    """Return machine, versions, command line and renderer; of absolute paths only the last part.

    Data sets and results are published, and whose folder they were made in is nobody's business.
    """
    from sim2cam import __version__

    return {
        "sim2cam": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _describe_processor(),
        "cpus": os.cpu_count(),
        "packages": {name: get_package_version(name) for name in _PACKAGES},
        "command": " ".join(Path(a).name if Path(a).is_absolute() else a for a in sys.argv[1:]),
        "renderer": renderer,
        "workers": workers,
    }


def get_package_version(package: str) -> str | None:
    """Return the version of a package; None where it is not installed, as nothing but physics needs pybullet."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _describe_processor() -> str:
    """Return the name of the processor and, where Linux tells, its widest vectors."""
    try:
        told = _CPU_INFO.read_text(encoding="utf-8")
    except OSError:
        return platform.processor()
    facts: dict[str, str] = dict(re.findall(r"^(\S[^:\t]*?)\s*: (.*)$", told, re.MULTILINE))
    flags = facts.get("flags", facts.get("Features", "")).split()
    named = (
        facts.get("model name", platform.processor()),
        *(v for v in _SIMD_EXTENSIONS if v in flags),
    )
    return ", ".join(filter(None, named[:2]))
