"""Sets: how far two sets of feature vectors are apart, and how sure that is of few pictures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from sim2cam.errors import UsageError
from sim2cam.metrics.bootstrap import Estimate, estimate, resampled_counts

Floats = NDArray[np.float64]

LEAST_PICTURES = 10
"""Pictures that each set needs."""

_RESAMPLES = 400
_PERMUTATIONS = 400
_DIRECTIONS = 128
_FOLDS = 5
_RIDGE = 0.5
_SIGMAS = 1.96  # in half an interval


@dataclass(frozen=True)
class Apartness:
    """How far two sets are apart.

    Attributes:
        value: by some measure; see what returns it.
        ci95: lower and upper end of the 95 % interval.
        p_value: one-sided, of both being of one kind.
        alike: what sets of one kind and of these sizes have, on average: pictures of both, shuffled.
    """

    value: float
    ci95: tuple[float, float]
    p_value: float
    alike: float

    def to_json(self) -> dict[str, Any]:
        """Returns all of it as JSON values."""
        found = Estimate(self.value, self.ci95).to_json()
        return {**found, "p_value": self.p_value, "alike": self.alike}


@dataclass(frozen=True, eq=False)
class Scale:
    """What makes features alike in size: each is counted in standard deviations from its mean.

    Attributes:
        means: (d,).
        deviations: (d,), 1 of what never varies.
    """

    means: Floats
    deviations: Floats

    def of(self, features: Floats) -> Floats:
        """Returns features (n, d) on this scale."""
        return (features - self.means) / self.deviations


def scale_of(*sets: Floats) -> Scale:
    """Returns the scale in which all vectors of some sets (n, d) together have variance 1."""
    every = np.concatenate(sets)
    deviations = every.std(axis=0)
    means = every.mean(axis=0)
    return Scale(means, np.where(deviations > _TINY * (1 + np.abs(means)), deviations, 1.0))


_TINY = 1e-9


@dataclass(frozen=True)
class Gap:
    """How far two sets are apart, by all measures.

    Attributes:
        auc: see ``classifier_auc``.
        kernel: see ``kernel_distance``.
        sliced: see ``sliced_wasserstein``.
    """

    auc: Apartness
    kernel: Apartness
    sliced: Apartness

    def to_json(self) -> dict[str, Any]:
        """Returns all of it as JSON values."""
        return {name: getattr(self, name).to_json() for name in ("auc", "kernel", "sliced")}


def gap_of(first: Floats, second: Floats, rng: np.random.Generator) -> Gap:
    """Returns how far two sets (n, d) and (m, d) are apart.

    Args:
        first, second: sets, on a scale that makes their features alike in size.
        rng: parts, resamples and shuffles pictures, and draws directions.

    Raises:
        UsageError: fewer than ``LEAST_PICTURES`` of one, or not of the same features.
    """
    measures = (classifier_auc, kernel_distance, sliced_wasserstein)
    return Gap(*(measure(first, second, rng) for measure in measures))


def kernel_distance(first: Floats, second: Floats, rng: np.random.Generator) -> Apartness:
    """Returns the kernel distance of two sets: the unbiased estimate of the squared maximum mean
    discrepancy with the kernel (x.y / d + 1)^3 (Binkowski et al. 2018, "Demystifying MMD GANs").

    Its mean is 0 for sets of one kind, however few, so it may come out below. The interval is of
    resampled pictures, of which none is held against its own copies.

    Args:
        first, second: (n, d) and (m, d).
        rng: resamples and shuffles pictures.

    Raises:
        UsageError: fewer than ``LEAST_PICTURES`` of one, or not of the same features.
    """
    pooled, n = _pooled(first, second)
    kernel = (pooled @ pooled.T / pooled.shape[1] + 1) ** 3
    value = float(_discrepancy(kernel, *_indicators(n, len(pooled)))[0])
    resampled = _discrepancy(kernel, *_resampled(n, len(pooled), rng))
    shuffled = _discrepancy(kernel, *_shuffled(n, len(pooled), rng))
    return _apartness(value, estimate(value, resampled).ci95, shuffled)


def sliced_wasserstein(first: Floats, second: Floats, rng: np.random.Generator) -> Apartness:
    """Returns the sliced Wasserstein distance of order 2 (Bonneel et al. 2015): the root of the mean,
    over directions, of the squared distance between both sets' quantiles.

    It is of the features' unit. Few pictures make it larger than it is: hold it against ``alike``.
    The interval is as wide as the distance varies with resampled pictures.

    Args:
        first, second: (n, d) and (m, d).
        rng: draws directions, resamples and shuffles pictures.

    Raises:
        UsageError: fewer than ``LEAST_PICTURES`` of one, or not of the same features.
    """
    pooled, n = _pooled(first, second)
    seen = _seen_along(pooled, rng)
    pairs = _quantile_pairs(n, len(pooled) - n)
    value = _sliced(seen[:n], seen[n:], *pairs)
    resampled, shuffled = [], []
    for _ in range(_RESAMPLES):
        a, b = rng.integers(n, size=n), rng.integers(n, len(pooled), size=len(pooled) - n)
        resampled.append(_sliced(seen[a], seen[b], *pairs))
    for _ in range(_PERMUTATIONS):
        order = rng.permutation(len(pooled))
        shuffled.append(_sliced(seen[order[:n]], seen[order[n:]], *pairs))
    reach = _SIGMAS * float(np.std(resampled, ddof=1))
    return _apartness(value, (max(0.0, value - reach), value + reach), np.array(shuffled))


def sliced_value(first: Floats, second: Floats, rng: np.random.Generator) -> float:
    """Returns the value of ``sliced_wasserstein`` alone, which takes a hundredth of the time."""
    pooled, n = _pooled(first, second)
    seen = _seen_along(pooled, rng)
    return _sliced(seen[:n], seen[n:], *_quantile_pairs(n, len(pooled) - n))


def classifier_auc(first: Floats, second: Floats, rng: np.random.Generator) -> Apartness:
    """Returns how well a classifier tells both sets apart: the area under its ROC curve, 0.5 for
    sets of one kind and 1 for sets that share nothing (a two-sample test as in Lopez-Paz and Oquab 2017,
    "Revisiting classifier two-sample tests").

    The classifier is regularized least squares with a Gaussian kernel as wide as the median distance.
    Each picture is scored by one that has not seen it, and held against others that the same one scored.
    Shuffled labels are learned anew, which gives the p-value; the interval is of resampled pictures,
    with the classifiers as they are.

    Args:
        first, second: (n, d) and (m, d).
        rng: parts, resamples and shuffles pictures.

    Raises:
        UsageError: fewer than ``LEAST_PICTURES`` of one, or not of the same features.
    """
    pooled, n = _pooled(first, second)
    pooled = scale_of(pooled).of(pooled)
    folds = _folds(n, len(pooled), rng)
    learned = _left_out(_gaussian(pooled), folds)
    labels = np.arange(len(pooled)) >= n
    scores = learned @ labels.astype(np.float64)
    above = _above(scores, folds)
    value = float(_area(above, *_indicators(n, len(pooled)))[0])
    resampled = _area(above, *_resampled(n, len(pooled), rng))
    shuffled = np.zeros(_PERMUTATIONS)
    for i in range(_PERMUTATIONS):
        guess = _shuffled_within(labels, folds, rng)
        found = _above(learned @ guess, folds)
        shuffled[i] = _area(found, (1 - guess)[None], guess[None])[0]
    return _apartness(value, estimate(value, resampled).ci95, shuffled)


def _pooled(first: Floats, second: Floats) -> tuple[Floats, int]:
    """Returns all vectors (n + m, d) and how many of them are of the first set."""
    if first.ndim != 2 or second.ndim != 2 or first.shape[1] != second.shape[1]:
        raise UsageError(
            f"features of shapes {first.shape} and {second.shape} cannot be held against each other. "
            "Take the same features of both."
        )
    least = min(len(first), len(second))
    if least < LEAST_PICTURES:
        raise UsageError(
            f"sets of {len(first)} and {len(second)} pictures tell nothing: {LEAST_PICTURES} of each "
            "are needed. Add pictures."
        )
    pooled = np.concatenate([first, second]).astype(np.float64)
    if not np.isfinite(pooled).all():
        raise UsageError("features are not finite. Leave out the pictures that they are of.")
    return pooled, len(first)


def _apartness(value: float, ci95: tuple[float, float], shuffled: Floats) -> Apartness:
    # The set as it is counts among its shuffles, or a p-value could be 0.
    p_value = (1 + int((shuffled >= value).sum())) / (1 + len(shuffled))
    return Apartness(value, ci95, p_value, float(shuffled.mean()))


def _indicators(n: int, total: int) -> tuple[Floats, Floats]:
    """Returns weights (1, total) of the pictures of both sets as they are."""
    second = (np.arange(total) >= n).astype(np.float64)[None]
    return 1 - second, second


def _resampled(n: int, total: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Returns weights (draws, total): how often each picture is in resamples of both sets."""
    first, second = np.zeros((2, _RESAMPLES, total))
    first[:, :n] = resampled_counts(n, _RESAMPLES, rng)
    second[:, n:] = resampled_counts(total - n, _RESAMPLES, rng)
    return first, second


