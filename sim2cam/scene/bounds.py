"""Bounds: what each number of a specification may be, alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sim2cam.errors import SpecError

Bounds = Mapping[str, tuple[float, float]]

FRACTION_RANGE, SEED_RANGE = (0.0, 1.0), (0, 2**63 - 1)


def check_bounds(values: Any, owner: str, bounds: Bounds) -> None:
    """Refuse a dataclass one of whose numbers is out of bounds.

    Args:
        values: the dataclass; what is None in it is left out.
        owner: what it is called in the error.
        bounds: least and most of each field that has any.

    Raises:
        ValueError: naming the field, its value and what is allowed.
    """
    for name, (low, high) in bounds.items():
        value = getattr(values, name)
        if value is not None and not low <= value <= high:
            raise ValueError(f"{owner}: {name} must be {low:g} to {high:g}, not {value:g}")


def check_sizes(asset: object, *names: str) -> None:
    """Refuse sizes of an asset that are not finite and above 0.

    Args:
        asset: a dataclass.
        names: its fields that are sizes, or tuples of them.

    Raises:
        SpecError: naming the field and its value.
    """
    for name in names:
        value = getattr(asset, name)
        sizes = value if isinstance(value, tuple) else (value,)
        if not all(0 < size < math.inf for size in sizes):
            raise SpecError(
                f"{name} of a {type(asset).__name__.lower()} is {value}. It takes finite sizes above 0."
            )
