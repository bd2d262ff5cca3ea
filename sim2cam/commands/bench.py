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
    Overwrite,
    Refine,
    Sessions,
    SkipInvalid,
    Split,
    Talk,
    category_pairs,
    check_new,
    check_numbers,
)
from sim2cam.commands.tables import (
    comparison_tables,
    detectable_words,
    over_words,
    pose_table,
    score_table,
    segment_table,
    selection_words,
    slice_table,
    trust_words,
    unlabelled_words,
)
from sim2cam.errors import UsageError
from sim2cam.metrics.names import SHAPE_METRICS

if TYPE_CHECKING:
    from sim2cam.data.sample import Dataset
    from sim2cam.experiments.benchmark import BenchResult
    from sim2cam.experiments.comparison import Comparisons
    from sim2cam.experiments.pose_benchmark import PoseBench, PosesFound
    from sim2cam.metrics.poses import PoseRun
    from sim2cam.models.inference.detector import AnyDetector

_DETECTIONS = (".json", ".gz")  # the second of a ladder
_NO_SESSIONS = "--sessions is for detections; intervals of poses are over the scenes of BOP."


@dataclass(frozen=True)
class Bench:
    """Score a detector, or what one found, on labelled captures."""

    weights: Annotated[
        tyro.conf.Positional[Path], tyro.conf.arg(metavar="WEIGHTS|DETECTIONS|POSES")
    ]
    """Weights: a file (.safetensors) or the name of some that ship; detections (.json): those of --out, of a
    ladder (predictions/*.json.gz), or results of COCO or BOP; or poses as BOP has them since 2019 (.csv)."""
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
    ignore: bool = False
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
    talk: Talk = field(default_factory=Talk)

    def execute(self) -> None:
        """Prints the scores."""
        check_numbers(workers=self.workers, limit=self.limit)
        if self.out is not None and self.out.suffix != ".json":  # or it could not be scored again
            raise UsageError(f"--out {self.out} must be a file that ends in .json.")
        if self.out is not None:
            files = self.out, self.out.with_suffix(".html")
            check_new(*files, overwrite=self.overwrite, inputs=[self.weights, self.captures])
        if self.weights.suffix in (*_DETECTIONS, ".csv") and (self.map or self.ignore):
            raise UsageError("--map and --ignore are for weights; what was found names categories.")
        self._check_poses()
        if self.split is not None and (self.poses or self.weights.suffix == ".csv"):
            raise UsageError("--split is for detections; poses are of the images that BOP lists.")
        if self.sessions is not None and self.weights.suffix == ".csv":
            raise UsageError(_NO_SESSIONS)
        if self.weights.suffix == ".csv":
            self._score_file()
        else:
            self._score_detections()

    def _check_poses(self) -> None:
        if self.poses is None:
            if self.refine is not None:
                raise UsageError("--refine is for poses. Name a file for them with --poses.")
            return
        if self.weights.suffix in (*_DETECTIONS, ".csv"):
            raise UsageError("--poses is for weights; what was found is there already.")
        if self.poses.suffix != ".csv":
            raise UsageError(f"--poses {self.poses} must be a file that ends in .csv.")
        check_new(self.poses, overwrite=self.overwrite)

    def _score_file(self) -> None:
        from sim2cam.experiments.pose_scores_file import write_pose_bench

        console = self.talk.console()
        found = self._score_poses(self.weights, console)
        if self.out is not None:
            write_pose_bench(found, self.out)
        if self.talk.json:
            console.result(found.to_json())
        else:
            console.table(pose_table(found.score))
            console.table(over_words(found.score.intervals_over))

    def _score_poses(self, path: Path, console: Console) -> PoseBench:
        from sim2cam.experiments.pose_benchmark import bench_poses, read_task

        task = read_task(self.captures, limit=self.limit)
        found = bench_poses(path, task, progress=console.progress("scoring"))
        if found.left_out:
            console.say(f"{found.left_out} poses are of nothing that is sought, or too many of it.")
        if found.empty:
            console.say(
                f"there is no pose in {found.empty} of {len(found.views)} images: what they show counts as missed."
            )
        if found.in_metres:
            console.say(
                "warning: poses lie as near as if metres had been written. BOP has t in millimetres."
            )
        if 0 < task.with_depth < len(task.views):
            console.say(
                f"VSD is not scored: {task.with_depth} of {len(task.views)} images have depth, and it takes all."
            )
        return found

    def _find_poses(self, detector: AnyDetector, path: Path, console: Console) -> PosesFound:
        from sim2cam.data.formats.bop.poses import write_pose_results
        from sim2cam.experiments.object_meshes import read_shapes
        from sim2cam.experiments.pose_benchmark import estimate_poses
        from sim2cam.models.inference.poses import NO_SHAPES, check_poses

        check_poses(detector)
        objects = detector.card.objects
        found = estimate_poses(
            detector,
            self.captures,
            renamed=category_pairs(self.map),
            shapes=read_shapes(self.refine, objects) if self.refine else NO_SHAPES,
            limit=self.limit,
            progress=console.progress("placing"),
        )
        write_pose_results(found.poses, path)
        return found

    def _score_detections(self) -> None:
        from sim2cam.data.formats.predictions import read_predictions
        from sim2cam.data.real_images import check_readable, read_scored
        from sim2cam.experiments.benchmark import score_predictions, write_bench
        from sim2cam.experiments.object_slices import slice_errors
        from sim2cam.metrics.error_analysis import empty_warning, oddities

        console, poses, learned = self.talk.console(), None, None
        everything = read_scored(
            self.captures, sessions=self.sessions, skip_invalid=self.skip_invalid, split=self.split
        )
        captures = everything.take(self.limit)
        if self.weights.suffix not in _DETECTIONS:
            check_readable(captures)
        is_labelled = any(sample.objects is not None for sample in captures.samples)
        if self.weights.suffix not in _DETECTIONS and captures.samples and not is_labelled:
            self._judge_unlabelled(captures, console)
            return
        if self.weights.suffix in _DETECTIONS:
            found = read_predictions(self.weights, everything, self.captures, limit=self.limit)
            result = score_predictions(found)
        else:
            result, poses, learned = self._bench(captures, console)
        slices = slice_errors(result.captures, result.predictions, result.threshold)
        sizes = result.trust.sizes
        odd = (
            *oddities(result.captures, result.predictions),
            empty_warning(result.predictions) if self.weights.suffix in _DETECTIONS else None,
            None if sizes is None else sizes.warning,
        )
        for words in filter(None, odd):
            console.say(words)
        warnings = tuple(filter(None, (learned, *odd)))
        if self.out is not None:
            from sim2cam.commands.pages import write_scores_page

            write_bench(result, slices, self.out, poses, warnings)
            title = f"{self.weights.name} on {self.captures.name}"
            page = write_scores_page(
                title, result, slices, poses, warnings, self.out.with_suffix(".html")
            )
            console.say(f"page: {page}")
        if self.talk.json:
            selection = result.selection
            facts: dict[str, Any] = {
                "threshold": result.threshold,
                "trust": result.trust.to_json(),
                "selection": None if selection is None else selection.to_json(),
                "slices": [s.to_json() for s in slices],
                "warnings": warnings,
            }
            facts |= {} if poses is None else {"poses": poses.to_json()}
            console.result(result.scores_json() | facts)
        else:
            console.table(score_table({self.weights.name: result.score}))
            _tell_shapes(result, console)
            console.table(over_words(result.score.intervals_over))
            console.table(trust_words(result.trust))
            if result.selection is not None:
                console.table("\nwithout labels\n" + selection_words(result.selection))
            console.table(slice_table(slices, result.threshold))
            if poses is not None:
                console.table("\n" + pose_table(poses.score))

    def _judge_unlabelled(self, captures: Dataset, console: Console) -> None:
        """Says what there is to say of a detector without labels."""
        from sim2cam.data.writer import write_json
        from sim2cam.experiments.benchmark import bench_unlabelled

        if self.map or self.ignore:
            raise UsageError(f"--map and --ignore are for labels, and {self.captures} has none.")
        detector = self._detector()
        found = bench_unlabelled(detector, captures, progress=console.progress("predicting"))
        console.say(
            f"{self.captures} has no labels: nothing tells whether what was found is right. The scores "
            "below rank detectors of one kind, and may be wrong."
        )
        if self.out is not None:
            write_json(self.out, found.to_json())
        if self.talk.json:
            console.result(found.to_json())
        else:
            console.table(unlabelled_words(found, len(detector.card.categories)))

    def _bench(
        self, captures: Dataset, console: Console
    ) -> tuple[BenchResult, PoseBench | None, str | None]:
        """Returns how good the detector is, its poses, and why the scores tell nothing, if they do not."""
        from sim2cam.experiments.benchmark import bench, match_captures
        from sim2cam.experiments.reliability import learned_warning

        detector, renamed = self._detector(), category_pairs(self.map)
        warning = learned_warning(captures, detector.card)
        if warning is not None:
            console.say(f"warning: {warning}")
        poses, known = None, None
        if self.poses is not None:
            match_captures(detector, captures, renamed=renamed, ignore_unmatched=self.ignore)
            known = self._find_poses(detector, self.poses, console).seen
            poses = self._score_poses(self.poses, console)
        found = bench(
            detector,
            captures,
            renamed=renamed,
            ignore_unmatched=self.ignore,
            known=known,
            progress=console.progress("predicting"),
        )
        return found, poses, warning

    def _detector(self) -> AnyDetector:
        from sim2cam.learn.device import use_threads
        from sim2cam.models.inference.detector import load_detector
        from sim2cam.pipeline.verifiers import weights_file

        use_threads(self.workers)
        return load_detector(weights_file(self.weights), device=self.device)


