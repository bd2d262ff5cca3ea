"""Commands that keep scenes as files and render them again after a change."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from sim2cam.commands.options import Overwrite, Talk, check_new
from sim2cam.errors import Sim2CamError

if TYPE_CHECKING:
    from sim2cam.experiments.regression_scenes import Broken, Outcome


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
    talk: Talk = field(default_factory=Talk)

    def execute(self) -> None:
        """Writes the case."""
        from sim2cam.experiments.regression_scenes import add_case
        from sim2cam.pipeline.recipe import load_recipe

        recipe = None if self.recipe is None else load_recipe(self.recipe)
        case = add_case(self.sample, self.to, name=self.name, note=self.note, recipe=recipe)
        self.talk.tell(f"kept: {case}", case=str(case))


@dataclass(frozen=True)
class ScenesRun:
    """Render kept scenes again and compare labels and pictures with what was kept."""

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """Folder of kept scenes."""
    out: Path | None = None
    """The page of scenes that moved; without it DIR-moved.html beside the folder."""
    renew: bool = False
    """Keep what is seen now of the scenes that moved."""
    overwrite: Overwrite = False
    talk: Talk = field(default_factory=Talk)

    def execute(self) -> None:
        """Prints a table; writes a page and fails if a scene moved."""
        from sim2cam.experiments.regression_scenes import Outcome, run_cases

        folder = self.folder.resolve()
        out = self.out or folder.with_name(f"{folder.name}-moved.html")
        check_new(out, overwrite=self.overwrite)
        console = self.talk.console()
        moved, broken, total = [], {}, 0
        for found in run_cases(self.folder, renew=self.renew):
            total += 1
            if not self.talk.json:
                console.table(_words(found))
            if not isinstance(found, Outcome):
                broken[found.name] = found.problem
            elif found.moved:
                moved.append(found)
        if self.talk.json:
            told = {one.name: list(one.moved) for one in moved}
            console.result({"scenes": total, "moved": told, "broken": broken})
        if moved:
            console.say(f"page: {_write_page(moved, total, out)}")
        problems = []
        if broken:
            problems.append(f"{len(broken)} of {total} scenes cannot be rendered again.")
        if moved and not self.renew:
            problems.append(f"{len(moved)} of {total} scenes moved. If that is meant, add --renew.")
        if problems:
            raise Sim2CamError(f"{self.folder}: {' '.join(problems)}")


def _write_page(moved: list[Outcome], checked: int, out: Path) -> Path:
    from sim2cam.report.regression_scenes import MovedScene, write_regression_page

    shown = [MovedScene(o.name, o.moved, o.expected, o.found, o.note) for o in moved]
    return write_regression_page(shown, checked, out)


def _words(found: Outcome | Broken) -> str:
    """Returns what came of a case: a line, and one for each thing that moved."""
    from sim2cam.experiments.regression_scenes import Broken

    if isinstance(found, Broken):
        return f"fails  {found.name}  {found.problem}"
    state = "moved" if found.moved else "ok   "
    how = "same file" if found.is_same_file else f"mean {found.picture_mean:.3f}"
    return "\n".join([f"{state}  {found.name}  {how}", *(f"       {what}" for what in found.moved)])
