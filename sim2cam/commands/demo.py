"""Command ``demo``: the whole pipeline on dice."""

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
    """Render dice, translate, train and score a detector, and write a page (about ten minutes)."""

    out: Path = Path("runs/demo")
    """Output folder."""
    captures: Path | None = None
    """Real images: a folder with style.json (or train.json) and test.json, or one COCO file; default: the shipped stand-in camera."""
    seed: int = 0
    """Random seed."""
    workers: int = min(2, os.cpu_count() or 1)
    """Number of processes and threads."""
    overwrite: bool = False
    """Replace an earlier demo in the folder."""
    skip_invalid: SkipInvalid = False
    output: OutputOptions = field(default_factory=OutputOptions)

    def execute(self) -> None:
        """Run the demo and print times, scores and the path of the page."""
        from sim2cam.experiments.demo import OUTPUT_NAMES, read_demo_captures

        check_numbers(seed=self.seed, workers=self.workers)
        # Read the inputs before an earlier run is removed.
        splits = read_demo_captures(self.captures, skip_invalid=self.skip_invalid)
        with lock_folder(self.out):
            prepare_folder(self.out, OUTPUT_NAMES, "a demo", resume=False, overwrite=self.overwrite)
            self._run(splits)

    def _run(self, splits: RealImageSplits) -> None:
        from sim2cam.commands.pages import write_demo_page
        from sim2cam.commands.tables import format_scores
        from sim2cam.experiments.demo import run_demo
        from sim2cam.render.renderer import get_renderer

        console = self.output.make_console()
        console.info(f"renderer: {get_renderer().name}")
        result = run_demo(
            self.out,
            self.captures,
            splits,
            seed=self.seed,
            workers=self.workers,
            progress=console.start_progress,
        )
        page = write_demo_page(result)
        scores = {"trained in this run": result.trained.score}
        if result.shipped is not None:
            scores["shipped weights"] = result.shipped.score
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
