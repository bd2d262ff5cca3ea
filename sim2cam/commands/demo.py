"""The command that runs the main job."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sim2cam.commands.options import OutputOptions, SkipInvalid, check_numbers
from sim2cam.files import lock_folder, prepare_folder

if TYPE_CHECKING:
    from sim2cam.data.real_images import RealImageSplits


@dataclass(frozen=True)
class Demo:
    """Generate dice, translate, train a detector, score it, and write a page: about ten minutes."""

    out: Path = Path("runs/demo")
    """Folder of the run."""
    captures: Path | None = None
    """Photos: a folder with style.json (or train.json) and test.json, or one COCO file. Without
    it, the stand-in camera that ships."""
    seed: int = 0
    """Decides every draw."""
    workers: int = min(2, os.cpu_count() or 1)
    """Processes and threads."""
    overwrite: bool = False
    """Remove an earlier demo in the folder."""
    skip_invalid: SkipInvalid = False
    output: OutputOptions = field(default_factory=OutputOptions)

    def execute(self) -> None:
        """Run the demo and prints times, scores and where the page is."""
        from sim2cam.experiments.demo import OUTPUT_NAMES, read_demo_captures

        check_numbers(seed=self.seed, workers=self.workers)
        # A wrong path must not cost the last run.
        sets = read_demo_captures(self.captures, skip_invalid=self.skip_invalid)
        with lock_folder(self.out):
            prepare_folder(self.out, OUTPUT_NAMES, "a demo", resume=False, overwrite=self.overwrite)
            self._run(sets)

    def _run(self, sets: RealImageSplits) -> None:
        from sim2cam.commands.pages import write_demo_page
        from sim2cam.commands.tables import format_scores
        from sim2cam.experiments.demo import run_demo
        from sim2cam.render.rasterizer import get_rasterizer

        console = self.output.make_console()
        console.info(f"renderer: {get_rasterizer().name}")
        result = run_demo(
            self.out,
            self.captures,
            sets,
            seed=self.seed,
            workers=self.workers,
            progress=console.start_progress,
        )
        page = write_demo_page(result)
        scores = {"trained in this run": result.trained.score}
        if result.shipped is not None:
            scores["weights that ship"] = result.shipped.score
        if self.output.json:
            console.print_json({label: score.to_json() for label, score in scores.items()})
        else:
            for stage in result.stages:
                console.print_text(f"{stage.name:<10} {stage.seconds:6.1f} s")
            count = len(result.trained.captures.samples)
            console.print_text(f"\nscores on {count} {result.captures_origin} test images")
            console.print_text(format_scores(scores))
        for note in result.notes:
            console.info(f"note: {note}")
        console.info(f"page: {page}")
