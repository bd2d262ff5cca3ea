"""Sensor parameters from noise and edges of photos by approximate Bayesian computation (ABC).

ABC with regression adjustment (Beaumont, Zhang and Balding 2002): sample sensors from a prior, keep
those whose simulated test chart resembles the photos most, and correct them by linear regression. A
first round uses luminance noise and edges. A second round estimates channel responses and chroma
blur from colour noise. Parameters that photos do not determine are sampled too, so intervals
account for them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

from sim2cam.adapt.calibration.calibration_chart import (
    SensorFeatures,
    simulate_chart_features,
    simulate_chart_tiles,
)
from sim2cam.adapt.calibration.linearization import SATURATION, TONE_CONTRAST
from sim2cam.adapt.calibration.noise import FlatTiles, estimate_color_noise, estimate_noise
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
"""Uniform priors of both rounds: luminance noise and edges, and colour noise.

Responses are relative to white in the image and thus include errors of the white balance.
Saturation is wider here, because colour correction for the filters adds to it.
"""
FITTED_PARAMETERS = ("full_well_e", "read_noise_e", "denoise", "sharpening", "blur_px")
RESPONSE_PARAMETERS = ("red_response", "blue_response")
FITTED_COLOR_PARAMETERS = (*RESPONSE_PARAMETERS, "chroma_blur_px")

_LOG_SCALE_PARAMETERS = {"full_well_e", *RESPONSE_PARAMETERS}
_SAMPLES_PER_ROUND = (128, 96, 64)  # from the prior, around the best, in each refinement
_REFINEMENT_ROUNDS = 2
_ACCEPTED_SAMPLES = (20, 96)
_JOINT_SAMPLES = 32  # sensors for recipes
_PROPOSAL_SCALE = 1.5  # standard deviation of the second round over that of the best of the first
_NOISE_TOLERANCE, _COLOR_NOISE_TOLERANCE, _EDGE_TOLERANCES = 0.1, 0.05, (0.04, 0.08)
"""Model error of the chart, standard deviation: log noise at one level, log colour noise over all
levels, blur and sharpening."""
_MIN_NOISE = 0.05  # squared levels; noise floor
_MAX_RMS_DEVIATION = 3.0
"""Maximum RMS of the standardized errors of the nearest sensor. Hidden cameras: 1.2 to 2.2 for
correct fits, 4.8 for a wrong one; 6.1 on phone photos of dice."""
_BOUND_TOLERANCE = 0.05  # share of the range; closer values may lie at or beyond its end
_MAX_RELATIVE_WIDTH = 0.6  # share of the range; wider intervals count as undetermined


@dataclass(frozen=True, eq=False)
class SensorFit:
    """Posterior samples of the sensor parameters.

    Attributes:
        samples: marginal samples (n,) of each parameter in ``FITTED_PARAMETERS`` and
            ``FITTED_COLOR_PARAMETERS`` that the photos determine, by name. Without responses,
            electrons assume equal noise in all channels.
        unbounded: parameters whose interval reaches the limit of the prior.
        is_consistent: whether any sampled sensor reproduces luminance and colour; without one, no
            parameter of that round is estimated.
        joint_samples: joint samples (m,) of all relevant parameters, also undetermined ones, by
            name. Electrons and read noise refer to green, with the matching responses: 1 if colour
            does not determine them.
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
    """Estimate the sensor from the features of photos."""
    observed, tolerances = _summarize_features(features, rng)
    known = np.isfinite(observed)
    if not known.any():
        return SensorFit({})
    processing = Processing(jpeg_subsampling=subsampling)
    plain = Sensor(0, 1, 1, 0, 0, 1, 0, 0, 1, 1, 0, jpeg_quality, 1, processing=processing)

    def compute_errors(unit_values: Floats) -> Floats:
        simulated = [
            _pool_features([simulate_chart_features(_make_sensor(plain, values))])[known]
            for values in unit_values
        ]
        return _standardize_errors(np.array(simulated), observed[known], tolerances[known], rng)

    is_edge = np.arange(len(observed))[known] >= len(observed) - 2
    weights = np.where(is_edge, 1 / max(is_edge.sum(), 1), 1 / max((~is_edge).sum(), 1))
    grey = _run_abc(compute_errors, len(PRIOR_RANGES), weights, rng)
    if not grey.is_consistent:
        return SensorFit({}, is_consistent=(False, False))
    samples = _select_determined(grey.adjusted, PRIOR_RANGES, FITTED_PARAMETERS)
    unbounded = _find_at_bounds(grey.adjusted, PRIOR_RANGES)
    photo_tiles = [photo.flat_tiles for photo in features]
    color, grey_nearest = _fit_color(photo_tiles, grey.nearest, plain, rng)
    joint_names = {"tone_contrast"}
    joint_names |= set(_NOISE_PARAMETERS) if known[:-2].any() else set()
    joint_names |= set(_EDGE_PARAMETERS) if known[-2:].any() else set()
    if color is None or not color.is_consistent:
        joint = _select_parameters(grey.nearest, PRIOR_RANGES, joint_names)
        return SensorFit(samples, unbounded, (True, color is None), _convert_joint_to_green(joint))
    # colour parameters at a bound: something else caused the colour noise
    at_bounds = _find_at_bounds(color.adjusted, COLOR_PRIOR_RANGES)
    inside = [name for name in FITTED_COLOR_PARAMETERS if name not in at_bounds]
    color_samples = _select_determined(color.adjusted, COLOR_PRIOR_RANGES, inside)
    if color_samples.keys() >= set(RESPONSE_PARAMETERS):
        _convert_marginals_to_green(samples, color_samples, rng)
    else:  # green electrons need both responses
        for name in RESPONSE_PARAMETERS:
            color_samples.pop(name, None)
    joint = _convert_joint_to_green(
        _select_parameters(grey_nearest, PRIOR_RANGES, joint_names),
        _select_parameters(color.nearest, COLOR_PRIOR_RANGES, FITTED_COLOR_PARAMETERS),
    )
    return SensorFit(samples | color_samples, unbounded, (True, True), joint)


