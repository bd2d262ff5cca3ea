"""Command ``demo``: the whole pipeline on dice."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim2cam.commands.options import (
    OutputOptions,
    Seed,
    SkipInvalid,
    check_inputs,
    check_numbers,
)
from sim2cam.commands.results import Result, format_command
from sim2cam.files import lock_folder, prepare_folder

if TYPE_CHECKING:
    from sim2cam.experiments.demo import DemoResult
    from sim2cam.metrics.detection import DetectionMetrics


@dataclass(frozen=True)
class Demo:
    """Run the whole pipeline on dice in ten minutes.

    Renders, translates, trains and scores a detector, and writes a page.
    """

    out: Path = Path("runs/demo")
    """Output folder."""
    captures: Path | None = None
    """Real images: a folder with style.json (or train.json) and test.json; or one COCO file or a folder with it, split in half; default: the shipped stand-in camera."""
    seed: Seed = 0
    workers: int = min(2, os.cpu_count() or 1)
    """Number of processes and threads; default: 2."""
    overwrite: bool = False
    """Replace an earlier demo in the folder."""
    skip_invalid: SkipInvalid = False
    output: OutputOptions = field(default_factory=OutputOptions)

    def run(self) -> DemoScores:
        """Run the demo and write the page."""
        check_numbers(seed=self.seed, workers=self.workers)
        check_inputs(self.captures)

        from sim2cam.commands.pages import write_demo_page
        from sim2cam.experiments.demo import OUTPUT_NAMES, STAGES, read_demo_captures, run_demo
        from sim2cam.render.renderer import get_renderer

        # Read the inputs before an earlier run is removed.
        splits = read_demo_captures(self.captures, skip_invalid=self.skip_invalid)
        with lock_folder(self.out):
            prepare_folder(self.out, OUTPUT_NAMES, "a demo", resume=False, overwrite=self.overwrite)
            console = self.output.make_console()
            console.info(f"renderer: {get_renderer().name}")
            with console.show_progress(*STAGES) as progress:
                result = run_demo(
                    self.out,
                    self.captures,
                    splits,
                    seed=self.seed,
                    workers=self.workers,
                    progress=progress,
                )
            return DemoScores(result, write_demo_page(result))


@dataclass(frozen=True)
class DemoScores(Result):
    """Scores of a demo, and its page."""

    result: DemoResult
    page: Path

    @property
    def scores(self) -> dict[str, DetectionMetrics]:
        """Scores of the detectors on the same test images."""
        trained, shipped = self.result.trained, self.result.shipped
        scores = {"trained in this run": trained.score}
        return scores | ({} if shipped is None else {"shipped weights": shipped.score})

    def to_json(self) -> dict[str, Any]:
        """Return the scores."""
        return {label: score.to_json() for label, score in self.scores.items()}

    def to_text(self) -> str:
        """Return the times of the stages, the verdict and the scores."""
        from sim2cam.commands.tables import format_scores

        stages = [f"{stage.name:<10} {stage.seconds:6.1f} s" for stage in self.result.stages]
        count = len(self.result.trained.captures.samples)
        title = f"\nscores on {count} {self.result.captures_origin} test images"
        verdict = self.result.verdict.to_text()
        return "\n".join([*stages, "", verdict, title, format_scores(self.scores)])

    def summary(self) -> str:
        """Return warnings, notes and the path of the page."""
        findings = self.result.verdict.findings
        warnings = [f"warning: {f.text}" for f in findings if f.severity == "warning"]
        notes = [f"note: {note}" for note in self.result.notes]
        return "\n".join([*warnings, *notes, f"page: {self.page}"])

    @property
    def next_step(self) -> str:
        """Command that starts a recipe for own objects."""
        return format_command("new", "mine", "--assets", "MESHES")
