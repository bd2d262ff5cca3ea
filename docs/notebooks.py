"""Run the notebooks and store their outputs: small images, no messages, no paths.

``python docs/notebooks.py [NAME ...]``; without names, all notebooks.
"""

from __future__ import annotations

import base64
import io
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from PIL import Image, ImageChops, ImageStat

FOLDER = Path(__file__).parents[1] / "notebooks"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
TIMEOUT_S = 900
PARAMETERS = "parameters"
"""Tag of the cell with the sizes of a notebook."""

_PNG, _JPEG = "image/png", "image/jpeg"
_QUALITIES = range(80, 15, -5)
_MAX_BYTES = 11_000
_PALETTE_COLORS = 64
_MAX_PALETTE_ERROR = 0.5  # levels, mean


def run(notebook: Any, folder: Path) -> None:
    """Run all cells in a folder, in place."""
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=TIMEOUT_S, resources=resources).execute()


def set_parameters(notebook: Any, source: str) -> None:
    """Add assignments to the cell of the parameters, so that the notebook runs at another size."""
    (cell,) = (c for c in notebook.cells if PARAMETERS in c.metadata.get("tags", ()))
    cell.source += f"\n{source}"


def clean(notebook: Any) -> None:
    """Reduce outputs to results: no messages, no metadata, small images."""
    notebook.metadata = {"kernelspec": KERNEL}
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number:02d}"
        cell.metadata = {k: v for k, v in cell.metadata.items() if k == "tags"}
        if cell.cell_type == "code":
            cell.outputs = [_clean_output(o) for o in cell.outputs if o.get("name") != "stderr"]


def _clean_output(output: Any) -> Any:
    if "metadata" in output:
        output["metadata"] = {}
    data = output.get("data", {})
    if _PNG in data:
        kind, content = compress_image(base64.b64decode(data.pop(_PNG)))
        data[kind] = base64.b64encode(content).decode()
    if len(data) > 1:
        data.pop("text/plain", None)  # such as <Figure size 1200x400 with 3 Axes>
    return output


def compress_image(png: bytes) -> tuple[str, bytes]:
    """Return a PNG as JPEG, or diagrams, whose few colours fit a palette, as PNG; and its type."""
    image = Image.open(io.BytesIO(png)).convert("RGB")
    quantized = image.quantize(_PALETTE_COLORS, dither=Image.Dither.NONE)
    error = ImageStat.Stat(ImageChops.difference(image, quantized.convert("RGB"))).mean
    if max(error) <= _MAX_PALETTE_ERROR:
        return _PNG, _encode(quantized, "PNG")
    jpegs = [_encode(image, "JPEG", quality=quality) for quality in _QUALITIES]
    return _JPEG, next((jpeg for jpeg in jpegs if len(jpeg) <= _MAX_BYTES), jpegs[-1])


def _encode(image: Image.Image, kind: str, **options: int) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, optimize=True, **options)
    return stream.getvalue()


def main() -> None:
    """Run the named notebooks and write them with their outputs."""
    names = sys.argv[1:] or sorted(path.stem for path in FOLDER.glob("*.ipynb"))
    for name in names:
        path = FOLDER / f"{name}.ipynb"
        notebook = nbformat.read(path, as_version=4)
        with tempfile.TemporaryDirectory() as folder:
            run(notebook, Path(folder))
        clean(notebook)
        nbformat.write(notebook, path)
        print(f"{name}: {path.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