_NOISE_PARAMETERS = ("full_well_e", "read_noise_e", "denoise")
_EDGE_PARAMETERS = ("sharpening", "blur_px")


def _select_parameters(
    unit_values: Floats, ranges: Ranges, names: Container[str]
) -> dict[str, Floats]:
    """Return the values (n,) of the named parameters from unit values (n, p)."""
    columns = _scale_to_ranges(unit_values, ranges).T
    return {name: values for name, values in zip(ranges, columns, strict=True) if name in names}


def _convert_joint_to_green(
    grey_samples: dict[str, Floats], color_samples: Mapping[str, Floats] | None = None
) -> dict[str, Floats]:
    """Return joint samples (n,) with electrons and read noise of green, and the matching responses.

    Args:
        grey_samples: samples with equal noise in all channels; unchanged without electrons.
        color_samples: colour parameters of the same sensors; None if undetermined.
    """
    if _ELECTRON_PARAMETERS[0] not in grey_samples:
        return grey_samples
    count = len(next(iter(grey_samples.values())))
    color_samples = color_samples or dict.fromkeys(RESPONSE_PARAMETERS, np.ones(count))
    red, blue = (color_samples[name] for name in RESPONSE_PARAMETERS)
    ratios = compute_green_ratios(np.stack([red, np.ones(count), blue], axis=-1))
    factors = dict(zip(_ELECTRON_PARAMETERS, ratios, strict=True))
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
    """Fit the colour parameters to the colour noise of photos.

    Args:
        photo_tiles: flat tiles of each photo.
        grey_unit_values: (m, p) unit values in ``PRIOR_RANGES`` of sensors that match the
            luminance.

    Returns:
        Result in ``COLOR_PRIOR_RANGES``, None for photos without colour noise; and unit values (n,
        p) in ``PRIOR_RANGES`` of its nearest sensors.
    """
    bins = np.flatnonzero(np.isfinite(estimate_color_noise(photo_tiles)).all(axis=1))
    if not len(bins):
        return None, grey_unit_values
    observed, std = _bootstrap(partial(_pool_color_noise, bins=bins), photo_tiles, rng)
    tolerances = np.hypot(_COLOR_NOISE_TOLERANCE, std)
    sampled_grey: list[Floats] = []

    def compute_errors(unit_values: Floats) -> Floats:
        rows = rng.integers(len(grey_unit_values), size=len(unit_values))
        sampled_grey.append(grey_unit_values[rows])
        grey_sensors = [_make_sensor(base_sensor, values) for values in sampled_grey[-1]]
        color_values = _scale_to_ranges(unit_values, COLOR_PRIOR_RANGES).tolist()
        sensors = [
            _with_color_response(sensor, *values)
            for sensor, values in zip(grey_sensors, color_values, strict=True)
        ]
        simulated = [_pool_color_noise([simulate_chart_tiles(sensor)], bins) for sensor in sensors]
        return _standardize_errors(np.array(simulated), observed, tolerances, rng)

    result = _run_abc(compute_errors, len(COLOR_PRIOR_RANGES), np.ones(len(observed)), rng)
    return result, np.concatenate(sampled_grey)[result.nearest_indices]


