"""Significance tests for shifts of camera statistics between old and new photos.

Statistics are compared by Wilcoxon's rank-sum test with a permutation distribution, which assumes
no distribution of the values. Shifts below a visible minimum are not significant. The p-value of
the lens comes from ``drift``. Holm's correction (1979) controls the family-wise error rate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import permutation_test, rankdata

from sim2cam.adapt.calibration.camera_features import (
    CAMERA_STATISTICS,
    DETECTOR_STATISTICS,
    CameraStatistic,
)
from sim2cam.adapt.calibration.camera_fit import StatisticRows
from sim2cam.metrics.bootstrap import apply_holm_correction

Floats = NDArray[np.float64]

LENS_NAME = "lens"
"""Name of the shift whose p-value does not come from permutations."""

ALPHA = 0.05
"""Family-wise error rate."""

_MAX_PERMUTATIONS = 9999  # all permutations if there are fewer
_BOOTSTRAP_SAMPLES = 500
_MIN_PHOTOS = 2
_MAX_REQUESTED_PHOTOS = 60  # that a note asks for


@dataclass(frozen=True)
class ParameterShift:
    """Shift of one camera parameter or statistic.

    Attributes:
        name: name of the statistic: path of the most related field in ``scene.camera.Camera``, or a
            detector statistic; ``lens`` for the whole lens, ``camera`` and ``software`` for
            metadata.
        description: compared quantity.
        status: ``drifted``, ``stable`` (no significant shift) or ``undetermined`` (too few photos).
        shift: new minus old value; None if undetermined or not numeric.
        ci95: 95 % interval of the shift.
        unit: unit of shift and interval.
        p_value: p-value of no relevant shift after Holm's correction; None if undetermined or
            without a test.
        photo_counts: number of usable photos, old and new.
        note: why it is undetermined and which photos would determine it, or other causes of the
            shift.
    """

    name: str
    description: str
    status: Literal["drifted", "stable", "undetermined"]
    shift: float | None = None
    ci95: tuple[float, float] | None = None
    unit: str = ""
    p_value: float | None = None
    photo_counts: tuple[int, int] = (0, 0)
    note: str = ""


def compare_statistics(
    before: Mapping[str, StatisticRows],
    after: Mapping[str, StatisticRows],
    rng: np.random.Generator,
) -> list[ParameterShift]:
    """Return the shift of each statistic, with p-values before Holm's correction.

    Args:
        before, after: statistics of old and new photos; detector statistics are compared if
            ``after`` contains them.
    """
    available = (stat for stat in DETECTOR_STATISTICS if stat.name in after)
    return [
        _estimate_shift(
            stat, *_center_columns(_select_rows(before, stat), _select_rows(after, stat)), rng
        )
        for stat in (*CAMERA_STATISTICS, *available)
    ]


def classify_shifts(shifts: Sequence[ParameterShift]) -> list[ParameterShift]:
    """Return shifts with status and p-values after Holm's correction.

    A shift is undetermined if its number of photos could not make any difference significant.
    """
    compared = [shift for shift in shifts if min(shift.photo_counts) > 0]
    significance = ALPHA / max(1, len(compared))
    testable = [
        shift
        for shift in compared
        if shift.p_value is not None
        and (shift.name == LENS_NAME or _compute_min_p_value(*shift.photo_counts) <= significance)
    ]
    adjusted = apply_holm_correction(
        [shift.p_value for shift in testable if shift.p_value is not None]
    )
    by_name = {
        shift.name: replace(shift, p_value=p, status="drifted" if p <= ALPHA else "stable")
        for shift, p in zip(testable, adjusted, strict=True)
    }
    classified = [by_name.get(s.name) or _mark_undetermined(s, significance) for s in shifts]
    order = ("drifted", "stable", "undetermined")
    return sorted(classified, key=lambda shift: (order.index(shift.status), shift.p_value or 0.0))


def _select_rows(statistics: Mapping[str, StatisticRows], statistic: CameraStatistic) -> Floats:
    """Return a statistic (photos, columns); no rows if it is missing or has other columns."""
    rows = statistics.get(statistic.name, ())
    valid = rows if all(len(row) == statistic.columns for row in rows) else ()
    return np.array(valid, np.float64).reshape(-1, statistic.columns)


def _center_columns(before: Floats, after: Floats) -> tuple[Floats, Floats]:
    """Return one value per photo of old and new photos: the mean of its centred columns.

    The centres are those of all photos, so that old and new photos are exchangeable.
    """
    pooled = np.concatenate([before, after])
    centers = [np.median(c[np.isfinite(c)]) if np.isfinite(c).any() else 0.0 for c in pooled.T]
    old, new = (_average_rows(part - np.array(centers)) for part in (before, after))
    return old, new


def _average_rows(values: Floats) -> Floats:
    """Return the mean (n,) of finite values of each row that has any."""
    return np.array([row[np.isfinite(row)].mean() for row in values if np.isfinite(row).any()])


def _estimate_shift(
    statistic: CameraStatistic, before: Floats, after: Floats, rng: np.random.Generator
) -> ParameterShift:
    """Return the Hodges-Lehmann estimate of the shift with interval and p-value.

    The null hypothesis is a shift of at most ``min_shift``.
    """
    counts = (len(before), len(after))
    undetermined = ParameterShift(
        statistic.name,
        statistic.description,
        "undetermined",
        unit=statistic.unit,
        photo_counts=counts,
    )
    if min(counts) < _MIN_PHOTOS:
        return undetermined
    differences = [
        _compute_median_difference(rng.choice(before, counts[0]), rng.choice(after, counts[1]))
        for _ in range(_BOOTSTRAP_SAMPLES)
    ]
    difference = _compute_median_difference(before, after)
    estimates = (difference, *np.quantile(differences, (0.025, 0.975)).tolist())
    shift, low, high = (100 * math.expm1(x) if statistic.unit == "%" else x for x in estimates)
    is_small = abs(difference) <= statistic.min_shift
    p_value = (
        1.0
        if is_small
        else _compute_p_value(before, after - math.copysign(statistic.min_shift, difference), rng)
    )
    note = _SCENE_DEPENDENT_NOTE if statistic.is_scene_dependent else ""
    return replace(undetermined, shift=shift, ci95=(low, high), p_value=p_value, note=note)


_SCENE_DEPENDENT_NOTE = "also depends on the scene and its light"


def _compute_median_difference(before: Floats, after: Floats) -> float:
    return float(np.median(after[:, None] - before))


def _compute_p_value(before: Floats, after: Floats, rng: np.random.Generator) -> float:
    """Return the two-sided permutation p-value of Wilcoxon's rank sum."""
    ranks = rankdata(np.concatenate([before, after]))
    if np.ptp(ranks) == 0:
        return 1.0
    samples = ranks[: len(before)], ranks[len(before) :]
    return float(
        permutation_test(
            samples,
            lambda a, b, axis: b.mean(axis=axis) - a.mean(axis=axis),
            vectorized=True,
            n_resamples=_MAX_PERMUTATIONS,
            rng=rng,
        ).pvalue
    )


def _compute_min_p_value(before: int, after: int) -> float:
    """Return the smallest p-value that this number of photos can reach."""
    return max(2 / math.comb(before + after, after), 2 / (_MAX_PERMUTATIONS + 1))


def _mark_undetermined(shift: ParameterShift, significance: float) -> ParameterShift:
    """Return a shift as undetermined, with a note on the required photos."""
    old, new = shift.photo_counts
    all_statistics = (*CAMERA_STATISTICS, *DETECTOR_STATISTICS)
    statistic = next((stat for stat in all_statistics if stat.name == shift.name), None)
    note = shift.note
    if statistic is not None:
        candidates = range(_MIN_PHOTOS, _MAX_REQUESTED_PHOTOS) if old else ()
        enough = (n for n in candidates if _compute_min_p_value(old, n) <= significance)
        least = next(enough, None)
        advice = f"; {least} are required. Take" if least else ". Calibrate again, with"
        note = f"{old} usable photos before, {new} now{advice} photos of {statistic.subject}."
    return replace(shift, status="undetermined", shift=None, ci95=None, p_value=None, note=note)
