"""Fitting a domain: its ranges brought to where captures are, as wide as the captures leave them."""

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
    Progress,
    Rgb,
    StageGap,
    extract_real_features,
    extract_render_features,
    measure_stage_gaps,
    select_featurizer,
)
from sim2cam.experiments.factor_estimates import FactorEstimate, estimate_factors
from sim2cam.experiments.search import Trial, open_study, search
from sim2cam.files import write_bytes
from sim2cam.metrics.coverage import Coverage, measure_coverage
from sim2cam.metrics.image_statistics import select_statistics
from sim2cam.metrics.two_sample import (
    MIN_IMAGES,
    DomainGap,
    FeatureScaler,
    compute_sliced_wasserstein,
    fit_feature_scaler,
    measure_domain_gap,
)
from sim2cam.pipeline.recipe import Recipe
from sim2cam.randomize.distributions import Distribution, to_toml
from sim2cam.randomize.domain import Domain
from sim2cam.randomize.domain_ranges import FactorRange, find_ranges, replace_distributions
from sim2cam.scene.image_formation import FormationStage
from sim2cam.seeds import derive_rng

Floats = NDArray[np.float64]
FeatureSampler = Callable[[Domain, int, int], ImageFeatures]
"""Gives what is seen of a domain's scenes, by seed and count."""

FEATURE_WIDTH_PX = 256
"""Width to which pictures are shrunk: small enough that grain and sharpness are gone, which belong to
the camera and are measured by ``calibrate``."""

NARROWING_PENALTY = 0.15
"""Share of the distance at the start that it must save to narrow all ranges to nothing."""

GAP_SCENES = 32
_STAGES: tuple[tuple[FormationStage, ...]] = (("lens", "exposure", "tone"),)
_IMAGE_COUNT = 6
_REGRESSION_FACTOR = 4  # times as many renders as a trial has say how looks go with what is drawn
_UNSETTLED_COST = 10.0  # cost of ranges whose scenes do not settle
_HELD_OUT_FACTOR = 2  # times as many measure what came of it


@dataclass(frozen=True)
class FitOptions:
    """How a domain is fitted.

    Attributes:
        trials: of ranges.
        count: renders of a trial.
        seed: decides the scenes, and what is tried.
        factors: groups and factors that are looked at; the usual ones without any.
        weights: of a detector whose trunk looks at pictures; None for ``measure.look``.
        workers: processes.
    """

    trials: int
    count: int
    seed: int
    factors: tuple[str, ...] = ()
    weights: Path | None = None
    workers: int = 1


@dataclass(frozen=True)
class FittedRange:
    """A range before and after.

    Attributes:
        estimate: what captures tell of it.
        original, fitted: distributions as a recipe writes them; the same where captures do not tell.
        interval: values between which captures lie; None where they do not tell.
        before, after: lower and upper end.
    """

    estimate: FactorEstimate
    original: str
    fitted: str
    interval: tuple[float, float] | None
    before: tuple[float, float]
    after: tuple[float, float]

    def to_json(self) -> dict[str, Any]:
        """Return all of it as JSON values."""
        return {
            "factor": self.estimate.path,
            "loo_r2": self.estimate.loo_r2,
            "interval": self.interval,
            "before": self.before,
            "after": self.after,
        }


