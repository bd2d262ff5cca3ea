"""Error of rasterized light against path tracing: direct light only, and all bounces.

    python benchmarks/reference.py [--scenes N] [--paths N]

Renders scenes of the recipe ``dice`` with a pinhole camera. For direct light the table is black, because
the rasterizer always adds light reflected by the table. The error of a pixel is the difference of mean
radiance over the traced radiance, or over a tenth of the image mean if that is larger. Each image is
traced in two halves; half their difference is the noise of the reference. Writes ``reference.json`` to
``benchmarks/results``, and a contact sheet to the documentation. Each row of the sheet shows a scene rasterized and traced, in
direct light and with all bounces.
"""

from __future__ import annotations

import os

from rendering.commands import ONE_THREAD

if __name__ == "__main__":
    os.environ.update(ONE_THREAD)  # before any library counts cores

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from numpy.typing import NDArray
from result_files import FIGURES, write_results

from sim2cam import images
from sim2cam.data.environment import collect_environment
from sim2cam.files import write_bytes
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.pipeline.scene_sampling import simulate_scene
from sim2cam.render.backends.mitsuba import MAX_PATH_DEPTH, PathTracer, load_mitsuba
from sim2cam.render.gbuffer import PinholeView
from sim2cam.render.renderer import get_renderer
from sim2cam.scene.scene import Scene
from sim2cam.surfaces.textures import encode_srgb

Floats = NDArray[np.float32]

SIZE_PX = (160, 120)
FOCAL_PX = 200.0
SEED = 3
STRAIGHT, BOUNCING = "straight", "all_bounces"
BLACK = (0.0, 0.0, 0.0)
PERCENTILES = (50, 90, 99)
GREY = 0.4  # linear mean of a traced image in the sheet
SHOWN = 3
QUALITY = 92


@dataclass(frozen=True)
class Arguments:
    """Options of the benchmark."""

    scenes: int = 6
    """Number of scenes."""
    paths: int = 144
    """Paths per pixel of each half."""
    out: Path = Path(__file__).parent / "results"
    """Folder of the results."""
    figures: Path = FIGURES
    """Folder of the contact sheet."""


@dataclass(frozen=True)
class Renders:
    """Radiance (h, w, 3) of a view.

    Attributes:
        halves: two independent results of the path tracer.
    """

    rasterized: Floats
    halves: tuple[Floats, Floats]

    def traced(self) -> Floats:
        """Return the mean of the halves."""
        return (self.halves[0] + self.halves[1]) / np.float32(2)


def main(arguments: Arguments) -> None:
    """Render and compare scenes; write and print the results."""
    scenes = [render_scene(index, arguments.paths) for index in range(arguments.scenes)]
    results = {
        light: summarize([scene[light] for scene in scenes]) for light in (STRAIGHT, BOUNCING)
    }
    facts = {
        "environment": collect_environment(get_renderer().name, 1)
        | {"mitsuba": load_mitsuba().__version__},
        "scenes": arguments.scenes,
        "size": "x".join(map(str, SIZE_PX)),
        "paths": 2 * arguments.paths,
    }
    write_results(arguments.out / "reference.json", facts | results)
    sheet = np.concatenate([make_sheet_row(scene) for scene in scenes[:SHOWN]])
    write_bytes(arguments.figures / "path-tracing.jpg", images.encode_jpeg(sheet, QUALITY))
    print(results)


def render_scene(index: int, paths: int) -> dict[str, Renders]:
    """Render a scene with both kinds of light from its first camera."""
    scene = simulate_scene(load_recipe("dice"), SEED, index).scene
    return {
        STRAIGHT: render_view(blacken_table(scene), 2, paths),
        BOUNCING: render_view(scene, MAX_PATH_DEPTH, paths),
    }


def render_view(scene: Scene, segments: int, paths: int) -> Renders:
    """Render a scene with the rasterizer, and with paths of at most ``segments`` segments."""
    view = make_pinhole(scene)
    tracer = PathTracer(scene, max_depth=segments)
    first, second = (tracer.trace(view, samples_per_pixel=paths, seed=seed) for seed in (0, 1))
    with get_renderer().open(scene) as stage:
        return Renders(stage.render(view, {"radiance"})["radiance"], (first, second))


def blacken_table(scene: Scene) -> Scene:
    """Return the scene with a table that reflects nothing."""
    table, *others = scene.bodies
    texture = replace(table.material.texture, family="plain", color_a=BLACK, color_b=BLACK)
    material = replace(table.material, texture=texture)
    return replace(scene, bodies=(replace(table, material=material), *others))


def make_pinhole(scene: Scene) -> PinholeView:
    """Return a pinhole view at the pose of the scene's first camera."""
    width, height = SIZE_PX
    principal_point = ((width - 1) / 2, (height - 1) / 2)
    return PinholeView(scene.cameras[0].pose, width, height, FOCAL_PX, *principal_point)


def summarize(scenes: list[Renders]) -> dict[str, Any]:
    """Return percentiles of relative error and noise, and the ratio of the means."""
    ratios = [float(p.rasterized.mean() / p.traced().mean()) for p in scenes]
    return {
        "relative_error": compute_percentiles(
            [compute_relative_error(p.rasterized, p.traced(), p) for p in scenes]
        ),
        "noise": compute_percentiles(
            [compute_relative_error(*p.halves, p) / np.float32(2) for p in scenes]
        ),
        "mean_over_traced": {
            "least": min(ratios),
            "median": float(np.median(ratios)),
            "most": max(ratios),
        },
    }


def compute_relative_error(first: Floats, second: Floats, reference: Renders) -> Floats:
    """Return the difference (h, w) of two images relative to the traced one."""
    level = reference.traced().mean(axis=-1)
    difference = np.abs(first.mean(axis=-1) - second.mean(axis=-1))
    return np.asarray(difference / np.maximum(level, level.mean() / 10), np.float32)


def compute_percentiles(values: list[Floats]) -> dict[str, float]:
    """Return percentiles of the values of all images by name."""
    levels = np.percentile(np.concatenate([v.ravel() for v in values]), PERCENTILES)
    return {f"p{p}": float(value) for p, value in zip(PERCENTILES, levels, strict=True)}


def make_sheet_row(scene: dict[str, Renders]) -> NDArray[np.uint8]:
    """Return the images of a scene side by side, with equal exposure for each kind of light."""
    shown = []
    for radiance in scene.values():
        gain = GREY / radiance.traced().mean()
        shown += [encode_srgb(p * gain) for p in (radiance.rasterized, radiance.traced())]
    return np.concatenate(shown, axis=1)


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
