"""Contact sheets of nine samples of each shipped recipe, and the page of the documentation that shows them.

    python docs/gallery.py [RECIPE ...]

Writes ``docs/gallery/RECIPE.webp`` for these or all recipes. Sheets that are identical to another one are
omitted.
"""

from __future__ import annotations

import io
import math
import os
import sys
import tempfile
import textwrap
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sim2cam.files import write_bytes
from sim2cam.pipeline.generation import render_preview
from sim2cam.pipeline.recipe import RECIPES_FOLDER, load_recipe
from sim2cam.report.sheet import build_sample_sheet

FOLDER = Path(__file__).parent / "gallery"
SEED = 0
COUNT, TILE_PX = 9, 240
MAX_BYTES = 27_000
QUALITIES = range(80, 10, -5)
HEAD = """# Gallery

Samples of each shipped recipe with seed 0, small, with their boxes and categories.
`sim2cam render RECIPE --preview` makes such a sheet. Sheets that equal another one are omitted.
"""


def main(names: list[str]) -> None:
    """Write the contact sheets of these recipes."""
    for name in names or sorted(path.stem for path in RECIPES_FOLDER.glob("*.toml")):
        sheet, file = make_sheet(name), FOLDER / f"{name}.webp"
        file.unlink(missing_ok=True)
        duplicates = [other for other in FOLDER.glob("*.webp") if other.read_bytes() == sheet]
        if not duplicates:
            write_bytes(file, sheet)
        print(f"{name}: {min(duplicates, default=file)}", flush=True)


def build_page() -> str:
    """Return the page of all recipes that have a contact sheet, with their files, as Markdown."""
    parts = [HEAD]
    for image in sorted(FOLDER.glob("*.webp")):
        name, recipe = image.stem, RECIPES_FOLDER / f"{image.stem}.toml"
        indented = textwrap.indent(recipe.read_text(encoding="utf-8"), "    ")
        parts.append(
            f"## {name}\n\n{_read_description(recipe)}\n\n![Samples of {name}]({image.name})\n\n"
            f"```sh\nsim2cam render {name} --preview\n```\n\n"
            f'??? example "Recipe `{name}`"\n\n    ```toml\n{indented}    ```\n'
        )
    return "\n".join(parts)


def make_sheet(name: str) -> bytes:
    """Return the contact sheet of a recipe as WebP with the highest quality within the size limit."""
    with tempfile.TemporaryDirectory() as folder:
        samples = render_preview(
            load_recipe(name), Path(folder, name), seed=SEED, max_cpu_s=math.inf
        )
        sheet = build_sample_sheet(samples.take(COUNT), tile_px=TILE_PX)
    encodings = (_encode_webp(sheet, quality) for quality in QUALITIES)
    return next(data for data in encodings if len(data) <= MAX_BYTES)


def _encode_webp(rgb: NDArray[np.uint8], quality: int) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(rgb).save(buffer, "WEBP", quality=quality, method=6)
    return buffer.getvalue()


def _read_description(recipe: Path) -> str:
    """Return the comment at the top of a recipe."""
    lines = recipe.read_text(encoding="utf-8").splitlines()
    first = next(i for i, line in enumerate(lines) if not line.startswith("#"))
    return "\n".join(line.removeprefix("# ") for line in lines[:first])


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(sys.argv[1:])
