"""How well detections fit labelled images: average precision with intervals."""

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
    estimates_to_json,
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
from sim2cam.metrics.resampling import GroupedImage, ResamplingUnits, group_images

N_RESAMPLES = 1000
_ALL_THRESHOLDS = range(len(IOU_THRESHOLDS))
_IOU_50_INDEX, _IOU_75_INDEX = 0, 5


class LabelledKeypoint(Protocol):
    """What is needed of a named point; ``dataset.Keypoint`` has it."""

    @property
    def name(self) -> str:
        """As its category has it."""

    @property
    def xy(self) -> tuple[float, float]:
        """Where it lies, pixels."""

    @property
    def visibility(self) -> int:
        """As COCO has it: 0 not labelled, 1 hidden, 2 seen."""


class LabelledObject(Protocol):
    """What is needed of an object's label; ``dataset.ObjectLabel`` has it."""

    @property
    def category(self) -> str:
        """Its name."""

    @property
    def box_xyxy(self) -> Box:
        """Its box, pixels."""

    @property
    def is_crowd(self) -> bool:
        """Whether the box covers a group, which is not scored."""

    @property
    def visible_fraction(self) -> float | None:
        """Share of it that is seen; None where unknown."""

    @property
    def area_px(self) -> float:
        """Pixels in which it is seen."""

    @property
    def keypoints(self) -> Sequence[LabelledKeypoint] | None:
        """Its named points; None where unknown."""


class LabelledImage(GroupedImage, Protocol):
    """What is needed of an image; ``dataset.Sample`` has it."""

    @property
    def name(self) -> str:
        """Unique among the images."""

    @property
    def width(self) -> int:
        """Pixels."""

    @property
    def height(self) -> int:
        """Pixels."""

    @property
    def objects(self) -> Sequence[LabelledObject] | None:
        """Its labels; None when it was never labelled."""


class LabelledDataset(Protocol):
    """What is needed of labelled captures; ``dataset.Dataset`` has it."""

    @property
    def root(self) -> Path:
        """Where they lie, for the errors."""

    @property
    def categories(self) -> tuple[str, ...]:
        """Their names."""

    @property
    def samples(self) -> Sequence[LabelledImage]:
        """The images."""


@dataclass(frozen=True)
class DetectedKeypoint:
    """A named point of an object that a detector found.

    Attributes:
        name: as its category has it.
        xy: where it lies, also outside the picture or behind something; pixels, an integer being the
            centre of one.
        visibility_score: how sure the detector is that nothing hides it, 0 to 1; None where that is not said.
        uncertainty_px: how far off it is: the scale of a Laplace distribution of either coordinate; None where
            that is not said.
    """

    name: str
    xy: tuple[float, float]
    visibility_score: float | None = None
    uncertainty_px: float | None = None


@dataclass(frozen=True)
class Detection:
    """One object that a detector found.

    Attributes:
        category: its name.
        box_xyxy: its box, pixels.
        score: how sure the detector is, 0 to 1.
        keypoints: its named points; None where they were not looked for.
        mask: the pixels in which it is seen; None where they were not looked for.
    """

    category: str
    box_xyxy: Box
    score: float
    keypoints: tuple[DetectedKeypoint, ...] | None = None
    mask: RleMask | None = None

    def to_json(self) -> dict[str, Any]:
        """Return all of it as JSON values, without what was not looked for."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def is_ignored(label: LabelledObject) -> bool:
    """Return whether an object counts neither as found nor as missed: a group, or hardly seen."""
    visible = label.visible_fraction
    return label.is_crowd or (visible is not None and visible < MIN_VISIBLE_FRACTION)


Predictions = Mapping[str, Sequence[Detection]]


@dataclass(frozen=True)
class DetectionMetrics:
    """How well detections fit labelled images.

    Attributes:
        ap: mean average precision over categories and IoU thresholds 0.50 to 0.95.
        ap50, ap75: the same at one threshold.
        agnostic_ap50: at 0.50, all categories taken as one.
        category_ap, category_ap50: over all thresholds and at 0.50, for each category that has objects.
        images, objects: how many there are, those that ``is_ignored`` left out.
        intervals_over: what was drawn again for the intervals, in words.
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
        """Return the numbers, each as ``{"value": v, "ci95": [low, high]}``, and the counts."""
        return {
            "ap": self.ap.to_json(),
            "ap50": self.ap50.to_json(),
            "ap75": self.ap75.to_json(),
            "agnostic_ap50": self.agnostic_ap50.to_json(),
            "category_ap": estimates_to_json(self.category_ap),
            "category_ap50": estimates_to_json(self.category_ap50),
            "images": self.images,
            "objects": self.objects,
            "intervals_over": self.intervals_over,
        }


