"""What a step of every learned translator costs, and what a translated picture.

    python benchmarks/adapt.py [--repeats N]

Each case runs in a process of its own with one thread, so that its peak of memory is its own, on
renders of recipe ``dice-demo`` and the stand-in captures. Times are CPU seconds of the process.
CycleGAN stands beside itself as published (``peers/published_cyclegan.py``), run just before it. Where
there is a GPU, each is also timed there, by the clock: in single precision as it is called, and compiled
in bfloat16. Writes ``adapt.json`` to ``benchmarks/results`` after each case; what cannot be timed says why
(``failed``).
"""

from __future__ import annotations

import functools
import itertools
import multiprocessing
import resource
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

import cv2
import numpy as np
import torch
import tyro
from peers.published_cyclegan import PublishedCycleGan
from scoring_log import RESULTS

from sim2cam.adapt.reference.config import ReferenceConfig, ReferenceMethod
from sim2cam.adapt.reference.cut import VARIANTS, Cut
from sim2cam.adapt.reference.cyclegan import CycleGan
from sim2cam.adapt.reference.networks import PatchGan, PatchProjector, ResnetGenerator
from sim2cam.adapt.reference.patches import UnpairedBatchSource
from sim2cam.adapt.reference.translator import ReferenceTranslator
from sim2cam.adapt.training.adversarial import AdversarialModel
from sim2cam.adapt.transfers.transfer import GBufferFrame, Transfer
from sim2cam.adapt.translator import step as step_of_default
from sim2cam.adapt.translator.buffers import count_channels, list_common_buffers
from sim2cam.adapt.translator.config import PRESETS, TranslatorConfig
from sim2cam.adapt.translator.patches import PatchSource, sample_batch
from sim2cam.adapt.translator.step import build_networks
from sim2cam.adapt.translator.training import ResidualGan
from sim2cam.adapt.translator.translator import Translator
from sim2cam.data.environment import collect_environment
from sim2cam.data.reader import read_dataset
from sim2cam.data.real_images import read_real_images
from sim2cam.data.sample import Dataset
from sim2cam.data.writer import write_json
from sim2cam.learn.device import disable_autocast
from sim2cam.pipeline.generation import generate
from sim2cam.pipeline.recipe import RECIPES_FOLDER, load_recipe

CPU = torch.device("cpu")
PICTURES = 16
WHOLE_PX = (256, 512)
STYLE = RECIPES_FOLDER / "standin" / "style.json"
GPU_WAYS = ("fp32, eager", "bf16, compiled")


@dataclass(frozen=True)
class Case:
    """One training whose steps are timed.

    Attributes:
        name: as the table shows it.
        method: None is the default translator.
        config: of the training.
        peer: name of the case that does the same, against which it is held; None without one.
    """

    name: str
    method: ReferenceMethod | Literal["published"] | None
    config: TranslatorConfig | ReferenceConfig
    peer: str | None = None


PUBLISHED: dict[ReferenceMethod, str] = {"cyclegan": "CycleGAN", "cut": "CUT", "fastcut": "FastCUT"}
PEER = "CycleGAN as published"


def _published(side: int, blocks: int) -> Iterator[Case]:
    config = ReferenceConfig(patch_px=side, blocks=blocks)
    yield Case(f"{PEER}, {blocks} blocks", "published", config)
    for method, name in PUBLISHED.items():
        peer = f"{PEER}, {blocks} blocks" if method == "cyclegan" else None
        yield Case(f"{name}, {blocks} blocks", method, config, peer)


