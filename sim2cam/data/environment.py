"""Machine, package versions and command line of a run, which do not affect its results."""

from __future__ import annotations

import os
import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PYBULLET = "pybullet" if sys.version_info < (3, 12) else "pybullet-arm64"
"""Distribution of pybullet that has wheels for this version of Python."""

_PACKAGES = (
    "numpy",
    "torch",
    "torchvision",
    PYBULLET,
    "scikit-robot-pyrender",
    "opencv-python-headless",
)
_CPU_INFO = Path("/proc/cpuinfo")
_SIMD_EXTENSIONS = ("avx512_bf16", "avx512f", "avx2", "asimd")
"""CPU features that affect inference speed, widest first; each implies those after it."""


def collect_environment(renderer: str | None, workers: int) -> dict[str, Any]:
    """Return machine, versions, command line and renderer.

    Absolute paths are reduced to their last part, because datasets and results are published.
    """
    from sim2cam.version import __version__

    return {
        "sim2cam": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _describe_processor(),
        "cpus": os.cpu_count(),
        "packages": {name: get_package_version(name) for name in _PACKAGES},
        "command": " ".join(
            Path(argument).name if Path(argument).is_absolute() else argument
            for argument in sys.argv[1:]
        ),
        "renderer": renderer,
        "workers": workers,
    }


def get_package_version(package: str) -> str | None:
    """Return the version of a package, or None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _describe_processor() -> str:
    """Return the processor's name and, on Linux, its widest vector extension."""
    try:
        cpu_info = _CPU_INFO.read_text(encoding="utf-8")
    except OSError:
        return platform.processor()
    facts: dict[str, str] = dict(re.findall(r"^(\S[^:\t]*?)\s*: (.*)$", cpu_info, re.MULTILINE))
    flags = facts.get("flags", facts.get("Features", "")).split()
    descriptions = (
        facts.get("model name", platform.processor()),
        *(extension for extension in _SIMD_EXTENSIONS if extension in flags),
    )
    return ", ".join(filter(None, descriptions[:2]))
