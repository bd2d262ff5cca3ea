"""Tables of the ablation study on a robot's fisheye camera."""

from __future__ import annotations

from typing import Any

from result_tables.cells import Results, format_difference, format_score, format_table

VARIANTS = {
    "randomized, from scratch": "randomized renders, random initial weights",
    "randomized": "randomized renders (baseline)",
    "randomized + camera fit": "randomized + camera fit",
    "+ translated": "+ translated",
    "+ pseudo-labels": "+ pseudo-labelled photos",
    "+ 35 labelled photos": "+ 35 labelled photos",
    "real only (35 labelled photos)": "35 labelled photos",
}
"""Planned variants, in order, with the name that tables print."""
SCORINGS = {"ball": "balls", "all": "three categories"}


def tabulate_robocup(results: Results) -> str:
    """Return the scores of balls alone and of all categories; variants without results are marked."""
    scored = {scoring: _select_variants(results, scoring) for scoring in SCORINGS}
    columns = (f"{metric}, {name}" for name in SCORINGS.values() for metric in ("AP50", "AP"))
    return format_table(
        ("trained on", *columns, "seeds"),
        (
            (
                title,
                *(
                    format_score(scored[scoring][name][metric])
                    if name in scored[scoring]
                    else "not run"
                    for scoring in SCORINGS
                    for metric in ("ap50", "ap")
                ),
                len(scored["all"][name]["seeds"]) if name in scored["all"] else 0,
            )
            for name, title in VARIANTS.items()
        ),
    )


def tabulate_robocup_sizes(results: Results) -> str:
    """Return AP50 of balls by their longer side."""
    sizes = (results or {}).get("ball", {}).get("sizes", {})
    ranges = sorted({name for scores in sizes.values() for name in scores}, key=_get_lower_limit)
    return format_table(
        ("AP50 of balls, by longer side in px", *ranges),
        (
            (title, *(format_score(sizes[name][limits]) for limits in ranges))
            for name, title in VARIANTS.items()
            if name in sizes
        ),
    )


def tabulate_robocup_differences(results: Results) -> str:
    """Return the paired differences in AP50 from the baseline."""
    comparisons = {
        (scoring, entry["first"]): entry
        for scoring in SCORINGS
        for entry in (results or {}).get(scoring, {}).get("comparisons", [])
        if entry["metric"] == "ap50"
    }
    return format_table(
        ("trained on", *(f"AP50, {name}" for name in SCORINGS.values())),
        (
            (title, *(format_difference(comparisons[scoring, name]) for scoring in SCORINGS))
            for name, title in VARIANTS.items()
            if ("all", name) in comparisons
        ),
    )


def _get_lower_limit(size_range: str) -> float:
    """Return 16 for ``16 to 32``, 0 for ``below 16``."""
    first, *_ = size_range.split()
    return 0.0 if first == "below" else float(first)


def _select_variants(results: Results, scoring: str) -> dict[str, Any]:
    variants = (results or {}).get(scoring, {}).get("variants", [])
    return {variant["name"]: variant for variant in variants}
