"""The wheel and the sdist hold everything, and work where no source tree is."""

from __future__ import annotations

import ast
import email.parser
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from sim2cam import __version__
from sim2cam.models.network.pretrained import _PACKAGES

ROOT = Path(__file__).parents[1]
PACKAGE = {
    str(path.relative_to(ROOT))
    for folder, _, names in os.walk(ROOT / "sim2cam", followlinks=True)
    for path in (Path(folder, name) for name in names)
    if "__pycache__" not in path.parts
}
OF_THE_TOP = ["pyproject.toml", "README.md", "LICENSE"]
DOWNLOADED = "sim2cam/models/weights/lmo.safetensors"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MAX_WHEEL_BYTES = 12_000_000


def run(*command: str | Path, cwd: Path) -> str:
    """Returns what a command says on stdout; it runs without this test's PYTHON variables."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYTEST"))}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=clean,
        check=False,
        text=True,
        capture_output=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """Returns a folder with the sdist and the wheel that was built from the sdist."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in OF_THE_TOP:
        shutil.copy(ROOT / name, source)
    for folder in ("sim2cam", "render", "randomize", "adapt", "models"):
        shutil.copytree(
            ROOT / folder,
            source / folder,
            symlinks=True,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, source, cwd=source)
    return out


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory) -> Path:
    """Returns the bin folder of an environment with the wheel and, beside it, the dependencies."""
    home = tmp_path_factory.mktemp("clean")
    venv.create(home, symlinks=True)
    python = home / "bin" / "python"
    wheel = next(built.glob("*.whl"))
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
    run(*pip, "install", "--no-deps", "--no-index", wheel, cwd=home)
    # A plain path is searched for packages, but the path files in it (such as that of an editable
    # sim2cam) are not read.
    site = next(home.glob("lib/python*/site-packages"))
    here = [path for path in sys.path if path.endswith("site-packages")]
    (site / "dependencies.pth").write_text("\n".join(here))
    return home / "bin"


def test_the_wheel_holds_every_file_of_the_package(built):
    path = next(built.glob("*.whl"))
    assert path.stat().st_size < MAX_WHEEL_BYTES
    with zipfile.ZipFile(path) as wheel:
        names = {n for n in wheel.namelist() if ".dist-info/" not in n}
        assert DOWNLOADED in PACKAGE
        assert names == PACKAGE - {DOWNLOADED}
        assert {"sim2cam/py.typed", "sim2cam/render/__init__.py"} <= names
        text = wheel.read(f"sim2cam-{__version__}.dist-info/METADATA").decode()
        assert wheel.read(f"sim2cam-{__version__}.dist-info/licenses/LICENSE")
    fields = email.parser.Parser().parsestr(text)
    assert fields["Version"] == __version__
    assert fields["License-Expression"] == "Apache-2.0"
    assert fields["Requires-Python"] == ">=3.11"
    assert set(fields.get_all("Classifier")) == set(PROJECT["classifiers"])
    assert fields["Keywords"].split(",") == PROJECT["keywords"]
    urls = dict(entry.split(", ", 1) for entry in fields.get_all("Project-URL"))
    assert urls == PROJECT["urls"]
    assert all(url.startswith(urls["Repository"]) for url in urls.values())
    images = re.findall(r"!\[[^]]*\]\(([^)\s]+)|<img[^>]*src=[\"']([^\"']+)", fields.get_payload())
    assert images
    assert all((markdown or html).startswith("https://") for markdown, html in images)


def test_classifiers_name_the_tested_versions_of_python():
    versions = {c.rpartition(" :: ")[2] for c in PROJECT["classifiers"] if ":: Python :: 3." in c}
    assert versions == {"3.11", "3.12", "3.13"}


def test_the_sdist_holds_real_files_in_place_of_the_links(built):
    top = f"sim2cam-{__version__}"
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        files = {member.name for member in sdist.getmembers() if member.isfile()}
        assert not [member.name for member in sdist.getmembers() if member.issym()]
    expected = (PACKAGE - {DOWNLOADED}) | set(OF_THE_TOP)
    assert {f"{top}/{name}" for name in expected} <= files


def test_each_core_dependency_is_used():
    imported = set()
    for name in PACKAGE:
        for node in ast.walk(ast.parse((ROOT / name).read_text())) if name.endswith(".py") else ():
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(node.module.partition(".")[0])
    used = {
        canonicalize_name(distribution)
        for module, distributions in metadata.packages_distributions().items()
        if module in imported
        for distribution in distributions
    }
    used |= {package.distribution for package in _PACKAGES.values()}  # read without an import
    declared = map(Requirement, PROJECT["dependencies"])
    names = {canonicalize_name(r.name) for r in declared if r.marker is None or r.marker.evaluate()}
    assert names <= used


def test_the_installed_package_is_not_this_source_tree(installed, tmp_path):
    code = (
        "import sim2cam, sim2cam.render, sim2cam.models as m; print(sim2cam.__file__, m.__file__)"
    )
    for file in run(installed / "python", "-c", code, cwd=tmp_path).split():
        assert Path(file).is_relative_to(installed.parent)


def test_the_installed_doctor_finds_it_whole(installed, tmp_path):
    answer = json.loads(run(installed / "sim2cam", "doctor", "--json", cwd=tmp_path))
    assert answer["ok"]
    assert {check["name"] for check in answer["checks"]} >= {"python", "torch", "opengl", "disk"}


def test_the_installed_package_renders(installed, tmp_path):
    out = tmp_path / "dice"
    flags = ("--out", out, "--count", "1", "--size", "96x80")
    run(installed / "sim2cam", "render", "dice", *flags, cwd=tmp_path)
    assert (out / "dataset.json").is_file()
    assert len(list(out.glob("shards/*/rgb/*"))) == 1


def test_the_installed_package_downloads_what_the_wheel_lacks(installed, tmp_path):
    place = f"raw/v{__version__}/models/weights"
    remote = tmp_path / place
    remote.mkdir(parents=True)
    shutil.copy(ROOT / DOWNLOADED, remote)
    code = (
        "import sim2cam\nfrom sim2cam.models import shipped_weights\n"
        "print(shipped_weights._make_url('lmo.safetensors'))\n"
        f"shipped_weights._make_url = lambda name: {remote.as_uri()!r} + '/' + name\n"
        "print(sim2cam.load('lmo').weights)"
    )
    cache = tmp_path / "cache"
    command = ("env", f"SIM2CAM_CACHE={cache}", installed / "python", "-c", code)
    url, path = run(*command, cwd=tmp_path).split()
    assert url == f"{PROJECT['urls']['Repository']}/{place}/lmo.safetensors"
    assert Path(path).is_relative_to(cache)
    assert Path(path).read_bytes() == (ROOT / DOWNLOADED).read_bytes()
