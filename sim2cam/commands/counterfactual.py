"""Parser of counterfactual flags: ``--resample light,table`` and ``--set light/warmth=0.5``."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from sim2cam.errors import UsageError

if TYPE_CHECKING:
    from sim2cam.randomize.counterfactual import Intervention
    from sim2cam.randomize.sampling_context import Value

_BOOLEANS = {"true": True, "false": False}


def parse_intervention(resample: str | None, settings: tuple[tuple[str, ...], ...]) -> Intervention:
    """Parse the flags ``--resample`` and ``--set``.

    Args:
        resample: Comma-separated groups.
        settings: Texts ``FACTOR=VALUE`` of each ``--set`` flag.

    Raises:
        UsageError: If a value or group name is missing, or a factor is set twice.
    """
    from sim2cam.randomize.counterfactual import Intervention

    groups = [] if resample is None else resample.split(",")
    if "" in groups:
        raise UsageError(
            f"--resample {resample}: give comma-separated groups, such as light,die/3."
        )
    values: dict[str, Value] = {}
    for factor, value in map(_parse_setting, itertools.chain.from_iterable(settings)):
        if factor in values:
            raise UsageError(f"--set {factor} is given twice. Remove one.")
        values[factor] = value
    return Intervention(dict.fromkeys(groups, 1), values)


def _parse_setting(text: str) -> tuple[str, Value]:
    factor, equals, value = text.partition("=")
    if not (factor and equals and value):
        raise UsageError(f"--set {text}: give FACTOR=VALUE, such as light/warmth=0.5.")
    return factor, _parse_value(value)


def _parse_value(text: str) -> Value:
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
