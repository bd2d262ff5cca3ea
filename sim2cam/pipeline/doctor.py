"""What this machine has for the work, and the cure for what it lacks."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from sim2cam.data.cache import get_cache_folder
from sim2cam.data.environment import get_package_version
from sim2cam.errors import BackendError

MESA_PACKAGES = "libegl1 libgl1 libgl1-mesa-dri"

_INSTALL_HINT = "Run: make setup, or: pip install -c constraints.txt ."
_MIN_FREE_GB = 1.0
_CHILD_LIMIT_S = 60
_NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")

_OPENGL_PROBE = """
from sim2cam.errors import BackendError
from sim2cam.render.backends.opengl.rasterizer import OpenGLRasterizer
try:
    print(OpenGLRasterizer("egl").name)
except BackendError as error:
    raise SystemExit(str(error.__cause__))
"""


@dataclass(frozen=True)
class SystemCheck:
    """One thing that was looked at.

    Attributes:
        name: what.
        ok: whether it is as it should be.
        status: what there is.
        remedy: what to do when it is not ok; empty otherwise.
        required: whether the main job (render, adapt, train, bench) cannot run without it.
    """

    name: str
    ok: bool
    status: str
    remedy: str = ""
    required: bool = True


def run_checks() -> list[SystemCheck]:
    """Return every check; takes a few seconds, raises nothing and changes nothing."""
    return [
        check_python(),
        check_platform(),
        check_packages(),
        check_albumentations(),
        check_opencv(),
        check_pybullet(),
        check_torch(),
        check_gpu(),
        check_opengl(),
        check_cache(),
        check_disk(Path.cwd()),
    ]


def can_run(checks: list[SystemCheck]) -> bool:
    """Return whether the main job can run: everything it needs is ok."""
    return all(check.ok for check in checks if check.required)


def check_python() -> SystemCheck:
    """Return the version of Python; 3.11 or later is needed."""
    ok = sys.version_info >= (3, 11)
    cure = "" if ok else "Install Python 3.11, then run: make setup PYTHON=python3.11"
    return SystemCheck("python", ok, platform.python_version(), cure)


def check_platform() -> SystemCheck:
    """Return the system; Linux on x86-64 is the supported one."""
    found = f"{platform.system()} {platform.machine()}"
    ok = found == "Linux x86_64"
    cure = (
        "" if ok else "Rendering is supported on Linux x86-64; training and benchmarks work here."
    )
    return SystemCheck("platform", ok, found, cure, required=False)


def check_packages() -> SystemCheck:
    """Return the versions of the packages that sim2cam is built on."""
    try:
        versions = {name: get_package_version(name) for name in _list_requirements()}
    except metadata.PackageNotFoundError:
        return SystemCheck("packages", False, "sim2cam is not installed", _INSTALL_HINT)
    missing = [name for name, version in versions.items() if version is None]
    found = ", ".join(f"{name} {version or 'MISSING'}" for name, version in versions.items())
    return SystemCheck("packages", not missing, found, _INSTALL_HINT if missing else "")


def check_albumentations() -> SystemCheck:
    """Return the version of albumentations, of which only 2.0 will do.

    Its successor, albumentationsx, installs under the same name with another licence (AGPL).
    """
    if get_package_version("albumentationsx") is not None:
        cure = "It is under the AGPL: make a new environment without it."
        return SystemCheck("albumentations", False, "albumentationsx", cure, required=False)
    version = get_package_version("albumentations")
    ok = version is not None and version.startswith("2.0.")
    cure = "" if ok else 'Run: pip install "albumentations>=2.0.8,<2.1"'
    return SystemCheck("albumentations", ok, version or "missing", cure)


def check_opencv() -> SystemCheck:
    """Return the installed builds of OpenCV, which all write into the same folder."""
    builds = {
        dist.name.lower(): dist.version
        for dist in metadata.distributions()
        if re.fullmatch(r"opencv[-_](contrib[-_])?python([-_]headless)?", dist.name.lower())
    }
    found = ", ".join(f"{name} {version}" for name, version in sorted(builds.items())) or "missing"
    done, said = _run_in_child("import cv2")
    if not done:
        return SystemCheck("opencv", False, f"{found} ({said})", _INSTALL_HINT)
    if len(set(builds.values())) == 1:
        return SystemCheck("opencv", True, found)
    newest = max(builds.values(), key=lambda v: [int(n) for n in re.findall(r"\d+", v)])
    pairs = " ".join(f"{name}=={newest}" for name in sorted(builds))
    cure = f"Their files are mixed. Bring them to one version: pip install {pairs}"
    return SystemCheck("opencv", False, found, cure, required=False)


def check_pybullet() -> SystemCheck:
    """Return whether physics can be imported, tried in a child process."""
    done, said = _run_in_child("import pybullet")
    if done:
        return SystemCheck("pybullet", True, get_package_version("pybullet") or "present")
    cure = (
        "pip has pybullet ready-made up to Python 3.11; on later ones it is built from source: "
        "apt-get install -y build-essential python3-dev, then run: pip install pybullet"
    )
    return SystemCheck("pybullet", False, said, cure)


def check_torch() -> SystemCheck:
    """Return the pair of torch and torchvision, and whether the compiled operators load."""
    pair = f"torch {get_package_version('torch')}, torchvision {get_package_version('torchvision')}"
    try:
        from sim2cam.models.compat import has_operators
    except (BackendError, ImportError, OSError) as error:
        return SystemCheck("torch", False, f"{pair}: {error}", _INSTALL_HINT)
    note = (
        "compiled operators load"
        if has_operators()
        else "without compiled operators, none are needed"
    )
    return SystemCheck("torch", True, f"{pair} ({note})")


def check_gpu() -> SystemCheck:
    """Return the GPU that torch uses, if there is one."""
    try:
        import torch
    except (ImportError, OSError) as error:
        return SystemCheck("gpu", False, str(error), _INSTALL_HINT, required=False)
    if torch.cuda.is_available():
        return SystemCheck("gpu", True, torch.cuda.get_device_name(), required=False)
    if not _NVIDIA_DRIVER.exists():
        return SystemCheck("gpu", True, "none, the CPU does the work", required=False)
    cure = (
        f"torch {torch.__version__} does not use the GPU that is here. In a new environment: "
        "make setup TORCH_INDEX=https://download.pytorch.org/whl/cu130"
    )
    return SystemCheck("gpu", False, "an NVIDIA driver, unused", cure, required=False)


def check_opengl() -> SystemCheck:
    """Return OpenGL's renderer, as the rasterizer finds it in a child process."""
    done, said = _run_in_child(_OPENGL_PROBE)
    if done:
        return SystemCheck("opengl", True, said, required=False)
    cure = (
        "Renders come from pybullet's TinyRenderer meanwhile. "
        f"Install Mesa: apt-get install -y --no-install-recommends {MESA_PACKAGES}"
    )
    return SystemCheck("opengl", False, f"none ({said})", cure, required=False)


