"""Commands that keep scenes as files and render them again after a change."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from sim2cam.cli.options import Talk
from sim2cam.errors import Sim2CamError

if TYPE_CHECKING:
    from sim2cam.pipeline.regression import Outcome


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
        from sim2cam.pipeline.recipe import load_recipe
        from sim2cam.pipeline.regression import add_case

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
    talk: Talk = field(default_factory=Talk)

    def execute(self) -> None:
        """Prints a table; writes a page and fails if a scene moved."""
        from sim2cam.pipeline.regression import run_cases

        console = self.talk.console()
        outcomes = []
        for outcome in run_cases(self.folder, renew=self.renew):
            outcomes.append(outcome)
            state = "moved" if outcome.moved else "ok   "
            how = "same file" if outcome.is_same_file else f"mean {outcome.picture_mean:.3f}"
            if not self.talk.json:
                console.table(f"{state}  {outcome.name}  {how}")
                for what in outcome.moved:
                    console.table(f"       {what}")
        moved = [outcome for outcome in outcomes if outcome.moved]
        if self.talk.json:
            console.result(
                {"scenes": len(outcomes), "moved": {o.name: list(o.moved) for o in moved}}
            )
        if moved:
            console.say(f"page: {self._write_page(moved, len(outcomes))}")
        if moved and not self.renew:
            raise Sim2CamError(
                f"{self.folder}: {len(moved)} of {len(outcomes)} scenes moved. If that is meant, "
                "add --renew."
            )

    def _write_page(self, moved: list[Outcome], checked: int) -> Path:
        from sim2cam.report.regression import MovedScene, write_regression_page

        shown = [MovedScene(o.name, o.moved, o.expected, o.found, o.note) for o in moved]
        folder = self.folder.resolve()
        return write_regression_page(
            shown, checked, self.out or folder.with_name(f"{folder.name}-moved.html")
        )
