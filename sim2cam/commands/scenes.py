"""Commands ``scenes add`` and ``scenes run``: regression tests of rendering."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from sim2cam.commands.options import OutputOptions, Overwrite, check_output_files
from sim2cam.errors import Sim2CamError

if TYPE_CHECKING:
    from sim2cam.experiments.regression_scenes import BrokenCase, CaseResult


@dataclass(frozen=True)
class ScenesAdd:
    """Store the scene of a sample with its labels and image as a regression scene."""

    sample: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DATASET/SAMPLE")]
    """Dataset folder and sample name, such as sim/000012."""
    to: Path
    """Folder of regression scenes."""
    name: str | None = None
    """Name of the regression scene; default: names of dataset and sample."""
    note: str = ""
    """Why the scene is stored."""
    recipe: str | None = None
    """Recipe of the dataset (name or .toml file); required if scenes use files such as meshes, which are copied."""
    output: OutputOptions = field(default_factory=OutputOptions)

    def execute(self) -> None:
        """Write the regression scene."""
        from sim2cam.experiments.regression_scenes import add_case
        from sim2cam.pipeline.recipe import load_recipe

        recipe = None if self.recipe is None else load_recipe(self.recipe)
        case = add_case(self.sample, self.to, name=self.name, note=self.note, recipe=recipe)
        self.output.report(f"stored: {case}", case=str(case))


@dataclass(frozen=True)
class ScenesRun:
    """Render regression scenes again and compare labels and images with the stored ones."""

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """Folder of regression scenes."""
    out: Path | None = None
    """Page of changed scenes; default: DIR-changed.html next to the folder."""
    update: bool = False
    """Store the new labels and images of changed scenes."""
    overwrite: Overwrite = False
    output: OutputOptions = field(default_factory=OutputOptions)

    def execute(self) -> None:
        """Print a table; write a page and fail if a scene changed."""
        from sim2cam.experiments.regression_scenes import CaseResult, run_cases

        folder = self.folder.resolve()
        out = self.out or folder.with_name(f"{folder.name}-changed.html")
        check_output_files(out, overwrite=self.overwrite)
        console = self.output.make_console()
        changed, broken, total = [], {}, 0
        for outcome in run_cases(self.folder, renew=self.update):
            total += 1
            if not self.output.json:
                console.print_text(_format_outcome(outcome))
            if not isinstance(outcome, CaseResult):
                broken[outcome.name] = outcome.problem
            elif outcome.deviations:
                changed.append(outcome)
        if self.output.json:
            deviations = {result.name: list(result.deviations) for result in changed}
            console.print_json({"scenes": total, "changed": deviations, "broken": broken})
        if changed:
            console.info(f"page: {_write_page(changed, total, out)}")
        problems = []
        if broken:
            problems.append(f"{len(broken)} of {total} scenes cannot be rendered.")
        if changed and not self.update:
            problems.append(
                f"{len(changed)} of {total} scenes changed. If this is intended, add --update."
            )
        if problems:
            raise Sim2CamError(f"{self.folder}: {' '.join(problems)}")


def _write_page(changed: list[CaseResult], checked_count: int, out: Path) -> Path:
    from sim2cam.report.regression_scenes import ChangedScene, write_regression_page

    shown = [ChangedScene(o.name, o.deviations, o.expected, o.actual, o.note) for o in changed]
    return write_regression_page(shown, checked_count, out)


def _format_outcome(outcome: CaseResult | BrokenCase) -> str:
    """Return one line per case and per deviation."""
    from sim2cam.experiments.regression_scenes import BrokenCase

    if isinstance(outcome, BrokenCase):
        return f"fails    {outcome.name}  {outcome.problem}"
    state = "changed" if outcome.deviations else "ok     "
    difference = "same file" if outcome.is_same_file else f"mean {outcome.mean_difference:.3f}"
    return "\n".join(
        [
            f"{state}  {outcome.name}  {difference}",
            *(f"         {deviation}" for deviation in outcome.deviations),
        ]
    )
