"""Verdict on a detector, computed from its scores on labelled images."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass

from sim2cam.experiments.benchmark import BenchResult
from sim2cam.experiments.reliability import Reliability
from sim2cam.metrics.box_padding import BoxSizeDifference, compare_box_sizes
from sim2cam.metrics.calibration import ConfidenceCalibration
from sim2cam.metrics.error_analysis import (
    DetectionOutcome,
    OutcomeKind,
    classify_detections,
    classify_objects,
)
from sim2cam.metrics.precision_recall import floor_threshold
from sim2cam.metrics.verdict import CommandNames, Finding, Severity, Verdict
from sim2cam.models.reliability.ood import MIN_CALIBRATION_IMAGES
from sim2cam.models.training.config import TrainConfig

Losses = Mapping[OutcomeKind, float]


GOOD_SHARE, FAIR_SHARE = 0.9, 0.7
"""Shares of objects from which a result is good, and below which it is a problem."""
MIN_ERROR_SHARE = 0.05
"""Share of false positives of one kind among the detections from which it is a finding."""
MIN_FAIR_AP50 = 0.5
"""AP50 below which a short training or few training images are a finding."""
MIN_TRAINING_IMAGES = 200

_TUNE_TEXT = "Tune on other labelled images than these."
_CONFUSION_TEXT = (
    "Compare the pairs in the confusion matrix; if only fine marks differ, set roi_classifier = true "
    "in [train] of the recipe."
)
_MISSED_TEXT = "Render more objects of the sizes and visibility with a low recall."


_FALSE_POSITIVES: dict[OutcomeKind, tuple[str, str]] = {
    "localisation": (
        "are localisation errors (IoU 0.1 to 0.5 with an object)",
        "Train longer, or on more varied renders.",
    ),
    "both": ("have a wrong category and a localisation error", "Train longer."),
    "duplicate": (
        "are duplicates of a detected object",
        "Train longer, on renders with as many overlapping objects as here.",
    ),
    "background": ("lie on the background", "Train with photos of backgrounds without objects."),
}
"""Description of false positives of each kind, and what to do."""


class _Commands:
    """Commands that findings recommend."""

    def __init__(self, names: CommandNames) -> None:
        weights, recipe, images = map(shlex.quote, astuple(names))
        self.train = f"sim2cam train {recipe} --data sim --steps {TrainConfig.steps} --out run"
        render = f"sim2cam render {recipe} --out sim --count 1000"
        self.render_and_train = f"{render} && {self.train}"
        self.train_on_backgrounds = (
            f"sim2cam train {recipe} --data sim --backgrounds PHOTOS --out run"
        )
        self.tune = f"sim2cam tune {weights} OTHER_LABELLED_IMAGES --out tuned"
        self.fit_domain = f"sim2cam domain fit {recipe} --captures {images} --out fitted"
        self.predict = f"sim2cam predict {weights} IMAGES"

    def reduce(self, kind: OutcomeKind) -> str:
        """Return the command against false positives of a kind."""
        if kind == "background":
            return self.train_on_backgrounds
        return self.train if kind == "both" else self.render_and_train


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
    difference = compare_box_sizes(result.captures, result.predictions)
    commands = _Commands(result.names)
    findings = (
        *_judge_training(result, commands),
        *_judge_errors(result, difference, commands),
        *result.reliability.domain_shift.findings,
        *_judge_reliability(result.reliability, len(result.captures.samples), commands),
        *_recommend_threshold(result, commands),
    )
    stated = None if difference is None else difference.warning
    others = [w.removeprefix("warning: ") for w in dict.fromkeys(warnings) if w != stated]
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


def _judge_training(result: BenchResult, commands: _Commands) -> Iterator[Finding]:
    """Yield a finding if a detector with bad scores was trained from scratch for too short, or on too few images."""
    training = result.training
    if training is None or result.ap_losses.ap50 >= MIN_FAIR_AP50:
        return
    # The card does not name the recipe's number of steps; half of the default counts as few.
    is_short = training.steps < TrainConfig.steps / 2
    has_few_images = training.images < MIN_TRAINING_IMAGES
    if not is_short and not has_few_images:
        return
    text = f"Trained {training.steps} steps on {training.images} images"
    text += f"; the default is {TrainConfig.steps} steps" if is_short else ""
    remedies = ("train longer",) * is_short + ("render more images",) * has_few_images
    yield Finding(
        f"{text}: {' and '.join(remedies)}.",
        "problem",
        commands.render_and_train if has_few_images else commands.train,
    )


def _judge_errors(
    result: BenchResult, difference: BoxSizeDifference | None, commands: _Commands
) -> list[Finding]:
    """Return the findings on objects and detections: first problems, the highest loss of AP50 first."""
    outcomes, losses = _collect_outcomes(result), result.ap_losses.losses
    findings = [
        *_judge_objects(outcomes, losses, commands),
        *_judge_categories(outcomes, losses, len(result.captures.categories), commands),
        *_judge_false_positives(outcomes, losses, difference, commands),
    ]
    if difference is not None:
        loss = max(losses["localisation"], difference.ap50_after - difference.ap50_before)
        findings.append((loss, _judge_boxes(difference, commands)))
    findings.sort(key=lambda pair: (pair[1].severity != "problem", -pair[0]))
    return [finding for _, finding in findings]


def _judge_objects(
    outcomes: _Outcomes, losses: Losses, commands: _Commands
) -> Iterator[tuple[float, Finding]]:
    kinds = Counter(o.kind for o in outcomes.objects)
    found = kinds["true positive"] + kinds["confusion"]
    share = found / len(outcomes.objects)
    text = f"Finds {share:.0%} of the {len(outcomes.objects)} objects"
    text += f"; misses {kinds['missed']}" if kinds["missed"] else ""
    text += f"; localisation errors: {kinds['localisation']}" if kinds["localisation"] else ""
    severity, is_missed = _grade(share), kinds["missed"] >= kinds["localisation"]
    if severity == "problem" and is_missed:
        yield (
            losses["missed"],
            Finding(f"{text}. {_MISSED_TEXT}", severity, commands.render_and_train),
        )
    else:
        yield losses["missed"], Finding(f"{text}.", severity)


def _judge_categories(
    outcomes: _Outcomes, losses: Losses, category_count: int, commands: _Commands
) -> Iterator[tuple[float, Finding]]:
    kinds = Counter(o.kind for o in outcomes.objects)
    found = kinds["true positive"] + kinds["confusion"]
    if category_count < 2 or not found:
        return
    share = kinds["true positive"] / found
    text = f"{share:.0%} of the found objects get the right category"
    confusions = Counter(
        (o.true_category, o.predicted_category) for o in outcomes.objects if o.kind == "confusion"
    )
    for (true, predicted), count in confusions.most_common(1):
        text += f"; most often {true} is taken for {predicted} ({count} of {kinds['confusion']})"
    severity = _grade(share)
    if severity == "problem":
        yield losses["confusion"], Finding(f"{text}. {_CONFUSION_TEXT}", severity, commands.train)
    else:
        yield losses["confusion"], Finding(f"{text}.", severity)


def _judge_boxes(difference: BoxSizeDifference, commands: _Commands) -> Finding:
    direction = "large" if difference.excess > 0 else "small"
    text = (
        f"Boxes are {abs(difference.excess):.0%} too {direction}. With the labelled size, AP50 is "
        f"{difference.ap50_after:.2f} instead of {difference.ap50_before:.2f}."
    )
    if difference.is_useful:
        return Finding(f"{text} {_TUNE_TEXT}", "problem", commands.tune)
    return Finding(text, "problem")


def _judge_false_positives(
    outcomes: _Outcomes, losses: Losses, difference: BoxSizeDifference | None, commands: _Commands
) -> Iterator[tuple[float, Finding]]:
    kinds = Counter(o.kind for o in outcomes.detections)
    is_tunable = difference is not None and difference.is_useful
    for kind, (predicate, remedy) in _FALSE_POSITIVES.items():
        share = kinds[kind] / max(1, len(outcomes.detections))
        if share < MIN_ERROR_SHARE:
            continue
        description = (
            f"{share:.0%} of the detections {predicate}. At all confidences, they cost "
            f"{losses[kind]:.2f} AP50."
        )
        severity: Severity = "problem" if share >= 1 - GOOD_SHARE else "note"
        if kind == "localisation" and is_tunable:  # tuning the boxes comes first
            yield losses[kind], Finding(description, severity)
        else:
            yield losses[kind], Finding(f"{description} {remedy}", severity, commands.reduce(kind))


def _judge_reliability(
    reliability: Reliability, image_count: int, commands: _Commands
) -> Iterator[Finding]:
    rate, limit = reliability.ood_rate, reliability.false_positive_rate
    if rate is not None and limit is not None:
        is_high = rate.ci95[0] > limit
        expected = f"at most {limit:.0%} are expected on images like the training images"
        yield Finding(
            f"{rate.value:.0%} of the images are out-of-distribution; {expected}.",
            "problem" if is_high else "good",
            commands.fit_domain if is_high else None,
        )
    if reliability.calibration is not None:
        yield from _judge_calibration(reliability.calibration, image_count, commands)


def _judge_calibration(
    calibration: ConfidenceCalibration, image_count: int, commands: _Commands
) -> Iterator[Finding]:
    if calibration.ece.ci95[0] <= calibration.chance_ece:
        return
    total = sum(b.n_detections for b in calibration.bins)
    gap = sum((b.confidence - b.precision) * b.n_detections for b in calibration.bins) / total
    text = (
        f"Confidences are off by {calibration.ece.value:.2f} on average, and {abs(gap):.2f} too "
        f"{'high' if gap > 0 else 'low'} overall."
    )
    # With fewer images than this, tune leaves confidences unchanged.
    if image_count < MIN_CALIBRATION_IMAGES:
        yield Finding(text, "note")
    else:
        yield Finding(f"{text} {_TUNE_TEXT}", "note", commands.tune)


def _recommend_threshold(result: BenchResult, commands: _Commands) -> Iterator[Finding]:
    if result.ap_losses.ap50 > 0:
        threshold = f"{floor_threshold(result.threshold):.2f}"
        yield Finding(
            f"The best F1 is reached with a minimum confidence of {threshold}.",
            "note",
            f"{commands.predict} --min-score {threshold}",
        )


def _grade(share: float) -> Severity:
    return "good" if share >= GOOD_SHARE else "note" if share >= FAIR_SHARE else "problem"
