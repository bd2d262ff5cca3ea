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
from sim2cam.adapt.calibration.noise import FlatTiles, estimate_color_noise, estimate_noise
from sim2cam.adapt.calibration.test_chart import (
    SensorFeatures,
    simulate_chart_features,
    simulate_chart_tiles,
)
from sim2cam.scene.sensor import Processing, Sensor, Subsampling

Floats = NDArray[np.float64]
Ranges = Mapping[str, tuple[float, float]]
Item = TypeVar("Item")

PRIOR_RANGES: Ranges = {
    "full_well_e": (200, 60_000),
    "read_noise_e": (0, 15),
    "denoise": (0, 1),
    "sharpening": (0, 2),
    "blur_px": (0, 2),
    "tone_contrast": TONE_CONTRAST,
    "saturation": SATURATION,
}
COLOR_PRIOR_RANGES: Ranges = {
    "red_response": (0.2, 1.25),
    "blue_response": (0.2, 1.25),
    "chroma_blur_px": (0, 3),
    "saturation": (0.65, 1.5),
}
"""Least and most that each number is taken for, by the noise of brightness and by that of colours.

Responses are those of white as the picture has it, so errors of the white balance are in them. How
strongly colours are mixed is wider here, as cameras mix them for the sake of their filters too.
"""
FITTED_PARAMETERS = ("full_well_e", "read_noise_e", "denoise", "sharpening", "blur_px")
RESPONSE_PARAMETERS = ("red_response", "blue_response")
FITTED_COLOR_PARAMETERS = (*RESPONSE_PARAMETERS, "chroma_blur_px")

_LOG_SCALE_PARAMETERS = {"full_well_e", *RESPONSE_PARAMETERS}
_SAMPLES_PER_ROUND = (
    128,
    96,
    64,
)  # sensors of the first round, of the second around the best of it, and of each closer one
_REFINEMENT_ROUNDS = 2
_ACCEPTED_SAMPLES = (20, 96)
_JOINT_SAMPLES = 32  # that recipes draw
_PROPOSAL_SCALE = 1.5  # of the second round, over the best of the first
_NOISE_TOLERANCE, _COLOR_NOISE_TOLERANCE, _EDGE_TOLERANCES = 0.1, 0.05, (0.04, 0.08)
"""How well the chart stands for photos at best: of the log of grain at a level, of that of colours at
all levels, of blur and sharpening."""
_MIN_NOISE = 0.05  # square levels, below which nothing is left of noise
_MAX_RMS_DEVIATION = 3.0
"""Standard deviations by which the marks of the nearest sensor are off, as their root mean square: 1.2 to 2.2
where hidden cameras were told rightly, 4.8 where one was not, 6.1 on phone photos of dice."""
_BOUND_TOLERANCE = 0.05  # of its range: a number so near an end is not told from one at the end, or from one beyond it
_MAX_RELATIVE_WIDTH = 0.6  # of its range: a number whose interval is as wide the photos do not tell


@dataclass(frozen=True, eq=False)
class SensorFit:
    """The sensors that show the chart as the photos are, drawn.

    Attributes:
        samples: (n,) of each of ``FITTED_PARAMETERS`` and ``FITTED_COLOR_PARAMETERS`` that the photos tell, by name. Without
            responses, electrons are those of a sensor that is as noisy in every colour.
        unbounded: those of them that reach an end of what is tried, and may lie beyond it.
        is_consistent: whether any sensor that is tried shows brightness as the photos do, and any shows colour so;
            where none does, no number is told by it.
        joint_samples: (m,) of each number that the marks go with, told or not, by name: one sensor in each place,
            and all of them show the chart as the photos are. Electrons and read noise are green's, with the
            responses that go with them: 1 where colour does not tell them.
    """

    samples: dict[str, Floats]
    unbounded: frozenset[str] = frozenset()
    is_consistent: tuple[bool, bool] = (True, True)
    joint_samples: dict[str, Floats] = field(default_factory=dict)


