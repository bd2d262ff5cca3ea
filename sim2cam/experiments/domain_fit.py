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
    GapStep,
    Progress,
    Rgb,
    Seen,
    gap_ladders,
    looks_by,
    looks_of,
    telling,
)
from sim2cam.experiments.factor_estimates import Told, told_by
from sim2cam.experiments.search import Trial, open_study, search
from sim2cam.files import write_bytes
from sim2cam.metrics.coverage import Coverage, coverage_of
from sim2cam.metrics.image_statistics import aspect_of
from sim2cam.metrics.two_sample import LEAST_PICTURES, Gap, Scale, gap_of, scale_of, sliced_value
from sim2cam.pipeline.recipe import Recipe
from sim2cam.randomize.distributions import Distribution, as_toml
from sim2cam.randomize.domain import Domain
from sim2cam.randomize.domain_ranges import Range, ranges_of, with_distributions
from sim2cam.scene.image_formation import Step
from sim2cam.seeds import stream

Floats = NDArray[np.float64]
Look = Callable[[Domain, int, int], Seen]
"""Gives what is seen of a domain's scenes, by seed and count."""

WIDTH_PX = 256
"""Width to which pictures are shrunk: small enough that grain and sharpness are gone, which belong to
the camera and are measured by ``calibrate``."""

WIDTH_PRICE = 0.15
"""Share of the distance at the start that it must save to narrow all ranges to nothing."""

LADDER_SCENES = 32
_STEPS: tuple[tuple[Step, ...]] = (("lens", "exposure", "tone"),)
_SHOWN = 6
_LOOKED = 4  # times as many renders as a trial has say how looks go with what is drawn
_UNSETTLED = 10.0  # cost of ranges whose scenes do not settle
_FRESH = 2  # times as many measure what came of it


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
        told: what captures tell of it.
        asked, fitted: distributions as a recipe writes them; the same where captures do not tell.
        shown: values between which captures lie; None where they do not tell.
        before, after: lower and upper end.
    """

    told: Told
    asked: str
    fitted: str
    shown: tuple[float, float] | None
    before: tuple[float, float]
    after: tuple[float, float]

    def to_json(self) -> dict[str, Any]:
        """Returns all of it as JSON values."""
        return {
            "factor": self.told.path,
            "told_share": self.told.share,
            "shown": self.shown,
            "before": self.before,
            "after": self.after,
        }


@dataclass(frozen=True, eq=False)
class Side:
    """How renders lie to captures that nothing was fitted to.

    Attributes:
        gap: between them.
        coverage: of the captures.
        pictures: some renders.
    """

    gap: Gap
    coverage: Coverage
    pictures: tuple[Rgb, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Returns the measures as JSON values."""
        return {**self.gap.to_json(), "coverage": self.coverage.to_json()}


@dataclass(frozen=True, eq=False)
class DomainFit:
    """What came of fitting a domain.

    Attributes:
        ranges: before and after.
        before, after: renders of both domains, of scenes that no trial had.
        trials: what was tried.
        distributions: of the factors that changed, by path.
        checked: numbers of the captures that nothing was fitted to.
    """

    ranges: tuple[FittedRange, ...]
    before: Side
    after: Side
    trials: tuple[Trial, ...]
    distributions: Mapping[str, Distribution]
    checked: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """Returns it as JSON values."""
        return {
            "before": self.before.to_json(),
            "after": self.after.to_json(),
            "ranges": [one.to_json() for one in self.ranges],
            "captures": {"checked": len(self.checked)},
            "trials": [
                {"cost": t.cost, **t.facts, "numbers": dict(t.numbers)} for t in self.trials
            ],
        }


@dataclass(frozen=True, eq=False)
class _Aim:
    """What a search is after.

    Attributes:
        domain: at the start.
        ranges: that captures tell of.
        told: of each.
        wanted: looks (n, d) of captures, on the scale.
        scale: of looks.
    """

    domain: Domain
    ranges: tuple[Range, ...]
    told: tuple[Told, ...]
    wanted: Floats
    scale: Scale

    def distributions(self, numbers: Mapping[str, float]) -> dict[str, Distribution]:
        """Returns those of the ranges; each end is between what is shown (0) and the widest (1)."""
        return {
            one.path: one.moved(*_ends(told, numbers))
            for one, told in zip(self.ranges, self.told, strict=True)
        }

    def narrowness(self, numbers: Mapping[str, float]) -> float:
        """Returns how much of the widest ranges is cut off, on average over ranges."""
        cut = []
        for told in self.told:
            (low, high), (least, most) = _ends(told, numbers), _ends(told, None)
            cut.append(1 - (high - low) / (most - least))
        return float(np.mean(cut))


