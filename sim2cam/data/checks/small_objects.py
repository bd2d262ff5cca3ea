"""Warning about labelled objects that are too small to recognise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

MIN_VISIBLE_PX = 16.0
"""Visible pixels below which an object is reported."""


def describe_small_objects(areas_px: Mapping[str, Sequence[float]]) -> str | None:
    """Describe objects with fewer visible pixels than ``MIN_VISIBLE_PX``; None without any.

    COCO has no smallest object, so labels of such objects are kept and scored.

    Args:
        areas_px: Visible pixels of the objects of each sample, without crowd regions.
    """
    small = {
        name: min(areas)
        for name, areas in areas_px.items()
        if any(area < MIN_VISIBLE_PX for area in areas)
    }
    if not small:
        return None
    total = sum(len(areas) for areas in areas_px.values())
    count = sum(area < MIN_VISIBLE_PX for areas in areas_px.values() for area in areas)
    name = min(small, key=lambda sample: small[sample])
    return (
        f"{count} of {total} objects show fewer than {MIN_VISIBLE_PX:g} pixels (smallest: "
        f"{small[name]:g} in sample {name}). Detectors cannot learn them. In a recipe, a [require] table "
        "with the measure min_box_px rejects such scenes."
    )
