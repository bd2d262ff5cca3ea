"""Checks of the installation, with a remedy for each problem."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from sim2cam.assets.package_files import (
    BLENDER_DATA,
    PMNDRS_ASSETS,
    SWEETHOME3D,
    find_furniture_libraries,
    find_panoramas,
)
from sim2cam.data.cache import get_cache_folder
from sim2cam.data.camera_databases.installed import find_lens_database, find_noise_database
from sim2cam.data.data_folder import locate_data_folder
from sim2cam.data.environment import PYBULLET, get_package_version
from sim2cam.data.photo_sources import list_photo_folders
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
    """Result of a check.

    Attributes:
        status: installed version or present state.
        remedy: what to do if the check fails; else empty.
        required: whether rendering, adaptation, training and benchmarks need it.
    """

    name: str
    ok: bool
    status: str
    remedy: str = ""
    required: bool = True


def run_checks() -> list[SystemCheck]:
    """Run all checks; takes a few seconds, raises nothing and changes nothing."""
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
        check_photographs(),
        check_household_meshes(),
        check_camera_databases(),
        check_cache(),
        check_disk(Path.cwd()),
    ]


def can_run(checks: list[SystemCheck]) -> bool:
    """Return whether all required checks pass."""
    return all(check.ok for check in checks if check.required)


def check_python() -> SystemCheck:
    """Check the version of Python, which must be 3.11 or later."""
    ok = sys.version_info >= (3, 11)
    remedy = "" if ok else "Install Python 3.13, then run: make setup PYTHON=python3.13"
    return SystemCheck("python", ok, platform.python_version(), remedy)


def check_platform() -> SystemCheck:
    """Check the operating system; Linux on x86-64 is supported."""
    platform_name = f"{platform.system()} {platform.machine()}"
    ok = platform_name == "Linux x86_64"
    remedy = (
        "" if ok else "Rendering is supported on Linux x86-64; training and benchmarks work here."
    )
    return SystemCheck("platform", ok, platform_name, remedy, required=False)


def check_packages() -> SystemCheck:
    """Check the versions of the required packages."""
    try:
        versions = {name: get_package_version(name) for name in _list_requirements()}
    except metadata.PackageNotFoundError:
        return SystemCheck("packages", False, "sim2cam is not installed", _INSTALL_HINT)
    missing = [name for name, version in versions.items() if version is None]
    status = ", ".join(f"{name} {version or 'MISSING'}" for name, version in versions.items())
    return SystemCheck("packages", not missing, status, _INSTALL_HINT if missing else "")


def check_albumentations() -> SystemCheck:
    """Check the version of albumentations, which must be 2.0.

    Its successor albumentationsx has the same import name and another licence (AGPL).
    """
    if get_package_version("albumentationsx") is not None:
        remedy = "Its licence is the AGPL. Create a new environment without it."
        return SystemCheck("albumentations", False, "albumentationsx", remedy, required=False)
    version = get_package_version("albumentations")
    ok = version is not None and version.startswith("2.0.")
    remedy = "" if ok else 'Run: pip install "albumentations>=2.0.8,<2.1"'
    return SystemCheck("albumentations", ok, version or "missing", remedy)


def check_opencv() -> SystemCheck:
    """Check the installed builds of OpenCV, which overwrite each other's files."""
    builds = {
        dist.name.lower(): dist.version
        for dist in metadata.distributions()
        if dist.name  # None for damaged metadata
        and re.fullmatch(r"opencv[-_](contrib[-_])?python([-_]headless)?", dist.name.lower())
    }
    status = ", ".join(f"{name} {version}" for name, version in sorted(builds.items()))
    succeeded, message = _run_in_child("import cv2")
    if not succeeded:
        return SystemCheck("opencv", False, f"{status or 'missing'} ({message})", _INSTALL_HINT)
    if len(set(builds.values())) <= 1:  # none if the system's package manager installed it
        return SystemCheck("opencv", True, status or "present")
    newest = max(builds.values(), key=lambda v: [int(n) for n in re.findall(r"\d+", v)])
    requirements = " ".join(f"{name}=={newest}" for name in sorted(builds))
    remedy = f"Files of several versions are mixed. Install one version: pip install {requirements}"
    return SystemCheck("opencv", False, status, remedy, required=False)


def check_pybullet() -> SystemCheck:
    """Check that pybullet can be imported, in a child process."""
    succeeded, message = _run_in_child("import pybullet")
    if succeeded:
        return SystemCheck("pybullet", True, get_package_version(PYBULLET) or "present")
    return SystemCheck("pybullet", False, message, f"Run: pip install {PYBULLET}")