def fit_domain(
    domain: Domain, captures: Floats, seen: Look, root: Path, options: FitOptions,
    facts: Mapping[str, Any], progress: Progress,
) -> DomainFit:  # fmt: skip
    """Returns a domain whose ranges are brought to where captures are.

    Renders of the domain say which of its factors looks tell, and so between which values captures
    lie. No range is made narrower than that; what captures do not tell stays as it is. The search is
    for ranges between the narrowest ones that hold all captures and the widest ones, which hold
    the old ranges too. It fits to every other capture; the rest, with new scenes, measure what came of it.

    Args:
        domain: to begin with.
        captures: looks (n, d).
        seen: shows scenes.
        root: folder in which trials are kept.
        options: how.
        facts: what the trials depend on besides, as JSON values.
        progress: is told how many trials are done.

    Raises:
        BackendError: Optuna is not installed.
        OutputError: trials in the folder depend on something else.
        UsageError: there are too few captures or renders, or no ranges.
    """
    _check(captures, options)
    ranges = ranges_of(domain, options.factors)
    if not ranges:
        raise UsageError(
            "the recipe draws none of the usual factors from a range. Name some with --factors."
        )
    study = open_study(root, facts)
    learned, checked = np.arange(len(captures))[::2], np.arange(len(captures))[1::2]
    first = seen(domain, options.seed, _LOOKED * options.count)
    scale = scale_of(captures[learned], first.looks)
    wanted = scale.of(captures[learned])
    rng = stream(options.seed, "fit")
    told = told_by(wanted, scale.of(first.looks), first.drawn, ranges, rng)
    aim = _Aim(domain, *_searched_among(ranges, told), wanted, scale)
    trials = _trials(aim, study, first, seen, options, progress) if aim.ranges else ()
    changed = aim.distributions(_best(trials)) if trials else {}

    def side(of: Domain) -> Side:
        fresh = seen(of, options.seed + 1, _FRESH * options.count)
        return _side(scale.of(captures[checked]), fresh, scale, options.seed)

    return DomainFit(
        tuple(_fitted(o, t, changed.get(o.path)) for o, t in zip(ranges, told, strict=True)),
        side(domain),
        side(with_distributions(domain, changed)),
        trials,
        changed,
        tuple(checked.tolist()),
    )


def fit_recipe(
    recipe: Recipe, captures: Dataset, root: Path, options: FitOptions, progress: Progress
) -> DomainFit:
    """Returns a recipe's domain brought to where captures are; see ``fit_domain``.

    Raises:
        BackendError: Optuna is not installed.
        InputError: a capture cannot be read.
        OutputError: trials in the folder depend on something else.
        SceneError: a scene does not settle.
        UsageError: there are too few captures or renders, or no ranges.
    """
    small, tell = _small(recipe), telling(options.weights)

    def seen(domain: Domain, seed: int, count: int) -> Seen:
        (found,) = looks_by(
            replace(small, domain=domain), _STEPS, count=count, seed=seed, workers=options.workers,
            progress=lambda done, total: None, tell=tell, keep=_SHOWN,
        )  # fmt: skip
        return replace(found, looks=_coarse(found.looks, options))

    looks = _coarse(looks_of(captures, WIDTH_PX, tell), options)
    digest = hashlib.sha256(np.ascontiguousarray(looks).tobytes()).hexdigest()[:16]
    facts = {
        "recipe": small.digest()[:16],
        "captures": digest,
        "seed": options.seed,
        "count": options.count,
        "factors": list(options.factors),
    }
    return fit_domain(recipe.domain, looks, seen, root, options, facts, progress)


def ladder_after(
    recipe: Recipe, fit: DomainFit, captures: Dataset, options: FitOptions, progress: Progress
) -> tuple[GapStep, ...]:
    """Returns the gap between captures that nothing was fitted to and renders of the fitted recipe, at
    its own size, step by step of its cameras.

    Raises:
        SceneError: a scene does not settle.
    """
    fitted = replace(recipe, domain=with_distributions(recipe.domain, fit.distributions))
    rest = replace(captures, samples=tuple(captures.samples[i] for i in fit.checked))
    (ladder,) = gap_ladders(
        [fitted], rest, count=LADDER_SCENES, seed=options.seed + 1, workers=options.workers,
        progress=progress,
    )  # fmt: skip
    return ladder


