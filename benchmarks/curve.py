"""Learning curves of dice detectors over renders, training steps and labelled photos.

    python benchmarks/curve.py [--work DIR] [--at-once N] [--minutes M]

Trains small detectors on parts of one set of renders and with fewer steps, as ``sim2cam ablate --variants
renders,steps`` does. They are scored on the development photos of ``$SIM2CAM_REAL/dice``, because the curves
choose budgets. The curve of labelled photos comes from the predictions of ``benchmarks/dice.py`` on test photos,
in the folder ``--ablation``; without them it stays as it is. Renders and training runs go to ``--work`` and are resumed. No training starts after ``--minutes``; 0 only scores
existing results. Writes ``benchmarks/results/curve.json``.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import tyro
from dice import PLAN as ABLATION
from dice import read_splits
from result_files import RESULTS, log_scoring, round_numbers, write_results

from sim2cam.data.environment import collect_environment
from sim2cam.data.real_images import RealImageSplits
from sim2cam.data.writer import write_json
from sim2cam.experiments.ablation import (
    PAGE_FILE,
    PREDICTIONS_FOLDER,
    RANDOMIZED,
    REAL,
    RESULT_FILE,
    AblationPlan,
    Variant,
    prepare_data,
    run_jobs,
)
from sim2cam.experiments.ablation_scores import BASELINE, score_ablation
from sim2cam.experiments.variants import list_render_counts, list_step_counts
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.report.ablation import read_ablation, write_ablation_page

IMAGE_COUNT, STEPS, BATCH = 800, 256, 8

PLAN = AblationPlan(
    variants=(
        Variant(BASELINE, (RANDOMIZED,)),
        *list_render_counts(IMAGE_COUNT),
        *list_step_counts(STEPS),
    ),
    seeds=(0, 1, 2),
    config=replace(
        load_recipe("dice").train,
        steps=STEPS,
        batch=BATCH,
        architecture="nano",
        pretrained="",
        roi_classifier=False,
        bfloat16=True,
    ),
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
    ablation: Path = Path("runs/ladder")
    """Folder of ``benchmarks/dice.py``."""
    at_once: int = 2
    """Parallel training runs, one thread each."""
    minutes: float = 1e9
    """Start no training after this many minutes."""


def main(arguments: Arguments) -> None:
    """Run missing training jobs and write the curves."""
    start, splits = time.monotonic(), read_splits()
    assert splits.dev is not None
    trained = RealImageSplits(splits.style, splits.dev)
    if arguments.minutes > 0:
        prepare_data(PLAN, trained, arguments.work, workers=arguments.at_once)
    predictions = arguments.work / PREDICTIONS_FOLDER
    remaining_minutes = arguments.minutes - (time.monotonic() - start) / 60
    for path in run_jobs(
        PLAN,
        trained,
        arguments.work,
        predictions,
        workers=arguments.at_once,
        minutes=remaining_minutes,
    ):
        print(f"{(time.monotonic() - start) / 60:6.1f} min  {path.name}", flush=True)
    renders = score_ablation(PLAN, trained, predictions, baseline=BASELINE)
    path = RESULTS / "curve.json"
    facts = {
        "environment": collect_environment(None, arguments.at_once),
        "dev": {"planned": [variant.name for variant in PLAN.variants], **renders},
        "test": _score_photos(splits, arguments.ablation / PREDICTIONS_FOLDER)
        or json.loads(path.read_text())["test"],
    }
    write_results(path, round_numbers(facts))
    for part in ("dev", "test"):
        for curve in facts[part]["learning_curves"]:
            print(curve["summary"])
    write_json(arguments.work / RESULT_FILE, renders)
    page = write_ablation_page(
        read_ablation(arguments.work / RESULT_FILE),
        arguments.work / PAGE_FILE,
        title="Learning curves of dice detectors",
    )
    print(f"page: {page}")


def _score_photos(splits: RealImageSplits, predictions: Path) -> dict[str, Any]:
    """Score the variants of the ablation study that learn from labelled photos alone; empty without predictions."""
    if not predictions.is_dir():
        return {}
    variants = [v for v in ABLATION.variants if all(name.startswith(REAL) for name in v.data)]
    plan = replace(ABLATION, variants=tuple(variants))
    scores = score_ablation(plan, splits, predictions, baseline=variants[0].name)
    log_scoring("learning curve of labelled photos", scores)
    return {key: scores[key] for key in ("protocol", "learning_curves")}


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
