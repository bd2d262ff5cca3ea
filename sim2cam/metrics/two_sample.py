"""Sets: how far two sets of feature vectors are apart, and how sure that is of few pictures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from sim2cam.errors import UsageError
from sim2cam.metrics.bootstrap import Estimate, bootstrap_estimate, sample_bootstrap_counts

Floats = NDArray[np.float64]

MIN_IMAGES = 10
"""Pictures that each set needs."""

_N_RESAMPLES = 400
_N_PERMUTATIONS = 400
_N_DIRECTIONS = 128
_N_FOLDS = 5
_RIDGE = 0.5
_INTERVAL_SIGMAS = 1.96  # in half an interval


@dataclass(frozen=True)
class TwoSampleDistance:
    """How far two sets are apart.

    Attributes:
        value: by some measure; see what returns it.
        ci95: lower and upper end of the 95 % interval.
        p_value: one-sided, of both being of one kind.
        null_mean: what sets of one kind and of these sizes have, on average: pictures of both, shuffled.
    """

    value: float
    ci95: tuple[float, float]
    p_value: float
    null_mean: float

    def to_json(self) -> dict[str, Any]:
        """Return all of it as JSON values."""
        found = Estimate(self.value, self.ci95).to_json()
        return {**found, "p_value": self.p_value, "null_mean": self.null_mean}


@dataclass(frozen=True, eq=False)
class FeatureScaler:
    """What makes features alike in size: each is counted in standard deviations from its mean.

    Attributes:
        means: (d,).
        stds: (d,), 1 of what never varies.
    """

    means: Floats
    stds: Floats

    def transform(self, features: Floats) -> Floats:
        """Return features (n, d) on this scale."""
        return (features - self.means) / self.stds


def fit_feature_scaler(*sets: Floats) -> FeatureScaler:
    """Return the scale in which all vectors of some sets (n, d) together have variance 1."""
    every = np.concatenate(sets)
    deviations = every.std(axis=0)
    means = every.mean(axis=0)
    return FeatureScaler(
        means, np.where(deviations > _EPSILON * (1 + np.abs(means)), deviations, 1.0)
    )


_EPSILON = 1e-9


@dataclass(frozen=True)
class DomainGap:
    """How far two sets are apart, by all measures.

    Attributes:
        auc: see ``measure_classifier_auc``.
        mmd: see ``measure_mmd``.
        sliced_wasserstein: see ``measure_sliced_wasserstein``.
    """

    auc: TwoSampleDistance
    mmd: TwoSampleDistance
    sliced_wasserstein: TwoSampleDistance

    def to_json(self) -> dict[str, Any]:
        """Return all of it as JSON values."""
        return {
            name: getattr(self, name).to_json() for name in ("auc", "mmd", "sliced_wasserstein")
        }


def measure_domain_gap(first: Floats, second: Floats, rng: np.random.Generator) -> DomainGap:
    """Return how far two sets (n, d) and (m, d) are apart.

    Args:
        first, second: sets, on a scale that makes their features alike in size.
        rng: parts, resamples and shuffles pictures, and draws directions.

    Raises:
        UsageError: fewer than ``LEAST_PICTURES`` of one, or not of the same features.
    """
    measures = (measure_classifier_auc, measure_mmd, measure_sliced_wasserstein)
    return DomainGap(*(measure(first, second, rng) for measure in measures))


def measure_mmd(first: Floats, second: Floats, rng: np.random.Generator) -> TwoSampleDistance:
    """Return the kernel distance of two sets: the unbiased estimate of the squared maximum mean
    discrepancy with the kernel (x.y / d + 1)^3 (Binkowski et al. 2018, "Demystifying MMD GANs").

    Its mean is 0 for sets of one kind, however few, so it may come out below. The interval is of
    resampled pictures, of which none is held against its own copies.

    Args:
        first, second: (n, d) and (m, d).
        rng: resamples and shuffles pictures.

    Raises:
        UsageError: fewer than ``LEAST_PICTURES`` of one, or not of the same features.
    """
    pooled, n = _pool_sets(first, second)
    kernel = (pooled @ pooled.T / pooled.shape[1] + 1) ** 3
    value = float(_compute_mmd(kernel, *_make_set_weights(n, len(pooled)))[0])
    resampled = _compute_mmd(kernel, *_sample_bootstrap_weights(n, len(pooled), rng))
    shuffled = _compute_mmd(kernel, *_sample_permutation_weights(n, len(pooled), rng))
    return _make_two_sample_distance(value, bootstrap_estimate(value, resampled).ci95, shuffled)


def measure_sliced_wasserstein(
    first: Floats, second: Floats, rng: np.random.Generator
) -> TwoSampleDistance:
    """Return the sliced Wasserstein distance of order 2 (Bonneel et al. 2015): the root of the mean,
    over directions, of the squared distance between both sets' quantiles.

    It is of the features' unit. Few pictures make it larger than it is: hold it against ``alike``.
    The interval is as wide as the distance varies with resampled pictures.

    Args:
        first, second: (n, d) and (m, d).
        rng: draws directions, resamples and shuffles pictures.

    Raises:
        UsageError: fewer than ``LEAST_PICTURES`` of one, or not of the same features.
    """
    pooled, n = _pool_sets(first, second)
    seen = _project_on_directions(pooled, rng)
    pairs = _pair_quantiles(n, len(pooled) - n)
    value = _compute_sliced_distance(seen[:n], seen[n:], *pairs)
    resampled, shuffled = [], []
    for _ in range(_N_RESAMPLES):
        a, b = rng.integers(n, size=n), rng.integers(n, len(pooled), size=len(pooled) - n)
        resampled.append(_compute_sliced_distance(seen[a], seen[b], *pairs))
    for _ in range(_N_PERMUTATIONS):
        order = rng.permutation(len(pooled))
        shuffled.append(_compute_sliced_distance(seen[order[:n]], seen[order[n:]], *pairs))
    reach = _INTERVAL_SIGMAS * float(np.std(resampled, ddof=1))
    return _make_two_sample_distance(
        value, (max(0.0, value - reach), value + reach), np.array(shuffled)
    )


def compute_sliced_wasserstein(first: Floats, second: Floats, rng: np.random.Generator) -> float:
    """Return the value of ``measure_sliced_wasserstein`` alone, which takes a hundredth of the time."""
    pooled, n = _pool_sets(first, second)
    seen = _project_on_directions(pooled, rng)
    return _compute_sliced_distance(seen[:n], seen[n:], *_pair_quantiles(n, len(pooled) - n))


def measure_classifier_auc(
    first: Floats, second: Floats, rng: np.random.Generator
) -> TwoSampleDistance:
    """Return how well a classifier tells both sets apart: the area under its ROC curve, 0.5 for
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
    pooled, n = _pool_sets(first, second)
    pooled = fit_feature_scaler(pooled).transform(pooled)
    folds = _assign_folds(n, len(pooled), rng)
    learned = _make_cross_validation_matrix(_compute_gaussian_kernel(pooled), folds)
    labels = np.arange(len(pooled)) >= n
    scores = learned @ labels.astype(np.float64)
    above = _compare_scores(scores, folds)
    value = float(_compute_auc(above, *_make_set_weights(n, len(pooled)))[0])
    resampled = _compute_auc(above, *_sample_bootstrap_weights(n, len(pooled), rng))
    shuffled = np.zeros(_N_PERMUTATIONS)
    for i in range(_N_PERMUTATIONS):
        guess = _permute_labels_within_folds(labels, folds, rng)
        found = _compare_scores(learned @ guess, folds)
        shuffled[i] = _compute_auc(found, (1 - guess)[None], guess[None])[0]
    return _make_two_sample_distance(value, bootstrap_estimate(value, resampled).ci95, shuffled)


