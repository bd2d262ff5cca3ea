"""Measurement of a shipped recipe: problems, rejected scenes and coverage of the factors."""

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
_MIN_EXPECTED = 5.0  # expected samples of a bin; with fewer it may be empty by chance


def measure_recipe(
    name: str, samples: int, workers: int, work: Path, sheet: Path
) -> dict[str, Any]:
    """Measure the samples of a recipe and write a contact sheet.

    Args:
        samples: number of samples; existing ones are kept.

    Raises:
        SystemExit: rendering failed.
    """
    data = work / name
    process = run([
        sys.executable, "-m", "sim2cam", "render", name, "--out", str(data.resolve()),
        "--count", str(samples), "--workers", str(workers), "--resume", "-q",
    ])  # fmt: skip
    if process.code != 0:
        raise SystemExit(f"sim2cam render {name} failed:\n{process.errors}")
    report, dataset = check_dataset(data), read_dataset(data)
    _write_sheet([sample.rgb for sample in dataset.samples], sheet)
    scenes = list(read_scenes(data))
    rejections = build_card(dataset).rejections
    rejected = sum(rejections.values())
    histograms = compute_factor_histograms(
        load_recipe(name).domain, (scene.sampled_values for scene in scenes)
    )
    return {
        "name": name,
        "samples": report.samples,
        "scenes": len(scenes),
        "objects": report.objects,
        "problems": [asdict(problem) for problem in report.problems],
        "rejected_share": rejected / max(rejected + len(scenes), 1),
        "rejections": dict(rejections),
        "coverage": compute_coverage(histograms),
    }


def compute_coverage(histograms: tuple[FactorHistogram, ...]) -> dict[str, Any]:
    """Return how well accepted scenes cover the sampled distributions.

    Returns:
        ``bins``: bins of all factors with enough expected samples; ``empty``: number of empty ones;
        ``bent``: the factor with the largest total variation (half the summed differences of shares) between
        expected and observed histograms.
    """
    bins = empty = 0
    bent = ("", 0.0)
    for histogram in histograms:
        if histogram.expected is None or histogram.is_fixed or not histogram.count:
            continue
        expected, observed = np.array(histogram.expected), np.array(histogram.observed)
        is_covered = expected >= _MIN_EXPECTED
        bins += int(is_covered.sum())
        empty += int((observed[is_covered] == 0).sum())
        distance = float(np.abs(expected - observed).sum() / (2 * histogram.count))
        if distance > bent[1] and histogram.count >= _MIN_EXPECTED * len(expected):
            bent = (f"{histogram.group}/{histogram.factor}", distance)
    return {"bins": bins, "empty": empty, "bent": {"factor": bent[0], "total_variation": bent[1]}}


def _write_sheet(paths: list[Path], path: Path) -> None:
    """Write a contact sheet of evenly spaced images."""
    rows, columns = _SHOWN
    indices = np.linspace(0, len(paths) - 1, rows * columns).astype(int)
    tiles = [_make_tile(paths[i]) for i in indices]
    lines = [np.hstack(tiles[row * columns : (row + 1) * columns]) for row in range(rows)]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, encode_jpeg(np.vstack(lines), _QUALITY))


def _make_tile(path: Path) -> NDArray[np.uint8]:
    """Return the central square of an image, scaled down."""
    rgb = read_rgb(path)
    side = min(rgb.shape[:2])
    top, left = (rgb.shape[0] - side) // 2, (rgb.shape[1] - side) // 2
    square = rgb[top : top + side, left : left + side]
    small = cv2.resize(square, (_TILE_PX, _TILE_PX), interpolation=cv2.INTER_AREA)
    return np.asarray(small, np.uint8)
