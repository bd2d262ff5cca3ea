"""Validation of training settings."""

from __future__ import annotations

from collections.abc import Mapping

from sim2cam.errors import UsageError


def check_minimums(settings: object, minimums: Mapping[str, float]) -> None:
    """Raise UsageError if a setting is below its minimum."""
    for name, value in minimums.items():
        if not getattr(settings, name) >= value:  # also rejects NaN
            raise UsageError(f"{name} must be {value} or more, not {getattr(settings, name)}")