def fit_sensor(
    features: Sequence[SensorFeatures],
    jpeg_quality: int,
    subsampling: Subsampling,
    rng: np.random.Generator,
) -> SensorFit:
    """Return the sensor of photos.

    Args:
        features: the marks of each.
        jpeg_quality, subsampling: of their files.
        rng: draws sensors and resamples photos.
    """
    seen, sure = _summarize_features(features, rng)
    known = np.isfinite(seen)
    if not known.any():
        return SensorFit({})
    processing = Processing(jpeg_subsampling=subsampling)
    plain = Sensor(0, 1, 1, 0, 0, 1, 0, 0, 1, 1, 0, jpeg_quality, 1, processing=processing)

    def compute_errors(unit_values: Floats) -> Floats:
        shown = [
            _pool_features([simulate_chart_features(_make_sensor(plain, one))])[known]
            for one in unit_values
        ]
        return _standardize_errors(np.array(shown), seen[known], sure[known], rng)

    of_edges = np.arange(len(seen))[known] >= len(seen) - 2
    weights = np.where(of_edges, 1 / max(of_edges.sum(), 1), 1 / max((~of_edges).sum(), 1))
    tried = _run_abc(compute_errors, len(PRIOR_RANGES), weights, rng)
    if not tried.is_consistent:
        return SensorFit({}, is_consistent=(False, False))
    draws, beyond = (
        _select_determined(tried.adjusted, PRIOR_RANGES, FITTED_PARAMETERS),
        _find_at_bounds(tried.adjusted, PRIOR_RANGES),
    )
    photo_tiles = [photo.flat_tiles for photo in features]
    color, grey = _fit_color(photo_tiles, tried.nearest, plain, rng)
    shown = {"tone_contrast"}
    shown |= set(_NOISE_PARAMETERS) if known[:-2].any() else set()
    shown |= set(_EDGE_PARAMETERS) if known[-2:].any() else set()
    if color is None or not color.is_consistent:
        together = _select_parameters(tried.nearest, PRIOR_RANGES, shown)
        return SensorFit(draws, beyond, (True, color is None), _convert_joint_to_green(together))
    at_end = _find_at_bounds(
        color.adjusted, COLOR_PRIOR_RANGES
    )  # noise of colours that another thing made
    hues = _select_determined(
        color.adjusted, COLOR_PRIOR_RANGES, [n for n in FITTED_COLOR_PARAMETERS if n not in at_end]
    )
    both = hues.keys() >= set(RESPONSE_PARAMETERS)
    told = {
        name: values for name, values in hues.items() if both or name not in RESPONSE_PARAMETERS
    }
    if both:
        _convert_marginals_to_green(draws, told, rng)
    together = _convert_joint_to_green(
        _select_parameters(grey, PRIOR_RANGES, shown),
        _select_parameters(color.nearest, COLOR_PRIOR_RANGES, FITTED_COLOR_PARAMETERS),
    )
    return SensorFit(draws | told, beyond, (True, True), together)


_NOISE_PARAMETERS = ("full_well_e", "read_noise_e", "denoise")
_EDGE_PARAMETERS = ("sharpening", "blur_px")


def _select_parameters(
    unit_values: Floats, ranges: Ranges, names: Container[str]
) -> dict[str, Floats]:
    """Return those of the numbers (n,) that are wanted, of places (n, p) in their ranges."""
    numbers = _scale_to_ranges(unit_values, ranges).T
    return {name: each for name, each in zip(ranges, numbers, strict=True) if name in names}


def _convert_joint_to_green(
    grey_samples: dict[str, Floats], color_samples: Mapping[str, Floats] | None = None
) -> dict[str, Floats]:
    """Return sensors (n,) with electrons and read noise of green, and the responses that go with them.

    Args:
        grey_samples: numbers of sensors that are as noisy in every colour; without electrons they stay as they are.
        color_samples: those of colour, of the same sensors; None where no colour is told.
    """
    if _ELECTRON_PARAMETERS[0] not in grey_samples:
        return grey_samples
    count = len(next(iter(grey_samples.values())))
    color_samples = color_samples or dict.fromkeys(RESPONSE_PARAMETERS, np.ones(count))
    red, blue = (color_samples[name] for name in RESPONSE_PARAMETERS)
    shares = compute_green_ratios(np.stack([red, np.ones(count), blue], axis=-1))
    factors = dict(zip(_ELECTRON_PARAMETERS, shares, strict=True))
    return {name: values * factors.get(name, 1.0) for name, values in grey_samples.items()} | dict(
        color_samples
    )


