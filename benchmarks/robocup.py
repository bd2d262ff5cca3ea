"""Ablation study on a robot's fisheye camera: balls, robots and goal posts, first balls alone.

    python benchmarks/robocup.py [--work DIR] [--at-once N] [--minutes M] [--arms NAME ...]
                                 [--images N] [--steps N] [--dev]

Reads real images from ``$SIM2CAM_REAL/robocup``. All variants train ``lite0`` for the same number of steps,
from weights of ImageNet; one starts from random weights. All detectors learn the three categories and are
scored twice: on balls alone, and on all. Datasets, training runs and predictions go to ``--work`` and are
resumed. Writes scores to ``benchmarks/results/robocup.json``, and a line per scoring to
``benchmarks/results/robocup_test_log.jsonl``. No training starts after ``--minutes``; ``--minutes 0`` only scores
existing predictions. ``--dev`` scores the development images instead of the test images, and writes scores to
``--work``: for trials, with fewer ``--images`` and ``--steps``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import tyro
from result_files import RESULTS, locate_real_dataset, log_scoring, round_numbers, write_results

from sim2cam.data.environment import collect_environment
from sim2cam.data.formats.predictions import DETECTION_ROWS, parse_detection_rows
from sim2cam.data.real_images import RealImageSplits, read_real_images
from sim2cam.data.sample import Dataset
from sim2cam.experiments.ablation import (
    CAMERA,
    PREDICTIONS_FOLDER,
    PSEUDO_LABELLED,
    RANDOMIZED,
    REAL,
    TRANSLATED,
    AblationPlan,
    Variant,
    locate_result,
    prepare_data,
    read_job_result,
    run_jobs,
)
from sim2cam.experiments.ablation_scores import BASELINE, score_ablation
from sim2cam.metrics.bootstrap import average_over_seeds
from sim2cam.metrics.detection import bootstrap_scores, estimate_seed_mean
from sim2cam.metrics.sliced_ap import SlicedEvaluator, group_by_attribute
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.seeds import derive_rng

CATEGORIES: Mapping[str, tuple[str, ...]] = {
    "ball": ("ball",),
    "all": ("ball", "goalpost", "robot"),
}
"""Scored categories by name of the scoring."""
VARIANTS = (
    Variant(BASELINE, (RANDOMIZED,)),
    Variant("randomized, from scratch", (RANDOMIZED,), from_scratch=True),
    Variant("randomized + camera fit", (CAMERA,)),
    Variant("+ translated", (RANDOMIZED, TRANSLATED)),
    Variant("+ pseudo-labels", (RANDOMIZED,), (RANDOMIZED, PSEUDO_LABELLED)),
    Variant("+ 35 labelled photos", (RANDOMIZED, REAL)),
    Variant("real only (35 labelled photos)", (REAL,)),
)


@dataclass(frozen=True)
class Arguments:
    """Options of the ablation study."""

    work: Path = Path("runs/robocup")
    """Folder of datasets and training runs."""
    at_once: int = 2
    """Parallel training runs, one thread each."""
    minutes: float = 1e9
    """Start no training after this many minutes."""
    arms: tuple[str, ...] = tuple(variant.name for variant in VARIANTS)
    """Variants to train."""
    images: int = 800
    """Number of renders."""
    steps: int = 600
    """Steps of each training."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds of the trainings."""
    dev: bool = False
    """Score the development images, and write the results to the work folder."""


def main(arguments: Arguments) -> None:
    """Run missing training jobs and write the scores of all results."""
    _check_arms(arguments.arms)
    splits = read_splits(dev=arguments.dev)
    results = arguments.work if arguments.dev else RESULTS
    predictions = arguments.work / ("dev-predictions" if arguments.dev else PREDICTIONS_FOLDER)
    plan = make_plan(arguments)
    if arguments.minutes > 0:
        selected = tuple(variant for variant in VARIANTS if variant.name in arguments.arms)
        _run(replace(plan, variants=selected), splits, predictions, arguments)
    facts: dict[str, Any] = {"environment": collect_environment(None, arguments.at_once)}
    for name, categories in CATEGORIES.items():
        selected_splits = select_categories(splits, categories)
        facts[name] = score_ablation(plan, selected_splits, predictions, baseline=BASELINE)
        facts[name]["sizes"] = score_sizes(plan, selected_splits.test, predictions)
    if not arguments.dev:
        log_scoring("ablation", facts["all"], "robocup")
    write_results(results / "robocup.json", round_numbers(facts))
    for name in CATEGORIES:
        for variant in facts[name]["variants"]:
            print(f"{name:<5} {variant['name']:<32} AP50 {variant['ap50']['value']:.3f}")


