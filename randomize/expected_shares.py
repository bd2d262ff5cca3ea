"""Exact probabilities of the values of a factor, where a closed form exists."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import truncnorm

from sim2cam.randomize.distributions import (
    Choice,
    Clip,
    Column,
    Constant,
    Curve,
    Distribution,
    Given,
    Integers,
    LogUniform,
    Normal,
    Quota,
    Rounded,
    Same,
    Shared,
    Uniform,
    format_case,
    iterate_parts,
)
from sim2cam.randomize.domain import Domain
from sim2cam.randomize.sampling_context import Value


def compute_bin_probabilities(
    domain: Domain, distribution: Distribution, edges: Sequence[float]
) -> NDArray[np.float64] | None:
    """Return the probabilities (n - 1,) of the bins between n edges.

    The upper edge of each bin belongs to the next bin.

    Args:
        domain: domain of the factors to which the distribution may refer.
        distribution: distribution of numbers.
        edges: bin edges in increasing order.

    Returns:
        Probability of each bin; None without a closed form (for example sums, products, powers, schedules).
    """
    try:
        return np.diff([_compute_cdf(domain, distribution, edge) for edge in edges])
    except _NoClosedFormError:
        return None


def compute_value_probabilities(
    domain: Domain, distribution: Distribution
) -> Mapping[Value, float] | None:
    """Return the probability of each value of a categorical distribution.

    Args:
        domain: domain of the factors to which the distribution may refer.
        distribution: distribution of strings or booleans.

    Returns:
        Probabilities by value; None without a closed form.
    """
    try:
        return _collect_probabilities(domain, distribution)
    except _NoClosedFormError:
        return None


def _compute_cdf(domain: Domain, distribution: Distribution, x: float) -> float:
    """Return the probability that a sample is less than x."""
    match distribution:
        case Constant(value):
            share = float(float(value) < x)
        case Uniform(low, high) | LogUniform(low, high) if low == high:
            share = float(low < x)
        case Uniform(low, high):
            share = min(1.0, max(0.0, (x - low) / (high - low)))
        case LogUniform(low, high):
            share = math.log(min(max(x, low), high) / low) / math.log(high / low)
        case Normal(mean, std, low, high):
            normal = truncnorm((low - mean) / std, (high - mean) / std, mean, std)
            share = float(normal.cdf(x))
        case Curve():
            share = _compute_curve_cdf(distribution, x)
        case Integers(low, high):
            share = min(1.0, max(0.0, (math.ceil(x) - low) / (high - low + 1)))
        case Clip(of, low, high):
            share = 0.0 if x <= low else 1.0 if x > high else _compute_cdf(domain, of, x)
        case Rounded(of):
            share = _compute_cdf(domain, of, math.ceil(x) - 0.5)
        case _:
            parts = _decompose_mixture(domain, distribution)
            share = sum(weight * _compute_cdf(domain, part, x) for part, weight in parts)
    return share


def _compute_curve_cdf(curve: Curve, x: float) -> float:
    positions, weights = curve.get_positions(), curve.get_weights()
    areas = np.concatenate(
        [[0.0], np.cumsum(np.diff(positions) * (weights[1:] + weights[:-1]) / 2)]
    )
    x = min(max(x, positions[0]), positions[-1])
    i = min(int(np.searchsorted(positions, x, side="right")) - 1, len(positions) - 2)
    height = np.interp(x, positions, weights)
    return float((areas[i] + (x - positions[i]) * (weights[i] + height) / 2) / areas[-1])


def _collect_probabilities(domain: Domain, distribution: Distribution) -> dict[Value, float]:
    if isinstance(distribution, Constant):
        return {distribution.value: 1.0}
    probabilities: dict[Value, float] = {}
    for part, share in _decompose_mixture(domain, distribution):
        for value, inner in _collect_probabilities(domain, part).items():
            probabilities[value] = probabilities.get(value, 0.0) + share * inner
    return probabilities


def _decompose_mixture(
    domain: Domain, distribution: Distribution
) -> list[tuple[Distribution, float]]:
    """Return the components of a mixture distribution with their weights."""
    match distribution:
        case Choice(options, weights):
            return _normalize_weights([Constant(option) for option in options], weights)
        case Column(_, values):
            return _normalize_weights([Constant(value) for value in values], ())
        case Quota(of, shares):
            return _normalize_weights(of, shares)
        case Shared(of):
            return [(of, 1.0)]
        case Same(path):
            return _decompose_reference(domain, path)
        case Given(path, cases, otherwise) if not _has_nested_references(distribution):
            conditions = _collect_conditions(domain, path)
            parts = [
                (cases.get(format_case(value), otherwise), share)
                for value, share in conditions.items()
            ]
            return [(part, share) for part, share in parts if part is not None]
        case _:
            raise _NoClosedFormError


def _decompose_reference(domain: Domain, path: str) -> list[tuple[Distribution, float]]:
    """Return the distribution of another factor, or the values of a derived one with their shares."""
    if domain.find_derived(path) is None:
        return [(domain.get_factor(path), 1.0)]
    return [(Constant(value), share) for value, share in _collect_conditions(domain, path).items()]


def _collect_conditions(domain: Domain, path: str) -> Mapping[Value, float]:
    """Return the probability of each value of the factor at a path, which may be a derived one."""
    derived = domain.find_derived(path)
    if derived is None:
        return _collect_probabilities(domain, domain.get_factor(path))
    source, function = derived
    shares: dict[Value, float] = {}
    for value, share in _collect_probabilities(domain, domain.get_factor(source)).items():
        shares[function(str(value))] = shares.get(function(str(value)), 0.0) + share
    return shares


def _has_nested_references(distribution: Given) -> bool:
    """Return whether the samples of a case may depend on the condition."""
    return any(
        isinstance(part, Same | Given)
        for part in iterate_parts(distribution)
        if part is not distribution
    )


def _normalize_weights(
    parts: Sequence[Distribution], weights: Sequence[float]
) -> list[tuple[Distribution, float]]:
    weights = weights or [1.0] * len(parts)
    return [(part, w / sum(weights)) for part, w in zip(parts, weights, strict=True)]


class _NoClosedFormError(Exception):
    """Probabilities that can only be estimated by sampling."""
