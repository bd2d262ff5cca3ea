"""Commands ``domain show`` and ``domain fit``: the distributions of a recipe."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from sim2cam.commands.options import (
    Argument,
    FolderOptions,
    Option,
    OutputOptions,
    Overwrite,
    Rare,
    Seed,
    SkipInvalid,
    Split,
    check_inputs,
    check_numbers,
    check_output_files,
)
from sim2cam.commands.results import PageResult, Result, format_command
from sim2cam.errors import UsageError, suggest_name
from sim2cam.files import lock_folder, prepare_folder

if TYPE_CHECKING:
    from sim2cam.data.sample import Dataset
    from sim2cam.experiments import domain_fit
    from sim2cam.experiments.object_fit import ObjectFit
    from sim2cam.metrics.gaps import StageGap
    from sim2cam.pipeline.recipe import Recipe
    from sim2cam.randomize.domain_survey import FactorHistogram
    from sim2cam.report.domain_fit import FitReport
    from sim2cam.report.domain_survey import RangeEndImages
    from sim2cam.report.values import Curves, Rgb

_IMAGE_COUNT = 6
_MAX_COUNT = 100_000
_FIT_FILES = ("study.log*", "*-fitted.toml", "fit.json", "fit.html")


@dataclass(frozen=True)
class DomainShow:
    """Write a page of the distributions of a recipe.

    Compares sampled scenes with the distributions.
    """

    recipe: Annotated[str, Argument("RECIPE")]
    """Name of a shipped recipe (dice) or .toml file."""
    count: int = 200
    """Number of sampled scenes."""
    images: Annotated[str, Option("GROUPS")] = "light,exposure,view"
    """Comma-separated groups whose range ends are rendered; all or none."""
    out: Path | None = None
    """Output page; default: NAME-domain.html in the current folder."""
    overwrite: Overwrite = False
    seed: Seed = 0
    output: OutputOptions = field(default_factory=OutputOptions)

    def run(self) -> PageResult:
        """Write the page."""
        if not 1 <= self.count <= _MAX_COUNT:
            raise UsageError(f"--count must be 1 to {_MAX_COUNT}, not {self.count}")
        check_numbers(seed=self.seed)
        check_inputs(recipe=self.recipe)

        from sim2cam.pipeline.recipe import load_recipe
        from sim2cam.randomize.domain_survey import sample_factor_histograms
        from sim2cam.report.domain_survey import write_domain_page

        recipe = load_recipe(self.recipe)
        out = self.out or Path(f"{recipe.name}-domain.html")
        check_output_files(out, overwrite=self.overwrite, inputs=[Path(self.recipe)])
        factors = sample_factor_histograms(recipe.domain, self.seed, count=self.count, views=1)
        range_ends = self._render_range_ends(recipe, factors)
        page = write_domain_page(recipe.name, self.count, factors, range_ends, out)
        return PageResult(page, format_command("render", self.recipe, "--preview"))

    def _render_range_ends(
        self, recipe: Recipe, factors: tuple[FactorHistogram, ...]
    ) -> RangeEndImages:
        from sim2cam.experiments.factor_extremes import list_extremes, render_factor_extremes
        from sim2cam.randomize.distributions import format_case

        selected = [factor for factor in factors if factor.group in self._select_groups(factors)]
        total = sum(len(list_extremes(factor)) for factor in selected)
        images = defaultdict(list)
        with self.output.make_console().show_progress("rendering") as stages:
            progress = stages("rendering")
            for done, extreme in enumerate(
                render_factor_extremes(recipe, self.seed, selected), start=1
            ):
                progress(done, total)
                if extreme is not None:
                    value = extreme.value
                    text = f"{value:.4g}" if isinstance(value, float) else format_case(value)
                    images[extreme.group, extreme.factor].append((text, extreme.rgb))
        return images

    def _select_groups(self, factors: tuple[FactorHistogram, ...]) -> set[str]:
        groups = dict.fromkeys(factor.group for factor in factors)
        if self.images in ("all", "none"):
            return set(groups) if self.images == "all" else set()
        names = {name for name in self.images.split(",") if name}
        for name in names - set(groups):
            raise UsageError(f"--images: unknown group '{name}'. {suggest_name(name, groups)}")
        return names


@dataclass(frozen=True)
class DomainFit:
    """Fit the ranges of a recipe to real images.

    Fits light, texture, number, size and pose. Writes the fitted recipe and a page. With --detector, widens the ranges of
    size and number only, to cover the objects that the detector finds; takes one round of renders instead of trials.
    """

    recipe: Annotated[str, Argument("RECIPE")]
    """Name of a shipped recipe (dice) or .toml file."""
    captures: Path
    """Real images: folder of photos, or COCO file (labels are ignored)."""
    out: Path
    """Folder of the recipe NAME-fitted.toml; without --detector also of the trials and the page."""
    trials: int = 40
    """Number of trials; not used with --detector."""
    count: int = 64
    """Number of renders, per trial without --detector."""
    factors: Rare[Annotated[str, Option("NAMES")]] = ""
    """Comma-separated groups and factors, such as light,view/tilt_rad; default: light, texture, number, size and pose."""
    weights: Rare[Path | None] = None
    """Detector whose backbone features measure the domain gap; default: image statistics."""
    detector: Annotated[Path | None, Option("WEIGHTS")] = None
    """Detector whose detections in the real images give object sizes and numbers; its input scale is selected without labels."""
    limit: int | None = None
    """Read at most this many real images."""
    seed: int = 0
    """Random seed of the scenes and the search."""
    workers: int = 1
    """Number of processes, started again for each trial."""
    folder: FolderOptions = field(default_factory=FolderOptions)
    split: Split = None
    skip_invalid: SkipInvalid = False
    output: OutputOptions = field(default_factory=OutputOptions)

    def run(self) -> DomainFitResult | ObjectFitResult:
        """Fit the recipe, and write it and the page."""
        check_numbers(seed=self.seed, workers=self.workers, limit=self.limit)
        if self.trials < 1:
            raise UsageError(f"--trials must be 1 or more, not {self.trials}")
        if self.detector is not None and (self.factors or self.weights is not None):
            raise UsageError(
                "--detector fits sizes and numbers only. Remove it, or --factors and --weights."
            )
        check_inputs(self.captures, recipe=self.recipe, weights=self.weights or self.detector)

        from sim2cam.data.real_images import read_real_images
        from sim2cam.data.splits import STYLE
        from sim2cam.experiments.domain_fit import FitOptions
        from sim2cam.pipeline.recipe import load_recipe

        recipe = load_recipe(self.recipe)
        captures = read_real_images(
            self.captures, skip_invalid=self.skip_invalid, split=self.split, roles=STYLE
        ).take(self.limit)
        names = tuple(name for name in self.factors.split(",") if name)
        options = FitOptions(self.trials, self.count, self.seed, names, self.weights, self.workers)
        with lock_folder(self.out):
            prepare_folder(
                self.out,
                _FIT_FILES,
                "a fit",
                resume=self.folder.resume,
                overwrite=self.folder.overwrite,
            )
            if self.detector is not None:
                return self._fit_objects(recipe, captures, self.detector)
            return self._fit(recipe, captures, options)

    def _fit_objects(self, recipe: Recipe, captures: Dataset, weights: Path) -> ObjectFitResult:
        from sim2cam.data.writer import write_json
        from sim2cam.experiments.domain_fit import write_recipe
        from sim2cam.experiments.object_fit import fit_objects, render_objects
        from sim2cam.models.inference.detector import load_detector, set_input_scale
        from sim2cam.models.reliability.scale_selection import select_input_scale
        from sim2cam.models.shipped_weights import resolve_weights

        detector = load_detector(resolve_weights(weights))
        with self.output.make_console().show_progress("input scales", "rendering") as stages:
            selection = select_input_scale(detector, captures, progress=stages("input scales"))
            fit = fit_objects(
                recipe,
                set_input_scale(detector, selection.input_scale),
                captures,
                partial(
                    render_objects,
                    count=self.count,
                    seed=self.seed,
                    workers=self.workers,
                    progress=stages("rendering"),
                ),
            )
        name = f"{recipe.name}-fitted"
        toml = self.out / f"{name}.toml"
        write_recipe(fit.distributions, self.recipe, name, toml)
        write_json(self.out / "fit.json", fit.to_json())
        return ObjectFitResult(toml, fit)

    def _fit(
        self, recipe: Recipe, captures: Dataset, options: domain_fit.FitOptions
    ) -> DomainFitResult:
        from sim2cam.data.writer import write_json
        from sim2cam.experiments.domain_fit import fit_recipe, measure_fitted_gap, write_recipe
        from sim2cam.report.domain_fit import write_fit_page

        console = self.output.make_console()
        console.info("select factors that image statistics can estimate, then fit their ranges")
        with console.show_progress("trials", "domain gap") as stages:
            fit = fit_recipe(recipe, captures, self.out, options, stages("trials"))
            gap_stages = measure_fitted_gap(recipe, fit, captures, options, stages("domain gap"))
        name = f"{recipe.name}-fitted"
        toml = self.out / f"{name}.toml"
        write_recipe(fit.distributions, self.recipe, name, toml)
        record = {**fit.to_json(), "gap_stages": [step.to_json() for step in gap_stages]}
        write_json(self.out / "fit.json", record)
        page = write_fit_page(
            _build_report(recipe.name, fit, captures, gap_stages), self.out / "fit.html"
        )
        return DomainFitResult(toml, page, fit, record)


@dataclass(frozen=True)
class DomainFitResult(Result):
    """Fitted recipe.

    Attributes:
        recipe: Fitted recipe file.
        page: Page of the fit.
        fit: Fitted ranges, trials and domain gaps.
        record: Content of ``fit.json``.
    """

    recipe: Path
    page: Path
    fit: domain_fit.DomainFit
    record: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return the record with the paths of recipe and page."""
        return {"recipe": str(self.recipe), "page": str(self.page), **self.record}

    def summary(self) -> str:
        """Return changed ranges, domain gaps and paths."""
        return f"{_summarize_fit(self.fit)}\nrecipe: {self.recipe}\npage: {self.page}"

    @property
    def next_step(self) -> str:
        """Command that shows scenes of the fitted recipe."""
        return format_command("render", self.recipe, "--preview")