@dataclass(frozen=True)
class Compare:
    """Say how much better one run is than another on the same captures, and how sure that is.

    Boxes are compared, keypoints, masks, pixels of categories and poses where both runs have some.
    """

    first: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FIRST")]
    """What it found: a file of bench --out, of a ladder (predictions/*.json.gz), of COCO results or of poses as
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
    talk: Talk = field(default_factory=Talk)

    def execute(self) -> None:
        """Prints both, the differences and their p-values."""
        from sim2cam.data.formats.predictions import DETECTIONS
        from sim2cam.experiments.comparison import compare_poses, pose_runs
        from sim2cam.experiments.pose_scores_file import POSES, kinds_held

        first, second = _files(self.first), _files(self.second)
        held = [kinds_held(path) for path in (*first, *second)]
        shared, console = set.intersection(*held), self.talk.console()
        if not shared:
            raise UsageError("poses can only be compared with poses.")
        if self.sessions is not None and shared == {POSES}:
            raise UsageError(_NO_SESSIONS)
        for kind in sorted(set.union(*held) - shared):
            console.say(f"warning: {kind} are not compared, as not all files hold some.")
        poses = None
        if POSES in shared:
            poses = pose_runs(self.captures, first), pose_runs(self.captures, second)
        if DETECTIONS in shared:
            found = self._found(first, second, poses)
        else:
            assert poses is not None  # there is nothing else
            found = compare_poses(*poses)
        if self.talk.json:
            console.result(found.to_json())
            return
        console.table(comparison_tables(found))
        console.table(over_words(found.intervals_over))
        identical = [p.read_bytes() for p in first] == [p.read_bytes() for p in second]
        console.table(detectable_words(found, identical=identical))

    def _found(
        self,
        first: Sequence[Path],
        second: Sequence[Path],
        poses: tuple[list[PoseRun], list[PoseRun]] | None,
    ) -> Comparisons:
        from sim2cam.data.formats.predictions import read_predictions
        from sim2cam.data.real_images import read_scored
        from sim2cam.experiments.comparison import compare_predictions
        from sim2cam.metrics.error_analysis import oddities

        captures = read_scored(
            self.captures, sessions=self.sessions, skip_invalid=self.skip_invalid, split=self.split
        )
        ours, theirs = (
            [read_predictions(path, captures, self.captures) for path in side]
            for side in (first, second)
        )
        odd: dict[str, str] = {}  # of labels, all files are told the same
        for path, found in zip((*first, *second), (*ours, *theirs), strict=True):
            for words in oddities(found.captures, found.detections):
                odd.setdefault(words, path.name)
        for words, name in odd.items():
            self.talk.console().say(f"warning: {name}: {words}")
        return compare_predictions(captures, ours, theirs, poses)


def _tell_shapes(result: BenchResult, console: Console) -> None:
    """Prints how good keypoints, masks and pixels of categories are, where that was scored."""
    shapes = {"keypoints": result.keypoints, "masks": result.masks}
    scored = {name: score for name, score in shapes.items() if score is not None}
    if scored:
        console.table("\n" + score_table(scored, SHAPE_METRICS))
    if result.segments is not None:
        console.table("\n" + segment_table(result.segments))


def _files(side: Path) -> list[Path]:
    """Returns the files of one side of a comparison, in the order of their names."""
    if side.is_dir():
        found = [*side.glob("*.json"), *side.glob("*.json.gz")] or side.glob("*.csv")
        files = sorted(found)
        if not files:
            raise UsageError(
                f"{side} holds no .json file. Name a folder of detections or poses (.csv), or one file."
            )
        return files
    if {"*", "?"}.isdisjoint(side.name) or side.exists():
        return [side]
    files = sorted(side.parent.glob(side.name))
    if not files:
        raise UsageError(f"no file is called {side}. Check the pattern.")
    return files
