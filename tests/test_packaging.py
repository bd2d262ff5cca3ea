"""The wheel and the sdist hold everything, and work where no source tree is."""

from __future__ import annotations

import ast
import email.parser
import json
import os
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

ROOT = Path(__file__).parents[1]
PACKAGE = {
    str(path.relative_to(ROOT))
    for folder, _, names in os.walk(ROOT / "sim2cam", followlinks=True)
    for path in (Path(folder, name) for name in names)
    if "__pycache__" not in path.parts
}
OF_THE_TOP = ["pyproject.toml", "README.md", "LICENSE"]


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
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        names = {n for n in wheel.namelist() if ".dist-info/" not in n}
        assert names == PACKAGE
        assert {"sim2cam/py.typed", "sim2cam/render/__init__.py"} <= names
        text = wheel.read(f"sim2cam-{__version__}.dist-info/METADATA").decode()
        assert wheel.read(f"sim2cam-{__version__}.dist-info/licenses/LICENSE")
    fields = email.parser.Parser().parsestr(text)
    assert fields["Version"] == __version__
    assert fields["License-Expression"] == "Apache-2.0"
    assert fields["Requires-Python"] == ">=3.11"


def test_the_sdist_holds_real_files_in_place_of_the_links(built):
    top = f"sim2cam-{__version__}"
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        files = {member.name for member in sdist.getmembers() if member.isfile()}
        assert not [member.name for member in sdist.getmembers() if member.issym()]
    assert {f"{top}/{name}" for name in PACKAGE | set(OF_THE_TOP)} <= files


def test_each_core_dependency_is_imported():
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
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = map(Requirement, project["dependencies"])
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
    run(installed / "sim2cam", "render", "dice", "--out", out, "--count", "1", cwd=tmp_path)
    assert (out / "dataset.json").is_file()
    assert len(list(out.glob("shards/*/rgb/*"))) == 1
