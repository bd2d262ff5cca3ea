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
from sim2cam.geometry.run_length import RunLengths
from sim2cam.metrics.bootstrap import (
    Difference,
    Estimate,
    difference,
    estimate,
    estimates_json,
)
from sim2cam.metrics.coco import MOST_AREA, average_precision
from sim2cam.metrics.matching import (
    IOU_THRESHOLDS,
    LEAST_VISIBLE,
    MAX_DETECTIONS,
    CategoryMatches,
    ImageMatches,
    match,
)
from sim2cam.metrics.resampling import Taken, Units, units_of

DRAWS = 1000
_ALL = range(len(IOU_THRESHOLDS))
_AT_50, _AT_75 = 0, 5


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


class LabelledImage(Taken, Protocol):
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


class LabelledImages(Protocol):
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
class FoundKeypoint:
    """A named point of an object that a detector found.

    Attributes:
        name: as its category has it.
        xy: where it lies, also outside the picture or behind something; pixels, an integer being the
            centre of one.
        seen: how sure the detector is that nothing hides it, 0 to 1; None where that is not said.
        spread_px: how far off it is: the scale of a Laplace distribution of either coordinate; None where
            that is not said.
    """

    name: str
    xy: tuple[float, float]
    seen: float | None = None
    spread_px: float | None = None


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
    keypoints: tuple[FoundKeypoint, ...] | None = None
    mask: RunLengths | None = None

    def to_json(self) -> dict[str, Any]:
        """Returns all of it as JSON values, without what was not looked for."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def is_ignored(label: LabelledObject) -> bool:
    """Returns whether an object counts neither as found nor as missed: a group, or hardly seen."""
    visible = label.visible_fraction
    return label.is_crowd or (visible is not None and visible < LEAST_VISIBLE)


Predictions = Mapping[str, Sequence[Detection]]


@dataclass(frozen=True)
class DetectionScore:
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
        """Returns the numbers, each as ``{"value": v, "ci95": [low, high]}``, and the counts."""
        return {
            "ap": self.ap.to_json(),
            "ap50": self.ap50.to_json(),
            "ap75": self.ap75.to_json(),
            "agnostic_ap50": self.agnostic_ap50.to_json(),
            "category_ap": estimates_json(self.category_ap),
            "category_ap50": estimates_json(self.category_ap50),
            "images": self.images,
            "objects": self.objects,
            "intervals_over": self.intervals_over,
        }


class Run(Protocol):
    """What was found on labelled images, ready to be scored on any resample of them."""

    @property
    def units(self) -> Units:
        """What resamples are drawn by."""

    def scores(self, counts: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
        """Returns scores (draws,) by their names, for how often each image is in each resample (draws, images)."""


class MatchedRun:
    """Detections matched to labels once, ready to be scored on any resample of the images.

    Args:
        dataset: labelled images.
        predictions: by the image's name.

    Raises:
        InputError: no image, an image without labels or without an entry in ``predictions``, or a
            detection of an unknown category.
    """

    def __init__(self, dataset: LabelledImages, predictions: Predictions) -> None:
        check_predicted(dataset, predictions)
        self.units = units_of(dataset.samples)
        self._categories = {
            name: CategoryMatches(category_matches(dataset, predictions, name))
            for name in dataset.categories
        }
        self._agnostic = CategoryMatches(category_matches(dataset, predictions, None))

    def scores(self, counts: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
        """Returns ``ap ap50 ap75 agnostic_ap50``, ``ap/NAME`` and ``ap50/NAME``, (draws,); NaN if undefined.

        Args:
            counts: how often each image is in each resample (draws, images).
        """
        precision = {n: m.average_precision(counts, _ALL) for n, m in self._categories.items()}
        stacked = np.stack(list(precision.values()))  # (categories, draws, thresholds)
        found = {
            "ap": mean_defined(stacked.mean(axis=2)),
            "ap50": mean_defined(stacked[:, :, _AT_50]),
            "ap75": mean_defined(stacked[:, :, _AT_75]),
            "agnostic_ap50": self._agnostic.average_precision(counts, [_AT_50])[:, 0],
        }
        found |= {f"ap/{name}": p.mean(axis=1) for name, p in precision.items()}
        return found | {f"ap50/{name}": p[:, _AT_50] for name, p in precision.items()}


def evaluate(
    dataset: LabelledImages,
    predictions: Predictions,
    *,
    rng: np.random.Generator,
    draws: int = DRAWS,
) -> DetectionScore:
    """Returns how well predictions fit, with 95 % bootstrap intervals over ``units_of`` the images.

    Args:
        dataset: labelled images.
        predictions: by the image's name, with an entry, perhaps empty, for every image.
        rng: draws the resamples.
        draws: how many.

    Raises:
        InputError: as ``MatchedRun`` and ``count_objects``.
    """
    run = MatchedRun(dataset, predictions)
    objects = count_objects(dataset)
    values = _coco_values(dataset, predictions)
    resampled = run.scores(run.units.resampled(draws, rng))
    estimates = {name: estimate(value, resampled[name]) for name, value in values.items()}
    return DetectionScore(
        ap=estimates["ap"],
        ap50=estimates["ap50"],
        ap75=estimates["ap75"],
        agnostic_ap50=estimates["agnostic_ap50"],
        category_ap=_of_categories("ap", dataset, estimates),
        category_ap50=_of_categories("ap50", dataset, estimates),
        images=run.units.n_images,
        objects=objects,
        intervals_over=run.units.words(),
    )


def _of_categories(
    metric: str, dataset: LabelledImages, estimates: Mapping[str, Estimate]
) -> dict[str, Estimate]:
    """Returns what is known of a metric by category."""
    names = {f"{metric}/{name}": name for name in dataset.categories}
    return {name: estimates[key] for key, name in names.items() if key in estimates}


def resampled_scores(
    runs: Sequence[Run], *, rng: np.random.Generator, draws: int = DRAWS
) -> dict[str, NDArray[np.float64]]:
    """Returns the scores of runs on the same images (runs, 1 + draws), by the names of scores.

    The first column is of all images, the others of resamples: the same for every run.

    Args:
        runs: for instance one a seed.
        rng: draws the resamples.
        draws: how many.
    """
    drawn = runs[0].units.resampled(draws, rng)
    counts = np.concatenate([np.ones_like(drawn[:1]), drawn])
    scores = [run.scores(counts) for run in runs]
    return {name: np.stack([one[name] for one in scores]) for name in scores[0]}


def compare(first: NDArray[np.float64], second: NDArray[np.float64]) -> Difference:
    """Returns how much better the mean of the first runs is than that of the second.

    Args:
        first, second: ``mean_of_seeds`` (1 + draws,), on the same resamples of images.
    """
    return difference(float(first[0]), float(second[0]), first[1:], second[1:])


def mean_estimate(mean: NDArray[np.float64]) -> Estimate:
    """Returns the mean of several runs, with its interval.

    Args:
        mean: ``mean_of_seeds`` (1 + draws,).
    """
    return estimate(float(mean[0]), mean[1:])


def count_objects(dataset: LabelledImages) -> int:
    """Returns how many objects there are, those that ``is_ignored`` left out.

    Raises:
        InputError: no image, one without labels, or no object.
    """
    _check_labelled(dataset)
    objects = sum(not is_ignored(label) for s in dataset.samples for label in s.objects or ())
    if not objects:
        raise InputError(dataset.root, "no labelled object to score against.")
    return objects


def _check_labelled(dataset: LabelledImages) -> None:
    if not dataset.samples:
        raise InputError(dataset.root, "no images to score.")
    for sample in dataset.samples:
        if sample.objects is None:
            raise InputError(dataset.root, f"image {sample.name} has no labels to score against.")


def check_predicted(dataset: LabelledImages, predictions: Predictions) -> None:
    """Refuses what cannot be scored.

    Raises:
        InputError: as ``MatchedRun``.
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


