"""Contact sheets of 16 samples of each shipped recipe, and the page that shows them.

    python docs/gallery.py [RECIPE ...]

Writes ``docs/gallery/RECIPE.jpg`` for these or all recipes, and ``docs/gallery/README.md``. Sheets that
are identical to another one are omitted.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
from pathlib import Path

from sim2cam.files import write_bytes
from sim2cam.images import encode_jpeg
from sim2cam.pipeline.generation import render_preview
from sim2cam.pipeline.recipe import RECIPES_FOLDER, load_recipe
from sim2cam.report.sheet import build_sample_sheet

FOLDER = Path(__file__).parent / "gallery"
SEED = 0
TILE_PX = 240
MAX_BYTES = 72_000
QUALITIES = range(88, 8, -6)
PAGE = """# What the shipped recipes make

The first 16 samples of each with seed 0, small, with their boxes and categories: what `sim2cam render
RECIPE --preview` shows. `make gallery` draws this page.
"""


def main(names: list[str]) -> None:
    """Write the contact sheets of these recipes, and the page of all sheets."""
    shipped = sorted(path.stem for path in RECIPES_FOLDER.glob("*.toml"))
    for name in names or shipped:
        sheet, file = make_sheet(name), FOLDER / f"{name}.jpg"
        file.unlink(missing_ok=True)
        duplicates = [other for other in FOLDER.glob("*.jpg") if other.read_bytes() == sheet]
        if not duplicates:
            write_bytes(file, sheet)
        print(f"{name}: {min(duplicates, default=file)}", flush=True)
    write_page(shipped)


def write_page(shipped: list[str]) -> None:
    """Write the page of all recipes that have a contact sheet."""
    parts = [PAGE]
    for name in shipped:
        if (FOLDER / f"{name}.jpg").is_file():
            parts.append(
                f"## {name}\n\n{_read_description(RECIPES_FOLDER / f'{name}.toml')}\n\n![{name}]({name}.jpg)\n"
            )
    write_bytes(FOLDER / "README.md", "\n".join(parts).encode())


def make_sheet(name: str) -> bytes:
    """Return the contact sheet of a recipe as JPEG with the highest quality within the size limit."""
    with tempfile.TemporaryDirectory() as folder:
        samples = render_preview(
            load_recipe(name), Path(folder, name), seed=SEED, max_cpu_s=math.inf
        )
        sheet = build_sample_sheet(samples, tile_px=TILE_PX)
    encodings = (encode_jpeg(sheet, quality) for quality in QUALITIES)
    return next(data for data in encodings if len(data) <= MAX_BYTES)


def _read_description(recipe: Path) -> str:
    """Return the comment at the top of a recipe."""
    lines = recipe.read_text(encoding="utf-8").splitlines()
    first = next(i for i, line in enumerate(lines) if not line.startswith("#"))
    return "\n".join(line.removeprefix("# ") for line in lines[:first])


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(sys.argv[1:])
