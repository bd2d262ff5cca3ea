"""Cost of a training step of each detector size, and its time waiting for data.

    python benchmarks/train.py [--work DIR] [--steps N]

Trains each size as configured by the recipe ``dice`` on one and two cores, and on a GPU if there is one.
``lite0`` starts from pretrained weights, as the recipe says; the others start from random ones.
Images are rendered into ``--work``. The first fifth of the steps, which decode images, is excluded.
"Cores busy" is CPU time over wall time. The cost of making a batch is measured separately. Writes
``train.json`` to ``benchmarks/results``.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch
import tyro
from rendering.spread import Clock, compute_spread
from result_files import RESULTS, write_results

from sim2cam.data.environment import collect_environment
from sim2cam.data.reader import read_dataset
from sim2cam.learn.device import use_threads
from sim2cam.learn.trainer import Callbacks
from sim2cam.models.training.config import TrainConfig
from sim2cam.models.training.images import Tasks
from sim2cam.models.training.training import TrainProgress, build_batch_maker, train_detector
from sim2cam.pipeline.generation import generate
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.progress import ignore_progress

SIZES = ("lite0", "nano", "small", "base")
CORES = (1, 2)
IMAGE_COUNT = 160
BATCHES = 12
LINE_STEPS = 5
WARM_UP = 0.2
AIM_BUSY = 0.9
"""Target share of time in which a step does not wait for data; with two cores, of busy cores."""


@dataclass(frozen=True)
class Arguments:
    """Options of the benchmark."""

    work: Path = Path("runs/train")
    """Folder of renders and training runs."""
    steps: int = 50
    """Steps of each training."""


@dataclass(frozen=True)
class Case:
    """A training configuration."""

    size: str
    device: str
    cores: int


def main(arguments: Arguments) -> None:
    """Render missing images, train, write and print results."""
    renders = arguments.work / "sim"
    generate(
        load_recipe("dice"), renders, count=IMAGE_COUNT, seed=0, workers=max(CORES),
        resume=True, overwrite=False, progress=ignore_progress,
    )  # fmt: skip
    cases = [Case(size, "cpu", cores) for size in SIZES for cores in CORES]
    if torch.cuda.is_available():
        cases += [Case(size, "cuda", os.cpu_count() or 1) for size in SIZES]
    rows = []
    context = multiprocessing.get_context("spawn")
    for case in cases:
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            rows.append(pool.submit(measure, case, renders, arguments).result())
        print(rows[-1], flush=True)
    facts = {
        "environment": collect_environment(None, max(CORES)),
        "aim_busy": AIM_BUSY,
        "cases": rows,
    }
    write_results(RESULTS / "train.json", facts)


def measure(case: Case, renders: Path, arguments: Arguments) -> dict[str, Any]:
    """Return the cost of a training; run in a separate process."""
    use_threads(case.cores)
    config = replace(load_recipe("dice").train, steps=arguments.steps)
    if case.size != config.architecture:
        config = replace(config, architecture=case.size, pretrained="", backbone=None)
    progress: list[tuple[TrainProgress, float, float]] = []

    def record(line: TrainProgress) -> None:
        progress.append((line, time.perf_counter(), time.process_time()))

    run = arguments.work / f"{case.size}-{case.device}-{case.cores}"
    shutil.rmtree(run, ignore_errors=True)
    dataset = read_dataset(renders)
    train_detector(
        ((dataset, 1.0),), config, run,
        device=case.device, callbacks=Callbacks(log=record), checkpoint_interval_s=1e9, log_interval_steps=LINE_STEPS,
    )  # fmt: skip
    measured = [entry for entry in progress if entry[0].step >= WARM_UP * arguments.steps]
    lines = [line for line, *_ in measured[1:]]
    (_, first_s, first_cpu_s), (_, last_s, last_cpu_s) = measured[0], measured[-1]
    steps_s = [line.step_s for line in lines]
    return {
        **asdict(case),
        "batch": config.batch,
        "crop_px": config.crop_px,
        "step_ms": asdict(compute_spread([1e3 * s for s in steps_s])),
        "crops_per_s": config.batch * len(steps_s) / sum(steps_s),
        "cores_busy": (last_cpu_s - first_cpu_s) / (last_s - first_s),
        "waiting_share": sum(line.wait_s for line in lines) / sum(steps_s),
        "making_cpu_ms": asdict(
            compute_spread(measure_batch_ms(dataset.categories, config, renders))
        ),
    }


def measure_batch_ms(
    categories: tuple[str, ...], config: TrainConfig, renders: Path
) -> list[float]:
    """Return the CPU time of making batches of decoded images, in ms."""
    maker = build_batch_maker(((read_dataset(renders), 1.0),), categories, Tasks(), config)
    for step in range(BATCHES):
        maker.make(step)
    clock = Clock()
    for step in range(BATCHES):
        with clock("make"):
            maker.make(step)
    return clock.cpu_ms["make"]


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
