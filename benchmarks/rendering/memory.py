"""Memory over many frames with new scenes, meshes, textures and sizes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from peers.measure import resident_mb

from sim2cam.pipeline.recipe import Recipe
from sim2cam.pipeline.scene_sampling import simulate_scene
from sim2cam.render.renderer import get_renderer

SIZES_PX = ((160, 120), (96, 128), (200, 150), (128, 96))
"""Image sizes, cycled from scene to scene."""
_MARKS = 200
"""Points of the curve."""


def watch_memory(recipe: Recipe, frames: int) -> Iterator[dict[str, Any]]:
    """Yield the memory curve after each of its points.

    Args:
        recipe: recipe of the scenes; all views of each scene are rendered.
        frames: number of frames.
    """
    interval = max(1, frames // _MARKS)
    curve: list[tuple[int, float]] = []
    frame = 0
    for index in itertools.count():
        width, height = SIZES_PX[index % len(SIZES_PX)]
        sized = replace(recipe, render=replace(recipe.render, width=width, height=height))
        scene = simulate_scene(sized, 0, index).scene
        with get_renderer().open(scene) as stage:
            for camera in scene.cameras:
                stage.shoot(camera, recipe.render.channels)
                frame += 1
                if frame % interval == 0 or frame == frames:
                    curve.append((frame, resident_mb()))
                    yield {"scenes": index + 1, "memory_mb": curve, **compute_growth(curve)}
                if frame == frames:
                    return


def compute_growth(curve: list[tuple[int, float]]) -> dict[str, float]:
    """Return the memory growth per 1,000 frames over the second half of a curve, and its end."""
    half = np.array(curve[len(curve) // 2 :])
    slope = float(np.polyfit(half[:, 0], half[:, 1], 1)[0]) if len(half) > 1 else 0.0
    return {"mb_per_1000_frames": 1000 * slope, "end_mb": curve[-1][1], "frames": curve[-1][0]}
