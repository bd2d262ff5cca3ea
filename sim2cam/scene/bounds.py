"""Bounds: what each number of a specification may be, alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Bounds = Mapping[str, tuple[float, float]]

SHARE, SEED = (0.0, 1.0), (0, 2**63 - 1)


def check_bounds(values: Any, owner: str, bounds: Bounds) -> None:
    """Refuses a dataclass one of whose numbers is out of bounds.

    Args:
        values: the dataclass.
        owner: what it is called in the error.
        bounds: least and most of each field that has any.

    Raises:
        ValueError: naming the field, its value and what is allowed.
    """
    for name, (low, high) in bounds.items():
        value = getattr(values, name)
        if not low <= value <= high:
            raise ValueError(f"{owner}: {name} must be {low:g} to {high:g}, not {value:g}")
