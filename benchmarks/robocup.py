"""Ablation study on a robot's fisheye camera: balls, robots and goal posts, first balls alone.

    python benchmarks/robocup.py [--work DIR] [--at-once N] [--minutes M] [--arms NAME ...]
                                 [--images N] [--steps N] [--dev]

Reads real images from ``$SIM2CAM_REAL/robocup``. All variants train ``lite0`` for the same number of steps,
from weights of ImageNet; one starts from random weights. All detectors learn the three categories and are
scored twice: on balls alone, and on all. Datasets and training runs go to ``--work`` and are resumed. Writes
predictions (one file per variant and seed) to ``benchmarks/results/robocup/``, scores to
``benchmarks/results/robocup.json``, and a line per scoring to ``benchmarks/results/robocup_test_log.jsonl``.
No training starts after ``--minutes``; ``--minutes 0`` only scores existing results. ``--dev`` scores the
development images instead of the test images, and writes everything to ``--work``: for trials, with fewer
``--images`` and ``--steps``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import tyro
from result_files import RESULTS, locate_real_dataset, log_scoring, write_results

from sim2cam.data.environment import collect_environment
from sim2cam.data.real_images import RealImageSplits, read_real_images
from sim2cam.experiments.ablation import (
    CAMERA,
    PSEUDO_LABELLED,
    RANDOMIZED,
    REAL,
    TRANSLATED,
    AblationPlan,
    Variant,
    prepare_data,
    run_jobs,
)
from sim2cam.experiments.ablation_scores import BASELINE, score_ablation
from sim2cam.pipeline.recipe import load_recipe

CATEGORIES: Mapping[str, tuple[str, ...]] = {
    "ball": ("ball",),
    "all": ("ball", "goalpost", "robot"),
}
"""Scored categories by name of the scoring."""
FROM_SCRATCH = "randomized, from scratch"
VARIANTS = (
    Variant(FROM_SCRATCH, (RANDOMIZED,)),
    Variant(BASELINE, (RANDOMIZED,)),
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
    start = time.monotonic()
    _check_arms(arguments.arms)
    splits = read_splits(dev=arguments.dev)
    results = arguments.work if arguments.dev else RESULTS
    predictions = results / "robocup"
    plan = make_plan(arguments)
    if arguments.minutes > 0:
        for study in split_by_weights(plan, arguments.arms):
            minutes = arguments.minutes - (time.monotonic() - start) / 60
            _run(study, splits, predictions, arguments, minutes)
    facts = {"environment": collect_environment(None, arguments.at_once)} | {
        name: score_ablation(
            plan, select_categories(splits, categories), predictions, baseline=BASELINE
        )
        for name, categories in CATEGORIES.items()
    }
    if not arguments.dev:
        log_scoring("ablation", facts["all"], "robocup")
    write_results(results / "robocup.json", facts)
    for name in CATEGORIES:
        for variant in facts[name]["variants"]:
            print(f"{name:<5} {variant['name']:<32} AP50 {variant['ap50']['value']:.3f}")


def make_plan(arguments: Arguments) -> AblationPlan:
    """Return the plan of the ablation study; its training settings use pretrained weights."""
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


def split_by_weights(plan: AblationPlan, arms: Collection[str]) -> tuple[AblationPlan, ...]:
    """Return two plans of the selected variants: those trained from pretrained weights, and the one from random weights."""
    selected = [variant for variant in plan.variants if variant.name in arms]
    return (
        replace(plan, variants=tuple(v for v in selected if v.name != FROM_SCRATCH)),
        replace(
            plan,
            variants=tuple(v for v in selected if v.name == FROM_SCRATCH),
            config=replace(plan.config, pretrained=""),
        ),
    )


def _run(
    plan: AblationPlan,
    splits: RealImageSplits,
    predictions: Path,
    arguments: Arguments,
    minutes: float,
) -> None:
    """Make the datasets of a study and run its missing training jobs."""
    skipped = prepare_data(plan, splits, arguments.work, workers=arguments.at_once)
    for name, reason in skipped.items():
        print(f"Skipping variants with '{name}': {reason}", flush=True)
    runnable = tuple(v for v in plan.variants if skipped.keys().isdisjoint(v.data))
    for job in run_jobs(
        replace(plan, variants=runnable), splits, arguments.work, predictions,
        workers=arguments.at_once, minutes=minutes,
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


def _check_arms(arms: Collection[str]) -> None:
    names = [variant.name for variant in VARIANTS]
    if unknown := set(arms).difference(names):
        raise SystemExit(
            f"--arms: unknown: {', '.join(sorted(unknown))}. Allowed: {', '.join(names)}."
        )


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
