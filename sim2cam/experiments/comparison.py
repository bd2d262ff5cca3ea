"""Comparison of runs on the same real images, with one Holm correction over all metrics."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim2cam.data.formats.bop.poses import read_pose_results
from sim2cam.data.formats.predictions import LoadedPredictions
from sim2cam.data.label_mapping import LabelMapping
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
from sim2cam.metrics.sliced_ap import SlicedEvaluator, group_by_attribute
from sim2cam.seeds import derive_rng


@dataclass(frozen=True)
class Comparison:
    """Scores of two runs on the same real images, by one metric.

    Attributes:
        difference: first minus second, on the same resamples.
        p_holm: two-sided p-value, with Holm's correction over all compared metrics.
    """

    first: Estimate
    second: Estimate
    difference: PairedDifference
    p_holm: float

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        return {
            "first": self.first.to_json(),
            "second": self.second.to_json(),
            "difference": self.difference.to_json() | {"p_holm": self.p_holm},
        }


@dataclass(frozen=True)
class Comparisons:
    """All comparisons of two runs, or of two groups of runs.

    Attributes:
        kinds: comparisons by metric, by kind of output (``boxes``, ``keypoints``, ``masks``,
            ``segments`` or ``poses``).
    """

    kinds: Mapping[str, Mapping[str, Comparison]]
    intervals_over: str

    def to_json(self) -> dict[str, Any]:
        """Return the comparisons as JSON values; the first kind is at the top level."""
        kinds = {
            kind: {metric: comparison.to_json() for metric, comparison in comparisons.items()}
            for kind, comparisons in self.kinds.items()
        }
        first, *others = kinds
        nested = {kind: kinds[kind] for kind in others}
        return {**kinds[first], **nested, "intervals_over": self.intervals_over}


@dataclass(frozen=True)
class SliceComparison:
    """AP50 of two runs on a part of the objects; intervals have no correction for the number of parts.

    Attributes:
        difference: first minus second, on the same resamples.
    """

    first: Estimate
    second: Estimate
    difference: PairedDifference


class DetectionRuns(NamedTuple):
    """Detections of two runs on the same real images, one or several files of each."""

    captures: Dataset
    first: Sequence[LoadedPredictions]
    second: Sequence[LoadedPredictions]


class _RunPair(NamedTuple):
    """Runs of one kind of output to compare, and the metrics."""

    metrics: Collection[str]
    first: Sequence[Evaluator]
    second: Sequence[Evaluator]


def unify_captures(captures: Dataset, predictions: Sequence[LoadedPredictions]) -> Dataset:
    """Return the real images with the labels that all runs share.

    Raises:
        InputError: if a category or a box has different meanings in two runs.
    """
    identity = LabelMapping(captures.categories)
    amodal = {(run.label_mapping or identity).amodal for run in predictions}
    if len(amodal) > 1 and use_amodal_boxes(captures) != captures:
        raise InputError(
            captures.root,
            "one run has amodal boxes and another has boxes of the visible parts. Compare detectors "
            "with the same 'amodal' in the recipe's [train].",
        )
    mappings = [
        (run.label_mapping or identity).map_categories(captures.categories) for run in predictions
    ]
    for category in captures.categories:
        names = dict.fromkeys(mapping[category] for mapping in mappings)
        if len(names) > 1:
            first, second = ("ignored" if name is None else f"'{name}'" for name in [*names][:2])
            raise InputError(
                captures.root,
                f"category '{category}' is {first} in one run and {second} in another. Run bench for both "
                "with the same --map and --ignore-unmatched.",
            )
    categories = dict.fromkeys(name for run in predictions for name in run.captures.categories)
    return replace(predictions[0].captures, categories=tuple(categories))


def compare_predictions(
    captures: Dataset,
    first: Sequence[LoadedPredictions],
    second: Sequence[LoadedPredictions],
    poses: tuple[Sequence[PoseEvaluator], Sequence[PoseEvaluator]] | None = None,
) -> Comparisons:
    """Compare the first runs with the second by all metrics that they share.

    Boxes are always compared. Keypoints, masks and pixels are compared if all runs predict them and
    the images have labels; poses if they are given.

    Args:
        first, second: predictions, for instance one run per seed; their means are compared.
        poses: first and second runs of ``load_pose_runs``; None without.

    Raises:
        InputError: as ``unify_captures``, or if images have no labels, detections belong to other
            images, keypoints have other names, or pixels were counted with other labels.
    """
    runs = (*first, *second)
    shared = unify_captures(captures, runs)

    def pair_runs(
        metrics: Collection[str], match_run: Callable[[LoadedPredictions], Evaluator]
    ) -> _RunPair:
        return _RunPair(metrics, [*map(match_run, first)], [*map(match_run, second)])

    kinds = {
        "boxes": pair_runs(BOX_METRICS, lambda run: DetectionEvaluator(shared, run.detections))
    }
    if has_keypoints(shared) and all(_has_output(run, "keypoints") for run in runs):
        kinds["keypoints"] = pair_runs(
            SHAPE_METRICS, lambda run: match_keypoints(shared, run.detections)
        )
    has_masks = all(_has_output(run, "mask") for run in runs)
    has_pixels = all(run.pixel_confusions is not None for run in runs)
    masks = collect_label_masks(shared) if has_masks or has_pixels else {}
    if has_masks and masks:
        kinds["masks"] = pair_runs(
            SHAPE_METRICS, lambda run: match_masks(shared, run.detections, masks)
        )
    if has_pixels:
        kinds["segments"] = pair_runs(
            SEGMENT_METRICS, lambda run: _match_pixels(shared, run, masks)
        )
    if poses is not None:
        kinds[POSES_KEY] = _pair_pose_runs(*poses)
    return _compare_pairs(kinds)


def compare_slices(detection_runs: DetectionRuns) -> dict[str, dict[str, SliceComparison]]:
    """Compare AP50 by category, object size and visible fraction, for attributes with several values.

    Raises:
        InputError: as ``compare_predictions``.
    """
    captures, first, second = detection_runs
    shared = unify_captures(captures, (*first, *second))
    runs = [run.detections for run in (*first, *second)]
    scores = {
        name.replace("ap50/", "category/", 1): values
        for name, values in _score_runs([DetectionEvaluator(shared, run) for run in runs]).items()
        if name.startswith("ap50/")
    }
    scores |= _score_runs([SlicedEvaluator(shared, run) for run in runs])
    comparisons = {}
    for name, values in scores.items():
        if np.isfinite(values[:, 0]).all():
            ours, theirs = _average_sides(values, len(first))
            comparisons[name] = SliceComparison(
                estimate_seed_mean(ours),
                estimate_seed_mean(theirs),
                compare_seed_means(ours, theirs),
            )
    return group_by_attribute(comparisons)


def compare_poses(first: Sequence[PoseEvaluator], second: Sequence[PoseEvaluator]) -> Comparisons:
    """Compare the first pose estimates with the second, over all instances."""
    return _compare_pairs({POSES_KEY: _pair_pose_runs(first, second)})


def load_pose_runs(
    captures: Path, paths: Sequence[Path], limit: int | None = None
) -> list[PoseEvaluator]:
    """Load pose estimates for bootstrap comparisons.

    Args:
        captures: folder of a BOP dataset, with object meshes if a path is a CSV file.
        paths: CSV files in the format of the BOP challenge 2019, or files of ``bench --out``.
        limit: score only the first images of the dataset; None scores all.

    Raises:
        InputError: if a file is missing, broken or contradicts another, or the dataset has no
            target.
    """
    has_poses = any(path.suffix == ".csv" for path in paths)
    task = read_pose_task(captures, limit=limit) if has_poses else None

    def load_run(path: Path) -> PoseEvaluator:
        if task is None or path.suffix != ".csv":
            return read_pose_run(path, captures, limit)
        targets = match_estimates(path, read_pose_results(path), task)
        return PoseEvaluator(list(map(match_pose_target, targets)), task.units)

    return [load_run(path) for path in paths]


def _pair_pose_runs(first: Sequence[PoseEvaluator], second: Sequence[PoseEvaluator]) -> _RunPair:
    """Pair both sides with the metrics that all runs have."""
    shared = set.intersection(*(set(run.metric_names) for run in (*first, *second)))
    return _RunPair([metric for metric in POSE_METRICS if metric in shared], first, second)


def _has_output(predictions: LoadedPredictions, attribute: str) -> bool:
    return any(getattr(d, attribute) for image in predictions.detections.values() for d in image)


def _match_pixels(
    captures: Dataset, predictions: LoadedPredictions, masks: GroundTruthMasks
) -> SegmentationEvaluator:
    assert predictions.pixel_confusions is not None
    check_pixel_confusions(captures, predictions.pixel_confusions, masks)
    return SegmentationEvaluator(captures, predictions.pixel_confusions)


def _score_runs(evaluators: Sequence[Evaluator]) -> dict[str, NDArray[np.float64]]:
    """Return scores of runs (runs, 1 + n_resamples) by metric, on the resamples of ``sim2cam bench``."""
    return bootstrap_scores(evaluators, rng=derive_rng(0, "bench"))


def _average_sides(
    scores: NDArray[np.float64], first_count: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the seed means (1 + n_resamples,) of the first and of the second runs."""
    ours, theirs = np.split(scores, [first_count])
    return (
        average_over_seeds(ours, derive_rng(0, "compare/first")),
        average_over_seeds(theirs, derive_rng(0, "compare/second")),
    )


def _compare_pairs(kinds: Mapping[str, _RunPair]) -> Comparisons:
    """Compare all pairs by all metrics, with one correction."""
    pairs = {}
    for kind, (metrics, first, second) in kinds.items():
        scores = _score_runs([*first, *second])
        for metric in metrics:
            pairs[kind, metric] = _average_sides(scores[metric], len(first))
    differences = [compare_seed_means(*seed_means) for seed_means in pairs.values()]
    corrected = apply_holm_correction([difference.p_value for difference in differences])
    comparisons: dict[str, dict[str, Comparison]] = {kind: {} for kind in kinds}
    for (kind, metric), difference, p in zip(pairs, differences, corrected, strict=True):
        ours, theirs = pairs[kind, metric]
        comparisons[kind][metric] = Comparison(
            estimate_seed_mean(ours), estimate_seed_mean(theirs), difference, p
        )
    units = {
        kind: describe_units_and_runs(pair.first[0].units, min(len(pair.first), len(pair.second)))
        for kind, pair in kinds.items()
    }
    description = next(iter(units.values()))
    if POSES_KEY in units and units[POSES_KEY] != description:
        description = f"{description}; for poses over {units[POSES_KEY]}"
    return Comparisons(comparisons, description)
