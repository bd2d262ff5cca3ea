"""The doctor reports problems with their remedies, and never fails itself."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from sim2cam.assets.package_files import PackagedPanorama
from sim2cam.data.photo_sources import PhotoSource, write_photo_sources
from sim2cam.errors import BackendError
from sim2cam.pipeline import doctor
from sim2cam.pipeline.doctor import SystemCheck, can_run

ROOT = Path(__file__).parents[2]


def test_test_environment_passes_required_checks():
    checks = doctor.run_checks()
    assert can_run(checks), [check for check in checks if not check.ok]
    assert len({check.name for check in checks}) == len(checks)
    assert all(check.status for check in checks)
    assert all(bool(check.remedy) != check.ok for check in checks)


def test_optional_check_may_fail():
    good, bad = (
        SystemCheck("python", True, "3.11"),
        SystemCheck("disk", False, "0 GB", "Free some."),
    )
    assert can_run([good, SystemCheck("opengl", False, "none", "Install Mesa.", required=False)])
    assert not can_run([good, bad])


def test_old_python_fails(monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 10, 2))
    check = doctor.check_python()
    assert not check.ok
    assert check.remedy == "Install Python 3.13, then run: make setup PYTHON=python3.13"


def test_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(
        metadata, "requires", lambda _: ["numpy>=1", "nosuch>=2", 'x; extra == "d"']
    )
    check = doctor.check_packages()
    assert check.status == f"nosuch MISSING, numpy {metadata.version('numpy')}"
    assert (check.ok, check.required) == (False, True)
    assert check.remedy == "Run: make setup, or: pip install -c constraints.txt ."


def test_missing_installation_is_reported(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", missing)
    assert doctor.check_packages().status == "sim2cam is not installed"


def builds(monkeypatch, **versions):
    found = [SimpleNamespace(name=n.replace("_", "-"), version=v) for n, v in versions.items()]
    monkeypatch.setattr(metadata, "distributions", lambda: iter(found))
    return doctor.check_opencv()


def test_one_opencv_build_passes(monkeypatch):
    check = builds(monkeypatch, opencv_python_headless="5.0.0.93", numpy="2.4.6")
    assert (check.ok, check.status) == (True, "opencv-python-headless 5.0.0.93")


def test_opencv_without_metadata_passes(monkeypatch):
    damaged = [SimpleNamespace(name=None, version="1")]
    monkeypatch.setattr(metadata, "distributions", lambda: iter(damaged))
    check = doctor.check_opencv()
    assert (check.ok, check.status) == (True, "present")


def test_two_opencv_builds_of_one_version_pass(monkeypatch):
    assert builds(monkeypatch, opencv_python_headless="5.0", opencv_python="5.0").ok


def test_opencv_builds_of_different_versions_fail(monkeypatch):
    check = builds(monkeypatch, opencv_python_headless="4.9.0.80", opencv_python="4.13.0.1")
    assert (check.ok, check.required) == (False, False)
    assert check.status == "opencv-python 4.13.0.1, opencv-python-headless 4.9.0.80"
    assert check.remedy == (
        "Files of several versions are mixed. Install one version: "
        "pip install opencv-python==4.13.0.1 opencv-python-headless==4.13.0.1"
    )


@pytest.mark.parametrize(
    ("versions", "ok"),
    [
        ({"albumentations": "2.0.8"}, True),
        ({"albumentations": "1.4.24"}, False),
        ({"albumentations": "2.1.0"}, False),
        ({"albumentations": "2.0.8", "albumentationsx": "2.0.11"}, False),
        ({}, False),
    ],
)
def test_only_albumentations_2_0_passes(monkeypatch, versions, ok):
    monkeypatch.setattr(doctor, "get_package_version", versions.get)
    check = doctor.check_albumentations()
    assert check.ok == ok
    assert bool(check.remedy) != ok


@pytest.mark.parametrize(
    ("code", "limit_s", "said"),
    [
        ("import sys; sys.exit('no display')", 60, "no display"),
        ("import os; os.abort()", 60, "exit code -6"),
        ("import time; time.sleep(60)", 0.5, "no answer in 0.5 s"),
    ],
)
def test_missing_opengl_is_optional(monkeypatch, code, limit_s, said):
    monkeypatch.setattr(doctor, "_OPENGL_PROBE", code)
    monkeypatch.setattr(doctor, "_CHILD_LIMIT_S", limit_s)
    check = doctor.check_opengl()
    assert (check.ok, check.required, check.status) == (False, False, f"none ({said})")
    assert check.remedy == (
        "pybullet's slower TinyRenderer is used instead. Install Mesa: "
        f"apt-get install -y --no-install-recommends {doctor.MESA_PACKAGES}"
    )


def test_makefile_installs_mesa_packages():
    assert f"MESA := {doctor.MESA_PACKAGES}\n" in (ROOT / "Makefile").read_text()


def test_incompatible_torchvision_fails(monkeypatch):
    class Broken:
        def find_spec(self, name, *_):
            if name == "sim2cam.models.compat":
                raise BackendError("torchvision does not fit")

    monkeypatch.delitem(sys.modules, "sim2cam.models.compat", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    check = doctor.check_torch()
    assert (check.ok, check.required) == (False, True)
    assert check.status.endswith(": torchvision does not fit")


def test_unused_gpu_is_reported(monkeypatch, tmp_path):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(doctor, "_NVIDIA_DRIVER", tmp_path)
    check = doctor.check_gpu()
    assert (check.ok, check.required) == (False, False)
    assert "make setup TORCH_INDEX=" in check.remedy
    monkeypatch.setattr(doctor, "_NVIDIA_DRIVER", tmp_path / "absent")
    assert doctor.check_gpu().ok


def test_missing_cache_is_not_created(monkeypatch, tmp_path):
    monkeypatch.setenv("SIM2CAM_CACHE", str(tmp_path / "a" / "b"))
    check = doctor.check_cache()
    assert (check.ok, check.status) == (True, str(tmp_path / "a" / "b"))
    monkeypatch.delenv("SIM2CAM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a" / "c"))
    assert doctor.check_cache().status == str(tmp_path / "a" / "c" / "sim2cam")
    assert not list(tmp_path.iterdir())


def test_unwritable_cache_is_reported(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("SIM2CAM_CACHE", str(tmp_path / "file" / "b"))
    check = doctor.check_cache()
    assert not check.ok
    assert check.remedy == (
        f"{tmp_path / 'file'} is not writable. Set SIM2CAM_CACHE to a writable folder."
    )


def test_full_disk_fails(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: SimpleNamespace(free=3e8))
    check = doctor.check_disk(tmp_path)
    assert (check.ok, check.status) == (False, f"0.3 GB free in {tmp_path}")
    assert check.remedy == "At least 1 GB are needed. Free disk space, or use another disk."


def test_photographs_and_meshes_are_named_with_their_remedy(tmp_path, monkeypatch):
    monkeypatch.setenv("SIM2CAM_REAL", str(tmp_path / "data"))
    source = PhotoSource("blender-data: a.exr", "CC0-1.0")
    panorama = PackagedPanorama("blender-a", tmp_path / "a.exr", source)
    for panoramas, status, remedy in (
        (
            (),
            "none",
            "Install blender-data (Debian) or @pmndrs/assets (npm), then run: sim2cam fetch ",
        ),
        ((panorama,), "1 environment maps of blender", "Run: sim2cam fetch backgrounds"),
    ):
        monkeypatch.setattr(doctor, "find_panoramas", lambda panoramas=panoramas: panoramas)
        check = doctor.check_photographs()
        assert (check.ok, check.required, check.status) == (False, False, status)
        assert check.remedy.startswith(remedy)
    write_photo_sources(tmp_path / "data/backgrounds", {"images/a.jpg": source})
    assert doctor.check_photographs().status.startswith("fetched: backgrounds; ")
    assert doctor.check_photographs().ok
    for libraries, status in (((), "none"), ((tmp_path / "Scopia.sh3f",), "Scopia")):
        monkeypatch.setattr(doctor, "find_furniture_libraries", lambda found=libraries: found)
        check = doctor.check_household_meshes()
        assert (check.ok, check.required, check.status) == (bool(libraries), False, status)
        assert ("apt-get install sweethome3d-furniture" in check.remedy) != check.ok
