"""The sensor: noise, filters, blur and sharpening with which the chart shows what the photos do.

Approximate Bayesian computation with regression (Beaumont, Zhang and Balding 2002): sensors are drawn,
those that show the chart most like the photos are kept, and a linear regression moves them the rest of
the way. Brightness tells most numbers. How much noisier red and blue are than green, and how coarse
noise of colour is, a second round tells from the noise of colours, with sensors of the first. What
photos do not tell is drawn too, so the intervals hold whatever it is.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

from sim2cam.adapt.calibration.linearization import SATURATION, TONE_CONTRAST
from sim2cam.adapt.calibration.noise import FlatTiles, color_grain, grain
from sim2cam.adapt.calibration.test_chart import Marks, chart_marks, chart_tiles
from sim2cam.scene.sensor import Processing, Sensor, Subsampling

Floats = NDArray[np.float64]
Ranges = Mapping[str, tuple[float, float]]
Item = TypeVar("Item")

RANGES: Ranges = {
    "full_well_e": (200, 60_000),
    "read_noise_e": (0, 15),
    "denoise": (0, 1),
    "sharpening": (0, 2),
    "blur_px": (0, 2),
    "tone_contrast": TONE_CONTRAST,
    "saturation": SATURATION,
}
COLOR_RANGES: Ranges = {
    "red_response": (0.2, 1.25),
    "blue_response": (0.2, 1.25),
    "chroma_blur_px": (0, 3),
    "saturation": (0.65, 1.5),
}
"""Least and most that each number is taken for, by the noise of brightness and by that of colours.

