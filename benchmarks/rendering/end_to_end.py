"""Images per second of the whole command: physics, rendering, labels and files."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rendering.commands import Run, run
from rendering.spread import compute_spread
from sim2cam.data.writer import SAMPLES_PER_SHARD

WORKERS = (1, 2)


def measure_end_to_end(recipe: Path, full: Path, image_count: int, repeats: int) -> dict[str, Any]:
    """Return the throughput of ``sim2cam render`` with one and two workers.

    A short run of one shard per worker precedes each long run. It warms up, and the difference in time gives
    the throughput without startup (``pace_per_s``).

    Args:
        recipe: recipe of the images.
        full: recipe with all channels, rendered by two workers.
        image_count: images of a long run.
        repeats: repetitions of both runs.
    """
    results = {workers: _measure(recipe, workers, image_count, repeats) for workers in WORKERS}
    return {
        "pictures": image_count,
        "workers": {str(workers): facts for workers, facts in results.items()},
        "full": _measure(full, 2, image_count, repeats),
    }


def _measure(recipe: Path, workers: int, image_count: int, repeats: int) -> dict[str, Any]:
    first = workers * SAMPLES_PER_SHARD
    runs = [
        (_render(recipe, workers, first), _render(recipe, workers, image_count))
        for _ in range(repeats)
    ]
    paces = [(image_count - first) / (long.wall_s - short.wall_s) for short, long in runs]
    return {
        "images_per_s": asdict(compute_spread([image_count / long.wall_s for _, long in runs])),
        "pace_per_s": asdict(compute_spread(paces)),
        "cpu_ms": asdict(compute_spread([1e3 * long.cpu_s / image_count for _, long in runs])),
        "peak_mb": max(long.peak_mb for _, long in runs),
    }


def _render(recipe: Path, workers: int, image_count: int) -> Run:
    """Run the command and return its resource use.

    Raises:
        SystemExit: the command failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable, "-m", "sim2cam", "render", str(recipe), "--out", f"{folder}/data",
            "--count", str(image_count), "--workers", str(workers), "-q",
        ]  # fmt: skip
        process = run(command)
    if process.code != 0:
        raise SystemExit(f"sim2cam render failed:\n{process.errors}")
    return process