def _pool_sets(first: Floats, second: Floats) -> tuple[Floats, int]:
    """Return all vectors (n + m, d) and how many of them are of the first set."""
    if first.ndim != 2 or second.ndim != 2 or first.shape[1] != second.shape[1]:
        raise UsageError(
            f"features of shapes {first.shape} and {second.shape} cannot be held against each other. "
            "Take the same features of both."
        )
    least = min(len(first), len(second))
    if least < MIN_IMAGES:
        raise UsageError(
            f"sets of {len(first)} and {len(second)} pictures tell nothing: {MIN_IMAGES} of each "
            "are needed. Add pictures."
        )
    pooled = np.concatenate([first, second]).astype(np.float64)
    if not np.isfinite(pooled).all():
        raise UsageError("features are not finite. Leave out the pictures that they are of.")
    return pooled, len(first)


def _make_two_sample_distance(
    value: float, ci95: tuple[float, float], null_values: Floats
) -> TwoSampleDistance:
    # The set as it is counts among its shuffles, or a p-value could be 0.
    p_value = (1 + int((null_values >= value).sum())) / (1 + len(null_values))
    return TwoSampleDistance(value, ci95, p_value, float(null_values.mean()))


def _make_set_weights(n: int, total: int) -> tuple[Floats, Floats]:
    """Return weights (1, total) of the pictures of both sets as they are."""
    second = (np.arange(total) >= n).astype(np.float64)[None]
    return 1 - second, second