Responses are those of white as the picture has it, so errors of the white balance are in them. How
strongly colours are mixed is wider here, as cameras mix them for the sake of their filters too.
"""
FITTED = ("full_well_e", "read_noise_e", "denoise", "sharpening", "blur_px")
RESPONSES = ("red_response", "blue_response")
COLOR_FITTED = (*RESPONSES, "chroma_blur_px")

_LOGARITHMIC = {"full_well_e", *RESPONSES}
_DRAWS = (
    128,
    96,
    64,
)  # sensors of the first round, of the second around the best of it, and of each closer one
_CLOSER = 2
_KEPT = (20, 96)
_DRAWN = 32  # that recipes draw
_WIDER = 1.5  # of the second round, over the best of the first
_SURE_GRAIN, _SURE_COLOR, _SURE_EDGES = 0.1, 0.05, (0.04, 0.08)
"""How well the chart stands for photos at best: of the log of grain at a level, of that of colours at
all levels, of blur and sharpening."""
_LEAST_GRAIN = 0.05  # square levels, below which nothing is left of noise
_NEAR = 3.0
"""Standard deviations by which the marks of the nearest sensor are off, as their root mean square: 1.2 to 2.2
where hidden cameras were told rightly, 4.8 where one was not, 6.1 on phone photos of dice."""
_END = 0.05  # of its range: a number so near an end is not told from one at the end, or from one beyond it
_UNTOLD = 0.6  # of its range: a number whose interval is as wide the photos do not tell


@dataclass(frozen=True, eq=False)
class SensorFit:
    """The sensors that show the chart as the photos are, drawn.

    Attributes:
        draws: (n,) of each of ``FITTED`` and ``COLOR_FITTED`` that the photos tell, by name. Without
            responses, electrons are those of a sensor that is as noisy in every colour.
        beyond: those of them that reach an end of what is tried, and may lie beyond it.
        alike: whether any sensor that is tried shows brightness as the photos do, and any shows colour so;
            where none does, no number is told by it.
        together: (m,) of each number that the marks go with, told or not, by name: one sensor in each place,
            and all of them show the chart as the photos are. Electrons and read noise are green's, with the
            responses that go with them: 1 where colour does not tell them.
    """

    draws: dict[str, Floats]
    beyond: frozenset[str] = frozenset()
    alike: tuple[bool, bool] = (True, True)
    together: dict[str, Floats] = field(default_factory=dict)


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
        return _off(np.array(shown), seen[known], sure[known], rng)

    of_edges = np.arange(len(seen))[known] >= len(seen) - 2
    weights = np.where(of_edges, 1 / max(of_edges.sum(), 1), 1 / max((~of_edges).sum(), 1))
    tried = _agreeing(off, len(RANGES), weights, rng)
    if not tried.alike:
        return SensorFit({}, alike=(False, False))
    draws, beyond = _told(tried.moved, RANGES, FITTED), _at_an_end(tried.moved, RANGES)
    photo_tiles = [photo.flat for photo in photos]
    color, grey = _fit_color(photo_tiles, tried.nearest, plain, rng)
    shown = {"tone_contrast"}
    shown |= set(_OF_GRAIN) if known[:-2].any() else set()
    shown |= set(_OF_EDGES) if known[-2:].any() else set()
    if color is None or not color.alike:
        together = _numbers_of(tried.nearest, RANGES, shown)
        return SensorFit(draws, beyond, (True, color is None), _with_green(together))
    at_end = _at_an_end(color.moved, COLOR_RANGES)  # noise of colours that another thing made
    hues = _told(color.moved, COLOR_RANGES, [n for n in COLOR_FITTED if n not in at_end])
    both = hues.keys() >= set(RESPONSES)
    told = {name: values for name, values in hues.items() if both or name not in RESPONSES}
    if both:
        _give_to_green(draws, told, rng)
    together = _with_green(
        _numbers_of(grey, RANGES, shown), _numbers_of(color.nearest, COLOR_RANGES, COLOR_FITTED)
    )
    return SensorFit(draws | told, beyond, (True, True), together)


_OF_GRAIN = ("full_well_e", "read_noise_e", "denoise")
_OF_EDGES = ("sharpening", "blur_px")


def _numbers_of(places: Floats, ranges: Ranges, wanted: Container[str]) -> dict[str, Floats]:
    """Returns those of the numbers (n,) that are wanted, of places (n, p) in their ranges."""
    numbers = _numbers(places, ranges).T
    return {name: each for name, each in zip(ranges, numbers, strict=True) if name in wanted}


def _with_green(
    grey: dict[str, Floats], color: Mapping[str, Floats] | None = None
) -> dict[str, Floats]:
    """Returns sensors (n,) with electrons and read noise of green, and the responses that go with them.

    Args:
        grey: numbers of sensors that are as noisy in every colour; without electrons they stay as they are.
        color: those of colour, of the same sensors; None where no colour is told.
    """
    if _ELECTRONS[0] not in grey:
        return grey
    count = len(next(iter(grey.values())))
    color = color or dict.fromkeys(RESPONSES, np.ones(count))
    red, blue = (color[name] for name in RESPONSES)
    shares = shares_of_green(np.stack([red, np.ones(count), blue], axis=-1))
    factors = dict(zip(_ELECTRONS, shares, strict=True))
    return {name: values * factors.get(name, 1.0) for name, values in grey.items()} | dict(color)


_ELECTRONS = ("full_well_e", "read_noise_e")


def _fit_color(
    photos: Sequence[FlatTiles], grey: Floats, plain: Sensor, rng: np.random.Generator
) -> tuple[_Tried | None, Floats]:
    """Returns the places in ``COLOR_RANGES`` of sensors that show colour as the photos do, None of photos
    without any; and those (n, p) of the nearest of them in ``RANGES``.

    Args:
        photos: the tiles of each.
        grey: (m, p) places in ``RANGES`` of sensors that show brightness as the photos do.
        plain: everything else of them.
        rng: draws sensors and resamples photos.
    """
    bins = np.flatnonzero(np.isfinite(color_grain(photos)).all(axis=1))
    if not len(bins):
        return None, grey
    seen, scatter = _resampled(partial(_color_noise, bins=bins), photos, rng)
    sure = np.hypot(_SURE_COLOR, scatter)
    taken: list[Floats] = []

    def off(shares: Floats) -> Floats:
        taken.append(grey[rng.integers(len(grey), size=len(shares))])
        sensors = [_sensor(plain, one) for one in taken[-1]]
        numbers = _numbers(shares, COLOR_RANGES).tolist()
        drawn = [_in_color(s, *each) for s, each in zip(sensors, numbers, strict=True)]
        shown = [_color_noise([chart_tiles(sensor)], bins) for sensor in drawn]
        return _off(np.array(shown), seen, sure, rng)

    tried = _agreeing(off, len(COLOR_RANGES), np.ones(len(seen)), rng)
    return tried, np.concatenate(taken)[tried.which]


def _in_color(
    sensor: Sensor, red_response: float, blue_response: float, blur_px: float, saturation: float
) -> Sensor:
    """Returns a sensor with other responses that is as noisy on the mean of grey's colours."""
    responses = np.array([red_response, 1.0, blue_response])
    electrons, read = shares_of_green(responses)
    assert sensor.processing is not None
    return replace(
        sensor,
        full_well_e=sensor.full_well_e * float(electrons),
        read_noise_e=sensor.read_noise_e * float(read),
        red_response=red_response,
        blue_response=blue_response,
        saturation=saturation,
        processing=replace(sensor.processing, chroma_blur_px=blur_px),
    )


