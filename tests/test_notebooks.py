"""Every notebook runs from top to bottom and is stored without outputs."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "least"), [("first_light", 6), ("own_photos", 4)])
def test_a_notebook_runs(name, least, tmp_path):
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    client = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    pictures = [
        output
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]
    assert len(pictures) >= least


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_is_stored_without_outputs(path):
    cells = nbformat.read(path, as_version=4).cells
    assert not any(cell.get("outputs") for cell in cells)
