"""Commands ``report`` and ``doctor``: page of a demo, and checks of the installation."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from sim2cam.commands.options import Argument, OutputOptions
from sim2cam.commands.results import PageResult, Result, format_command

if TYPE_CHECKING:
    from sim2cam.pipeline.doctor import SystemCheck


@dataclass(frozen=True)
class Report:
    """Rewrite the page of a finished demo."""

    folder: Annotated[Path, Argument("RUN")]
    """Folder of the demo."""
    output: OutputOptions = field(default_factory=OutputOptions)

    def run(self) -> PageResult:
        """Write the page."""
        from sim2cam.commands.pages import write_demo_page
        from sim2cam.experiments.demo import read_demo
        from sim2cam.models.training.training import WEIGHTS

        weights = self.folder / "detector" / WEIGHTS
        next_command = format_command(
            "bench", weights, "--captures", "PHOTOS", "--out", "scores.json"
        )
        return PageResult(write_demo_page(read_demo(self.folder)), next_command)


@dataclass(frozen=True)
class DoctorResult(Result):
    """Checks of the installation."""

    checks: tuple[SystemCheck, ...]

    @property
    def ok(self) -> bool:
        """Whether the demo can run."""
        return all(check.ok for check in self.checks if check.required)

    def to_json(self) -> dict[str, Any]:
        """Return the checks as JSON values."""
        return {"ok": self.ok, "checks": [asdict(check) for check in self.checks]}

    def to_text(self) -> str:
        """Return a line per check, and its remedy."""
        width = max(len(check.name) for check in self.checks)
        lines = []
        for check in self.checks:
            mark = "ok  " if check.ok else ("FAIL" if check.required else "note")
            lines.append(f"{mark}  {check.name:<{width}}  {check.status}")
            if check.remedy:
                lines.append(f"      {'':<{width}}  remedy: {check.remedy}")
        return "\n".join(lines)

    @property
    def failure(self) -> str | None:
        """Why the command line exits with 1."""
        message = "the demo cannot run on this machine. See the remedies above."
        return None if self.ok else message

    @property
    def next_step(self) -> str:
        """Command that runs the demo."""
        return format_command("demo") if self.ok else ""


@dataclass(frozen=True)
class Doctor:
    """Check the installation and print remedies."""

    output: OutputOptions = field(default_factory=OutputOptions)

    def run(self) -> DoctorResult:
        """Run all checks."""
        from sim2cam.pipeline.doctor import run_checks

        return DoctorResult(tuple(run_checks()))
