"""Scores, trust and comparisons as text, a line each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sim2cam.metrics.names import BOX_METRICS, POSE_METRICS, SEGMENT_METRICS, SHAPE_METRICS

if TYPE_CHECKING:
    from sim2cam.experiments.benchmark import UnlabelledResult
    from sim2cam.experiments.comparison import Comparison, Comparisons
    from sim2cam.experiments.reliability import Reliability
    from sim2cam.metrics.bootstrap import Estimate
    from sim2cam.metrics.poses import PoseMetrics
    from sim2cam.metrics.segmentation import SegmentationMetrics
    from sim2cam.metrics.slices import Slice
    from sim2cam.metrics.unsupervised import SelectionScores


def format_scores(scores: dict[str, Any], metrics: Mapping[str, str] = BOX_METRICS) -> str:
    """Return scores with their intervals, a line for each detector."""
    width = max(len(label) for label in scores)
    head = " " * width + "".join(f"  {title:>20}" for title in metrics.values())
    lines = [head]
    for label, score in scores.items():
        cells = [getattr(score, name) for name in metrics]
        texts = map(_format_estimate, cells)
        lines.append(f"{label:<{width}}" + "".join(f"  {text:>20}" for text in texts))
    return "\n".join(lines)


def format_segmentation_scores(score: SegmentationMetrics) -> str:
    """Return the IoU of the pixels of each category, a line each."""
    background = {"background": score.background_iou} if score.background_iou else {}
    rows = {"mean": score.miou, **background, **score.category_iou}
    width = max(map(len, ("pixels of", *rows)))
    lines = [f"{'pixels of':<{width}}  {'IoU':>20}"]
    return "\n".join(lines + [f"{n:<{width}}  {_format_estimate(e):>20}" for n, e in rows.items()])


def format_pose_scores(score: PoseMetrics) -> str:
    """Return a line for each object, for all instances and for the mean of the objects."""
    shown = {metric: title for metric, title in POSE_METRICS.items() if metric in score.all}
    rows = [(name, score.instances[name], row) for name, row in score.objects.items()]
    instances = sum(score.instances.values())
    rows += [("all instances", instances, score.all), ("mean of objects", instances, score.mean)]
    width = max(len(name) for name, *_ in rows)
    lines = [f"{'':<{width}}{'number':>8}" + "".join(f"  {t:>20}" for t in shown.values())]
    for name, number, row in rows:
        cells = [row[metric] for metric in shown]
        texts = map(_format_estimate, cells)
        lines.append(f"{name:<{width}}{number:>8}" + "".join(f"  {t:>20}" for t in texts))
    return "\n".join(lines)


def format_reliability(reliability: Reliability) -> str:
    """Return a line on confidences and one on how many captures are unlike what was trained on."""
    calibration, before, unlike = (
        reliability.calibration,
        reliability.uncalibrated,
        reliability.ood_rate,
    )
    off = "not measured: confidences are not 0 to 1, or none is sure enough"
    if calibration is not None:
        off = f"{_format_estimate(calibration.ece)}, by chance at most {calibration.chance_ece:.3f}"
        off += f"; before calibration {_format_estimate(before.ece)}" if before else ""
    return f"\nexpected calibration error: {off}\n{_format_ood_rate(unlike, reliability.false_positive_rate)}"


def _format_ood_rate(ood_rate: Estimate | None, false_positive_rate: float | None) -> str:
    others = "not measured"
    if ood_rate is not None:
        others = f"{_format_estimate(ood_rate)}, of familiar ones at most {false_positive_rate:.2g}"
    return f"unlike what was trained on: {others}"


def format_unlabelled_scores(result: UnlabelledResult, category_count: int) -> str:
    """Return the scores of a detector of so many categories on captures without labels, a line each."""
    unlike = _format_ood_rate(result.ood_rate, result.false_positive_rate)
    why = "next to nothing was found"
    if category_count == 1:
        why = "they tell how surely categories are told apart, and it knows one"
    words = f"selection scores: not measured, {why}"
    if result.selection is not None:
        words = format_selection_scores(result.selection)
    return "\n".join([f"images: {result.image_count}", unlike, words])


def format_selection_scores(scores: SelectionScores) -> str:
    """Return the scores that need no labels, a line each."""
    return "\n".join(
        [
            f"entropy: {scores.entropy:.3f} (of {scores.n_detections} detections; lower is surer)",
            f"diversity: {scores.diversity:.3f} (0 where all is called the same)",
            f"neighbourhood density: {scores.neighbourhood_density:.3f} nats (higher where detections group)",
        ]
    )


def _format_estimate(estimate: Estimate) -> str:
    return f"{estimate.value:.3f} ({estimate.ci95[0]:.3f}-{estimate.ci95[1]:.3f})"


def format_slices(slices: Sequence[Slice], threshold: float) -> str:
    """Return a line for each kind of objects: shares that are right, something else, poorly placed, missed."""
    lines = [f"\n{'objects':<30}{'number':>8}{'right':>24}{'wrong':>8}{'poor':>8}{'missed':>8}"]
    for one in slices:
        lines.append(
            f"{one.attribute + ' ' + one.value:<30}{one.objects:>8}{_format_estimate(one.recall):>24}"
            f"{one.confusion_rate:>8.3f}{one.localisation_rate:>8.3f}{one.miss_rate:>8.3f}"
        )
    return "\n".join(
        [
            *lines,
            f"By detections with a score of {threshold:.3f} or more, the threshold of the best F1.",
        ]
    )


def format_interval_unit(unit: str) -> str:
    """Return a line on what intervals are over."""
    return f"\n95 % intervals are over {unit}."


def format_comparisons(comparisons: Comparisons) -> str:
    """Return a line for each metric: both runs, the difference, and whether it is one."""
    titles = {"boxes": BOX_METRICS, "segments": SEGMENT_METRICS, "poses": POSE_METRICS}
    head = f"{'first':>8}{'second':>8}  {'difference':<26}{'p (Holm)':>10}"
    lines = []
    for kind, metrics in comparisons.kinds.items():
        title = "" if kind == next(iter(comparisons.kinds)) else kind  # what is first needs none
        lines += [f"{title:<20}{head}"]
        names = titles.get(kind, SHAPE_METRICS)
        lines += [_format_comparison(names[metric], one) for metric, one in metrics.items()]
    return "\n".join(lines)


def _format_comparison(title: str, comparison: Comparison) -> str:
    from sim2cam.metrics.power import SIGNIFICANCE

    low, high = comparison.difference.ci95
    difference = f"{comparison.difference.value:+.3f} ({low:+.3f} to {high:+.3f})"
    verdict = "" if comparison.p_holm < SIGNIFICANCE else "  no difference shown"
    return (
        f"{title:<20}{comparison.first.value:>8.3f}{comparison.second.value:>8.3f}  "
        f"{difference:<26}{comparison.p_holm:>10.4f}{verdict}"
    )


def format_detectable_difference(comparisons: Comparisons, *, is_identical: bool) -> str:
    """Return which difference the images can show; why that is not known where it is not."""
    kind, metric, title = "boxes", "ap50", "AP50"
    if kind not in comparisons.kinds:
        kind, metric, title = "poses", "add_or_s", POSE_METRICS["add_or_s"]
    detectable = comparisons.kinds[kind][metric].difference.min_detectable_effect
    if is_identical:
        return "The runs are identical, so they do not tell which differences the images can show."
    if detectable is None:
        return (
            f"The runs differ by the same {title} in every resample of the images, so they do not tell which "
            "differences the images can show."
        )
    return (
        f"A difference of {detectable:.3f} in {title} is what so many images show in four of five "
        "repetitions."
    )