def _sample_bootstrap_weights(
    n: int, total: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return weights (draws, total): how often each picture is in resamples of both sets."""
    first, second = np.zeros((2, _N_RESAMPLES, total))
    first[:, :n] = sample_bootstrap_counts(n, _N_RESAMPLES, rng)
    second[:, n:] = sample_bootstrap_counts(total - n, _N_RESAMPLES, rng)
    return first, second


def _sample_permutation_weights(
    n: int, total: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return weights (draws, total) of sets of the same sizes that are parted by chance."""
    second = rng.permuted(np.tile(_make_set_weights(n, total)[1], (_N_PERMUTATIONS, 1)), axis=1)
    return 1 - second, second


def _compute_mmd(kernel: Floats, first: Floats, second: Floats) -> Floats:
    """Return the squared discrepancy (draws,) of sets that are weights (draws, n + m)."""
    own = np.diag(kernel)

    def within(weights: Floats) -> Floats:
        squares = weights**2
        pairs = weights.sum(axis=1) ** 2 - squares.sum(axis=1)
        return np.asarray((((weights @ kernel) * weights).sum(axis=1) - squares @ own) / pairs)

    across = ((first @ kernel) * second).sum(axis=1) / (first.sum(axis=1) * second.sum(axis=1))
    return np.asarray(within(first) + within(second) - 2 * across)


def _project_on_directions(pooled: Floats, rng: np.random.Generator) -> Floats:
    """Return how far vectors (n + m, d) lie along directions (n + m, directions)."""
    directions = rng.standard_normal((pooled.shape[1], _N_DIRECTIONS))
    return np.asarray(pooled @ (directions / np.linalg.norm(directions, axis=0)))


def _pair_quantiles(n: int, m: int) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
    """Return which of n and of m sorted values belong together, and with which share."""
    levels = np.unique(np.concatenate([np.arange(n + 1) * m, np.arange(m + 1) * n]))  # over n m
    below = levels[:-1]
    return below // m, below // n, np.diff(levels) / (n * m)


def _compute_sliced_distance(
    first: Floats, second: Floats, i: NDArray[np.intp], j: NDArray[np.intp], weights: Floats
) -> float:
    apart = np.sort(first, axis=0)[i] - np.sort(second, axis=0)[j]
    return float(np.sqrt((weights @ apart**2).mean()))


def _compute_gaussian_kernel(pooled: Floats) -> Floats:
    squares = cdist(pooled, pooled, "sqeuclidean")
    others = squares[~np.eye(len(pooled), dtype=bool)]
    return np.asarray(np.exp(-squares / max(float(np.median(others)), _EPSILON)))


def _assign_folds(n: int, total: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the fold (total,) of each picture, which have their share of either set."""
    parts = [rng.permutation(np.arange(size) % _N_FOLDS) for size in (n, total - n)]
    return np.concatenate(parts)


def _make_cross_validation_matrix(kernel: Floats, folds: NDArray[np.int64]) -> Floats:
    """Return the matrix that makes of labels the scores by classifiers that have not seen them."""
    matrix = np.zeros_like(kernel)
    for fold in range(_N_FOLDS):
        out, kept = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        inner = kernel[np.ix_(kept, kept)] + _RIDGE * np.eye(len(kept))
        weights = np.linalg.solve(inner, kernel[np.ix_(kept, out)]).T  # (out, kept)
        # labels less their mean: a constant is no evidence
        matrix[np.ix_(out, kept)] = weights - weights.sum(axis=1, keepdims=True) / len(kept)
    return matrix


def _compare_scores(scores: Floats, folds: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Return for each pair whether the column's score is above the row's, and whether it counts."""
    same = (folds[:, None] == folds[None]).astype(np.float64)
    higher = np.sign(scores[None] - scores[:, None])
    return (higher + 1) / 2 * same, same


def _compute_auc(comparisons: tuple[Floats, Floats], first: Floats, second: Floats) -> Floats:
    """Return the area under the ROC curve (draws,) of sets that are weights (draws, n + m)."""
    won, counted = (((first @ matrix) * second).sum(axis=1) for matrix in comparisons)
    return np.asarray(won / counted)


def _permute_labels_within_folds(
    labels: NDArray[np.bool_], folds: NDArray[np.int64], rng: np.random.Generator
) -> Floats:
    """Return labels shuffled among the pictures of each fold, so that its shares stay."""
    guess = labels.astype(np.float64)
    for fold in range(_N_FOLDS):
        mine = np.flatnonzero(folds == fold)
        guess[mine] = guess[rng.permutation(mine)]
    return guess
