"""Text tables of scores, reliability and comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sim2cam.metrics.names import BOX_METRICS, POSE_METRICS, get_metric_titles

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
    """Return a table of scores with intervals, one row per detector."""
    width = max(len(label) for label in scores)
    head = " " * width + "".join(f"  {title:>20}" for title in metrics.values())
    lines = [head]
    for label, score in scores.items():
        cells = [getattr(score, name) for name in metrics]
        texts = map(_format_estimate, cells)
        lines.append(f"{label:<{width}}" + "".join(f"  {text:>20}" for text in texts))
    return "\n".join(lines)


def format_segmentation_scores(score: SegmentationMetrics) -> str:
    """Return a table of IoU per category."""
    background = {"background": score.background_iou} if score.background_iou else {}
    rows = {"mean": score.miou, **background, **score.category_iou}
    width = max(map(len, ("pixels of", *rows)))
    lines = [f"{'pixels of':<{width}}  {'IoU':>20}"]
    return "\n".join(lines + [f"{n:<{width}}  {_format_estimate(e):>20}" for n, e in rows.items()])


def format_pose_scores(score: PoseMetrics) -> str:
    """Return a table of pose scores per object, over all instances and averaged over objects."""
    titles = {metric: title for metric, title in POSE_METRICS.items() if metric in score.all}
    rows = [(name, score.instances[name], row) for name, row in score.objects.items()]
    instances = sum(score.instances.values())
    rows += [("all instances", instances, score.all), ("mean of objects", instances, score.mean)]
    width = max(len(name) for name, *_ in rows)
    lines = [f"{'':<{width}}{'number':>8}" + "".join(f"  {t:>20}" for t in titles.values())]
    for name, number, row in rows:
        cells = [row[metric] for metric in titles]
        texts = map(_format_estimate, cells)
        lines.append(f"{name:<{width}}{number:>8}" + "".join(f"  {t:>20}" for t in texts))
    return "\n".join(lines)


def format_reliability(reliability: Reliability) -> str:
    """Return a line on confidence calibration and a line on the OOD rate."""
    calibration, uncalibrated, ood_rate = (
        reliability.calibration,
        reliability.uncalibrated,
        reliability.ood_rate,
    )
    ece = "not measured: scores outside 0 to 1, or all confidences too low"
    if calibration is not None:
        ece = f"{_format_estimate(calibration.ece)}, by chance at most {calibration.chance_ece:.3f}"
        ece += f"; before calibration {_format_estimate(uncalibrated.ece)}" if uncalibrated else ""
    return f"\nexpected calibration error: {ece}\n{_format_ood_rate(ood_rate, reliability.false_positive_rate)}"


def _format_ood_rate(ood_rate: Estimate | None, false_positive_rate: float | None) -> str:
    rate = "not measured"
    if ood_rate is not None:
        rate = f"{_format_estimate(ood_rate)}, of in-distribution images at most {false_positive_rate:.2g}"
    return f"out-of-distribution images: {rate}"


def format_unlabelled_scores(result: UnlabelledResult, category_count: int) -> str:
    """Return the unsupervised scores of a detector, one per line."""
    ood_rate = _format_ood_rate(result.ood_rate, result.false_positive_rate)
    reason = "too few detections"
    if category_count == 1:
        reason = "they require several categories"
    scores = f"selection scores: not measured, {reason}"
    if result.selection is not None:
        scores = format_selection_scores(result.selection)
    return "\n".join([f"images: {result.image_count}", ood_rate, scores])


def format_selection_scores(scores: SelectionScores) -> str:
    """Return the selection scores, which need no labels, one per line."""
    return "\n".join(
        [
            f"entropy: {scores.entropy:.3f} ({scores.n_detections} detections; lower is more confident)",
            f"diversity: {scores.diversity:.3f} (0 if all detections have one category)",
            f"neighbourhood density: {scores.neighbourhood_density:.3f} nats (higher if detections cluster)",
        ]
    )


def _format_estimate(estimate: Estimate) -> str:
    return f"{estimate.value:.3f} ({estimate.ci95[0]:.3f}-{estimate.ci95[1]:.3f})"


def format_slices(slices: Sequence[Slice], threshold: float) -> str:
    """Return a table of recall, confusion, localisation and miss rates per slice of objects."""
    from sim2cam.metrics.precision_recall import floor_threshold

    lines = [
        f"\n{'objects':<30}{'number':>8}{'recall':>24}{'confusion':>10}{'localisation':>14}{'missed':>8}"
    ]
    for row in slices:
        lines.append(
            f"{row.attribute + ' ' + row.value:<30}{row.objects:>8}{_format_estimate(row.recall):>24}"
            f"{row.confusion_rate:>10.3f}{row.localisation_rate:>14.3f}{row.miss_rate:>8.3f}"
        )
    return "\n".join(
        [
            *lines,
            f"Detections with a score of at least {floor_threshold(threshold):.2f} (threshold of the best F1).",
        ]
    )


def format_interval_unit(unit: str) -> str:
    """Return a line that names the resampling unit of the intervals."""
    return f"\n95 % intervals are over {unit}."


def format_comparisons(comparisons: Comparisons) -> str:
    """Return a table of both runs and their difference, one row per metric."""
    head = f"{'first':>8}{'second':>8}  {'difference':<26}{'p (Holm)':>10}"
    lines = []
    for kind, metrics in comparisons.kinds.items():
        title = "" if kind == next(iter(comparisons.kinds)) else kind
        lines += [f"{title:<20}{head}"]
        names = get_metric_titles(kind)
        lines += [
            _format_comparison(names[metric], comparison) for metric, comparison in metrics.items()
        ]
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
    """Return the minimum detectable difference, or why it is unknown."""
    kind, metric, title = "boxes", "ap50", "AP50"
    if kind not in comparisons.kinds:
        kind, metric, title = "poses", "add_or_s", POSE_METRICS["add_or_s"]
    detectable = comparisons.kinds[kind][metric].difference.min_detectable_effect
    if is_identical:
        return "The runs are identical, so the minimum detectable difference is unknown."
    if detectable is None:
        return (
            f"The runs differ by the same {title} in every resample, so the minimum detectable "
            "difference is unknown."
        )
    return f"Minimum detectable difference in {title}: {detectable:.3f} (80 % power with these images)."
