"""Keypoint names of categories and their left-right pairs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from sim2cam.data.sample import Dataset

_SIDE = re.compile(r"(?<![a-z])(left|right)(?![a-z])", re.IGNORECASE)
_OPPOSITE_SIDE = {"left": "right", "right": "left"}


def get_keypoint_names(datasets: Iterable[Dataset]) -> dict[str, tuple[str, ...]]:
    """Return the keypoint names of each category, in order of first appearance.

    Args:
        datasets: Datasets with the same categories.
    """
    names_by_category: dict[str, dict[str, None]] = {}
    for dataset in datasets:
        for category in dataset.categories:
            names_by_category.setdefault(category, {})
        for sample in dataset.samples:
            for label in sample.objects or ():
                names_by_category[label.category] |= dict.fromkeys(
                    keypoint.name for keypoint in label.keypoints or ()
                )
    return {category: tuple(names) for category, names in names_by_category.items()}


def find_flip_indices(names: Sequence[str]) -> tuple[int, ...] | None:
    """Return for each keypoint the index of its mirror image.

    Names that differ only in the word left or right are pairs, as in COCO's person keypoints. Other keypoints
    map to themselves.

    Returns:
        The indices, or None if there is no pair or a keypoint lacks its other side.
    """
    mirrored_names = [
        _SIDE.sub(lambda side: _OPPOSITE_SIDE[side[0].lower()], name.lower()) for name in names
    ]
    indices = {name.lower(): index for index, name in enumerate(names)}
    if len(indices) < len(names) or not set(mirrored_names) <= indices.keys():
        return None
    flip_indices = tuple(indices[name] for name in mirrored_names)
    return flip_indices if flip_indices != tuple(range(len(names))) else None
