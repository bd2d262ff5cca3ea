"""Time of each image-formation stage of the detection set, in one process with one thread."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rendering.spread import Clock, compute_spread
from sim2cam import images
from sim2cam.data.channels import encode_channel
from sim2cam.data.writer import NewSample, write_shard
from sim2cam.pipeline.recipe import Recipe
from sim2cam.randomize.sampling import sample_factors
from sim2cam.randomize.scene_builder import build_scene
from sim2cam.render.frame import annotate
from sim2cam.render.gbuffer import (
    LABEL_CHANNELS,
    Channel,
    GBuffer,
    PinholeView,
    convert_to_instance_ids,
)
from sim2cam.render.optics.views import build_optics, find_unprojectable_corner
from sim2cam.render.optics.warp import warp_labels, warp_radiance
from sim2cam.render.physics.simulation import simulate
from sim2cam.render.renderer import get_renderer
from sim2cam.render.sensor.sensor import develop
from sim2cam.scene.camera import Camera
from sim2cam.scene.scene import Scene

SEED = 3

STEPS = (
    "chance",
    "physics",
    "textures, meshes",
    "shadow maps",
    "lens: maps",
    "rasterize colour, 4 samples",
    "rasterize labels",
    "lens: colour",
    "lens: labels",
    "sensor",
    "labels",
    "encode RGB (JPEG)",
    "encode depth (PNG)",
    "encode ids (PNG)",
    "files, hashes, JSON",
)
"""Stages in order; ``lens: labels`` warps labels of twice the density where the lens distorts."""


def measure_steps(recipe: Recipe, scenes: int) -> dict[str, Any]:
    """Return CPU and wall milliseconds per image of each stage, over scenes.

    Args:
        recipe: recipe of the images.
        scenes: number of scenes, after one warm-up scene.
    """
    clocks = [_time_scene(recipe, index) for index in range(scenes + 1)][1:]
    views = recipe.render.views
    steps = []
    for step in STEPS:
        cpu_ms = [sum(clock.cpu_ms[step]) / views for clock in clocks]
        wall_ms = [sum(clock.wall_ms[step]) / views for clock in clocks]
        steps.append(
            {
                "step": step,
                "cpu_ms": asdict(compute_spread(cpu_ms)),
                "wall_ms": asdict(compute_spread(wall_ms)),
            }
        )
    return {"pictures": scenes * views, "views": views, "steps": steps}


def _time_scene(recipe: Recipe, index: int) -> Clock:
    """Return the times of one scene and all its images."""
    clock = Clock()
    scene = simulate_scene(recipe, index, clock)
    _time_loading(scene, clock)
    samples = [
        _time_sample(scene, camera, number, clock) for number, camera in enumerate(scene.cameras)
    ]
    with tempfile.TemporaryDirectory() as folder, clock("shard"):
        write_shard(Path(folder), 0, samples, [asdict(scene)])
    encodings = ("encode depth (PNG)", "encode ids (PNG)")
    for times in (clock.cpu_ms, clock.wall_ms):
        times["textures, meshes"] = [times["first load"][0] - times["shadow maps"][0]]
        again = sum(sum(times[step]) for step in encodings)
        times["files, hashes, JSON"] = [times["shard"][0] - again]
    return clock


def simulate_scene(recipe: Recipe, index: int, clock: Clock) -> Scene:
    """Return a scene at rest; rejected attempts are timed too."""
    size = (recipe.render.width, recipe.render.height)
    for attempt in itertools.count():
        with clock("chance"):
            rendered = sample_factors(
                recipe.domain, SEED, index, views=recipe.render.views, attempt=attempt
            )
            candidate = build_scene(rendered, recipe.domain, *size)
            problem = find_unprojectable_corner(candidate)
        if problem is None:
            with clock("physics"):
                scene, certificate = simulate(candidate)
            if certificate.rejection is None:
                return scene
    raise AssertionError


def _time_loading(scene: Scene, clock: Clock) -> None:
    """Load a scene twice: only the shadow maps are computed again."""
    view = PinholeView(scene.cameras[0].pose, 16, 16, 16.0, 7.5, 7.5)
    for step in ("first load", "shadow maps"):
        with clock(step), get_renderer().open(scene) as stage:
            stage.render(view, {"radiance"})  # renders the shadow maps and synchronizes


def _time_sample(scene: Scene, camera: Camera, number: int, clock: Clock) -> NewSample:
    """Render a camera's image with the stages of ``Stage.shoot`` and return its sample."""
    with clock("lens: maps"):
        optics = build_optics(camera)
    rendered: dict[PinholeView, GBuffer] = {}

    def rasterize(view: PinholeView, channels: Collection[Channel], step: str) -> GBuffer:
        if view not in rendered:
            with clock(step):
                rendered[view] = get_renderer().rasterizer.render(scene, view, channels)
        return rendered[view]

    def rasterize_color(view: PinholeView) -> NDArray[np.float32]:
        return np.asarray(rasterize(view, {"radiance"}, "rasterize colour, 4 samples")["radiance"])

    def rasterize_labels(view: PinholeView) -> GBuffer:
        return rasterize(view, LABEL_CHANNELS, "rasterize labels")

    warp_radiance(optics, rasterize_color)  # rasterizes; the second call only warps
    with clock("lens: colour"):
        radiance = warp_radiance(optics, rasterize_color)
    rendered.clear()
    warp_labels(optics, rasterize_labels)
    with clock("lens: labels"):
        truth = warp_labels(optics, rasterize_labels)
    with clock("sensor"):
        developed = develop(radiance, camera.sensor)
    with clock("labels"):
        ids = convert_to_instance_ids(scene, truth["bodies"])
        objects = annotate(scene, camera, ids, truth["cover"])
    with clock("encode RGB (JPEG)"):
        jpeg = images.encode_jpeg(developed, camera.sensor.jpeg_quality)
    with clock("encode depth (PNG)"):
        encode_channel("depth", truth["depth_m"])
    with clock("encode ids (PNG)"):
        encode_channel("ids", ids)
    return NewSample(
        index=number, image_bytes=jpeg, width=camera.width, height=camera.height, origin="sim",
        objects=objects, channels={"depth": truth["depth_m"], "ids": ids}, metadata={"lens": camera.lens},
    )  # fmt: skip
