"""Time from a recipe to a first detector: render, train, score on development photos.

    python benchmarks/first_detector.py [--work DIR] [--images N] [--train-minutes M] [--seeds 0 1 2]

Runs ``render dice``, ``train dice --minutes`` and ``bench`` one after another with their default settings, as a user
would. Photographs that ``sim2cam fetch backgrounds`` stored are the backgrounds. Boxes and input scale are not
tuned. Datasets and trainings go to ``--work``; seeds with a result there are not repeated. Needs the whole machine.
Writes ``benchmarks/results/first_detector.json``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro
from result_files import RESULTS, locate_real_dataset, write_results

from sim2cam.data.environment import collect_environment
from sim2cam.data.real_images import read_real_images
from sim2cam.data.writer import write_json
from sim2cam.experiments.benchmark import bench
from sim2cam.metrics.bootstrap import average_over_seeds
from sim2cam.metrics.detection import DetectionEvaluator, bootstrap_scores, estimate_seed_mean
from sim2cam.models.inference.detector import load_detector
from sim2cam.seeds import derive_rng

METRICS = ("ap50", "ap", "ap75", "agnostic_ap50")
RECIPE, SPLIT = "dice", "dev.json"
TIMES = "times.json"


@dataclass(frozen=True)
class Arguments:
    """Options of the benchmark."""

    work: Path = Path("runs/first_detector")
    """Folder of datasets and trainings."""
    images: int = 800
    """Number of renders."""
    train_minutes: float = 20.0
    """Time of the training steps."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds of renders and training."""


def main(arguments: Arguments) -> None:
    """Run missing seeds, score all, and write and print the results."""
    photos = locate_real_dataset(RECIPE) / SPLIT
    captures = read_real_images(photos)
    runs, evaluators = [], []
    for seed in arguments.seeds:
        folder = arguments.work / str(seed)
        if not (folder / TIMES).is_file():
            write_json(folder / TIMES, run_commands(folder, seed, arguments, photos))
        detector = load_detector(folder / "run" / "weights.safetensors")
        result = bench(detector, captures)
        evaluators.append(DetectionEvaluator(result.captures, result.predictions))
        times: dict[str, Any] = json.loads((folder / TIMES).read_text())
        runs.append({"seed": seed, "steps": detector.card.steps, **times})
        print(f"seed {seed}: AP50 {result.score.ap50.value:.3f}, {runs[-1]}", flush=True)
    resampled = bootstrap_scores(evaluators, rng=derive_rng(0, "first detector"))
    scores = {
        metric: estimate_seed_mean(
            average_over_seeds(resampled[metric], derive_rng(0, f"first detector/{metric}"))
        ).to_json()
        for metric in METRICS
    }
    for place, run in enumerate(runs):
        run |= {metric: float(resampled[metric][place, 0]) for metric in METRICS}
    facts = {
        "recipe": RECIPE, "renders": arguments.images, "train_minutes": arguments.train_minutes,
        "scored": f"{RECIPE}/{SPLIT}", "runs": runs, **scores,
        "environment": collect_environment(None, os.cpu_count() or 1),
    }  # fmt: skip
    write_results(RESULTS / "first_detector.json", facts)


def run_commands(folder: Path, seed: int, arguments: Arguments, photos: Path) -> dict[str, float]:
    """Run the commands of a seed and return the minutes that each takes."""
    sim, run = folder / "sim", folder / "run"
    count, minutes = str(arguments.images), str(arguments.train_minutes)
    commands = {
        "render": ("render", RECIPE, "--out", sim, "--count", count, "--seed", str(seed)),
        "train": ("train", RECIPE, "--data", sim, "--out", run, "--minutes", minutes, "--seed", str(seed)),
        "bench": ("bench", run / "weights.safetensors", "--captures", photos),
    }  # fmt: skip
    times = {}
    for name, command in commands.items():
        overwrite = () if name == "bench" else ("--overwrite",)
        start = time.monotonic()
        subprocess.run([sys.executable, "-m", "sim2cam", *command, *overwrite], check=True)
        times[f"{name}_minutes"] = (time.monotonic() - start) / 60
    return times | {"minutes": sum(times.values())}


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
