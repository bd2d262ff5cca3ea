"""Command ``bench``: scores on labelled real images."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from sim2cam.commands.console import Console
from sim2cam.commands.options import (
    Argument,
    CategoryMap,
    Device,
    InputScale,
    MultiScale,
    OutputOptions,
    Overwrite,
    Rare,
    Refine,
    Sessions,
    SkipInvalid,
    Split,
    Threads,
    check_inputs,
    check_numbers,
    check_output_files,
    parse_category_map,
)
from sim2cam.commands.results import Result, format_command
from sim2cam.commands.tables import (
    format_interval_unit,
    format_pose_scores,
    format_reliability,
    format_scores,
    format_segmentation_scores,
    format_selection_scores,
    format_slices,
    format_unlabelled_scores,
)
from sim2cam.errors import RepairWarning, UsageError
from sim2cam.metrics.names import SHAPE_METRICS

if TYPE_CHECKING:
    from sim2cam.data.sample import Dataset
    from sim2cam.experiments.benchmark import BenchResult, TunedScore, UnlabelledResult
    from sim2cam.experiments.pose_benchmark import PoseBenchResult, PosePredictions
    from sim2cam.metrics.slices import Slice
    from sim2cam.metrics.verdict import CommandNames, Verdict
    from sim2cam.models.inference.detector import AnyDetector

_DETECTION_SUFFIXES = (".json", ".gz")  # .gz is written by ablate
SESSIONS_ERROR = (
    "--sessions applies to detections only; intervals of pose scores are over BOP scenes."
)


@dataclass(frozen=True)
class Bench:
    """Score a detector, detections or poses on real images."""

    weights: Annotated[Path, Argument("WEIGHTS|DETECTIONS|POSES")]
    """Weights (.safetensors file or shipped name), detections (.json of --out, .json.gz of ablate, COCO or BOP results) or poses (.csv, BOP19 format)."""
    captures: Path
    """Dataset, COCO file, YOLO, VOC, BOP or KITTI folder, or WebDataset tar files. BOP: its test targets are scored, with amodal boxes and at least 10 % visible; poses also need its meshes. Without labels, weights get unsupervised scores."""
    out: Path | None = None
    """Output file (.json) of scores, errors per image and detections; for detections on labelled images, a page (.html) is written next to it."""
    poses: Rare[Path | None] = None
    """Output file (.csv) of poses estimated in a BOP dataset; they are scored too."""
    refine: Refine = None
    map: CategoryMap = ()
    ignore_unmatched: Rare[bool] = False
    """Ignore objects of categories that the detector does not have."""
    sessions: Sessions = None
    limit: int | None = None
    """Read at most this many real images."""
    validation: Rare[Path | None] = None
    """Other labelled real images: input scale and box padding are tuned on them, and the score with both is printed beside that of the weights as they are."""
    input_scale: InputScale = None
    multi_scale: MultiScale = False
    device: Device = "cpu"
    workers: Threads = os.cpu_count() or 1
    overwrite: Overwrite = False
    split: Split = None
    skip_invalid: SkipInvalid = False
    output: OutputOptions = field(default_factory=OutputOptions)

    def run(self, captures: Dataset | None = None) -> BenchScores | PoseScores | UnlabelledScores:
        """Score the detector, detections or poses, on images in memory if given."""
        check_numbers(workers=self.workers, limit=self.limit, input_scale=self.input_scale)
        if self.out is not None and self.out.suffix != ".json":  # the suffix bench reads again
            raise UsageError(f"--out {self.out} must end in .json.")
        if self.out is not None:
            files = self.out, self.out.with_suffix(".html")
            check_output_files(
                *files, overwrite=self.overwrite, inputs=[self.weights, self.captures]
            )
        if self.weights.suffix in (*_DETECTION_SUFFIXES, ".csv") and (
            self.map or self.ignore_unmatched
        ):
            raise UsageError(
                "--map and --ignore-unmatched apply to weights only; files of detections name categories."
            )
        if self.weights.suffix in (*_DETECTION_SUFFIXES, ".csv") and (
            self.input_scale is not None or self.multi_scale
        ):
            raise UsageError("--input-scale and --multi-scale apply to weights only.")
        if self.validation is not None and self.weights.suffix in (*_DETECTION_SUFFIXES, ".csv"):
            raise UsageError("--validation applies to weights only.")
        self._check_pose_flags()
        if self.split is not None and (self.poses or self.weights.suffix == ".csv"):
            raise UsageError("--split applies to detections only; poses use the BOP test targets.")
        if self.sessions is not None and self.weights.suffix == ".csv":
            raise UsageError(SESSIONS_ERROR)
        check_inputs(
            None if captures else self.captures,
            self.refine,
            self.validation,
            weights=self.weights,
        )
        return (
            self._score_pose_file()
            if self.weights.suffix == ".csv"
            else self._score_detections(captures)
        )

    def _check_pose_flags(self) -> None:
        if self.poses is None:
            if self.refine is not None:
                raise UsageError("--refine applies to poses only. Add --poses FILE.csv.")
            return
        if self.weights.suffix in (*_DETECTION_SUFFIXES, ".csv"):
            raise UsageError(
                "--poses applies to weights only, not to files of detections or poses."
            )
        if self.poses.suffix != ".csv":
            raise UsageError(f"--poses {self.poses} must end in .csv.")
        check_output_files(self.poses, overwrite=self.overwrite)

    def _score_pose_file(self) -> PoseScores:
        from sim2cam.experiments.pose_scores_file import write_pose_result

        result, _ = self._score_poses(self.weights, self.output.make_console())
        if self.out is not None:
            write_pose_result(result, self.out)
        next_command = format_command(
            "compare", self.weights, "OTHER.csv", "--captures", self.captures
        )
        return PoseScores(result, next_command)

    def _score_poses(self, path: Path, console: Console) -> tuple[PoseBenchResult, list[str]]:
        """Return the scores of poses and the warnings that were printed."""
        from sim2cam.experiments.pose_benchmark import bench_poses, read_pose_task

        task = read_pose_task(self.captures, limit=self.limit)
        with console.show_progress("scoring poses") as stages:
            result = bench_poses(path, task, progress=stages("scoring poses"))
        messages = []
        if result.ignored_count:
            messages.append(
                f"{result.ignored_count} poses ignored: not a test target, or more than its instances."
            )
        if result.images_without_poses:
            messages.append(
                f"{result.images_without_poses} of {len(result.views)} images have no pose: their objects count as missed."
            )
        if result.in_metres:
            messages.append(
                "warning: translations appear to be in metres. BOP requires t in millimetres."
            )
        if 0 < task.depth_count < len(task.views):
            messages.append(
                f"VSD is not scored: it requires depth for all images, but {task.depth_count} of {len(task.views)} have it."
            )
        for message in messages:
            console.info(message)
        return result, messages

    def _estimate_poses(
        self, detector: AnyDetector, path: Path, console: Console
    ) -> PosePredictions:
        from sim2cam.data.formats.bop.poses import write_pose_results
        from sim2cam.experiments.object_meshes import read_meshes
        from sim2cam.experiments.pose_benchmark import estimate_poses
        from sim2cam.models.inference.poses import NO_MESHES, check_poses

        check_poses(detector)
        objects = detector.card.objects
        with console.show_progress("estimating poses") as stages:
            predictions = estimate_poses(
                detector,
                self.captures,
                category_map=parse_category_map(self.map),
                meshes=read_meshes(self.refine, objects) if self.refine else NO_MESHES,
                limit=self.limit,
                progress=stages("estimating poses"),
            )
        write_pose_results(predictions.poses, path)
        return predictions

    def _score_detections(self, all_images: Dataset | None) -> BenchScores | UnlabelledScores:
        from sim2cam.data.formats.predictions import read_predictions
        from sim2cam.data.real_images import check_images_readable, read_evaluation_images
        from sim2cam.experiments.benchmark import score_predictions, write_bench_result
        from sim2cam.experiments.object_slices import slice_errors
        from sim2cam.experiments.verdict import build_verdict
        from sim2cam.metrics.sanity_warnings import (
            find_missing_results_warning,
            find_sanity_warnings,
        )

        console, poses = self.output.make_console(), None
        evaluation_warnings: list[str] = []
        with _repeat_warnings() as repairs:
            all_images = all_images or read_evaluation_images(
                self.captures,
                session_rule=self.sessions,
                skip_invalid=self.skip_invalid,
                split=self.split,
            )
        captures = all_images.take(self.limit)
        if self.weights.suffix not in _DETECTION_SUFFIXES:
            check_images_readable(captures)
        is_labelled = any(sample.objects is not None for sample in captures.samples)
        if self.weights.suffix not in _DETECTION_SUFFIXES and captures.samples and not is_labelled:
            return self._score_unlabelled(captures, console)
        if self.weights.suffix in _DETECTION_SUFFIXES:
            predictions = read_predictions(
                self.weights, all_images, self.captures, limit=self.limit
            )
            result = score_predictions(predictions)
        else:
            result, poses, evaluation_warnings = self._evaluate(captures, console)
        result = replace(result, names=self._complete_names(result.names))
        slices = slice_errors(result.captures, result.predictions, result.threshold)
        sanity_warnings = (
            *find_sanity_warnings(result.captures, result.predictions),
            find_missing_results_warning(result.predictions)
            if self.weights.suffix in _DETECTION_SUFFIXES
            else None,
        )
        for warning in filter(None, sanity_warnings):
            console.info(warning)
        all_warnings = tuple(filter(None, (*repairs, *evaluation_warnings, *sanity_warnings)))
        title = f"{self.weights.name} on {self.captures.name}"
        verdict = build_verdict(result, all_warnings)
        scores = BenchScores(
            title, self.weights.name, result, tuple(slices), poses, verdict, all_warnings,
            self._suggest_next(),
        )  # fmt: skip
        if self.out is not None:
            write_bench_result(result, slices, verdict, self.out, poses, all_warnings)
            console.info(f"page: {scores.save(self.out.with_suffix('.html'))}")
        return scores

    def _complete_names(self, names: CommandNames) -> CommandNames:
        """Return the names with those of this command; files of detections record their weights."""
        is_file = self.weights.suffix in _DETECTION_SUFFIXES
        weights = names.weights if is_file else str(self.weights)
        return replace(names, weights=weights, images=str(self.captures))

    def _suggest_next(self) -> str:
        """Return the command that writes the page, or compares the written scores with others."""
        if self.out is None:
            return format_command(
                "bench", self.weights, "--captures", self.captures, "--out", "scores.json"
            )
        return format_command(
            "compare", self.out, "OTHER.json", "--captures", self.captures, "--out", "compare.html"
        )

    def _score_unlabelled(self, captures: Dataset, console: Console) -> UnlabelledScores:
        from sim2cam.data.writer import write_json
        from sim2cam.experiments.benchmark import bench_unlabelled

        for name, value in (
            ("--map", self.map),
            ("--ignore-unmatched", self.ignore_unmatched),
            ("--validation", self.validation),
            ("--poses", self.poses),
        ):
            if value:
                raise UsageError(f"{name} requires labels, but {self.captures} has none.")
        detector = self._load_detector()
        with console.show_progress("predicting") as stages:
            result = bench_unlabelled(detector, captures, progress=stages("predicting"))
        console.info(
            f"{self.captures} has no labels, so accuracy cannot be measured. The unsupervised scores "
            "below only rank similar detectors, and may be misleading."
        )
        if self.out is not None:
            write_json(self.out, result.to_json())
            console.info(f"unsupervised scores: {self.out}. Add --overwrite to score again.")
        next_command = format_command("predict", self.weights, self.captures, "--out", "predicted")
        return UnlabelledScores(result, len(detector.card.categories), next_command)

    def _evaluate(
        self, captures: Dataset, console: Console
    ) -> tuple[BenchResult, PoseBenchResult | None, list[str]]:
        """Return the scores, the pose scores and the warnings that were printed."""
        from sim2cam.experiments.benchmark import bench, match_captures
        from sim2cam.experiments.reliability import describe_training_overlap

        detector, category_map = self._load_detector(), parse_category_map(self.map)
        overlap = describe_training_overlap(captures, detector.card)
        messages = [] if overlap is None else [overlap]
        if overlap is not None:
            console.info(f"warning: {overlap}")
        poses, predictions = None, None
        if self.poses is not None:
            match_captures(
                detector,
                captures,
                category_map=category_map,
                ignore_unmatched=self.ignore_unmatched,
            )
            predictions = self._estimate_poses(detector, self.poses, console).predictions
            poses, pose_warnings = self._score_poses(self.poses, console)
            messages += pose_warnings
        with console.show_progress("predicting") as stages:
            result = bench(
                detector,
                captures,
                category_map=category_map,
                ignore_unmatched=self.ignore_unmatched,
                cached_predictions=predictions,
                progress=stages("predicting"),
            )
        return (
            replace(result, tuned=self._score_tuned(detector, captures, console)),
            poses,
            messages,
        )

    def _score_tuned(
        self, detector: AnyDetector, captures: Dataset, console: Console
    ) -> TunedScore | None:
        from sim2cam.data.real_images import read_real_images
        from sim2cam.data.splits import DEV
        from sim2cam.experiments.benchmark import bench_tuned

        if self.validation is None:
            return None
        validation_set = read_real_images(
            self.validation, skip_invalid=self.skip_invalid, roles=DEV
        )
        with console.show_progress("predicting, tuned") as stages:
            return bench_tuned(
                detector,
                validation_set,
                captures,
                category_map=parse_category_map(self.map),
                ignore_unmatched=self.ignore_unmatched,
                progress=stages("predicting, tuned"),
            )

    def _load_detector(self) -> AnyDetector:
        from sim2cam.learn.device import use_threads
        from sim2cam.models.inference.detector import load_detector, set_input_scale
        from sim2cam.models.shipped_weights import resolve_weights

        use_threads(self.workers)
        detector = load_detector(resolve_weights(self.weights), device=self.device)
        return set_input_scale(detector, self.input_scale, multi_scale=self.multi_scale)


@contextmanager
def _repeat_warnings() -> Iterator[list[str]]:
    """Collect the texts of warnings about files, and issue the warnings again at the end."""
    texts: list[str] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", RepairWarning)
            yield texts
    finally:
        for w in caught:
            texts += [str(w.message)] if issubclass(w.category, RepairWarning) else []
            warnings.warn_explicit(w.message, w.category, w.filename, w.lineno)


@dataclass(frozen=True)
class BenchScores(Result):
    """Scores of detections on labelled real images, with 95 % intervals.

    Attributes:
        title: Title of the page.
        name: Name of the detector.
        result: Scores, predictions and images.
        slices: Error rates by object attribute.
        poses: Scores of poses; None without.
        verdict: Findings in words, with what to do.
        warnings: Warnings about images and detections.
        next_command: Command that usually follows.
    """

    title: str
    name: str
    result: BenchResult
    slices: tuple[Slice, ...]
    poses: PoseBenchResult | None
    verdict: Verdict
    warnings: tuple[str, ...]
    next_command: str

    @property
    def next_step(self) -> str:
        """Command that usually follows."""
        return self.next_command

    @property
    def ap50(self) -> float:
        """Average precision at an IoU of 0.5; ``result.score`` has all metrics and intervals."""
        return self.result.score.ap50.value

    def __repr__(self) -> str:
        score = self.result.score
        return f"BenchScores(ap50={self.ap50:.3f}, images={score.images}, objects={score.objects})"

    def save(self, page: str | Path) -> Path:
        """Write the page and return its path."""
        from sim2cam.commands.pages import write_scores_page

        return write_scores_page(
            self.title, self.result, self.slices, self.poses, self.verdict, Path(page)
        )

    def to_json(self) -> dict[str, Any]:
        """Return all scores."""
        result, selection = self.result, self.result.selection
        details: dict[str, Any] = {
            "threshold": result.threshold,
            "reliability": result.reliability.to_json(),
            "selection_scores": None if selection is None else selection.to_json(),
            "slices": [s.to_json() for s in self.slices],
            "warnings": self.warnings,
            "verdict": self.verdict.to_json(),
            "ap50_losses": result.ap_losses.to_json(),
        }
        details |= {} if self.poses is None else {"poses": self.poses.to_json()}
        return result.scores_to_json() | details

    def to_text(self) -> str:
        """Return tables of the scores."""
        result = self.result
        shapes = {"keypoints": result.keypoints, "masks": result.masks}
        scored = {name: score for name, score in shapes.items() if score is not None}
        rows = {self.name: result.score}
        if result.tuned is not None:
            rows[f"tuned on {result.tuned.images} images"] = result.tuned.score
        tables = [self.verdict.to_text() + "\n", format_scores(rows)]
        if result.tuned is not None:
            tables.append(
                f"tuned: input scale {result.tuned.input_scale:.3g}, boxes padded by "
                f"{result.tuned.box_padding:.2%} of the image's longer side"
            )
        if scored:
            tables.append("\n" + format_scores(scored, SHAPE_METRICS))
        if result.segments is not None:
            tables.append("\n" + format_segmentation_scores(result.segments))
        tables.append(format_interval_unit(result.score.intervals_over))
        tables.append(format_reliability(result.reliability))
        if result.selection is not None:
            tables.append("\nwithout labels\n" + format_selection_scores(result.selection))
        tables.append(format_slices(self.slices, result.threshold))
        if self.poses is not None:
            tables.append("\n" + format_pose_scores(self.poses.score))
        return "\n".join(tables)


@dataclass(frozen=True)
class PoseScores(Result):
    """Scores of poses in a BOP dataset."""

    result: PoseBenchResult
    next_command: str

    @property
    def next_step(self) -> str:
        """Command that usually follows."""
        return self.next_command

    def to_json(self) -> dict[str, Any]:
        """Return all scores."""
        return self.result.to_json()

    def to_text(self) -> str:
        """Return a table of the scores."""
        score = self.result.score
        return f"{format_pose_scores(score)}\n{format_interval_unit(score.intervals_over)}"


@dataclass(frozen=True)
class UnlabelledScores(Result):
    """Unsupervised scores of a detector on images without labels."""

    result: UnlabelledResult
    category_count: int
    next_command: str

    @property
    def next_step(self) -> str:
        """Command that usually follows."""
        return self.next_command

    def to_json(self) -> dict[str, Any]:
        """Return all scores."""
        return self.result.to_json()

    def to_text(self) -> str:
        """Return the scores, one per line."""
        table = format_unlabelled_scores(self.result, self.category_count)
        verdict = self.result.verdict.to_text()
        return f"{verdict}\n\n{table}" if verdict else table
