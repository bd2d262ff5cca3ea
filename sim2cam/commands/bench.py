"""Commands that score detectors on labelled captures, and compare them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from sim2cam.commands.console import Console
from sim2cam.commands.options import (
    OutputOptions,
    Overwrite,
    Refine,
    Sessions,
    SkipInvalid,
    Split,
    check_numbers,
    check_output_files,
    parse_category_map,
)
from sim2cam.commands.tables import (
    format_comparisons,
    format_detectable_difference,
    format_interval_unit,
    format_pose_scores,
    format_reliability,
    format_scores,
    format_segmentation_scores,
    format_selection_scores,
    format_slices,
    format_unlabelled_scores,
)
from sim2cam.errors import UsageError
from sim2cam.metrics.names import SHAPE_METRICS

if TYPE_CHECKING:
    from sim2cam.data.sample import Dataset
    from sim2cam.experiments.benchmark import BenchResult
    from sim2cam.experiments.comparison import Comparisons
    from sim2cam.experiments.pose_benchmark import PoseBenchResult, PosePredictions
    from sim2cam.metrics.poses import PoseEvaluator
    from sim2cam.models.inference.detector import AnyDetector

_DETECTION_SUFFIXES = (".json", ".gz")  # the second of ablate
_SESSIONS_ERROR = "--sessions is for detections; intervals of poses are over the scenes of BOP."


@dataclass(frozen=True)
class Bench:
    """Score a detector, or what one found, on labelled captures."""

    weights: Annotated[
        tyro.conf.Positional[Path], tyro.conf.arg(metavar="WEIGHTS|DETECTIONS|POSES")
    ]
    """Weights: a file (.safetensors) or the name of some that ship; detections (.json): those of --out, of
    ablate (predictions/*.json.gz), or results of COCO or BOP; or poses as BOP has them since 2019 (.csv)."""
    captures: Path
    """A data set, a COCO file, a folder of YOLO, VOC, BOP or KITTI, or tar files of WebDataset. In one of
    BOP, its test targets count: whole objects of which a tenth is seen. Poses need its meshes too. Of
    captures without labels, weights get the scores that need none."""
    out: Path | None = None
    """File (.json) for the scores and the errors in every image, and of detections themselves; beside it comes a
    page (.html) that shows what is wrong."""
    poses: Path | None = None
    """File (.csv) for the poses that weights find in a data set of BOP; they are scored too."""
    refine: Refine = None
    map: Annotated[tuple[str, ...], tyro.conf.arg(metavar="[REAL=SIM ...]")] = ()
    """For categories whose names differ."""
    ignore_unmatched: bool = False
    """Leave out objects of categories that the detector does not know."""
    sessions: Sessions = None
    limit: int | None = None
    """Read only so many captures."""
    device: str = "cpu"
    """cpu, cuda or cuda:0."""
    workers: int = os.cpu_count() or 1
    """Threads."""
    overwrite: Overwrite = False
    split: Split = None
    skip_invalid: SkipInvalid = False
    output: OutputOptions = field(default_factory=OutputOptions)

    def execute(self) -> None:
        """Print the scores."""
        check_numbers(workers=self.workers, limit=self.limit)
        if self.out is not None and self.out.suffix != ".json":  # or it could not be scored again
            raise UsageError(f"--out {self.out} must be a file that ends in .json.")
        if self.out is not None:
            files = self.out, self.out.with_suffix(".html")
            check_output_files(
                *files, overwrite=self.overwrite, inputs=[self.weights, self.captures]
            )
        if self.weights.suffix in (*_DETECTION_SUFFIXES, ".csv") and (
            self.map or self.ignore_unmatched
        ):
            raise UsageError(
                "--map and --ignore-unmatched are for weights; what was found names categories."
            )
        self._check_pose_flags()
        if self.split is not None and (self.poses or self.weights.suffix == ".csv"):
            raise UsageError("--split is for detections; poses are of the images that BOP lists.")
        if self.sessions is not None and self.weights.suffix == ".csv":
            raise UsageError(_SESSIONS_ERROR)
        if self.weights.suffix == ".csv":
            self._score_pose_file()
        else:
            self._score_detections()

    def _check_pose_flags(self) -> None:
        if self.poses is None:
            if self.refine is not None:
                raise UsageError("--refine is for poses. Name a file for them with --poses.")
            return
        if self.weights.suffix in (*_DETECTION_SUFFIXES, ".csv"):
            raise UsageError("--poses is for weights; what was found is there already.")
        if self.poses.suffix != ".csv":
            raise UsageError(f"--poses {self.poses} must be a file that ends in .csv.")
        check_output_files(self.poses, overwrite=self.overwrite)

    def _score_pose_file(self) -> None:
        from sim2cam.experiments.pose_scores_file import write_pose_result

        console = self.output.make_console()
        found = self._score_poses(self.weights, console)
        if self.out is not None:
            write_pose_result(found, self.out)
        if self.output.json:
            console.print_json(found.to_json())
        else:
            console.print_text(format_pose_scores(found.score))
            console.print_text(format_interval_unit(found.score.intervals_over))

    def _score_poses(self, path: Path, console: Console) -> PoseBenchResult:
        from sim2cam.experiments.pose_benchmark import bench_poses, read_pose_task

        task = read_pose_task(self.captures, limit=self.limit)
        found = bench_poses(path, task, progress=console.start_progress("scoring"))
        if found.ignored_count:
            console.info(
                f"{found.ignored_count} poses are of nothing that is sought, or too many of it."
            )
        if found.images_without_poses:
            console.info(
                f"there is no pose in {found.images_without_poses} of {len(found.views)} images: what they show counts as missed."
            )
        if found.in_metres:
            console.info(
                "warning: poses lie as near as if metres had been written. BOP has t in millimetres."
            )
        if 0 < task.depth_count < len(task.views):
            console.info(
                f"VSD is not scored: {task.depth_count} of {len(task.views)} images have depth, and it takes all."
            )
        return found

    def _estimate_poses(
        self, detector: AnyDetector, path: Path, console: Console
    ) -> PosePredictions:
        from sim2cam.data.formats.bop.poses import write_pose_results
        from sim2cam.experiments.object_meshes import read_meshes
        from sim2cam.experiments.pose_benchmark import estimate_poses
        from sim2cam.models.inference.poses import NO_MESHES, check_poses

        check_poses(detector)
        objects = detector.card.objects
        found = estimate_poses(
            detector,
            self.captures,
            category_map=parse_category_map(self.map),
            meshes=read_meshes(self.refine, objects) if self.refine else NO_MESHES,
            limit=self.limit,
            progress=console.start_progress("placing"),
        )
        write_pose_results(found.poses, path)
        return found

    def _score_detections(self) -> None:
        from sim2cam.data.formats.predictions import read_predictions
        from sim2cam.data.real_images import check_images_readable, read_evaluation_images
        from sim2cam.experiments.benchmark import score_predictions, write_bench_result
        from sim2cam.experiments.object_slices import slice_errors
        from sim2cam.metrics.error_analysis import (
            find_missing_results_warning,
            find_sanity_warnings,
        )

        console, poses, learned = self.output.make_console(), None, None
        everything = read_evaluation_images(
            self.captures,
            session_rule=self.sessions,
            skip_invalid=self.skip_invalid,
            split=self.split,
        )
        captures = everything.take(self.limit)
        if self.weights.suffix not in _DETECTION_SUFFIXES:
            check_images_readable(captures)
        is_labelled = any(sample.objects is not None for sample in captures.samples)
        if self.weights.suffix not in _DETECTION_SUFFIXES and captures.samples and not is_labelled:
            self._score_unlabelled(captures, console)
            return
        if self.weights.suffix in _DETECTION_SUFFIXES:
            found = read_predictions(self.weights, everything, self.captures, limit=self.limit)
            result = score_predictions(found)
        else:
            result, poses, learned = self._evaluate(captures, console)
        slices = slice_errors(result.captures, result.predictions, result.threshold)
        sizes = result.reliability.size_fit
        odd = (
            *find_sanity_warnings(result.captures, result.predictions),
            find_missing_results_warning(result.predictions)
            if self.weights.suffix in _DETECTION_SUFFIXES
            else None,
            None if sizes is None else sizes.warning,
        )
        for words in filter(None, odd):
            console.info(words)
        warnings = tuple(filter(None, (learned, *odd)))
        if self.out is not None:
            from sim2cam.commands.pages import write_scores_page

            write_bench_result(result, slices, self.out, poses, warnings)
            title = f"{self.weights.name} on {self.captures.name}"
            page = write_scores_page(
                title, result, slices, poses, warnings, self.out.with_suffix(".html")
            )
            console.info(f"page: {page}")
        if self.output.json:
            selection = result.selection
            facts: dict[str, Any] = {
                "threshold": result.threshold,
                "reliability": result.reliability.to_json(),
                "selection_scores": None if selection is None else selection.to_json(),
                "slices": [s.to_json() for s in slices],
                "warnings": warnings,
            }
            facts |= {} if poses is None else {"poses": poses.to_json()}
            console.print_json(result.scores_to_json() | facts)
        else:
            console.print_text(format_scores({self.weights.name: result.score}))
            _print_shape_scores(result, console)
            console.print_text(format_interval_unit(result.score.intervals_over))
            console.print_text(format_reliability(result.reliability))
            if result.selection is not None:
                console.print_text("\nwithout labels\n" + format_selection_scores(result.selection))
            console.print_text(format_slices(slices, result.threshold))
            if poses is not None:
                console.print_text("\n" + format_pose_scores(poses.score))

    def _score_unlabelled(self, captures: Dataset, console: Console) -> None:
        """Say what there is to say of a detector without labels."""
        from sim2cam.data.writer import write_json
        from sim2cam.experiments.benchmark import bench_unlabelled

        if self.map or self.ignore_unmatched:
            raise UsageError(
                f"--map and --ignore-unmatched are for labels, and {self.captures} has none."
            )
        detector = self._load_detector()
        found = bench_unlabelled(detector, captures, progress=console.start_progress("predicting"))
        console.info(
            f"{self.captures} has no labels: nothing tells whether what was found is right. The scores "
            "below rank detectors of one kind, and may be wrong."
        )
        if self.out is not None:
            write_json(self.out, found.to_json())
        if self.output.json:
            console.print_json(found.to_json())
        else:
            console.print_text(format_unlabelled_scores(found, len(detector.card.categories)))

    def _evaluate(
        self, captures: Dataset, console: Console
    ) -> tuple[BenchResult, PoseBenchResult | None, str | None]:
        """Return how good the detector is, its poses, and why the scores tell nothing, if they do not."""
        from sim2cam.experiments.benchmark import bench, match_captures
        from sim2cam.experiments.reliability import describe_training_overlap

        detector, renamed = self._load_detector(), parse_category_map(self.map)
        warning = describe_training_overlap(captures, detector.card)
        if warning is not None:
            console.info(f"warning: {warning}")
        poses, known = None, None
        if self.poses is not None:
            match_captures(
                detector, captures, category_map=renamed, ignore_unmatched=self.ignore_unmatched
            )
            known = self._estimate_poses(detector, self.poses, console).predictions
            poses = self._score_poses(self.poses, console)
        found = bench(
            detector,
            captures,
            category_map=renamed,
            ignore_unmatched=self.ignore_unmatched,
            cached_predictions=known,
            progress=console.start_progress("predicting"),
        )
        return found, poses, warning

    def _load_detector(self) -> AnyDetector:
        from sim2cam.learn.device import use_threads
        from sim2cam.models.inference.detector import load_detector
        from sim2cam.pipeline.verifiers import resolve_weights

        use_threads(self.workers)
        return load_detector(resolve_weights(self.weights), device=self.device)


@dataclass(frozen=True)
class Compare:
    """Say how much better one run is than another on the same captures, and how sure that is.

    Boxes are compared, keypoints, masks, pixels of categories and poses where both runs have some.
    """

    first: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FIRST")]
    """What it found: a file of bench --out, of ablate (predictions/*.json.gz), of COCO results or of poses as
    BOP has them (.csv); or several, as one a seed, of which the mean counts: a folder of them, or a pattern
    of names in quotes, as 'RUN/predictions/randomized-?.json.gz'."""
    second: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="SECOND")]
    """What the other found."""
    captures: Path
    """A data set, a COCO file, a folder of YOLO, VOC, BOP or KITTI, or tar files of WebDataset; of poses,
    one of BOP, for .csv files with its meshes."""
    sessions: Sessions = None
    split: Split = None
    skip_invalid: SkipInvalid = False
    output: OutputOptions = field(default_factory=OutputOptions)

    def execute(self) -> None:
        """Print both, the differences and their p-values."""
        from sim2cam.data.formats.predictions import DETECTIONS
        from sim2cam.experiments.comparison import compare_poses, load_pose_runs
        from sim2cam.experiments.pose_scores_file import POSES_KEY, detect_result_kinds

        first, second = _list_run_files(self.first), _list_run_files(self.second)
        held = [detect_result_kinds(path) for path in (*first, *second)]
        shared, console = set.intersection(*held), self.output.make_console()
        if not shared:
            raise UsageError("poses can only be compared with poses.")
        if self.sessions is not None and shared == {POSES_KEY}:
            raise UsageError(_SESSIONS_ERROR)
        for kind in sorted(set.union(*held) - shared):
            console.info(f"warning: {kind} are not compared, as not all files hold some.")
        poses = None
        if POSES_KEY in shared:
            poses = load_pose_runs(self.captures, first), load_pose_runs(self.captures, second)
        if DETECTIONS in shared:
            found = self._compare_detections(first, second, poses)
        else:
            assert poses is not None  # there is nothing else
            found = compare_poses(*poses)
        if self.output.json:
            console.print_json(found.to_json())
            return
        console.print_text(format_comparisons(found))
        console.print_text(format_interval_unit(found.intervals_over))
        identical = [p.read_bytes() for p in first] == [p.read_bytes() for p in second]
        console.print_text(format_detectable_difference(found, is_identical=identical))

    def _compare_detections(
        self,
        first: Sequence[Path],
        second: Sequence[Path],
        poses: tuple[list[PoseEvaluator], list[PoseEvaluator]] | None,
    ) -> Comparisons:
        from sim2cam.data.formats.predictions import read_predictions
        from sim2cam.data.real_images import read_evaluation_images
        from sim2cam.experiments.comparison import compare_predictions
        from sim2cam.metrics.error_analysis import find_sanity_warnings

        captures = read_evaluation_images(
            self.captures,
            session_rule=self.sessions,
            skip_invalid=self.skip_invalid,
            split=self.split,
        )
        ours, theirs = (
            [read_predictions(path, captures, self.captures) for path in side]
            for side in (first, second)
        )
        odd: dict[str, str] = {}  # of labels, all files are told the same
        for path, found in zip((*first, *second), (*ours, *theirs), strict=True):
            for words in find_sanity_warnings(found.captures, found.detections):
                odd.setdefault(words, path.name)
        for words, name in odd.items():
            self.output.make_console().info(f"warning: {name}: {words}")
        return compare_predictions(captures, ours, theirs, poses)


def _print_shape_scores(result: BenchResult, console: Console) -> None:
    """Print how good keypoints, masks and pixels of categories are, where that was scored."""
    shapes = {"keypoints": result.keypoints, "masks": result.masks}
    scored = {name: score for name, score in shapes.items() if score is not None}
    if scored:
        console.print_text("\n" + format_scores(scored, SHAPE_METRICS))
    if result.segments is not None:
        console.print_text("\n" + format_segmentation_scores(result.segments))


def _list_run_files(path: Path) -> list[Path]:
    """Return the files of one side of a comparison, in the order of their names."""
    if path.is_dir():
        found = [*path.glob("*.json"), *path.glob("*.json.gz")] or path.glob("*.csv")
        files = sorted(found)
        if not files:
            raise UsageError(
                f"{path} holds no .json file. Name a folder of detections or poses (.csv), or one file."
            )
        return files
    if {"*", "?"}.isdisjoint(path.name) or path.exists():
        return [path]
    files = sorted(path.parent.glob(path.name))
    if not files:
        raise UsageError(f"no file is called {path}. Check the pattern.")
    return files
