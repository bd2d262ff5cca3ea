"""Commands that show: the report of a run, and the state of the machine."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from sim2cam.commands.options import Talk
from sim2cam.errors import Sim2CamError


@dataclass(frozen=True)
class Report:
    """Write the page of a finished demo again."""

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """Its folder."""
    talk: Talk = field(default_factory=Talk)

    def execute(self) -> None:
        """Writes the page."""
        from sim2cam.commands.pages import write_demo_page
        from sim2cam.experiments.demo import read_demo

        page = write_demo_page(read_demo(self.run))
        self.talk.tell(f"page: {page}", page=str(page))


@dataclass(frozen=True)
class Doctor:
    """Look at what this machine has and lacks, with the cure."""

    talk: Talk = field(default_factory=Talk)

    def execute(self) -> None:
        """Prints every check; fails if the main job could not run."""
        from sim2cam.pipeline.doctor import can_run, examine

        checks = examine()
        console = self.talk.console()
        if self.talk.json:
            console.result({"ok": can_run(checks), "checks": [asdict(check) for check in checks]})
        else:
            width = max(len(check.name) for check in checks)
            for check in checks:
                mark = "ok  " if check.ok else ("FAIL" if check.needed else "note")
                console.table(f"{mark}  {check.name:<{width}}  {check.found}")
                if check.cure:
                    console.table(f"      {'':<{width}}  cure: {check.cure}")
        if not can_run(checks):
            raise Sim2CamError("the main job cannot run here; see the cures above.")