@dataclass(frozen=True)
class ObjectFitResult(Result):
    """Recipe with widened ranges of object size and number.

    Attributes:
        recipe: Fitted recipe file.
        fit: Ranges, and the objects found and rendered.
    """

    recipe: Path
    fit: ObjectFit

    def to_json(self) -> dict[str, Any]:
        """Return the fit with the path of the recipe."""
        return {"recipe": str(self.recipe), **self.fit.to_json()}

    def summary(self) -> str:
        """Return sizes, numbers, changed ranges and the path."""
        fit = self.fit
        lines = [
            f"longer side of objects: {_format_range(fit.found_px)} px in the real images, "
            f"{_format_range(fit.rendered_px)} px in renders (5th to 95th percentile, at the width of the renders)",
            f"objects per image: {_format_range(fit.found_count)} found, {_format_range(fit.rendered_count)} rendered",
        ]
        lines += [
            f"{r.factor}: {_format_range(r.before)} -> {_format_range(r.after)}"
            if r.before != r.after
            else f"{r.factor}: {_format_range(r.before)} covers the detected objects"
            for r in fit.ranges
        ]
        return "\n".join([*lines, f"recipe: {self.recipe}"])

    @property
    def next_step(self) -> str:
        """Command that renders training images with the wider ranges."""
        return format_command("render", self.recipe, "--out", "sim", "--count", "1000")


