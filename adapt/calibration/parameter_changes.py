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

from sim2cam.adapt.calibration.camera_features import ANSWERS, TRAITS, Trait
from sim2cam.adapt.calibration.camera_fit import Rows
from sim2cam.metrics.bootstrap import holm

Floats = NDArray[np.float64]

LENS = "lens"
"""Name of the one change whose p-value is not found by exchanging photos."""

ALPHA = 0.05
"""Chance that anything is said to have moved when nothing has."""

_EXCHANGES = 9999  # of photos at most; all there are where there are fewer
_DRAWS = 500
_LEAST_PHOTOS = 2
_MOST_PHOTOS = 60  # that a person is asked for


@dataclass(frozen=True)
class Change:
    """What became of a number of a camera.

    Attributes:
        name: of a trait: path of the field in ``scene.camera.Camera`` that it tells most of, or what a
            detector says; ``lens`` for all of the lens, ``camera`` and ``software`` for what the files say.
        words: what was compared.
        verdict: ``moved``, ``still`` (no move is seen) or ``untold`` (these photos cannot tell).
        shift: by how much it is more now; None where it is not told or no number.
        ci95: its 95 % interval.
        unit: of both.
        p_value: of nothing having moved by as much as counts, after Holm; None where it is not told or needs no test.
        photos: that tell it, then and now.
        note: why it is not told and which photos would, or what else moves it.
    """

    name: str
    words: str
    verdict: Literal["moved", "still", "untold"]
    shift: float | None = None
    ci95: tuple[float, float] | None = None
    unit: str = ""
    p_value: float | None = None
    photos: tuple[int, int] = (0, 0)
    note: str = ""


def compare(
    before: Mapping[str, Rows], now: Mapping[str, Rows], rng: np.random.Generator
) -> list[Change]:
    """Returns what became of traits, each by itself: their p-values are not yet Holm's.

    Args:
        before, now: of photos of then and of now; without a detector's answers of now, those are not compared.
        rng: exchanges and resamples photos.
    """
    wanted = (*TRAITS, *(trait for trait in ANSWERS if trait.name in now))
    return [
        _shifted(trait, *_alike(_rows(before, trait), _rows(now, trait)), rng) for trait in wanted
    ]


def judge(changes: Sequence[Change]) -> list[Change]:
    """Returns what moved, what did not and what is not told, of changes with p-values of their own.

    Those of which so few photos tell that no exchange of them, however large the shift, could show it among
    so many comparisons are not told.
    """
    asked = [change for change in changes if min(change.photos) > 0]
    sure = ALPHA / max(1, len(asked))
    told = [
        c
        for c in asked
        if c.p_value is not None and (c.name == LENS or _least_p(*c.photos) <= sure)
    ]
    adjusted = holm([c.p_value for c in told if c.p_value is not None])
    judged = [
        replace(c, p_value=p, verdict="moved" if p <= ALPHA else "still")
        for c, p in zip(told, adjusted, strict=True)
    ]
    by_name = {change.name: change for change in judged}
    found = [by_name.get(c.name) or _untold(c, sure) for c in changes]
    order = ("moved", "still", "untold")
    return sorted(found, key=lambda c: (order.index(c.verdict), c.p_value or 0.0))


def _rows(found: Mapping[str, Rows], trait: Trait) -> Floats:
    """Returns a trait (photos, columns); of no photos where it is not there in that form."""
    rows = found.get(trait.name, ())
    kept = rows if all(len(row) == trait.columns for row in rows) else ()
    return np.array(kept, np.float64).reshape(-1, trait.columns)


def _alike(before: Floats, now: Floats) -> tuple[Floats, Floats]:
    """Returns one number of each photo that tells a trait: the mean of its columns, each centred.

    The centres are those of all photos together, so that those of then and of now can be exchanged.
    """
    both = np.concatenate([before, now])
    centres = [np.median(c[np.isfinite(c)]) if np.isfinite(c).any() else 0.0 for c in both.T]
    then, new = (_means(part - np.array(centres)) for part in (before, now))
    return then, new


def _means(numbers: Floats) -> Floats:
    """Returns the mean (n,) of what is known in each row that holds any."""
    return np.array([row[np.isfinite(row)].mean() for row in numbers if np.isfinite(row).any()])


def _shifted(trait: Trait, before: Floats, now: Floats, rng: np.random.Generator) -> Change:
    """Returns the shift of a trait by Hodges and Lehmann's estimate, and how sure it is.

    The p-value is that of a shift no larger than the least that counts.
    """
    counts = (len(before), len(now))
    blank = Change(trait.name, trait.words, "untold", unit=trait.unit, photos=counts)
    if min(counts) < _LEAST_PHOTOS:
        return blank
    draws = [
        _middle_difference(rng.choice(before, counts[0]), rng.choice(now, counts[1]))
        for _ in range(_DRAWS)
    ]
    middle = _middle_difference(before, now)
    ends = (middle, *np.quantile(draws, (0.025, 0.975)).tolist())
    shift, low, high = (100 * math.expm1(x) if trait.unit == "%" else x for x in ends)
    small = abs(middle) <= trait.least
    p_value = 1.0 if small else _p_value(before, now - math.copysign(trait.least, middle), rng)
    note = _SCENES if trait.by_scenes else ""
    return replace(blank, shift=shift, ci95=(low, high), p_value=p_value, note=note)


_SCENES = "other things or light before the camera move it too"


def _middle_difference(before: Floats, now: Floats) -> float:
    return float(np.median(now[:, None] - before))


def _p_value(before: Floats, now: Floats, rng: np.random.Generator) -> float:
    """Returns the two-sided p-value of Wilcoxon's rank sum over exchanges of photos."""
    ranks = rankdata(np.concatenate([before, now]))
    if np.ptp(ranks) == 0:
        return 1.0
    parts = ranks[: len(before)], ranks[len(before) :]
    return float(
        permutation_test(
            parts,
            lambda a, b, axis: b.mean(axis=axis) - a.mean(axis=axis),
            vectorized=True,
            n_resamples=_EXCHANGES,
            rng=rng,
        ).pvalue
    )


def _least_p(before: int, now: int) -> float:
    """Returns the least p-value that exchanges of so many photos can give."""
    return max(2 / math.comb(before + now, now), 2 / (_EXCHANGES + 1))


def _untold(change: Change, sure: float) -> Change:
    """Returns a change of which these photos tell nothing, with those that would."""
    then, now = change.photos
    trait = next((t for t in (*TRAITS, *ANSWERS) if t.name == change.name), None)
    if trait is None:
        return replace(change, verdict="untold", shift=None, ci95=None, p_value=None)
    enough = [n for n in range(_LEAST_PHOTOS, _MOST_PHOTOS) if then and _least_p(then, n) <= sure]
    told = f"told by {then} photos then, {now} now"
    if not enough:
        note = f"{told}. Calibrate again, with photos of {trait.take}."
    else:
        note = f"{told}, where {enough[0]} are needed. Take photos of {trait.take}."
    return Change(
        change.name, change.words, "untold", unit=change.unit, photos=change.photos, note=note
    )
