"""Commands that make, check, show and export data sets."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import tyro

from sim2cam.commands.counterfactual import parse_intervention
from sim2cam.commands.options import (
    FolderOptions,
    OutputOptions,
    Overwrite,
    SkipInvalid,
    Split,
    check_numbers,
    check_output_files,
)
from sim2cam.commands.runs import remove_damaged_shards
from sim2cam.errors import Sim2CamError, UsageError
from sim2cam.files import write_atomic

if TYPE_CHECKING:
    from sim2cam.pipeline.recipe import Recipe
    from sim2cam.randomize.counterfactual import Intervention

T = TypeVar("T")


@dataclass(frozen=True)
class Render:
    """Settle scenes of a recipe and render them with labels."""

    recipe: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RECIPE")]
    """Name of a shipped recipe (dice), or a .toml file."""
    out: Path | None = None
    """Folder of the data set; with --preview the picture, NAME-preview.png without it."""
    count: int | None = None
    """Number of pictures."""
    preview: bool = False
    """Only draw 16 small samples, of the first scenes, with their labels into one picture."""
    seed: int = 0
    """Decides every draw; 0 is a seed like any other."""
    size: Annotated[str | None, tyro.conf.arg(metavar="WIDTHxHEIGHT")] = None
    """In pixels, instead of the recipe's."""
    channels: Annotated[str | None, tyro.conf.arg(metavar="NAMES")] = None
    """Comma-separated, instead of the recipe's: depth, ids, parts, normals, coordinates, coverage,
    flow_forward, flow_backward (of a film), sensor_depth, disparity, shared, raw, right, amodal_masks,
    keypoints, occlusions, symmetries."""
    resample: Annotated[str | None, tyro.conf.arg(metavar="GROUPS")] = None
    """Comma-separated groups, as light or die/3, that are drawn anew in every scene; all else stays
    as it is without this flag, so that pictures of equal names make pairs."""
    settings: Annotated[
        tyro.conf.UseAppendAction[tuple[tuple[str, ...], ...]],
        tyro.conf.arg(name="set", metavar="FACTOR=VALUE [FACTOR=VALUE ...]"),
    ] = ()
    """The same with factors that are set, as light/warmth=0.5; die/edge_m=0.016 sets all dice."""
    scenes: Annotated[Path | None, tyro.conf.arg(metavar="DATASET")] = None
    """Take the settled scenes of this data set of the same recipe and seed instead of settling them
    again, for other --channels or on a machine without physics."""
    images: bool = True
    """Without them scenes are settled alone, for --scenes here or on another machine."""
    workers: int = os.cpu_count() or 1
    """Processes; the bytes are the same with any number."""
    dry_run: bool = False
    """Only say how long it would take and how large it would be, from four trial pictures."""
    verify: bool = False
    """With --resume, compare the hashes of all finished files, not only sizes and times."""
    folder: FolderOptions = field(default_factory=FolderOptions)
    output: OutputOptions = field(default_factory=OutputOptions)

    def execute(self) -> None:
        """Render the data set."""
        from sim2cam.pipeline.generation import estimate_cost, find_unknown_instances, generate
        from sim2cam.pipeline.recipe import load_recipe
        from sim2cam.render.rasterizer import get_rasterizer

        check_numbers(seed=self.seed, workers=self.workers)
        self._check_preview_flags() if self.preview else self._require_output()
        recipe = load_recipe(self.recipe)
        render = recipe.render
        if self.size is not None:
            width, height = _parse_size(self.size)
            render = _replace_checked(render, width=width, height=height)
        if self.channels is not None:
            names = tuple(name for name in self.channels.split(",") if name)
            render = _replace_checked(render, channels=names)
        recipe = _replace_checked(recipe, render=render)
        change = parse_intervention(self.resample, self.settings)
        console = self.output.make_console()
        console.info(f"renderer: {get_rasterizer().name}")
        if self.preview:
            self._write_preview(recipe, change)
            return
        out, count = self._require_output()
        if self.dry_run:
            plan = estimate_cost(
                recipe, count=count, seed=self.seed, workers=self.workers, change=change
            )
            console.print_json(plan) if self.output.json else console.print_text(
                f"{plan['shards']} shards, about {plan['seconds']:.0f} s and {plan['gigabytes']:.3f} GB"
            )
            return
        if self.verify:
            remove_damaged_shards(out, self.folder, self.output)
        if not self.images:
            self._simulate(recipe, change, out, count)
            return
        dataset = generate(
            recipe,
            out,
            count=count,
            seed=self.seed,
            workers=self.workers,
            resume=self.folder.resume,
            overwrite=self.folder.overwrite,
            progress=console.start_progress("rendering"),
            change=change,
            scenes=self.scenes,
        )
        for name in find_unknown_instances(change, out):
            console.info(f"no scene has {name}: nothing of it was changed.")
        objects = sum(len(sample.objects or ()) for sample in dataset.samples)
        console.info(f"{out}: {len(dataset.samples)} pictures, {objects} objects")
        if self.output.json:
            console.print_json({"images": len(dataset.samples), "objects": objects})
        self._check_complete(out)

    def _check_complete(self, out: Path) -> None:
        """Fail where scenes could not be made.

        Raises:
            Sim2CamError: with their number.
        """
        from sim2cam.data.shards import read_quarantined

        failed = read_quarantined(out)
        if failed:
            scenes = "1 scene" if len(failed) == 1 else f"{len(failed)} scenes"
            raise Sim2CamError(
                f"{out}: finished without {scenes}. Change the recipe, or use the data set as it is."
            )

    def _require_output(self) -> tuple[Path, int]:
        """Return where how many pictures go.

        Raises:
            UsageError: one of them is not said.
        """
        if self.out is None or self.count is None:
            raise UsageError("give --out and --count, or --preview.")
        if self.count < 1:
            raise UsageError(f"--count must be 1 or more, not {self.count}")
        return self.out, self.count

    def _simulate(self, recipe: Recipe, intervention: Intervention, out: Path, count: int) -> None:
        from sim2cam.pipeline.generation import simulate_scenes

        if self.scenes is not None:
            raise UsageError("--no-images settles scenes, and --scenes takes settled ones.")
        settled = simulate_scenes(
            recipe,
            out,
            count=count,
            seed=self.seed,
            workers=self.workers,
            resume=self.folder.resume,
            overwrite=self.folder.overwrite,
            progress=self.output.make_console().start_progress("settling"),
            change=intervention,
        )
        self.output.report(f"{out}: {settled} scenes, for --scenes", scenes=settled)
        self._check_complete(out)

    def _check_preview_flags(self) -> None:
        """Refuse what 16 small stills cannot show.

        Raises:
            UsageError: naming it.
        """
        asked = {
            "--count": self.count is not None,
            "--channels": self.channels is not None,
            "--scenes": self.scenes is not None,
            "--no-images": not self.images,
            "--dry-run": self.dry_run,
            "--resume": self.folder.resume,
        }
        for flag in (flag for flag, is_asked in asked.items() if is_asked):
            raise UsageError(f"--preview draws 16 stills of new scenes. Leave out {flag}.")

    def _write_preview(self, recipe: Recipe, intervention: Intervention) -> None:
        from sim2cam import images
        from sim2cam.pipeline.generation import find_unknown_instances, render_preview
        from sim2cam.report.sheet import build_sample_sheet

        picture = self.out or Path(f"{recipe.name}-preview.png")
        check_output_files(picture, overwrite=self.folder.overwrite, inputs=[Path(self.recipe)])
        with tempfile.TemporaryDirectory() as folder:
            samples = render_preview(
                recipe, Path(folder) / "d", seed=self.seed, change=intervention
            )
            write_atomic(picture, images.encode_png(build_sample_sheet(samples)))
            for name in find_unknown_instances(intervention, samples.root):
                self.output.make_console().info(f"no scene has {name}: nothing of it was changed.")
        self.output.report(f"image: {picture}", image=str(picture))


