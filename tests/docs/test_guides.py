"""Examples in the documentation: every recipe loads, and every command can be parsed."""

import itertools
import re
import shlex
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import pytest

from sim2cam import cli
from sim2cam.commands.parser import parse_command
from sim2cam.images import encode_png
from sim2cam.pipeline.recipe import load_recipe
from tests.support.camera_databases import format_lens, write_databases

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FOLDERS = "start", "guides", "models", "results"
PAGES = (
    ROOT / "README.md", DOCS / "index.md",
    *sorted(page for folder in FOLDERS for page in DOCS.glob(f"{folder}/*.md")),
)  # fmt: skip
IMAGES = (
    "photos/oak.jpg", "photos/lawn.jpg", "photos/carpet.jpg", "photos/street.jpg",
    "photos/kitchen.jpg", "stickers/sale.png", "hdri/studio.png",
    "data/backgrounds/images/view.jpg", "data/backgrounds/maps/sky.png",
)  # fmt: skip
"""Files that examples name."""
MESHES, FACES = ("toaster", "keys", "teddyBear"), "f 1 3 2\nf 1 2 4\nf 2 3 4\nf 1 4 3\n"
"""Household meshes that examples name, as tetrahedra."""


def list_blocks(language):
    for page in PAGES:
        blocks = re.findall(rf"^ *```{language}\n(.*?)^ *```", page.read_text(), re.M | re.S)
        for number, block in enumerate(blocks):
            yield pytest.param(block, id=f"{page.stem}-{number}")


def list_recipes():
    for parameter in list_blocks("toml"):
        tables = tomllib.loads(parameter.values[0])
        if "base" in tables and "camera" not in tables:
            imports_models = "pybullet_data" in parameter.values[0] or tables["base"] == "panda"
            marks = [pytest.mark.slow] if imports_models else []
            yield pytest.param(*parameter.values, id=parameter.id, marks=marks)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("examples")
    write_databases(root, format_lens("24-70mm f/2.8", 'model="poly3" k1="-0.02"'))
    for name in IMAGES:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode_png(np.full((32, 64, 3), 120, np.uint8)))
    library = root / "sweethome3d/furniture/Scopia.sh3f"
    library.parent.mkdir(parents=True)
    with zipfile.ZipFile(library, "w") as archive:
        entries = "".join(
            f"model#{number}=/scopia/{name}/{name}.obj\n"
            + "".join(f"{side}#{number}=20\n" for side in ("width", "depth", "height"))
            for number, name in enumerate(MESHES)
        )
        archive.writestr("PluginFurnitureCatalog.properties", entries)
        for name in MESHES:
            archive.writestr(
                f"scopia/{name}/{name}.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\n" + FACES
            )
    return root


@pytest.mark.parametrize("text", list(list_recipes()))
def test_recipes_load(text, folder, monkeypatch):
    monkeypatch.setenv("SIM2CAM_REAL", str(folder / "data"))
    monkeypatch.setenv("XDG_DATA_DIRS", f"{folder}:/usr/local/share:/usr/share")
    path = folder / "example.toml"
    path.write_text(text if "name =" in text else f'name = "example"\n{text}')
    assert load_recipe(str(path)).domain.groups


@pytest.mark.parametrize("text", list(list_blocks("sh")))
def test_commands_can_be_parsed(text):
    for line in text.replace("\\\n", " ").splitlines():
        match = re.search(r"\bsim2cam ([a-z-].*)", line)
        if match is None or "pip install" in line:
            continue
        words = shlex.split(match[1], comments=True)
        words = list(itertools.takewhile(lambda word: word not in ("|", ">", "&&"), words))
        name, arguments = cli._split_command(words)
        assert parse_command(cli._COMMANDS[name], name, arguments), line
