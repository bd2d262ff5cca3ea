"""The sensor: noise, filters, blur and sharpening with which the chart shows what the photos do.

Approximate Bayesian computation with regression (Beaumont, Zhang and Balding 2002): sensors are drawn,
those that show the chart most like the photos are kept, and a linear regression moves them the rest of
the way. What photos do not tell, the tone curve's contrast and the colours' strength, is drawn too, so
the intervals hold whatever it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

from sim2cam.adapt.calibrate.chart import Marks, chart_marks
from sim2cam.adapt.calibrate.grain import grain
from sim2cam.adapt.calibrate.levels import SATURATION, TONE_CONTRAST
from sim2cam.scene.sensor import Processing, Sensor, Subsampling

Floats = NDArray[np.float64]

RANGES: dict[str, tuple[float, float]] = {
    "full_well_e": (200, 60_000),
    "read_noise_e": (0, 15),
    "denoise": (0, 1),
    "sharpening": (0, 2),
    "blur_px": (0, 2),
    "tone_contrast": TONE_CONTRAST,
    "saturation": SATURATION,
}
"""Least and most that each number is taken for; electrons by their logarithm."""
FITTED = ("full_well_e", "read_noise_e", "denoise", "sharpening", "blur_px")

_DRAWS = (128, 96)  # sensors of the first round, and of the second around the best of it
_KEPT = (20, 96)
_WIDER = 1.5  # of the second round, over the best of the first
_SURE_GRAIN, _SURE_EDGES = 0.1, (0.04, 0.08)
"""How well the chart stands for photos at best: of the log of grain, of blur and sharpening."""
_LEAST_GRAIN = 0.05  # square levels, below which nothing is left of noise
_UNTOLD = 0.6  # of its range: a number whose interval is as wide the photos do not tell


@dataclass(frozen=True, eq=False)
class SensorFit:
    """The sensors that show the chart as the photos are, drawn.

    Attributes:
        draws: (n,) of each of ``FITTED`` that the photos tell, by name.
    """

    draws: dict[str, Floats]


def fit_sensor(
    photos: Sequence[Marks], jpeg_quality: int, subsampling: Subsampling, rng: np.random.Generator
) -> SensorFit:
    """Returns the sensor of photos.

    Args:
        photos: the marks of each.
        jpeg_quality, subsampling: of their files.
        rng: draws sensors and resamples photos.
    """
    seen, sure = _summary(photos, rng)
    known = np.isfinite(seen)
    if not known.any():
        return SensorFit({})
    processing = Processing(jpeg_subsampling=subsampling)
    plain = Sensor(0, 1, 1, 0, 0, 1, 0, 0, 1, 1, 0, jpeg_quality, 1, processing=processing)

    def off(shares: Floats) -> Floats:
        shown = [_together([chart_marks(_sensor(plain, one))])[known] for one in shares]
        shown += rng.standard_normal(np.shape(shown)) * sure[known]
        return np.asarray((np.nan_to_num(shown) - seen[known]) / sure[known])

    first = qmc.Sobol(len(RANGES), rng=rng).random(_DRAWS[0])
    first_off = off(first)
    best = first[np.argsort(_distance(first_off))[: _KEPT[0]]]
    spread = np.cov(best.T) * _WIDER**2 + 1e-4 * np.eye(len(RANGES))
    second = rng.multivariate_normal(best.mean(axis=0), spread, _DRAWS[1])
    second = np.where((second > 0) & (second < 1), second, rng.random(second.shape))
    shares, offs = np.concatenate([first, second]), np.concatenate([first_off, off(second)])
    kept = np.argsort(_distance(offs))[: _KEPT[1]]
    moved = _moved(shares[kept], offs[kept])
    told = {
        name: values
        for name, column, values in zip(RANGES, moved.T, _numbers(moved).T, strict=True)
        if name in FITTED and np.ptp(np.quantile(column, (0.025, 0.975))) < _UNTOLD
    }
    return SensorFit(told)


def _moved(shares: Floats, offs: Floats) -> Floats:
    """Returns the draws (n, p) moved to where they would look like the photos."""
    weights = 1 - (_distance(offs) / (_distance(offs).max() * (1 + 1e-9))) ** 2
    logits = np.log(np.clip(shares, 1e-3, 1 - 1e-3) / (1 - np.clip(shares, 1e-3, 1 - 1e-3)))
    bounded = np.tanh(offs / _FAR) * _FAR
    _, _, ways = np.linalg.svd(bounded * np.sqrt(weights)[:, None], full_matrices=False)
    features = bounded @ ways[:_FEATURES].T
    design = np.column_stack([np.ones(len(features)), features]) * np.sqrt(weights)[:, None]
    square = design.T @ design + np.diag([0.0] + [1.0] * features.shape[1])
    slopes = np.linalg.solve(square, design.T @ (logits * np.sqrt(weights)[:, None]))[1:]
    likely = np.flatnonzero(weights > 0)
    return np.asarray(1 / (1 + np.exp(-(logits - features @ slopes)[likely])))


_FAR = 20.0  # standard deviations beyond which how far off hardly matters
_FEATURES = 8


def _distance(offs: Floats) -> Floats:
    return np.asarray(np.log1p(offs**2).sum(axis=1))


def _summary(photos: Sequence[Marks], rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Returns the marks of photos together, and how sure they are at best."""
    middle = _together(photos)
    least = np.append(np.full(len(middle) - 2, _SURE_GRAIN), _SURE_EDGES)
    count = len(photos)
    draws = [_together([photos[i] for i in rng.integers(count, size=count)]) for _ in range(30)]
    scatter = np.ma.masked_invalid(draws).std(axis=0).filled(0.0)
    return middle, np.hypot(least, scatter)


def _together(photos: Sequence[Marks]) -> Floats:
    """Returns the log of grain and the medians of edges (bins x lags + 2,)."""
    edges = np.array([one.edges for one in photos])
    known = edges[np.isfinite(edges).all(axis=1)]
    middle = np.median(known, axis=0) if len(known) else np.full(2, np.nan)
    noise = grain([one.flat for one in photos])
    return np.append(np.log(noise + _LEAST_GRAIN).ravel(), middle)


def _sensor(plain: Sensor, shares: Floats) -> Sensor:
    return replace(plain, **dict(zip(RANGES, _numbers(shares).tolist(), strict=True)))


def _numbers(shares: Floats) -> Floats:
    """Returns numbers (..., p) of their places in their ranges, 0 to 1."""
    low, high = np.array(list(RANGES.values())).T
    low, high = (np.append(np.log(ends[:1]), ends[1:]) for ends in (low, high))
    found = low + np.asarray(shares) * (high - low)
    found[..., 0] = np.exp(found[..., 0])
    return np.asarray(found)
