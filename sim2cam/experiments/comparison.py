"""Comparing runs on the same captures: boxes, keypoints, masks, pixels and poses, with one correction for all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sim2cam.data.formats.bop.poses import read_pose_results
from sim2cam.data.formats.predictions import Found
from sim2cam.data.matching import Matching
from sim2cam.data.sample import Dataset
from sim2cam.data.set_operations import whole_boxes
from sim2cam.errors import InputError
from sim2cam.experiments.benchmark import has_keypoints, labelled_masks
from sim2cam.experiments.pose_benchmark import read_task, sought_in
from sim2cam.experiments.pose_scores_file import POSES, read_pose_run
from sim2cam.metrics.bootstrap import Difference, Estimate, holm, mean_of_seeds
from sim2cam.metrics.detection import (
    MatchedRun,
    Run,
    compare,
    mean_estimate,
    resampled_scores,
)
from sim2cam.metrics.keypoints import match_keypoints
from sim2cam.metrics.masks import Masks, match_masks
from sim2cam.metrics.names import BOX_METRICS, POSE_METRICS, SEGMENT_METRICS, SHAPE_METRICS
from sim2cam.metrics.poses import PoseRun, judge_poses
from sim2cam.metrics.resampling import over_runs
from sim2cam.metrics.segmentation import SegmentRun, check_counted
from sim2cam.seeds import stream


@dataclass(frozen=True)
class Comparison:
    """Two runs on the same captures, by one metric.

    Attributes:
        first, second: each with its 95 % interval.
        difference: first minus second, on the same resamples.
        p_holm: two-sided p-value, with Holm's correction for all metrics compared.
    """

    first: Estimate
    second: Estimate
    difference: Difference
    p_holm: float

    def to_json(self) -> dict[str, Any]:
        """Returns all of it as JSON values."""
        return {
            "first": self.first.to_json(),
            "second": self.second.to_json(),
            "difference": self.difference.to_json() | {"p_holm": self.p_holm},
        }


@dataclass(frozen=True)
class Comparisons:
    """All that two runs, or groups of them, were compared by.

    Attributes:
        kinds: by ``boxes``, ``keypoints``, ``masks``, ``segments`` or ``poses``, the comparisons by their metrics.
        intervals_over: what was drawn again for the intervals, in words.
    """

    kinds: Mapping[str, Mapping[str, Comparison]]
    intervals_over: str

    def to_json(self) -> dict[str, Any]:
        """Returns all of it as JSON values; boxes and poses stand above the others, as in ``bench``."""
        kinds = {
            kind: {metric: one.to_json() for metric, one in found.items()}
            for kind, found in self.kinds.items()
        }
        first, *more = kinds
        return {
            **kinds[first],
            **{kind: kinds[kind] for kind in more},
            "intervals_over": self.intervals_over,
        }


class _Sides(NamedTuple):
    """The runs of one kind to be compared, and by what."""

    metrics: Collection[str]
    first: Sequence[Run]
    second: Sequence[Run]


def shared_captures(captures: Dataset, runs: Sequence[Found]) -> Dataset:
    """Returns the captures with the labels that all runs are held against.

    Args:
        captures: as they were read.
        runs: from files of detections of them.

    Raises:
        InputError: an object counts as one thing for one run, and as another for another, or is all of it
            for one alone.
    """
    own = Matching(captures.categories)
    amodal = {(run.matching or own).amodal for run in runs}
    if len(amodal) > 1 and whole_boxes(captures) != captures:
        raise InputError(
            captures.root,
            "boxes are of whole objects for one run, and of what is seen of them for another. Compare detectors "
            "that were trained alike (amodal in the recipe's [train]).",
        )
    calls = [(run.matching or own).names(captures.categories) for run in runs]
    for category in captures.categories:
        called = dict.fromkeys(names[category] for names in calls)
        if len(called) > 1:
            one, other = ("left out" if name is None else f"'{name}'" for name in [*called][:2])
            raise InputError(
                captures.root,
                f"category '{category}' is {one} for one run and {other} for another. Run bench for both "
                "with the same --map and --ignore.",
            )
    known = dict.fromkeys(name for run in runs for name in run.captures.categories)
    return replace(runs[0].captures, categories=tuple(known))


def compare_predictions(
    captures: Dataset,
    first: Sequence[Found],
    second: Sequence[Found],
    poses: tuple[Sequence[PoseRun], Sequence[PoseRun]] | None = None,
) -> Comparisons:
    """Returns how much better the first runs are than the second.

    Boxes are always compared; keypoints, masks and pixels of categories where each run has some and captures
    have labels; poses where they are given.

    Args:
        captures: labelled images, as they were read.
        first, second: what was found in them, for instance by one run a seed; means count.
        poses: of ``pose_runs`` of the first and of the second; None without.

    Raises:
        InputError: captures without labels, detections that are not of them, keypoints of other names, pixels
            that were counted against other labels, or as ``shared_captures``.
    """
    runs = (*first, *second)
    shared = shared_captures(captures, runs)

    def sides(metrics: Collection[str], match: Callable[[Found], Run]) -> _Sides:
        return _Sides(metrics, [match(one) for one in first], [match(one) for one in second])

    kinds = {"boxes": sides(BOX_METRICS, lambda one: MatchedRun(shared, one.detections))}
    if has_keypoints(shared) and all(_any(one, "keypoints") for one in runs):
        kinds["keypoints"] = sides(
            SHAPE_METRICS, lambda one: match_keypoints(shared, one.detections)
        )
    has_masks = all(_any(one, "mask") for one in runs)
    has_pixels = all(one.pixels is not None for one in runs)
    masks = labelled_masks(shared) if has_masks or has_pixels else {}
    if has_masks and masks:
        kinds["masks"] = sides(
            SHAPE_METRICS, lambda one: match_masks(shared, one.detections, masks)
        )
    if has_pixels:
        kinds["segments"] = sides(SEGMENT_METRICS, lambda one: _pixels_run(shared, one, masks))
    if poses is not None:
        kinds[POSES] = _pose_sides(*poses)
    return _compared(kinds)


def compare_poses(first: Sequence[PoseRun], second: Sequence[PoseRun]) -> Comparisons:
    """Returns how much better the first estimates of poses are than the second, over all instances.

    Args:
        first, second: of ``pose_runs``, for instance one a seed; means count.
    """
    return _compared({POSES: _pose_sides(first, second)})


def pose_runs(captures: Path, paths: Sequence[Path]) -> list[PoseRun]:
    """Returns estimates of poses, ready to be scored on any resample.

    Args:
        captures: folder of a BOP data set; with the meshes of its objects, where estimates are given.
        paths: estimates as of BOP's challenge of 2019 (.csv), or files of ``bench --out``.

    Raises:
        InputError: a file is missing, broken or contradicts another, or nothing is sought.
    """
    task = read_task(captures) if any(path.suffix == ".csv" for path in paths) else None

    def run(path: Path) -> PoseRun:
        if task is None or path.suffix != ".csv":
            return read_pose_run(path, captures)
        sought = sought_in(path, read_pose_results(path), task)
        return PoseRun(list(map(judge_poses, sought)), task.units)

    return [run(path) for path in paths]


def _pose_sides(first: Sequence[PoseRun], second: Sequence[PoseRun]) -> _Sides:
    """Returns both sides, with the metrics that all runs have."""
    known = set.intersection(*(set(one.metrics) for one in (*first, *second)))
    return _Sides([metric for metric in POSE_METRICS if metric in known], first, second)


def _any(found: Found, what: str) -> bool:
    return any(getattr(one, what) for each in found.detections.values() for one in each)


def _pixels_run(captures: Dataset, found: Found, masks: Masks) -> SegmentRun:
    assert found.pixels is not None
    check_counted(captures, found.pixels, masks)
    return SegmentRun(captures, found.pixels)


def _compared(kinds: Mapping[str, _Sides]) -> Comparisons:
    """Returns all comparisons, with one correction."""
    pairs = {}
    for kind, (metrics, first, second) in kinds.items():
        scores = resampled_scores([*first, *second], rng=stream(0, "bench"))  # as bench draws
        for metric in metrics:
            ours, theirs = np.split(scores[metric], [len(first)])
            pairs[kind, metric] = (
                mean_of_seeds(ours, stream(0, "compare/first")),
                mean_of_seeds(theirs, stream(0, "compare/second")),
            )
    differences = [compare(*both) for both in pairs.values()]
    corrected = holm([difference.p_value for difference in differences])
    found: dict[str, dict[str, Comparison]] = {kind: {} for kind in kinds}
    for (kind, metric), difference, p in zip(pairs, differences, corrected, strict=True):
        one, other = pairs[kind, metric]
        found[kind][metric] = Comparison(mean_estimate(one), mean_estimate(other), difference, p)
    over = {kind: over_runs(s.first[0].units, _fewest(s)) for kind, s in kinds.items()}
    words = next(iter(over.values()))
    if POSES in over and over[POSES] != words:
        words = f"{words}; those of poses over {over[POSES]}"
    return Comparisons(found, words)


def _fewest(sides: _Sides) -> int:
    return min(len(sides.first), len(sides.second))
