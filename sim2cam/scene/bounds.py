"""Checks of single numbers of a specification against their limits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sim2cam.errors import SpecError

Bounds = Mapping[str, tuple[float, float]]

FRACTION_RANGE, SEED_RANGE = (0.0, 1.0), (0, 2**63 - 1)


def check_bounds(values: Any, owner: str, bounds: Bounds) -> None:
    """Raise an error if a number of a dataclass is out of bounds.

    Args:
        values: The dataclass; fields that are None are skipped.
        owner: Name of the dataclass in the error.
        bounds: Minimum and maximum by field.

    Raises:
        ValueError: With field, value and allowed range.
    """
    for name, (low, high) in bounds.items():
        value = getattr(values, name)
        if value is not None and not low <= value <= high:
            raise ValueError(f"{owner}: {name} must be {low:g} to {high:g}, not {value:g}")


def check_sizes(asset: object, *names: str) -> None:
    """Raise an error if a size of an asset is not finite and positive.

    Args:
        asset: A dataclass.
        names: Fields with sizes or tuples of sizes.

    Raises:
        SpecError: With field and value.
    """
    for name in names:
        value = getattr(asset, name)
        sizes = value if isinstance(value, tuple) else (value,)
        if not all(0 < size < math.inf for size in sizes):
            raise SpecError(
                f"{name} of a {type(asset).__name__.lower()} is {value}. Sizes must be finite and above 0."
            )
