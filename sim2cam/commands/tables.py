"""Scores, trust and comparisons as text, a line each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sim2cam.metrics.names import BOX_METRICS, POSE_METRICS, SEGMENT_METRICS, SHAPE_METRICS

if TYPE_CHECKING:
    from sim2cam.experiments.benchmark import UnlabelledResult
    from sim2cam.experiments.comparison import Comparison, Comparisons
    from sim2cam.experiments.reliability import Trust
    from sim2cam.metrics.bootstrap import Estimate
    from sim2cam.metrics.poses import PoseScore
    from sim2cam.metrics.segmentation import SegmentScore
    from sim2cam.metrics.slices import Slice
    from sim2cam.metrics.unsupervised import SelectionScores


def score_table(scores: dict[str, Any], metrics: Mapping[str, str] = BOX_METRICS) -> str:
    """Returns scores with their intervals, a line for each detector."""
    width = max(len(label) for label in scores)
    head = " " * width + "".join(f"  {title:>20}" for title in metrics.values())
    lines = [head]
    for label, score in scores.items():
        cells = [getattr(score, name) for name in metrics]
        texts = map(_with_interval, cells)
        lines.append(f"{label:<{width}}" + "".join(f"  {text:>20}" for text in texts))
    return "\n".join(lines)


def segment_table(score: SegmentScore) -> str:
    """Returns the IoU of the pixels of each category, a line each."""
    background = {"background": score.background_iou} if score.background_iou else {}
    rows = {"mean": score.miou, **background, **score.category_iou}
    width = max(map(len, ("pixels of", *rows)))
    lines = [f"{'pixels of':<{width}}  {'IoU':>20}"]
    return "\n".join(lines + [f"{n:<{width}}  {_with_interval(e):>20}" for n, e in rows.items()])


def pose_table(score: PoseScore) -> str:
    """Returns a line for each object, for all instances and for the mean of the objects."""
    shown = {metric: title for metric, title in POSE_METRICS.items() if metric in score.all}
    rows = [(name, score.instances[name], row) for name, row in score.objects.items()]
    instances = sum(score.instances.values())
    rows += [("all instances", instances, score.all), ("mean of objects", instances, score.mean)]
    width = max(len(name) for name, *_ in rows)
    lines = [f"{'':<{width}}{'number':>8}" + "".join(f"  {t:>20}" for t in shown.values())]
    for name, number, row in rows:
        cells = [row[metric] for metric in shown]
        texts = map(_with_interval, cells)
        lines.append(f"{name:<{width}}{number:>8}" + "".join(f"  {t:>20}" for t in texts))
    return "\n".join(lines)


def trust_words(trust: Trust) -> str:
    """Returns a line on confidences and one on how many captures are unlike what was trained on."""
    calibration, before, unlike = trust.calibration, trust.uncalibrated, trust.unlike
    off = "not measured: confidences are not 0 to 1, or none is sure enough"
    if calibration is not None:
        off = f"{_with_interval(calibration.error)}, by chance at most {calibration.by_chance:.3f}"
        off += f"; before calibration {_with_interval(before.error)}" if before else ""
    return f"\nexpected calibration error: {off}\n{_unlike_words(unlike, trust.false_alarms)}"


def _unlike_words(unlike: Estimate | None, false_alarms: float | None) -> str:
    others = "not measured"
    if unlike is not None:
        others = f"{_with_interval(unlike)}, of familiar ones at most {false_alarms:.2g}"
    return f"unlike what was trained on: {others}"


def unlabelled_words(found: UnlabelledResult, categories: int) -> str:
    """Returns the scores of a detector of so many categories on captures without labels, a line each."""
    unlike = _unlike_words(found.unlike, found.false_alarms)
    why = "next to nothing was found"
    if categories == 1:
        why = "they tell how surely categories are told apart, and it knows one"
    words = f"selection scores: not measured, {why}"
    if found.selection is not None:
        words = selection_words(found.selection)
    return "\n".join([f"images: {found.images}", unlike, words])


def selection_words(s: SelectionScores) -> str:
    """Returns the scores that need no labels, a line each."""
    return "\n".join(
        [
            f"entropy: {s.entropy:.3f} (of {s.detections} detections; lower is surer)",
            f"diversity: {s.diversity:.3f} (0 where all is called the same)",
            f"neighbourhood density: {s.density:.3f} nats (higher where detections group)",
        ]
    )


def _with_interval(found: Estimate) -> str:
    return f"{found.value:.3f} ({found.ci95[0]:.3f}-{found.ci95[1]:.3f})"


def slice_table(slices: Sequence[Slice], threshold: float) -> str:
    """Return a line for each kind of objects: shares that are right, something else, poorly placed, missed."""
    lines = [f"\n{'objects':<30}{'number':>8}{'right':>24}{'wrong':>8}{'poor':>8}{'missed':>8}"]
    for one in slices:
        lines.append(
            f"{one.about + ' ' + one.value:<30}{one.objects:>8}{_with_interval(one.right):>24}"
            f"{one.wrong_category:>8.3f}{one.misplaced:>8.3f}{one.missed:>8.3f}"
        )
    return "\n".join(
        [
            *lines,
            f"By detections with a score of {threshold:.3f} or more, the threshold of the best F1.",
        ]
    )


def over_words(units: str) -> str:
    """Returns a line on what intervals are over."""
    return f"\n95 % intervals are over {units}."


def comparison_tables(found: Comparisons) -> str:
    """Returns a line for each metric: both runs, the difference, and whether it is one."""
    titles = {"boxes": BOX_METRICS, "segments": SEGMENT_METRICS, "poses": POSE_METRICS}
    head = f"{'first':>8}{'second':>8}  {'difference':<26}{'p (Holm)':>10}"
    lines = []
    for kind, metrics in found.kinds.items():
        title = "" if kind == next(iter(found.kinds)) else kind  # what is first needs none
        lines += [f"{title:<20}{head}"]
        names = titles.get(kind, SHAPE_METRICS)
        lines += [_comparison_line(names[metric], one) for metric, one in metrics.items()]
    return "\n".join(lines)


def _comparison_line(title: str, one: Comparison) -> str:
    from sim2cam.metrics.power import SIGNIFICANCE

    low, high = one.difference.ci95
    difference = f"{one.difference.value:+.3f} ({low:+.3f} to {high:+.3f})"
    verdict = "" if one.p_holm < SIGNIFICANCE else "  no difference shown"
    return (
        f"{title:<20}{one.first.value:>8.3f}{one.second.value:>8.3f}  "
        f"{difference:<26}{one.p_holm:>10.4f}{verdict}"
    )


def detectable_words(found: Comparisons, *, identical: bool) -> str:
    """Returns which difference the images can show; why that is not known where it is not."""
    kind, metric, title = "boxes", "ap50", "AP50"
    if kind not in found.kinds:
        kind, metric, title = "poses", "add_or_s", POSE_METRICS["add_or_s"]
    detectable = found.kinds[kind][metric].difference.detectable
    if identical:
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
