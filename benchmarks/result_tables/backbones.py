"""Tables of pretrained backbones at equal CPU time."""

from __future__ import annotations

from typing import Any

from result_tables.cells import Results, format_difference, format_score, format_table

BACKBONES = {
    "nano from scratch": "`nano`, from scratch",
    "from scratch": "`lite0`, from scratch",
    "frozen": "`lite0`, frozen",
    "thawed late": "`lite0`, thawed halfway",
    "all trained": "`lite0`, all trained",
}
FAMILIES = {"dice": "dice", "robocup": "robocup", "lmo": "LM-O"}


def tabulate_backbones(results: Results) -> str:
    """Return AP50 of each variant on each family."""
    families = (results or {}).get("families", {})
    return format_table(
        ("AP50 on real images", *BACKBONES.values()),
        (
            (title, *(_format_ap50(families.get(family), name) for name in BACKBONES))
            for family, title in FAMILIES.items()
        ),
    )


def tabulate_backbone_scores(results: Results) -> str:
    """Return all scores, training lengths, and the difference in AP50 from training from scratch."""
    families = (results or {}).get("families", {})
    return format_table(
        ("images", "backbone", "steps", "AP50", "AP", "AP75", "AP50 − from scratch", "seeds"),
        (
            _format_variant(title, BACKBONES[variant["name"]], variant, families[family])
            for family, title in FAMILIES.items()
            if family in families
            for variant in families[family]["variants"]
        ),
    )


def _format_ap50(family: dict[str, Any] | None, name: str) -> str:
    variants = {variant["name"]: variant for variant in family["variants"]} if family else {}
    return format_score(variants[name]["ap50"]) if name in variants else "not run"


def _format_variant(
    images: str, title: str, variant: dict[str, Any], family: dict[str, Any]
) -> tuple[object, ...]:
    difference = next(
        (
            comparison
            for comparison in family["comparisons"]
            if comparison["first"] == variant["name"] and comparison["metric"] == "ap50"
        ),
        None,
    )
    scores = (format_score(variant[metric]) for metric in ("ap50", "ap", "ap75"))
    steps = f"{variant['seeds'][0]['steps']:,}"
    return (images, title, steps, *scores, format_difference(difference), len(variant["seeds"]))
