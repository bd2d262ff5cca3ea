"""Tables of learning curves: measured scores and power laws."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from result_tables.cells import (
    DETECTION_SCORES,
    Results,
    format_number,
    format_score,
    format_table,
)


def tabulate_points(study: str, results: Results) -> str:
    """Return the scores of each point of the curves of a study."""
    return format_table(
        ("trained on", "seeds", *DETECTION_SCORES.values()),
        (row for curves in _group_by_resource(study, results) for row in _format_points(curves)),
    )


def tabulate_fits(study: str, results: Results) -> str:
    """Return the predicted gain and the floor of each curve of a study."""
    return format_table(
        ("trained on", "score", "gain", "floor c", "exponent b", "conclusion"),
        (
            _format_fit(curve)
            for curves in _group_by_resource(study, results)
            for curve in curves.values()
        ),
    )


def _group_by_resource(study: str, results: Results) -> Iterator[dict[str, Any]]:
    """Yield the curves of each resource by metric."""
    curves = (results or {}).get(study, {}).get("learning_curves", [])
    for resource in dict.fromkeys(curve["resource"] for curve in curves):
        yield {c["metric"]: c for c in curves if c["resource"] == resource}


def _format_points(curves: dict[str, Any]) -> Iterator[tuple[object, ...]]:
    resource = curves["ap"]["resource"]
    for points in zip(*(curves[metric]["points"] for metric in DETECTION_SCORES), strict=True):
        size, seeds = points[0]["size"], points[0]["seeds"]
        yield f"{size:,} {resource}", seeds, *map(format_score, points)


def _format_fit(curve: dict[str, Any]) -> tuple[object, ...]:
    fit, title = curve["fit"], DETECTION_SCORES[curve["metric"]]
    doubled = f"{2 * curve['points'][-1]['size']:,} {curve['resource']}"
    if fit is None:
        return doubled, title, "—", "—", "—", curve["conclusion"]
    floor = format_score(fit["floor"]) if fit["determines_floor"] else "not determined"
    return (
        doubled, title, format_score(fit["gain"]), floor, format_number(fit["law"]["b"]),
        curve["conclusion"],
    )  # fmt: skip
