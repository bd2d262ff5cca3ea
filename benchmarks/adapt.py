"""What a step of every learned translator costs, and what a translated picture.

    python benchmarks/adapt.py [--repeats N]

Each case runs in a process of its own with one thread, so that its peak of memory is its own, on
renders of recipe ``dice-demo`` and the stand-in captures. Times are CPU seconds of the process.
Writes ``adapt.json`` to ``benchmarks/results``.
"""

from __future__ import annotations

import functools
import itertools
import multiprocessing
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
import tyro
from scoring_log import RESULTS

from sim2cam.adapt.adversarial import Game
from sim2cam.adapt.frame import Frame, Transfer
from sim2cam.adapt.reference.config import ReferenceConfig, ReferenceMethod
from sim2cam.adapt.reference.cut import VARIANTS, Cut
from sim2cam.adapt.reference.cyclegan import CycleGan
from sim2cam.adapt.reference.patches import PatchPairs
from sim2cam.adapt.reference.translator import ReferenceTranslator
from sim2cam.adapt.translator.buffers import buffers_of, count_channels
from sim2cam.adapt.translator.config import PRESETS, TranslatorConfig
from sim2cam.adapt.translator.patches import PatchSource, draw_batch
from sim2cam.adapt.translator.step import build_players
from sim2cam.adapt.translator.training import ResidualGame
from sim2cam.adapt.translator.translator import Translator
from sim2cam.dataset.captures import read_captures
from sim2cam.dataset.reader import read_dataset
from sim2cam.dataset.sample import Dataset
from sim2cam.dataset.writer import write_json
from sim2cam.pipeline.environment import environment_facts
from sim2cam.pipeline.generate import generate
from sim2cam.pipeline.recipe import SHIPPED, load_recipe

CPU = torch.device("cpu")
PICTURES = 16
WHOLE_PX = (256, 512)


@dataclass(frozen=True)
class Case:
    """One training whose steps are timed.

    Attributes:
        name: as the table shows it.
        method: None is the default translator.
        config: of the training.
    """

    name: str
    method: ReferenceMethod | None
    config: TranslatorConfig | ReferenceConfig


PUBLISHED: dict[ReferenceMethod, str] = {"cyclegan": "CycleGAN", "cut": "CUT", "fastcut": "FastCUT"}
CASES = (
    *(
        Case(f"{name}, {blocks} blocks", method, ReferenceConfig(patch_px=side, blocks=blocks))
        for side, blocks in ((128, 6), (256, 9))
        for method, name in PUBLISHED.items()
    ),
    *(
        Case("default, `small`", None, replace(PRESETS["small"], patch_px=side))
        for side in (128, 256)
    ),
)


@dataclass(frozen=True)
class Arguments:
    """How long it is looked at."""

    repeats: int = 5
    """Timed steps and translations of each case, after one that is not; of the default 16 steps or more,
    since one of 16 has a gradient penalty."""
    work: Path = Path("runs/adapt")
    """Where the renders lie."""


def main(arguments: Arguments) -> None:
    """Times every case and writes what came of it."""
    _render(arguments.work)
    cases = []
    spawn = multiprocessing.get_context("spawn")
    for case in CASES:
        with ProcessPoolExecutor(1, mp_context=spawn) as alone:
            facts = alone.submit(timed, case, arguments.work, arguments.repeats).result()
        cases.append(facts)
        print(
            f"{case.name:<20} {facts['patch_px']} px  {facts['step_cpu_s']['median']:.2f} CPU-s a step,"
            f" {facts['pictures_per_cpu_s']:.2f} pictures a CPU-s, {facts['peak_mb']:.0f} MB",
            flush=True,
        )
    environment = environment_facts(None, 1)
    write_json(RESULTS / "adapt.json", {"environment": environment, "cases": cases})


def timed(case: Case, renders: Path, repeats: int) -> dict[str, Any]:
    """Returns what a step and a translated picture cost; runs in a process of its own."""
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    sim, real = read_dataset(renders), read_captures(SHIPPED / "standin" / "style.json")
    game, transfer = _game(case, sim, real)
    config = case.config
    period = config.gradient_penalty_every if isinstance(config, TranslatorConfig) else 1
    steps = itertools.count()
    step_s = _cpu_s(lambda: game.play(next(steps)), max(repeats, period))
    rng = np.random.default_rng(0)
    frames = {side: _frame(side) for side in WHOLE_PX}
    whole = {
        side: _cpu_s(functools.partial(transfer.apply, frame, rng), repeats)
        for side, frame in frames.items()
    }
    batch = case.config.batch
    return {
        "name": case.name,
        "config": asdict(case.config),
        "patch_px": case.config.patch_px,
        "batch": batch,
        "step_cpu_s": _spread(step_s),
        "pictures_per_cpu_s": batch / statistics.mean(step_s),
        "translate_cpu_s": {str(side): _spread(seconds) for side, seconds in whole.items()},
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _game(case: Case, sim: Dataset, real: Dataset) -> tuple[Game, Transfer]:
    """Returns a training at step 0 and the translator that it trains."""
    if isinstance(case.config, TranslatorConfig):
        buffers = buffers_of(sim)
        cache = case.config.cache_bytes
        sources = (
            PatchSource(sim, buffers=buffers, cache_bytes=cache),
            PatchSource(real, buffers=(), cache_bytes=cache),
        )
        draw = functools.partial(draw_batch, *sources, case.config, count_channels(buffers))
        generator = build_players(case.config, buffers, CPU).generator
        return (
            ResidualGame(case.config, buffers, draw, CPU),
            Translator(generator.eval(), buffers, CPU),
        )
    pairs = PatchPairs(sim, real, case.config)
    if case.method == "cyclegan":
        cyclegan = CycleGan(case.config, pairs, CPU)
        return cyclegan, ReferenceTranslator(cyclegan.generator, CPU)
    assert case.method is not None
    cut = Cut(case.config, VARIANTS[case.method], pairs, CPU)
    return cut, ReferenceTranslator(cut.generator, CPU)


def _frame(side: int) -> Frame:
    """Returns noise of a size with flat buffers: what it shows costs nothing."""
    rng = np.random.default_rng(side)
    rgb = rng.integers(0, 256, (side, side, 3), dtype=np.uint8)
    flat = np.ones((side, side), np.float32), np.zeros((side, side), np.uint16)
    return Frame(rgb, *flat, categories={})


def _cpu_s(work: Callable[[], object], repeats: int) -> list[float]:
    """Returns CPU seconds of every call after the first."""
    work()
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return seconds


def _spread(seconds: Sequence[float]) -> dict[str, float]:
    return {
        "median": statistics.median(seconds),
        "least": min(seconds),
        "most": max(seconds),
    }


def _render(root: Path) -> None:
    generate(
        load_recipe("dice-demo"),
        root,
        count=PICTURES,
        seed=0,
        workers=1,
        resume=True,
        overwrite=False,
        progress=lambda _done, _total: None,
    )


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
