"""Small end-to-end demonstration: generate, translate, train and benchmark."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sim2cam.adapt.training.adversarial import MIN_REAL_IMAGES
from sim2cam.adapt.training.checkpoint_selection import read_training_outcome
from sim2cam.data.checks.duplicates import describe_near_duplicates, find_near_duplicates
from sim2cam.data.environment import collect_environment
from sim2cam.data.formats.predictions import (
    LoadedPredictions,
    Predictions,
    predictions_from_json,
    predictions_to_json,
)
from sim2cam.data.parsing import read_json
from sim2cam.data.reader import read_dataset, read_sample_records
from sim2cam.data.real_images import RealImageSplits, split_real_images
from sim2cam.data.sample import Dataset, Origin
from sim2cam.data.writer import write_json
from sim2cam.errors import InputError
from sim2cam.experiments.benchmark import BenchResult, bench, score_predictions
from sim2cam.experiments.verdict import build_verdict
from sim2cam.learn.device import use_threads
from sim2cam.learn.trainer import Callbacks
from sim2cam.metrics.sanity_warnings import find_sanity_warnings
from sim2cam.metrics.verdict import Finding, Verdict
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
from sim2cam.progress import Progress, Stages
from sim2cam.render.renderer import get_renderer

RECIPE = "dice-demo"
PLAIN_RECIPE = "dice-fixed"
STANDIN_FOLDER = RECIPES_FOLDER / "standin"
IMAGE_COUNT, PLAIN_IMAGE_COUNT = 240, 60
TINY_IMAGE_COUNT, TINY_PLAIN_IMAGE_COUNT = 100, 40  # without OpenGL, which is slower
TRANSLATED_COUNT = 64
RESULT_FILE = "demo.json"
_MAX_BYTES = 64_000_000
_AGAIN = "Run sim2cam demo again."
OUTPUT_NAMES = ("sim", "plain", "adapted", "translator", "detector", RESULT_FILE, "report.html")
"""Files and folders that a demo writes."""

STAGES = (
    "render images",
    "render plain images",
    "train translator",
    "translate images",
    "train detector",
    "score",
)
"""Stages whose progress a demo reports."""


@dataclass(frozen=True)
class DemoStage:
    """A stage of the demo and its duration."""

    name: str
    seconds: float


@dataclass(frozen=True)
class DemoResult:
    """Results of a demo.

    Attributes:
        root: folder of the demo, with ``sim`` and ``detector``, and with ``adapted`` and
            ``translator`` if images were translated.
        verdict: findings on the trained detector, with the warnings of ``sim2cam bench``.
        shipped: scores of the shipped weights on the same images; None if they are not installed.
    """

    root: Path
    stages: tuple[DemoStage, ...]
    notes: tuple[str, ...]
    verdict: Verdict
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
    progress: Stages,
) -> DemoResult:
    """Run all stages in an empty folder and return the results.

    Args:
        captures: source of ``splits``; None for the stand-in camera.

    Raises:
        Sim2CamError: if a stage fails.
    """
    recipe = load_recipe(RECIPE)
    use_threads(workers)
    stages: list[DemoStage] = []
    with _time_stage(stages, "generate"):
        generate_demo = functools.partial(
            generate, seed=seed, workers=workers, resume=False, overwrite=False
        )
        image_count, plain_count = _select_image_counts()
        sim = generate_demo(
            recipe, root / "sim", count=image_count, progress=progress("render images")
        )
        plain = generate_demo(
            load_recipe(PLAIN_RECIPE),
            root / "plain",
            count=plain_count,
            progress=progress("render plain images"),
        )
    datasets = [(sim, 1.0)]
    certification = Certification(recipe.adapt.certificate)
    if len(splits.style.samples) >= MIN_REAL_IMAGES:
        with _time_stage(stages, "translate"):
            train_network(
                sim, splits.style, recipe.adapt.translator, root / "translator",
                certification=certification, resume=False, device="cpu",
                callbacks=Callbacks(progress=progress("train translator")),
            )  # fmt: skip
            certificate = apply_transfer(
                root / "translator", sim.take(TRANSLATED_COUNT), root / "adapted",
                certification=certification, seed=seed,
                workers=workers, device="cpu", resume=False, overwrite=False,
                progress=progress("translate images"),
            )  # fmt: skip
            use_threads(workers)
        if certificate.accepted_count:
            datasets.append((read_dataset(root / "adapted"), 1.0))
    with _time_stage(stages, "train"):
        mix, config = add_curriculum(plain, tuple(datasets), recipe.train)
        callbacks = Callbacks(progress=progress("train detector"))
        train_detector(mix, config, root / "detector", callbacks=callbacks)
    with _time_stage(stages, "bench"):
        if splits.dev is not None:
            tune_weights(root / "detector" / WEIGHTS, splits.dev)
        results = _bench_detectors(root, splits.test, progress("score"))
    _write_result(root, captures, splits, stages, results, workers)
    return read_demo(root)


def read_demo(root: Path) -> DemoResult:
    """Return the results of a finished demo.

    Raises:
        InputError: if the folder has no finished demo, or one of another version.
    """
    path = root / RESULT_FILE
    if not path.is_file():
        raise InputError(root, f"no finished demo: {RESULT_FILE} is missing. Run sim2cam demo.")
    content = read_json(path, _MAX_BYTES, "demo", _AGAIN)
    try:
        captures, environment = content["captures"], content["environment"]
        stages = tuple(DemoStage(**stage) for stage in content["stages"])
        notes = tuple(content["notes"])
        verdict = Verdict(tuple(Finding(**finding) for finding in content["verdict"]))
        predicted = content["predictions"]
        trained = predictions_from_json(predicted["trained"])
        shipped = predictions_from_json(predicted["shipped"]) if "shipped" in predicted else None
    except (KeyError, TypeError, ValidationError) as error:
        raise InputError(path, f"from another version of sim2cam. {_AGAIN}") from error
    splits = read_demo_captures(Path(captures) if captures else None, skip_invalid=True)

    def score(predictions: Predictions) -> BenchResult:
        return score_predictions(LoadedPredictions(splits.test, predictions))

    return DemoResult(
        root=root,
        stages=stages,
        notes=notes,
        verdict=verdict,
        trained=score(trained),
        shipped=None if shipped is None else score(shipped),
        captures_origin=splits.test.samples[0].origin,
        style=splits.style,
        environment=environment,
    )


def read_demo_datasets(result: DemoResult) -> tuple[Dataset, Dataset | None]:
    """Return the rendered dataset and the translated one, which is None without translations."""
    adapted = result.root / "adapted"
    has_adapted = adapted.is_dir() and read_sample_records(adapted)
    return read_dataset(result.root / "sim"), read_dataset(adapted) if has_adapted else None


def read_demo_captures(path: Path | None, *, skip_invalid: bool = False) -> RealImageSplits:
    """Return splits of real images as ``split_real_images``, or of the stand-in camera for None.

    Raises:
        InputError: if there are no images, or an image is broken.
    """
    if path is None:
        return split_real_images(STANDIN_FOLDER, origin="stand-in")
    return split_real_images(path, skip_invalid=skip_invalid)


def _select_image_counts() -> tuple[int, int]:
    """Return the number of randomized and of plain renders."""
    is_tiny = get_renderer().name.startswith("tiny")
    return (
        (TINY_IMAGE_COUNT, TINY_PLAIN_IMAGE_COUNT) if is_tiny else (IMAGE_COUNT, PLAIN_IMAGE_COUNT)
    )


def _bench_detectors(root: Path, test: Dataset, progress: Progress) -> dict[str, BenchResult]:
    weights = root / "detector" / WEIGHTS
    trained = bench(load_detector(weights), test, progress=progress)
    names = replace(trained.names, weights=str(weights))
    results = {"trained": replace(trained, names=names)}
    shipped = SHIPPED_WEIGHTS / "dice.safetensors"
    if shipped.is_file():
        results["shipped"] = bench(load_detector(shipped), test)
    return results


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
            f"{len(splits.style.samples)} style images are too few for a translation ({MIN_REAL_IMAGES} needed). "
            "The detector was trained on renders only."
        )
    else:
        certificate = read_certificate(root / "adapted")
        if certificate.rejected_images:
            notes.append(
                f"{len(certificate.rejected_images)} of {len(certificate.images)} translated images failed "
                "the certificate and were excluded; adapted/certificate.html has the reasons."
            )
        warnings = read_training_outcome(root / "translator").warnings
        notes += [f"Translator: {warning}" for warning in warnings]
    image_count, _ = _select_image_counts()
    if image_count < IMAGE_COUNT:
        notes.append(
            f"OpenGL is missing: pybullet's slower TinyRenderer rendered {image_count} images instead of "
            f"{IMAGE_COUNT}."
        )
    if captures is None:
        notes.append("No real images were given: scores are on the shipped stand-in camera.")
    if splits.dev is not None:
        notes.append(
            f"{len(splits.dev.samples)} labelled development images tuned the input scale and the "
            "box padding of the trained detector; it was not trained on them."
        )
    if "shipped" not in results:
        notes.append("Shipped weights are not installed.")
    near_duplicates = find_near_duplicates(splits.style.samples, splits.test.samples)
    if near_duplicates:
        notes.append(describe_near_duplicates(near_duplicates, len(splits.test.samples)))
    content = {
        "captures": str(captures.resolve()) if captures else None,
        "stages": [asdict(stage) for stage in stages],
        "notes": notes,
        "verdict": _judge_detectors(results).to_json(),
        "predictions": {name: predictions_to_json(r.predictions) for name, r in results.items()},
        "scores": {name: r.score.to_json() for name, r in results.items()},
        "environment": collect_environment(get_renderer().name, workers),
    }
    write_json(root / RESULT_FILE, content)


def _judge_detectors(results: Mapping[str, BenchResult]) -> Verdict:
    """Return the verdict on the trained detector, and the warnings on the shipped weights."""
    trained, shipped = results["trained"], results.get("shipped")
    warnings = () if shipped is None else _find_warnings(shipped)
    return Verdict(
        (
            *build_verdict(trained, _find_warnings(trained)).findings,
            *(Finding(f"Shipped weights: {warning}", "warning") for warning in warnings),
        )
    )


def _find_warnings(result: BenchResult) -> tuple[str, ...]:
    """Return the warnings of ``sim2cam bench``."""
    return find_sanity_warnings(result.captures, result.predictions)


@contextmanager
def _time_stage(stages: list[DemoStage], name: str) -> Iterator[None]:
    start = time.monotonic()
    yield
    stages.append(DemoStage(name, round(time.monotonic() - start, 1)))
