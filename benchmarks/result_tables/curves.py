"""Tables of learning curves: measured scores and power laws."""

from __future__ import annotations

from typing import Any

from result_tables.cells import (
    DETECTION_SCORES,
    Results,
    format_number,
    format_score,
    format_table,
)


def tabulate_points(results: Results) -> str:
    """Return the scores of each planned point on development photos."""
    study = (results or {}).get("dev", {})
    variants = {variant["name"]: variant for variant in study.get("variants", [])}
    return format_table(
        ("trained on", *DETECTION_SCORES.values(), "seeds"),
        (_format_point(name, variants.get(name)) for name in study.get("planned", [])),
    )


def tabulate_fits(results: Results) -> str:
    """Return the predicted gain and the floor of each curve over renders and steps."""
    return _tabulate_fits((results or {}).get("dev", {}))


def tabulate_photo_fits(results: Results) -> str:
    """Return the predicted gain and the floor of each curve over labelled photos."""
    return _tabulate_fits((results or {}).get("test", {}))


def _tabulate_fits(study: dict[str, Any]) -> str:
    return format_table(
        ("trained on", "score", "gain", "floor c", "exponent b", "conclusion"),
        map(_format_fit, study.get("learning_curves", [])),
    )


def _format_point(name: str, variant: dict[str, Any] | None) -> tuple[object, ...]:
    if variant is None:
        return (name, *["not run"] * len(DETECTION_SCORES), 0)
    scores = (format_score(variant[metric]) for metric in DETECTION_SCORES)
    return (name, *scores, len(variant["seeds"]))


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