def write_recipe(fit: DomainFit, base: str, name: str, out: Path) -> None:
    """Writes the recipe that draws from the fitted ranges.

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
        groups.setdefault(group, []).append(f"{factor} = {as_toml(distribution)}")
    for group, factors in groups.items():
        lines += ["", f"[domain.{group}]", *factors]
    write_bytes(out, ("\n".join(lines) + "\n").encode())


def _check(captures: Floats, options: FitOptions) -> None:
    if len(captures) < 2 * LEAST_PICTURES:
        raise UsageError(
            f"{len(captures)} captures are too few: half of {2 * LEAST_PICTURES} or more are fitted to, "
            "and the rest tell what came of it. Take more photos."
        )
    if options.count < LEAST_PICTURES:
        raise UsageError(f"--count must be {LEAST_PICTURES} or more, not {options.count}")


def _searched_among(
    ranges: Sequence[Range], told: Sequence[Told]
) -> tuple[tuple[Range, ...], tuple[Told, ...]]:
    """Returns the ranges that captures tell of, and what they tell."""
    clear = [(one, t) for one, t in zip(ranges, told, strict=True) if t.shown is not None]
    return tuple(one for one, _ in clear), tuple(t for _, t in clear)


def _best(trials: Sequence[Trial]) -> Mapping[str, float]:
    return min(trials, key=lambda trial: trial.cost).numbers


def _trials(
    aim: _Aim, study: Any, first: Seen, seen: Look, options: FitOptions, progress: Progress
) -> tuple[Trial, ...]:
    start = _distance(aim, first.looks[: options.count], options.seed)

    def tried(numbers: Mapping[str, float]) -> tuple[float, Mapping[str, Any]]:
        domain = with_distributions(aim.domain, aim.distributions(numbers))
        try:
            looks = seen(domain, options.seed, options.count).looks
        except SceneError as error:  # such ranges cannot be drawn from; others can
            return _UNSETTLED, {"problem": str(error)}
        distance = _distance(aim, looks, options.seed)
        narrowness = aim.narrowness(numbers)
        cost = distance / start + WIDTH_PRICE * narrowness
        return cost, {"distance": distance, "narrowness": narrowness}

    names = [f"{one.path}/{end}" for one in aim.ranges for end in ("low", "high")]
    first_tries = [dict.fromkeys(names, level) for level in (1.0, 0.0, 0.5)]
    return search(
        study, names, tried, first=first_tries, count=options.trials, seed=options.seed,
        progress=progress,
    )  # fmt: skip


def _distance(aim: _Aim, looks: Floats, seed: int) -> float:
    # The same directions in every trial: what differs is what was rendered.
    return sliced_value(aim.wanted, aim.scale.of(looks), stream(seed, "fit/directions"))


def _ends(told: Told, numbers: Mapping[str, float] | None) -> tuple[float, float]:
    """Returns places of both ends of a range; the widest without numbers."""
    assert told.shown is not None  # others are not searched
    low, high = told.shown
    down, up = (1.0 if numbers is None else numbers[f"{told.path}/{e}"] for e in ("low", "high"))
    return low + down * min(0.0, -low), high + up * max(0.0, 1 - high)


def _side(wanted: Floats, seen: Seen, scale: Scale, seed: int) -> Side:
    renders = scale.of(seen.looks)
    rng = stream(seed, "fit/check")
    return Side(gap_of(wanted, renders, rng), coverage_of(wanted, renders, rng), seen.pictures)


def _fitted(of: Range, told: Told, fitted: Distribution | None) -> FittedRange:
    shown = None if told.shown is None else (of.value(told.shown[0]), of.value(told.shown[1]))
    now: Any = of.asked if fitted is None else fitted
    return FittedRange(
        told, as_toml(of.asked), as_toml(now), shown,
        (of.asked.low, of.asked.high), (now.low, now.high),
    )  # fmt: skip


def _small(recipe: Recipe) -> Recipe:
    width = min(WIDTH_PX, recipe.render.width)
    height = round(recipe.render.height * width / recipe.render.width)
    return replace(
        recipe,
        render=replace(recipe.render, width=width, height=height, views=1, channels=(), film=None),
    )


def _coarse(looks: Floats, options: FitOptions) -> Floats:
    """Returns what of looks small pictures tell too; a detector's features as they are."""
    if options.weights is not None:
        return looks
    kept: Sequence[int] = np.concatenate([aspect_of("color"), aspect_of("structure")]).tolist()
    return looks[:, kept]
