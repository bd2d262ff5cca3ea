"""How far renders of dice look from real photos, step by step of the camera, before and after its fit.

    python benchmarks/gap.py [--scenes N] [--workers N]

Captures are found in ``$SIM2CAM_REAL/dice``; no label is read. ``style.json`` tells the camera, the
photos of ``dev.json``, which tell it nothing, are what renders are held against. Both recipes draw the
same scenes and differ in their cameras alone. Writes ``benchmarks/results/gap.json``.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro
from scoring_log import RESULTS, real_folder

from sim2cam.data.environment import collect_environment
from sim2cam.data.real_images import read_real_images
from sim2cam.data.writer import write_json
from sim2cam.experiments.domain_gap import measure_stage_gaps
from sim2cam.pipeline.camera_recipes import write_camera_recipe
from sim2cam.pipeline.recipe import Recipe, load_recipe

SEED = 200


@dataclass(frozen=True)
class Arguments:
    """How much is rendered."""

    scenes: int = 40
    """Of each recipe."""
    workers: int = 1
    """Processes."""


def main(arguments: Arguments) -> None:
    """Measure the gap of both recipes."""
    captures = read_real_images(real_folder("dice") / "dev.json")
    recipes = {"as drawn": load_recipe("dice"), "fitted": fitted_recipe()}
    ladders = measure_stage_gaps(
        list(recipes.values()),
        captures,
        count=arguments.scenes,
        seed=SEED,
        workers=arguments.workers,
        progress=lambda done, total: None,
    )
    for name, steps in zip(recipes, ladders, strict=True):
        for step in steps:
            print(f"{name:<9} {step.stage:<11} {step.gap.sliced_wasserstein.value:.3f}", flush=True)
    facts: dict[str, Any] = {
        "environment": collect_environment(None, arguments.workers),
        "protocol": {
            "captures": len(captures.samples),
            "scenes": arguments.scenes,
            "seed": SEED,
            "intervals": "95 %, bootstrap over pictures",
        },
        "cameras": [
            {"name": name, "stages": [step.to_json() for step in steps]}
            for name, steps in zip(recipes, ladders, strict=True)
        ],
    }
    write_json(RESULTS / "gap.json", facts)


def fitted_recipe() -> Recipe:
    """Return dice as the camera of the style photos would see them."""
    photos = read_real_images(real_folder("dice") / "style.json")
    with tempfile.TemporaryDirectory() as folder:
        return load_recipe(write_camera_recipe("dice", photos, Path(folder), SEED))


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
