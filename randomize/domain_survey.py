"""Histograms of the factors of a domain over many scenes, with expected counts."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sim2cam.randomize.distributions import Distribution, format_case, to_toml
from sim2cam.randomize.domain import Domain
from sim2cam.randomize.expected_shares import compute_bin_probabilities, compute_value_probabilities
from sim2cam.randomize.references import compute_extremes
from sim2cam.randomize.sampling import sample_factors
from sim2cam.randomize.sampling_context import Value

_BINS = 20


@dataclass(frozen=True)
class FactorHistogram:
    """Histogram of the samples of one factor, over all instances of its group.

    Attributes:
        group, factor: names.
        distribution: distribution in recipe syntax.
        extremes: values between which, or among which, all samples lie.
        count: number of samples.
        observed: number of samples in each bin.
        expected: expected number of samples in each bin; None without a closed form.
        edges: bin edges of numbers, one more than bins; empty for categorical factors.
        options: bins of categorical factors; empty for numbers.
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
        """Whether all samples are equal."""
        return len(set(self.extremes)) == 1


def sample_factor_histograms(
    domain: Domain, seed: int, *, count: int, views: int
) -> tuple[FactorHistogram, ...]:
    """Sample the first ``count`` scenes and return the histogram of every factor, in domain order.

    Scenes that physics would reject count too: the histograms describe the samples, not the
    dataset.

    Args:
        domain: distributions of the factors.
        seed: seed of the dataset.
        count: number of scenes.
        views: cameras per scene.
    """
    scenes = (sample_factors(domain, seed, index, views=views).values for index in range(count))
    return compute_factor_histograms(domain, scenes)


def compute_factor_histograms(
    domain: Domain, scenes: Iterable[Mapping[str, Value]]
) -> tuple[FactorHistogram, ...]:
    """Return the histogram of every factor over given scenes, in domain order.

    Args:
        domain: distributions of the factors.
        scenes: sampled values of each scene, by path.
    """
    samples: dict[tuple[str, str], list[Value]] = defaultdict(list)
    for values in scenes:
        for path, value in values.items():
            group, *_, factor = path.split("/")
            samples[group, factor].append(value)
    return tuple(
        _compute_histogram(domain, group, factor, distribution, samples[group, factor])
        for group, factor, distribution in domain.iterate_factors()
    )


def _compute_histogram(
    domain: Domain, group: str, factor: str, distribution: Distribution, values: Sequence[Value]
) -> FactorHistogram:
    extremes = compute_extremes(domain, distribution, f"domain.{group}.{factor}")
    common = group, factor, to_toml(distribution), extremes, len(values)
    if any(isinstance(value, bool | str) for value in extremes):
        options = tuple(dict.fromkeys(map(format_case, extremes)))
        names = [format_case(value) for value in values]
        probabilities = compute_value_probabilities(domain, distribution)
        by_name = {format_case(value): share for value, share in (probabilities or {}).items()}
        return FactorHistogram(
            *common,
            observed=tuple(names.count(word) for word in options),
            expected=tuple(len(names) * by_name.get(word, 0.0) for word in options)
            if probabilities
            else None,
            options=options,
        )
    numbers = [float(value) for value in values]
    edges = _compute_bin_edges([float(value) for value in extremes], numbers)
    counts, _ = np.histogram(numbers, edges)
    shares = compute_bin_probabilities(
        domain, distribution, (*edges[:-1], math.nextafter(edges[-1], math.inf))
    )
    return FactorHistogram(
        *common,
        observed=tuple(int(n) for n in counts),
        expected=None if shares is None else tuple(float(s) * len(numbers) for s in shares),
        edges=edges,
    )


def _compute_bin_edges(extremes: Sequence[float], numbers: Sequence[float]) -> tuple[float, ...]:
    """Return edges of equal bins; few whole numbers get one centred bin each."""
    low, high = min(extremes), max(extremes)
    are_whole = all(float(value).is_integer() for value in (low, high, *numbers))
    if are_whole and high - low < 2 * _BINS:
        return tuple(np.arange(low - 0.5, high + 1).tolist())
    return tuple(np.linspace(low, high, _BINS + 1).tolist())
