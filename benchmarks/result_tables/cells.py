"""Markdown tables and the cells of scores, shares and timings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

Results = dict[str, Any] | None
"""Content of a result file; None if the benchmark was not run."""

DETECTION_SCORES = {"ap": "AP", "ap50": "AP50", "agnostic_ap50": "AP50, class-agnostic"}
"""Column header by key of a result."""


def format_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table; missing rows are marked, missing cells stay empty."""
    lines = [list(map(str, row)) for row in rows] or [["not run"]]
    filled = [line + [""] * (len(headers) - len(line)) for line in lines]
    texts = [
        "".join(f"| {cell} " if cell else "| " for cell in row) + "|" for row in (headers, *filled)
    ]
    return "\n".join([texts[0], f"|{'---|' * len(headers)}", *texts[1:]])


def format_score(score: dict[str, Any]) -> str:
    """Return a value with its 95 % interval."""
    low, high = score["ci95"]
    between = " to " if low < 0 else "–"
    return f"{score['value']:.3f} ({low:.3f}{between}{high:.3f})"


def format_difference(comparison: dict[str, Any] | None) -> str:
    """Return a difference with its 95 % interval and Holm-adjusted p-value."""
    return f"{format_score(comparison)}, p = {comparison['p_holm']:.3f}" if comparison else "—"


def format_share(result: dict[str, Any]) -> str:
    """Return a share in percent with its 95 % interval."""
    low, high = (f"{100 * end:.1f}" for end in result["ci95"])
    return f"{100 * result['value']:.1f} % ({low}–{high})"


def format_spread(spread: dict[str, Any]) -> str:
    """Return a median with the 10th and 90th percentile."""
    digits = 1 if spread["value"] < 10 else 0
    low, high = (f"{spread[key]:,.{digits}f}" for key in ("p10", "p90"))
    return f"{spread['value']:,.{digits}f} ({low}–{high})"


def format_range(seconds: dict[str, float]) -> str:
    """Return a median with the minimum and maximum."""
    return f"{seconds['median']:.2f} ({seconds['least']:.2f}–{seconds['most']:.2f})"


def format_number(value: float | None) -> str:
    """Return a number with three significant digits, or a dash."""
    return "—" if value is None else f"{value:.3g}"
