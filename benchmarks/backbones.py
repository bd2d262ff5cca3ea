"""Pretrained backbones at equal CPU time: frozen, thawed late, all trained, from scratch.

    python benchmarks/backbones.py [--work DIR] [--families dice ...] [--cpu-s S] [--at-once N] [--minutes M]

Each variant trains on the same renders for the CPU time of ``--cpu-s``: the number of its steps follows from the
time of one step, which is measured with one thread before the trainings. Times and trained weights stay in
``--work``, so that a run can be resumed; no training starts after ``--minutes``. The test images choose nothing.
Writes ``benchmarks/results/backbones.json``.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import tyro
from scoring_log import RESULTS, locate_real_dataset, log_scoring

from sim2cam.data.environment import collect_environment
from sim2cam.data.reader import read_dataset
from sim2cam.data.real_images import read_real_images
from sim2cam.data.sample import Dataset
from sim2cam.data.writer import write_json
from sim2cam.experiments.benchmark import bench
from sim2cam.learn.device import use_threads
from sim2cam.learn.trainer import Callbacks
from sim2cam.metrics.bootstrap import apply_holm_correction, average_over_seeds
from sim2cam.metrics.detection import (
    DetectionEvaluator,
    bootstrap_scores,
    compare_seed_means,
    estimate_seed_mean,
)
from sim2cam.models.training.config import BackboneTuning, TrainConfig
from sim2cam.models.training.training import train_detector
from sim2cam.pipeline.generation import generate
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.progress import ignore_progress
from sim2cam.seeds import derive_rng

LATE_SHARE = 0.5  # share of the steps before the thaw
NANO, SCRATCH, FROZEN, LATE, ALL = (
    "nano from scratch",
    "from scratch",
    "frozen",
    "thawed late",
    "all trained",
)
TUNINGS: Mapping[str, BackboneTuning | None] = {
    NANO: None,
    SCRATCH: None,
    FROZEN: BackboneTuning(frozen_share=1.0),
    LATE: BackboneTuning(frozen_share=LATE_SHARE),
    ALL: BackboneTuning(),
}
"""Variants; all but the first have the architecture ``lite0``."""
BASELINE = SCRATCH
METRICS = ("ap50", "ap", "ap75")
TIMED_STEPS = 10


@dataclass(frozen=True)
class Family:
    """Objects that detectors are trained for.

    Attributes:
        recipe: recipe of renders and training.
        count: number of renders.
        real: name of the real dataset with the test split.
        test: its labels, relative to the dataset; empty for the whole dataset.
        changes: settings of the training that differ from the recipe.
    """

    recipe: str
    count: int
    real: str
    test: str
    changes: Mapping[str, Any]


FAMILIES = {
    "dice": Family("dice", 800, "dice", "test.json", {}),
    "robocup": Family("robocup", 800, "robocup", "test.json", {}),
    "lmo": Family("lmo", 800, "lmo", "", {"poses": False, "roi_classifier": False, "batch": 16}),
}
SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Arguments:
    """Options of the comparison."""

    work: Path = Path("runs/backbones")
    """Folder of datasets and training runs; both are resumed."""
    families: tuple[str, ...] = tuple(FAMILIES)
    """Families to train."""
    cpu_s: float = 400.0
    """CPU time of each training in seconds."""
    minutes: float = 1e9
    """Start no training after this many minutes; 0 only scores existing runs."""
    at_once: int = 2
    """Parallel trainings with one thread each, and worker processes of rendering."""


def main(arguments: Arguments) -> None:
    """Train and score all variants, and write the results."""
    path = RESULTS / "backbones.json"
    facts: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {"families": {}}
    deadline_s = time.time() + 60 * arguments.minutes
    for name in arguments.families:
        family = FAMILIES[name]
        renders = generate(
            load_recipe(family.recipe), arguments.work / name / "renders", count=family.count, seed=100,
            workers=arguments.at_once, resume=True, overwrite=False, progress=ignore_progress,
        )  # fmt: skip
        use_threads(1)
        budgets = {v: _measure_budget(v, name, renders, arguments) for v in TUNINGS}
        jobs = [
            (variant, seed, name, budgets[variant], arguments.work, deadline_s)
            for seed in SEEDS
            for variant in TUNINGS
        ]
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(arguments.at_once, mp_context=spawn) as pool:
            finished = [run for run in pool.map(_run, *zip(*jobs, strict=True)) if run is not None]
        if finished:
            runs = {v: [run for run in finished if run["variant"] == v] for v in TUNINGS}
            runs = {variant: trained for variant, trained in runs.items() if trained}
            facts["families"][name] = _score(runs, family, arguments)
            if name == "dice":
                log_scoring("backbones", {"variants": facts["families"][name]["variants"]})
    facts["environment"] = collect_environment(None, 1)
    write_json(path, facts, indented=False)


def make_config(variant: str, family: Family, seed: int, steps: int) -> TrainConfig:
    """Return the settings of a training."""
    config = load_recipe(family.recipe).train
    config = replace(config, **family.changes, seed=seed, steps=steps)
    if variant == NANO:
        return replace(config, architecture="nano", pretrained="", backbone=None)
    tuning = TUNINGS[variant]
    return replace(
        config, architecture="lite0", bfloat16=False, backbone=tuning,
        pretrained="" if tuning is None else "auto",
    )  # fmt: skip


def _measure_budget(
    variant: str, name: str, renders: Dataset, arguments: Arguments
) -> dict[str, Any]:
    """Return the number of steps for the CPU time, and the time of a step."""
    path = arguments.work / name / f"step-{variant.replace(' ', '-')}.json"
    if not path.is_file():
        write_json(path, {"step_cpu_s": _measure_step_s(variant, FAMILIES[name], renders)})
    step_s: float = json.loads(path.read_text())["step_cpu_s"]
    steps = round(arguments.cpu_s / step_s)
    print(f"{name}, {variant}: {steps} steps", flush=True)
    return {"steps": steps, "step_cpu_s": step_s}


def _run(
    variant: str, seed: int, name: str, budget: Mapping[str, Any], work: Path, deadline_s: float
) -> dict[str, Any] | None:
    """Train a detector and predict the test images.

    Returns:
        Facts and predictions; None if the training would start after the deadline.
    """
    use_threads(1)
    family, run = FAMILIES[name], work / name / f"{variant.replace(' ', '-')}-{seed}"
    if time.time() > deadline_s and not (run / "weights.safetensors").is_file():
        return None
    config = make_config(variant, family, seed, budget["steps"])
    renders = read_dataset(work / name / "renders")
    detector = train_detector(((renders, 1.0),), config, run, resume=True)
    result = bench(detector, read_real_images(locate_real_dataset(family.real) / family.test))
    print(f"{name}, {variant}, seed {seed}: AP50 {result.score.ap50.value:.3f}", flush=True)
    evaluator = DetectionEvaluator(result.captures, result.predictions)
    return {"variant": variant, "seed": seed, **budget, "evaluator": evaluator}


def _measure_step_s(variant: str, family: Family, renders: Dataset) -> float:
    """Return the mean CPU seconds of a step."""
    if variant == LATE:
        shares = {FROZEN: LATE_SHARE, ALL: 1 - LATE_SHARE}
        return sum(
            share * _measure_step_s(other, family, renders) for other, share in shares.items()
        )
    times: list[float] = []
    config = make_config(variant, family, 0, 3 * TIMED_STEPS)
    with tempfile.TemporaryDirectory() as folder:
        train_detector(
            ((renders, 1.0),), config, Path(folder, "run"), log_interval_steps=TIMED_STEPS,
            callbacks=Callbacks(log=lambda _line: times.append(time.process_time())),
        )  # fmt: skip
    return (times[-1] - times[0]) / (TIMED_STEPS * (len(times) - 1))  # the first steps warm up


def _score(
    runs: Mapping[str, list[dict[str, Any]]], family: Family, arguments: Arguments
) -> dict[str, Any]:
    """Return the scores of all variants and their differences from training from scratch."""
    means = {}
    for variant, trained in runs.items():
        resampled = bootstrap_scores(
            [run.pop("evaluator") for run in trained], rng=derive_rng(0, "backbones")
        )
        means[variant] = {
            metric: average_over_seeds(resampled[metric], derive_rng(0, f"backbones/{variant}"))
            for metric in METRICS
        }
        for metric in METRICS:
            for run, value in zip(trained, resampled[metric][:, 0], strict=True):
                run[metric] = float(value)
    others = [variant for variant in runs if variant != BASELINE and BASELINE in runs]
    comparisons = []
    for metric in METRICS:
        differences = [
            compare_seed_means(means[v][metric], means[BASELINE][metric]) for v in others
        ]
        corrected = apply_holm_correction([difference.p_value for difference in differences])
        comparisons += [
            {"first": v, "second": BASELINE, "metric": metric, **d.to_json(), "p_holm": p}
            for v, d, p in zip(others, differences, corrected, strict=True)
        ]
    return {
        "protocol": {
            "recipe": family.recipe, "renders": family.count, "cpu_s": arguments.cpu_s, "seeds": list(SEEDS),
            "test": f"{family.real}/{family.test}".rstrip("/"),
        },
        "variants": [
            {
                "name": variant,
                "seeds": [{k: v for k, v in run.items() if k != "variant"} for run in trained],
                **{metric: estimate_seed_mean(means[variant][metric]).to_json() for metric in METRICS},
            }
            for variant, trained in runs.items()
        ],
        "comparisons": comparisons,
    }  # fmt: skip


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
