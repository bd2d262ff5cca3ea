"""Compare variants of short trainings on the same renders, scored on real images."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from result_files import RESULTS, locate_real_dataset, write_results

from sim2cam.commands.backgrounds import Backgrounds, find_backgrounds
from sim2cam.commands.console import Console
from sim2cam.data.environment import collect_environment
from sim2cam.data.reader import read_dataset
from sim2cam.data.real_images import read_real_images
from sim2cam.data.sample import Dataset
from sim2cam.experiments.benchmark import bench
from sim2cam.learn.device import use_threads
from sim2cam.metrics.bootstrap import apply_holm_correction, average_over_seeds
from sim2cam.metrics.detection import (
    DetectionEvaluator,
    bootstrap_scores,
    compare_seed_means,
    estimate_seed_mean,
)
from sim2cam.models.training.config import TrainConfig
from sim2cam.models.training.setup import AuxiliaryData
from sim2cam.models.training.training import WEIGHTS, train_detector
from sim2cam.pipeline.generation import generate
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.progress import ignore_progress
from sim2cam.seeds import derive_rng

SEEDS = (0, 1, 2)
METRICS = ("ap50", "ap", "ap75")
DATA_SEED = 100


@dataclass(frozen=True)
class Arguments:
    """Options of all comparisons."""

    work: Path
    """Folder of datasets and training runs; both are resumed."""
    families: tuple[str, ...]
    """Families to train."""
    minutes: float = 1e9
    """Start no training after this many minutes; 0 only scores existing runs."""
    at_once: int = 2
    """Parallel trainings with one thread each, and worker processes of rendering."""


@dataclass(frozen=True)
class Family:
    """Objects that detectors are trained for.

    Attributes:
        recipe: recipe of renders and training.
        count: number of renders.
        real: name of the real dataset.
        changes: settings of the training that differ from the recipe.
    """

    recipe: str
    count: int
    real: str
    changes: Mapping[str, Any]


FAMILIES = {
    "dice": Family("dice", 800, "dice", {}),
    "robocup": Family("robocup", 800, "robocup", {}),
    "lmo": Family("lmo", 800, "lmo", {"poses": False, "roi_classifier": False, "batch": 16}),
}


@dataclass(frozen=True)
class Job:
    """A training and its scoring.

    Attributes:
        variant: name of the compared variant.
        config: settings of the training.
        run: folder of the training.
        renders: dataset to train on.
        scored: real images, or file of their labels.
        uses_photographs: put the photographs that ``sim2cam fetch`` stored behind objects.
        facts: further facts for the results.
    """

    variant: str
    config: TrainConfig
    run: Path
    renders: Path
    scored: Path
    uses_photographs: bool
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class ScoredRun:
    """A finished job with its predictions and labels."""

    job: Job
    evaluator: DetectionEvaluator


def compare_in_families(
    name: str,
    arguments: Arguments,
    make_jobs: Callable[[Family, Path, Dataset], Sequence[Job]],
    baseline: str,
    protocol: Mapping[str, Any],
) -> dict[str, dict[str, Any]]:
    """Train and score the jobs of each family, and write ``benchmarks/results/NAME.json``.

    Args:
        name: name of the results; those of other families stay.
        make_jobs: returns the jobs of a family from the folder of its runs and its renders.
        baseline: variant that the others are compared with.
        protocol: facts about all trainings.

    Returns:
        Results by name of each family with at least one finished training.
    """
    deadline_s = time.time() + 60 * arguments.minutes
    path = RESULTS / f"{name}.json"
    results = json.loads(path.read_text())["families"] if path.is_file() else {}
    compared = {}
    for family_name in arguments.families:
        family, folder = FAMILIES[family_name], arguments.work / family_name
        renders = generate(
            load_recipe(family.recipe), folder / "renders", count=family.count, seed=DATA_SEED,
            workers=arguments.at_once, resume=True, overwrite=False, progress=ignore_progress,
        )  # fmt: skip
        jobs = make_jobs(family, folder, renders)
        if runs := run_jobs(jobs, arguments.at_once, deadline_s):
            family_protocol = {
                "recipe": family.recipe, "renders": family.count, "seeds": list(SEEDS),
                "scored": f"{family.real}/{jobs[0].scored.name}", **protocol,
            }  # fmt: skip
            comparison = compare_variants(runs, baseline)
            compared[family_name] = {"protocol": family_protocol, **comparison}
            environment = collect_environment(None, 1)
            write_results(path, {"families": results | compared, "environment": environment})
    return compared


def make_job(
    variant: str,
    config: TrainConfig,
    family: Family,
    folder: Path,
    split: str,
    *,
    uses_photographs: bool,
    facts: Mapping[str, Any],
) -> Job:
    """Return a job on the renders of a family, scored on a split of its real images."""
    real = locate_real_dataset(family.real)
    labels = real / f"{split}.json"
    return Job(
        variant,
        config,
        folder / f"{variant.replace(' ', '-')}-{config.seed}",
        folder / "renders",
        labels if labels.is_file() else real,
        uses_photographs,
        facts,
    )


def run_jobs(jobs: Iterable[Job], at_once: int, deadline_s: float) -> list[ScoredRun]:
    """Train and score in parallel with one thread each; jobs that would train after the deadline are left out.

    Args:
        jobs: jobs; their runs are resumed.
        at_once: parallel jobs.
        deadline_s: time since the epoch in seconds.
    """
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(at_once, mp_context=spawn) as pool:
        runs = pool.map(_run_job, jobs, itertools.repeat(deadline_s))
        return [run for run in runs if run is not None]


def _run_job(job: Job, deadline_s: float) -> ScoredRun | None:
    if time.time() > deadline_s and not (job.run / WEIGHTS).is_file():
        return None
    use_threads(1)
    renders = read_dataset(job.renders)
    backgrounds = find_backgrounds([renders], Console(0)) if job.uses_photographs else Backgrounds()
    auxiliary_data = AuxiliaryData(
        background_images=backgrounds.images, background_shares=backgrounds.shares
    )
    detector = train_detector(
        ((renders, 1.0),), job.config, job.run, auxiliary_data=auxiliary_data, resume=True
    )
    result = bench(detector, read_real_images(job.scored))
    print(
        f"{job.run.parent.name}, {job.variant}, seed {job.config.seed}: AP50 {result.score.ap50.value:.3f}",
        flush=True,
    )
    return ScoredRun(job, DetectionEvaluator(result.captures, result.predictions))


def compare_variants(runs: Sequence[ScoredRun], baseline: str) -> dict[str, Any]:
    """Return the scores of all variants, and their differences from the baseline if it was run."""
    by_variant: dict[str, list[ScoredRun]] = {}
    for run in runs:
        by_variant.setdefault(run.job.variant, []).append(run)
    means, rows = {}, []
    for variant, trained in by_variant.items():
        resampled = bootstrap_scores(
            [run.evaluator for run in trained], rng=derive_rng(0, "short trainings")
        )
        means[variant] = {
            metric: average_over_seeds(
                resampled[metric], derive_rng(0, f"short trainings/{variant}")
            )
            for metric in METRICS
        }
        seeds = [
            {
                "seed": run.job.config.seed,
                "steps": run.job.config.steps,
                **run.job.facts,
                **{metric: float(resampled[metric][place, 0]) for metric in METRICS},
            }
            for place, run in enumerate(trained)
        ]
        scores = {m: estimate_seed_mean(means[variant][m]).to_json() for m in METRICS}
        rows.append({"name": variant, "seeds": seeds, **scores})
    others = [variant for variant in by_variant if variant != baseline and baseline in by_variant]
    comparisons = []
    for metric in METRICS:
        differences = [
            compare_seed_means(means[v][metric], means[baseline][metric]) for v in others
        ]
        corrected = apply_holm_correction([difference.p_value for difference in differences])
        comparisons += [
            {"first": v, "second": baseline, "metric": metric, **d.to_json(), "p_holm": p}
            for v, d, p in zip(others, differences, corrected, strict=True)
        ]
    return {"variants": rows, "comparisons": comparisons}