@dataclass(frozen=True)
class Check:
    """Check that a data set is whole and its labels agree with one another."""

    data: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DATASET")]
    """Folder of the data set."""
    output: OutputOptions = field(default_factory=OutputOptions)

    def execute(self) -> None:
        """Report every problem; fails if there is one."""
        from sim2cam.data.checks.dataset import check_dataset

        report = check_dataset(self.data)
        console = self.output.make_console()
        if self.output.json:
            console.print_json(report.to_json())
        for warning in report.warnings:
            console.info(f"warning: {warning}")
        for problem in report.problems:
            console.info(f"{problem.sample}: {problem.message}")
        if report.problems:
            raise Sim2CamError(
                f"{self.data}: {len(report.problems)} problems in {report.samples} samples."
            )
        console.info(f"{self.data}: {report.samples} samples, {report.objects} objects, no problem")


@dataclass(frozen=True)
class Inspect:
    """Write a page that shows a data set or captures with their labels."""

    data: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DATA")]
    """A data set, or captures: a COCO file, a folder of YOLO, VOC, BOP or KITTI, or tar files."""
    out: Path | None = None
    """The page; without it NAME-inspect.html beside the data."""
    limit: int | None = 200
    """Most samples on the page."""
    overwrite: Overwrite = False
    split: Split = None
    skip_invalid: SkipInvalid = False
    output: OutputOptions = field(default_factory=OutputOptions)

    def execute(self) -> None:
        """Write the page."""
        from sim2cam.data.real_images import read_real_images
        from sim2cam.report.dataset import write_inspect_page

        check_numbers(limit=self.limit)
        data = self.data.resolve()
        out = self.out or data.with_name(f"{data.stem}-inspect.html")
        check_output_files(out, overwrite=self.overwrite, inputs=[data])
        shown = read_real_images(data, skip_invalid=self.skip_invalid, split=self.split)
        page = write_inspect_page(shown, out, limit=self.limit)
        self.output.report(f"page: {page}", page=str(page))


def _parse_size(text: str) -> tuple[int, int]:
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(part.isdecimal() for part in parts):
        raise UsageError(f"--size {text}: give WIDTHxHEIGHT in pixels, as 640x480.")
    return int(parts[0]), int(parts[1])


def _replace_checked(value: T, **changes: object) -> T:
    """Return a value with changes that its own checks may refuse."""
    try:
        return replace(value, **changes)  # type: ignore[type-var]
    except ValueError as error:
        raise UsageError(str(error)) from error
