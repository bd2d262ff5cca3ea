"""What a shipped recipe makes: samples that are checked, drafts that are thrown away, coverage."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from rendering.commands import run

from sim2cam.data.card import build_card
from sim2cam.data.checks.dataset import check_dataset
from sim2cam.data.reader import read_dataset, read_scenes
from sim2cam.files import write_bytes
from sim2cam.images import encode_jpeg, read_rgb
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.randomize.domain_survey import FactorHistogram, compute_factor_histograms

_SHOWN = (2, 4)  # rows and columns of a contact sheet
_TILE_PX = 240
_QUALITY = 88
_FEW = 5.0  # expected draws of a bin; one of fewer may well be empty by chance


def measure_recipe(
    name: str, samples: int, workers: int, work: Path, sheet: Path
) -> dict[str, Any]:
    """Return what a recipe made, and writes a contact sheet of it.

    Args:
        name: of a shipped recipe.
        samples: how many are made; those that an earlier run made are kept.
        workers: processes.
        work: folder of the data sets.
        sheet: the picture's file.

    Raises:
        SystemExit: the recipe cannot be rendered.
    """
    data = work / name
    ended = run([
        sys.executable, "-m", "sim2cam", "render", name, "--out", str(data.resolve()),
        "--count", str(samples), "--workers", str(workers), "--resume", "-q",
    ])  # fmt: skip
    if ended.code != 0:
        raise SystemExit(f"sim2cam render {name} failed:\n{ended.errors}")
    report, dataset = check_dataset(data), read_dataset(data)
    _write_sheet([sample.rgb for sample in dataset.samples], sheet)
    scenes = list(read_scenes(data))
    rejections = build_card(dataset).rejections
    thrown = sum(rejections.values())
    surveyed = compute_factor_histograms(
        load_recipe(name).domain, (scene.sampled_values for scene in scenes)
    )
    return {
        "name": name,
        "samples": report.samples,
        "scenes": len(scenes),
        "objects": report.objects,
        "problems": [asdict(problem) for problem in report.problems],
        "rejected_share": thrown / max(thrown + len(scenes), 1),
        "rejections": dict(rejections),
        "coverage": coverage(surveyed),
    }


def coverage(surveyed: tuple[FactorHistogram, ...]) -> dict[str, Any]:
    """Return how what was kept lies in what was asked.

    That is ``bins`` of all factors in which draws are expected, how many of them are ``empty``, and
    the factor whose draws are most ``bent`` by what was thrown away: its name and the total
    variation (half the summed differences of shares) between drawn and asked.
    """
    bins = empty = 0
    bent = ("", 0.0)
    for one in surveyed:
        if one.expected is None or one.is_fixed or not one.count:
            continue
        asked, drawn = np.array(one.expected), np.array(one.observed)
        expected = asked >= _FEW
        bins += int(expected.sum())
        empty += int((drawn[expected] == 0).sum())
        off = float(np.abs(asked - drawn).sum() / (2 * one.count))
        if off > bent[1] and one.count >= _FEW * len(asked):
            bent = (f"{one.group}/{one.factor}", off)
    return {"bins": bins, "empty": empty, "bent": {"factor": bent[0], "total_variation": bent[1]}}


def _write_sheet(pictures: list[Path], path: Path) -> None:
    """Write some pictures, spread over all, side by side."""
    rows, columns = _SHOWN
    chosen = np.linspace(0, len(pictures) - 1, rows * columns).astype(int)
    tiles = [_tile(pictures[i]) for i in chosen]
    lines = [np.hstack(tiles[row * columns : (row + 1) * columns]) for row in range(rows)]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, encode_jpeg(np.vstack(lines), _QUALITY))


def _tile(path: Path) -> NDArray[np.uint8]:
    """Return the middle square of a picture, made small."""
    rgb = read_rgb(path)
    side = min(rgb.shape[:2])
    top, left = (rgb.shape[0] - side) // 2, (rgb.shape[1] - side) // 2
    square = rgb[top : top + side, left : left + side]
    small = cv2.resize(square, (_TILE_PX, _TILE_PX), interpolation=cv2.INTER_AREA)
    return np.asarray(small, np.uint8)