def shares_of_green(responses: Floats) -> tuple[Floats, Floats]:
    """Returns electrons and read noise of green over those of a sensor as noisy in every colour.

    Args:
        responses: (..., 3) of red, green and blue.
    """
    electrons = (1 / responses).mean(axis=-1)
    return electrons, electrons / np.sqrt((1 / responses**2).mean(axis=-1))


def _give_to_green(
    draws: dict[str, Floats], color: Mapping[str, Floats], rng: np.random.Generator
) -> None:
    """Turns electrons and read noise, in place, from those of all colours alike into green's."""
    red, blue = (color[name] for name in RESPONSES)
    shares = shares_of_green(np.stack([red, np.ones_like(red), blue], axis=-1))
    for name, share in zip(_ELECTRONS, shares, strict=True):
        if name in draws:
            draws[name] = draws[name] * rng.choice(share, len(draws[name]))


@dataclass(frozen=True, eq=False)
class _Tried:
    """What came of trying sensors.

    Attributes:
        moved: (n, p) places in ranges at which what is shown is least off, moved the rest of the way.
        nearest: (m, p) those at which it is least off of all that were tried, and of more around the best.
        which: (m,) of all that were tried they are.
        alike: whether any was near: from afar a regression leads anywhere.
    """

    moved: Floats
    nearest: Floats
    which: NDArray[np.intp]
    alike: bool


def _agreeing(
    off: Callable[[Floats], Floats], count: int, weights: Floats, rng: np.random.Generator
) -> _Tried:
    """Returns what came of trying places in ranges.

    Args:
        off: gives how far places (n, count) are off, mark by mark.
        count: of ranges.
        weights: (marks,) of the squares by which the nearest are told.
        rng: draws places.
    """
    first = qmc.Sobol(count, rng=rng).random(_DRAWS[0])
    first_off = off(first)
    best = first[np.argsort(_distance(first_off))[: _KEPT[0]]]
    spread = np.cov(best.T) * _WIDER**2 + 1e-4 * np.eye(count)
    second = rng.multivariate_normal(best.mean(axis=0), spread, _DRAWS[1])
    second = np.where((second > 0) & (second < 1), second, rng.random(second.shape))
    shares, offs = np.concatenate([first, second]), np.concatenate([first_off, off(second)])
    kept = np.argsort(_distance(offs))[: _KEPT[1]]
    every, every_off = shares, offs
    for _ in range(_CLOSER):
        near = every[np.argsort(every_off**2 @ weights)[: _KEPT[0]]]
        spread = np.cov(near.T) + 1e-4 * np.eye(count)
        more = rng.multivariate_normal(near.mean(axis=0), spread, _DRAWS[2]).clip(0, 1)
        every, every_off = np.concatenate([every, more]), np.concatenate([every_off, off(more)])
    which = np.argsort(every_off**2 @ weights)[:_DRAWN]
    alike = float((every_off**2).mean(axis=1).min()) < _NEAR**2
    return _Tried(_moved(shares[kept], offs[kept]), every[which], which, alike)


