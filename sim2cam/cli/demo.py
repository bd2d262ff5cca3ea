"""The command that runs the main job."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from sim2cam.cli.options import SkipInvalid, Talk, check_numbers
from sim2cam.errors import OutputError


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
    talk: Talk = field(default_factory=Talk)

    def execute(self) -> None:
        """Runs the demo and prints times, scores and where the page is."""
        from sim2cam.cli.pages import write_demo_page
        from sim2cam.cli.tables import score_table
        from sim2cam.pipeline.demo import demo_captures, run_demo
        from sim2cam.render.rasterizer import rasterizer

        check_numbers(seed=self.seed, workers=self.workers)
        sets = demo_captures(
            self.captures, skip_invalid=self.skip_invalid
        )  # a wrong path must not cost the last run
        _clear(self.out, self.overwrite)
        console = self.talk.console()
        console.say(f"renderer: {rasterizer().name}")
        result = run_demo(
            self.out,
            self.captures,
            sets,
            seed=self.seed,
            workers=self.workers,
            progress=console.progress,
        )
        page = write_demo_page(result)
        scores = {"trained in this run": result.trained.score}
        if result.shipped is not None:
            scores["weights that ship"] = result.shipped.score
        if self.talk.json:
            console.result({label: score.to_json() for label, score in scores.items()})
        else:
            for stage in result.stages:
                console.table(f"{stage.name:<10} {stage.seconds:6.1f} s")
            count = len(result.trained.captures.samples)
            console.table(f"\nscores on {count} {result.captures_origin} test images")
            console.table(score_table(scores))
        for note in result.notes:
            console.say(f"note: {note}")
        console.say(f"page: {page}")


def _clear(out: Path, overwrite: bool) -> None:
    """Removes an earlier demo; a folder that holds anything else is refused."""
    import shutil

    if not out.is_dir() or not any(out.iterdir()):
        return
    if not overwrite:
        raise OutputError(
            out, "is not empty. Add --overwrite to start anew, or choose another --out."
        )
    parts = {"sim", "plain", "adapted", "translator", "detector", "demo.json", "report.html"}
    strangers = sorted(p.name for p in out.iterdir() if p.name.removesuffix(".part") not in parts)
    if strangers:
        raise OutputError(
            out, f"holds '{strangers[0]}', which is no part of a demo. Choose another --out."
        )
    shutil.rmtree(out)