def check_torch() -> SystemCheck:
    """Check torch and torchvision, and whether their compiled operators load."""
    pair = f"torch {get_package_version('torch')}, torchvision {get_package_version('torchvision')}"
    try:
        from sim2cam.models.compat import has_operators
    except (BackendError, ImportError, OSError) as error:
        return SystemCheck("torch", False, f"{pair}: {error}", _INSTALL_HINT)
    note = (
        "compiled operators load"
        if has_operators()
        else "no compiled operators, which are optional"
    )
    return SystemCheck("torch", True, f"{pair} ({note})")


def check_gpu() -> SystemCheck:
    """Check which GPU torch uses, if any."""
    try:
        import torch
    except (ImportError, OSError) as error:
        return SystemCheck("gpu", False, str(error), _INSTALL_HINT, required=False)
    if torch.cuda.is_available():
        return SystemCheck("gpu", True, torch.cuda.get_device_name(), required=False)
    if not _NVIDIA_DRIVER.exists():
        return SystemCheck("gpu", True, "none; training runs on the CPU", required=False)
    remedy = (
        f"torch {torch.__version__} does not use the GPU of this machine. In a new environment: "
        "make setup TORCH_INDEX=https://download.pytorch.org/whl/cu130"
    )
    return SystemCheck("gpu", False, "NVIDIA driver, not used by torch", remedy, required=False)


def check_opengl() -> SystemCheck:
    """Check the OpenGL renderer, in a child process."""
    succeeded, message = _run_in_child(_OPENGL_PROBE)
    if succeeded:
        return SystemCheck("opengl", True, message, required=False)
    remedy = (
        "pybullet's slower TinyRenderer is used instead. "
        f"Install Mesa: apt-get install -y --no-install-recommends {MESA_PACKAGES}"
    )
    return SystemCheck("opengl", False, f"none ({message})", remedy, required=False)


def check_photographs() -> SystemCheck:
    """Check for photographs: fetched ones, and installed environment maps to fetch them from."""
    fetched = [folder.name for folder in list_photo_folders(locate_data_folder())]
    packages = Counter(panorama.name.partition("-")[0] for panorama in find_panoramas())
    found = [f"fetched: {', '.join(fetched)}"] if fetched else []
    found += [f"{count} environment maps of {name}" for name, count in sorted(packages.items())]
    remedy = ""
    if not fetched:
        install = (
            ""
            if packages
            else f"Install {BLENDER_DATA} (Debian) or {PMNDRS_ASSETS} (npm), then run"
        )
        remedy = f"{install or 'Run'}: sim2cam fetch backgrounds"
    return SystemCheck(
        "photographs", bool(fetched), "; ".join(found) or "none", remedy, required=False
    )


def check_household_meshes() -> SystemCheck:
    """Check for the household meshes of ``sweethome3d:``."""
    names = [library.stem for library in find_furniture_libraries()]
    remedy = "" if names else f"Run: apt-get install {SWEETHOME3D}"
    return SystemCheck(
        "household meshes", bool(names), ", ".join(names) or "none", remedy, required=False
    )


def check_camera_databases() -> SystemCheck:
    """Check which databases recipes can sample sensors and lenses from; none is required."""
    places = []
    for find in (find_noise_database, find_lens_database):
        try:
            database = find()
        except BackendError as error:
            places.append(str(error))
        else:
            first = database.files[0]
            place = first if len(database.files) == 1 else first.parent
            places.append(f"{database.name}: {place}")
    return SystemCheck("camera databases", True, "; ".join(places), required=False)


def check_cache() -> SystemCheck:
    """Check that the cache folder is writable."""
    folder = get_cache_folder()
    existing_folder = next(parent for parent in (folder, *folder.parents) if parent.exists())
    ok = existing_folder.is_dir() and os.access(existing_folder, os.W_OK | os.X_OK)
    remedy = (
        "" if ok else f"{existing_folder} is not writable. Set SIM2CAM_CACHE to a writable folder."
    )
    return SystemCheck("cache", ok, str(folder), remedy, required=False)


def check_disk(folder: Path) -> SystemCheck:
    """Check the free disk space of a folder."""
    free_gb = shutil.disk_usage(folder).free / 1e9
    ok = free_gb >= _MIN_FREE_GB
    remedy = (
        ""
        if ok
        else f"At least {_MIN_FREE_GB:.0f} GB are needed. Free disk space, or use another disk."
    )
    return SystemCheck("disk", ok, f"{free_gb:.1f} GB free in {folder}", remedy)


def _list_requirements() -> list[str]:
    requirements = [Requirement(line) for line in metadata.requires("sim2cam") or []]
    required = [
        r.name for r in requirements if r.marker is None or r.marker.evaluate({"extra": ""})
    ]
    return sorted(required, key=str.lower)


def _run_in_child(code: str) -> tuple[bool, str]:
    """Run code in a child process; return whether it succeeds, and its last line of output."""
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