def _told(moved: Floats, ranges: Ranges, wanted: Sequence[str]) -> dict[str, Floats]:
    """Returns the numbers (n,) that are told, of places in their ranges (n, p).

    Draws are never moved to an end of a range: where they come near to none of a thing, none is meant.
    """
    told = {}
    for name, places, values in zip(ranges, moved.T, _numbers(moved, ranges).T, strict=True):
        low, high = np.quantile(places, (0.025, 0.975))
        if name not in wanted or high - low >= _UNTOLD:
            continue
        may_be_none = ranges[name][0] == 0 and high > _END
        told[name] = np.where(places < _END, 0.0, values) if may_be_none else values
    return told


def _at_an_end(moved: Floats, ranges: Ranges) -> frozenset[str]:
    """Returns the numbers whose places in their ranges (n, p) reach an end of what is tried.

    No sensor has less than none of a thing, or a stronger filter than the strongest.
    """
    ends = np.quantile(moved, (0.025, 0.975), axis=0).T
    return frozenset(
        name
        for (name, (least, _)), (low, high) in zip(ranges.items(), ends, strict=True)
        if (low < _END and least > 0) or (high > 1 - _END and name != "denoise")
    )


def _off(shown: Floats, seen: Floats, sure: Floats, rng: np.random.Generator) -> Floats:
    """Returns how far what sensors show (n, marks) is from the photos, in standard deviations."""
    scattered = shown + rng.standard_normal(shown.shape) * sure
    return np.asarray((np.nan_to_num(scattered) - seen) / sure)


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
    middle, scatter = _resampled(_together, photos, rng)
    least = np.append(np.full(len(middle) - 2, _SURE_GRAIN), _SURE_EDGES)
    return middle, np.hypot(least, scatter)


def _resampled(
    marks_of: Callable[[Sequence[Item]], Floats], photos: Sequence[Item], rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Returns marks of photos together, and their standard deviation over resampled photos."""
    count = len(photos)
    draws = [marks_of([photos[i] for i in rng.integers(count, size=count)]) for _ in range(30)]
    return marks_of(photos), np.ma.masked_invalid(draws).std(axis=0).filled(0.0)


def _together(photos: Sequence[Marks]) -> Floats:
    """Returns the log of grain and the medians of edges (bins x lags + 2,)."""
    edges = np.array([one.edges for one in photos])
    known = edges[np.isfinite(edges).all(axis=1)]
    middle = np.median(known, axis=0) if len(known) else np.full(2, np.nan)
    noise = grain([one.flat for one in photos])
    return np.append(np.log(noise + _LEAST_GRAIN).ravel(), middle)


def _color_noise(photos: Sequence[FlatTiles], bins: NDArray[np.intp]) -> Floats:
    """Returns the log of the grain of colours (3 x lags,), its mean over bins that are known."""
    noise = np.ma.masked_invalid(np.log(color_grain(photos)[bins] + _LEAST_GRAIN))
    return np.asarray(noise.mean(axis=0).filled(np.nan))


def _sensor(plain: Sensor, shares: Floats) -> Sensor:
    return replace(plain, **dict(zip(RANGES, _numbers(shares, RANGES).tolist(), strict=True)))


def _numbers(shares: Floats, ranges: Ranges) -> Floats:
    """Returns numbers (..., p) of their places in their ranges, 0 to 1."""
    bent = np.array([name in _LOGARITHMIC for name in ranges])
    ends = np.array(list(ranges.values()), np.float64).T
    ends[:, bent] = np.log(ends[:, bent])
    found = ends[0] + np.asarray(shares) * (ends[1] - ends[0])
    found[..., bent] = np.exp(found[..., bent])
    return np.asarray(found)