_ELECTRON_PARAMETERS = ("full_well_e", "read_noise_e")


def _fit_color(
    photo_tiles: Sequence[FlatTiles],
    grey_unit_values: Floats,
    base_sensor: Sensor,
    rng: np.random.Generator,
) -> tuple[_AbcResult | None, Floats]:
    """Return the places in ``COLOR_PRIOR_RANGES`` of sensors that show colour as the photos do, None of photos
    without any; and those (n, p) of the nearest of them in ``PRIOR_RANGES``.

    Args:
        photo_tiles: the tiles of each.
        grey_unit_values: (m, p) places in ``PRIOR_RANGES`` of sensors that show brightness as the photos do.
        base_sensor: everything else of them.
        rng: draws sensors and resamples photos.
    """
    bins = np.flatnonzero(np.isfinite(estimate_color_noise(photo_tiles)).all(axis=1))
    if not len(bins):
        return None, grey_unit_values
    seen, scatter = _bootstrap(partial(_pool_color_noise, bins=bins), photo_tiles, rng)
    sure = np.hypot(_COLOR_NOISE_TOLERANCE, scatter)
    taken: list[Floats] = []

    def compute_errors(unit_values: Floats) -> Floats:
        taken.append(grey_unit_values[rng.integers(len(grey_unit_values), size=len(unit_values))])
        sensors = [_make_sensor(base_sensor, one) for one in taken[-1]]
        numbers = _scale_to_ranges(unit_values, COLOR_PRIOR_RANGES).tolist()
        drawn = [_with_color_response(s, *each) for s, each in zip(sensors, numbers, strict=True)]
        shown = [_pool_color_noise([simulate_chart_tiles(sensor)], bins) for sensor in drawn]
        return _standardize_errors(np.array(shown), seen, sure, rng)

    tried = _run_abc(compute_errors, len(COLOR_PRIOR_RANGES), np.ones(len(seen)), rng)
    return tried, np.concatenate(taken)[tried.nearest_indices]


def _with_color_response(
    sensor: Sensor,
    red_response: float,
    blue_response: float,
    chroma_blur_px: float,
    saturation: float,
) -> Sensor:
    """Return a sensor with other responses that is as noisy on the mean of grey's colours."""
    responses = np.array([red_response, 1.0, blue_response])
    electrons, read = compute_green_ratios(responses)
    assert sensor.processing is not None
    return replace(
        sensor,
        full_well_e=sensor.full_well_e * float(electrons),
        read_noise_e=sensor.read_noise_e * float(read),
        red_response=red_response,
        blue_response=blue_response,
        saturation=saturation,
        processing=replace(sensor.processing, chroma_blur_px=chroma_blur_px),
    )


def compute_green_ratios(responses: Floats) -> tuple[Floats, Floats]:
    """Return electrons and read noise of green over those of a sensor as noisy in every colour.

    Args:
        responses: (..., 3) of red, green and blue.
    """
    electrons = (1 / responses).mean(axis=-1)
    return electrons, electrons / np.sqrt((1 / responses**2).mean(axis=-1))


def _convert_marginals_to_green(
    samples: dict[str, Floats], color_samples: Mapping[str, Floats], rng: np.random.Generator
) -> None:
    """Turn electrons and read noise, in place, from those of all colours alike into green's."""
    red, blue = (color_samples[name] for name in RESPONSE_PARAMETERS)
    shares = compute_green_ratios(np.stack([red, np.ones_like(red), blue], axis=-1))
    for name, share in zip(_ELECTRON_PARAMETERS, shares, strict=True):
        if name in samples:
            samples[name] = samples[name] * rng.choice(share, len(samples[name]))


