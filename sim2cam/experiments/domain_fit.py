"""Domain fit: narrowing and moving the ranges of a recipe toward real images."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.data.sample import Dataset
from sim2cam.errors import SceneError, UsageError
from sim2cam.experiments.domain_gap import (
    ImageFeatures,
    extract_real_features,
    extract_render_features,
    measure_stage_gaps,
    select_featurizer,
)
from sim2cam.experiments.factor_estimates import FactorEstimate, estimate_factors
from sim2cam.experiments.search import Trial, open_study, search
from sim2cam.files import write_bytes
from sim2cam.metrics.coverage import measure_coverage
from sim2cam.metrics.gaps import HeldOutGap, StageGap
from sim2cam.metrics.image_statistics import select_statistics
from sim2cam.metrics.two_sample import (
    MIN_IMAGES,
    FeatureScaler,
    compute_sliced_wasserstein,
    fit_feature_scaler,
    measure_domain_gap,
)
from sim2cam.pipeline.recipe import Recipe
from sim2cam.progress import Progress, ignore_progress
from sim2cam.randomize.distributions import Distribution, to_toml
from sim2cam.randomize.domain import Domain
from sim2cam.randomize.range_rescaling import FactorRange, find_ranges
from sim2cam.scene.image_formation import FormationStage
from sim2cam.seeds import derive_rng

Floats = NDArray[np.float64]
FeatureSampler = Callable[[Domain, int, int], ImageFeatures]
"""Returns features of a domain's renders, for a seed and a count."""

FEATURE_WIDTH_PX = 256
"""Width of downscaled images; it removes noise and sharpness, which ``calibrate`` measures."""

NARROWING_PENALTY = 0.15
"""Cost of narrowing all ranges to zero width, relative to the initial distance."""

GAP_SCENES = 32
_STAGES: tuple[tuple[FormationStage, ...]] = (("lens", "exposure", "tone"),)
_IMAGE_COUNT = 6
_REGRESSION_FACTOR = 4  # renders of the regression, over those of a trial
_UNSETTLED_COST = 10.0  # cost of ranges whose scenes do not come to rest
_HELD_OUT_FACTOR = 2  # renders of the final measurement, over those of a trial


@dataclass(frozen=True)
class FitOptions:
    """Settings of a domain fit.

    Attributes:
        factors: groups and factors to fit; empty for the default ones.
        weights: weights of a detector whose backbone extracts features; None for image statistics.
    """

    trials: int
    count: int
    seed: int
    factors: tuple[str, ...] = ()
    weights: Path | None = None
    workers: int = 1


@dataclass(frozen=True)
class FittedRange:
    """A range before and after the fit.

    Attributes:
        original, fitted: distributions in recipe notation; equal if the factor cannot be estimated.
        interval: factor values that contain the real images; None if the factor cannot be
            estimated.
    """

    estimate: FactorEstimate
    original: str
    fitted: str
    interval: tuple[float, float] | None
    before: tuple[float, float]
    after: tuple[float, float]

    def to_json(self) -> dict[str, Any]:
        """Return the range as JSON values."""
        return {
            "factor": self.estimate.path,
            "loo_r2": self.estimate.loo_r2,
            "interval": self.interval,
            "before": self.before,
            "after": self.after,
        }


@dataclass(frozen=True, eq=False)
class DomainFit:
    """Result of a domain fit.

    Attributes:
        before, after: gap of both domains, on scenes that no trial used.
    """

    ranges: tuple[FittedRange, ...]
    before: HeldOutGap
    after: HeldOutGap
    trials: tuple[Trial, ...]
    distributions: Mapping[str, Distribution]
    held_out: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {
            "before": self.before.to_json(),
            "after": self.after.to_json(),
            "ranges": [fitted_range.to_json() for fitted_range in self.ranges],
            "captures": {"held_out": len(self.held_out)},
            "trials": [
                {"cost": t.cost, **t.metadata, "parameters": dict(t.parameters)}
                for t in self.trials
            ],
        }


@dataclass(frozen=True, eq=False)
class _SearchProblem:
    """Inputs of the search.

    Attributes:
        target_features: scaled features (n, d) of real images.
    """

    domain: Domain
    ranges: tuple[FactorRange, ...]
    estimates: tuple[FactorEstimate, ...]
    target_features: Floats
    scale: FeatureScaler

    def build_distributions(self, parameters: Mapping[str, float]) -> dict[str, Distribution]:
        """Return the distributions of a trial.

        Each parameter places an end of a range between the estimated interval (0) and the widest
        range (1).
        """
        return {
            factor_range.path: factor_range.rescale(*_compute_ends(estimate, parameters))
            for factor_range, estimate in zip(self.ranges, self.estimates, strict=True)
        }

    def compute_narrowness(self, parameters: Mapping[str, float]) -> float:
        """Return the removed fraction of the widest ranges, averaged over ranges."""
        fractions = []
        for estimate in self.estimates:
            low, high = _compute_ends(estimate, parameters)
            min_low, max_high = _compute_ends(estimate, None)
            fractions.append(1 - (high - low) / (max_high - min_low))
        return float(np.mean(fractions))