def _shuffled(n: int, total: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Returns weights (draws, total) of sets of the same sizes that are parted by chance."""
    second = rng.permuted(np.tile(_indicators(n, total)[1], (_PERMUTATIONS, 1)), axis=1)
    return 1 - second, second


def _discrepancy(kernel: Floats, first: Floats, second: Floats) -> Floats:
    """Returns the squared discrepancy (draws,) of sets that are weights (draws, n + m)."""
    own = np.diag(kernel)

    def within(weights: Floats) -> Floats:
        squares = weights**2
        pairs = weights.sum(axis=1) ** 2 - squares.sum(axis=1)
        return np.asarray((((weights @ kernel) * weights).sum(axis=1) - squares @ own) / pairs)

    across = ((first @ kernel) * second).sum(axis=1) / (first.sum(axis=1) * second.sum(axis=1))
    return np.asarray(within(first) + within(second) - 2 * across)


def _seen_along(pooled: Floats, rng: np.random.Generator) -> Floats:
    """Returns how far vectors (n + m, d) lie along directions (n + m, directions)."""
    directions = rng.standard_normal((pooled.shape[1], _DIRECTIONS))
    return np.asarray(pooled @ (directions / np.linalg.norm(directions, axis=0)))


def _quantile_pairs(n: int, m: int) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
    """Returns which of n and of m sorted values belong together, and with which share."""
    levels = np.unique(np.concatenate([np.arange(n + 1) * m, np.arange(m + 1) * n]))  # over n m
    below = levels[:-1]
    return below // m, below // n, np.diff(levels) / (n * m)


def _sliced(
    first: Floats, second: Floats, i: NDArray[np.intp], j: NDArray[np.intp], shares: Floats
) -> float:
    apart = np.sort(first, axis=0)[i] - np.sort(second, axis=0)[j]
    return float(np.sqrt((shares @ apart**2).mean()))


def _gaussian(pooled: Floats) -> Floats:
    squares = cdist(pooled, pooled, "sqeuclidean")
    others = squares[~np.eye(len(pooled), dtype=bool)]
    return np.asarray(np.exp(-squares / max(float(np.median(others)), _TINY)))


def _folds(n: int, total: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Returns the fold (total,) of each picture, which have their share of either set."""
    parts = [rng.permutation(np.arange(size) % _FOLDS) for size in (n, total - n)]
    return np.concatenate(parts)


def _left_out(kernel: Floats, folds: NDArray[np.int64]) -> Floats:
    """Returns the matrix that makes of labels the scores by classifiers that have not seen them."""
    matrix = np.zeros_like(kernel)
    for fold in range(_FOLDS):
        out, kept = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        inner = kernel[np.ix_(kept, kept)] + _RIDGE * np.eye(len(kept))
        weights = np.linalg.solve(inner, kernel[np.ix_(kept, out)]).T  # (out, kept)
        # labels less their mean: a constant is no evidence
        matrix[np.ix_(out, kept)] = weights - weights.sum(axis=1, keepdims=True) / len(kept)
    return matrix


def _above(scores: Floats, folds: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Returns for each pair whether the column's score is above the row's, and whether it counts."""
    same = (folds[:, None] == folds[None]).astype(np.float64)
    higher = np.sign(scores[None] - scores[:, None])
    return (higher + 1) / 2 * same, same


def _area(above: tuple[Floats, Floats], first: Floats, second: Floats) -> Floats:
    """Returns the area under the ROC curve (draws,) of sets that are weights (draws, n + m)."""
    won, counted = (((first @ matrix) * second).sum(axis=1) for matrix in above)
    return np.asarray(won / counted)


def _shuffled_within(
    labels: NDArray[np.bool_], folds: NDArray[np.int64], rng: np.random.Generator
) -> Floats:
    """Returns labels shuffled among the pictures of each fold, so that its shares stay."""
    guess = labels.astype(np.float64)
    for fold in range(_FOLDS):
        mine = np.flatnonzero(folds == fold)
        guess[mine] = guess[rng.permutation(mine)]
    return guess
