"""Cost of a training step and of a translated image, for every learned translator.

    python benchmarks/adapt.py [--repeats N]

Each case runs in a separate process with one thread, which gives its own peak memory. Inputs are renders
of recipe ``dice-demo`` and images of the stand-in camera. Times are CPU seconds of the process. CycleGAN
is compared with its published implementation (``peers/published_cyclegan.py``), which runs directly
before it. If there is a GPU, wall time is measured there too: in single precision as called, and compiled
in bfloat16. Writes ``adapt.json`` to ``benchmarks/results`` after each case. A failed case has its error
as ``failed``.
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
from result_files import RESULTS, write_results
from torch import Tensor

from sim2cam.adapt.reference.config import ReferenceConfig, ReferenceMethod
from sim2cam.adapt.reference.cut import VARIANTS, Cut
from sim2cam.adapt.reference.cyclegan import CycleGan
from sim2cam.adapt.reference.networks import PatchGan, PatchProjector, ResnetGenerator
from sim2cam.adapt.reference.patches import make_patch_sampler
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
from sim2cam.learn.device import disable_autocast
from sim2cam.pipeline.generation import generate
from sim2cam.pipeline.recipe import RECIPES_FOLDER, load_recipe
from sim2cam.progress import ignore_progress

CPU = torch.device("cpu")
IMAGE_COUNT = 16
SIDES_PX = (256, 512)
STYLE = RECIPES_FOLDER / "standin" / "style.json"
GPU_WAYS = ("fp32, eager", "bf16, compiled")


@dataclass(frozen=True)
class Case:
    """A training configuration.

    Attributes:
        method: None for the default translator.
        peer: name of the case to compare with; None without one.
    """

    name: str
    method: ReferenceMethod | Literal["published"] | None
    config: TranslatorConfig | ReferenceConfig
    peer: str | None = None


PUBLISHED: dict[ReferenceMethod, str] = {"cyclegan": "CycleGAN", "cut": "CUT", "fastcut": "FastCUT"}
PEER = "CycleGAN as published"


def _list_published(side: int, blocks: int) -> Iterator[Case]:
    config = ReferenceConfig(patch_px=side, blocks=blocks)
    yield Case(f"{PEER}, {blocks} blocks", "published", config)
    for method, name in PUBLISHED.items():
        peer = f"{PEER}, {blocks} blocks" if method == "cyclegan" else None
        yield Case(f"{name}, {blocks} blocks", method, config, peer)


CASES = (
    *_list_published(128, 6),
    *_list_published(256, 9),
    *(
        Case("default, `small`", None, replace(PRESETS["small"], patch_px=side))
        for side in (128, 256)
    ),
)


@dataclass(frozen=True)
class Arguments:
    """Options of the benchmark."""

    repeats: int = 5
    """Timed steps and translations per case, after one warm-up; at least 16 steps of the default translator."""
    work: Path = Path("runs/adapt")
    """Folder of the renders."""


def main(arguments: Arguments) -> None:
    """Time every case and write the results."""
    _render_images(arguments.work)
    environment = collect_environment(None, 1)
    cases: list[dict[str, Any]] = []
    for case in CASES:
        case_arguments = case, arguments.work, arguments.repeats
        facts = {
            "name": case.name,
            "config": asdict(case.config),
            "patch_px": case.config.patch_px,
            "batch": case.config.batch,
            **_run_in_process(measure, *case_arguments),
        }
        for peer in (row for row in cases if row["name"] == case.peer):
            if "failed" not in facts | peer:
                facts["times_faster"] = peer["step_cpu_s"]["least"] / facts["step_cpu_s"]["least"]
        if torch.cuda.is_available() and case.method != "published":
            facts["gpu"] = {
                way: _run_in_process(measure_on_gpu, *case_arguments, way) for way in GPU_WAYS
            }
        cases.append(facts)
        write_results(RESULTS / "adapt.json", {"environment": environment, "cases": cases})
        print(_format_row(facts), flush=True)


def _format_row(facts: dict[str, Any]) -> str:
    start = f"{facts['name']:<20} {facts['patch_px']} px  "
    if "failed" in facts:
        return f"{start}failed: {facts['failed']}"
    return (
        f"{start}{facts['step_cpu_s']['median']:.2f} CPU-s per step, "
        f"{facts['images_per_cpu_s']:.2f} images per CPU-s, {facts['peak_mb']:.0f} MB"
    )


def _run_in_process(work: Callable[..., dict[str, Any]], *arguments: object) -> dict[str, Any]:
    """Run a function in a separate process; return the error as ``failed`` so that other cases still run."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        try:
            return pool.submit(work, *arguments).result()
        except Exception as error:  # noqa: BLE001
            return {"failed": f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"}


def measure_on_gpu(case: Case, renders: Path, repeats: int, way: str) -> dict[str, Any]:
    """Return the wall time of a step on the first GPU, and the peak memory.

    Args:
        repeats: timed steps, after three warm-up steps.
    """
    is_fast = way == "bf16, compiled"
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = is_fast
    device = torch.device("cuda")
    if is_fast:
        if isinstance(case.config, TranslatorConfig):
            case = replace(case, config=replace(case.config, compile=True))
        for kind in (ResnetGenerator, PatchGan, PatchProjector):
            setattr(kind, "forward", torch.compile(kind.forward))  # noqa: B010
    else:  # the default translator uses bfloat16 autocast
        vars(step_of_default)["autocast"] = lambda device, **_: disable_autocast(device)
    train_step, _ = _build_training(case, read_dataset(renders), read_real_images(STYLE), device)
    seconds = []
    for step in range(repeats + 3):
        start = time.perf_counter()
        with torch.autocast("cuda", torch.bfloat16, enabled=case.method is not None and is_fast):
            train_step(step)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return {
        "device": torch.cuda.get_device_name(),
        "step_s": _summarize_times(seconds[3:]),
        "images_per_s": case.config.batch / statistics.median(seconds[3:]),
        "peak_mb": torch.cuda.max_memory_allocated() / 2**20,
    }


def measure(case: Case, renders: Path, repeats: int) -> dict[str, Any]:
    """Return the cost of a step and of a translated image; run in a separate process."""
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    train_step, transfer = _build_training(
        case, read_dataset(renders), read_real_images(STYLE), CPU
    )
    config = case.config
    period = config.gradient_penalty_every if isinstance(config, TranslatorConfig) else 1
    steps = itertools.count()
    # A period of steps has one gradient penalty.
    step_s = _measure_cpu_s(lambda: train_step(next(steps)), max(repeats, period))
    rng = np.random.default_rng(0)
    frames = {side: _make_frame(side) for side in SIDES_PX}
    translate_s = {
        side: _measure_cpu_s(functools.partial(transfer.apply, frame, rng), repeats)
        for side, frame in frames.items()
    }
    return {
        "step_cpu_s": _summarize_times(step_s),
        "images_per_cpu_s": case.config.batch / statistics.mean(step_s),
        "translate_cpu_s": {
            str(side): _summarize_times(seconds) for side, seconds in translate_s.items()
        },
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _build_training(
    case: Case, sim: Dataset, real: Dataset, device: torch.device
) -> tuple[Callable[[int], object], Transfer]:
    """Return the steps of a training and the translator that it trains."""
    if isinstance(case.config, TranslatorConfig):
        buffers = list_common_buffers(sim)
        cache = case.config.cache_bytes
        sources = (
            PatchSource(sim, buffers=buffers, cache_bytes=cache),
            PatchSource(real, buffers=(), cache_bytes=cache),
        )
        sample = functools.partial(sample_batch, *sources, case.config, count_channels(buffers))
        generator = build_networks(case.config, buffers, device).generator
        return (
            _make_step(ResidualGan(case.config, buffers, sample, device)),
            Translator(generator.eval(), buffers, device),
        )
    sample_patches = make_patch_sampler(sim, real, case.config)
    if case.method == "published":

        def sample_on_device(step: int) -> tuple[Tensor, Tensor]:
            sim_patches, real_patches = sample_patches(step)
            return sim_patches.to(device), real_patches.to(device)

        published = PublishedCycleGan(case.config.blocks, sample_on_device)
        return published.train_step, ReferenceTranslator(
            cast(ResnetGenerator, published.generator), device
        )
    if case.method == "cyclegan":
        cyclegan = CycleGan(case.config, sample_patches, device)
        return _make_step(cyclegan), ReferenceTranslator(cyclegan.generator, device)
    assert case.method is not None
    cut = Cut(case.config, VARIANTS[case.method], sample_patches, device)
    return _make_step(cut), ReferenceTranslator(cut.generator, device)


def _make_step(model: AdversarialModel) -> Callable[[int], object]:
    return lambda step: model.train_step(step, model.make_batch(step))


def _make_frame(side: int) -> GBufferFrame:
    """Return a noise frame with flat buffers: translation time does not depend on the content."""
    rng = np.random.default_rng(side)
    rgb = rng.integers(0, 256, (side, side, 3), dtype=np.uint8)
    flat = np.ones((side, side), np.float32), np.zeros((side, side), np.uint16)
    return GBufferFrame(rgb, *flat, categories={})


def _measure_cpu_s(work: Callable[[], object], repeats: int) -> list[float]:
    """Return the CPU seconds of every call after the first."""
    work()
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return seconds


def _summarize_times(seconds: Sequence[float]) -> dict[str, float]:
    return {"median": statistics.median(seconds), "least": min(seconds), "most": max(seconds)}


def _render_images(root: Path) -> None:
    generate(
        load_recipe("dice-demo"),
        root,
        count=IMAGE_COUNT,
        seed=0,
        workers=1,
        resume=True,
        overwrite=False,
        progress=ignore_progress,
    )


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
