"""Training options at equal steps: photographs, colours, crops without objects, scales, late thaw.

    python benchmarks/options.py [--work DIR] [--families dice ...] [--steps N] [--at-once N] [--minutes M]

Each variant changes one setting of the same training of ``lite0`` from ImageNet weights. Photographs that
``sim2cam fetch backgrounds`` stored are its backgrounds. Detectors are scored on development images with tight
boxes, because the result chooses defaults; the test images stay unseen. Trained weights stay in ``--work``, so that
a run can be resumed; no training starts after ``--minutes``. Writes ``benchmarks/results/options.json``.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import tyro
from result_files import RESULTS, write_results
from short_trainings import (
    FAMILIES,
    SEEDS,
    Family,
    Job,
    compare_variants,
    locate_images,
    render_family,
    run_jobs,
)

from sim2cam.data.data_folder import locate_data_folder
from sim2cam.data.environment import collect_environment
from sim2cam.data.photo_sources import list_photo_folders
from sim2cam.models.training.config import BackboneTuning, TrainConfig
from sim2cam.pipeline.recipe import load_recipe

BASELINE, DRAWN, WIDE = "default", "drawn backgrounds", "wider scales"
CHANGES: Mapping[str, Mapping[str, Any]] = {
    BASELINE: {},
    DRAWN: {},
    "strong colours": {"strong_colour": True},
    "crops without objects": {"negative_share": 0.35},
    WIDE: {},
    "thawed halfway": {"backbone": BackboneTuning(frozen_share=0.5)},
}
"""Changed settings by variant."""
WIDENING = 1.5  # of both ends of the scale range


@dataclass(frozen=True)
class Arguments:
    """Options of the comparison."""

    work: Path = Path("runs/options")
    """Folder of datasets and training runs; both are resumed."""
    families: tuple[str, ...] = ("dice", "robocup")
    """Families to train."""
    steps: int = 300
    """Steps of each training."""
    minutes: float = 1e9
    """Start no training after this many minutes; 0 only scores existing runs."""
    at_once: int = 2
    """Parallel trainings with one thread each, and worker processes of rendering."""


def main(arguments: Arguments) -> None:
    """Train and score all variants, and write the results."""
    if not list_photo_folders(locate_data_folder()):
        raise SystemExit("No background photographs. First run: sim2cam fetch backgrounds")
    path = RESULTS / "options.json"
    facts: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {"families": {}}
    deadline_s = time.time() + 60 * arguments.minutes
    for name in arguments.families:
        family, folder = FAMILIES[name], arguments.work / name
        render_family(family, folder / "renders", arguments.at_once)
        jobs = [
            Job(
                variant,
                make_config(variant, family, seed, arguments.steps),
                folder / f"{variant.replace(' ', '-')}-{seed}",
                folder / "renders",
                locate_images(family, "dev"),
                uses_photographs=variant != DRAWN,
                facts={},
            )
            for seed in SEEDS
            for variant in CHANGES
        ]
        if runs := run_jobs(jobs, arguments.at_once, deadline_s):
            protocol = {
                "recipe": family.recipe, "renders": family.count, "steps": arguments.steps, "seeds": list(SEEDS),
                "scored": f"{family.real}/{jobs[0].scored.name}",
            }  # fmt: skip
            facts["families"][name] = {"protocol": protocol, **compare_variants(runs, BASELINE)}
    facts["environment"] = collect_environment(None, 1)
    write_results(path, facts)


def make_config(variant: str, family: Family, seed: int, steps: int) -> TrainConfig:
    """Return the settings of a training."""
    config = replace(
        load_recipe(family.recipe).train, **family.changes, seed=seed, steps=steps,
        architecture="lite0", pretrained="auto",
    )  # fmt: skip
    if variant == WIDE:
        low, high = config.scale_range
        return replace(config, scale_range=(low / WIDENING, high * WIDENING))
    return replace(config, **CHANGES[variant])


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
