"""Commands ``report`` and ``doctor``: page of a demo, and checks of the installation."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from sim2cam.commands.options import OutputOptions
from sim2cam.errors import Sim2CamError


@dataclass(frozen=True)
class Report:
    """Rewrite the page of a finished demo."""

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """Folder of the demo."""
    output: OutputOptions = field(default_factory=OutputOptions)

    def execute(self) -> None:
        """Write the page."""
        from sim2cam.commands.pages import write_demo_page
        from sim2cam.experiments.demo import read_demo

        page = write_demo_page(read_demo(self.run))
        self.output.report(f"page: {page}", page=str(page))


@dataclass(frozen=True)
class Doctor:
    """Check the installation and print a remedy for each problem."""

    output: OutputOptions = field(default_factory=OutputOptions)

    def execute(self) -> None:
        """Print all checks; fail if the demo cannot run."""
        from sim2cam.pipeline.doctor import can_run, run_checks

        checks = run_checks()
        console = self.output.make_console()
        if self.output.json:
            console.print_json(
                {"ok": can_run(checks), "checks": [asdict(check) for check in checks]}
            )
        else:
            width = max(len(check.name) for check in checks)
            for check in checks:
                mark = "ok  " if check.ok else ("FAIL" if check.required else "note")
                console.print_text(f"{mark}  {check.name:<{width}}  {check.status}")
                if check.remedy:
                    console.print_text(f"      {'':<{width}}  remedy: {check.remedy}")
        if not can_run(checks):
            raise Sim2CamError("the demo cannot run on this machine. See the remedies above.")
