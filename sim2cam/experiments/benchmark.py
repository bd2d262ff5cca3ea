"""Benchmark of a detector on labelled real images, with 95 % intervals."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sim2cam.data.checks.duplicates import check_disjoint
from sim2cam.data.formats.predictions import (
    DETECTIONS,
    DIGESTS,
    LABEL_MAPPING,
    NAMES,
    PIXEL_CONFUSIONS,
    SELECTION_SCORES,
    TRAINING,
    LoadedPredictions,
    compute_file_digests,
    label_mapping_to_json,
    predictions_to_json,
)
from sim2cam.data.label_mapping import LabelMapping
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
    measure_domain_shift,
    serialize_ood_rate,
)
from sim2cam.geometry.run_length import RleMask
from sim2cam.metrics.ap_losses import ApLosses, compute_ap_losses
from sim2cam.metrics.bootstrap import Estimate
from sim2cam.metrics.detection import (
    Detection,
    DetectionMetrics,
    Predictions,
    count_objects,
    evaluate_detections,
    is_ignored,
)
from sim2cam.metrics.error_analysis import (
    count_category_errors,
    count_errors,
)
from sim2cam.metrics.instances import ShapeMetrics, compute_shape_metrics
from sim2cam.metrics.keypoints import match_keypoints
from sim2cam.metrics.masks import GroundTruthMasks, match_masks
from sim2cam.metrics.precision_recall import find_best_f1_threshold
from sim2cam.metrics.segmentation import (
    PixelConfusions,
    SegmentationMetrics,
    check_pixel_confusions,
    count_pixel_confusions,
    evaluate_segmentation,
)
from sim2cam.metrics.slices import Slice
from sim2cam.metrics.unsupervised import SelectionScores
from sim2cam.metrics.verdict import CommandNames, TrainingAmount, Verdict
from sim2cam.models.card import DetectorCard
from sim2cam.models.inference.detections import Prediction
from sim2cam.models.inference.detector import AnyDetector, predict_samples, require_native_detector
from sim2cam.models.reliability.domain_shift import DomainShift, collect_detected_objects
from sim2cam.models.reliability.unsupervised import compute_selection_scores
from sim2cam.models.training.tuning import tune_detector
from sim2cam.pipeline.recipe_files import FOLDER as RECIPES_FOLDER
from sim2cam.progress import Progress, ignore_progress
from sim2cam.seeds import derive_rng


@dataclass(frozen=True)
class TunedScore:
    """Score of a detector with input scale and box padding tuned on other labelled images.

    Attributes:
        images: number of images it was tuned on.
        input_scale, box_padding: tuned values.
    """

    images: int
    input_scale: float
    box_padding: float
    score: DetectionMetrics

    def to_json(self) -> dict[str, Any]:
        """Return the score and the tuned values as JSON values."""
        values = {name: getattr(self, name) for name in ("images", "input_scale", "box_padding")}
        return {
            "tuned_on_images" if n == "images" else n: v for n, v in values.items()
        } | self.score.to_json()


@dataclass(frozen=True)
class BenchResult:
    """Predictions of a detector on real images, and their scores.

    Attributes:
        keypoints, masks, segments: metrics of keypoints, instance masks and semantic segmentation;
            None if not predicted or not labelled.
        label_mapping: mapping of the labels to the detector's categories; None if the names are the
            same.
        training: amount of training; None if unknown, or for detectors with initial weights.
        names: names in the commands of the verdict.
        tuned: score after tuning on other images; None without.
    """

    captures: Dataset
    predictions: Mapping[str, tuple[Detection, ...]]
    score: DetectionMetrics
    reliability: Reliability
    keypoints: ShapeMetrics | None = None
    masks: ShapeMetrics | None = None
    segments: SegmentationMetrics | None = None
    label_mapping: LabelMapping | None = None
    pixel_confusions: PixelConfusions | None = None
    selection: SelectionScores | None = None
    training: TrainingAmount | None = None
    names: CommandNames = field(default_factory=CommandNames)
    tuned: TunedScore | None = None

    @functools.cached_property
    def threshold(self) -> float:
        """Score threshold with the best F1 on these images."""
        return find_best_f1_threshold(self.captures, self.predictions)

    @functools.cached_property
    def ap_losses(self) -> ApLosses:
        """AP50 lost by each kind of error."""
        return compute_ap_losses(self.captures, self.predictions)

    def scores_to_json(self) -> dict[str, Any]:
        """Return all scores, and the number of images without detections, as JSON values."""
        others = {name: getattr(self, name) for name in ("keypoints", "masks", "segments")}
        empty_count = sum(not detections for detections in self.predictions.values())
        scores = self.score.to_json() | {"images_without_detections": empty_count}
        scores |= {} if self.tuned is None else {"tuned": self.tuned.to_json()}
        return scores | {name: metrics.to_json() for name, metrics in others.items() if metrics}


def bench(
    detector: AnyDetector,
    captures: Dataset,
    *,
    category_map: Mapping[str, str] | None = None,
    ignore_unmatched: bool = False,
    cached_predictions: Mapping[Path, Prediction] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> BenchResult:
    """Evaluate a detector on labelled real images.

    Args:
        ignore_unmatched: ignore objects of unknown categories instead of refusing them.
        cached_predictions: predictions by image file, used instead of running the detector.

    Raises:
        InputError: as ``match_captures``, or if keypoints have other names.
    """
    matching, matched = match_captures(
        detector, captures, category_map=category_map, ignore_unmatched=ignore_unmatched
    )
    predictions = {
        s.name: cached_predictions[s.rgb]
        for s in matched.samples
        if cached_predictions and s.rgb in cached_predictions
    }
    missing = matched.select_by_name([s.name for s in matched.samples if s.name not in predictions])
    predictions |= predict_samples(detector, missing, progress=progress)
    detections = {name: prediction.detections for name, prediction in predictions.items()}
    score = evaluate_detections(matched, detections, rng=derive_rng(0, "bench"))
    card = detector.card
    label_masks = collect_label_masks(matched) if card.masks else {}
    segments = {name: prediction.category_masks or {} for name, prediction in predictions.items()}
    confusions = count_pixel_confusions(matched, segments, label_masks) if label_masks else None
    return BenchResult(
        matched,
        detections,
        score,
        assess_detector(matched, card, predictions),
        _score_keypoints(matched, detections) if card.keypoints else None,
        _score_masks(matched, detections, label_masks),
        _score_segments(matched, confusions),
        matching,
        confusions,
        compute_selection_scores(predictions.values()),
        _collect_training_amount(card),
        _collect_names(card),
    )


def bench_tuned(
    detector: AnyDetector,
    validation_set: Dataset,
    captures: Dataset,
    *,
    category_map: Mapping[str, str] | None = None,
    ignore_unmatched: bool = False,
    progress: Progress = ignore_progress,
) -> TunedScore:
    """Tune a detector on labelled images, and evaluate it on others; see ``bench``.

    Raises:
        InputError: as ``bench``, or if an image is in both sets.
    """
    check_disjoint(validation_set.samples, captures)
    options: dict[str, Any] = {"category_map": category_map, "ignore_unmatched": ignore_unmatched}
    _, matched = match_captures(detector, validation_set, **options)
    tuned = tune_detector(detector, matched)
    score = bench(tuned, captures, **options, progress=progress).score
    return TunedScore(len(matched.samples), tuned.card.input_scale, tuned.card.box_padding, score)


def _collect_training_amount(card: DetectorCard) -> TrainingAmount | None:
    """Return the amount of training; None with initial weights, which need few steps and images."""
    if card.initial_weights is not None or card.config.get("pretrained"):
        return None
    return TrainingAmount(card.steps, sum(record.images for record in card.data))


def _collect_names(card: DetectorCard) -> CommandNames:
    """Return the recipe of the training renders as commands take it."""
    if not card.recipe:
        return CommandNames()
    file = f"{card.recipe}.toml"
    return CommandNames(recipe=card.recipe if (RECIPES_FOLDER / file).is_file() else file)


def match_captures(
    detector: AnyDetector,
    captures: Dataset,
    *,
    category_map: Mapping[str, str] | None = None,
    ignore_unmatched: bool = False,
) -> tuple[LabelMapping, Dataset]:
    """Map the labels of real images to the categories of a detector.

    Takes the arguments of ``bench``.

    Returns:
        The mapping, and the images with mapped labels.

    Raises:
        InputError: if an object has an unknown category, or images have no labels or no objects.
    """
    card = detector.card
    matching = LabelMapping(card.categories, category_map or {}, ignore_unmatched, card.is_amodal)
    matched = matching.apply(captures)
    count_objects(matched)
    return matching, matched


@dataclass(frozen=True)
class UnlabelledResult:
    """Scores of a detector on unlabelled real images.

    Attributes:
        selection: unsupervised scores for model selection; None with too few detections or one
            category.
        ood_rate: share of out-of-distribution images; None if not measured.
        false_positive_rate: upper limit of that share among in-distribution images; None if not
            measured.
        domain_shift: detected objects and image parts compared with those of the training.
    """

    image_count: int
    selection: SelectionScores | None
    ood_rate: Estimate | None
    false_positive_rate: float | None
    domain_shift: DomainShift

    def to_json(self) -> dict[str, Any]:
        """Return the scores as JSON values."""
        ood_rate = serialize_ood_rate(self.ood_rate, self.false_positive_rate)
        selection = self.selection.to_json() if self.selection else None
        return {
            "images": self.image_count,
            SELECTION_SCORES: selection,
            "ood_rate": ood_rate,
            "domain_shift": self.domain_shift.to_json(),
            "verdict": self.verdict.to_json(),
        }

    @property
    def verdict(self) -> Verdict:
        """What does not fit, and what to do."""
        return Verdict(self.domain_shift.findings)


def bench_unlabelled(
    detector: AnyDetector, captures: Dataset, *, progress: Callable[[int, int], None] | None = None
) -> UnlabelledResult:
    """Evaluate a detector on unlabelled real images.

    Args:
        captures: images, at least one.

    Raises:
        InputError: if an image cannot be read.
        UsageError: if the detector is a torchvision model.
    """
    native = require_native_detector(detector, "scores without labels")
    predictions = predict_samples(native, captures, progress=progress)
    card = native.card
    objects = collect_detected_objects(
        (prediction.detections for prediction in predictions.values()), card.input_scale
    )
    threshold = card.ood_threshold
    return UnlabelledResult(
        len(captures.samples),
        compute_selection_scores(predictions.values()),
        estimate_ood_rate(collect_ood_scores(predictions)),
        threshold.false_positive_rate if threshold else None,
        measure_domain_shift(captures, card, objects),
    )


def score_predictions(loaded: LoadedPredictions) -> BenchResult:
    """Score detections loaded from a file.

    Raises:
        InputError: if images have no labels, detections belong to other images, keypoints have
            other names, or pixels were counted with other labels.
    """
    captures, confusions = loaded.captures, loaded.pixel_confusions
    predictions_by_image = loaded.detections
    score = evaluate_detections(captures, predictions_by_image, rng=derive_rng(0, "bench"))
    every_detection = [d for detections in predictions_by_image.values() for d in detections]
    has_masks = any(detection.mask for detection in every_detection)
    predicts_keypoints = any(detection.keypoints for detection in every_detection)
    label_masks = collect_label_masks(captures) if has_masks or confusions else {}
    if confusions is not None:
        check_pixel_confusions(captures, confusions, label_masks)
    return BenchResult(
        captures,
        predictions_by_image,
        score,
        assess_detections(captures, predictions_by_image),
        _score_keypoints(captures, predictions_by_image) if predicts_keypoints else None,
        _score_masks(captures, predictions_by_image, label_masks if has_masks else {}),
        _score_segments(captures, confusions),
        loaded.label_mapping,
        confusions,
        loaded.selection_scores,
        loaded.training,
        loaded.names,
    )


def _score_keypoints(captures: Dataset, predictions: Predictions) -> ShapeMetrics | None:
    """Evaluate keypoints; None without labelled keypoints."""
    if not has_keypoints(captures):
        return None
    return compute_shape_metrics(match_keypoints(captures, predictions), rng=derive_rng(0, "bench"))


def has_keypoints(captures: Dataset) -> bool:
    """Return whether a counted object has a labelled keypoint."""
    labels = [o for sample in captures.samples for o in sample.objects or () if not is_ignored(o)]
    return any(point.visibility for label in labels for point in label.keypoints or ())


def _score_masks(
    captures: Dataset, predictions: Predictions, label_masks: GroundTruthMasks
) -> ShapeMetrics | None:
    """Evaluate masks; None without labelled masks."""
    if not label_masks:
        return None
    evaluator = match_masks(captures, predictions, label_masks)
    return compute_shape_metrics(evaluator, rng=derive_rng(0, "bench"))


def _score_segments(
    captures: Dataset, confusions: PixelConfusions | None
) -> SegmentationMetrics | None:
    if confusions is None:
        return None
    return evaluate_segmentation(captures, confusions, rng=derive_rng(0, "bench"))


def collect_label_masks(captures: Dataset) -> GroundTruthMasks:
    """Return the labelled masks by image name; empty if no counted object has a mask."""
    masks = {
        sample.name: [
            None if m is None else RleMask.from_mask(m) for m in read_visible_masks(sample)
        ]
        for sample in captures.samples
    }
    has_counted_mask = any(
        mask is not None and mask.compute_area_px() and not is_ignored(label)
        for sample in captures.samples
        for label, mask in zip(sample.objects or (), masks[sample.name], strict=True)
    )
    return masks if has_counted_mask else {}


def write_bench_result(
    result: BenchResult,
    slices: Sequence[Slice],
    verdict: Verdict,
    path: Path,
    poses: PoseBenchResult | None = None,
    warnings: Sequence[str] = (),
) -> None:
    """Write scores, slices, warnings, verdict, errors and all predictions to a JSON file.

    Raises:
        InputError: if an image no longer exists.
        OutputError: if the file cannot be written.
    """
    ood_scores = result.reliability.ood_scores or {}
    scored = result.captures, result.predictions, result.threshold
    content: dict[str, Any] = {
        "scores": result.scores_to_json(),
        "threshold": result.threshold,
        "reliability": result.reliability.to_json(),
        SELECTION_SCORES: result.selection and result.selection.to_json(),
        "slices": [s.to_json() for s in slices],
        "warnings": list(warnings),
        "verdict": verdict.to_json(),
        "ap50_losses": result.ap_losses.to_json(),
        "categories": [asdict(counts) for counts in count_category_errors(*scored)],
        "images": [
            asdict(counts) | {"ood_score": ood_scores.get(counts.name)}
            for counts in count_errors(*scored)
        ],
        LABEL_MAPPING: label_mapping_to_json(result.label_mapping),
        PIXEL_CONFUSIONS: result.pixel_confusions and result.pixel_confusions.to_json(),
        TRAINING: result.training and asdict(result.training),
        NAMES: asdict(result.names),
        DIGESTS: compute_file_digests(result.captures),
        DETECTIONS: predictions_to_json(result.predictions),
    }
    if poses is not None:
        content["scores"] |= {POSES_KEY: poses.to_json()}
        content[POSES_KEY] = serialize_pose_images(poses)
    write_json(path, content)
