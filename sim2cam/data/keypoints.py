"""Named points of objects: which ones a category has, and which change places in a mirror."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from sim2cam.data.sample import Dataset

_SIDE = re.compile(r"(?<![a-z])(left|right)(?![a-z])", re.IGNORECASE)
_OPPOSITE_SIDE = {"left": "right", "right": "left"}


def get_keypoint_names(datasets: Iterable[Dataset]) -> dict[str, tuple[str, ...]]:
    """Return the names of each category's keypoints, in the order in which they come.

    Args:
        datasets: of the same categories.
    """
    found: dict[str, dict[str, None]] = {}
    for dataset in datasets:
        for category in dataset.categories:
            found.setdefault(category, {})
        for sample in dataset.samples:
            for label in sample.objects or ():
                found[label.category] |= dict.fromkeys(p.name for p in label.keypoints or ())
    return {category: tuple(names) for category, names in found.items()}


def find_flip_indices(names: Sequence[str]) -> tuple[int, ...] | None:
    """Return, of each keypoint, the number of the one that a mirror shows in its place.

    Pairs are names that differ in the word left or right alone, as those of COCO's people; what has no
    side stays. None where the names do not tell: there is no pair, or one has lost its other side.
    """
    others = [
        _SIDE.sub(lambda side: _OPPOSITE_SIDE[side[0].lower()], name.lower()) for name in names
    ]
    numbers = {name.lower(): number for number, name in enumerate(names)}
    if len(numbers) < len(names) or not set(others) <= numbers.keys():
        return None
    found = tuple(numbers[name] for name in others)
    return found if found != tuple(range(len(names))) else None
