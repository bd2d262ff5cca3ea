"""HTML page of ``compare``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from sim2cam.experiments.comparison import (
    Comparison,
    Comparisons,
    DetectionRuns,
    SliceComparison,
    compare_slices,
    unify_captures,
)
from sim2cam.experiments.comparison_verdict import build_comparison_verdict
from sim2cam.metrics.names import get_metric_titles
from sim2cam.report.comparison import write_comparison_page
from sim2cam.report.examples import select_differing_examples
from sim2cam.report.values import ComparisonReport, DifferenceRow, ExamplePairs

_EXAMPLE_COUNT = 6


def write_page(
    comparisons: Comparisons,
    runs: DetectionRuns | None,
    names: tuple[str, str],
    warnings: Sequence[str],
    out: Path,
    *,
    is_identical: bool,
) -> Path:
    """Write the page of a comparison and return its path.

    Args:
        runs: Detections of both runs; None if only poses are compared.
        names: Names of the runs.
        warnings: Warnings about images and detections.
        is_identical: Whether both runs have the same files.

    Raises:
        InputError: If an image cannot be read.
        OutputError: If the page cannot be written.
    """
    slices = {} if runs is None else compare_slices(runs)
    return write_comparison_page(
        ComparisonReport(
            names,
            build_comparison_verdict(
                comparisons, slices, names, warnings, is_identical=is_identical
            ),
            {
                kind: tuple(
                    _make_metric_row(get_metric_titles(kind)[metric], comparison)
                    for metric, comparison in metrics.items()
                )
                for kind, metrics in comparisons.kinds.items()
            },
            {attribute: _make_slice_rows(values) for attribute, values in slices.items()},
            comparisons.intervals_over,
            None if runs is None else _select_examples(runs, names),
        ),
        out,
    )


def _make_metric_row(title: str, comparison: Comparison) -> DifferenceRow:
    return DifferenceRow(
        title, comparison.first, comparison.second, comparison.difference, comparison.p_holm
    )


def _make_slice_rows(values: Mapping[str, SliceComparison]) -> tuple[DifferenceRow, ...]:
    return tuple(
        DifferenceRow(name, value.first, value.second, value.difference)
        for name, value in values.items()
    )


def _select_examples(runs: DetectionRuns, names: tuple[str, str]) -> ExamplePairs:
    """Select images with the detections of the first file of each run."""
    first, second = runs.first[0].detections, runs.second[0].detections
    captures = unify_captures(runs.captures, (*runs.first, *runs.second))
    return select_differing_examples(captures, names, (first, second), count=_EXAMPLE_COUNT)
