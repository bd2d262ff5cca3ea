"""HTML pages of demos, benchmarks and translator trainings."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sim2cam.adapt.training.adversarial import read_metrics as read_translator_metrics
from sim2cam.adapt.training.checkpoint_selection import TrainingOutcome, read_training_outcome
from sim2cam.adapt.training.sample_images import (
    SAMPLE_COUNT,
    crop_centre,
    encode_strip,
    list_sample_images,
)
from sim2cam.adapt.transfers.transfer import GBufferFrame
from sim2cam.data.sample import Dataset, Origin
from sim2cam.data.writer import CERTIFICATE, CERTIFICATE_PAGE
from sim2cam.experiments.benchmark import BenchResult
from sim2cam.experiments.demo import DemoResult, read_demo_datasets
from sim2cam.experiments.pose_benchmark import PoseBenchResult
from sim2cam.images import read_rgb
from sim2cam.learn.run_folder import SAMPLES_PAGE
from sim2cam.metrics.calibration import collect_scored_detections
from sim2cam.metrics.error_analysis import count_category_errors, count_confusions
from sim2cam.metrics.names import POSE_METRICS
from sim2cam.metrics.precision_recall import compute_precision_recall
from sim2cam.metrics.sliced_ap import compute_sliced_ap50
from sim2cam.metrics.slices import Slice
from sim2cam.metrics.verdict import Finding, Verdict
from sim2cam.models.training.training import WEIGHTS
from sim2cam.models.training.training import read_metrics as read_detector_metrics
from sim2cam.pipeline.translation import list_image_pairs, read_certificate
from sim2cam.report.benchmark import write_bench_page
from sim2cam.report.certificate import write_certificate_page
from sim2cam.report.examples import build_image_rows, select_examples
from sim2cam.report.run import write_run_page
from sim2cam.report.translator_training import write_samples_page
from sim2cam.report.values import BenchReport, Curves, RunReport, ScoreRow, Series, StageRow
from sim2cam.seeds import derive_rng

PAGE = "report.html"
_STAGES = ("generate", "translate", "train", "bench")
_DETECTOR_LOSSES = ("heatmap", "box", "category")
_TRANSLATOR_SCALARS = ("adversarial", "identity", "structure", "mean_change")
_ROW_COUNT = 4
_EXAMPLE_COUNT, _BENCH_EXAMPLE_COUNT = 3, 12  # best images, and as many worst ones
_KIND_EXAMPLE_COUNT = 4


def write_demo_page(result: DemoResult) -> Path:
    """Write the page of a finished demo to its folder, and those of its translation."""
    sim, adapted = read_demo_datasets(result)
    seconds = {stage.name: stage.seconds for stage in result.stages}
    details = {
        "generate": f"{len(sim.samples)} images",
        "translate": f"{len(adapted.samples)} images" if adapted else "",
        "bench": f"{len(result.trained.captures.samples)} {result.captures_origin} images",
    }
    report = RunReport(
        title="sim2cam demo: dice",
        verdict=_summarize_demo(result),
        captures_origin=result.captures_origin,
        run_info=_describe_run(result),
        stages=tuple(StageRow(s, seconds.get(s), details.get(s, "")) for s in _STAGES),
        scores=_build_score_rows(result),
        image_rows=build_image_rows(sim, adapted, result.style, count=_ROW_COUNT),
        examples=select_examples(
            result.trained.captures,
            result.trained.predictions,
            result.trained.threshold,
            count=_EXAMPLE_COUNT,
        ),
        curves=_build_curves(result.root),
        notes=result.notes,
        pages=_write_translation_pages(result, sim),
    )
    return write_run_page(report, result.root / PAGE)


def _write_translation_pages(result: DemoResult, sim: Dataset) -> dict[str, str]:
    """Write the pages of the translator and of the certificate; return paths from the demo by title."""
    run, adapted, pages = result.root / "translator", result.root / "adapted", {}
    if not (adapted / CERTIFICATE).is_file():
        return {}
    if write_training_page(run, read_training_outcome(run), result.style):
        pages["training of the translator"] = f"{run.name}/{SAMPLES_PAGE}"
    certificate = read_certificate(adapted)
    write_certificate_page(certificate, list_image_pairs(adapted, sim), adapted / CERTIFICATE_PAGE)
    return pages | {"certificate of the translated images": f"{adapted.name}/{CERTIFICATE_PAGE}"}


def write_scores_page(
    title: str,
    result: BenchResult,
    slices: Sequence[Slice],
    poses: PoseBenchResult | None,
    verdict: Verdict,
    out: Path,
) -> Path:
    """Write the page of a benchmark."""
    captures, predictions = result.captures, result.predictions
    shapes = {"keypoints": result.keypoints, "masks": result.masks}
    extra_metrics = {f"AP of {name}": metrics.ap for name, metrics in shapes.items() if metrics}
    extra_metrics |= {"mIoU of pixels": result.segments.miou} if result.segments else {}
    mean = poses.score.mean if poses else {}
    extra_metrics |= {f"{name} of poses": mean[m] for m, name in POSE_METRICS.items() if m in mean}
    scored = captures, predictions, result.threshold
    return write_bench_page(
        BenchReport(
            title=title,
            verdict=verdict,
            score=result.score,
            calibration=result.reliability.calibration,
            extra_metrics=extra_metrics,
            ap_losses=result.ap_losses,
            category_errors=count_category_errors(*scored),
            confusions=count_confusions(*scored),
            precision_recall=compute_precision_recall(captures, predictions),
            detections=collect_scored_detections(captures, predictions),
            sliced_ap50=compute_sliced_ap50(captures, predictions, derive_rng(0, "slices")),
            slices=tuple(slices),
            examples=select_examples(
                *scored, count=_BENCH_EXAMPLE_COUNT, per_kind=_KIND_EXAMPLE_COUNT
            ),
        ),
        out,
    )


def write_training_page(run_dir: Path, outcome: TrainingOutcome, captures: Dataset) -> Path | None:
    """Write the page of a translator training to its run folder.

    Args:
        run_dir: Run folder.
        outcome: Result of the training.
        captures: Real training images.

    Returns:
        Path of the page; None if the training ended before the first sample images.

    Raises:
        InputError: If an image cannot be read.
        OutputError: If the page cannot be written.
    """
    strips = list_sample_images(run_dir)
    if not strips:
        return None
    crops = [
        crop_centre(GBufferFrame(read_rgb(s.rgb))).rgb for s in captures.samples[:SAMPLE_COUNT]
    ]
    lines = read_translator_metrics(run_dir)
    scalar_names = (
        [name for name in lines[0].scalars if all(name in line.scalars for line in lines)]
        if lines
        else []
    )
    return write_samples_page(
        run_dir / SAMPLES_PAGE,
        strips=strips,
        captures=encode_strip(crops),
        curves=Curves(
            "Training",
            "mean over patches",
            tuple(_build_series(name, lines, "scalars") for name in scalar_names),
        ),
        verdict=_summarize_training(outcome),
    )


def _summarize_training(outcome: TrainingOutcome) -> Verdict:
    """Return which weights were selected and why, and the command that applies them.

    The command names no folder, so that equal trainings have equal pages.
    """
    selection = outcome.selection
    return Verdict(
        (
            Finding(
                f"The weights of step {selection.step} were selected: {selection.reason}.", "note"
            ),
            *(Finding(warning, "warning") for warning in outcome.warnings),
            Finding(
                "Translate renders and certify that their labels are preserved.",
                "next",
                "sim2cam adapt apply TRANSLATOR --data RENDERS --out ADAPTED",
            ),
        )
    )


def _summarize_demo(result: DemoResult) -> Verdict:
    """Return the scores, the verdict on the trained detector, and commands to continue with."""
    ap50 = result.trained.score.ap50
    summary = (
        f"The detector trained in this run, without a labelled target image, reaches an AP50 of {ap50.value:.2f} on "
        f"{len(result.trained.captures.samples)} {result.captures_origin} images."
    )
    if result.shipped is not None:
        summary += f" The shipped weights reach {result.shipped.score.ap50.value:.2f}."
    weights = shlex.quote(str(result.root / "detector" / WEIGHTS))
    return Verdict(
        (
            Finding(summary, "note"),
            *result.verdict.findings,
            Finding(
                "Measure it on your own camera, with labelled photos of dice.",
                "next",
                "sim2cam demo --captures PHOTOS --out runs/mine",
            ),
            Finding(
                "See every error of this detector on labelled photos.",
                "next",
                f"sim2cam bench {weights} --captures PHOTOS --out bench.json",
            ),
            Finding(
                "Detect dice in your photos with the shipped weights.",
                "next",
                "sim2cam predict dice PHOTOS",
            ),
            Finding(
                "Write a recipe for your own objects.", "next", "sim2cam new NAME --assets MESHES"
            ),
        )
    )


def _describe_run(result: DemoResult) -> dict[str, str]:
    environment = result.environment
    packages = ", ".join(f"{name} {number}" for name, number in environment["packages"].items())
    return {
        "command": f"sim2cam {environment['command']}",
        "labelled target images in training": "0",
        "renderer": environment["renderer"],
        "machine": f"{environment['system']}, {environment['cpus']} CPUs",
        "versions": f"sim2cam {environment['sim2cam']}, Python {environment['python']}, {packages}",
    }


def _build_score_rows(result: DemoResult) -> tuple[ScoreRow, ...]:
    return (
        _build_score_row("trained in this run", result.captures_origin, result.trained),
        _build_score_row("shipped weights", result.captures_origin, result.shipped),
    )


def _build_score_row(label: str, origin: Origin, result: BenchResult | None) -> ScoreRow:
    if result is None:
        return ScoreRow(label, origin, None)
    return ScoreRow(
        label, origin, result.score, result.reliability.calibration, result.reliability.uncalibrated
    )


def _build_curves(root: Path) -> tuple[Curves, ...]:
    detector = read_detector_metrics(root / "detector")
    translator = read_translator_metrics(root / "translator")
    return (
        Curves(
            "Detector",
            "loss",
            tuple(_build_series(name, detector, "losses") for name in _DETECTOR_LOSSES)
            if detector
            else (),
        ),
        Curves(
            "Translator",
            "mean over patches",
            tuple(_build_series(name, translator, "scalars") for name in _TRANSLATOR_SCALARS)
            if translator
            else (),
        ),
    )


def _build_series(name: str, lines: Sequence[Any], field_name: str) -> Series:
    """Return one metric over the training steps."""
    return Series(
        name,
        tuple(float(line.step) for line in lines),
        tuple(float(getattr(line, field_name)[name]) for line in lines),
    )