def make_plan(arguments: Arguments) -> AblationPlan:
    """Return the plan of the ablation study."""
    config = replace(
        load_recipe("robocup").train,
        architecture="lite0",
        pretrained="auto",
        steps=arguments.steps,
        cache_bytes=9 << 30,
    )
    return AblationPlan(
        variants=VARIANTS,
        seeds=arguments.seeds,
        config=config,
        image_count=arguments.images,
        data_seed=100,
        recipe="robocup",
        fixed_recipe=None,
    )


def _run(
    plan: AblationPlan, splits: RealImageSplits, predictions: Path, arguments: Arguments
) -> None:
    """Make the datasets of a study and run its missing training jobs."""
    start = time.monotonic()
    skipped = prepare_data(plan, splits, arguments.work, workers=arguments.at_once)
    for name, reason in skipped.items():
        print(f"Skipping variants with '{name}': {reason}", flush=True)
    runnable = tuple(v for v in plan.variants if skipped.keys().isdisjoint(v.data))
    for job in run_jobs(
        replace(plan, variants=runnable), splits, arguments.work, predictions,
        workers=arguments.at_once, minutes=arguments.minutes - (time.monotonic() - start) / 60,
    ):  # fmt: skip
        print(job.name, flush=True)


def read_splits(*, dev: bool) -> RealImageSplits:
    """Return the splits of the real images; with ``dev``, the development images are scored and tune nothing."""
    folder = locate_real_dataset("robocup")
    style, test, dev_images, train = (
        read_real_images(folder / f"{name}.json")
        for name in ("style", "dev" if dev else "test", "dev", "train")
    )
    return RealImageSplits(style, test, None if dev else dev_images, train)


def select_categories(splits: RealImageSplits, categories: tuple[str, ...]) -> RealImageSplits:
    """Return the splits with labels of these categories alone in the test images.

    The dataset keeps its categories: average precision is that of categories with labels, and detections of
    others do not count.
    """
    samples = tuple(
        replace(sample, objects=tuple(o for o in sample.objects or () if o.category in categories))
        for sample in splits.test.samples
    )
    return replace(splits, test=replace(splits.test, samples=samples))


def score_sizes(
    plan: AblationPlan, test: Dataset, predictions: Path
) -> dict[str, dict[str, dict[str, Any]]]:
    """Return AP50 by size range for each variant with results: means over seeds with 95 % intervals."""
    scores = {}
    for variant in plan.variants:
        paths = (locate_result(predictions, variant, seed) for seed in plan.seeds)
        results = [r for path in paths if (r := read_job_result(path, variant, plan, test))]
        if not results:
            continue
        evaluators = [
            SlicedEvaluator(test, parse_detection_rows(result[DETECTION_ROWS]))
            for result in results
        ]
        resampled = bootstrap_scores(evaluators, rng=derive_rng(0, "sizes"))
        means = {
            name: average_over_seeds(values, derive_rng(0, f"sizes/{variant.name}"))
            for name, values in resampled.items()
        }
        scores[variant.name] = {
            name: estimate_seed_mean(mean).to_json()
            for name, mean in group_by_attribute(means)["size, px"].items()
            if np.isfinite(mean[0])
        }
    return scores


def _check_arms(arms: Collection[str]) -> None:
    names = [variant.name for variant in VARIANTS]
    if unknown := set(arms).difference(names):
        raise SystemExit(
            f"--arms: unknown: {', '.join(sorted(unknown))}. Allowed: {', '.join(names)}."
        )


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
