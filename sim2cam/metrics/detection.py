"""Average precision of detections, with bootstrap intervals over images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sim2cam.errors import InputError
from sim2cam.geometry.boxes import Box, xyxy_to_xywh
from sim2cam.geometry.run_length import RleMask
from sim2cam.metrics.bootstrap import (
    Estimate,
    PairedDifference,
    bootstrap_estimate,
    compute_paired_difference,
    fields_to_json,
)
from sim2cam.metrics.coco import MAX_AREA, compute_coco_average_precision
from sim2cam.metrics.matching import (
    IOU_THRESHOLDS,
    MAX_DETECTIONS,
    MIN_VISIBLE_FRACTION,
    CategoryMatches,
    ImageMatches,
    match_boxes,
)
from sim2cam.metrics.resampling import N_RESAMPLES, GroupedImage, ResamplingUnits, group_images

IOU_50_INDEX, IOU_75_INDEX = 0, 5  # of IOU_THRESHOLDS


class LabelledKeypoint(Protocol):
    """Protocol of a keypoint label, as ``data.sample.Keypoint``."""

    @property
    def name(self) -> str:
        """Name in its category."""

    @property
    def xy(self) -> tuple[float, float]:
        """Position, pixels."""

    @property
    def visibility(self) -> int:
        """COCO visibility: 0 not labelled, 1 hidden, 2 visible."""


class LabelledObject(Protocol):
    """Protocol of an object label, as ``data.sample.ObjectLabel``."""

    @property
    def category(self) -> str:
        """Category name."""

    @property
    def box_xyxy(self) -> Box:
        """Box, pixels."""

    @property
    def is_crowd(self) -> bool:
        """Whether the box covers a group, which is not scored."""

    @property
    def visible_fraction(self) -> float | None:
        """Visible fraction of the object; None if unknown."""

    @property
    def area_px(self) -> float:
        """Number of visible pixels."""

    @property
    def keypoints(self) -> Sequence[LabelledKeypoint] | None:
        """Keypoints; None if unknown."""


class LabelledImage(GroupedImage, Protocol):
    """Protocol of a labelled image, as ``data.sample.Sample``."""

    @property
    def name(self) -> str:
        """Unique name."""

    @property
    def width(self) -> int:
        """Width, pixels."""

    @property
    def height(self) -> int:
        """Height, pixels."""

    @property
    def objects(self) -> Sequence[LabelledObject] | None:
        """Labels; None if the image is unlabelled."""


class LabelledDataset(Protocol):
    """Protocol of a labelled dataset, as ``data.sample.Dataset``."""

    @property
    def root(self) -> Path:
        """Folder, for errors."""

    @property
    def categories(self) -> tuple[str, ...]:
        """Category names."""

    @property
    def samples(self) -> Sequence[LabelledImage]:
        """Images."""


@dataclass(frozen=True)
class DetectedKeypoint:
    """Detected keypoint of an object.

    Attributes:
        xy: position, pixels; integers are pixel centres. May lie outside the image or be occluded.
        visibility_score: confidence that the keypoint is visible, 0 to 1; None if not predicted.
        uncertainty_px: scale of the Laplace distribution of either coordinate's error; None if not
            predicted.
    """

    name: str
    xy: tuple[float, float]
    visibility_score: float | None = None
    uncertainty_px: float | None = None


@dataclass(frozen=True)
class Detection:
    """Detected object.

    Attributes:
        box_xyxy: box, pixels.
        score: confidence, 0 to 1.
        mask: visible pixels; None if not predicted.
    """

    category: str
    box_xyxy: Box
    score: float
    keypoints: tuple[DetectedKeypoint, ...] | None = None
    mask: RleMask | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values, without those that are None."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def is_ignored(label: LabelledObject) -> bool:
    """Return whether an object is not scored: a group, or hardly visible."""
    visible = label.visible_fraction
    return label.is_crowd or (visible is not None and visible < MIN_VISIBLE_FRACTION)


Predictions = Mapping[str, Sequence[Detection]]
"""Detections by image name, with an entry for every image."""


@dataclass(frozen=True)
class DetectionMetrics:
    """Average precision of detections.

    Attributes:
        ap: mean average precision over categories and IoU thresholds 0.50 to 0.95.
        ap50, ap75: the same at one threshold.
        agnostic_ap50: class-agnostic average precision at 0.50.
        category_ap, category_ap50: over all thresholds and at 0.50, for each category with objects.
        images, objects: number of images, and of objects without ignored ones.
    """

    ap: Estimate
    ap50: Estimate
    ap75: Estimate
    agnostic_ap50: Estimate
    category_ap: dict[str, Estimate]
    category_ap50: dict[str, Estimate]
    images: int
    objects: int
    intervals_over: str

    def to_json(self) -> dict[str, Any]:
        """Return estimates as ``{"value": v, "ci95": [low, high]}``, and the counts."""
        return fields_to_json(self)


class Evaluator(Protocol):
    """Matched predictions that can be scored on any resample of the images.

    Resamples are given by the count of each image in each of them (n_resamples, images).
    """

    @property
    def units(self) -> ResamplingUnits:
        """Resampling units."""

    def compute_scores(self, image_counts: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
        """Return scores (n_resamples,) by metric name."""


class DetectionEvaluator:
    """Matched detections that can be scored on any resample of the images.

    Raises:
        InputError: no image, an image without labels or without an entry in ``predictions``, or a
            detection of an unknown category.
    """

    def __init__(self, dataset: LabelledDataset, predictions: Predictions) -> None:
        check_predictions(dataset, predictions)
        self.units = group_images(dataset.samples)
        self._categories = {
            name: CategoryMatches(match_category(dataset, predictions, name))
            for name in dataset.categories
        }
        self._agnostic = CategoryMatches(match_category(dataset, predictions, None))

    def compute_scores(self, image_counts: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
        """Return ``ap ap50 ap75 agnostic_ap50``, ``ap/NAME``, ``ap50/NAME`` (n_resamples,); NaN if undefined."""
        agnostic = self._agnostic.compute_average_precision(image_counts, [IOU_50_INDEX])
        scores = score_categories(self._categories, image_counts)
        return scores | {"agnostic_ap50": agnostic[:, 0]}


def score_categories(
    categories: Mapping[str, CategoryMatches], image_counts: NDArray[np.int64]
) -> dict[str, NDArray[np.float64]]:
    """Return ``ap ap50 ap75``, ``ap/NAME`` and ``ap50/NAME`` (n_resamples,); NaN if undefined."""
    precision = {
        name: matches.compute_average_precision(image_counts, range(len(IOU_THRESHOLDS)))
        for name, matches in categories.items()
    }
    stacked = np.stack(list(precision.values()))  # (categories, n_resamples, thresholds)
    scores = {
        "ap": average_defined(stacked.mean(axis=2)),
        "ap50": average_defined(stacked[:, :, IOU_50_INDEX]),
        "ap75": average_defined(stacked[:, :, IOU_75_INDEX]),
    }
    scores |= {f"ap/{name}": p.mean(axis=1) for name, p in precision.items()}
    return scores | {f"ap50/{name}": p[:, IOU_50_INDEX] for name, p in precision.items()}


def evaluate_detections(
    dataset: LabelledDataset,
    predictions: Predictions,
    *,
    rng: np.random.Generator,
    n_resamples: int = N_RESAMPLES,
) -> DetectionMetrics:
    """Return detection metrics with 95 % bootstrap intervals over the units of ``group_images``.

    Raises:
        InputError: as ``DetectionEvaluator`` and ``count_objects``.
    """
    evaluator = DetectionEvaluator(dataset, predictions)
    n_objects = count_objects(dataset)
    values = _compute_coco_metrics(dataset, predictions)
    resampled = evaluator.compute_scores(evaluator.units.sample_image_counts(n_resamples, rng))
    estimates = {name: bootstrap_estimate(value, resampled[name]) for name, value in values.items()}
    return DetectionMetrics(
        ap=estimates["ap"],
        ap50=estimates["ap50"],
        ap75=estimates["ap75"],
        agnostic_ap50=estimates["agnostic_ap50"],
        category_ap=_select_category_estimates("ap", dataset, estimates),
        category_ap50=_select_category_estimates("ap50", dataset, estimates),
        images=evaluator.units.n_images,
        objects=n_objects,
        intervals_over=evaluator.units.describe(),
    )


def _select_category_estimates(
    metric: str, dataset: LabelledDataset, estimates: Mapping[str, Estimate]
) -> dict[str, Estimate]:
    names = {f"{metric}/{name}": name for name in dataset.categories}
    return {name: estimates[key] for key, name in names.items() if key in estimates}


def bootstrap_scores(
    evaluators: Sequence[Evaluator], *, rng: np.random.Generator, n_resamples: int = N_RESAMPLES
) -> dict[str, NDArray[np.float64]]:
    """Return scores of runs on the same images (runs, 1 + n_resamples), by metric name.

    The first column is over all images, the others over resamples, which all runs share.
    """
    resampled_counts = evaluators[0].units.sample_image_counts(n_resamples, rng)
    counts = np.concatenate([np.ones_like(resampled_counts[:1]), resampled_counts])
    scores = [evaluator.compute_scores(counts) for evaluator in evaluators]
    return {name: np.stack([run_scores[name] for run_scores in scores]) for name in scores[0]}


def compare_seed_means(first: NDArray[np.float64], second: NDArray[np.float64]) -> PairedDifference:
    """Return the paired difference of the seed means of two sets of runs.

    Args:
        first, second: results of ``average_over_seeds`` (1 + n_resamples,) on the same resamples of
            images.
    """
    return compute_paired_difference(float(first[0]), float(second[0]), first[1:], second[1:])


def estimate_seed_mean(mean: NDArray[np.float64]) -> Estimate:
    """Return the mean over runs with its interval.

    Args:
        mean: result of ``average_over_seeds`` (1 + n_resamples,).
    """
    return bootstrap_estimate(float(mean[0]), mean[1:])


def count_objects(dataset: LabelledDataset) -> int:
    """Return the number of labelled objects without ignored ones.

    Raises:
        InputError: no image, an image without labels, or no object.
    """
    _check_labelled(dataset)
    objects = sum(not is_ignored(label) for s in dataset.samples for label in s.objects or ())
    if not objects:
        raise InputError(dataset.root, "no labelled object to score against. Add labelled images.")
    return objects


def _check_labelled(dataset: LabelledDataset) -> None:
    if not dataset.samples:
        raise InputError(dataset.root, "no images to score. Add labelled images.")
    for sample in dataset.samples:
        if sample.objects is None:
            raise InputError(
                dataset.root,
                f"image {sample.name} has no labels to score against. Label or remove it.",
            )


def check_predictions(dataset: LabelledDataset, predictions: Predictions) -> None:
    """Raise if predictions do not fit the dataset.

    Raises:
        InputError: as ``DetectionEvaluator``.
    """
    _check_labelled(dataset)
    for sample in dataset.samples:
        if sample.name not in predictions:
            raise InputError(
                dataset.root, f"image {sample.name} has no predictions. Predict all images."
            )
        for detection in predictions[sample.name]:
            if detection.category not in dataset.categories:
                raise InputError(
                    dataset.root,
                    f"the detector predicts category '{detection.category}'. Categories of the dataset: "
                    f"{', '.join(dataset.categories)}.",
                )


def match_category(
    dataset: LabelledDataset, predictions: Predictions, category: str | None
) -> list[ImageMatches]:
    """Return the matches in every image, of one category or class-agnostic if None."""
    matches = []
    for sample in dataset.samples:
        detections = [d for d in predictions[sample.name] if category in (None, d.category)]
        labels = [o for o in sample.objects or () if category in (None, o.category)]
        matches.append(
            match_boxes(
                stack_boxes(detections),
                np.array([d.score for d in detections], np.float64),
                stack_boxes(labels),
                np.array([is_ignored(o) for o in labels], np.bool_),
                np.array([o.is_crowd for o in labels], np.bool_),
            )
        )
    return matches


def stack_boxes(items: Sequence[Detection] | Sequence[LabelledObject]) -> NDArray[np.float64]:
    """Return the boxes (n, 4) as x0, y0, x1, y1, pixels."""
    return np.array([b.box_xyxy for b in items], np.float64).reshape(-1, 4)


def average_defined(precision: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean of (categories, n_resamples) over categories with finite values."""
    is_defined = np.isfinite(precision)
    n = is_defined.sum(axis=0)
    total = np.where(is_defined, precision, 0.0).sum(axis=0)
    return np.asarray(np.divide(total, n, out=np.full(len(n), np.nan), where=n > 0))


