"""Ablation study on a robot's fisheye camera: balls, robots and goal posts, first balls alone.

    python benchmarks/robocup.py [--work DIR] [--at-once N] [--minutes M] [--arms NAME ...]
                                 [--networks NAME ...] [--images N] [--steps N] [--dev]

Reads real images from ``$SIM2CAM_REAL/robocup``. Each network runs all variants: ``nano`` from random
weights, ``lite0`` from those of ImageNet. All detectors learn the three categories and are scored twice: on
balls alone, and on all. Datasets and training runs go to ``--work`` and are resumed. Writes predictions (one
file per network, variant and seed) to ``benchmarks/results/robocup/``, scores to
``benchmarks/results/robocup.json``, and a line per scoring to ``benchmarks/results/robocup_test_log.jsonl``.
No training starts after ``--minutes``; ``--minutes 0`` only scores existing results. ``--dev`` scores the
development images instead of the test images, and writes everything to ``--work``: for trials, with fewer
``--images`` and ``--steps``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import tyro
from scoring_log import RESULTS, locate_real_dataset, log_scoring

from sim2cam.data.environment import collect_environment
from sim2cam.data.real_images import RealImageSplits, read_real_images
from sim2cam.data.writer import write_json
from sim2cam.experiments.ablation import (
    CAMERA,
    CAMERA_TRANSLATED,
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

NETWORKS: Mapping[str, str] = {"nano": "", "lite0": "auto"}
"""Initial weights of each network, as ``train.pretrained``."""
CATEGORIES: Mapping[str, tuple[str, ...]] = {
    "ball": ("ball",),
    "all": ("ball", "goalpost", "robot"),
}
"""Scored categories by name of the scoring."""
VARIANTS = (
    Variant("randomized", (RANDOMIZED,)),
    Variant("randomized + camera fit", (CAMERA,)),
    Variant("randomized + camera fit, translated", (CAMERA, CAMERA_TRANSLATED)),
    Variant("+ transfer", (RANDOMIZED, "reinhard")),
    Variant("+ translated", (RANDOMIZED, TRANSLATED)),
    Variant("+ self-labelled photos", (RANDOMIZED,), (RANDOMIZED, PSEUDO_LABELLED)),
    Variant("+ 35 labelled photos", (RANDOMIZED, REAL)),
    Variant("real only (10 labelled photos)", (f"{REAL}-10",)),
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
    networks: tuple[str, ...] = tuple(NETWORKS)
    """Networks to train."""
    images: int = 2400
    """Number of renders."""
    steps: int = 2400
    """Steps of each training."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds of the trainings."""
    dev: bool = False
    """Score the development images, and write the results to the work folder."""


def main(arguments: Arguments) -> None:
    """Run missing training jobs and write the scores of all results."""
    start = time.monotonic()
    _check_names("--arms", arguments.arms, [variant.name for variant in VARIANTS])
    _check_names("--networks", arguments.networks, list(NETWORKS))
    splits = read_splits(dev=arguments.dev)
    results = arguments.work if arguments.dev else RESULTS
    predictions = results / "robocup"
    facts: dict[str, Any] = {"environment": collect_environment(None, arguments.at_once)}
    for network in arguments.networks:
        plan = make_plan(network, arguments)
        if arguments.minutes > 0:
            selected = tuple(
                named
                for named, variant in zip(plan.variants, VARIANTS, strict=True)
                if variant.name in arguments.arms
            )
            remaining_minutes = arguments.minutes - (time.monotonic() - start) / 60
            _run(
                replace(plan, variants=selected), splits, predictions, arguments, remaining_minutes
            )
        facts[network] = {
            name: score_ablation(
                plan,
                select_categories(splits, categories),
                predictions,
                baseline=name_variant(network, BASELINE),
            )
            for name, categories in CATEGORIES.items()
        }
        if not arguments.dev:
            log_scoring(f"ablation, {network}", facts[network]["all"], "robocup")
    write_json(results / "robocup.json", facts)
    for network in arguments.networks:
        for name, scores in facts[network].items():
            for variant in scores["variants"]:
                print(f"{name:<5} {variant['name']:<44} AP50 {variant['ap50']['value']:.3f}")


def make_plan(network: str, arguments: Arguments) -> AblationPlan:
    """Return the study of one network; its variants share renders and translations with other networks."""
    config = replace(
        load_recipe("robocup").train,
        architecture=network,
        pretrained=NETWORKS[network],
        steps=arguments.steps,
        cache_bytes=9 << 30,
    )
    return AblationPlan(
        variants=tuple(
            replace(variant, name=name_variant(network, variant.name)) for variant in VARIANTS
        ),
        seeds=arguments.seeds,
        config=config,
        image_count=arguments.images,
        data_seed=100,
        recipe="robocup",
        fixed_recipe=None,
    )


def name_variant(network: str, variant: str) -> str:
    """Return the name of a variant with its network."""
    return f"{network}: {variant}"


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


def _check_names(option: str, names: tuple[str, ...], allowed: list[str]) -> None:
    if unknown := set(names).difference(allowed):
        raise SystemExit(
            f"{option}: unknown: {', '.join(sorted(unknown))}. Allowed: {', '.join(allowed)}."
        )


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
