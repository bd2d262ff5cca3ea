"""Gallery of images with detections, whose boxes the page filters by confidence, error kind and category."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sim2cam.geometry.boxes import Box
from sim2cam.metrics.error_analysis import (
    COVERING_KINDS,
    DetectionOutcome,
    OutcomeKind,
    classify_detections,
)
from sim2cam.report.page import encode_data_uri, encode_thumbnail
from sim2cam.report.values import Example, ExamplePairs

IMAGE_PX, PAIR_IMAGE_PX = 960, 640
MIN_SCORE = 0.05
"""Minimum score of detections on the page, unless the threshold is lower."""

OUTCOME_COLOURS: dict[OutcomeKind, tuple[int, int, int]] = {
    "true positive": (64, 222, 112),
    "confusion": (255, 176, 32),
    "localisation": (86, 190, 255),
    "both": (190, 160, 255),
    "duplicate": (245, 232, 80),
    "background": (255, 84, 84),
    "missed": (240, 120, 255),
}


@dataclass(frozen=True)
class OutcomeBox:
    """Box of a detection, or of an object that is missed above a confidence.

    Attributes:
        category: Category of the detection, or of the missed object.
        other_category: Category of the object of a confusion; empty otherwise.
        score: Score of the detection; None for objects.
        covered_score: Highest score of the detections that cover the object; None without one.
        is_shown: Whether the box is shown at the threshold of the page.
    """

    box_xyxy: Box
    kind: OutcomeKind
    text: str
    category: str
    other_category: str
    score: float | None
    covered_score: float | None
    is_shown: bool

    @property
    def colour(self) -> str:
        """CSS colour of the kind."""
        return "rgb({} {} {})".format(*OUTCOME_COLOURS[self.kind])


@dataclass(frozen=True)
class OutcomeImage:
    """Image of the gallery: data URI, size in pixels, and boxes."""

    name: str
    uri: str
    width: int
    height: int
    boxes: tuple[OutcomeBox, ...]
    object_count: int

    @property
    def summary(self) -> str:
        """Number of outcomes by kind at the threshold of the page."""
        counts = Counter(box.kind for box in self.boxes if box.is_shown)
        texts = (f"{kind} ({counts[kind]})" for kind in OUTCOME_COLOURS if counts[kind])
        return ", ".join(texts) or "no objects or detections"


def build_gallery(examples: Sequence[Example], threshold: float) -> tuple[OutcomeImage, ...]:
    """Build the images of a gallery, with boxes shown from a score of ``threshold``."""
    return tuple(_build_image(example, threshold) for example in examples)


def build_gallery_pairs(examples: ExamplePairs) -> tuple[tuple[OutcomeImage, OutcomeImage], ...]:
    """Build the images of two detectors, each with boxes shown from its own threshold."""
    first, second = (
        [
            _build_image(
                replace(pair[side], name=f"{pair[side].name}, {name}"), threshold, PAIR_IMAGE_PX
            )
            for pair in examples.pairs
        ]
        for side, (name, threshold) in enumerate(
            zip(examples.names, examples.thresholds, strict=True)
        )
    )
    return tuple(zip(first, second, strict=True))


def _build_image(example: Example, threshold: float, image_px: int = IMAGE_PX) -> OutcomeImage:
    height, width = example.rgb.shape[:2]
    # The outcome of a detection does not depend on the threshold; that of an object does.
    outcomes = classify_detections(example.objects, example.detections, min(threshold, MIN_SCORE))
    covered: dict[int | None, float] = {}
    for outcome in outcomes:
        if outcome.kind in COVERING_KINDS:
            covered.setdefault(outcome.object_index, outcome.score or 0.0)
    objects = classify_detections(example.objects, (), math.inf)
    return OutcomeImage(
        example.name,
        encode_data_uri(encode_thumbnail(example.rgb, image_px)),
        width,
        height,
        (
            *(_build_object(o, covered.get(o.object_index), threshold) for o in objects),
            *(_build_detection(o, threshold) for o in outcomes if o.kind != "missed"),
        ),
        len(objects),
    )


def _build_object(
    outcome: DetectionOutcome, covered_score: float | None, threshold: float
) -> OutcomeBox:
    category = str(outcome.true_category)
    is_shown = covered_score is None or covered_score < threshold
    return OutcomeBox(
        outcome.box_xyxy,
        "missed",
        f"{category} missed",
        category,
        "",
        None,
        covered_score,
        is_shown,
    )


def _build_detection(outcome: DetectionOutcome, threshold: float) -> OutcomeBox:
    assert outcome.score is not None  # all but missed objects have one
    predicted, true = str(outcome.predicted_category), outcome.true_category
    text = f"{predicted} {outcome.score:.2f}".replace(" 0.", " .")
    is_confused = true is not None and true != predicted
    return OutcomeBox(
        outcome.box_xyxy, outcome.kind, f"{text}, label {true}" if is_confused else text, predicted,
        true if is_confused and true else "", outcome.score, None, outcome.score >= threshold,
    )  # fmt: skip
