"""The commands that show what a recipe draws, and bring it to where captures are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from sim2cam.commands.options import (
    Folder,
    Overwrite,
    SkipInvalid,
    Split,
    Talk,
    check_new,
    check_numbers,
)
from sim2cam.errors import UsageError, did_you_mean
from sim2cam.files import locked, prepare_folder

if TYPE_CHECKING:
    from sim2cam.data.sample import Dataset
    from sim2cam.experiments import domain_fit
    from sim2cam.experiments.domain_gap import GapStep
    from sim2cam.pipeline.recipe import Recipe
    from sim2cam.randomize.domain_survey import FactorSurvey
    from sim2cam.report.domain_fit import FitReport, ShownSide
    from sim2cam.report.domain_survey import Pictures
    from sim2cam.report.values import Curves, Rgb

_SHOWN = 6
_FIT_PARTS = ("study.log*", "*-fitted.toml", "fit.json", "fit.html")


@dataclass(frozen=True)
class DomainShow:
    """Draw many scenes of a recipe and write a page of what was drawn against what was asked."""

    recipe: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RECIPE")]
    """Name of a shipped recipe (dice), or a .toml file."""
    count: int = 200
    """Number of scenes that are drawn."""
    pictures: Annotated[str, tyro.conf.arg(metavar="GROUPS")] = "light,exposure,view"
    """Comma-separated groups whose ends are shown in pictures; all, or none."""
    out: Path | None = None
    """The page; without it NAME-domain.html here."""
    overwrite: Overwrite = False
    seed: int = 0
    """Decides every draw."""
    talk: Talk = field(default_factory=Talk)

    def execute(self) -> None:
        """Writes the page."""
        from sim2cam.pipeline.recipe import load_recipe
        from sim2cam.randomize.domain_survey import survey
        from sim2cam.report.domain_survey import write_domain_page

        if self.count < 1:
            raise UsageError(f"--count must be 1 or more, not {self.count}")
        check_numbers(seed=self.seed)
        recipe = load_recipe(self.recipe)
        out = self.out or Path(f"{recipe.name}-domain.html")
        check_new(out, overwrite=self.overwrite, inputs=[Path(self.recipe)])
        factors = survey(recipe.domain, self.seed, count=self.count, views=1)
        pictures = self._pictures(recipe, factors)
        page = write_domain_page(recipe.name, self.count, factors, pictures, out)
        self.talk.tell(f"page: {page}", page=str(page))

    def _pictures(self, recipe: Recipe, factors: tuple[FactorSurvey, ...]) -> Pictures:
        from sim2cam.experiments.factor_extremes import ends_of, pictures_at_ends
        from sim2cam.randomize.distributions import case_name

        chosen = [factor for factor in factors if factor.group in self._groups(factors)]
        total = sum(len(ends_of(factor)) for factor in chosen)
        progress = self.talk.console().progress("pictures")
        found = defaultdict(list)
        for done, picture in enumerate(pictures_at_ends(recipe, self.seed, chosen), start=1):
            progress(done, total)
            if picture is not None:
                value = picture.value
                text = f"{value:.4g}" if isinstance(value, float) else case_name(value)
                found[picture.group, picture.factor].append((text, picture.rgb))
        return found

    def _groups(self, factors: tuple[FactorSurvey, ...]) -> set[str]:
        known = dict.fromkeys(factor.group for factor in factors)
        if self.pictures in ("all", "none"):
            return set(known) if self.pictures == "all" else set()
        names = {name for name in self.pictures.split(",") if name}
        for name in names - set(known):
            raise UsageError(f"--pictures: unknown group '{name}'. {did_you_mean(name, known)}")
        return names


@dataclass(frozen=True)
class DomainFit:
    """Bring a recipe's ranges of light, texture, number, size and pose to where captures are, as wide
    as these leave them, and write the recipe and a page.
    """

    recipe: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RECIPE")]
    """Name of a shipped recipe (dice), or a .toml file."""
    captures: Path
    """Captures: a folder of photos, or a COCO file (its labels are not read)."""
    out: Path
    """Folder of the trials, the recipe NAME-fitted.toml and the page."""
    trials: int = 40
    """Ranges that are tried."""
    count: int = 64
    """Renders of a trial."""
    factors: Annotated[str, tyro.conf.arg(metavar="NAMES")] = ""
    """Comma-separated groups and factors, as light,view/tilt_rad; the usual ones without it."""
    weights: Path | None = None
    """Of a detector whose trunk then tells pictures apart, instead of measures of their look."""
    limit: int | None = None
    """Read only so many captures."""
    seed: int = 0
    """Decides the scenes, and what is tried."""
    workers: int = 1
    """Processes; each trial starts them anew."""
    folder: Folder = field(default_factory=Folder)
    split: Split = None
    skip_invalid: SkipInvalid = False
    talk: Talk = field(default_factory=Talk)

    def execute(self) -> None:
        """Fits, and writes what came of it."""
        from sim2cam.data.parts import LOOK
        from sim2cam.data.real_images import read_captures
        from sim2cam.experiments.domain_fit import FitOptions
        from sim2cam.pipeline.recipe import load_recipe

        check_numbers(seed=self.seed, workers=self.workers, limit=self.limit)
        if self.trials < 1:
            raise UsageError(f"--trials must be 1 or more, not {self.trials}")
        recipe = load_recipe(self.recipe)
        captures = read_captures(
            self.captures, skip_invalid=self.skip_invalid, split=self.split, uses=LOOK
        ).take(self.limit)
        names = tuple(name for name in self.factors.split(",") if name)
        options = FitOptions(self.trials, self.count, self.seed, names, self.weights, self.workers)
        with locked(self.out):
            prepare_folder(
                self.out,
                _FIT_PARTS,
                "a fit",
                resume=self.folder.resume,
                overwrite=self.folder.overwrite,
            )
            self._fit(recipe, captures, options)

    def _fit(self, recipe: Recipe, captures: Dataset, options: domain_fit.FitOptions) -> None:
        from sim2cam.data.writer import write_json
        from sim2cam.experiments.domain_fit import fit_recipe, ladder_after, write_recipe
        from sim2cam.report.domain_fit import write_fit_page

        console = self.talk.console()
        console.say("renders tell first which factors looks tell; then ranges are tried")
        fit = fit_recipe(recipe, captures, self.out, options, console.progress("trials"))
        ladder = ladder_after(recipe, fit, captures, options, console.progress("gap"))
        name = f"{recipe.name}-fitted"
        toml = self.out / f"{name}.toml"
        write_recipe(fit, self.recipe, name, toml)
        facts = {**fit.to_json(), "ladder": [step.to_json() for step in ladder]}
        write_json(self.out / "fit.json", facts)
        page = write_fit_page(_report(recipe.name, fit, captures, ladder), self.out / "fit.html")
        self.talk.tell(
            f"{_words(fit)}\nrecipe: {toml}\npage: {page}",
            recipe=str(toml),
            page=str(page),
            **facts,
        )


def _words(fit: domain_fit.DomainFit) -> str:
    """Returns what changed, a line each."""
    moved = [
        f"{one.told.path}: {_range(one.before)} -> {_range(one.after)}"
        for one in fit.ranges
        if one.shown is not None
    ]
    lines = moved or ["the captures tell none of the factors: all ranges stay"]
    for name in ("auc", "sliced"):
        before, after = (getattr(side.gap, name).value for side in (fit.before, fit.after))
        lines.append(f"{name}: {before:.3f} -> {after:.3f}")
    covered = (side.coverage.coverage.value for side in (fit.before, fit.after))
    return "\n".join([*lines, "coverage: {:.3f} -> {:.3f}".format(*covered)])


def _range(ends: tuple[float, float]) -> str:
    return f"{ends[0]:.4g} to {ends[1]:.4g}"


def _report(
    name: str, fit: domain_fit.DomainFit, captures: Dataset, ladder: tuple[GapStep, ...]
) -> FitReport:
    """Returns what the page shows of a fit."""
    from sim2cam.report.domain_fit import FitReport, ShownRange, ShownStep

    checked = [captures.samples[i].rgb for i in fit.checked]
    far = [checked[i] for i, near in enumerate(fit.after.coverage.covered) if not near]
    return FitReport(
        name,
        tuple(
            ShownRange(one.told.path, one.told.share, one.before, one.after, one.shown)
            for one in fit.ranges
        ),
        _side(fit.before),
        _side(fit.after),
        _pictures(checked),
        _pictures(far),
        _curves(fit),
        tuple(ShownStep(step.step, step.gap, step.aspects, step.imprints) for step in ladder),
    )


def _side(side: domain_fit.Side) -> ShownSide:
    from sim2cam.report.domain_fit import ShownSide

    return ShownSide(side.gap, side.coverage, side.pictures)


def _pictures(paths: Sequence[Path]) -> tuple[Rgb, ...]:
    """Returns a few pictures, evenly from all."""
    from sim2cam import images

    return tuple(images.read_rgb(path) for path in paths[:: max(1, len(paths) // _SHOWN)][:_SHOWN])


def _curves(fit: domain_fit.DomainFit) -> Curves:
    from sim2cam.report.values import Curves, Series

    numbers = tuple(float(i) for i in range(len(fit.trials)))
    costs = [trial.cost for trial in fit.trials]
    best = tuple(min(costs[: i + 1]) for i in range(len(costs)))
    return Curves(
        "trials",
        "cost",
        (Series("cost", numbers, tuple(costs)), Series("best so far", numbers, best)),
    )
