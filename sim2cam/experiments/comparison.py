"""Comparing runs on the same captures: boxes, keypoints, masks, pixels and poses, with one correction for all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sim2cam.data.formats.bop.poses import read_pose_results
from sim2cam.data.formats.predictions import LoadedPredictions
from sim2cam.data.matching import LabelMapping
from sim2cam.data.sample import Dataset
from sim2cam.data.set_operations import use_amodal_boxes
from sim2cam.errors import InputError
from sim2cam.experiments.benchmark import collect_label_masks, has_keypoints
from sim2cam.experiments.pose_benchmark import match_estimates, read_pose_task
from sim2cam.experiments.pose_scores_file import POSES_KEY, read_pose_run
from sim2cam.metrics.bootstrap import (
    Estimate,
    PairedDifference,
    apply_holm_correction,
    average_over_seeds,
)
from sim2cam.metrics.detection import (
    DetectionEvaluator,
    Evaluator,
    bootstrap_scores,
    compare_seed_means,
    estimate_seed_mean,
)
from sim2cam.metrics.keypoints import match_keypoints
from sim2cam.metrics.masks import GroundTruthMasks, match_masks
from sim2cam.metrics.names import BOX_METRICS, POSE_METRICS, SEGMENT_METRICS, SHAPE_METRICS
from sim2cam.metrics.poses import PoseEvaluator, match_pose_target
from sim2cam.metrics.resampling import describe_units_and_runs
from sim2cam.metrics.segmentation import SegmentationEvaluator, check_pixel_confusions
from sim2cam.seeds import derive_rng


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
    difference: PairedDifference
    p_holm: float

    def to_json(self) -> dict[str, Any]:
        """Return all of it as JSON values."""
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
        """Return all of it as JSON values; boxes and poses stand above the others, as in ``bench``."""
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


class _RunPair(NamedTuple):
    """The runs of one kind to be compared, and by what."""

    metrics: Collection[str]
    first: Sequence[Evaluator]
    second: Sequence[Evaluator]


def unify_captures(captures: Dataset, predictions: Sequence[LoadedPredictions]) -> Dataset:
    """Return the captures with the labels that all runs are held against.

    Args:
        captures: as they were read.
        predictions: from files of detections of them.

    Raises:
        InputError: an object counts as one thing for one run, and as another for another, or is all of it
            for one alone.
    """
    own = LabelMapping(captures.categories)
    amodal = {(run.label_mapping or own).amodal for run in predictions}
    if len(amodal) > 1 and use_amodal_boxes(captures) != captures:
        raise InputError(
            captures.root,
            "boxes are of whole objects for one run, and of what is seen of them for another. Compare detectors "
            "that were trained alike (amodal in the recipe's [train]).",
        )
    calls = [(run.label_mapping or own).map_categories(captures.categories) for run in predictions]
    for category in captures.categories:
        called = dict.fromkeys(names[category] for names in calls)
        if len(called) > 1:
            one, other = ("left out" if name is None else f"'{name}'" for name in [*called][:2])
            raise InputError(
                captures.root,
                f"category '{category}' is {one} for one run and {other} for another. Run bench for both "
                "with the same --map and --ignore-unmatched.",
            )
    known = dict.fromkeys(name for run in predictions for name in run.captures.categories)
    return replace(predictions[0].captures, categories=tuple(known))


def compare_predictions(
    captures: Dataset,
    first: Sequence[LoadedPredictions],
    second: Sequence[LoadedPredictions],
    poses: tuple[Sequence[PoseEvaluator], Sequence[PoseEvaluator]] | None = None,
) -> Comparisons:
    """Return how much better the first runs are than the second.

    Boxes are always compared; keypoints, masks and pixels of categories where each run has some and captures
    have labels; poses where they are given.

    Args:
        captures: labelled images, as they were read.
        first, second: what was found in them, for instance by one run a seed; means count.
        poses: of ``load_pose_runs`` of the first and of the second; None without.

    Raises:
        InputError: captures without labels, detections that are not of them, keypoints of other names, pixels
            that were counted against other labels, or as ``unify_captures``.
    """
    runs = (*first, *second)
    shared = unify_captures(captures, runs)

    def pair_runs(
        metrics: Collection[str], match_run: Callable[[LoadedPredictions], Evaluator]
    ) -> _RunPair:
        return _RunPair(
            metrics, [match_run(one) for one in first], [match_run(one) for one in second]
        )

    kinds = {
        "boxes": pair_runs(BOX_METRICS, lambda one: DetectionEvaluator(shared, one.detections))
    }
    if has_keypoints(shared) and all(_has_output(one, "keypoints") for one in runs):
        kinds["keypoints"] = pair_runs(
            SHAPE_METRICS, lambda one: match_keypoints(shared, one.detections)
        )
    has_masks = all(_has_output(one, "mask") for one in runs)
    has_pixels = all(one.pixel_confusions is not None for one in runs)
    masks = collect_label_masks(shared) if has_masks or has_pixels else {}
    if has_masks and masks:
        kinds["masks"] = pair_runs(
            SHAPE_METRICS, lambda one: match_masks(shared, one.detections, masks)
        )
    if has_pixels:
        kinds["segments"] = pair_runs(
            SEGMENT_METRICS, lambda one: _match_pixels(shared, one, masks)
        )
    if poses is not None:
        kinds[POSES_KEY] = _pair_pose_runs(*poses)
    return _compare_pairs(kinds)


def compare_poses(first: Sequence[PoseEvaluator], second: Sequence[PoseEvaluator]) -> Comparisons:
    """Return how much better the first estimates of poses are than the second, over all instances.

    Args:
        first, second: of ``load_pose_runs``, for instance one a seed; means count.
    """
    return _compare_pairs({POSES_KEY: _pair_pose_runs(first, second)})


def load_pose_runs(captures: Path, paths: Sequence[Path]) -> list[PoseEvaluator]:
    """Return estimates of poses, ready to be scored on any resample.

    Args:
        captures: folder of a BOP data set; with the meshes of its objects, where estimates are given.
        paths: estimates as of BOP's challenge of 2019 (.csv), or files of ``bench --out``.

    Raises:
        InputError: a file is missing, broken or contradicts another, or nothing is sought.
    """
    task = read_pose_task(captures) if any(path.suffix == ".csv" for path in paths) else None

    def load_run(path: Path) -> PoseEvaluator:
        if task is None or path.suffix != ".csv":
            return read_pose_run(path, captures)
        sought = match_estimates(path, read_pose_results(path), task)
        return PoseEvaluator(list(map(match_pose_target, sought)), task.units)

    return [load_run(path) for path in paths]


def _pair_pose_runs(first: Sequence[PoseEvaluator], second: Sequence[PoseEvaluator]) -> _RunPair:
    """Return both sides, with the metrics that all runs have."""
    known = set.intersection(*(set(one.metric_names) for one in (*first, *second)))
    return _RunPair([metric for metric in POSE_METRICS if metric in known], first, second)


def _has_output(predictions: LoadedPredictions, attribute: str) -> bool:
    return any(getattr(one, attribute) for each in predictions.detections.values() for one in each)


def _match_pixels(
    captures: Dataset, predictions: LoadedPredictions, masks: GroundTruthMasks
) -> SegmentationEvaluator:
    assert predictions.pixel_confusions is not None
    check_pixel_confusions(captures, predictions.pixel_confusions, masks)
    return SegmentationEvaluator(captures, predictions.pixel_confusions)


def _compare_pairs(kinds: Mapping[str, _RunPair]) -> Comparisons:
    """Return all comparisons, with one correction."""
    pairs = {}
    for kind, (metrics, first, second) in kinds.items():
        scores = bootstrap_scores([*first, *second], rng=derive_rng(0, "bench"))  # as bench draws
        for metric in metrics:
            ours, theirs = np.split(scores[metric], [len(first)])
            pairs[kind, metric] = (
                average_over_seeds(ours, derive_rng(0, "compare/first")),
                average_over_seeds(theirs, derive_rng(0, "compare/second")),
            )
    differences = [compare_seed_means(*both) for both in pairs.values()]
    corrected = apply_holm_correction([difference.p_value for difference in differences])
    found: dict[str, dict[str, Comparison]] = {kind: {} for kind in kinds}
    for (kind, metric), difference, p in zip(pairs, differences, corrected, strict=True):
        one, other = pairs[kind, metric]
        found[kind][metric] = Comparison(
            estimate_seed_mean(one), estimate_seed_mean(other), difference, p
        )
    over = {
        kind: describe_units_and_runs(s.first[0].units, _count_fewest_runs(s))
        for kind, s in kinds.items()
    }
    words = next(iter(over.values()))
    if POSES_KEY in over and over[POSES_KEY] != words:
        words = f"{words}; those of poses over {over[POSES_KEY]}"
    return Comparisons(found, words)


def _count_fewest_runs(pair: _RunPair) -> int:
    return min(len(pair.first), len(pair.second))
