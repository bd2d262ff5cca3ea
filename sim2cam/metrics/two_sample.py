"""Two-sample distances between sets of feature vectors: MMD, sliced Wasserstein, classifier AUC.

Sets are arrays (n, d) and (m, d) of ``MIN_IMAGES`` or more finite vectors with the same features;
others raise ``UsageError``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from sim2cam.errors import UsageError
from sim2cam.metrics.bootstrap import bootstrap_estimate, fields_to_json, sample_bootstrap_counts

Floats = NDArray[np.float64]

MIN_IMAGES = 10
"""Minimum number of images of each set."""

_N_RESAMPLES = 400
_N_PERMUTATIONS = 400
_N_DIRECTIONS = 128
_N_FOLDS = 5
_RIDGE = 0.5
_INTERVAL_SIGMAS = 1.96  # half width of an interval


@dataclass(frozen=True)
class TwoSampleDistance:
    """Distance of two sets.

    Attributes:
        p_value: one-sided p-value of both sets having the same distribution.
        null_mean: mean distance of random permutations of both sets.
    """

    value: float
    ci95: tuple[float, float]
    p_value: float
    null_mean: float

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return fields_to_json(self)


@dataclass(frozen=True, eq=False)
class FeatureScaler:
    """Standardisation of features to mean 0 and standard deviation 1.

    Attributes:
        means: (d,).
        stds: (d,), 1 for constant features.
    """

    means: Floats
    stds: Floats

    def transform(self, features: Floats) -> Floats:
        """Return the standardised features (n, d)."""
        return (features - self.means) / self.stds


def fit_feature_scaler(*sets: Floats) -> FeatureScaler:
    """Return the scaler fitted to the union of sets of vectors (n, d)."""
    pooled = np.concatenate(sets)
    stds = pooled.std(axis=0)
    means = pooled.mean(axis=0)
    return FeatureScaler(means, np.where(stds > _EPSILON * (1 + np.abs(means)), stds, 1.0))


_EPSILON = 1e-9


@dataclass(frozen=True)
class DomainGap:
    """Distance of two sets by all measures.

    Attributes:
        auc: see ``measure_classifier_auc``.
        mmd: see ``measure_mmd``.
        sliced_wasserstein: see ``measure_sliced_wasserstein``.
    """

    auc: TwoSampleDistance
    mmd: TwoSampleDistance
    sliced_wasserstein: TwoSampleDistance

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return fields_to_json(self)


def measure_domain_gap(first: Floats, second: Floats, rng: np.random.Generator) -> DomainGap:
    """Return the distance of two sets (n, d) and (m, d) by all measures."""
    measures = (measure_classifier_auc, measure_mmd, measure_sliced_wasserstein)
    return DomainGap(*(measure(first, second, rng) for measure in measures))


def measure_mmd(first: Floats, second: Floats, rng: np.random.Generator) -> TwoSampleDistance:
    """Return the squared maximum mean discrepancy of two sets (kernel distance, KID).

    Unbiased estimate with the kernel (x.y / d + 1)^3 (Binkowski et al. 2018, "Demystifying MMD
    GANs"). Its expectation is 0 for equal distributions at any size, so values can be negative.
    Resamples leave out pairs of copies of one image.
    """
    pooled, n = _pool_sets(first, second)
    kernel = (pooled @ pooled.T / pooled.shape[1] + 1) ** 3
    value = float(_compute_mmd(kernel, *_make_set_weights(n, len(pooled)))[0])
    resampled = _compute_mmd(kernel, *_sample_bootstrap_weights(n, len(pooled), rng))
    permuted = _compute_mmd(kernel, *_sample_permutation_weights(n, len(pooled), rng))
    return _make_two_sample_distance(value, bootstrap_estimate(value, resampled).ci95, permuted)


def measure_sliced_wasserstein(
    first: Floats, second: Floats, rng: np.random.Generator
) -> TwoSampleDistance:
    """Return the sliced Wasserstein distance of order 2 (Bonneel et al. 2015).

    The root of the mean over directions of the squared distance between the quantiles of both sets,
    in the unit of the features. Small sets bias it upwards: compare with ``null_mean``. The
    interval is the bootstrap standard error times 1.96 on either side.
    """
    pooled, n = _pool_sets(first, second)
    projections = _project_on_directions(pooled, rng)
    pairs = _pair_quantiles(n, len(pooled) - n)
    value = _compute_sliced_distance(projections[:n], projections[n:], *pairs)
    resampled, permuted = [], []
    for _ in range(_N_RESAMPLES):
        a, b = rng.integers(n, size=n), rng.integers(n, len(pooled), size=len(pooled) - n)
        resampled.append(_compute_sliced_distance(projections[a], projections[b], *pairs))
    for _ in range(_N_PERMUTATIONS):
        order = rng.permutation(len(pooled))
        permuted.append(
            _compute_sliced_distance(projections[order[:n]], projections[order[n:]], *pairs)
        )
    half_width = _INTERVAL_SIGMAS * float(np.std(resampled, ddof=1))
    return _make_two_sample_distance(
        value, (max(0.0, value - half_width), value + half_width), np.array(permuted)
    )


def compute_sliced_wasserstein(first: Floats, second: Floats, rng: np.random.Generator) -> float:
    """Return the value of ``measure_sliced_wasserstein`` only, in a hundredth of the time."""
    pooled, n = _pool_sets(first, second)
    projections = _project_on_directions(pooled, rng)
    return _compute_sliced_distance(
        projections[:n], projections[n:], *_pair_quantiles(n, len(pooled) - n)
    )


def measure_classifier_auc(
    first: Floats, second: Floats, rng: np.random.Generator
) -> TwoSampleDistance:
    """Return the ROC AUC of a classifier between two sets: 0.5 for equal distributions, 1 if separable.

    A classifier two-sample test (Lopez-Paz and Oquab 2017, "Revisiting classifier two-sample
    tests"). The classifier is kernel ridge regression with a Gaussian kernel of the median
    distance. Images are scored by cross-validation and compared within their fold. The p-value is
    from classifiers trained on permuted labels; the interval is from resampled images with fixed
    classifiers.
    """
    pooled, n = _pool_sets(first, second)
    pooled = fit_feature_scaler(pooled).transform(pooled)
    folds = _assign_folds(n, len(pooled), rng)
    cross_validation = _make_cross_validation_matrix(_compute_gaussian_kernel(pooled), folds)
    labels = np.arange(len(pooled)) >= n
    scores = cross_validation @ labels.astype(np.float64)
    comparisons = _compare_scores(scores, folds)
    value = float(_compute_auc(comparisons, *_make_set_weights(n, len(pooled)))[0])
    resampled = _compute_auc(comparisons, *_sample_bootstrap_weights(n, len(pooled), rng))
    permuted = np.zeros(_N_PERMUTATIONS)
    for i in range(_N_PERMUTATIONS):
        permuted_labels = _permute_labels_within_folds(labels, folds, rng)
        permuted_comparisons = _compare_scores(cross_validation @ permuted_labels, folds)
        permuted[i] = _compute_auc(
            permuted_comparisons, (1 - permuted_labels)[None], permuted_labels[None]
        )[0]
    return _make_two_sample_distance(value, bootstrap_estimate(value, resampled).ci95, permuted)


def _pool_sets(first: Floats, second: Floats) -> tuple[Floats, int]:
    """Return all vectors (n + m, d) and the number of the first set."""
    if first.ndim != 2 or second.ndim != 2 or first.shape[1] != second.shape[1]:
        raise UsageError(
            f"features of shapes {first.shape} and {second.shape} do not match. Use the same features "
            "for both sets."
        )
    if min(len(first), len(second)) < MIN_IMAGES:
        raise UsageError(
            f"sets of {len(first)} and {len(second)} images are too small. Each needs {MIN_IMAGES} or more images."
        )
    pooled = np.concatenate([first, second]).astype(np.float64)
    if not np.isfinite(pooled).all():
        raise UsageError("features are not finite. Remove the images concerned.")
    return pooled, len(first)


def _make_two_sample_distance(
    value: float, ci95: tuple[float, float], null_values: Floats
) -> TwoSampleDistance:
    # The observed value counts as one permutation, so that p-values are above 0.
    p_value = (1 + int((null_values >= value).sum())) / (1 + len(null_values))
    return TwoSampleDistance(value, ci95, p_value, float(null_values.mean()))


def _make_set_weights(n: int, total: int) -> tuple[Floats, Floats]:
    """Return indicator weights (1, total) of both sets."""
    second = (np.arange(total) >= n).astype(np.float64)[None]
    return 1 - second, second


def _sample_bootstrap_weights(
    n: int, total: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return the counts of each image in resamples of both sets (n_resamples, total)."""
    first, second = np.zeros((2, _N_RESAMPLES, total))
    first[:, :n] = sample_bootstrap_counts(n, _N_RESAMPLES, rng)
    second[:, n:] = sample_bootstrap_counts(total - n, _N_RESAMPLES, rng)
    return first, second


def _sample_permutation_weights(
    n: int, total: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return indicator weights of random sets of the same sizes (n_permutations, total)."""
    second = rng.permuted(np.tile(_make_set_weights(n, total)[1], (_N_PERMUTATIONS, 1)), axis=1)
    return 1 - second, second


def _compute_mmd(kernel: Floats, first: Floats, second: Floats) -> Floats:
    """Return the squared MMD (r,) of sets given by weights (r, n + m)."""
    diagonal = np.diag(kernel)

    def average_within(weights: Floats) -> Floats:
        squares = weights**2
        pairs = weights.sum(axis=1) ** 2 - squares.sum(axis=1)
        return np.asarray((((weights @ kernel) * weights).sum(axis=1) - squares @ diagonal) / pairs)

    average_across = ((first @ kernel) * second).sum(axis=1) / (
        first.sum(axis=1) * second.sum(axis=1)
    )
    return np.asarray(average_within(first) + average_within(second) - 2 * average_across)


def _project_on_directions(pooled: Floats, rng: np.random.Generator) -> Floats:
    """Return the projections (n + m, directions) of vectors (n + m, d) on random directions."""
    directions = rng.standard_normal((pooled.shape[1], _N_DIRECTIONS))
    return np.asarray(pooled @ (directions / np.linalg.norm(directions, axis=0)))


def _pair_quantiles(n: int, m: int) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
    """Return the paired indices of n and m sorted values, and the weight of each pair."""
    # in units of 1 / (n m)
    levels = np.unique(np.concatenate([np.arange(n + 1) * m, np.arange(m + 1) * n]))
    lower = levels[:-1]
    return lower // m, lower // n, np.diff(levels) / (n * m)


def _compute_sliced_distance(
    first: Floats, second: Floats, i: NDArray[np.intp], j: NDArray[np.intp], weights: Floats
) -> float:
    differences = np.sort(first, axis=0)[i] - np.sort(second, axis=0)[j]
    return float(np.sqrt((weights @ differences**2).mean()))


def _compute_gaussian_kernel(pooled: Floats) -> Floats:
    squares = cdist(pooled, pooled, "sqeuclidean")
    off_diagonal = squares[~np.eye(len(pooled), dtype=bool)]
    return np.asarray(np.exp(-squares / max(float(np.median(off_diagonal)), _EPSILON)))


def _assign_folds(n: int, total: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the fold (total,) of each image, stratified by set."""
    folds = [rng.permutation(np.arange(size) % _N_FOLDS) for size in (n, total - n)]
    return np.concatenate(folds)


def _make_cross_validation_matrix(kernel: Floats, folds: NDArray[np.int64]) -> Floats:
    """Return the matrix that maps labels to out-of-fold scores."""
    matrix = np.zeros_like(kernel)
    for fold in range(_N_FOLDS):
        test, train = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        regularized = kernel[np.ix_(train, train)] + _RIDGE * np.eye(len(train))
        weights = np.linalg.solve(regularized, kernel[np.ix_(train, test)]).T  # (test, train)
        # centres the training labels, so that class frequencies do not matter
        matrix[np.ix_(test, train)] = weights - weights.sum(axis=1, keepdims=True) / len(train)
    return matrix


def _compare_scores(scores: Floats, folds: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Return for each pair whether the column's score is higher than the row's, and whether it counts."""
    same_fold = (folds[:, None] == folds[None]).astype(np.float64)
    signs = np.sign(scores[None] - scores[:, None])
    return (signs + 1) / 2 * same_fold, same_fold


def _compute_auc(comparisons: tuple[Floats, Floats], first: Floats, second: Floats) -> Floats:
    """Return the ROC AUC (r,) of sets given by weights (r, n + m)."""
    n_higher, n_pairs = (((first @ matrix) * second).sum(axis=1) for matrix in comparisons)
    return np.asarray(n_higher / n_pairs)


def _permute_labels_within_folds(
    labels: NDArray[np.bool_], folds: NDArray[np.int64], rng: np.random.Generator
) -> Floats:
    """Return the labels permuted within each fold."""
    permuted = labels.astype(np.float64)
    for fold in range(_N_FOLDS):
        members = np.flatnonzero(folds == fold)
        permuted[members] = permuted[rng.permutation(members)]
    return permuted