def check_cache() -> SystemCheck:
    """Return the cache folder and whether it can be written."""
    folder = get_cache_folder()
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    ok = there.is_dir() and os.access(there, os.W_OK | os.X_OK)
    cure = "" if ok else f"{there} cannot be written. Set SIM2CAM_CACHE to a folder that can."
    return SystemCheck("cache", ok, str(folder), cure, required=False)


def check_disk(folder: Path) -> SystemCheck:
    """Return the free space where ``folder`` lies."""
    free_gb = shutil.disk_usage(folder).free / 1e9
    ok = free_gb >= _MIN_FREE_GB
    cure = "" if ok else f"At least {_MIN_FREE_GB:.0f} GB are needed. Free some, or work elsewhere."
    return SystemCheck("disk", ok, f"{free_gb:.1f} GB free in {folder}", cure)


def _list_requirements() -> list[str]:
    needed = [line for line in metadata.requires("sim2cam") or [] if "extra ==" not in line]
    return sorted((re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in needed), key=str.lower)


def _run_in_child(code: str) -> tuple[bool, str]:
    """Return whether the code ran to its end, and the last line it said."""
    try:
        child = subprocess.run(  # noqa: S603 (the code is this module's own)
            [sys.executable, "-c", code],
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_CHILD_LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        return False, f"no answer in {_CHILD_LIMIT_S} s"
    lines = (child.stdout if child.returncode == 0 else child.stderr).strip().splitlines()
    return child.returncode == 0, lines[-1] if lines else f"exit code {child.returncode}"
