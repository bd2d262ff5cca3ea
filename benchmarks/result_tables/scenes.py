"""Tables of generated scenes: shipped recipes, stability of settled scenes, interrupted runs."""

from __future__ import annotations

from textwrap import shorten
from typing import Any

from result_tables.cells import Results, format_table

REASONS = {
    "a body moves by N mm when it is let go again": "a body still moves",
    "a die leans by N degrees": "a die leans on another",
    "hidden: mean_visible_fraction is N, not N to N": "visible fraction outside the required range",
    "seen: mean_visible_fraction is N, not N to N": "visible fraction outside the required range",
    "still moving at N m/s after N s": "not at rest in time",
    "pixel (N, N) lies outside the domain of": "image corner outside the lens model",
    "bodies overlap by N mm": "bodies overlap",
}
"""Beginnings of reasons of rejected scenes, with the text that tables print."""
FAULTS = {
    "the run and its workers are killed": "run and workers killed",
    "the run is killed": "run killed",
    "two runs share a folder": "two runs write to one folder",
    "files of a finished shard are torn": "files of a finished shard truncated",
    "a worker is stopped": "worker stopped",
    "a worker is killed": "worker killed",
    "a run with a stopped worker is asked to end": "SIGTERM while a worker is stopped",
}
"""Names of experiments that tables print in place of those of the results."""


def tabulate_recipes(results: Results) -> str:
    """Return the checks of the shipped recipes."""
    return format_table(
        (
            "recipe", "images", "objects", "problems found by `check`", "rejected scenes",
            "most frequent reason", "empty bins of factors", "most shifted factor, total variation",
        ),
        map(_format_recipe, (results or {}).get("recipes", [])),
    )  # fmt: skip


def tabulate_rest(results: Results) -> str:
    """Return the movement of settled scenes in MuJoCo."""
    headers = (
        "recipe", "scenes", "bodies", "floating", "moved over 2 mm", "movement, mm: median", "99 %", "maximum",
        "overlapping over 1 mm",
    )  # fmt: skip
    if not results:
        return format_table(headers, [])
    recipes = results["recipes"]
    counts = {
        name: sum(entry[name] for entry in recipes.values())
        for name in ("scenes", "bodies", "floating", "moved_over_2_mm", "overlap_over_1_mm")
    }
    totals = counts | {
        "moved_mm": {"max": max(entry["moved_mm"]["max"] for entry in recipes.values())}
    }
    return format_table(
        headers,
        (_format_stability(name, entry) for name, entry in (recipes | {"all": totals}).items()),
    )


def tabulate_faults(results: Results) -> str:
    """Return the results of the fault experiments."""
    return format_table(
        ("fault, then `--resume`", "tries", "complete, same bytes", "seconds"),
        (
            (
                FAULTS.get(entry["name"], entry["name"]),
                entry["tries"],
                entry["whole"],
                f"{entry['seconds']:.0f}" if "seconds" in entry else "",
            )
            for entry in (results["experiments"] if results else ())
        ),
    )


def tabulate_fault_costs(results: Results) -> str:
    """Return the costs of the safeguards."""
    costs = results["costs"] if results else {}
    texts = {
        "flush_shard_ms": "flush a shard of 16 samples to the disk",
        "check_sample_ms": "check the file sizes of a finished sample",
        "hash_sample_ms": "compare the hashes of a finished sample",
    }
    return format_table(
        ("safeguard", "ms, median"),
        ((text, f"{costs[key]['median']:.2f}") for key, text in texts.items() if key in costs),
    )


def _format_recipe(recipe: dict[str, Any]) -> tuple[object, ...]:
    coverage, reasons = recipe["coverage"], recipe["rejections"]
    bent = coverage["bent"]
    reason = max(reasons, key=reasons.get) if reasons else "—"
    texts = (text for start, text in REASONS.items() if reason.startswith(start))
    return (
        f"`{recipe['name']}`", f"{recipe['samples']:,}", f"{recipe['objects']:,}", len(recipe["problems"]),
        f"{100 * recipe['rejected_share']:.1f} %",
        next(texts, shorten(reason, 60, placeholder=" …")),
        f"{coverage['empty']} of {coverage['bins']:,}",
        f"`{bent['factor']}`, {100 * bent['total_variation']:.0f} %",
    )  # fmt: skip


def _format_stability(name: str, result: dict[str, Any]) -> tuple[object, ...]:
    moved = result["moved_mm"]
    middle, high = (f"{moved[at]:.3f}" if at in moved else "" for at in ("median", "p99"))
    return (
        "all" if name == "all" else f"`{name}`", f"{result['scenes']:,}", f"{result['bodies']:,}",
        result["floating"], result["moved_over_2_mm"], middle, high, f"{moved['max']:.1f}",
        result["overlap_over_1_mm"],
    )  # fmt: skip
