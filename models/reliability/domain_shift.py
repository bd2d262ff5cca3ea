"""Comparison of target images with the training: object sizes, objects per image, luminance, sharpness."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.data.sample import Dataset
from sim2cam.geometry.boxes import Box
from sim2cam.images import read_rgb
from sim2cam.metrics.detection import Detection
from sim2cam.metrics.verdict import Finding
from sim2cam.models.inference.detections import rescale_image
from sim2cam.models.reliability.object_sizes import compute_longer_side

T = TypeVar("T")

Quantiles = tuple[float, float, float, float, float]

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Probabilities of the quantiles that a card stores; the outer ones bound what counts as trained."""

MAX_OUTSIDE_SHARE = 0.25
"""Share of values on one side of the trained range that is reported; 0.05 is expected for equal data."""

MIN_VALUES = 10
"""Fewest values that are compared."""

MAX_IMAGES = 64
"""Largest number of target images that are measured."""

_TILES_PER_IMAGE = 8
_MIN_CONTRAST = 0.002  # of luma, half an 8-bit step; below, there is no structure
_MIN_SCORE = 0.5  # of detections that count as objects


@dataclass(frozen=True)
class TrainingDomain:
    """Distributions in the training data, as the values at ``QUANTILES``.

    Attributes:
        box_side_px: longer box sides in training crops, in pixels at the network's scale; None without objects.
        objects_per_image: numbers of objects in the images.
        luminance: mean luma of image parts as large as training crops, 0 to 1.
        sharpness: contrast of the finest details relative to that of details of twice the size, in the half of the
            parts with more contrast; None if all are without.
    """

    box_side_px: Quantiles | None
    objects_per_image: Quantiles
    luminance: Quantiles
    sharpness: Quantiles | None


@dataclass(frozen=True)
class TargetStatistics:
    """Values of target images, to be compared with those of a ``TrainingDomain``.

    Attributes:
        box_side_px, objects_per_image: of labelled or detected objects; empty if unknown.
        luminance, sharpness: of parts of the images as large as training crops; empty if not measured.
    """

    box_side_px: tuple[float, ...] = ()
    objects_per_image: tuple[float, ...] = ()
    luminance: tuple[float, ...] = ()
    sharpness: tuple[float, ...] = ()


@dataclass(frozen=True)
class QuantityShift:
    """Comparison of one quantity of target images with the training.

    Attributes:
        name: field of ``TargetStatistics``.
        count: number of values.
        below, above: shares of the values below and above the trained range.
        median: median of the values.
        trained: 5th and 95th percentile in training.
    """

    name: str
    count: int
    below: float
    above: float
    median: float
    trained: tuple[float, float]

    @property
    def finding(self) -> Finding | None:
        """What does not fit, by how much, and the command that helps; None if the quantity fits."""
        share, is_below = max((self.below, True), (self.above, False))
        if share <= MAX_OUTSIDE_SHARE:
            return None
        text = _TEXTS[self.name]
        low, high = (text.format_value(value) for value in self.trained)
        is_harmless = text.harmless == ("below" if is_below else "above")
        return Finding(
            f"{share:.0%} of {self.count} {text.noun} {text.below if is_below else text.above} than in training: "
            f"{text.quantity}{text.format_value(self.median)} (median), in training {low} to {high} (90 %).",
            "note" if is_harmless else "problem",
            text.action if is_below or text.action_above is None else text.action_above,
        )


