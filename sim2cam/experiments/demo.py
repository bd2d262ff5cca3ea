"""The main job, small and from scratch: generate, translate, train, bench. All of it is on disk."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sim2cam.adapt.training.adversarial import MIN_CAPTURES
from sim2cam.adapt.training.checkpoint_selection import read_ending
from sim2cam.data.checks.duplicates import duplicates_note, near_duplicates
from sim2cam.data.environment import environment_facts
from sim2cam.data.formats.predictions import Found, predictions_from_json, predictions_to_json
from sim2cam.data.reader import read_dataset, read_lines
from sim2cam.data.real_images import CaptureSets, split_captures
from sim2cam.data.sample import Dataset, Origin
from sim2cam.data.writer import write_json
from sim2cam.errors import InputError
from sim2cam.experiments.benchmark import BenchResult, bench, score_predictions
from sim2cam.learn.device import use_threads
from sim2cam.models.inference.detector import SHIPPED_WEIGHTS, load_detector
from sim2cam.models.training.datasets import begun_with
from sim2cam.models.training.training import WEIGHTS, train_detector
from sim2cam.models.training.tuning import tune_weights
from sim2cam.pipeline.generation import generate
from sim2cam.pipeline.recipe import SHIPPED, load_recipe
from sim2cam.pipeline.translation import (
    Certification,
    apply_transfer,
    read_certificate,
    train_network,
)
from sim2cam.render.rasterizer import rasterizer

RECIPE = "dice-demo"
PLAIN_RECIPE = "dice-fixed"
STANDIN = SHIPPED / "standin"
PICTURES, PLAIN_PICTURES = 240, 60
TINY_PICTURES, TINY_PLAIN_PICTURES = 100, 40  # without OpenGL, in about as many minutes
TRANSLATED = 64
RESULT = "demo.json"
PARTS = ("sim", "plain", "adapted", "translator", "detector", RESULT, "report.html")
"""Names of what a demo writes into its folder."""

ProgressFor = Callable[[str], Callable[[int, int], None]]
"""Gives a counter for a stage; counters are called with done and total."""


@dataclass(frozen=True)
class Stage:
    """One stage of the demo and how long it took."""

    name: str
    seconds: float


@dataclass(frozen=True)
class DemoResult:
    """What a demo left on disk.

    Attributes:
        root: its folder, with ``sim``, ``adapted`` and ``translator`` (when there was a translation)
            and ``detector``.
        stages: in order.
        notes: what a reader has to know.
        trained: the detector that this run trained.
        shipped: the weights that ship, on the same captures; None when they are not there.
        captures_origin: ``real`` or ``stand-in``.
        style: the unlabelled captures.
        environment: machine, versions, renderer.
    """

    root: Path
    stages: tuple[Stage, ...]
    notes: tuple[str, ...]
    trained: BenchResult
    shipped: BenchResult | None
    captures_origin: Origin
    style: Dataset
    environment: dict[str, Any]


def run_demo(
    root: Path,
    captures: Path | None,
    sets: CaptureSets,
    *,
    seed: int,
    workers: int,
    progress: ProgressFor,
) -> DemoResult:
    """Runs the main job in an empty folder and returns what came of it.

    Args:
        root: where everything goes.
        captures: where ``sets`` were read; None for the stand-in camera.
        sets: what ``demo_captures`` returned for them.
        seed: decides every draw.
        workers: processes and threads.
        progress: gives each stage its counter.

    Raises:
        Sim2CamError: any stage failed.
    """
    recipe = load_recipe(RECIPE)
    use_threads(workers)
    stages: list[Stage] = []
    with _timed(stages, "generate"):
        make = functools.partial(
            generate, seed=seed, workers=workers, resume=False, overwrite=False,
            progress=progress("generate"),
        )  # fmt: skip
        pictures, plain_pictures = _counts()
        sim = make(recipe, root / "sim", count=pictures)
        plain = make(load_recipe(PLAIN_RECIPE), root / "plain", count=plain_pictures)
    parts = [(sim, 1.0)]
    certification = Certification(recipe.adapt.certificate)
    if len(sets.style.samples) >= MIN_CAPTURES:
        with _timed(stages, "translate"):
            train_network(
                sim, sets.style, recipe.adapt.translator, root / "translator",
                certification=certification, resume=False, device="cpu",
                progress=_by_step(progress("translate: train")),
            )  # fmt: skip
            certificate = apply_transfer(
                root / "translator", sim.take(TRANSLATED), root / "adapted",
                certification=certification, seed=seed,
                workers=workers, device="cpu", resume=False, overwrite=False,
                progress=progress("translate: apply"),
            )  # fmt: skip
            use_threads(workers)
        if certificate.kept:
            parts.append((read_dataset(root / "adapted"), 1.0))
    with _timed(stages, "train"):
        mix, config = begun_with(plain, tuple(parts), recipe.train)
        train_detector(mix, config, root / "detector", progress=_by_step(progress("train")))
    with _timed(stages, "bench"):
        if sets.dev is not None:
            tune_weights(root / "detector" / WEIGHTS, sets.dev)
        found = _bench_both(root, sets.test, progress("bench"))
    _write_result(root, captures, sets, stages, found, workers)
    return read_demo(root)


def read_demo(root: Path) -> DemoResult:
    """Returns what a demo left in its folder.

    Raises:
        InputError: there is no finished demo in it.
    """
    path = root / RESULT
    if not path.is_file():
        raise InputError(root, f"no finished demo: there is no {RESULT} in it.")
    facts = json.loads(path.read_text())
    sets = demo_captures(Path(facts["captures"]) if facts["captures"] else None, skip_invalid=True)
    results = {
        name: score_predictions(Found(sets.test, predictions_from_json(found)))
        for name, found in facts["found"].items()
    }
    return DemoResult(
        root=root,
        stages=tuple(Stage(**stage) for stage in facts["stages"]),
        notes=tuple(facts["notes"]),
        trained=results["trained"],
        shipped=results.get("shipped"),
        captures_origin=sets.test.samples[0].origin,
        style=sets.style,
        environment=facts["environment"],
    )


def read_parts(result: DemoResult) -> tuple[Dataset, Dataset | None]:
    """Returns the rendered and, when there was a translation, the translated data set."""
    adapted = result.root / "adapted"
    kept = adapted.is_dir() and read_lines(adapted)
    return read_dataset(result.root / "sim"), read_dataset(adapted) if kept else None


def demo_captures(path: Path | None, *, skip_invalid: bool = False) -> CaptureSets:
    """Return captures as ``split_captures`` does; those of the stand-in camera for None.

    Raises:
        InputError: there are none, or they are broken.
    """
    if path is None:
        return split_captures(STANDIN, origin="stand-in")
    return split_captures(path, skip_invalid=skip_invalid)


def _counts() -> tuple[int, int]:
    """Returns how many pictures and plain pictures are rendered."""
    is_tiny = rasterizer().name.startswith("tiny")
    return (TINY_PICTURES, TINY_PLAIN_PICTURES) if is_tiny else (PICTURES, PLAIN_PICTURES)


def _bench_both(
    root: Path, test: Dataset, progress: Callable[[int, int], None]
) -> dict[str, BenchResult]:
    trained = load_detector(root / "detector" / WEIGHTS)
    found = {"trained": bench(trained, test, progress=progress)}
    shipped = SHIPPED_WEIGHTS / "dice.safetensors"
    if shipped.is_file():
        found["shipped"] = bench(load_detector(shipped), test)
    return found


def _write_result(
    root: Path,
    captures: Path | None,
    sets: CaptureSets,
    stages: Sequence[Stage],
    found: Mapping[str, BenchResult],
    workers: int,
) -> None:
    notes = []
    if len(sets.style.samples) < MIN_CAPTURES:
        notes.append(
            f"{len(sets.style.samples)} captures to take the look from, fewer than {MIN_CAPTURES}: "
            "no translation, the detector was trained on renders alone."
        )
    else:
        certificate = read_certificate(root / "adapted")
        if certificate.rejected:
            notes.append(
                f"{len(certificate.rejected)} of {len(certificate.pictures)} translated pictures failed "
                "their certificate and were not trained on; adapted/certificate.json says why."
            )
        notes += [f"Translator: {warning}" for warning in read_ending(root / "translator").warnings]
    pictures, _ = _counts()
    if pictures < PICTURES:
        notes.append(
            f"No OpenGL here: pybullet's TinyRenderer drew, and {pictures} pictures instead of "
            f"{PICTURES}, as it is slower."
        )
    if captures is None:
        notes.append("No captures were given: scores are on the stand-in camera that ships.")
    if sets.dev is not None:
        notes.append(
            f"{len(sets.dev.samples)} labelled development images chose the magnification and the "
            "box margin of the detector trained here; it was not trained on them."
        )
    if "shipped" not in found:
        notes.append("No weights ship with this copy.")
    alike = near_duplicates(sets.style.samples, sets.test.samples)
    if alike:
        notes.append(duplicates_note(alike, len(sets.test.samples)))
    facts = {
        "captures": str(captures.resolve()) if captures else None,
        "stages": [asdict(stage) for stage in stages],
        "notes": notes,
        "found": {name: predictions_to_json(r.predictions) for name, r in found.items()},
        "scores": {name: r.score.to_json() for name, r in found.items()},
        "environment": environment_facts(rasterizer().name, workers),
    }
    write_json(root / RESULT, facts)


@contextmanager
def _timed(stages: list[Stage], name: str) -> Iterator[None]:
    start = time.monotonic()
    yield
    stages.append(Stage(name, round(time.monotonic() - start, 1)))


def _by_step(counter: Callable[[int, int], None]) -> Callable[[Any], None]:
    """Returns a training's callback that moves a counter of steps."""
    return lambda line: counter(line.step, line.steps)
