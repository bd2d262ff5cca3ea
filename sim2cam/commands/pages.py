"""From what the pipeline returns to the pages that the report makes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sim2cam.adapt.training.adversarial import read_metrics as read_translator_metrics
from sim2cam.adapt.training.checkpoint_selection import Ending
from sim2cam.adapt.training.sample_images import PICTURES, middle, samples_files, strip
from sim2cam.adapt.transfers.transfer import Frame
from sim2cam.data.sample import Dataset, Origin
from sim2cam.experiments.benchmark import BenchResult
from sim2cam.experiments.demo import DemoResult, read_parts
from sim2cam.experiments.pose_benchmark import PoseBench
from sim2cam.images import read_rgb
from sim2cam.learn.run_folder import SAMPLES_PAGE
from sim2cam.metrics.error_analysis import count_category_errors
from sim2cam.metrics.names import POSE_METRICS
from sim2cam.metrics.slices import Slice
from sim2cam.models.training.training import read_metrics as read_detector_metrics
from sim2cam.report.benchmark import write_bench_page
from sim2cam.report.examples import choose_examples, picture_rows
from sim2cam.report.run import write_report
from sim2cam.report.translator_training import write_samples_page
from sim2cam.report.values import BenchReport, Curves, RunReport, ScoreRow, Series, Stage

PAGE = "report.html"
_STAGES = ("generate", "translate", "train", "bench")
_DETECTOR = ("heat", "box", "category")
_TRANSLATOR = ("adversarial", "identity", "structure", "mean_change")
_ROWS = 4
_EXAMPLES, _BENCH_EXAMPLES = 3, 12  # best, and as many worst


def write_demo_page(result: DemoResult) -> Path:
    """Returns the page of a finished demo, in its folder."""
    sim, adapted = read_parts(result)
    seconds = {stage.name: stage.seconds for stage in result.stages}
    details = {
        "generate": f"{len(sim.samples)} pictures",
        "translate": f"{len(adapted.samples)} pictures" if adapted else "",
        "bench": f"{len(result.trained.captures.samples)} {result.captures_origin} images",
    }
    report = RunReport(
        title="sim2cam demo: dice",
        captures_origin=result.captures_origin,
        facts=_facts(result),
        stages=tuple(Stage(s, seconds.get(s), details.get(s, "")) for s in _STAGES),
        scores=_scores(result),
        pictures=picture_rows(sim, adapted, result.style, count=_ROWS),
        examples=choose_examples(
            result.trained.captures,
            result.trained.predictions,
            result.trained.threshold,
            count=_EXAMPLES,
        ),
        curves=_curves(result.root),
        notes=result.notes,
    )
    return write_report(report, result.root / PAGE)


def write_scores_page(
    title: str,
    result: BenchResult,
    slices: Sequence[Slice],
    poses: PoseBench | None,
    notes: tuple[str, ...],
    out: Path,
) -> Path:
    """Returns the page of a benchmark."""
    captures, predictions = result.captures, result.predictions
    shapes = {"keypoints": result.keypoints, "masks": result.masks}
    more = {f"AP of {name}": one.ap for name, one in shapes.items() if one}
    more |= {"mIoU of pixels": result.segments.miou} if result.segments else {}
    mean = poses.score.mean if poses else {}
    more |= {f"{name} of poses": mean[m] for m, name in POSE_METRICS.items() if m in mean}
    return write_bench_page(
        BenchReport(
            title,
            result.score,
            result.trust.calibration,
            more,
            count_category_errors(captures, predictions, result.threshold),
            tuple(slices),
            choose_examples(captures, predictions, result.threshold, count=_BENCH_EXAMPLES),
            notes,
        ),
        out,
    )


def write_training_page(run_dir: Path, ending: Ending, captures: Dataset) -> Path | None:
    """Returns the page of a translator's training, in its folder; None where it was too short for one.

    Args:
        run_dir: of the training.
        ending: what came of it.
        captures: that it was trained on.

    Raises:
        InputError: a capture cannot be read.
        OutputError: the page cannot be written.
    """
    strips = samples_files(run_dir)
    if not strips:
        return None
    shown = [middle(Frame(read_rgb(s.rgb))).rgb for s in captures.samples[:PICTURES]]
    lines = read_translator_metrics(run_dir)
    always = (
        [name for name in lines[0].scalars if all(name in line.scalars for line in lines)]
        if lines
        else []
    )
    return write_samples_page(
        run_dir / SAMPLES_PAGE,
        strips=strips,
        captures=strip(shown),
        curves=Curves(
            "Training",
            "mean over patches",
            tuple(_series(name, lines, "scalars") for name in always),
        ),
        chosen=ending.selection.step,
        notes=(f"These weights ship: {ending.selection.why}.", *ending.warnings),
    )


def _facts(result: DemoResult) -> dict[str, str]:
    environment = result.environment
    packages = ", ".join(f"{name} {number}" for name, number in environment["packages"].items())
    return {
        "command": f"sim2cam {environment['command']}",
        "labels of captures in training": "0",
        "renderer": environment["renderer"],
        "machine": f"{environment['system']}, {environment['cpus']} CPUs",
        "versions": f"sim2cam {environment['sim2cam']}, Python {environment['python']}, {packages}",
    }


def _scores(result: DemoResult) -> tuple[ScoreRow, ...]:
    return (
        _score_row("trained in this run", result.captures_origin, result.trained),
        _score_row("weights that ship", result.captures_origin, result.shipped),
    )


def _score_row(label: str, origin: Origin, found: BenchResult | None) -> ScoreRow:
    if found is None:
        return ScoreRow(label, origin, None)
    return ScoreRow(label, origin, found.score, found.trust.calibration, found.trust.uncalibrated)


def _curves(root: Path) -> tuple[Curves, ...]:
    detector = read_detector_metrics(root / "detector")
    translator = read_translator_metrics(root / "translator")
    return (
        Curves(
            "Detector",
            "loss",
            tuple(_series(name, detector, "losses") for name in _DETECTOR) if detector else (),
        ),
        Curves(
            "Translator",
            "mean over patches",
            tuple(_series(name, translator, "scalars") for name in _TRANSLATOR)
            if translator
            else (),
        ),
    )


def _series(name: str, lines: Sequence[Any], values: str) -> Series:
    """Returns one number of a training's record over its steps."""
    return Series(
        name,
        tuple(float(line.step) for line in lines),
        tuple(float(getattr(line, values)[name]) for line in lines),
    )