class Evaluator(Protocol):
    """What was found on labelled images, ready to be scored on any resample of them."""

    @property
    def units(self) -> ResamplingUnits:
        """What resamples are drawn by."""

    def compute_scores(self, image_counts: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
        """Return scores (draws,) by their names, for how often each image is in each resample (draws, images)."""


class DetectionEvaluator:
    """Detections matched to labels once, ready to be scored on any resample of the images.

    Args:
        dataset: labelled images.
        predictions: by the image's name.

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
        """Return ``ap ap50 ap75 agnostic_ap50``, ``ap/NAME`` and ``ap50/NAME``, (draws,); NaN if undefined.

        Args:
            image_counts: how often each image is in each resample (draws, images).
        """
        precision = {
            n: m.compute_average_precision(image_counts, _ALL_THRESHOLDS)
            for n, m in self._categories.items()
        }
        stacked = np.stack(list(precision.values()))  # (categories, draws, thresholds)
        found = {
            "ap": average_defined(stacked.mean(axis=2)),
            "ap50": average_defined(stacked[:, :, _IOU_50_INDEX]),
            "ap75": average_defined(stacked[:, :, _IOU_75_INDEX]),
            "agnostic_ap50": self._agnostic.compute_average_precision(
                image_counts, [_IOU_50_INDEX]
            )[:, 0],
        }
        found |= {f"ap/{name}": p.mean(axis=1) for name, p in precision.items()}
        return found | {f"ap50/{name}": p[:, _IOU_50_INDEX] for name, p in precision.items()}


def evaluate_detections(
    dataset: LabelledDataset,
    predictions: Predictions,
    *,
    rng: np.random.Generator,
    n_resamples: int = N_RESAMPLES,
) -> DetectionMetrics:
    """Return how well predictions fit, with 95 % bootstrap intervals over ``group_images`` the images.

    Args:
        dataset: labelled images.
        predictions: by the image's name, with an entry, perhaps empty, for every image.
        rng: draws the resamples.
        n_resamples: how many.

    Raises:
        InputError: as ``DetectionEvaluator`` and ``count_objects``.
    """
    run = DetectionEvaluator(dataset, predictions)
    objects = count_objects(dataset)
    values = _compute_coco_metrics(dataset, predictions)
    resampled = run.compute_scores(run.units.sample_image_counts(n_resamples, rng))
    estimates = {name: bootstrap_estimate(value, resampled[name]) for name, value in values.items()}
    return DetectionMetrics(
        ap=estimates["ap"],
        ap50=estimates["ap50"],
        ap75=estimates["ap75"],
        agnostic_ap50=estimates["agnostic_ap50"],
        category_ap=_select_category_estimates("ap", dataset, estimates),
        category_ap50=_select_category_estimates("ap50", dataset, estimates),
        images=run.units.n_images,
        objects=objects,
        intervals_over=run.units.describe(),
    )


def _select_category_estimates(
    metric: str, dataset: LabelledDataset, estimates: Mapping[str, Estimate]
) -> dict[str, Estimate]:
    """Return what is known of a metric by category."""
    names = {f"{metric}/{name}": name for name in dataset.categories}
    return {name: estimates[key] for key, name in names.items() if key in estimates}


def bootstrap_scores(
    evaluators: Sequence[Evaluator], *, rng: np.random.Generator, n_resamples: int = N_RESAMPLES
) -> dict[str, NDArray[np.float64]]:
    """Return the scores of runs on the same images (runs, 1 + draws), by the names of scores.

    The first column is of all images, the others of resamples: the same for every run.

    Args:
        evaluators: for instance one a seed.
        rng: draws the resamples.
        n_resamples: how many.
    """
    drawn = evaluators[0].units.sample_image_counts(n_resamples, rng)
    counts = np.concatenate([np.ones_like(drawn[:1]), drawn])
    scores = [run.compute_scores(counts) for run in evaluators]
    return {name: np.stack([one[name] for one in scores]) for name in scores[0]}


def compare_seed_means(first: NDArray[np.float64], second: NDArray[np.float64]) -> PairedDifference:
    """Return how much better the mean of the first runs is than that of the second.

    Args:
        first, second: ``average_over_seeds`` (1 + draws,), on the same resamples of images.
    """
    return compute_paired_difference(float(first[0]), float(second[0]), first[1:], second[1:])


def estimate_seed_mean(mean: NDArray[np.float64]) -> Estimate:
    """Return the mean of several runs, with its interval.

    Args:
        mean: ``average_over_seeds`` (1 + draws,).
    """
    return bootstrap_estimate(float(mean[0]), mean[1:])


def count_objects(dataset: LabelledDataset) -> int:
    """Return how many objects there are, those that ``is_ignored`` left out.

    Raises:
        InputError: no image, one without labels, or no object.
    """
    _check_labelled(dataset)
    objects = sum(not is_ignored(label) for s in dataset.samples for label in s.objects or ())
    if not objects:
        raise InputError(dataset.root, "no labelled object to score against.")
    return objects


def _check_labelled(dataset: LabelledDataset) -> None:
    if not dataset.samples:
        raise InputError(dataset.root, "no images to score.")
    for sample in dataset.samples:
        if sample.objects is None:
            raise InputError(dataset.root, f"image {sample.name} has no labels to score against.")


def check_predictions(dataset: LabelledDataset, predictions: Predictions) -> None:
    """Refuse what cannot be scored.

    Raises:
        InputError: as ``DetectionEvaluator``.
    """
    _check_labelled(dataset)
    for sample in dataset.samples:
        if sample.name not in predictions:
            raise InputError(dataset.root, f"image {sample.name} was not predicted.")
        for found in predictions[sample.name]:
            if found.category not in dataset.categories:
                raise InputError(
                    dataset.root,
                    f"the detector knows category '{found.category}', which is not among "
                    f"{', '.join(dataset.categories)}.",
                )


def match_category(
    dataset: LabelledDataset, predictions: Predictions, category: str | None
) -> list[ImageMatches]:
    """Return the matches of one category in every image; of all taken as one when None."""
    images = []
    for sample in dataset.samples:
        found = [d for d in predictions[sample.name] if category in (None, d.category)]
        truth = [o for o in sample.objects or () if category in (None, o.category)]
        images.append(
            match_boxes(
                stack_boxes(found),
                np.array([d.score for d in found], np.float64),
                stack_boxes(truth),
                np.array([is_ignored(o) for o in truth], np.bool_),
                np.array([o.is_crowd for o in truth], np.bool_),
            )
        )
    return images


def stack_boxes(items: Sequence[Detection] | Sequence[LabelledObject]) -> NDArray[np.float64]:
    """Return boxes (n, 4) as x0, y0, x1, y1, pixels."""
    return np.array([b.box_xyxy for b in items], np.float64).reshape(-1, 4)


def average_defined(precision: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean over the categories that have objects, of (categories, draws)."""
    defined = np.isfinite(precision)
    n = defined.sum(axis=0)
    total = np.where(defined, precision, 0.0).sum(axis=0)
    return np.asarray(np.divide(total, n, out=np.full(len(n), np.nan), where=n > 0))


def _compute_coco_metrics(dataset: LabelledDataset, predictions: Predictions) -> dict[str, float]:
    """Return the values that faster-coco-eval gives; categories without objects are left out."""
    by_category = _compute_coco_precision(
        dataset, predictions, dataset.categories
    )  # (t, categories)
    as_one = _compute_coco_precision(dataset, predictions, None)
    defined = by_category[0] > -1
    values = {
        "ap": float(by_category[:, defined].mean()),
        "ap50": float(by_category[_IOU_50_INDEX, defined].mean()),
        "ap75": float(by_category[_IOU_75_INDEX, defined].mean()),
        "agnostic_ap50": float(as_one[_IOU_50_INDEX, 0]),
    }
    for name, each in zip(dataset.categories, by_category.T, strict=True):
        if each[_IOU_50_INDEX] > -1:
            values |= {f"ap/{name}": float(each.mean()), f"ap50/{name}": float(each[_IOU_50_INDEX])}
    return values


def _compute_coco_precision(
    dataset: LabelledDataset, predictions: Predictions, categories: tuple[str, ...] | None
) -> NDArray[np.float64]:
    """Return average precision (thresholds, categories), -1 without objects; as one when None."""
    numbers = {name: 1 if categories is None else i for i, name in enumerate(dataset.categories, 1)}
    truth = {
        "images": [{"id": i} for i in range(1, len(dataset.samples) + 1)],
        "categories": [{"id": i, "name": str(i)} for i in sorted(set(numbers.values()))],
        "annotations": _make_coco_annotations(dataset, numbers),
    }
    results = [
        {
            "image_id": i,
            "category_id": numbers[found.category],
            "bbox": list(xyxy_to_xywh(found.box_xyxy)),
            "score": found.score,
        }
        for i, sample in enumerate(dataset.samples, 1)
        for found in predictions[sample.name]
    ]
    return compute_coco_average_precision("bbox", truth, results, max_detections=MAX_DETECTIONS)


def _make_coco_annotations(
    dataset: LabelledDataset, category_ids: Mapping[str, int]
) -> list[dict[str, Any]]:
    annotations: list[dict[str, Any]] = []
    for i, sample in enumerate(dataset.samples, 1):
        for label in sample.objects or ():
            box = xyxy_to_xywh(label.box_xyxy)
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": i,
                    "category_id": category_ids[label.category],
                    "bbox": list(box),
                    # faster-coco-eval ignores groups, and what is too large to be asked for
                    "area": 2 * MAX_AREA if is_ignored(label) else box[2] * box[3],
                    "iscrowd": int(label.is_crowd),
                }
            )
    return annotations