def _with_color_response(
    sensor: Sensor,
    red_response: float,
    blue_response: float,
    chroma_blur_px: float,
    saturation: float,
) -> Sensor:
    """Return a sensor with other channel responses and unchanged luminance noise."""
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
    """Return electrons and read noise of green, relative to equal noise in all channels.

    Args:
        responses: (..., 3) responses of red, green and blue.
    """
    electrons = (1 / responses).mean(axis=-1)
    return electrons, electrons / np.sqrt((1 / responses**2).mean(axis=-1))


def _convert_marginals_to_green(
    samples: dict[str, Floats], color_samples: Mapping[str, Floats], rng: np.random.Generator
) -> None:
    """Convert electrons and read noise in place from equal channels to green."""
    red, blue = (color_samples[name] for name in RESPONSE_PARAMETERS)
    ratios = compute_green_ratios(np.stack([red, np.ones_like(red), blue], axis=-1))
    for name, ratio in zip(_ELECTRON_PARAMETERS, ratios, strict=True):
        if name in samples:
            samples[name] = samples[name] * rng.choice(ratio, len(samples[name]))


@dataclass(frozen=True, eq=False)
class _AbcResult:
    """Result of approximate Bayesian computation, in unit values of the prior ranges.

    Attributes:
        adjusted: (n, p) accepted samples after regression adjustment.
        nearest: (m, p) samples with the smallest errors, including refinements.
        nearest_indices: (m,) their indices in evaluation order.
        is_consistent: whether the smallest error is acceptable; otherwise regression extrapolates.
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
    """Sample unit values in two rounds and refinements, and select those with the smallest errors.

    Args:
        compute_errors: function from unit values (n, count) to standardized errors (n, features).
        weights: (features,) weights of the squared errors that rank the nearest samples.
    """
    first = qmc.Sobol(dimensions, rng=rng).random(_SAMPLES_PER_ROUND[0])
    first_errors = compute_errors(first)
    best = first[np.argsort(_compute_distance(first_errors))[: _ACCEPTED_SAMPLES[0]]]
    covariance = np.cov(best.T) * _PROPOSAL_SCALE**2 + 1e-4 * np.eye(dimensions)
    second = rng.multivariate_normal(best.mean(axis=0), covariance, _SAMPLES_PER_ROUND[1])
    second = np.where((second > 0) & (second < 1), second, rng.random(second.shape))
    samples = np.concatenate([first, second])
    errors = np.concatenate([first_errors, compute_errors(second)])
    accepted = np.argsort(_compute_distance(errors))[: _ACCEPTED_SAMPLES[1]]
    adjusted = _regression_adjust(samples[accepted], errors[accepted])
    for _ in range(_REFINEMENT_ROUNDS):
        near = samples[np.argsort(errors**2 @ weights)[: _ACCEPTED_SAMPLES[0]]]
        covariance = np.cov(near.T) + 1e-4 * np.eye(dimensions)
        more = rng.multivariate_normal(near.mean(axis=0), covariance, _SAMPLES_PER_ROUND[2])
        more = more.clip(0, 1)
        samples = np.concatenate([samples, more])
        errors = np.concatenate([errors, compute_errors(more)])
    nearest = np.argsort(errors**2 @ weights)[:_JOINT_SAMPLES]
    is_consistent = float((errors**2).mean(axis=1).min()) < _MAX_RMS_DEVIATION**2
    return _AbcResult(adjusted, samples[nearest], nearest, is_consistent)


def _select_determined(
    unit_values: Floats, ranges: Ranges, names: Sequence[str]
) -> dict[str, Floats]:
    """Return the samples (n,) of determined parameters from unit values (n, p).

    Samples close to a lower limit of 0 are set to 0, which adjusted values never reach.
    """
    determined = {}
    for name, unit_column, values in zip(
        ranges, unit_values.T, _scale_to_ranges(unit_values, ranges).T, strict=True
    ):
        low, high = np.quantile(unit_column, (0.025, 0.975))
        if name not in names or high - low >= _MAX_RELATIVE_WIDTH:
            continue
        snap_to_zero = ranges[name][0] == 0 and high > _BOUND_TOLERANCE
        is_zero = snap_to_zero & (unit_column < _BOUND_TOLERANCE)
        determined[name] = np.where(is_zero, 0.0, values)
    return determined


def _find_at_bounds(unit_values: Floats, ranges: Ranges) -> frozenset[str]:
    """Return the parameters whose interval of unit values (n, p) reaches a limit of the prior.

    Natural limits do not count: 0, and the strongest denoising.
    """
    ends = np.quantile(unit_values, (0.025, 0.975), axis=0).T
    return frozenset(
        name
        for (name, (minimum, _)), (low, high) in zip(ranges.items(), ends, strict=True)
        if (low < _BOUND_TOLERANCE and minimum > 0)
        or (high > 1 - _BOUND_TOLERANCE and name != "denoise")
    )


def _standardize_errors(
    simulated: Floats, observed: Floats, tolerances: Floats, rng: np.random.Generator
) -> Floats:
    """Return the errors of simulated features (n, features) in standard deviations."""
    noisy = simulated + rng.standard_normal(simulated.shape) * tolerances
    return np.asarray((np.nan_to_num(noisy) - observed) / tolerances)


def _regression_adjust(unit_values: Floats, errors: Floats) -> Floats:
    """Return accepted samples (n, p), corrected to zero error by weighted linear regression."""
    weights = 1 - (_compute_distance(errors) / (_compute_distance(errors).max() * (1 + 1e-9))) ** 2
    logits = np.log(
        np.clip(unit_values, 1e-3, 1 - 1e-3) / (1 - np.clip(unit_values, 1e-3, 1 - 1e-3))
    )
    bounded = np.tanh(errors / _ERROR_LIMIT) * _ERROR_LIMIT
    _, _, directions = np.linalg.svd(bounded * np.sqrt(weights)[:, None], full_matrices=False)
    features = bounded @ directions[:_PRINCIPAL_COMPONENTS].T
    design = np.column_stack([np.ones(len(features)), features]) * np.sqrt(weights)[:, None]
    square = design.T @ design + np.diag([0.0] + [1.0] * features.shape[1])
    slopes = np.linalg.solve(square, design.T @ (logits * np.sqrt(weights)[:, None]))[1:]
    inside = np.flatnonzero(weights > 0)
    return np.asarray(1 / (1 + np.exp(-(logits - features @ slopes)[inside])))


_ERROR_LIMIT = 20.0  # standard deviations at which errors saturate
_PRINCIPAL_COMPONENTS = 8


def _compute_distance(errors: Floats) -> Floats:
    return np.asarray(np.log1p(errors**2).sum(axis=1))


def _summarize_features(
    features: Sequence[SensorFeatures], rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return the pooled features of photos and their tolerances."""
    pooled, std = _bootstrap(_pool_features, features, rng)
    model_errors = np.append(np.full(len(pooled) - 2, _NOISE_TOLERANCE), _EDGE_TOLERANCES)
    return pooled, np.hypot(model_errors, std)


