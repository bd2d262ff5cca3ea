"""Benchmarking: weights on labelled captures, with intervals."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sim2cam.data.formats.predictions import (
    DETECTIONS,
    DIGESTS,
    LABEL_MAPPING,
    PIXEL_CONFUSIONS,
    SELECTION_SCORES,
    LoadedPredictions,
    compute_file_digests,
    label_mapping_to_json,
    predictions_to_json,
)
from sim2cam.data.matching import LabelMapping
from sim2cam.data.sample import Dataset
from sim2cam.data.silhouettes import read_visible_masks
from sim2cam.data.writer import write_json
from sim2cam.experiments.pose_benchmark import PoseBenchResult
from sim2cam.experiments.pose_scores_file import POSES_KEY, serialize_pose_images
from sim2cam.experiments.reliability import (
    Reliability,
    assess_detections,
    assess_detector,
    collect_ood_scores,
    estimate_ood_rate,
    serialize_ood_rate,
)
from sim2cam.geometry.run_length import RleMask
from sim2cam.metrics.bootstrap import Estimate
from sim2cam.metrics.detection import (
    Detection,
    DetectionMetrics,
    count_objects,
    evaluate_detections,
    is_ignored,
)
from sim2cam.metrics.error_analysis import (
    count_category_errors,
    count_errors,
    find_best_f1_threshold,
)
from sim2cam.metrics.instances import ShapeMetrics
from sim2cam.metrics.keypoints import evaluate_keypoints
from sim2cam.metrics.masks import GroundTruthMasks, evaluate_masks
from sim2cam.metrics.segmentation import (
    PixelConfusions,
    SegmentationMetrics,
    check_pixel_confusions,
    count_pixel_confusions,
    evaluate_segmentation,
)
from sim2cam.metrics.slices import Slice
from sim2cam.metrics.unsupervised import SelectionScores
from sim2cam.models.inference.detections import Prediction
from sim2cam.models.inference.detector import AnyDetector, predict_samples, require_native_detector
from sim2cam.models.reliability.unsupervised import compute_selection_scores
from sim2cam.seeds import derive_rng


@dataclass(frozen=True)
class BenchResult:
    """What a detector found on captures, and how good that is.

    Attributes:
        captures: the labelled images it was scored on, with the categories that it was scored for.
        predictions: by the image's name.
        score: with 95 % intervals.
        reliability: how far what it says is to be trusted.
        keypoints, masks, segments: how good points, masks of objects and pixels of categories are; None
            where they were not looked for, or are not labelled.
        matching: how their categories became these; None where they are the captures' own.
        pixel_confusions: what those of categories were taken for, of which ``segments`` are; None with these.
        selection: scores that need no labels, to be seen beside those that do; None where not measured.
    """

    captures: Dataset
    predictions: Mapping[str, tuple[Detection, ...]]
    score: DetectionMetrics
    reliability: Reliability
    keypoints: ShapeMetrics | None = None
    masks: ShapeMetrics | None = None
    segments: SegmentationMetrics | None = None
    matching: LabelMapping | None = None
    pixel_confusions: PixelConfusions | None = None
    selection: SelectionScores | None = None

    @functools.cached_property
    def threshold(self) -> float:
        """Score from which on detections are held against labels: that of the best F1 on these captures."""
        return find_best_f1_threshold(self.captures, self.predictions)

    def scores_to_json(self) -> dict[str, Any]:
        """Return all scores as JSON values, and of how many images there is no detection."""
        more = {name: getattr(self, name) for name in ("keypoints", "masks", "segments")}
        without = sum(not found for found in self.predictions.values())
        scores = self.score.to_json() | {"images_without_detections": without}
        return scores | {n: one.to_json() for n, one in more.items() if one}


def bench(
    detector: AnyDetector,
    captures: Dataset,
    *,
    category_map: Mapping[str, str] | None = None,
    ignore_unmatched: bool = False,
    cached_predictions: Mapping[Path, Prediction] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> BenchResult:
    """Return how well a detector does on labelled captures.

    Args:
        detector: from ``load_detector``.
        captures: labelled images.
        category_map: category of the captures -> category of the detector, where the names differ.
        ignore_unmatched: leave out objects of categories that the detector does not know, instead
            of refusing.
        cached_predictions: what the detector said already, by the images' files; these are not looked at again.
        progress: is told how many images of how many are done.

    Raises:
        InputError: as ``match_captures``, or keypoints have other names.
    """
    matching, matched = match_captures(
        detector, captures, category_map=category_map, ignore_unmatched=ignore_unmatched
    )
    seen = {
        s.name: cached_predictions[s.rgb]
        for s in matched.samples
        if cached_predictions and s.rgb in cached_predictions
    }
    others = matched.select_by_name([s.name for s in matched.samples if s.name not in seen])
    seen |= predict_samples(detector, others, progress=progress)
    predictions = {name: one.detections for name, one in seen.items()}
    score = evaluate_detections(matched, predictions, rng=derive_rng(0, "bench"))
    card = detector.card
    labelled = collect_label_masks(matched) if card.masks else {}
    segments = {name: one.category_masks or {} for name, one in seen.items()}
    pixels = count_pixel_confusions(matched, segments, labelled) if labelled else None
    return BenchResult(
        matched,
        predictions,
        score,
        assess_detector(matched, card, seen),
        _score_keypoints(matched, predictions) if card.keypoints else None,
        _score_masks(matched, predictions, labelled) if labelled else None,
        _score_segments(matched, pixels),
        matching,
        pixels,
        compute_selection_scores(seen.values()),
    )


def match_captures(
    detector: AnyDetector,
    captures: Dataset,
    *,
    category_map: Mapping[str, str] | None = None,
    ignore_unmatched: bool = False,
) -> tuple[LabelMapping, Dataset]:
    """Return how labels become a detector's, and labelled captures with these; arguments are those of
    ``bench``.

    Raises:
        InputError: an object of a category that the detector does not know, captures without labels or
            without objects.
    """
    card = detector.card
    matching = LabelMapping(card.categories, category_map or {}, ignore_unmatched, card.is_amodal)
    matched = matching.apply(captures)
    count_objects(matched)
    return matching, matched


@dataclass(frozen=True)
class UnlabelledResult:
    """What a detector says of captures without labels.

    Attributes:
        image_count: how many captures there are.
        selection: scores by which detectors may be chosen; None where it found next to nothing, or
            knows one category.
        ood_rate: share of the captures that are unlike what it was trained on; None where not measured.
        false_positive_rate: that share, at most, among familiar pictures; None where not measured.
    """

    image_count: int
    selection: SelectionScores | None
    ood_rate: Estimate | None
    false_positive_rate: float | None

    def to_json(self) -> dict[str, Any]:
        """Return all of it as JSON values."""
        ood_rate = serialize_ood_rate(self.ood_rate, self.false_positive_rate)
        selection = self.selection.to_json() if self.selection else None
        return {
            "images": self.image_count,
            SELECTION_SCORES: selection,
            "ood_rate": ood_rate,
        }


def bench_unlabelled(
    detector: AnyDetector,
    captures: Dataset,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> UnlabelledResult:
    """Return what a detector says of captures that nobody labelled.

    Args:
        detector: from ``load_detector``.
        captures: at least one image.
        progress: is told how many images of how many are done.

    Raises:
        InputError: an image cannot be read.
        UsageError: it is a model of torchvision.
    """
    own = require_native_detector(detector, "scores without labels")
    seen = predict_samples(own, captures, progress=progress)
    limit = own.card.ood_threshold
    return UnlabelledResult(
        len(captures.samples),
        compute_selection_scores(seen.values()),
        estimate_ood_rate(collect_ood_scores(seen)),
        limit.false_positive_rate if limit else None,
    )


def score_predictions(file_contents: LoadedPredictions) -> BenchResult:
    """Return how good what a file says is found is.

    Args:
        file_contents: held against labelled captures.

    Raises:
        InputError: captures without labels, detections that are not of them, keypoints of other names, or
            pixels that were counted against other labels.
    """
    captures, predictions, pixels = (
        file_contents.captures,
        file_contents.detections,
        file_contents.pixel_confusions,
    )
    score = evaluate_detections(captures, predictions, rng=derive_rng(0, "bench"))
    each = [detection for detections in predictions.values() for detection in detections]
    has_masks = any(one.mask for one in each)
    labelled = collect_label_masks(captures) if has_masks or pixels else {}
    if pixels is not None:
        check_pixel_confusions(captures, pixels, labelled)
    return BenchResult(
        captures,
        predictions,
        score,
        assess_detections(captures, predictions),
        _score_keypoints(captures, predictions) if any(one.keypoints for one in each) else None,
        _score_masks(captures, predictions, labelled) if has_masks and labelled else None,
        _score_segments(captures, pixels),
        file_contents.label_mapping,
        pixels,
        file_contents.selection_scores,
    )


def _score_keypoints(
    captures: Dataset, predictions: Mapping[str, tuple[Detection, ...]]
) -> ShapeMetrics | None:
    """Return how good keypoints are; None where none is labelled."""
    if not has_keypoints(captures):
        return None
    return evaluate_keypoints(captures, predictions, rng=derive_rng(0, "bench"))


def has_keypoints(captures: Dataset) -> bool:
    """Return whether a keypoint of an object that counts is labelled."""
    labels = [o for sample in captures.samples for o in sample.objects or () if not is_ignored(o)]
    return any(point.visibility for label in labels for point in label.keypoints or ())


def _score_masks(
    captures: Dataset,
    predictions: Mapping[str, tuple[Detection, ...]],
    label_masks: GroundTruthMasks,
) -> ShapeMetrics:
    return evaluate_masks(captures, predictions, label_masks, rng=derive_rng(0, "bench"))


def _score_segments(
    captures: Dataset, confusions: PixelConfusions | None
) -> SegmentationMetrics | None:
    if confusions is None:
        return None
    return evaluate_segmentation(captures, confusions, rng=derive_rng(0, "bench"))


def collect_label_masks(captures: Dataset) -> GroundTruthMasks:
    """Return the labelled masks of captures, by the image's name; empty where no object that counts has one."""
    found = {
        sample.name: [
            None if m is None else RleMask.from_mask(m) for m in read_visible_masks(sample)
        ]
        for sample in captures.samples
    }
    counts = any(
        mask is not None and mask.compute_area_px() and not is_ignored(label)
        for sample in captures.samples
        for label, mask in zip(sample.objects or (), found[sample.name], strict=True)
    )
    return found if counts else {}


