"""What is asked of a factor: the shares of its draws, as far as they have a closed form."""

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
from sim2cam.randomize.domain import Domain, get_factor
from sim2cam.randomize.sampling_context import Value


def compute_bin_probabilities(
    domain: Domain, distribution: Distribution, edges: Sequence[float]
) -> NDArray[np.float64] | None:
    """Return the shares (n - 1,) of draws between each two of n neighbouring edges.

    The upper edge of each bin belongs to the next one. None where there is no closed form: of sums,
    products, powers and schedules.

    Args:
        domain: whose factors it may refer to.
        distribution: of numbers.
        edges: rising.
    """
    try:
        return np.diff([_compute_cdf(domain, distribution, edge) for edge in edges])
    except _NoClosedFormError:
        return None


def compute_value_probabilities(
    domain: Domain, distribution: Distribution
) -> Mapping[Value, float] | None:
    """Return the share of each value of a distribution of words or of yes and no.

    None where there is no closed form.

    Args:
        domain: whose factors it may refer to.
        distribution: of words.
    """
    try:
        return _collect_probabilities(domain, distribution)
    except _NoClosedFormError:
        return None


def _compute_cdf(domain: Domain, distribution: Distribution, x: float) -> float:
    """Return the share of draws that are less than x."""
    match distribution:
        case Constant(value):
            share = float(float(value) < x)
        case Uniform(low, high) | LogUniform(low, high) if low == high:
            share = float(low < x)
        case Uniform(low, high):
            share = min(1.0, max(0.0, (x - low) / (high - low)))
        case LogUniform(low, high):
            at = math.log(min(max(x, low), high) / low)
            share = at / math.log(high / low)
        case Normal(mean, std, low, high):
            law = truncnorm((low - mean) / std, (high - mean) / std, mean, std)
            share = float(law.cdf(x))
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
    places, weights = curve.get_positions(), curve.get_weights()
    areas = np.concatenate([[0.0], np.cumsum(np.diff(places) * (weights[1:] + weights[:-1]) / 2)])
    x = min(max(x, places[0]), places[-1])
    i = min(int(np.searchsorted(places, x, side="right")) - 1, len(places) - 2)
    height = np.interp(x, places, weights)
    return float((areas[i] + (x - places[i]) * (weights[i] + height) / 2) / areas[-1])


def _collect_probabilities(domain: Domain, distribution: Distribution) -> dict[Value, float]:
    if isinstance(distribution, Constant):
        return {distribution.value: 1.0}
    found: dict[Value, float] = {}
    for part, share in _decompose_mixture(domain, distribution):
        for value, inner in _collect_probabilities(domain, part).items():
            found[value] = found.get(value, 0.0) + share * inner
    return found


def _decompose_mixture(
    domain: Domain, distribution: Distribution
) -> list[tuple[Distribution, float]]:
    """Return the parts that a distribution is a mixture of, with their shares."""
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
            return [(get_factor(domain, path), 1.0)]
        case Given(path, cases, otherwise) if not _has_nested_references(distribution):
            known = _collect_probabilities(domain, get_factor(domain, path))
            chosen = [(cases.get(format_case(v), otherwise), share) for v, share in known.items()]
            return [(part, share) for part, share in chosen if part is not None]
        case _:
            raise _NoClosedFormError


def _has_nested_references(distribution: Given) -> bool:
    """Return whether what is drawn in a case may depend on which case it is."""
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
    """The shares can only be estimated by drawing."""