def _bootstrap(
    summarize: Callable[[Sequence[Item]], Floats], items: Sequence[Item], rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return a summary of photos and its bootstrap standard deviation."""
    count = len(items)
    resampled = [summarize([items[i] for i in rng.integers(count, size=count)]) for _ in range(30)]
    return summarize(items), np.ma.masked_invalid(resampled).std(axis=0).filled(0.0)


def _pool_features(features: Sequence[SensorFeatures]) -> Floats:
    """Return log noise and median blur and sharpening (bins x lags + 2,)."""
    edges = np.array([photo.edge_blur_sharpening for photo in features])
    known = edges[np.isfinite(edges).all(axis=1)]
    median = np.median(known, axis=0) if len(known) else np.full(2, np.nan)
    noise = estimate_noise([photo.flat_tiles for photo in features])
    return np.append(np.log(noise + _MIN_NOISE).ravel(), median)


def _pool_color_noise(photo_tiles: Sequence[FlatTiles], bins: NDArray[np.intp]) -> Floats:
    """Return log colour noise (3 x lags,), averaged over bins."""
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
    """Return parameters (..., p) from unit values, 0 to 1."""
    is_log = np.array([name in _LOG_SCALE_PARAMETERS for name in ranges])
    bounds = np.array(list(ranges.values()), np.float64).T
    bounds[:, is_log] = np.log(bounds[:, is_log])
    values = bounds[0] + np.asarray(unit_values) * (bounds[1] - bounds[0])
    values[..., is_log] = np.exp(values[..., is_log])
    return np.asarray(values)
