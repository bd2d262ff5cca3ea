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

from sim2cam.adapt.training.adversarial import MIN_REAL_IMAGES
from sim2cam.adapt.training.checkpoint_selection import read_training_outcome
from sim2cam.data.checks.duplicates import describe_near_duplicates, find_near_duplicates
from sim2cam.data.environment import collect_environment
from sim2cam.data.formats.predictions import (
    LoadedPredictions,
    predictions_from_json,
    predictions_to_json,
)
from sim2cam.data.reader import read_dataset, read_sample_records
from sim2cam.data.real_images import RealImageSplits, split_real_images
from sim2cam.data.sample import Dataset, Origin
from sim2cam.data.writer import write_json
from sim2cam.errors import InputError
from sim2cam.experiments.benchmark import BenchResult, bench, score_predictions
from sim2cam.learn.device import use_threads
from sim2cam.models.inference.detector import SHIPPED_WEIGHTS, load_detector
from sim2cam.models.training.datasets import add_curriculum
from sim2cam.models.training.training import WEIGHTS, train_detector
from sim2cam.models.training.tuning import tune_weights
from sim2cam.pipeline.generation import generate
from sim2cam.pipeline.recipe import RECIPES_FOLDER, load_recipe
from sim2cam.pipeline.translation import (
    Certification,
    apply_transfer,
    read_certificate,
    train_network,
)
from sim2cam.render.rasterizer import get_rasterizer

RECIPE = "dice-demo"
PLAIN_RECIPE = "dice-fixed"
STANDIN_FOLDER = RECIPES_FOLDER / "standin"
IMAGE_COUNT, PLAIN_IMAGE_COUNT = 240, 60
TINY_IMAGE_COUNT, TINY_PLAIN_IMAGE_COUNT = 100, 40  # without OpenGL, in about as many minutes
TRANSLATED_COUNT = 64
RESULT_FILE = "demo.json"
OUTPUT_NAMES = ("sim", "plain", "adapted", "translator", "detector", RESULT_FILE, "report.html")
"""Names of what a demo writes into its folder."""

StageProgress = Callable[[str], Callable[[int, int], None]]
"""Gives a counter for a stage; counters are called with done and total."""


@dataclass(frozen=True)
class DemoStage:
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
    stages: tuple[DemoStage, ...]
    notes: tuple[str, ...]
    trained: BenchResult
    shipped: BenchResult | None
    captures_origin: Origin
    style: Dataset
    environment: dict[str, Any]


def run_demo(
    root: Path,
    captures: Path | None,
    splits: RealImageSplits,
    *,
    seed: int,
    workers: int,
    progress: StageProgress,
) -> DemoResult:
    """Run the main job in an empty folder and returns what came of it.

    Args:
        root: where everything goes.
        captures: where ``splits`` were read; None for the stand-in camera.
        splits: what ``read_demo_captures`` returned for them.
        seed: decides every draw.
        workers: processes and threads.
        progress: gives each stage its counter.

    Raises:
        Sim2CamError: any stage failed.
    """
    recipe = load_recipe(RECIPE)
    use_threads(workers)
    stages: list[DemoStage] = []
    with _time_stage(stages, "generate"):
        make = functools.partial(
            generate, seed=seed, workers=workers, resume=False, overwrite=False,
            progress=progress("generate"),
        )  # fmt: skip
        pictures, plain_pictures = _select_image_counts()
        sim = make(recipe, root / "sim", count=pictures)
        plain = make(load_recipe(PLAIN_RECIPE), root / "plain", count=plain_pictures)
    parts = [(sim, 1.0)]
    certification = Certification(recipe.adapt.certificate)
    if len(splits.style.samples) >= MIN_REAL_IMAGES:
        with _time_stage(stages, "translate"):
            train_network(
                sim, splits.style, recipe.adapt.translator, root / "translator",
                certification=certification, resume=False, device="cpu",
                progress=_wrap_step_progress(progress("translate: train")),
            )  # fmt: skip
            certificate = apply_transfer(
                root / "translator", sim.take(TRANSLATED_COUNT), root / "adapted",
                certification=certification, seed=seed,
                workers=workers, device="cpu", resume=False, overwrite=False,
                progress=progress("translate: apply"),
            )  # fmt: skip
            use_threads(workers)
        if certificate.accepted_count:
            parts.append((read_dataset(root / "adapted"), 1.0))
    with _time_stage(stages, "train"):
        mix, config = add_curriculum(plain, tuple(parts), recipe.train)
        train_detector(
            mix, config, root / "detector", progress=_wrap_step_progress(progress("train"))
        )
    with _time_stage(stages, "bench"):
        if splits.dev is not None:
            tune_weights(root / "detector" / WEIGHTS, splits.dev)
        found = _bench_detectors(root, splits.test, progress("bench"))
    _write_result(root, captures, splits, stages, found, workers)
    return read_demo(root)


