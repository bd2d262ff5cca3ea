"""A first recipe for objects of one's own, with lengths that suit them."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sim2cam.assets.importer import Imported
from sim2cam.data.sample import Dataset
from sim2cam.errors import InputError
from sim2cam.randomize.limits import get_bounds
from sim2cam.scene.asset_facts import AssetInfo

_LONGER_SIDE_PX = 640
_DEFAULT_SIZE = (640, 480)
_LENGTH_RATIOS = {
    "layout/region_m": (0.8, 3.0),
    "layout/drop_height_m": (0.1, 0.6),
    "layout/surface_side_m": (4.0, 8.0),
    "layout/wall_m": (0.1, 0.4),
    "distractor/size_m": (0.1, 1.0),
}
"""Lengths of a recipe, from and to, over that of its middle object."""

_RECIPE_TEMPLATE = """\
# Scenes of the objects in {folder}. `sim2cam render {file} --preview` shows 16 of them.
# What is left out is as in the recipes that this one builds on; every number is free to be changed.
base = "objects"
name = {name}
{categories}

[assets]
folder = {folder}  # from here; `sim2cam assets` lists what is in it
{unit}

[render]
{size}
views = 4  # cameras that look at each scene

# Lengths are in metres. The middle one of the objects, by size, is {length:.3g} m long.
[domain.layout]
object_count = {{ kind = "integers", low = 2, high = 8 }}
region_m = {{ kind = "log_uniform", {region_m} }}  # thrown within
drop_height_m = {{ kind = "uniform", {drop_height_m} }}
surface_side_m = {{ kind = "uniform", {surface_side_m} }}  # of mat or tray
wall_m = {{ kind = "uniform", {wall_m} }}

[domain.distractor]  # other things on the table; with shape = "asset" those of a folder in [assets.clutter]
size_m = {{ kind = "log_uniform", {size_m} }}

[domain.view]  # pixels that the middle object covers in a picture 640 pixels wide
object_px = {{ kind = "log_uniform", low = 60.0, high = 240.0 }}

[train]
steps = 3000
"""


def format_recipe(
    path: Path, folder: Path, assets: Sequence[Imported], captures: Dataset | None
) -> str:
    """Return the text of a recipe that throws the assets of a folder.

    Args:
        path: where it is going to lie.
        folder: of assets.
        assets: what became of its files.
        captures: whose size the pictures get; None without any.

    Raises:
        InputError: an asset cannot be used.
    """
    facts = [one.facts for one in assets if one.facts is not None]
    problems = [one.problem for one in assets if one.problem]
    if problems:
        raise InputError(folder, f"{problems[0]} Mend it or take it out of the folder.")
    length = float(np.median([max(one.size_m) for one in facts]))
    categories = sorted({one.mesh.category for one in facts})
    return _RECIPE_TEMPLATE.format(
        file=path.name,
        name=_quote(path.stem),
        categories=f"categories = [{', '.join(map(_quote, categories))}]",
        folder=_quote(Path(os.path.relpath(folder, path.parent)).as_posix()),
        unit=_format_unit_line(assets, max(facts, key=lambda one: max(one.size_m))),
        size=_format_size_lines(captures),
        length=length,
        **{path.rpartition("/")[2]: _format_range(path, length) for path in _LENGTH_RATIOS},
    )


def _format_range(factor_path: str, length: float) -> str:
    """Return the ends of a length, as far as the factor allows them."""
    low, high = (
        float(np.clip(share * length, *get_bounds(factor_path)))
        for share in _LENGTH_RATIOS[factor_path]
    )
    return f"low = {low:.3g}, high = {high:.3g}"


def _format_unit_line(assets: Sequence[Imported], largest: AssetInfo) -> str:
    size = " x ".join(f"{1e3 * side:.3g}" for side in largest.size_m)
    shown = f"the largest, {largest.name}, is {size} mm"
    guesses = {one.guessed_unit for one in assets if one.guessed_unit}
    if len(guesses) != 1:
        how = "guessed file by file" if guesses else "known"
        return f'# unit = "mm"  # of the files\' numbers; {how}: {shown}'
    return f'unit = "{guesses.pop()}"  # of the files\' numbers; guessed: {shown}'


def _format_size_lines(captures: Dataset | None) -> str:
    width, height = _DEFAULT_SIZE
    words = "of the pictures, pixels; take those of your photos"
    if captures is not None:
        sizes = Counter((sample.width, sample.height) for sample in captures.samples)
        (full_width, full_height), _ = sizes.most_common(1)[0]
        scale = min(1.0, _LONGER_SIDE_PX / max(full_width, full_height))
        width, height = round(full_width * scale), round(full_height * scale)
        words = f"of the pictures; most captures have {full_width} x {full_height} pixels"
    return f"width = {width}  # {words}\nheight = {height}"


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
