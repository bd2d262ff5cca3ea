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
from result_files import RESULTS, log_scoring, write_results
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

from sim2cam.data.environment import collect_environment
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
        family, folder = FAMILIES[name], arguments.work / name
        renders = render_family(family, folder / "renders", arguments.at_once)
        use_threads(1)
        budgets = {v: _measure_budget(v, family, renders, arguments, folder) for v in TUNINGS}
        jobs = [
            Job(
                variant,
                make_config(variant, family, seed, budgets[variant]["steps"]),
                folder / f"{variant.replace(' ', '-')}-{seed}",
                folder / "renders",
                locate_images(family, "test"),
                uses_photographs=False,
                facts=budgets[variant],
            )
            for seed in SEEDS
            for variant in TUNINGS
        ]
        if runs := run_jobs(jobs, arguments.at_once, deadline_s):
            protocol = {
                "recipe": family.recipe, "renders": family.count, "cpu_s": arguments.cpu_s, "seeds": list(SEEDS),
                "test": f"{family.real}/{jobs[0].scored.name}",
            }  # fmt: skip
            facts["families"][name] = {"protocol": protocol, **compare_variants(runs, SCRATCH)}
            if name == "dice":
                log_scoring("backbones", {"variants": facts["families"][name]["variants"]})
    facts["environment"] = collect_environment(None, 1)
    write_results(path, facts)


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
    variant: str, family: Family, renders: Dataset, arguments: Arguments, folder: Path
) -> dict[str, Any]:
    """Return the number of steps for the CPU time, and the time of a step."""
    path = folder / f"step-{variant.replace(' ', '-')}.json"
    if not path.is_file():
        write_json(path, {"step_cpu_s": _measure_step_s(variant, family, renders)})
    step_s: float = json.loads(path.read_text())["step_cpu_s"]
    steps = round(arguments.cpu_s / step_s)
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
    main(tyro.cli(Arguments, description=__doc__))