def fit_domain(
    domain: Domain, real_features: Floats, sample_features: FeatureSampler, root: Path, options: FitOptions,
    settings: Mapping[str, Any], progress: Progress,
) -> DomainFit:  # fmt: skip
    """Fit the ranges of a domain to real images.

    A regression on renders estimates which factors the image features determine, and the interval
    of each factor that contains the real images. Factors that cannot be estimated stay unchanged.
    The search places each end of a range between this interval and the widest range, which includes
    the original range. Every second real image is held out and measures the result on new scenes.

    Args:
        real_features: features (n, d) of real images.
        settings: other settings that the trials depend on, as JSON values.

    Raises:
        BackendError: if Optuna is not installed.
        OutputError: if the trials in the folder have other settings.
        UsageError: if there are too few real images or renders, or no ranges.
    """
    _check_counts(real_features, options)
    ranges = find_ranges(domain, options.factors)
    if not ranges:
        raise UsageError(
            "the recipe has no range for any default factor. Name factors with --factors."
        )
    study = open_study(root, settings)
    fitted, held_out = np.arange(len(real_features))[::2], np.arange(len(real_features))[1::2]
    initial = sample_features(domain, options.seed, _REGRESSION_FACTOR * options.count)
    scale = fit_feature_scaler(real_features[fitted], initial.features)
    target = scale.transform(real_features[fitted])
    rng = derive_rng(options.seed, "fit")
    estimates = estimate_factors(
        target, scale.transform(initial.features), initial.sampled_values, ranges, rng
    )
    problem = _SearchProblem(domain, *_select_searchable(ranges, estimates), target, scale)
    trials = (
        _run_trials(problem, study, initial, sample_features, options, progress)
        if problem.ranges
        else ()
    )
    best = min(trials, key=lambda trial: trial.cost, default=None)
    changed = problem.build_distributions(best.parameters) if best else {}

    def measure_held_out(evaluated_domain: Domain) -> HeldOutGap:
        renders = sample_features(
            evaluated_domain, options.seed + 1, _HELD_OUT_FACTOR * options.count
        )
        return _measure_gap(scale.transform(real_features[held_out]), renders, scale, options.seed)

    return DomainFit(
        tuple(
            _summarize_range(factor_range, estimate, changed.get(factor_range.path))
            for factor_range, estimate in zip(ranges, estimates, strict=True)
        ),
        measure_held_out(domain),
        measure_held_out(domain.replace_factors(changed)),
        trials,
        changed,
        tuple(held_out.tolist()),
    )


def fit_recipe(
    recipe: Recipe, captures: Dataset, root: Path, options: FitOptions, progress: Progress
) -> DomainFit:
    """Fit the domain of a recipe to real images; see ``fit_domain``.

    Raises:
        BackendError: if Optuna is not installed.
        InputError: if a real image cannot be read.
        OutputError: if the trials in the folder have other settings.
        SceneError: if a scene does not come to rest.
        UsageError: if there are too few real images or renders, or no ranges.
    """
    small, featurizer = _shrink_recipe(recipe), select_featurizer(options.weights)

    def sample_features(domain: Domain, seed: int, count: int) -> ImageFeatures:
        (features,) = extract_render_features(
            replace(small, domain=domain), _STAGES, count=count, seed=seed, workers=options.workers,
            progress=ignore_progress, featurizer=featurizer, keep_count=_IMAGE_COUNT,
        )  # fmt: skip
        return replace(features, features=_select_coarse_features(features.features, options))

    real_features = _select_coarse_features(
        extract_real_features(captures, FEATURE_WIDTH_PX, featurizer), options
    )
    digest = hashlib.sha256(np.ascontiguousarray(real_features).tobytes()).hexdigest()[:16]
    settings = {
        "recipe": small.digest()[:16], "captures": digest, "seed": options.seed,
        "count": options.count, "factors": list(options.factors),
    }  # fmt: skip
    return fit_domain(
        recipe.domain, real_features, sample_features, root, options, settings, progress
    )


def measure_fitted_gap(
    recipe: Recipe, fit: DomainFit, captures: Dataset, options: FitOptions, progress: Progress
) -> tuple[StageGap, ...]:
    """Measure the gap between held-out real images and renders of the fitted recipe, by stage.

    Renders have the size of the recipe.

    Raises:
        SceneError: if a scene does not come to rest.
    """
    fitted = replace(recipe, domain=recipe.domain.replace_factors(fit.distributions))
    held_out = replace(captures, samples=tuple(captures.samples[i] for i in fit.held_out))
    (stage_gaps,) = measure_stage_gaps(
        [fitted], held_out, count=GAP_SCENES, seed=options.seed + 1, workers=options.workers,
        progress=progress,
    )  # fmt: skip
    return stage_gaps


