"""Verdict on a detector, computed from its scores on labelled images."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sim2cam.experiments.benchmark import BenchResult
from sim2cam.experiments.reliability import Reliability
from sim2cam.metrics.box_expansion import BoxExpansion, compare_box_sizes
from sim2cam.metrics.calibration import ConfidenceCalibration
from sim2cam.metrics.error_analysis import (
    DetectionOutcome,
    OutcomeKind,
    classify_detections,
    classify_objects,
)
from sim2cam.metrics.verdict import Finding, Severity, Verdict

GOOD_SHARE, FAIR_SHARE = 0.9, 0.7
"""Shares of objects from which a result is good, and below which it is a problem."""
MIN_ERROR_SHARE = 0.05
"""Share of false positives of one kind among the detections from which it is a finding."""
_FALSE_POSITIVES: dict[OutcomeKind, str] = {
    "localisation": "are badly placed boxes of labelled objects (IoU 0.1 to 0.5)",
    "duplicate": "are duplicates of a detected object",
    "background": "lie on the background",
}
_ACTIONS: dict[OutcomeKind, str] = {
    "background": "sim2cam train RECIPE DATA --backgrounds PHOTOS --out FOLDER"
}


@dataclass(frozen=True)
class _Outcomes:
    """Outcomes of all detections at a threshold, and of all objects."""

    detections: tuple[DetectionOutcome, ...]
    objects: tuple[DetectionOutcome, ...]


def build_verdict(result: BenchResult, warnings: Sequence[str]) -> Verdict:
    """Return the findings on a detector at the threshold with the best F1.

    Args:
        warnings: Warnings about images and detections, which end the verdict.
    """
    outcomes = _collect_outcomes(result)
    expansion = compare_box_sizes(result.captures, result.predictions)
    findings = (
        *_judge_objects(outcomes, len(result.captures.categories)),
        *_judge_boxes(expansion),
        *_judge_false_positives(outcomes, result),
        *_judge_reliability(result.reliability),
        *_recommend_threshold(result),
    )  # fmt: skip
    stated = None if expansion is None else expansion.warning
    others = (warning for warning in dict.fromkeys(warnings) if warning != stated)
    return Verdict((*findings, *(Finding(w[:1].upper() + w[1:], "warning") for w in others)))


def _collect_outcomes(result: BenchResult) -> _Outcomes:
    images = [
        classify_detections(sample.objects or (), result.predictions[sample.name], result.threshold)
        for sample in result.captures.samples
    ]
    return _Outcomes(
        tuple(o for outcomes in images for o in outcomes if o.kind != "missed"),
        tuple(o for outcomes in images for o in classify_objects(outcomes).values()),
    )


def _judge_objects(outcomes: _Outcomes, category_count: int) -> Iterator[Finding]:
    kinds = Counter(o.kind for o in outcomes.objects)
    found = kinds["true positive"] + kinds["confusion"]
    share = found / len(outcomes.objects)
    text = f"Finds {share:.0%} of the {len(outcomes.objects)} objects"
    text += f"; misses {kinds['missed']}" if kinds["missed"] else ""
    text += f"; places the boxes of {kinds['localisation']} badly" if kinds["localisation"] else ""
    yield Finding(f"{text}.", _grade(share))
    if category_count < 2 or not found:
        return
    share = kinds["true positive"] / found
    text = f"{share:.0%} of the found objects get the right category"
    confusions = Counter(
        (o.true_category, o.predicted_category) for o in outcomes.objects if o.kind == "confusion"
    )
    for (true, predicted), count in confusions.most_common(1):
        text += f"; most often {true} is taken for {predicted} ({count} of {kinds['confusion']})"
    yield Finding(f"{text}.", _grade(share))


def _judge_boxes(expansion: BoxExpansion | None) -> Iterator[Finding]:
    if expansion is None:
        return
    direction = "large" if expansion.excess > 0 else "small"
    action = "sim2cam tune WEIGHTS LABELLED_IMAGES --out FOLDER" if expansion.is_useful else None
    yield Finding(
        f"Boxes are {abs(expansion.excess):.0%} too {direction}. With the labelled size, AP50 is "
        f"{expansion.ap50_after:.2f} instead of {expansion.ap50_before:.2f}.",
        "problem", action,
    )  # fmt: skip


def _judge_false_positives(outcomes: _Outcomes, result: BenchResult) -> Iterator[Finding]:
    kinds = Counter(o.kind for o in outcomes.detections)
    for kind, text in _FALSE_POSITIVES.items():
        share = kinds[kind] / max(1, len(outcomes.detections))
        if share >= MIN_ERROR_SHARE:
            loss = result.ap_losses.losses[kind]
            yield Finding(
                f"{share:.0%} of the detections {text}. At all confidences, they cost {loss:.2f} AP50.",
                "problem" if share >= 1 - GOOD_SHARE else "note", _ACTIONS.get(kind),
            )  # fmt: skip


def _judge_reliability(reliability: Reliability) -> Iterator[Finding]:
    rate, limit = reliability.ood_rate, reliability.false_positive_rate
    if rate is not None and limit is not None:
        is_high = rate.ci95[0] > limit
        expected = f"at most {limit:.0%} are expected on images like the training images"
        yield Finding(
            f"{rate.value:.0%} of the images are out-of-distribution; {expected}.",
            "problem" if is_high else "good",
            "sim2cam domain fit RECIPE IMAGES --out FOLDER" if is_high else None,
        )
    if reliability.calibration is not None:
        yield from _judge_calibration(reliability.calibration)


def _judge_calibration(calibration: ConfidenceCalibration) -> Iterator[Finding]:
    if calibration.ece.ci95[0] <= calibration.chance_ece:
        return
    total = sum(b.n_detections for b in calibration.bins)
    gap = sum((b.confidence - b.precision) * b.n_detections for b in calibration.bins) / total
    yield Finding(
        f"Confidences are off by {calibration.ece.value:.2f} on average, and {abs(gap):.2f} too "
        f"{'high' if gap > 0 else 'low'} overall.",
        "note", "sim2cam tune WEIGHTS LABELLED_IMAGES --out FOLDER",
    )  # fmt: skip


def _recommend_threshold(result: BenchResult) -> Iterator[Finding]:
    if result.ap_losses.ap50 > 0:
        threshold = f"{math.floor(100 * result.threshold) / 100:.2f}"  # keep the last detection
        yield Finding(
            f"The best F1 is reached with a minimum confidence of {threshold}.",
            "note",
            f"sim2cam predict WEIGHTS IMAGES --min-score {threshold}",
        )


def _grade(share: float) -> Severity:
    return "good" if share >= GOOD_SHARE else "note" if share >= FAIR_SHARE else "problem"
