"""Commands ``scenes add`` and ``scenes run``: regression tests of rendering."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from sim2cam.commands.options import Argument, OutputOptions, Overwrite, check_output_files
from sim2cam.commands.results import Result, format_command

if TYPE_CHECKING:
    from sim2cam.experiments.regression_scenes import BrokenCase, CaseResult


@dataclass(frozen=True)
class ScenesAdd:
    """Store the scene of a sample as a regression scene."""

    sample: Annotated[Path, Argument("DATASET/SAMPLE")]
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

    def run(self) -> ScenesAddResult:
        """Write the regression scene."""
        from sim2cam.experiments.regression_scenes import add_case
        from sim2cam.pipeline.recipe import load_recipe

        recipe = None if self.recipe is None else load_recipe(self.recipe)
        case = add_case(self.sample, self.to, name=self.name, note=self.note, recipe=recipe)
        return ScenesAddResult(case)


@dataclass(frozen=True)
class ScenesAddResult(Result):
    """Stored regression scene."""

    case: Path

    def summary(self) -> str:
        """Return the folder of the scene."""
        return f"stored: {self.case}"

    @property
    def next_step(self) -> str:
        """Command that checks all regression scenes of the folder."""
        return format_command("scenes", "run", self.case.parent)


@dataclass(frozen=True)
class ScenesRun:
    """Render regression scenes again and report changes.

    Compares labels and images with the stored ones.
    """

    folder: Annotated[Path, Argument("DIR")]
    """Folder of regression scenes."""
    out: Path | None = None
    """Page of changed scenes; default: DIR-changed.html next to the folder."""
    update: bool = False
    """Store the new labels and images of changed scenes."""
    overwrite: Overwrite = False
    output: OutputOptions = field(default_factory=OutputOptions)

    def run(self) -> ScenesRunResult:
        """Render all scenes; write a page if one changed."""
        from sim2cam.experiments.regression_scenes import CaseResult, run_cases

        folder = self.folder.resolve()
        out = self.out or folder.with_name(f"{folder.name}-changed.html")
        check_output_files(out, overwrite=self.overwrite)
        lines, changed, broken = [], [], {}
        for outcome in run_cases(self.folder, renew=self.update):
            lines.append(_format_outcome(outcome))
            if not isinstance(outcome, CaseResult):
                broken[outcome.name] = outcome.problem
            elif outcome.deviations:
                changed.append(outcome)
        page = _write_page(changed, len(lines), out) if changed else None
        deviations = {result.name: list(result.deviations) for result in changed}
        return ScenesRunResult(self.folder, tuple(lines), deviations, broken, page, self.update)


@dataclass(frozen=True)
class ScenesRunResult(Result):
    """Comparison of regression scenes with their stored labels and images.

    Attributes:
        folder: Folder of the scenes.
        lines: Description of each scene.
        changed: Deviations of each changed scene.
        broken: Problem of each scene that cannot be rendered.
        page: Page of changed scenes; None without.
        updated: Whether the new labels and images were stored.
    """

    folder: Path
    lines: tuple[str, ...]
    changed: Mapping[str, Sequence[str]]
    broken: Mapping[str, str]
    page: Path | None
    updated: bool

    def to_json(self) -> dict[str, Any]:
        """Return the number of scenes, the deviations and the problems."""
        return {"scenes": len(self.lines), "changed": self.changed, "broken": self.broken}

    def to_text(self) -> str:
        """Return a line per scene and deviation."""
        return "\n".join(self.lines)

    def summary(self) -> str:
        """Return the path of the page."""
        return f"page: {self.page}" if self.page else ""

    @property
    def next_step(self) -> str:
        """Command that confirms stored changes; empty without changes."""
        return format_command("scenes", "run", self.folder) if self.changed else ""

    @property
    def failure(self) -> str | None:
        """Why the command line exits with 1."""
        problems, total = [], len(self.lines)
        if self.broken:
            problems.append(f"{len(self.broken)} of {total} scenes cannot be rendered.")
        if self.changed and not self.updated:
            problems.append(
                f"{len(self.changed)} of {total} scenes changed. If this is intended, add --update."
            )
        return f"{self.folder}: {' '.join(problems)}" if problems else None


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
