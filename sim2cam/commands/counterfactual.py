"""Flags that ask for counterfactuals: ``--resample light,table`` and ``--set light/warmth=0.5``."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from sim2cam.errors import UsageError

if TYPE_CHECKING:
    from sim2cam.randomize.counterfactual import Intervention
    from sim2cam.randomize.sampling_context import Value

_BOOLEANS = {"true": True, "false": False}


def parse_intervention(resample: str | None, settings: tuple[tuple[str, ...], ...]) -> Intervention:
    """Return the change that the flags ask for.

    Args:
        resample: comma-separated groups.
        settings: ``FACTOR=VALUE`` each, of each flag.

    Raises:
        UsageError: a setting without a value, one that is given twice, or a group without a name.
    """
    from sim2cam.randomize.counterfactual import Intervention

    groups = [] if resample is None else resample.split(",")
    if "" in groups:
        raise UsageError(f"--resample {resample}: give GROUPS, as light,die/3.")
    found: dict[str, Value] = {}
    for factor, value in map(_parse_setting, itertools.chain.from_iterable(settings)):
        if factor in found:
            raise UsageError(f"--set {factor} is given twice. Leave one of them out.")
        found[factor] = value
    return Intervention(dict.fromkeys(groups, 1), found)


def _parse_setting(text: str) -> tuple[str, Value]:
    factor, equals, value = text.partition("=")
    if not (factor and equals and value):
        raise UsageError(f"--set {text}: give FACTOR=VALUE, as light/warmth=0.5.")
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
