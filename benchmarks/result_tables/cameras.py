"""Tables of camera calibration and drift detection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from result_tables.cells import Results, format_number, format_score, format_table

UNCHANGED = (
    ("rendered", "same", "hidden cameras, 20 images and 8 later images"),
    ("dice", "same", "photos of dice, random 60 and 20 of two days"),
    ("gopro", "same", "lens alone, random halves of 35 photos of a chessboard"),
    ("dice", "halves of a day", "photos of dice, first and second half of a day"),
    ("dice", "other day", "photos of dice, one day and the other"),
)
"""Comparisons without a change: source, name, and what tables print."""
CHANGES = {"8 % of the light astray": "veiling glare of 8 %", "a third of the electrons": "full well / 3",
           "smears before a third": "smears on a third of the lens",
           "three quarters of the size": "image size x 0.75",
           "written again, else as it was": "re-encoded, otherwise unchanged"}  # fmt: skip
"""Names of changes that tables print in place of those of the results."""


def tabulate_calibration(results: Results) -> str:
    """Return the accuracy of ``calibrate`` by parameter."""
    summary = (results or {}).get("summary", {})
    count = (results or {}).get("cameras", 0)
    return format_table(
        ("parameter", "estimated for", "median error", "median width of the interval", "true value in the 95 % interval"),
        (
            (
                f"`{name}`",
                f"{row['estimates']} of {count}",
                format_number(row["median_error"]),
                format_number(row["median_width"]),
                format_score(row["covered"]),
            )
            for name, row in summary.items()
        ),
    )  # fmt: skip


def tabulate_database_noise(results: Results) -> str:
    """Return the noise of real sensors by sensitivity, and that of a recipe."""
    sensors = (results or {}).get("sensors", [])
    rows: list[Sequence[object]] = [
        (f"ISO {row['iso']}", row["profiles"], *_format_noise(row)) for row in sensors
    ]
    if results:
        recipe = results["recipe"]
        rows.append((f"recipe `{recipe['name']}`", "", *_format_noise(recipe)))
    return format_table(
        ("sensors", "profiles", "noise at 0.05, %", "noise at 0.4, %", "electrons at saturation", "read noise, electrons"),
        rows,
    )  # fmt: skip


def tabulate_database_gaps(results: Results) -> str:
    """Return the AUC of ISP features between photos and renders."""
    cameras = (results or {}).get("isp", {}).get("cameras", [])
    stages = cameras[0]["stages"] if cameras else ()
    rows = ((row["name"], *map(format_score, row["stages"].values())) for row in cameras)
    return format_table(("cameras of the renders", *stages), rows)


def _format_noise(row: dict[str, Any]) -> tuple[str, ...]:
    noise = ([100 * value for value in row[f"noise at {level}"]] for level in (0.05, 0.4))
    columns = (
        *((values, ".2f") for values in noise), (row["full_well_e"], ",.0f"), (row["read_noise_e"], ".1f"),
    )  # fmt: skip
    return tuple(
        f"{median:{form}} ({low:{form}}–{high:{form}})" for (low, median, high), form in columns
    )


def tabulate_false_alarms(results: Results) -> str:
    """Return the false alarms of ``drift``."""
    summary = (results or {}).get("summary", {})
    rows: list[Sequence[object]] = []
    for source, name, text in UNCHANGED:
        part = summary.get(source, {}).get(name)
        parameters = ", ".join(f"`{key}`" for key in part.get("named", ())) or "—" if part else ""
        rows.append(
            (text, part["trials"], part["alarms"], parameters) if part else (text, "not run")
        )
    return format_table(("nothing changed", "comparisons", "alarms", "reported parameters"), rows)


def tabulate_drift(results: Results) -> str:
    """Return the detected changes of ``drift``."""
    summary = (results or {}).get("summary", {})
    detections = [summary.get(source, {}).get("planted", {}) for source in ("rendered", "dice")]
    rows = (
        (CHANGES.get(name, name), *(cell for part in detections for cell in _format_detections(part.get(name))))
        for name in dict.fromkeys(name for part in detections for name in part)
    )  # fmt: skip
    others = "other parameters, mean"
    return format_table(
        ("change", "detected, hidden cameras", others, "detected, photos of dice", others), rows
    )


def _format_detections(counts: dict[str, Any] | None) -> tuple[str, str]:
    if counts is None:
        return "—", "—"
    return f"{counts['found']} of {counts['trials']}", f"{counts['others']:.1f}"
