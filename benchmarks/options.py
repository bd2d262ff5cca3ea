"""Training options at equal steps: photographs, colours, crops without objects, scales, late thaw.

    python benchmarks/options.py [--work DIR] [--families dice ...] [--steps N] [--at-once N] [--minutes M]

Each variant changes one setting of the same training of ``lite0`` from ImageNet weights. Photographs that
``sim2cam fetch backgrounds`` stored are its backgrounds. Detectors are scored on development images with tight
boxes, because the result chooses defaults; the test images stay unseen. Trained weights stay in ``--work``, so that
a run can be resumed; no training starts after ``--minutes``. Writes ``benchmarks/results/options.json``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import tyro
from short_trainings import SEEDS, Arguments, Family, Job, compare_in_families, make_job

from sim2cam.data.data_folder import locate_data_folder
from sim2cam.data.photo_sources import list_photo_folders
from sim2cam.data.sample import Dataset
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
class OptionArguments(Arguments):
    """Options of the comparison."""

    work: Path = Path("runs/options")
    families: tuple[str, ...] = ("dice", "robocup")
    steps: int = 300
    """Steps of each training."""


def main(arguments: OptionArguments) -> None:
    """Train and score all variants, and write the results."""
    if not list_photo_folders(locate_data_folder()):
        raise SystemExit("No background photographs. First run: sim2cam fetch backgrounds")

    def make_jobs(family: Family, folder: Path, _renders: Dataset) -> list[Job]:
        return [
            make_job(
                variant,
                make_config(variant, family, seed, arguments.steps),
                family,
                folder,
                "dev",
                uses_photographs=variant != DRAWN,
                facts={},
            )
            for seed in SEEDS
            for variant in CHANGES
        ]

    protocol = {"steps": arguments.steps}
    compare_in_families("options", arguments, make_jobs, BASELINE, protocol)


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
    main(tyro.cli(OptionArguments, description=__doc__))