def _summarize_fit(fit: domain_fit.DomainFit) -> str:
    """Return one line per changed range and the domain gap before and after."""
    changes = [
        f"{factor.estimate.path}: {_format_range(factor.before)} -> {_format_range(factor.after)}"
        for factor in fit.ranges
        if factor.interval is not None
    ]
    lines = changes or ["no factor can be estimated from the real images: all ranges are unchanged"]
    for name in ("auc", "sliced_wasserstein"):
        before, after = (getattr(side.gap, name).value for side in (fit.before, fit.after))
        lines.append(f"{name}: {before:.3f} -> {after:.3f}")
    coverage = (side.coverage.coverage.value for side in (fit.before, fit.after))
    return "\n".join([*lines, "coverage: {:.3f} -> {:.3f}".format(*coverage)])


def _format_range(bounds: tuple[float, float]) -> str:
    return f"{bounds[0]:.4g} to {bounds[1]:.4g}"


def _build_report(
    name: str, fit: domain_fit.DomainFit, captures: Dataset, gap_stages: tuple[StageGap, ...]
) -> FitReport:
    from sim2cam.report.domain_fit import FitReport, RangeView

    held_out = [captures.samples[i].rgb for i in fit.held_out]
    uncovered = [
        held_out[i] for i, is_covered in enumerate(fit.after.coverage.is_covered) if not is_covered
    ]
    return FitReport(
        name,
        tuple(
            RangeView(
                factor.estimate.path,
                factor.estimate.loo_r2,
                factor.before,
                factor.after,
                factor.interval,
            )
            for factor in fit.ranges
        ),
        fit.before,
        fit.after,
        _read_images(held_out),
        _read_images(uncovered),
        _build_curves(fit),
        gap_stages,
    )


def _read_images(paths: Sequence[Path]) -> tuple[Rgb, ...]:
    """Read a few evenly spaced images."""
    from sim2cam import images

    return tuple(
        images.read_rgb(path)
        for path in paths[:: max(1, len(paths) // _IMAGE_COUNT)][:_IMAGE_COUNT]
    )


def _build_curves(fit: domain_fit.DomainFit) -> Curves:
    from sim2cam.report.values import Curves, Series

    numbers = tuple(float(i) for i in range(len(fit.trials)))
    costs = [trial.cost for trial in fit.trials]
    best = tuple(min(costs[: i + 1]) for i in range(len(costs)))
    return Curves(
        "trials",
        "cost",
        (Series("cost", numbers, tuple(costs)), Series("best so far", numbers, best)),
    )