def _compute_coco_metrics(dataset: LabelledDataset, predictions: Predictions) -> dict[str, float]:
    # (thresholds, categories)
    by_category = _compute_coco_precision(dataset, predictions, dataset.categories)
    agnostic = _compute_coco_precision(dataset, predictions, None)
    is_defined = by_category[0] > -1
    values = {
        "ap": float(by_category[:, is_defined].mean()),
        "ap50": float(by_category[IOU_50_INDEX, is_defined].mean()),
        "ap75": float(by_category[IOU_75_INDEX, is_defined].mean()),
        "agnostic_ap50": float(agnostic[IOU_50_INDEX, 0]),
    }
    for name, category_ap in zip(dataset.categories, by_category.T, strict=True):
        if category_ap[IOU_50_INDEX] > -1:
            values |= {
                f"ap/{name}": float(category_ap.mean()),
                f"ap50/{name}": float(category_ap[IOU_50_INDEX]),
            }
    return values


def _compute_coco_precision(
    dataset: LabelledDataset, predictions: Predictions, categories: tuple[str, ...] | None
) -> NDArray[np.float64]:
    """Return average precision (thresholds, categories), -1 without objects; class-agnostic if None."""
    category_ids = {
        name: 1 if categories is None else i for i, name in enumerate(dataset.categories, 1)
    }
    annotations = [
        {
            "image_id": i,
            "category_id": category_ids[label.category],
            "bbox": list(box),
            # faster-coco-eval ignores crowds and areas above its range
            "area": 2 * MAX_AREA if is_ignored(label) else box[2] * box[3],
            "iscrowd": int(label.is_crowd),
        }
        for i, sample in enumerate(dataset.samples, 1)
        for label in sample.objects or ()
        for box in [xyxy_to_xywh(label.box_xyxy)]
    ]
    results = [
        {
            "image_id": i,
            "category_id": category_ids[detection.category],
            "bbox": list(xyxy_to_xywh(detection.box_xyxy)),
            "score": detection.score,
        }
        for i, sample in enumerate(dataset.samples, 1)
        for detection in predictions[sample.name]
    ]
    sizes = [(sample.width, sample.height) for sample in dataset.samples]
    return compute_coco_average_precision(
        "bbox", sizes, annotations, results, max_detections=MAX_DETECTIONS,
        n_categories=max(category_ids.values()),
    )  # fmt: skip
