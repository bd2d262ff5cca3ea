"""A survey of a domain: what many scenes draw of each factor, beside what is asked of it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from sim2cam.randomize.distributions import Distribution, as_toml, case_name
from sim2cam.randomize.domain import Domain, factors_of
from sim2cam.randomize.expected_shares import shares_between, shares_of
from sim2cam.randomize.references import extremes_of
from sim2cam.randomize.sampling import draw
from sim2cam.randomize.sampling_context import Value

_BINS = 20


@dataclass(frozen=True)
class FactorSurvey:
    """What was drawn of one factor, over all instances of its group.

    Attributes:
        group, factor: names.
        asked_for: its distribution, as a recipe writes it.
        extremes: the values between which, or among which, all draws lie.
        count: how often it was drawn.
        drawn: draws of each bin.
        asked: draws of each bin that are expected; None without a closed form.
        edges: of the bins of numbers, one more than bins; empty for words.
        words: of the bins of words; empty for numbers.
    """

    group: str
    factor: str
    asked_for: str
    extremes: tuple[Value, ...]
    count: int
    drawn: tuple[int, ...]
    asked: tuple[float, ...] | None
    edges: tuple[float, ...] = ()
    words: tuple[str, ...] = ()

    @property
    def is_fixed(self) -> bool:
        """Whether it is always the same."""
        return len(set(self.extremes)) == 1


def survey(domain: Domain, seed: int, *, count: int, views: int) -> tuple[FactorSurvey, ...]:
    """Returns what the first ``count`` scenes draw of every factor, in the order of the domain.

    Drafts that would not settle count too: it is what is drawn, not what is left of it.

    Args:
        domain: the distributions.
        seed: of the data set.
        count: of scenes.
        views: cameras of each.
    """
    drafts = (draw(domain, seed, index, views=views).values for index in range(count))
    return survey_of(domain, drafts)


def survey_of(domain: Domain, scenes: Iterable[Mapping[str, Value]]) -> tuple[FactorSurvey, ...]:
    """Returns what some scenes drew of every factor, in the order of the domain.

    Args:
        domain: the distributions.
        scenes: what each drew, by path.
    """
    found: dict[tuple[str, str], list[Value]] = defaultdict(list)
    for values in scenes:
        for path, value in values.items():
            group, *_, factor = path.split("/")
            found[group, factor].append(value)
    return tuple(
        _surveyed(domain, group.name, factor, distribution, found[group.name, factor])
        for group in fields(domain)
        for factor, distribution in factors_of(getattr(domain, group.name))
    )


def _surveyed(
    domain: Domain, group: str, factor: str, distribution: Distribution, values: Sequence[Value]
) -> FactorSurvey:
    extremes = extremes_of(domain, distribution, f"domain.{group}.{factor}")
    known = group, factor, as_toml(distribution), extremes, len(values)
    if any(isinstance(value, bool | str) for value in extremes):
        words = tuple(dict.fromkeys(map(case_name, extremes)))
        names = [case_name(value) for value in values]
        asked = shares_of(domain, distribution)
        by_name = {case_name(value): share for value, share in (asked or {}).items()}
        return FactorSurvey(
            *known,
            drawn=tuple(names.count(word) for word in words),
            asked=tuple(len(names) * by_name[word] for word in words) if asked else None,
            words=words,
        )
    numbers = [float(value) for value in values]
    edges = _edges([float(value) for value in extremes], numbers)
    counts, _ = np.histogram(numbers, edges)
    shares = shares_between(
        domain, distribution, (*edges[:-1], math.nextafter(edges[-1], math.inf))
    )
    return FactorSurvey(
        *known,
        drawn=tuple(int(n) for n in counts),
        asked=None if shares is None else tuple(float(s) * len(numbers) for s in shares),
        edges=edges,
    )


def _edges(extremes: Sequence[float], numbers: Sequence[float]) -> tuple[float, ...]:
    """Returns edges of equal bins; a few whole numbers have one each, in its middle."""
    low, high = min(extremes), max(extremes)
    are_whole = all(float(value).is_integer() for value in (low, high, *numbers))
    if are_whole and high - low < 2 * _BINS:
        return tuple(np.arange(low - 0.5, high + 1).tolist())
    return tuple(np.linspace(low, high, _BINS + 1).tolist())