def write_bench_result(
    result: BenchResult,
    slices: Sequence[Slice],
    path: Path,
    poses: PoseBenchResult | None = None,
    warnings: Sequence[str] = (),
) -> None:
    """Write scores, how far they are to be trusted, how objects of a kind fare, what is wrong with every
    category, and in every image, and how unlike those trained on it is, what its pixels were taken for, the detections, how well
    every instance was placed, and by what the scores may mislead.

    Raises:
        InputError: an image is no longer there.
        OutputError: the file cannot be written.
    """
    ood_scores = result.reliability.ood_scores or {}
    errors = count_errors(result.captures, result.predictions, result.threshold)
    facts: dict[str, Any] = {
        "scores": result.scores_to_json(),
        "threshold": result.threshold,
        "reliability": result.reliability.to_json(),
        SELECTION_SCORES: None if result.selection is None else result.selection.to_json(),
        "slices": [s.to_json() for s in slices],
        "warnings": list(warnings),
        "categories": [
            asdict(e)
            for e in count_category_errors(result.captures, result.predictions, result.threshold)
        ],
        "images": [asdict(e) | {"ood_score": ood_scores.get(e.name)} for e in errors],
        LABEL_MAPPING: label_mapping_to_json(result.matching),
        PIXEL_CONFUSIONS: None
        if result.pixel_confusions is None
        else result.pixel_confusions.to_json(),
        DIGESTS: compute_file_digests(result.captures),
        DETECTIONS: predictions_to_json(result.predictions),
    }
    if poses is not None:
        facts["scores"] |= {POSES_KEY: poses.to_json()}
        facts[POSES_KEY] = serialize_pose_images(poses)
    write_json(path, facts)
