"""Command ``compare``: paired comparison of two runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from sim2cam.commands.bench import SESSIONS_ERROR
from sim2cam.commands.options import (
    Argument,
    OutputOptions,
    Sessions,
    SkipInvalid,
    Split,
    check_inputs,
)
from sim2cam.commands.results import Result
from sim2cam.commands.tables import (
    format_comparisons,
    format_detectable_difference,
    format_interval_unit,
)
from sim2cam.errors import UsageError

if TYPE_CHECKING:
    from sim2cam.experiments.comparison import Comparisons
    from sim2cam.metrics.poses import PoseEvaluator


@dataclass(frozen=True)
class Compare:
    """Compare two runs on the same images.

    Prints paired bootstrap intervals and p-values. Compares boxes, keypoints, masks, semantic segmentation and poses, as far as both runs have them.
    """

    first: Annotated[Path, Argument("FIRST")]
    """Results of the first run: file of bench --out or ablate (predictions/*.json.gz), COCO results, or BOP poses (.csv). Several files (one per seed) are averaged: a folder, or a quoted pattern such as 'RUN/predictions/randomized-?.json.gz'."""
    second: Annotated[Path, Argument("SECOND")]
    """Results of the second run."""
    captures: Path
    """Dataset, COCO file, YOLO, VOC, BOP or KITTI folder, or WebDataset tar files; for poses a BOP dataset, with its meshes for .csv files."""
    sessions: Sessions = None
    split: Split = None
    skip_invalid: SkipInvalid = False
    output: OutputOptions = field(default_factory=OutputOptions)

    def run(self) -> CompareResult:
        """Compare the runs."""
        check_inputs(self.captures)
        first, second = _list_run_files(self.first), _list_run_files(self.second)
        check_inputs(*first, *second)

        from sim2cam.data.formats.predictions import DETECTIONS
        from sim2cam.experiments.comparison import compare_poses, load_pose_runs
        from sim2cam.experiments.pose_scores_file import POSES_KEY, detect_result_kinds

        kinds = [detect_result_kinds(path) for path in (*first, *second)]
        shared, console = set.intersection(*kinds), self.output.make_console()
        if not shared:
            raise UsageError("poses can only be compared with poses.")
        if self.sessions is not None and shared == {POSES_KEY}:
            raise UsageError(SESSIONS_ERROR)
        for kind in sorted(set.union(*kinds) - shared):
            console.info(f"warning: {kind} are not compared; some files contain none.")
        poses = None
        if POSES_KEY in shared:
            poses = load_pose_runs(self.captures, first), load_pose_runs(self.captures, second)
        if DETECTIONS in shared:
            comparisons = self._compare_detections(first, second, poses)
        else:
            assert poses is not None
            comparisons = compare_poses(*poses)
        identical = [p.read_bytes() for p in first] == [p.read_bytes() for p in second]
        return CompareResult(comparisons, identical)

    def _compare_detections(
        self,
        first: Sequence[Path],
        second: Sequence[Path],
        poses: tuple[list[PoseEvaluator], list[PoseEvaluator]] | None,
    ) -> Comparisons:
        from sim2cam.data.formats.predictions import read_predictions
        from sim2cam.data.real_images import read_evaluation_images
        from sim2cam.experiments.comparison import compare_predictions
        from sim2cam.metrics.sanity_warnings import find_sanity_warnings

        captures = read_evaluation_images(
            self.captures,
            session_rule=self.sessions,
            skip_invalid=self.skip_invalid,
            split=self.split,
        )
        first_predictions, second_predictions = (
            [read_predictions(path, captures, self.captures) for path in side]
            for side in (first, second)
        )
        warnings: dict[str, str] = {}  # label warnings are equal for all files: print them once
        for path, predictions in zip(
            (*first, *second), (*first_predictions, *second_predictions), strict=True
        ):
            for warning in find_sanity_warnings(predictions.captures, predictions.detections):
                warnings.setdefault(warning, path.name)
        for warning, name in warnings.items():
            self.output.make_console().info(f"warning: {name}: {warning}")
        return compare_predictions(captures, first_predictions, second_predictions, poses)


@dataclass(frozen=True)
class CompareResult(Result):
    """Scores of two runs and their differences, with p-values.

    Attributes:
        comparisons: Scores and differences by kind and metric.
        is_identical: Whether both runs have the same files.
    """

    comparisons: Comparisons
    is_identical: bool

    def to_json(self) -> dict[str, Any]:
        """Return all differences."""
        return self.comparisons.to_json()

    def to_text(self) -> str:
        """Return tables of the differences."""
        comparisons = self.comparisons
        tables = [
            format_comparisons(comparisons),
            format_interval_unit(comparisons.intervals_over),
            format_detectable_difference(comparisons, is_identical=self.is_identical),
        ]
        return "\n".join(tables)


def _list_run_files(path: Path) -> list[Path]:
    """List the result files of one run, sorted by name."""
    if path.is_dir():
        files = sorted([*path.glob("*.json"), *path.glob("*.json.gz")] or path.glob("*.csv"))
        if not files:
            raise UsageError(
                f"{path} contains no result files. Give a folder with detections (.json) or poses "
                "(.csv), or one file."
            )
        return files
    if {"*", "?"}.isdisjoint(path.name) or path.exists():
        return [path]
    files = sorted(path.parent.glob(path.name))
    if not files:
        raise UsageError(f"no file matches {path}. Check the pattern.")
    return files