def write_recipe(
    distributions: Mapping[str, Distribution], base: str, name: str, out: Path
) -> None:
    """Write a recipe with fitted ranges.

    Args:
        distributions: fitted distributions by factor.
        base: name or file of the original recipe.
        name: name of the recipe.
        out: the file.

    Raises:
        OutputError: if the file cannot be written.
    """
    is_file = Path(base).suffix == ".toml"
    relative_base = Path(os.path.relpath(base, out.parent)).as_posix() if is_file else base
    lines = [
        f"# {Path(base).stem} with ranges fitted to real images by `sim2cam domain fit`.",
        f"base = {json.dumps(relative_base)}",
        f"name = {json.dumps(name)}",
    ]
    groups: dict[str, list[str]] = {}
    for path, distribution in distributions.items():
        group, factor = path.split("/")
        groups.setdefault(group, []).append(f"{factor} = {to_toml(distribution)}")
    for group, factors in groups.items():
        lines += ["", f"[domain.{group}]", *factors]
    write_bytes(out, ("\n".join(lines) + "\n").encode())


def _check_counts(real_features: Floats, options: FitOptions) -> None:
    if len(real_features) < 2 * MIN_IMAGES:
        raise UsageError(
            f"{len(real_features)} real images are too few: {2 * MIN_IMAGES} are needed, half of them for "
            "the fit and half to measure the result. Take more photos."
        )
    if options.count < MIN_IMAGES:
        raise UsageError(f"--count must be {MIN_IMAGES} or more, not {options.count}")


def _select_searchable(
    ranges: Sequence[FactorRange], estimates: Sequence[FactorEstimate]
) -> tuple[tuple[FactorRange, ...], tuple[FactorEstimate, ...]]:
    """Return the ranges and estimates of the factors that can be estimated."""
    pairs = [(r, e) for r, e in zip(ranges, estimates, strict=True) if e.interval is not None]
    return tuple(r for r, _ in pairs), tuple(e for _, e in pairs)


def _run_trials(
    problem: _SearchProblem,
    study: Any,
    initial_features: ImageFeatures,
    sample_features: FeatureSampler,
    options: FitOptions,
    progress: Progress,
) -> tuple[Trial, ...]:
    initial_distance = _compute_distance(
        problem, initial_features.features[: options.count], options.seed
    )

    def compute_cost(parameters: Mapping[str, float]) -> tuple[float, Mapping[str, Any]]:
        domain = problem.domain.replace_factors(problem.build_distributions(parameters))
        try:
            features = sample_features(domain, options.seed, options.count).features
        except SceneError as error:  # other ranges may still work
            return _UNSETTLED_COST, {"problem": str(error)}
        distance = _compute_distance(problem, features, options.seed)
        narrowness = problem.compute_narrowness(parameters)
        cost = distance / initial_distance + NARROWING_PENALTY * narrowness
        return cost, {"distance": distance, "narrowness": narrowness}

    names = [f"{r.path}/{end}" for r in problem.ranges for end in ("low", "high")]
    initial_trials = [dict.fromkeys(names, level) for level in (1.0, 0.0, 0.5)]
    return search(
        study, names, compute_cost, initial_trials=initial_trials, count=options.trials, seed=options.seed,
        progress=progress,
    )  # fmt: skip


def _compute_distance(problem: _SearchProblem, features: Floats, seed: int) -> float:
    # The same directions in every trial: distances differ by the renders only.
    return compute_sliced_wasserstein(
        problem.target_features,
        problem.scale.transform(features),
        derive_rng(seed, "fit/directions"),
    )


def _compute_ends(
    estimate: FactorEstimate, parameters: Mapping[str, float] | None
) -> tuple[float, float]:
    """Return the positions of both ends of a range; of the widest range without parameters."""
    assert estimate.interval is not None  # only such factors are searched
    low, high = estimate.interval
    down, up = (
        1.0 if parameters is None else parameters[f"{estimate.path}/{e}"] for e in ("low", "high")
    )
    return low + down * min(0.0, -low), high + up * max(0.0, 1 - high)


def _measure_gap(
    real_features: Floats, render_features: ImageFeatures, scale: FeatureScaler, seed: int
) -> HeldOutGap:
    renders = scale.transform(render_features.features)
    rng = derive_rng(seed, "fit/check")
    return HeldOutGap(
        measure_domain_gap(real_features, renders, rng),
        measure_coverage(real_features, renders, rng),
        render_features.images,
    )


def _summarize_range(
    factor_range: FactorRange, estimate: FactorEstimate, fitted: Distribution | None
) -> FittedRange:
    interval = None
    if estimate.interval is not None:
        low, high = map(factor_range.from_position, estimate.interval)
        interval = low, high
    original = factor_range.distribution
    result: Any = original if fitted is None else fitted
    return FittedRange(
        estimate, to_toml(original), to_toml(result), interval,
        (original.low, original.high), (result.low, result.high),
    )  # fmt: skip


def _shrink_recipe(recipe: Recipe) -> Recipe:
    width = min(FEATURE_WIDTH_PX, recipe.render.width)
    height = round(recipe.render.height * width / recipe.render.width)
    render = replace(recipe.render, width=width, height=height, views=1, channels=(), sequence=None)
    return replace(recipe, render=render)


def _select_coarse_features(features: Floats, options: FitOptions) -> Floats:
    """Return the features that small images determine; all features of a detector."""
    if options.weights is not None:
        return features
    return features[:, [*select_statistics("color"), *select_statistics("structure")]]