def read_demo(root: Path) -> DemoResult:
    """Return what a demo left in its folder.

    Raises:
        InputError: there is no finished demo in it.
    """
    path = root / RESULT_FILE
    if not path.is_file():
        raise InputError(root, f"no finished demo: there is no {RESULT_FILE} in it.")
    facts = json.loads(path.read_text())
    sets = read_demo_captures(
        Path(facts["captures"]) if facts["captures"] else None, skip_invalid=True
    )
    results = {
        name: score_predictions(LoadedPredictions(sets.test, predictions_from_json(found)))
        for name, found in facts["predictions"].items()
    }
    return DemoResult(
        root=root,
        stages=tuple(DemoStage(**stage) for stage in facts["stages"]),
        notes=tuple(facts["notes"]),
        trained=results["trained"],
        shipped=results.get("shipped"),
        captures_origin=sets.test.samples[0].origin,
        style=sets.style,
        environment=facts["environment"],
    )


def read_demo_datasets(result: DemoResult) -> tuple[Dataset, Dataset | None]:
    """Return the rendered and, when there was a translation, the translated data set."""
    adapted = result.root / "adapted"
    kept = adapted.is_dir() and read_sample_records(adapted)
    return read_dataset(result.root / "sim"), read_dataset(adapted) if kept else None


def read_demo_captures(path: Path | None, *, skip_invalid: bool = False) -> RealImageSplits:
    """Return captures as ``split_real_images`` does; those of the stand-in camera for None.

    Raises:
        InputError: there are none, or they are broken.
    """
    if path is None:
        return split_real_images(STANDIN_FOLDER, origin="stand-in")
    return split_real_images(path, skip_invalid=skip_invalid)


def _select_image_counts() -> tuple[int, int]:
    """Return how many pictures and plain pictures are rendered."""
    is_tiny = get_rasterizer().name.startswith("tiny")
    return (
        (TINY_IMAGE_COUNT, TINY_PLAIN_IMAGE_COUNT) if is_tiny else (IMAGE_COUNT, PLAIN_IMAGE_COUNT)
    )


def _bench_detectors(
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
    splits: RealImageSplits,
    stages: Sequence[DemoStage],
    results: Mapping[str, BenchResult],
    workers: int,
) -> None:
    notes = []
    if len(splits.style.samples) < MIN_REAL_IMAGES:
        notes.append(
            f"{len(splits.style.samples)} captures to take the look from, fewer than {MIN_REAL_IMAGES}: "
            "no translation, the detector was trained on renders alone."
        )
    else:
        certificate = read_certificate(root / "adapted")
        if certificate.rejected_images:
            notes.append(
                f"{len(certificate.rejected_images)} of {len(certificate.images)} translated pictures failed "
                "their certificate and were not trained on; adapted/certificate.json says why."
            )
        notes += [
            f"Translator: {warning}"
            for warning in read_training_outcome(root / "translator").warnings
        ]
    pictures, _ = _select_image_counts()
    if pictures < IMAGE_COUNT:
        notes.append(
            f"No OpenGL here: pybullet's TinyRenderer drew, and {pictures} pictures instead of "
            f"{IMAGE_COUNT}, as it is slower."
        )
    if captures is None:
        notes.append("No captures were given: scores are on the stand-in camera that ships.")
    if splits.dev is not None:
        notes.append(
            f"{len(splits.dev.samples)} labelled development images chose the magnification and the "
            "box margin of the detector trained here; it was not trained on them."
        )
    if "shipped" not in results:
        notes.append("No weights ship with this copy.")
    alike = find_near_duplicates(splits.style.samples, splits.test.samples)
    if alike:
        notes.append(describe_near_duplicates(alike, len(splits.test.samples)))
    facts = {
        "captures": str(captures.resolve()) if captures else None,
        "stages": [asdict(stage) for stage in stages],
        "notes": notes,
        "predictions": {name: predictions_to_json(r.predictions) for name, r in results.items()},
        "scores": {name: r.score.to_json() for name, r in results.items()},
        "environment": collect_environment(get_rasterizer().name, workers),
    }
    write_json(root / RESULT_FILE, facts)


@contextmanager
def _time_stage(stages: list[DemoStage], name: str) -> Iterator[None]:
    start = time.monotonic()
    yield
    stages.append(DemoStage(name, round(time.monotonic() - start, 1)))


def _wrap_step_progress(counter: Callable[[int, int], None]) -> Callable[[Any], None]:
    """Return a training's callback that moves a counter of steps."""
    return lambda line: counter(line.step, line.steps)
