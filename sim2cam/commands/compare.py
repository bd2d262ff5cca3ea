"""Command ``compare``: paired comparison of two runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from sim2cam.commands.bench import SESSIONS_ERROR
from sim2cam.commands.options import (
    Argument,
    Limit,
    OutputOptions,
    Overwrite,
    Sessions,
    SkipInvalid,
    Split,
    check_inputs,
    check_numbers,
    check_output_files,
)
from sim2cam.commands.results import Result, format_command
from sim2cam.commands.tables import (
    format_comparisons,
    format_detectable_difference,
    format_interval_unit,
)
from sim2cam.errors import UsageError

if TYPE_CHECKING:
    from sim2cam.data.formats.predictions import LoadedPredictions
    from sim2cam.experiments.comparison import Comparisons, DetectionRuns


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
    out: Path | None = None
    """Output page (.html) with the differences by category and size, and the images that differ most."""
    sessions: Sessions = None
    limit: Limit = None
    overwrite: Overwrite = False
    split: Split = None
    skip_invalid: SkipInvalid = False
    output: OutputOptions = field(default_factory=OutputOptions)

    def run(self) -> CompareResult:
        """Compare the runs."""
        check_numbers(limit=self.limit)
        check_inputs(self.captures)
        first, second = _list_run_files(self.first), _list_run_files(self.second)
        check_inputs(*first, *second)
        if self.out is not None:
            if self.out.suffix != ".html":
                raise UsageError(f"--out {self.out} must end in .html.")
            inputs = (*first, *second, self.captures)
            check_output_files(self.out, overwrite=self.overwrite, inputs=inputs)

        from sim2cam.data.formats.predictions import DETECTIONS
        from sim2cam.experiments.comparison import (
            compare_poses,
            compare_predictions,
            load_pose_runs,
        )
        from sim2cam.experiments.pose_scores_file import POSES_KEY, detect_result_kinds

        kinds = [detect_result_kinds(path) for path in (*first, *second)]
        shared, console = set.intersection(*kinds), self.output.make_console()
        if not shared:
            raise UsageError("poses can only be compared with poses.")
        if self.sessions is not None and shared == {POSES_KEY}:
            raise UsageError(SESSIONS_ERROR)
        for kind in sorted(set.union(*kinds) - shared):
            console.info(f"warning: {kind} are not compared; some files contain none.")
        poses, runs, warnings = None, None, list[str]()
        if POSES_KEY in shared:
            poses = (
                load_pose_runs(self.captures, first, self.limit),
                load_pose_runs(self.captures, second, self.limit),
            )
        if DETECTIONS in shared:
            runs = self._read_detections(first, second)
            warnings = _find_warnings((*first, *second), (*runs.first, *runs.second))
            for warning in warnings:
                console.info(f"warning: {warning}")
            comparisons = compare_predictions(*runs, poses)
        else:
            assert poses is not None
            comparisons = compare_poses(*poses)
        is_identical = [p.read_bytes() for p in first] == [p.read_bytes() for p in second]
        if self.out is not None:
            from sim2cam.commands.comparison_page import write_page

            names = _shorten_names(self.first, self.second)
            write_page(
                comparisons, runs, names, warnings, self.out, is_identical=is_identical
            )  # fmt: skip
        return CompareResult(comparisons, is_identical, self.out, self._suggest_next(comparisons))

    def _read_detections(self, first: Sequence[Path], second: Sequence[Path]) -> DetectionRuns:
        from sim2cam.data.formats.predictions import read_predictions
        from sim2cam.data.real_images import read_evaluation_images
        from sim2cam.experiments.comparison import DetectionRuns

        captures = read_evaluation_images(
            self.captures,
            session_rule=self.sessions,
            skip_invalid=self.skip_invalid,
            split=self.split,
        )
        return DetectionRuns(
            captures.take(self.limit),
            *(
                [read_predictions(path, captures, self.captures, limit=self.limit) for path in side]
                for side in (first, second)
            ),
        )

    def _suggest_next(self, comparisons: Comparisons) -> str:
        """Return the command that writes the page, or the one that shows the errors of a better run."""
        from sim2cam.metrics.power import SIGNIFICANCE

        if self.out is None:
            words = self.first, self.second, "--captures", self.captures
            limit = () if self.limit is None else ("--limit", str(self.limit))
            return format_command("compare", *words, *limit, "--out", "compare.html")
        comparison = comparisons.kinds.get("boxes", {}).get("ap50")
        if comparison is None or comparison.p_holm >= SIGNIFICANCE:
            return ""
        better = self.first if comparison.difference.value > 0 else self.second
        file = _list_run_files(better)[0]
        return format_command("bench", file, "--captures", self.captures, "--out", "better.json")


@dataclass(frozen=True)
class CompareResult(Result):
    """Scores of two runs and their differences, with p-values.

    Attributes:
        comparisons: Scores and differences by kind and metric.
        is_identical: Whether both runs have the same files.
        page: File of the page; None without.
        next_command: Command that usually follows; empty without any.
    """

    comparisons: Comparisons
    is_identical: bool
    page: Path | None
    next_command: str

    @property
    def next_step(self) -> str:
        """Command that usually follows."""
        return self.next_command

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

    def summary(self) -> str:
        """Return the path of the page."""
        return f"page: {self.page}" if self.page else ""


def _find_warnings(paths: Sequence[Path], runs: Sequence[LoadedPredictions]) -> list[str]:
    """Return the warnings on all files; those on labels, which are equal for all, once."""
    from sim2cam.metrics.sanity_warnings import find_sanity_warnings

    names: dict[str, str] = {}
    for path, run in zip(paths, runs, strict=True):
        for warning in find_sanity_warnings(run.captures, run.detections):
            names.setdefault(warning, path.name)
    return [f"{name}: {warning}" for warning, name in names.items()]


def _shorten_names(first: Path, second: Path) -> tuple[str, str]:
    """Return the file names of two runs, or their paths if the names are equal."""
    return (first.name, second.name) if first.name != second.name else (str(first), str(second))


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
