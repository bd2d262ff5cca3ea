"""Checks that the settings of all trainings share."""

from __future__ import annotations

from collections.abc import Mapping

from sim2cam.errors import UsageError


def check_minimums(settings: object, minimums: Mapping[str, float]) -> None:
    """Refuse settings below the least that they may be, by their names.

    Raises:
        UsageError: naming the setting and its value.
    """
    for name, value in minimums.items():
        if not getattr(settings, name) >= value:  # so written, it refuses NaN too
            raise UsageError(f"{name} must be {value} or more, not {getattr(settings, name)}")
