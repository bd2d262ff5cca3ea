"""Pretrained backbones at equal CPU time: frozen, thawed late, all trained, from scratch.

    python benchmarks/backbones.py [--work DIR] [--families dice ...] [--cpu-s S] [--at-once N] [--minutes M]

Each variant trains on the same renders for the CPU time of ``--cpu-s``: the number of its steps follows from the
time of one step, which is measured with one thread before the trainings. Times and trained weights stay in
``--work``, so that a run can be resumed; no training starts after ``--minutes``. The test images choose nothing.
Writes ``benchmarks/results/backbones.json``.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import tyro
from result_files import log_scoring
from short_trainings import FAMILIES, SEEDS, Arguments, Family, Job, compare_in_families, make_job

from sim2cam.data.sample import Dataset
from sim2cam.data.writer import write_json
from sim2cam.learn.device import use_threads
from sim2cam.learn.trainer import Callbacks
from sim2cam.models.training.config import BackboneTuning, TrainConfig
from sim2cam.models.training.training import train_detector
from sim2cam.pipeline.recipe import load_recipe

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
TIMED_STEPS = 10


@dataclass(frozen=True)
class BackboneArguments(Arguments):
    """Options of the comparison."""

    work: Path = Path("runs/backbones")
    families: tuple[str, ...] = tuple(FAMILIES)
    cpu_s: float = 400.0
    """CPU time of each training in seconds."""


def main(arguments: BackboneArguments) -> None:
    """Train and score all variants, and write the results."""

    def make_jobs(family: Family, folder: Path, renders: Dataset) -> list[Job]:
        use_threads(1)
        budgets = {v: _measure_budget(v, family, renders, arguments.cpu_s, folder) for v in TUNINGS}
        return [
            make_job(
                variant,
                make_config(variant, family, seed, budgets[variant]["steps"]),
                family,
                folder,
                "test",
                uses_photographs=False,
                facts=budgets[variant],
            )
            for seed in SEEDS
            for variant in TUNINGS
        ]

    protocol = {"cpu_s": arguments.cpu_s}
    compared = compare_in_families("backbones", arguments, make_jobs, SCRATCH, protocol)
    for name in ("dice", "robocup"):  # no log is kept for LM-O
        if name in compared:
            log_scoring("backbones", {"variants": compared[name]["variants"]}, name)


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
    variant: str, family: Family, renders: Dataset, cpu_s: float, folder: Path
) -> dict[str, Any]:
    """Return the number of steps for the CPU time, and the time of a step."""
    path = folder / f"step-{variant.replace(' ', '-')}.json"
    if not path.is_file():
        write_json(path, {"step_cpu_s": _measure_step_s(variant, family, renders)})
    step_s: float = json.loads(path.read_text())["step_cpu_s"]
    steps = round(cpu_s / step_s)
    print(f"{folder.name}, {variant}: {steps} steps", flush=True)
    return {"steps": steps, "step_cpu_s": step_s}


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


if __name__ == "__main__":
    main(tyro.cli(BackboneArguments, description=__doc__))
