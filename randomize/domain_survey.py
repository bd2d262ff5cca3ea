"""A survey of a domain: what many scenes draw of each factor, beside what is asked of it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from sim2cam.randomize.distributions import Distribution, format_case, to_toml
from sim2cam.randomize.domain import Domain, iterate_factors
from sim2cam.randomize.expected_shares import compute_bin_probabilities, compute_value_probabilities
from sim2cam.randomize.references import compute_extremes
from sim2cam.randomize.sampling import sample_factors
from sim2cam.randomize.sampling_context import Value

_BINS = 20


@dataclass(frozen=True)
class FactorHistogram:
    """What was drawn of one factor, over all instances of its group.

    Attributes:
        group, factor: names.
        distribution: its distribution, as a recipe writes it.
        extremes: the values between which, or among which, all draws lie.
        count: how often it was drawn.
        observed: draws of each bin.
        expected: draws of each bin that are expected; None without a closed form.
        edges: of the bins of numbers, one more than bins; empty for words.
        options: of the bins of words; empty for numbers.
    """

    group: str
    factor: str
    distribution: str
    extremes: tuple[Value, ...]
    count: int
    observed: tuple[int, ...]
    expected: tuple[float, ...] | None
    edges: tuple[float, ...] = ()
    options: tuple[str, ...] = ()

    @property
    def is_fixed(self) -> bool:
        """Whether it is always the same."""
        return len(set(self.extremes)) == 1


def sample_factor_histograms(
    domain: Domain, seed: int, *, count: int, views: int
) -> tuple[FactorHistogram, ...]:
    """Return what the first ``count`` scenes draw of every factor, in the order of the domain.

    Drafts that would not settle count too: it is what is drawn, not what is left of it.

    Args:
        domain: the distributions.
        seed: of the data set.
        count: of scenes.
        views: cameras of each.
    """
    drafts = (sample_factors(domain, seed, index, views=views).values for index in range(count))
    return compute_factor_histograms(domain, drafts)


def compute_factor_histograms(
    domain: Domain, scenes: Iterable[Mapping[str, Value]]
) -> tuple[FactorHistogram, ...]:
    """Return what some scenes drew of every factor, in the order of the domain.

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
        _compute_histogram(domain, group.name, factor, distribution, found[group.name, factor])
        for group in fields(domain)
        for factor, distribution in iterate_factors(getattr(domain, group.name))
    )


def _compute_histogram(
    domain: Domain, group: str, factor: str, distribution: Distribution, values: Sequence[Value]
) -> FactorHistogram:
    extremes = compute_extremes(domain, distribution, f"domain.{group}.{factor}")
    known = group, factor, to_toml(distribution), extremes, len(values)
    if any(isinstance(value, bool | str) for value in extremes):
        words = tuple(dict.fromkeys(map(format_case, extremes)))
        names = [format_case(value) for value in values]
        asked = compute_value_probabilities(domain, distribution)
        by_name = {format_case(value): share for value, share in (asked or {}).items()}
        return FactorHistogram(
            *known,
            observed=tuple(names.count(word) for word in words),
            expected=tuple(len(names) * by_name[word] for word in words) if asked else None,
            options=words,
        )
    numbers = [float(value) for value in values]
    edges = _compute_bin_edges([float(value) for value in extremes], numbers)
    counts, _ = np.histogram(numbers, edges)
    shares = compute_bin_probabilities(
        domain, distribution, (*edges[:-1], math.nextafter(edges[-1], math.inf))
    )
    return FactorHistogram(
        *known,
        observed=tuple(int(n) for n in counts),
        expected=None if shares is None else tuple(float(s) * len(numbers) for s in shares),
        edges=edges,
    )


def _compute_bin_edges(extremes: Sequence[float], numbers: Sequence[float]) -> tuple[float, ...]:
    """Return edges of equal bins; a few whole numbers have one each, in its middle."""
    low, high = min(extremes), max(extremes)
    are_whole = all(float(value).is_integer() for value in (low, high, *numbers))
    if are_whole and high - low < 2 * _BINS:
        return tuple(np.arange(low - 0.5, high + 1).tolist())
    return tuple(np.linspace(low, high, _BINS + 1).tolist())
