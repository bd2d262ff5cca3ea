"""Commands that keep scenes as files and render them again after a change."""

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
    """Keep the scene of a sample, with its labels and its picture."""

    sample: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DATASET/SAMPLE")]
    """Folder of the data set and name of the sample, as sim/000012."""
    to: Path
    """Folder of kept scenes."""
    name: str | None = None
    """Of the kept scene; without it that of data set and sample."""
    note: str = ""
    """Why it is kept."""
    recipe: str | None = None
    """That of the data set, a name or a .toml file; needed where scenes are made of files, as meshes,
    which are copied."""
    output: OutputOptions = field(default_factory=OutputOptions)

    def execute(self) -> None:
        """Write the case."""
        from sim2cam.experiments.regression_scenes import add_case
        from sim2cam.pipeline.recipe import load_recipe

        recipe = None if self.recipe is None else load_recipe(self.recipe)
        case = add_case(self.sample, self.to, name=self.name, note=self.note, recipe=recipe)
        self.output.report(f"kept: {case}", case=str(case))


@dataclass(frozen=True)
class ScenesRun:
    """Render kept scenes again and compare labels and pictures with what was kept."""

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """Folder of kept scenes."""
    out: Path | None = None
    """The page of scenes that moved; without it DIR-changed.html beside the folder."""
    update: bool = False
    """Keep what is seen now of the scenes that moved."""
    overwrite: Overwrite = False
    output: OutputOptions = field(default_factory=OutputOptions)

    def execute(self) -> None:
        """Print a table; writes a page and fails if a scene moved."""
        from sim2cam.experiments.regression_scenes import CaseResult, run_cases

        folder = self.folder.resolve()
        out = self.out or folder.with_name(f"{folder.name}-changed.html")
        check_output_files(out, overwrite=self.overwrite)
        console = self.output.make_console()
        moved, broken, total = [], {}, 0
        for found in run_cases(self.folder, renew=self.update):
            total += 1
            if not self.output.json:
                console.print_text(_format_outcome(found))
            if not isinstance(found, CaseResult):
                broken[found.name] = found.problem
            elif found.deviations:
                moved.append(found)
        if self.output.json:
            told = {one.name: list(one.deviations) for one in moved}
            console.print_json({"scenes": total, "changed": told, "broken": broken})
        if moved:
            console.info(f"page: {_write_page(moved, total, out)}")
        problems = []
        if broken:
            problems.append(f"{len(broken)} of {total} scenes cannot be rendered again.")
        if moved and not self.update:
            problems.append(
                f"{len(moved)} of {total} scenes moved. If that is meant, add --update."
            )
        if problems:
            raise Sim2CamError(f"{self.folder}: {' '.join(problems)}")


def _write_page(changed: list[CaseResult], checked_count: int, out: Path) -> Path:
    from sim2cam.report.regression_scenes import ChangedScene, write_regression_page

    shown = [ChangedScene(o.name, o.deviations, o.expected, o.actual, o.note) for o in changed]
    return write_regression_page(shown, checked_count, out)


def _format_outcome(outcome: CaseResult | BrokenCase) -> str:
    """Return what came of a case: a line, and one for each thing that moved."""
    from sim2cam.experiments.regression_scenes import BrokenCase

    if isinstance(outcome, BrokenCase):
        return f"fails  {outcome.name}  {outcome.problem}"
    state = "moved" if outcome.deviations else "ok   "
    how = "same file" if outcome.is_same_file else f"mean {outcome.mean_difference:.3f}"
    return "\n".join(
        [f"{state}  {outcome.name}  {how}", *(f"       {what}" for what in outcome.deviations)]
    )