@dataclass(frozen=True, eq=False)
class HeldOutGap:
    """How renders lie to captures that nothing was fitted to.

    Attributes:
        gap: between them.
        coverage: of the captures.
        images: some renders.
    """

    gap: DomainGap
    coverage: Coverage
    images: tuple[Rgb, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the measures as JSON values."""
        return {**self.gap.to_json(), "coverage": self.coverage.to_json()}


@dataclass(frozen=True, eq=False)
class DomainFit:
    """What came of fitting a domain.

    Attributes:
        ranges: before and after.
        before, after: renders of both domains, of scenes that no trial had.
        trials: what was tried.
        distributions: of the factors that changed, by path.
        held_out: numbers of the captures that nothing was fitted to.
    """

    ranges: tuple[FittedRange, ...]
    before: HeldOutGap
    after: HeldOutGap
    trials: tuple[Trial, ...]
    distributions: Mapping[str, Distribution]
    held_out: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "before": self.before.to_json(),
            "after": self.after.to_json(),
            "ranges": [one.to_json() for one in self.ranges],
            "captures": {"held_out": len(self.held_out)},
            "trials": [
                {"cost": t.cost, **t.metadata, "parameters": dict(t.parameters)}
                for t in self.trials
            ],
        }


@dataclass(frozen=True, eq=False)
class _SearchProblem:
    """What a search is after.

    Attributes:
        domain: at the start.
        ranges: that captures tell of.
        estimates: of each.
        target_features: looks (n, d) of captures, on the scale.
        scale: of looks.
    """

    domain: Domain
    ranges: tuple[FactorRange, ...]
    estimates: tuple[FactorEstimate, ...]
    target_features: Floats
    scale: FeatureScaler

    def build_distributions(self, parameters: Mapping[str, float]) -> dict[str, Distribution]:
        """Return those of the ranges; each end is between what is shown (0) and the widest (1)."""
        return {
            one.path: one.rescale(*_compute_ends(told, parameters))
            for one, told in zip(self.ranges, self.estimates, strict=True)
        }

    def compute_narrowness(self, parameters: Mapping[str, float]) -> float:
        """Return how much of the widest ranges is cut off, on average over ranges."""
        cut = []
        for told in self.estimates:
            (low, high), (least, most) = _compute_ends(told, parameters), _compute_ends(told, None)
            cut.append(1 - (high - low) / (most - least))
        return float(np.mean(cut))


def fit_domain(
    domain: Domain, real_features: Floats, sample_features: FeatureSampler, root: Path, options: FitOptions,
    settings: Mapping[str, Any], progress: Progress,
) -> DomainFit:  # fmt: skip
    """Return a domain whose ranges are brought to where captures are.

    Renders of the domain say which of its factors looks tell, and so between which values captures
    lie. No range is made narrower than that; what captures do not tell stays as it is. The search is
    for ranges between the narrowest ones that hold all captures and the widest ones, which hold
    the old ranges too. It fits to every other capture; the rest, with new scenes, measure what came of it.

    Args:
        domain: to begin with.
        real_features: looks (n, d).
        sample_features: shows scenes.
        root: folder in which trials are kept.
        options: how.
        settings: what the trials depend on besides, as JSON values.
        progress: is told how many trials are done.

    Raises:
        BackendError: Optuna is not installed.
        OutputError: trials in the folder depend on something else.
        UsageError: there are too few captures or renders, or no ranges.
    """
    _check_counts(real_features, options)
    ranges = find_ranges(domain, options.factors)
    if not ranges:
        raise UsageError(
            "the recipe draws none of the usual factors from a range. Name some with --factors."
        )
    study = open_study(root, settings)
    learned, checked = np.arange(len(real_features))[::2], np.arange(len(real_features))[1::2]
    first = sample_features(domain, options.seed, _REGRESSION_FACTOR * options.count)
    scale = fit_feature_scaler(real_features[learned], first.features)
    wanted = scale.transform(real_features[learned])
    rng = derive_rng(options.seed, "fit")
    told = estimate_factors(
        wanted, scale.transform(first.features), first.sampled_values, ranges, rng
    )
    aim = _SearchProblem(domain, *_select_searchable(ranges, told), wanted, scale)
    trials = (
        _run_trials(aim, study, first, sample_features, options, progress) if aim.ranges else ()
    )
    changed = aim.build_distributions(_select_best_parameters(trials)) if trials else {}

    def measure_held_out(evaluated_domain: Domain) -> HeldOutGap:
        fresh = sample_features(
            evaluated_domain, options.seed + 1, _HELD_OUT_FACTOR * options.count
        )
        return _measure_gap(scale.transform(real_features[checked]), fresh, scale, options.seed)

    return DomainFit(
        tuple(
            _summarize_range(o, t, changed.get(o.path)) for o, t in zip(ranges, told, strict=True)
        ),
        measure_held_out(domain),
        measure_held_out(replace_distributions(domain, changed)),
        trials,
        changed,
        tuple(checked.tolist()),
    )


def fit_recipe(
    recipe: Recipe, captures: Dataset, root: Path, options: FitOptions, progress: Progress
) -> DomainFit:
    """Return a recipe's domain brought to where captures are; see ``fit_domain``.

    Raises:
        BackendError: Optuna is not installed.
        InputError: a capture cannot be read.
        OutputError: trials in the folder depend on something else.
        SceneError: a scene does not settle.
        UsageError: there are too few captures or renders, or no ranges.
    """
    small, tell = _shrink_recipe(recipe), select_featurizer(options.weights)

    def sample_features(domain: Domain, seed: int, count: int) -> ImageFeatures:
        (found,) = extract_render_features(
            replace(small, domain=domain), _STAGES, count=count, seed=seed, workers=options.workers,
            progress=lambda done, total: None, featurizer=tell, keep_count=_IMAGE_COUNT,
        )  # fmt: skip
        return replace(found, features=_select_coarse_features(found.features, options))

    looks = _select_coarse_features(
        extract_real_features(captures, FEATURE_WIDTH_PX, tell), options
    )
    digest = hashlib.sha256(np.ascontiguousarray(looks).tobytes()).hexdigest()[:16]
    facts = {
        "recipe": small.digest()[:16],
        "captures": digest,
        "seed": options.seed,
        "count": options.count,
        "factors": list(options.factors),
    }
    return fit_domain(recipe.domain, looks, sample_features, root, options, facts, progress)


def measure_fitted_gap(
    recipe: Recipe, fit: DomainFit, captures: Dataset, options: FitOptions, progress: Progress
) -> tuple[StageGap, ...]:
    """Return the gap between captures that nothing was fitted to and renders of the fitted recipe, at
    its own size, step by step of its cameras.

    Raises:
        SceneError: a scene does not settle.
    """
    fitted = replace(recipe, domain=replace_distributions(recipe.domain, fit.distributions))
    rest = replace(captures, samples=tuple(captures.samples[i] for i in fit.held_out))
    (ladder,) = measure_stage_gaps(
        [fitted], rest, count=GAP_SCENES, seed=options.seed + 1, workers=options.workers,
        progress=progress,
    )  # fmt: skip
    return ladder


def write_recipe(fit: DomainFit, base: str, name: str, out: Path) -> None:
    """Write the recipe that draws from the fitted ranges.

    Args:
        fit: whose ranges it has.
        base: recipe that they change, by its shipped name or its path.
        name: of the new recipe.
        out: file.

    Raises:
        OutputError: the file cannot be written.
    """
    is_file = Path(base).suffix == ".toml"
    under = Path(os.path.relpath(base, out.parent)).as_posix() if is_file else base
    lines = [
        f"# {Path(base).stem} with ranges brought to where captures are; `sim2cam domain fit` wrote it.",
        f"base = {json.dumps(under)}",
        f"name = {json.dumps(name)}",
    ]
    groups: dict[str, list[str]] = {}
    for path, distribution in fit.distributions.items():
        group, factor = path.split("/")
        groups.setdefault(group, []).append(f"{factor} = {to_toml(distribution)}")
    for group, factors in groups.items():
        lines += ["", f"[domain.{group}]", *factors]
    write_bytes(out, ("\n".join(lines) + "\n").encode())


def _check_counts(real_features: Floats, options: FitOptions) -> None:
    if len(real_features) < 2 * MIN_IMAGES:
        raise UsageError(
            f"{len(real_features)} captures are too few: half of {2 * MIN_IMAGES} or more are fitted to, "
            "and the rest tell what came of it. Take more photos."
        )
    if options.count < MIN_IMAGES:
        raise UsageError(f"--count must be {MIN_IMAGES} or more, not {options.count}")


def _select_searchable(
    ranges: Sequence[FactorRange], estimates: Sequence[FactorEstimate]
) -> tuple[tuple[FactorRange, ...], tuple[FactorEstimate, ...]]:
    """Return the ranges that captures tell of, and what they tell."""
    clear = [(one, t) for one, t in zip(ranges, estimates, strict=True) if t.interval is not None]
    return tuple(one for one, _ in clear), tuple(t for _, t in clear)


def _select_best_parameters(trials: Sequence[Trial]) -> Mapping[str, float]:
    return min(trials, key=lambda trial: trial.cost).parameters


def _run_trials(
    problem: _SearchProblem,
    study: Any,
    initial_features: ImageFeatures,
    sample_features: FeatureSampler,
    options: FitOptions,
    progress: Progress,
) -> tuple[Trial, ...]:
    start = _compute_distance(problem, initial_features.features[: options.count], options.seed)

    def compute_cost(parameters: Mapping[str, float]) -> tuple[float, Mapping[str, Any]]:
        domain = replace_distributions(problem.domain, problem.build_distributions(parameters))
        try:
            looks = sample_features(domain, options.seed, options.count).features
        except SceneError as error:  # such ranges cannot be drawn from; others can
            return _UNSETTLED_COST, {"problem": str(error)}
        distance = _compute_distance(problem, looks, options.seed)
        narrowness = problem.compute_narrowness(parameters)
        cost = distance / start + NARROWING_PENALTY * narrowness
        return cost, {"distance": distance, "narrowness": narrowness}

    names = [f"{one.path}/{end}" for one in problem.ranges for end in ("low", "high")]
    first_tries = [dict.fromkeys(names, level) for level in (1.0, 0.0, 0.5)]
    return search(
        study, names, compute_cost, initial_trials=first_tries, count=options.trials, seed=options.seed,
        progress=progress,
    )  # fmt: skip


def _compute_distance(problem: _SearchProblem, features: Floats, seed: int) -> float:
    # The same directions in every trial: what differs is what was rendered.
    return compute_sliced_wasserstein(
        problem.target_features,
        problem.scale.transform(features),
        derive_rng(seed, "fit/directions"),
    )


def _compute_ends(
    estimate: FactorEstimate, parameters: Mapping[str, float] | None
) -> tuple[float, float]:
    """Return places of both ends of a range; the widest without numbers."""
    assert estimate.interval is not None  # others are not searched
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
    shown = (
        None
        if estimate.interval is None
        else (
            factor_range.from_position(estimate.interval[0]),
            factor_range.from_position(estimate.interval[1]),
        )
    )
    now: Any = factor_range.distribution if fitted is None else fitted
    return FittedRange(
        estimate, to_toml(factor_range.distribution), to_toml(now), shown,
        (factor_range.distribution.low, factor_range.distribution.high), (now.low, now.high),
    )  # fmt: skip


def _shrink_recipe(recipe: Recipe) -> Recipe:
    width = min(FEATURE_WIDTH_PX, recipe.render.width)
    height = round(recipe.render.height * width / recipe.render.width)
    return replace(
        recipe,
        render=replace(
            recipe.render, width=width, height=height, views=1, channels=(), sequence=None
        ),
    )


def _select_coarse_features(features: Floats, options: FitOptions) -> Floats:
    """Return what of looks small pictures tell too; a detector's features as they are."""
    if options.weights is not None:
        return features
    kept: Sequence[int] = np.concatenate(
        [select_statistics("color"), select_statistics("structure")]
    ).tolist()
    return features[:, kept]