def category_matches(
    dataset: LabelledImages, predictions: Predictions, category: str | None
) -> list[ImageMatches]:
    """Returns the matches of one category in every image; of all taken as one when None."""
    images = []
    for sample in dataset.samples:
        found = [d for d in predictions[sample.name] if category in (None, d.category)]
        truth = [o for o in sample.objects or () if category in (None, o.category)]
        images.append(
            match(
                boxes_of(found),
                np.array([d.score for d in found], np.float64),
                boxes_of(truth),
                np.array([is_ignored(o) for o in truth], np.bool_),
                np.array([o.is_crowd for o in truth], np.bool_),
            )
        )
    return images


def boxes_of(boxed: Sequence[Detection] | Sequence[LabelledObject]) -> NDArray[np.float64]:
    """Returns boxes (n, 4) as x0, y0, x1, y1, pixels."""
    return np.array([b.box_xyxy for b in boxed], np.float64).reshape(-1, 4)


def mean_defined(precision: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the mean over the categories that have objects, of (categories, draws)."""
    defined = np.isfinite(precision)
    n = defined.sum(axis=0)
    total = np.where(defined, precision, 0.0).sum(axis=0)
    return np.asarray(np.divide(total, n, out=np.full(len(n), np.nan), where=n > 0))


def _coco_values(dataset: LabelledImages, predictions: Predictions) -> dict[str, float]:
    """Returns the values that faster-coco-eval gives; categories without objects are left out."""
    by_category = _coco_precision(dataset, predictions, dataset.categories)  # (t, categories)
    as_one = _coco_precision(dataset, predictions, None)
    defined = by_category[0] > -1
    values = {
        "ap": float(by_category[:, defined].mean()),
        "ap50": float(by_category[_AT_50, defined].mean()),
        "ap75": float(by_category[_AT_75, defined].mean()),
        "agnostic_ap50": float(as_one[_AT_50, 0]),
    }
    for name, each in zip(dataset.categories, by_category.T, strict=True):
        if each[_AT_50] > -1:
            values |= {f"ap/{name}": float(each.mean()), f"ap50/{name}": float(each[_AT_50])}
    return values


def _coco_precision(
    dataset: LabelledImages, predictions: Predictions, categories: tuple[str, ...] | None
) -> NDArray[np.float64]:
    """Returns average precision (thresholds, categories), -1 without objects; as one when None."""
    numbers = {name: 1 if categories is None else i for i, name in enumerate(dataset.categories, 1)}
    truth = {
        "images": [{"id": i} for i in range(1, len(dataset.samples) + 1)],
        "categories": [{"id": i, "name": str(i)} for i in sorted(set(numbers.values()))],
        "annotations": _coco_annotations(dataset, numbers),
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
    return average_precision("bbox", truth, results, most=MAX_DETECTIONS)


def _coco_annotations(dataset: LabelledImages, numbers: Mapping[str, int]) -> list[dict[str, Any]]:
    annotations: list[dict[str, Any]] = []
    for i, sample in enumerate(dataset.samples, 1):
        for label in sample.objects or ():
            box = xyxy_to_xywh(label.box_xyxy)
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": i,
                    "category_id": numbers[label.category],
                    "bbox": list(box),
                    # faster-coco-eval ignores groups, and what is too large to be asked for
                    "area": 2 * MOST_AREA if is_ignored(label) else box[2] * box[3],
                    "iscrowd": int(label.is_crowd),
                }
            )
    return annotations
