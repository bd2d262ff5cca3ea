"""Learning curves of a dice detector over renders and training steps.

    python benchmarks/curve.py [--work DIR] [--at-once N] [--minutes M]

Trains small detectors on parts of one set of renders, and with fewer steps, as ``sim2cam ablate --variants
renders,steps`` does, and scores them on the development photos of ``$SIM2CAM_REAL/dice``, because the curves
choose budgets. Renders and training runs go to ``--work`` and are resumed. No training starts after
``--minutes``; 0 only scores existing results. Writes ``benchmarks/results/curve.json``.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import tyro
from scoring_log import RESULTS, locate_real_dataset, round_numbers

from sim2cam.data.environment import collect_environment
from sim2cam.data.real_images import RealImageSplits, read_real_images
from sim2cam.data.writer import write_json
from sim2cam.experiments.ablation import (
    PREDICTIONS_FOLDER,
    RANDOMIZED,
    AblationPlan,
    Variant,
    prepare_data,
    run_jobs,
)
from sim2cam.experiments.ablation_scores import BASELINE, score_ablation
from sim2cam.experiments.variants import list_render_counts, list_step_counts
from sim2cam.pipeline.recipe import load_recipe

IMAGE_COUNT, STEPS, BATCH = 800, 256, 8

PLAN = AblationPlan(
    variants=(
        Variant(BASELINE, (RANDOMIZED,)),
        *list_render_counts(IMAGE_COUNT),
        *list_step_counts(STEPS),
    ),
    seeds=(0, 1, 2),
    config=replace(load_recipe("dice").train, steps=STEPS, batch=BATCH, roi_classifier=False),
    image_count=IMAGE_COUNT,
    data_seed=100,
    recipe="dice",
    fixed_recipe=None,
)


@dataclass(frozen=True)
class Arguments:
    """Options of the learning curves."""

    work: Path = Path("runs/curve")
    """Folder of renders, training runs and predictions."""
    at_once: int = 2
    """Parallel training runs, one thread each."""
    minutes: float = 1e9
    """Start no training after this many minutes."""


def main(arguments: Arguments) -> None:
    """Run missing training jobs and write the curves."""
    start = time.monotonic()
    splits, results = _read_splits(), arguments.work / PREDICTIONS_FOLDER
    if arguments.minutes > 0:
        prepare_data(PLAN, splits, arguments.work, workers=arguments.at_once)
    remaining_minutes = arguments.minutes - (time.monotonic() - start) / 60
    for path in run_jobs(
        PLAN,
        splits,
        arguments.work,
        results,
        workers=arguments.at_once,
        minutes=remaining_minutes,
    ):
        print(f"{(time.monotonic() - start) / 60:6.1f} min  {path.name}", flush=True)
    scores = score_ablation(PLAN, splits, results, baseline=BASELINE)
    for variant in scores["variants"]:
        print(variant["name"], variant["ap50"]["value"], variant["agnostic_ap50"]["value"])


def _read_splits() -> RealImageSplits:
    """Return the splits of real dice, with the development photos in the place of the test photos."""
    style, dev = (
        read_real_images(locate_real_dataset("dice") / f"{name}.json") for name in ("style", "dev")
    )
    return RealImageSplits(style, dev, None, None)


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
