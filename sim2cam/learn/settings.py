"""Validation of training settings."""

from __future__ import annotations

import math

from sim2cam.errors import UsageError
from sim2cam.scene.parameters import list_parameters


def check_settings(settings: object) -> None:
    """Raise UsageError if a number is outside of the range that its annotation declares."""
    for name, parameter in list_parameters(type(settings)).items():
        if parameter.type not in ("number", "integer") or math.isinf(parameter.low):
            continue
        value = getattr(settings, name)
        if not parameter.low <= value <= parameter.high:  # also rejects NaN
            is_open = math.isinf(parameter.high)
            upper = " or more" if is_open else f" to {parameter.high:g}"
            raise UsageError(f"{name} must be {parameter.low:g}{upper}, not {value}")