@dataclass(frozen=True, eq=False)
class _AbcResult:
    """What came of trying sensors.

    Attributes:
        adjusted: (n, p) places in ranges at which what is shown is least off, moved the rest of the way.
        nearest: (m, p) those at which it is least off of all that were tried, and of more around the best.
        nearest_indices: (m,) of all that were tried they are.
        is_consistent: whether any was near: from afar a regression leads anywhere.
    """

    adjusted: Floats
    nearest: Floats
    nearest_indices: NDArray[np.intp]
    is_consistent: bool


def _run_abc(
    compute_errors: Callable[[Floats], Floats],
    dimensions: int,
    weights: Floats,
    rng: np.random.Generator,
) -> _AbcResult:
    """Return what came of trying places in ranges.

    Args:
        compute_errors: gives how far places (n, count) are off, mark by mark.
        dimensions: of ranges.
        weights: (marks,) of the squares by which the nearest are told.
        rng: draws places.
    """
    first = qmc.Sobol(dimensions, rng=rng).random(_SAMPLES_PER_ROUND[0])
    first_off = compute_errors(first)
    best = first[np.argsort(_compute_distance(first_off))[: _ACCEPTED_SAMPLES[0]]]
    spread = np.cov(best.T) * _PROPOSAL_SCALE**2 + 1e-4 * np.eye(dimensions)
    second = rng.multivariate_normal(best.mean(axis=0), spread, _SAMPLES_PER_ROUND[1])
    second = np.where((second > 0) & (second < 1), second, rng.random(second.shape))
    shares, offs = (
        np.concatenate([first, second]),
        np.concatenate([first_off, compute_errors(second)]),
    )
    kept = np.argsort(_compute_distance(offs))[: _ACCEPTED_SAMPLES[1]]
    every, every_off = shares, offs
    for _ in range(_REFINEMENT_ROUNDS):
        near = every[np.argsort(every_off**2 @ weights)[: _ACCEPTED_SAMPLES[0]]]
        spread = np.cov(near.T) + 1e-4 * np.eye(dimensions)
        more = rng.multivariate_normal(near.mean(axis=0), spread, _SAMPLES_PER_ROUND[2]).clip(0, 1)
        every, every_off = (
            np.concatenate([every, more]),
            np.concatenate([every_off, compute_errors(more)]),
        )
    which = np.argsort(every_off**2 @ weights)[:_JOINT_SAMPLES]
    alike = float((every_off**2).mean(axis=1).min()) < _MAX_RMS_DEVIATION**2
    return _AbcResult(_regression_adjust(shares[kept], offs[kept]), every[which], which, alike)


def _select_determined(
    unit_values: Floats, ranges: Ranges, names: Sequence[str]
) -> dict[str, Floats]:
    """Return the numbers (n,) that are told, of places in their ranges (n, p).

    Draws are never moved to an end of a range: where they come near to none of a thing, none is meant.
    """
    told = {}
    for name, places, values in zip(
        ranges, unit_values.T, _scale_to_ranges(unit_values, ranges).T, strict=True
    ):
        low, high = np.quantile(places, (0.025, 0.975))
        if name not in names or high - low >= _MAX_RELATIVE_WIDTH:
            continue
        may_be_none = ranges[name][0] == 0 and high > _BOUND_TOLERANCE
        told[name] = np.where(places < _BOUND_TOLERANCE, 0.0, values) if may_be_none else values
    return told


def _find_at_bounds(unit_values: Floats, ranges: Ranges) -> frozenset[str]:
    """Return the numbers whose places in their ranges (n, p) reach an end of what is tried.

    No sensor has less than none of a thing, or a stronger filter than the strongest.
    """
    ends = np.quantile(unit_values, (0.025, 0.975), axis=0).T
    return frozenset(
        name
        for (name, (least, _)), (low, high) in zip(ranges.items(), ends, strict=True)
        if (low < _BOUND_TOLERANCE and least > 0)
        or (high > 1 - _BOUND_TOLERANCE and name != "denoise")
    )


def _standardize_errors(
    simulated: Floats, observed: Floats, tolerances: Floats, rng: np.random.Generator
) -> Floats:
    """Return how far what sensors show (n, marks) is from the photos, in standard deviations."""
    scattered = simulated + rng.standard_normal(simulated.shape) * tolerances
    return np.asarray((np.nan_to_num(scattered) - observed) / tolerances)


