"""How far rasterized light is from path-traced light, straight from its sources and with all bounces.

    python benchmarks/reference.py [--scenes N] [--paths N]

Scenes of the recipe ``dice``, through a pinhole. Rasterizers always reckon with light from the
table, so for straight light it is painted black. A pixel's error is the difference of its radiance,
the mean of the three colours, over the traced one, or over a tenth of the picture's mean where that
is more. Each picture is traced in two halves: what they differ by, over two, is the noise that the
error holds. Writes ``reference.json`` and ``reference.jpg`` to ``benchmarks/results``: the latter
has in each row a scene in straight light, rasterized and traced, and with all bounces, likewise.
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

from sim2cam import images
from sim2cam.data.environment import collect_environment
from sim2cam.data.writer import write_json
from sim2cam.files import write_bytes
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.pipeline.scene_sampling import simulate_scene
from sim2cam.render.backends.mitsuba import MAX_PATH_DEPTH, PathTracer, load_mitsuba
from sim2cam.render.rasterizer import PinholeView, get_rasterizer
from sim2cam.scene.scene import Scene
from sim2cam.surfaces.textures import encode_srgb

Floats = NDArray[np.float32]

SIZE_PX = (160, 120)
FOCAL_PX = 200.0
SEED = 3
STRAIGHT, BOUNCING = "straight", "all_bounces"
BLACK = (0.0, 0.0, 0.0)
PERCENTILES = (50, 90, 99)
GREY = 0.4  # linear, of the mean of a traced picture as it is shown
SHOWN = 3
QUALITY = 92


@dataclass(frozen=True)
class Arguments:
    """How much is traced."""

    scenes: int = 6
    """How many."""
    paths: int = 144
    """For each pixel of each of the two halves of a picture."""
    out: Path = Path(__file__).parent / "results"
    """Folder of the results."""


@dataclass(frozen=True)
class Pictures:
    """The radiance (h, w, 3) of a view: rasterized, and the two halves of the traced one."""

    rasterized: Floats
    halves: tuple[Floats, Floats]

    def traced(self) -> Floats:
        """Return the mean of the halves."""
        return (self.halves[0] + self.halves[1]) / np.float32(2)


def main(arguments: Arguments) -> None:
    """Draw, traces, compares, writes and prints."""
    drawn = [draw(index, arguments.paths) for index in range(arguments.scenes)]
    found = {light: compared([scene[light] for scene in drawn]) for light in (STRAIGHT, BOUNCING)}
    facts = {
        "environment": collect_environment(get_rasterizer().name, 1)
        | {"mitsuba": load_mitsuba().__version__},
        "scenes": arguments.scenes,
        "size": "x".join(map(str, SIZE_PX)),
        "paths": 2 * arguments.paths,
    }
    write_json(arguments.out / "reference.json", facts | found)
    sheet = np.concatenate([row(scene) for scene in drawn[:SHOWN]])
    write_bytes(arguments.out / "reference.jpg", images.encode_jpeg(sheet, QUALITY))
    print(found)


def draw(index: int, paths: int) -> dict[str, Pictures]:
    """Return a scene of the recipe from the place of its first camera, in both kinds of light."""
    scene = simulate_scene(load_recipe("dice"), SEED, index).scene
    return {
        STRAIGHT: pictures(on_black(scene), 2, paths),
        BOUNCING: pictures(scene, MAX_PATH_DEPTH, paths),
    }


def pictures(scene: Scene, segments: int, paths: int) -> Pictures:
    """Return a scene rasterized, and traced with paths of so many segments."""
    view = pinhole(scene)
    get_rasterizer().load(scene)
    tracer = PathTracer(scene, max_depth=segments)
    one, other = (tracer.trace(view, samples_per_pixel=paths, seed=seed) for seed in (0, 1))
    return Pictures(get_rasterizer().render(view, {"radiance"})["radiance"], (one, other))


def on_black(scene: Scene) -> Scene:
    """Return the scene on a table that reflects nothing."""
    table, *others = scene.bodies
    texture = replace(table.material.texture, family="plain", color_a=BLACK, color_b=BLACK)
    material = replace(table.material, texture=texture)
    return replace(scene, bodies=(replace(table, material=material), *others))


def pinhole(scene: Scene) -> PinholeView:
    """Return what a pinhole would see from the place of a scene's first camera."""
    width, height = SIZE_PX
    middle = ((width - 1) / 2, (height - 1) / 2)
    return PinholeView(scene.cameras[0].pose, width, height, FOCAL_PX, *middle)


def compared(drawn: list[Pictures]) -> dict[str, Any]:
    """Return percentiles of the relative error and of the noise in it, and the ratio of the means."""
    ratios = [float(p.rasterized.mean() / p.traced().mean()) for p in drawn]
    return {
        "relative_error": percentiles([relative(p.rasterized, p.traced(), p) for p in drawn]),
        "noise": percentiles([relative(*p.halves, p) / np.float32(2) for p in drawn]),
        "mean_over_traced": {
            "least": min(ratios),
            "median": float(np.median(ratios)),
            "most": max(ratios),
        },
    }


def relative(one: Floats, other: Floats, pictures: Pictures) -> Floats:
    """Return the difference (h, w) of two pictures over the traced one."""
    level = pictures.traced().mean(axis=-1)
    apart = np.abs(one.mean(axis=-1) - other.mean(axis=-1))
    return np.asarray(apart / np.maximum(level, level.mean() / 10), np.float32)


def percentiles(values: list[Floats]) -> dict[str, float]:
    """Return some percentiles of the values of all pictures, by name."""
    found = np.percentile(np.concatenate([v.ravel() for v in values]), PERCENTILES)
    return {f"p{p}": float(value) for p, value in zip(PERCENTILES, found, strict=True)}


def row(scene: dict[str, Pictures]) -> NDArray[np.uint8]:
    """Return the pictures of a scene side by side, equally exposed in each kind of light."""
    shown = []
    for found in scene.values():
        gain = GREY / found.traced().mean()
        shown += [encode_srgb(p * gain) for p in (found.rasterized, found.traced())]
    return np.concatenate(shown, axis=1)


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
