"""Verdict on two runs, computed from their comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sim2cam.experiments.comparison import Comparison, Comparisons, SliceComparison
from sim2cam.metrics.bootstrap import PairedDifference
from sim2cam.metrics.names import get_metric_titles
from sim2cam.metrics.power import SIGNIFICANCE
from sim2cam.metrics.verdict import Finding, Verdict

_PRIMARY_METRICS = ("ap50", "add_or_s", "miou")
"""Metric of each kind of output that the verdict judges first."""


def build_comparison_verdict(
    comparisons: Comparisons,
    slices: Mapping[str, Mapping[str, SliceComparison]],
    names: tuple[str, str],
    warnings: Sequence[str],
    *,
    is_identical: bool,
) -> Verdict:
    """Return the findings on two runs.

    Args:
        slices: Comparisons by attribute and value, as of ``compare_slices``.
        names: Names of the runs.
        warnings: Warnings about images and detections, which end the verdict.
        is_identical: Whether both runs have the same files.
    """
    if is_identical:
        findings = [Finding("Both runs have the same results.", "note")]
    else:
        findings = [
            _judge_kind(kind, metrics, names, is_only=len(comparisons.kinds) == 1)
            for kind, metrics in comparisons.kinds.items()
        ]
        findings += _judge_slices(slices, names)
    return Verdict((*findings, *(Finding(warning, "warning") for warning in warnings)))


def _judge_kind(
    kind: str, metrics: Mapping[str, Comparison], names: tuple[str, str], *, is_only: bool
) -> Finding:
    """Return the finding on the primary metric, with the other metrics that show a difference."""
    titles = get_metric_titles(kind)
    primary = next((m for m in _PRIMARY_METRICS if m in metrics), next(iter(metrics)))
    title = titles[primary] if is_only else f"{titles[primary]} of {kind}"
    comparison = metrics[primary]
    difference = comparison.difference
    scores = f"{comparison.first.value:.3f} and {comparison.second.value:.3f}"
    others = [
        f"{titles[metric]} ({other.difference.value:+.3f})"
        for metric, other in metrics.items()
        if metric != primary and other.p_holm < SIGNIFICANCE
    ]
    also = f" Other metrics with a difference: {', '.join(others)}." if others else ""
    if comparison.p_holm < SIGNIFICANCE:
        better = names[0] if difference.value > 0 else names[1]
        return Finding(
            f"{better} has the better {title}: {scores}, a difference of "
            f"{_format_difference(difference)}.{also}",
            "good",
        )
    detectable = difference.min_detectable_effect
    power = "" if detectable is None else f" These images show differences from {detectable:.3f}."
    return Finding(
        f"No difference in {title} is shown: {scores}, {_format_difference(difference)}.{power}{also}",
        "note",
    )


def _judge_slices(
    slices: Mapping[str, Mapping[str, SliceComparison]], names: tuple[str, str]
) -> Iterator[Finding]:
    """Yield the largest difference of each attribute whose interval excludes zero."""
    for attribute, values in slices.items():
        differences = {
            value: c.difference
            for value, c in values.items()
            if c.difference.ci95[0] > 0 or c.difference.ci95[1] < 0
        }
        if differences:
            value, difference = max(differences.items(), key=lambda pair: abs(pair[1].value))
            better = names[0] if difference.value > 0 else names[1]
            yield Finding(
                f"By {attribute}, AP50 differs most for {value}: {better} is better by "
                f"{_format_difference(difference)}.",
                "note",
            )


def _format_difference(difference: PairedDifference) -> str:
    low, high = difference.ci95
    return f"{difference.value:+.3f} (95 % interval {low:+.3f} to {high:+.3f})"
