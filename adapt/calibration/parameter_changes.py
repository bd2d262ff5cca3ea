"""Changes: what became of each number of a camera, by photos of then and of now.

Traits are compared by Wilcoxon's rank sums, whose distribution is found by exchanging photos, so that
no law of the traits is assumed. Shifts that hardly show in a picture do not count. Of the lens, ``drift``
brings a p-value of its own. Holm's rule (1979) holds the rate of false alarms of all comparisons together.
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
"""Name of the one change whose p-value is not found by exchanging photos."""

ALPHA = 0.05
"""Chance that anything is said to have moved when nothing has."""

_MAX_PERMUTATIONS = 9999  # of photos at most; all there are where there are fewer
_BOOTSTRAP_SAMPLES = 500
_MIN_PHOTOS = 2
_MAX_REQUESTED_PHOTOS = 60  # that a person is asked for


@dataclass(frozen=True)
class ParameterShift:
    """What became of a number of a camera.

    Attributes:
        name: of a trait: path of the field in ``scene.camera.Camera`` that it tells most of, or what a
            detector says; ``lens`` for all of the lens, ``camera`` and ``software`` for what the files say.
        description: what was compared.
        status: ``moved``, ``still`` (no move is seen) or ``untold`` (these photos cannot tell).
        shift: by how much it is more now; None where it is not told or no number.
        ci95: its 95 % interval.
        unit: of both.
        p_value: of nothing having moved by as much as counts, after Holm; None where it is not told or needs no test.
        photo_counts: that tell it, then and now.
        note: why it is not told and which photos would, or what else moves it.
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
    """Return what became of traits, each by itself: their p-values are not yet Holm's.

    Args:
        before, after: of photos of then and of now; without a detector's answers of now, those are not compared.
        rng: exchanges and resamples photos.
    """
    wanted = (*CAMERA_STATISTICS, *(trait for trait in DETECTOR_STATISTICS if trait.name in after))
    return [
        _estimate_shift(
            trait, *_center_columns(_select_rows(before, trait), _select_rows(after, trait)), rng
        )
        for trait in wanted
    ]


def classify_shifts(shifts: Sequence[ParameterShift]) -> list[ParameterShift]:
    """Return what moved, what did not and what is not told, of changes with p-values of their own.

    Those of which so few photos tell that no exchange of them, however large the shift, could show it among
    so many comparisons are not told.
    """
    asked = [change for change in shifts if min(change.photo_counts) > 0]
    sure = ALPHA / max(1, len(asked))
    told = [
        c
        for c in asked
        if c.p_value is not None
        and (c.name == LENS_NAME or _compute_min_p_value(*c.photo_counts) <= sure)
    ]
    adjusted = apply_holm_correction([c.p_value for c in told if c.p_value is not None])
    judged = [
        replace(c, p_value=p, status="drifted" if p <= ALPHA else "stable")
        for c, p in zip(told, adjusted, strict=True)
    ]
    by_name = {change.name: change for change in judged}
    found = [by_name.get(c.name) or _mark_undetermined(c, sure) for c in shifts]
    order = ("drifted", "stable", "undetermined")
    return sorted(found, key=lambda c: (order.index(c.status), c.p_value or 0.0))


def _select_rows(statistics: Mapping[str, StatisticRows], statistic: CameraStatistic) -> Floats:
    """Return a trait (photos, columns); of no photos where it is not there in that form."""
    rows = statistics.get(statistic.name, ())
    kept = rows if all(len(row) == statistic.columns for row in rows) else ()
    return np.array(kept, np.float64).reshape(-1, statistic.columns)


def _center_columns(before: Floats, after: Floats) -> tuple[Floats, Floats]:
    """Return one number of each photo that tells a trait: the mean of its columns, each centred.

    The centres are those of all photos together, so that those of then and of now can be exchanged.
    """
    both = np.concatenate([before, after])
    centres = [np.median(c[np.isfinite(c)]) if np.isfinite(c).any() else 0.0 for c in both.T]
    then, new = (_average_rows(part - np.array(centres)) for part in (before, after))
    return then, new


def _average_rows(values: Floats) -> Floats:
    """Return the mean (n,) of what is known in each row that holds any."""
    return np.array([row[np.isfinite(row)].mean() for row in values if np.isfinite(row).any()])


def _estimate_shift(
    statistic: CameraStatistic, before: Floats, after: Floats, rng: np.random.Generator
) -> ParameterShift:
    """Return the shift of a trait by Hodges and Lehmann's estimate, and how sure it is.

    The p-value is that of a shift no larger than the least that counts.
    """
    counts = (len(before), len(after))
    blank = ParameterShift(
        statistic.name,
        statistic.description,
        "undetermined",
        unit=statistic.unit,
        photo_counts=counts,
    )
    if min(counts) < _MIN_PHOTOS:
        return blank
    draws = [
        _compute_median_difference(rng.choice(before, counts[0]), rng.choice(after, counts[1]))
        for _ in range(_BOOTSTRAP_SAMPLES)
    ]
    middle = _compute_median_difference(before, after)
    ends = (middle, *np.quantile(draws, (0.025, 0.975)).tolist())
    shift, low, high = (100 * math.expm1(x) if statistic.unit == "%" else x for x in ends)
    small = abs(middle) <= statistic.min_shift
    p_value = (
        1.0
        if small
        else _compute_p_value(before, after - math.copysign(statistic.min_shift, middle), rng)
    )
    note = _SCENE_DEPENDENT_NOTE if statistic.is_scene_dependent else ""
    return replace(blank, shift=shift, ci95=(low, high), p_value=p_value, note=note)


_SCENE_DEPENDENT_NOTE = "other things or light before the camera move it too"


def _compute_median_difference(before: Floats, after: Floats) -> float:
    return float(np.median(after[:, None] - before))


def _compute_p_value(before: Floats, after: Floats, rng: np.random.Generator) -> float:
    """Return the two-sided p-value of Wilcoxon's rank sum over exchanges of photos."""
    ranks = rankdata(np.concatenate([before, after]))
    if np.ptp(ranks) == 0:
        return 1.0
    parts = ranks[: len(before)], ranks[len(before) :]
    return float(
        permutation_test(
            parts,
            lambda a, b, axis: b.mean(axis=axis) - a.mean(axis=axis),
            vectorized=True,
            n_resamples=_MAX_PERMUTATIONS,
            rng=rng,
        ).pvalue
    )


def _compute_min_p_value(before: int, after: int) -> float:
    """Return the least p-value that exchanges of so many photos can give."""
    return max(2 / math.comb(before + after, after), 2 / (_MAX_PERMUTATIONS + 1))


def _mark_undetermined(shift: ParameterShift, significance: float) -> ParameterShift:
    """Return a change of which these photos tell nothing, with those that would."""
    then, now = shift.photo_counts
    trait = next(
        (t for t in (*CAMERA_STATISTICS, *DETECTOR_STATISTICS) if t.name == shift.name), None
    )
    if trait is None:
        return replace(shift, status="undetermined", shift=None, ci95=None, p_value=None)
    enough = [
        n
        for n in range(_MIN_PHOTOS, _MAX_REQUESTED_PHOTOS)
        if then and _compute_min_p_value(then, n) <= significance
    ]
    told = f"told by {then} photos then, {now} now"
    if not enough:
        note = f"{told}. Calibrate again, with photos of {trait.subject}."
    else:
        note = f"{told}, where {enough[0]} are needed. Take photos of {trait.subject}."
    return ParameterShift(
        shift.name,
        shift.description,
        "undetermined",
        unit=shift.unit,
        photo_counts=shift.photo_counts,
        note=note,
    )
