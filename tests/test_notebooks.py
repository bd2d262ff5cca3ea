"""Notebooks run from top to bottom at a small size, and are stored with clean, current outputs."""

import ast
import base64
import json
import runpy
from pathlib import Path

import nbformat
import pytest
import trimesh

from sim2cam.cli import main

ROOT = Path(__file__).parents[1]
store = runpy.run_path(str(ROOT / "docs" / "notebooks.py"))
FOLDER, PARAMETERS = store["FOLDER"], store["PARAMETERS"]
NOTEBOOKS = {path.stem: path for path in sorted(FOLDER.glob("*.ipynb"))}

SMALL = {
    "first_dataset": "SIZE, COUNT = 96, 8",
    "own_meshes": "SIZE, COUNT, STEPS = 128, 12, 6",
    "own_photos": "COUNT, STEPS = 12, 6",
    "calibrate_camera": "WIDTH, HEIGHT, COUNT = 320, 240, 8",
    "translator": "SIZE, COUNT, STEPS = 128, 8, 4",
    "poses": "SIZE, COUNT, STEPS = 128, 12, 4",
    "object_kind": "SIZE, COUNT = 128, 4",
    "few_labels": "TEST, LABELLED, PSEUDO, STEPS, STUDY_STEPS = 4, 6, 3, 3, 2",
}
"""Assignments that make each notebook small."""

QUICK = ("first_dataset",)
PUBLIC = {"sim2cam", "sim2cam.commands"}
KIND_INTERFACE = {
    "sim2cam.objects.kind",
    "sim2cam.objects.solid",
    "sim2cam.scene.parameters",
    "sim2cam.scene.symmetry",
    "sim2cam.surfaces.lathe",
    "sim2cam.surfaces.mesh",
}
"""Modules that a new object kind needs besides."""

MAX_FIGURE_BYTES, MAX_NOTEBOOK_BYTES, MAX_TOTAL_BYTES = 60 << 10, 250 << 10, 1200 << 10
SPLITS = {"style": (0, 12), "dev": (12, 16), "train": (0, 16), "test": (16, 24)}
"""First and last image of each split; some images are in two."""


def read(name):
    return nbformat.read(NOTEBOOKS[name], as_version=4)


def run(notebook, name, folder):
    """Run a notebook at its small size in a folder; return the number of its images and its text."""
    store["set_parameters"](notebook, SMALL[name])
    store["run"](notebook, folder)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    text = "".join(output["text"] for output in outputs if output.get("name") == "stdout")
    return count_images(notebook), text


def test_all_notebooks_are_listed():
    assert SMALL.keys() == NOTEBOOKS.keys()


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in SMALL]
)
def test_notebook_runs(name, tmp_path):
    images, _ = run(read(name), name, tmp_path)
    assert images == count_images(read(name))


@pytest.fixture
def mugs_and_bricks(tmp_path):
    """A folder of meshes, and a COCO file of images of them in which mugs are called cups."""
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
@pytest.mark.parametrize(("splits", "train_count"), [(None, 12), (SPLITS, 16)])
def test_own_objects_can_replace_dice(mugs_and_bricks, write_parts, tmp_path, splits, train_count):
    meshes, labels = mugs_and_bricks
    if splits:
        tables = json.loads(labels.read_text())
        labels.unlink()
        labels = labels.parent
        write_parts(tables, labels, splits)
    notebook = read("own_photos")
    (yours,) = (c for c in notebook.cells if "yours" in c.metadata.get("tags", ()))
    for name in ("CAPTURES", "MESHES", "RENAMED"):
        assert f"{name} = " in yours.source
    yours.source = f'CAPTURES = Path(r"{labels}")\nMESHES = r"{meshes}"\nRENAMED = {{"cup": "mug"}}'
    images, text = run(notebook, "own_photos", tmp_path)
    assert images >= 4
    assert "categories: brick mug" in text
    assert f"real only ({train_count} labelled photos)" in text


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook_imports_public_modules_only(name):
    code = "\n".join(cell.source for cell in read(name).cells if cell.cell_type == "code")
    imported = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            imported |= names if node.module == "sim2cam" else {node.module}
    own = {module for module in imported if module.split(".")[0] == "sim2cam"}
    assert own <= PUBLIC | (KIND_INTERFACE if name == "object_kind" else set())


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_stored_outputs_are_complete_and_clean(name):
    notebook, text = read(name), NOTEBOOKS[name].read_text()
    assert notebook.metadata == {"kernelspec": store["KERNEL"]}
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert count_images(notebook) >= 3
    assert {output.output_type for output in outputs} <= {
        "stream",
        "execute_result",
        "display_data",
    }
    assert not any(output.get("name") == "stderr" for output in outputs)
    assert not any(cell.metadata.keys() - {"tags"} for cell in notebook.cells)
    assert not [word for word in ("/tmp/", "/root", "/home/") if word in text]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_stored_notebooks_are_small(name):
    assert NOTEBOOKS[name].stat().st_size <= MAX_NOTEBOOK_BYTES
    for cell in read(name).cells:
        for output in cell.get("outputs", []):
            assert image_bytes(output) <= MAX_FIGURE_BYTES


def test_all_stored_notebooks_are_small():
    assert sum(path.stat().st_size for path in NOTEBOOKS.values()) <= MAX_TOTAL_BYTES


def count_images(notebook):
    """Return the number of outputs with an image."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return sum(bool(image_bytes(output)) for output in outputs)


def image_bytes(output):
    """Return the size of the image of an output, or 0."""
    images = (data for kind, data in output.get("data", {}).items() if kind.startswith("image/"))
    return sum(len(base64.b64decode(data)) for data in images)


def test_cleaning_keeps_results_only():
    cell = nbformat.v4.new_code_cell(
        "1", execution_count=1, metadata={"tags": ["a"], "execution": {}}
    )
    cell.outputs = [
        nbformat.v4.new_output("stream", name="stderr", text="progress"),
        nbformat.v4.new_output("stream", name="stdout", text="result"),
    ]
    notebook = nbformat.v4.new_notebook(
        cells=[cell], metadata={"language_info": {"name": "python"}}
    )
    store["clean"](notebook)
    assert notebook.metadata == {"kernelspec": store["KERNEL"]}
    assert [output.text for output in notebook.cells[0].outputs] == ["result"]
    assert notebook.cells[0].metadata == {"tags": ["a"]}
