"""First recipe for objects from a folder, with lengths that suit their sizes, or of a kind."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sim2cam.assets.importer import ImportedAsset
from sim2cam.data.sample import Dataset
from sim2cam.errors import InputError, UsageError, suggest_name
from sim2cam.randomize.domain_checks import get_bounds
from sim2cam.scene.asset_facts import AssetInfo

_LONGER_SIDE_PX = 640
_DEFAULT_SIZE = (640, 480)
_OBJECT_PX = (60.0, 240.0)  # in an image 640 pixels wide
_LENGTH_RATIOS = {
    "layout/region_m": (0.8, 3.0),
    "layout/drop_height_m": (0.1, 0.6),
    "layout/surface_side_m": (4.0, 8.0),
    "layout/wall_m": (0.1, 0.4),
    "distractor/size_m": (0.1, 1.0),
}
"""Ranges of lengths in a recipe, over the median object length."""
_MAX_SPIN_RAD_S = 25.0  # of the base recipe
_MAX_RIM_SPEED_M_S = 1.25  # of a median object, over half its length

_RECIPE_TEMPLATE = """\
# Scenes of the objects in {folder}. Show up to 16 scenes with `sim2cam render {file} --preview`.
# Missing keys are inherited from the base recipe. All numbers can be changed.
base = "objects"
name = {name}
{categories}

[assets]
folder = {folder}  # relative to this file; `sim2cam assets` lists its content
{unit}

[render]
{size}
views = 4  # images per scene; --count of `sim2cam render` counts images

# Lengths are in metres. The median object length is {length:.3g} m.
[domain.layout]
object_count = {{ kind = "integers", low = 2, high = 8 }}
region_m = {{ kind = "log_uniform", {region_m} }}  # radius within which objects are dropped
drop_height_m = {{ kind = "uniform", {drop_height_m} }}
surface_side_m = {{ kind = "uniform", {surface_side_m} }}  # side of mat or tray
wall_m = {{ kind = "uniform", {wall_m} }}
spin_rad_s = {{ kind = "uniform", low = 0, high = {spin_rad_s:.3g} }}  # large objects roll far if they spin fast

[domain.distractor]  # unlabelled objects; shape = "asset" takes them from [assets.clutter]
size_m = {{ kind = "log_uniform", {size_m} }}

[domain.view]
# Longest side of the median object in pixels, in an image 640 pixels wide; {object_px}.
object_px = {{ kind = "log_uniform", low = {low_px:g}, high = {high_px:g} }}

[train]
steps = 3000
"""


KIND_BASES = {
    "ball": "robocup",
    "block": "cubes",
    "board": "chessboard",
    "bolt": "fasteners",
    "card": "cards",
    "carton": "groceries",
    "die": "dice",
    "domino": "dominoes",
    "nut": "fasteners",
    "robot": "robocup",
    "tin": "groceries",
    "twisty": "twisty",
}
"""Shipped recipe with the factors of each kind of objects."""

_KIND_TEMPLATE = """\
# Scenes with objects of the kind {kind}. Show up to 16 scenes with `sim2cam render {file} --preview`.
# Missing keys are inherited from the base recipe. All numbers can be changed;
# `sim2cam recipe --explain {kind}` lists the factors of the objects.
base = "{base}"
name = {name}

[render]
{size}

[domain.layout]
{kind}_count = {{ kind = "integers", low = 1, high = 8 }}

[train]
steps = 3000
"""


def format_kind_recipe(path: Path, kind: str, captures: Dataset | None) -> str:
    """Return the text of a recipe with objects of a kind, see ``format_recipe``.

    Raises:
        UsageError: if there is no such kind.
    """
    if kind not in KIND_BASES:
        raise UsageError(f"no kind of objects '{kind}'. {suggest_name(kind, KIND_BASES)}.")
    return _KIND_TEMPLATE.format(
        file=path.name,
        name=_quote(path.stem),
        kind=kind,
        base=KIND_BASES[kind],
        size=_format_size_lines(*_select_size(captures)),
    )


def format_recipe(
    path: Path, folder: Path, assets: Sequence[ImportedAsset], captures: Dataset | None
) -> str:
    """Return the text of a recipe that throws the assets of a folder.

    Args:
        captures: real images, whose most common size the renders get; None for a default size.

    Raises:
        InputError: if an asset is unusable.
    """
    asset_infos = [entry.info for entry in assets if entry.info is not None]
    problems = [entry.error for entry in assets if entry.error]
    if problems:
        raise InputError(folder, f"{problems[0]} Fix the file, or remove it from the folder.")
    length = float(np.median([max(asset.size_m) for asset in asset_infos]))
    categories = sorted({asset.mesh.category for asset in asset_infos})
    width, height, comment = _select_size(captures)
    low_px, high_px = _OBJECT_PX
    return _RECIPE_TEMPLATE.format(
        file=path.name,
        name=_quote(path.stem),
        categories=f"categories = [{', '.join(map(_quote, categories))}]",
        folder=_quote(Path(os.path.relpath(folder, path.parent)).as_posix()),
        unit=_format_unit_line(assets, max(asset_infos, key=lambda asset: max(asset.size_m))),
        size=_format_size_lines(width, height, comment),
        object_px=f"here {low_px * width / 640:.0f} to {high_px * width / 640:.0f} px",
        low_px=low_px,
        high_px=high_px,
        length=length,
        spin_rad_s=min(_MAX_SPIN_RAD_S, 2 * _MAX_RIM_SPEED_M_S / length),
        **{path.rpartition("/")[2]: _format_range(path, length) for path in _LENGTH_RATIOS},
    )


def _format_range(factor_path: str, length: float) -> str:
    """Return the range of a length, clipped to the limits of the factor."""
    low, high = (
        float(np.clip(ratio * length, *get_bounds(factor_path)))
        for ratio in _LENGTH_RATIOS[factor_path]
    )
    return f"low = {low:.3g}, high = {high:.3g}"


def _format_unit_line(assets: Sequence[ImportedAsset], largest: AssetInfo) -> str:
    size = " x ".join(f"{1e3 * side:.3g}" for side in largest.size_m)
    description = f"the largest asset, {largest.name}, is {size} mm"
    guesses = {entry.guessed_unit for entry in assets if entry.guessed_unit}
    if len(guesses) != 1:
        source = "guessed per file" if guesses else "defined by the files"
        return f'# unit = "mm"  # {source}: {description}'
    return f'unit = "{guesses.pop()}"  # guessed: {description}'


def _select_size(captures: Dataset | None) -> tuple[int, int, str]:
    """Return the width and height of renders, and a comment on them."""
    width, height = _DEFAULT_SIZE
    comment = "pixels; use the size of your real images"
    if captures is not None:
        sizes = Counter((sample.width, sample.height) for sample in captures.samples)
        (full_width, full_height), _ = sizes.most_common(1)[0]
        scale = min(1.0, _LONGER_SIDE_PX / max(full_width, full_height))
        width, height = round(full_width * scale), round(full_height * scale)
        comment = f"most real images have {full_width} x {full_height} pixels"
    return width, height, comment


def _format_size_lines(width: int, height: int, comment: str) -> str:
    return f"width = {width}  # {comment}\nheight = {height}"


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