def _regression_adjust(unit_values: Floats, errors: Floats) -> Floats:
    """Return the draws (n, p) moved to where they would look like the photos."""
    weights = 1 - (_compute_distance(errors) / (_compute_distance(errors).max() * (1 + 1e-9))) ** 2
    logits = np.log(
        np.clip(unit_values, 1e-3, 1 - 1e-3) / (1 - np.clip(unit_values, 1e-3, 1 - 1e-3))
    )
    bounded = np.tanh(errors / _ERROR_LIMIT) * _ERROR_LIMIT
    _, _, ways = np.linalg.svd(bounded * np.sqrt(weights)[:, None], full_matrices=False)
    features = bounded @ ways[:_PRINCIPAL_COMPONENTS].T
    design = np.column_stack([np.ones(len(features)), features]) * np.sqrt(weights)[:, None]
    square = design.T @ design + np.diag([0.0] + [1.0] * features.shape[1])
    slopes = np.linalg.solve(square, design.T @ (logits * np.sqrt(weights)[:, None]))[1:]
    likely = np.flatnonzero(weights > 0)
    return np.asarray(1 / (1 + np.exp(-(logits - features @ slopes)[likely])))


_ERROR_LIMIT = 20.0  # standard deviations beyond which how far off hardly matters
_PRINCIPAL_COMPONENTS = 8


def _compute_distance(errors: Floats) -> Floats:
    return np.asarray(np.log1p(errors**2).sum(axis=1))


def _summarize_features(
    features: Sequence[SensorFeatures], rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return the marks of photos together, and how sure they are at best."""
    middle, scatter = _bootstrap(_pool_features, features, rng)
    least = np.append(np.full(len(middle) - 2, _NOISE_TOLERANCE), _EDGE_TOLERANCES)
    return middle, np.hypot(least, scatter)


def _bootstrap(
    summarize: Callable[[Sequence[Item]], Floats], items: Sequence[Item], rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return marks of photos together, and their standard deviation over resampled photos."""
    count = len(items)
    draws = [summarize([items[i] for i in rng.integers(count, size=count)]) for _ in range(30)]
    return summarize(items), np.ma.masked_invalid(draws).std(axis=0).filled(0.0)


def _pool_features(features: Sequence[SensorFeatures]) -> Floats:
    """Return the log of grain and the medians of edges (bins x lags + 2,)."""
    edges = np.array([one.edge_blur_sharpening for one in features])
    known = edges[np.isfinite(edges).all(axis=1)]
    middle = np.median(known, axis=0) if len(known) else np.full(2, np.nan)
    noise = estimate_noise([one.flat_tiles for one in features])
    return np.append(np.log(noise + _MIN_NOISE).ravel(), middle)


def _pool_color_noise(photo_tiles: Sequence[FlatTiles], bins: NDArray[np.intp]) -> Floats:
    """Return the log of the grain of colours (3 x lags,), its mean over bins that are known."""
    noise = np.ma.masked_invalid(np.log(estimate_color_noise(photo_tiles)[bins] + _MIN_NOISE))
    return np.asarray(noise.mean(axis=0).filled(np.nan))


def _make_sensor(base_sensor: Sensor, unit_values: Floats) -> Sensor:
    return replace(
        base_sensor,
        **dict(
            zip(PRIOR_RANGES, _scale_to_ranges(unit_values, PRIOR_RANGES).tolist(), strict=True)
        ),
    )


def _scale_to_ranges(unit_values: Floats, ranges: Ranges) -> Floats:
    """Return numbers (..., p) of their places in their ranges, 0 to 1."""
    bent = np.array([name in _LOG_SCALE_PARAMETERS for name in ranges])
    ends = np.array(list(ranges.values()), np.float64).T
    ends[:, bent] = np.log(ends[:, bent])
    found = ends[0] + np.asarray(unit_values) * (ends[1] - ends[0])
    found[..., bent] = np.exp(found[..., bent])
    return np.asarray(found)
