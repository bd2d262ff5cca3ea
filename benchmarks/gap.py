"""Stage-wise domain gap between renders of dice and real photos, before and after the camera fit.

    python benchmarks/gap.py [--scenes N] [--workers N]

Reads real images from ``$SIM2CAM_REAL/dice``; no label is read. The camera is fitted to the photos of
``style.json``. Renders are compared with the photos of ``dev.json``. Both recipes render the same scenes
with different cameras. Writes ``benchmarks/results/gap.json``.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro
from result_files import RESULTS, locate_real_dataset, write_results

from sim2cam.data.environment import collect_environment
from sim2cam.data.real_images import read_real_images
from sim2cam.experiments.domain_gap import measure_stage_gaps
from sim2cam.pipeline.camera_recipes import write_camera_recipe
from sim2cam.pipeline.recipe import Recipe, load_recipe
from sim2cam.progress import ignore_progress

SEED = 200


@dataclass(frozen=True)
class Arguments:
    """Options of the benchmark."""

    scenes: int = 40
    """Scenes per recipe."""
    workers: int = 1
    """Number of processes."""


def main(arguments: Arguments) -> None:
    """Measure the stage-wise gap of both recipes."""
    real_images = read_real_images(locate_real_dataset("dice") / "dev.json")
    recipes = {"as drawn": load_recipe("dice"), "fitted": fit_recipe()}
    stage_gaps = measure_stage_gaps(
        list(recipes.values()),
        real_images,
        count=arguments.scenes,
        seed=SEED,
        workers=arguments.workers,
        progress=ignore_progress,
    )
    for name, steps in zip(recipes, stage_gaps, strict=True):
        for step in steps:
            print(f"{name:<9} {step.stage:<11} {step.gap.sliced_wasserstein.value:.3f}", flush=True)
    facts: dict[str, Any] = {
        "environment": collect_environment(None, arguments.workers),
        "protocol": {
            "captures": len(real_images.samples),
            "scenes": arguments.scenes,
            "seed": SEED,
            "intervals": "95 %, bootstrap over images",
        },
        "cameras": [
            {"name": name, "stages": [step.to_json() for step in steps]}
            for name, steps in zip(recipes, stage_gaps, strict=True)
        ],
    }
    write_results(RESULTS / "gap.json", facts)


def fit_recipe() -> Recipe:
    """Return the recipe dice with the camera fitted to the style photos."""
    photos = read_real_images(locate_real_dataset("dice") / "style.json")
    with tempfile.TemporaryDirectory() as folder:
        return load_recipe(write_camera_recipe("dice", photos, Path(folder), SEED))


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
