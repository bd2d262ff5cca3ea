"""Every notebook runs from top to bottom and is stored without outputs."""

import json
import re
from pathlib import Path

import nbformat
import pytest
import trimesh
from nbclient import NotebookClient

from sim2cam.cli import main

FOLDER = Path(__file__).parents[1] / "notebooks"
PARTS = {"style": (0, 12), "dev": (12, 16), "train": (0, 16), "test": (16, 24)}
"""Of images, some of which have two uses."""
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def run(notebook, place):
    """Runs a notebook in a folder; returns how many pictures it shows, and what it prints."""
    resources = {"metadata": {"path": str(place)}}
    NotebookClient(notebook, timeout=300, resources=resources).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    pictures = sum("image/png" in output.get("data", {}) for output in outputs)
    return pictures, "".join(o["text"] for o in outputs if o.get("name") == "stdout")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "least"), [("first_light", 6), ("own_photos", 4)])
def test_a_notebook_runs(name, least, tmp_path):
    pictures, _ = run(nbformat.read(FOLDER / f"{name}.ipynb", as_version=4), tmp_path)
    assert pictures >= least


@pytest.fixture
def mugs_and_bricks(tmp_path):
    """A folder of meshes, and a COCO file of pictures of them in which mugs are called cups."""
    meshes = tmp_path / "meshes"
    shapes = {
        "mug": trimesh.creation.annulus(20, 25, 60),
        "brick": trimesh.creation.box((50, 40, 30)),
    }
    for name, shape in shapes.items():
        (meshes / name).mkdir(parents=True)
        shape.export(meshes / name / "one.stl")
    recipe = tmp_path / "photos.toml"
    assert main(["new", str(recipe), "--assets", str(meshes), "-q"]) == 0
    sim, coco = tmp_path / "photos", tmp_path / "coco"
    flags = ["--count", "24", "--size", "160x120", "-q"]
    assert main(["render", str(recipe), "--out", str(sim), *flags]) == 0
    assert main(["export", str(sim), "--format", "coco", "--out", str(coco), "-q"]) == 0
    (labels,) = coco.glob("*.json")
    labels.write_text(labels.read_text().replace('"mug"', '"cup"'))
    return meshes, labels


@pytest.mark.slow
@pytest.mark.parametrize(("parts", "learned"), [(None, 12), (PARTS, 16)])
def test_photos_of_ones_own_objects_take_the_place_of_dice(
    mugs_and_bricks, write_parts, tmp_path, parts, learned
):
    meshes, labels = mugs_and_bricks
    if parts:
        tables = json.loads(labels.read_text())
        labels.unlink()
        labels = labels.parent
        write_parts(tables, labels, parts)
    notebook = nbformat.read(FOLDER / "own_photos.ipynb", as_version=4)
    (yours,) = (c for c in notebook.cells if "yours" in c.metadata.get("tags", ()))
    for name in ("CAPTURES", "MESHES", "RENAMED"):
        assert f"{name} = " in yours.source
    yours.source = f'CAPTURES = Path(r"{labels}")\nMESHES = r"{meshes}"\nRENAMED = {{"cup": "mug"}}'
    pictures, said = run(notebook, tmp_path)
    assert pictures >= 4
    assert "categories: brick mug" in said
    assert f"real only ({learned} labelled photos)" in said


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_uses_the_public_api_and_is_stored_without_outputs(path):
    cells = nbformat.read(path, as_version=4).cells
    assert not any(cell.get("outputs") for cell in cells)
    imports = re.findall(r"^.*\bsim2cam\b.*$", "\n".join(c.source for c in cells), re.MULTILINE)
    imports = {line for line in imports if "import" in line}
    assert imports <= {"import sim2cam", "from sim2cam import commands"}
