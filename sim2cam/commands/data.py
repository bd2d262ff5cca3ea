"""Commands ``render``, ``check`` and ``inspect`` of datasets."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from sim2cam.commands.counterfactual import parse_intervention
from sim2cam.commands.options import (
    Argument,
    FolderOptions,
    Option,
    OutputOptions,
    Overwrite,
    Rare,
    Seed,
    SkipInvalid,
    Split,
    check_inputs,
    check_numbers,
    check_output_files,
)
from sim2cam.commands.results import PageResult, Result, format_command
from sim2cam.commands.runs import remove_damaged_shards
from sim2cam.errors import UsageError
from sim2cam.files import write_atomic

if TYPE_CHECKING:
    from sim2cam.data.checks.dataset import CheckReport
    from sim2cam.pipeline.recipe import Recipe
    from sim2cam.randomize.counterfactual import Intervention

T = TypeVar("T")

_MAX_COUNT = 16_000_000  # shards have six digits


@dataclass(frozen=True)
class Render:
    """Simulate scenes of a recipe and render them with labels."""

    recipe: Annotated[str, Argument("RECIPE")]
    """Name of a shipped recipe (dice) or .toml file."""
    out: Path | None = None
    """Folder of the dataset; with --preview the image file, default NAME-preview.png."""
    count: int | None = None
    """Number of images; each scene gives as many as the recipe has views."""
    preview: bool = False
    """Render only the first camera of up to 16 scenes, small and with labels, into one image. Takes about 10 s."""
    seed: Seed = 0
    size: Annotated[str | None, Option("WIDTHxHEIGHT")] = None
    """Image size in pixels; default: from the recipe."""
    channels: Rare[Annotated[str | None, Option("NAMES")]] = None
    """Comma-separated channels; default: from the recipe. One or more of depth, ids, parts, normals, coordinates, coverage, flow_forward, flow_backward (sequences only), sensor_depth, disparity, shared, raw, right, amodal_masks, keypoints, occlusions, symmetries."""
    resample: Rare[Annotated[str | None, Option("GROUPS")]] = None
    """Comma-separated groups to resample in every scene, such as light or die/3. All other values stay the same, so that images of equal name form counterfactual pairs."""
    settings: Rare[Annotated[tuple[tuple[str, ...], ...], Option("FACTOR=VALUE", name="set")]] = ()
    """Factors to set in every scene, such as light/warmth=0.5; die/edge_m=0.016 sets all dice."""
    scenes: Rare[Annotated[Path | None, Option("DATASET")]] = None
    """Reuse the simulated scenes of this dataset of the same recipe and seed, for other --channels or on a machine without physics."""
    skip_render: Rare[bool] = False
    """Only simulate physics, for a later --scenes."""
    workers: int = os.cpu_count() or 1
    """Number of processes; default: one per core."""
    dry_run: bool = False
    """Only print the estimated time and size, from four trial images."""
    verify: Rare[bool] = False
    """With --resume, compare hashes of finished files, not only sizes and times."""
    folder: FolderOptions = field(default_factory=FolderOptions)
    output: OutputOptions = field(default_factory=OutputOptions)

    def run(self, recipe: Recipe | None = None) -> RenderResult | RenderPreview | RenderPlan:
        """Render the dataset, with a recipe in memory instead of a file if given."""
        check_numbers(seed=self.seed, workers=self.workers)
        self._check_preview_flags() if self.preview else self._check_count()
        if self.skip_render and self.scenes is not None:
            raise UsageError("--skip-render and --scenes exclude each other. Remove one.")
        check_inputs(self.scenes, recipe=None if recipe else self.recipe)

        from sim2cam.pipeline.generation import estimate_cost, find_unknown_instances, generate
        from sim2cam.pipeline.recipe import load_recipe
        from sim2cam.render.renderer import get_renderer

        recipe = recipe or load_recipe(self.recipe)
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
        console.info(f"renderer: {get_renderer().name}")
        if self.preview:
            return self._write_preview(recipe, change)
        count = self._check_count()
        if self.dry_run or self.out is None:
            plan = estimate_cost(
                recipe, count=count, seed=self.seed, workers=self.workers, change=change
            )
            return RenderPlan(**plan, recipe=self.recipe, count=count)
        out = self.out
        if self.verify:
            remove_damaged_shards(out, self.folder, self.output)
        if self.skip_render:
            return self._simulate(recipe, change, out, count)
        with console.show_progress("rendering") as stages:
            dataset = generate(
                recipe,
                out,
                count=count,
                seed=self.seed,
                workers=self.workers,
                resume=self.folder.resume,
                overwrite=self.folder.overwrite,
                progress=stages("rendering"),
                change=change,
                scenes=self.scenes,
            )
        for name in find_unknown_instances(change, out):
            console.info(f"no scene contains {name}: it is not changed.")
        objects = sum(len(sample.objects or ()) for sample in dataset.samples)
        counts = {"images": len(dataset.samples), "objects": objects}
        return RenderResult(out, counts, self.recipe)

    def _check_count(self) -> int:
        """Return --count; raise UsageError if it, or --out where images are kept, is missing."""
        if self.count is None or (self.out is None and not self.dry_run):
            raise UsageError("give --out and --count, or --preview.")
        if not 1 <= self.count <= _MAX_COUNT:
            raise UsageError(f"--count must be 1 to {_MAX_COUNT}, not {self.count}")
        return self.count

    def _simulate(
        self, recipe: Recipe, intervention: Intervention, out: Path, count: int
    ) -> RenderResult:
        from sim2cam.pipeline.generation import simulate_scenes

        with self.output.make_console().show_progress("simulating") as stages:
            scene_count = simulate_scenes(
                recipe,
                out,
                count=count,
                seed=self.seed,
                workers=self.workers,
                resume=self.folder.resume,
                overwrite=self.folder.overwrite,
                progress=stages("simulating"),
                change=intervention,
            )
        return RenderResult(out, {"scenes": scene_count}, self.recipe)

    def _check_preview_flags(self) -> None:
        """Raise UsageError for flags without effect on a preview."""
        flags = {
            "--count": self.count is not None,
            "--channels": self.channels is not None,
            "--scenes": self.scenes is not None,
            "--skip-render": self.skip_render,
            "--dry-run": self.dry_run,
            "--resume": self.folder.resume,
        }
        for flag in (flag for flag, is_given in flags.items() if is_given):
            raise UsageError(f"{flag} does not apply to --preview. Omit it.")

    def _write_preview(self, recipe: Recipe, intervention: Intervention) -> RenderPreview:
        from sim2cam import images
        from sim2cam.pipeline.generation import find_unknown_instances, render_preview
        from sim2cam.report.sheet import build_sample_sheet

        path = self.out or Path(f"{recipe.name}-preview.png")
        check_output_files(path, overwrite=self.folder.overwrite, inputs=[Path(self.recipe)])
        with tempfile.TemporaryDirectory() as folder:
            samples = render_preview(
                recipe, Path(folder) / "d", seed=self.seed, change=intervention
            )
            write_atomic(path, images.encode_png(build_sample_sheet(samples)))
            for name in find_unknown_instances(intervention, samples.root):
                self.output.make_console().info(f"no scene contains {name}: it is not changed.")
        return RenderPreview(path, len(samples.samples), self.recipe)


@dataclass(frozen=True)
class RenderResult(Result):
    """Rendered dataset, or simulated scenes with ``--skip-render``.

    Attributes:
        out: Folder.
        counts: Numbers of ``images`` and ``objects``, or of ``scenes``.
        recipe: Name or file of the recipe.
    """

    out: Path
    counts: Mapping[str, int]
    recipe: str

    def to_json(self) -> dict[str, Any]:
        """Return the counts."""
        return dict(self.counts)

    def summary(self) -> str:
        """Return the folder and the counts."""
        counts = ", ".join(f"{count} {name}" for name, count in self.counts.items())
        return f"{self.out}: {counts}{', for --scenes' if 'scenes' in self.counts else ''}"

    @property
    def failure(self) -> str | None:
        """Why the command line exits with 1: failed scenes."""
        from sim2cam.data.shards import read_quarantined

        failed = len(read_quarantined(self.out))
        scenes = "1 scene" if failed == 1 else f"{failed} scenes"
        message = f"{scenes} failed. Change the recipe, or use the dataset without them."
        return f"{self.out}: {message}" if failed else None

    @property
    def next_step(self) -> str:
        """Command that trains on the images, or renders the scenes."""
        if "scenes" in self.counts:
            return format_command(
                "render", self.recipe, "--scenes", self.out, "--count", "N", "--out", "OUT"
            )
        return format_command("train", self.recipe, "--data", self.out, "--out", "run")


@dataclass(frozen=True)
class RenderPreview(Result):
    """Image of the first scenes.

    Attributes:
        image: Path of the image.
        scenes: Number of scenes, 16 or as many as were finished in time.
        recipe: Name or file of the recipe.
    """

    image: Path
    scenes: int
    recipe: str

    def summary(self) -> str:
        """Return the path of the image and the number of scenes, and why there are fewer than 16."""
        from sim2cam.data.writer import SAMPLES_PER_SHARD
        from sim2cam.pipeline.generation import PREVIEW_CPU_S

        if self.scenes == SAMPLES_PER_SHARD:
            return f"image: {self.image} ({self.scenes} scenes)"
        reason = f"the preview stops after {PREVIEW_CPU_S:g} s of CPU time"
        return f"image: {self.image}\n{self.scenes} of {SAMPLES_PER_SHARD} scenes: {reason}"

    @property
    def next_step(self) -> str:
        """Command that renders a dataset."""
        return format_command("render", self.recipe, "--count", 400, "--out", "sim")


@dataclass(frozen=True)
class RenderPlan(Result):
    """Estimated cost of a dataset of ``count`` images."""

    shards: float
    seconds: float
    gigabytes: float
    recipe: str
    count: int

    def to_text(self) -> str:
        """Return the cost in one line."""
        size = f"{self.gigabytes:.3f} GB in {self.shards} shards"
        return f"{self.count} images: about {self.seconds:.0f} s and {size}"

    @property
    def next_step(self) -> str:
        """Command that renders the dataset."""
        return format_command("render", self.recipe, "--count", self.count, "--out", "sim")


@dataclass(frozen=True)
class Check:
    """Check that a dataset is complete and consistent."""

    data: Annotated[Path, Argument("DATASET")]
    """Folder of the dataset."""
    output: OutputOptions = field(default_factory=OutputOptions)

    def run(self) -> CheckResult:
        """Check the dataset."""
        from sim2cam.data.checks.dataset import check_dataset

        return CheckResult(self.data, check_dataset(self.data))


@dataclass(frozen=True)
class CheckResult(Result):
    """Problems and warnings of a dataset."""

    data: Path
    report: CheckReport

    def to_json(self) -> dict[str, Any]:
        """Return the report."""
        return self.report.to_json()

    def summary(self) -> str:
        """Return all warnings and problems."""
        report = self.report
        lines = [f"warning: {warning}" for warning in report.warnings]
        lines += [f"{problem.sample}: {problem.message}" for problem in report.problems]
        if not report.problems:
            counts = f"{report.samples} samples, {report.objects} objects"
            lines.append(f"{self.data}: {counts}, no problems")
        return "\n".join(lines)

    @property
    def failure(self) -> str | None:
        """Why the command line exits with 1: problems."""
        count = len(self.report.problems)
        message = f"{self.data}: {count} problems in {self.report.samples} samples."
        return message if count else None

    @property
    def next_step(self) -> str:
        """Command that shows the dataset."""
        return format_command("inspect", self.data)


@dataclass(frozen=True)
class Inspect:
    """Write a page of images with their labels."""

    data: Annotated[Path, Argument("DATA")]
    """Dataset, COCO file, YOLO, VOC, BOP or KITTI folder, or WebDataset tar files."""
    out: Path | None = None
    """Output page; default: NAME-inspect.html next to the data."""
    limit: int | None = 200
    """Maximum number of samples on the page."""
    overwrite: Overwrite = False
    split: Split = None
    skip_invalid: SkipInvalid = False
    output: OutputOptions = field(default_factory=OutputOptions)

    def run(self) -> PageResult:
        """Write the page."""
        from sim2cam.data.checks.small_objects import describe_small_objects
        from sim2cam.data.real_images import read_real_images
        from sim2cam.report.dataset import write_inspect_page

        check_numbers(limit=self.limit)
        data = self.data.resolve()
        out = self.out or data.with_name(f"{data.stem}-inspect.html")
        check_output_files(out, overwrite=self.overwrite, inputs=[data])
        samples = read_real_images(data, skip_invalid=self.skip_invalid, split=self.split)
        areas_px = {
            sample.name: [o.area_px for o in sample.objects or () if not o.is_crowd]
            for sample in samples.samples
        }
        small_objects = describe_small_objects(areas_px)
        if small_objects:
            self.output.make_console().info(f"warning: {small_objects}")
        page = write_inspect_page(samples, out, limit=self.limit)
        next_command = format_command("train", "RECIPE", "--data", self.data, "--out", "run")
        return PageResult(page, next_command)


def _parse_size(text: str) -> tuple[int, int]:
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(part.isdecimal() for part in parts):
        raise UsageError(f"--size {text}: give WIDTHxHEIGHT in pixels, such as 640x480.")
    return int(parts[0]), int(parts[1])


def _replace_checked(value: T, **changes: object) -> T:
    """Replace fields of a dataclass; raise UsageError if its validation fails."""
    try:
        return replace(value, **changes)  # type: ignore[type-var]
    except ValueError as error:
        raise UsageError(str(error)) from error