@dataclass(frozen=True)
class DomainShift:
    """Comparison of target images with the training, by quantity; unknown ones are missing."""

    quantities: tuple[QuantityShift, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings on the quantities that do not fit."""
        return tuple(q.finding for q in self.quantities if q.finding is not None)

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        return {
            q.name: {
                "values": q.count,
                "below": q.below,
                "above": q.above,
                "median": q.median,
                "trained": list(q.trained),
                "finding": None if q.finding is None else str(q.finding),
            }
            for q in self.quantities
        }


@dataclass(frozen=True)
class _Text:
    """Words and remedies for a quantity outside the trained range.

    Attributes:
        action, action_above: command that helps; the second one above the range, if it differs.
        slack: distance from the trained range that makes no difference.
        harmless: side on which a difference costs little: image pyramids cover larger objects.
    """

    noun: str
    below: str
    above: str
    quantity: str
    format_value: Callable[[float], str]
    action: str
    action_above: str | None = None
    slack: float = 0.0
    harmless: Literal["below", "above"] | None = None


_TUNE = "sim2cam tune WEIGHTS IMAGES --out tuned"
_FIT_OBJECTS = "sim2cam domain fit RECIPE --captures IMAGES --detector WEIGHTS --out fitted"
_TEXTS: Mapping[str, _Text] = {
    "box_side_px": _Text(
        "objects",
        "are smaller",
        "are larger",
        "a longer side at the network's scale of ",
        "{:.0f} px".format,
        _TUNE,
        _FIT_OBJECTS,
        harmless="above",
    ),
    "objects_per_image": _Text(
        "images",
        "show fewer objects",
        "show more objects",
        "",
        "{:.0f}".format,
        _TUNE,
        _FIT_OBJECTS,
        harmless="below",
    ),
    "luminance": _Text(
        "image parts",
        "are darker",
        "are brighter",
        "a luminance of ",
        "{:.2f}".format,
        "sim2cam domain fit RECIPE --captures IMAGES --out fitted",
        slack=0.05,
    ),
    "sharpness": _Text(
        "image parts",
        "are less sharp",
        "are sharper or noisier",
        "a contrast of the finest details, relative to that of coarser ones, of ",
        "{:.2f}".format,
        "sim2cam calibrate IMAGES --out camera.json",
        slack=0.05,
    ),
}


def collect_labelled_objects(images: Dataset, input_scale: float) -> TargetStatistics:
    """Return sizes and numbers of labelled objects; crowds do not count.

    Args:
        images: labelled images.
        input_scale: input scale of the detector.
    """
    labels = [
        [label.box_xyxy for label in sample.objects if not label.is_crowd]
        for sample in images.samples
        if sample.objects is not None
    ]
    return _collect_objects(labels, input_scale)


def collect_detected_objects(
    detections: Iterable[Sequence[Detection]], input_scale: float
) -> TargetStatistics:
    """Return sizes and numbers of detected objects.

    Args:
        detections: detections of each image; those with a score of 0.5 or more count.
        input_scale: input scale of the detector.
    """
    boxes = [[d.box_xyxy for d in image if d.score >= _MIN_SCORE] for image in detections]
    return _collect_objects(boxes, input_scale)


def measure_image_parts(
    paths: Sequence[Path], input_scale: float, part_px: int
) -> TargetStatistics:
    """Measure luminance and sharpness of parts of up to ``MAX_IMAGES`` images, evenly spaced.

    Args:
        paths: image files.
        input_scale: input scale of the detector.
        part_px: side of the parts, as that of the training crops.

    Raises:
        InputError: if an image cannot be read.
    """
    luminance, sharpness = measure_parts(
        part for path in select_evenly(paths) for part in iterate_parts(path, input_scale, part_px)
    )
    return TargetStatistics(luminance=tuple(luminance), sharpness=tuple(sharpness))


def select_evenly(items: Sequence[T], count: int = MAX_IMAGES) -> tuple[T, ...]:
    """Return up to a number of evenly spaced items, in their order."""
    return tuple(items[:: max(1, -(-len(items) // count))])


def compare_with_training(
    target: TargetStatistics,
    domain: TrainingDomain | None,
    box_size_range_px: tuple[float, float] | None,
) -> DomainShift:
    """Compare target images with the training.

    Args:
        target: values of the target images; quantities with fewer than ``MIN_VALUES`` are left out.
        domain: distributions of the training; None if unknown.
        box_size_range_px: range of box sizes, which includes that of the initial weights; None if unknown.
    """
    trained = {"box_side_px": box_size_range_px}
    if domain is not None:
        for name in ("objects_per_image", "luminance", "sharpness"):
            quantiles = getattr(domain, name)
            trained[name] = None if quantiles is None else (quantiles[0], quantiles[-1])
    return DomainShift(
        tuple(
            _compare(name, getattr(target, name), trained_range)
            for name, trained_range in trained.items()
            if trained_range is not None and len(getattr(target, name)) >= MIN_VALUES
        )
    )


def _compare(name: str, values: Sequence[float], trained: tuple[float, float]) -> QuantityShift:
    array, slack = np.array(values), _TEXTS[name].slack
    below = float((array < trained[0] - slack).mean())
    above = float((array > trained[1] + slack).mean())
    return QuantityShift(name, len(values), below, above, float(np.median(array)), trained)


def measure_parts(parts: Iterable[NDArray[np.uint8]]) -> tuple[list[float], list[float]]:
    """Return the mean luma of all parts, and the sharpness of the half with more contrast.

    The others show noise rather than details.
    """
    luminance: list[float] = []
    contrasts: list[float] = []
    sharpness: list[float] = []
    for rgb in parts:
        luma = cv2.cvtColor(rgb.astype(np.float32) / 255, cv2.COLOR_RGB2GRAY)
        luminance.append(float(luma.mean()))
        fine, middle = cv2.GaussianBlur(luma, (0, 0), 1.0), cv2.GaussianBlur(luma, (0, 0), 2.0)
        contrasts.append(float((fine - middle).std()))
        sharpness.append(float((luma - fine).std()) / max(contrasts[-1], _MIN_CONTRAST))
    limit = max(_MIN_CONTRAST, float(np.median(contrasts))) if contrasts else 0.0
    return luminance, [s for s, c in zip(sharpness, contrasts, strict=True) if c >= limit]


def iterate_parts(path: Path, input_scale: float, part_px: int) -> Iterator[NDArray[np.uint8]]:
    """Yield evenly spaced parts of an image at the network's scale."""
    rgb = rescale_image(read_rgb(path), input_scale)
    rows, columns = (
        range(0, max(side - part_px, 0) + 1, part_px) for side in (rgb.shape[0], rgb.shape[1])
    )
    corners = [(y, x) for y in rows for x in columns]
    for y, x in select_evenly(corners, _TILES_PER_IMAGE):
        yield rgb[y : y + part_px, x : x + part_px]


def _collect_objects(boxes: Iterable[Sequence[Box]], input_scale: float) -> TargetStatistics:
    boxes = list(boxes)
    sides = [compute_longer_side(box) * input_scale for image in boxes for box in image]
    return TargetStatistics(tuple(sides), tuple(float(len(image)) for image in boxes))