CASES = (
    *_published(128, 6),
    *_published(256, 9),
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
    """Time every case and writes what came of it."""
    _render(arguments.work)
    environment = collect_environment(None, 1)
    cases: list[dict[str, Any]] = []
    for case in CASES:
        given = case, arguments.work, arguments.repeats
        facts = {
            "name": case.name,
            "config": asdict(case.config),
            "patch_px": case.config.patch_px,
            "batch": case.config.batch,
            **_alone(timed, *given),
        }
        for peer in (other for other in cases if other["name"] == case.peer):
            if "failed" not in facts | peer:
                facts["times_faster"] = peer["step_cpu_s"]["least"] / facts["step_cpu_s"]["least"]
        if torch.cuda.is_available() and case.method != "published":
            facts["gpu"] = {way: _alone(timed_on_gpu, *given, way) for way in GPU_WAYS}
        cases.append(facts)
        write_json(RESULTS / "adapt.json", {"environment": environment, "cases": cases})
        print(_told(facts), flush=True)


def _told(facts: dict[str, Any]) -> str:
    start = f"{facts['name']:<20} {facts['patch_px']} px  "
    if "failed" in facts:
        return f"{start}failed: {facts['failed']}"
    return (
        f"{start}{facts['step_cpu_s']['median']:.2f} CPU-s a step, "
        f"{facts['pictures_per_cpu_s']:.2f} pictures a CPU-s, {facts['peak_mb']:.0f} MB"
    )


def _alone(work: Callable[..., dict[str, Any]], *given: object) -> dict[str, Any]:
    """Return what comes of work in a process of its own; where it fails, why: the others are still timed."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as alone:
        try:
            return alone.submit(work, *given).result()
        except Exception as error:  # noqa: BLE001
            return {"failed": f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"}


def timed_on_gpu(case: Case, renders: Path, repeats: int, way: str) -> dict[str, Any]:
    """Return seconds of the clock a step on the first GPU, and its peak of memory.

    Args:
        case: the training.
        renders: its data set.
        repeats: steps that are timed, after three that are not.
        way: of ``GPU_WAYS``.
    """
    is_fast = way == "bf16, compiled"
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = is_fast
    device = torch.device("cuda")
    if is_fast:
        if isinstance(case.config, TranslatorConfig):
            case = replace(case, config=replace(case.config, compile=True))
        for kind in (ResnetGenerator, PatchGan, PatchProjector):
            setattr(kind, "forward", torch.compile(kind.forward))  # noqa: B010
    else:  # the default computes in bfloat16 by itself
        vars(step_of_default)["autocast"] = lambda device, **_: disable_autocast(device)
    game, _ = _game(case, read_dataset(renders), read_real_images(STYLE), device)
    seconds = []
    for step in range(repeats + 3):
        start = time.perf_counter()
        with torch.autocast("cuda", torch.bfloat16, enabled=case.method is not None and is_fast):
            game.train_step(step)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return {
        "device": torch.cuda.get_device_name(),
        "step_s": _spread(seconds[3:]),
        "pictures_per_s": case.config.batch / statistics.median(seconds[3:]),
        "peak_mb": torch.cuda.max_memory_allocated() / 2**20,
    }


def timed(case: Case, renders: Path, repeats: int) -> dict[str, Any]:
    """Return what a step and a translated picture cost; runs in a process of its own."""
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    game, transfer = _game(case, read_dataset(renders), read_real_images(STYLE), CPU)
    config = case.config
    period = config.gradient_penalty_every if isinstance(config, TranslatorConfig) else 1
    steps = itertools.count()
    step_s = _cpu_s(lambda: game.train_step(next(steps)), max(repeats, period))
    rng = np.random.default_rng(0)
    frames = {side: _frame(side) for side in WHOLE_PX}
    whole = {
        side: _cpu_s(functools.partial(transfer.apply, frame, rng), repeats)
        for side, frame in frames.items()
    }
    return {
        "step_cpu_s": _spread(step_s),
        "pictures_per_cpu_s": case.config.batch / statistics.mean(step_s),
        "translate_cpu_s": {str(side): _spread(seconds) for side, seconds in whole.items()},
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _game(
    case: Case, sim: Dataset, real: Dataset, device: torch.device
) -> tuple[AdversarialModel | PublishedCycleGan, Transfer]:
    """Return a training at step 0 and the translator that it trains."""
    if isinstance(case.config, TranslatorConfig):
        buffers = list_common_buffers(sim)
        cache = case.config.cache_bytes
        sources = (
            PatchSource(sim, buffers=buffers, cache_bytes=cache),
            PatchSource(real, buffers=(), cache_bytes=cache),
        )
        draw = functools.partial(sample_batch, *sources, case.config, count_channels(buffers))
        generator = build_networks(case.config, buffers, device).generator
        return (
            ResidualGan(case.config, buffers, draw, device),
            Translator(generator.eval(), buffers, device),
        )
    pairs = UnpairedBatchSource(sim, real, case.config)
    if case.method == "published":
        published = PublishedCycleGan(
            case.config.blocks, lambda step: pairs.sample_local_batch(step, device)
        )
        return published, ReferenceTranslator(cast(ResnetGenerator, published.generator), device)
    if case.method == "cyclegan":
        cyclegan = CycleGan(case.config, pairs, device)
        return cyclegan, ReferenceTranslator(cyclegan.generator, device)
    assert case.method is not None
    cut = Cut(case.config, VARIANTS[case.method], pairs, device)
    return cut, ReferenceTranslator(cut.generator, device)


def _frame(side: int) -> GBufferFrame:
    """Return noise of a size with flat buffers: what it shows costs nothing."""
    rng = np.random.default_rng(side)
    rgb = rng.integers(0, 256, (side, side, 3), dtype=np.uint8)
    flat = np.ones((side, side), np.float32), np.zeros((side, side), np.uint16)
    return GBufferFrame(rgb, *flat, categories={})


def _cpu_s(work: Callable[[], object], repeats: int) -> list[float]:
    """Return CPU seconds of every call after the first."""
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
