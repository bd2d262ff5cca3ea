"""Table of pretrained backbones at equal CPU time."""

from __future__ import annotations

from result_tables.cells import Results, format_difference, format_score, format_table

FAMILIES = {"dice": "dice", "robocup": "RoboCup", "lmo": "LM-O"}
VARIANTS = {
    "nano from scratch": "`nano`, from scratch",
    "from scratch": "`lite0`, from scratch (baseline)",
    "frozen": "`lite0`, pretrained, frozen",
    "thawed late": "`lite0`, pretrained, thawed after half of the steps",
    "all trained": "`lite0`, pretrained, all trained",
}
"""Planned variants in order, with the name that the table prints."""


def tabulate_backbones(results: Results) -> str:
    """Return the scores of all variants on each family, with steps and differences."""
    rows: list[tuple[str, ...]] = []
    for family, name in FAMILIES.items():
        part = (results or {}).get("families", {}).get(family, {"variants": [], "comparisons": []})
        scores = {row["name"]: row for row in part["variants"]}
        differences = {row["first"]: row for row in part["comparisons"] if row["metric"] == "ap50"}
        for variant, text in VARIANTS.items():
            if variant not in scores:
                rows.append((name, text, "not run"))
                continue
            row = scores[variant]
            rows.append(
                (
                    name, text, f"{row['seeds'][0]['steps']:,}", format_score(row["ap50"]),
                    format_difference(differences.get(variant)), format_score(row["ap"]),
                )
            )  # fmt: skip
    return format_table(
        ("objects", "network", "steps", "AP50", "difference to the baseline", "AP"), rows
    )
