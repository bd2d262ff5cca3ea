"""Memory growth over thousands of frames with new scenes, meshes, textures and sizes in one process.

    python benchmarks/leak.py [--frames N]

Writes ``leak.json`` to ``benchmarks/results`` after each point of the curve.
"""

from __future__ import annotations

import os

from rendering.commands import ONE_THREAD

if __name__ == "__main__":
    os.environ.update(ONE_THREAD)  # before any library counts cores

import sys
from dataclasses import dataclass, replace
from pathlib import Path

import tyro
from rendering.memory import SIZES_PX, watch_memory
from result_files import write_results

from sim2cam.data.channels import ChannelName
from sim2cam.data.environment import collect_environment
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.render.renderer import get_renderer

CHANNELS: tuple[ChannelName, ...] = ("depth", "ids", "parts", "normals", "coordinates")
VIEWS = 8
"""Frames per scene."""


@dataclass(frozen=True)
class Arguments:
    """Options of the benchmark."""

    frames: int = 20_000
    """Number of frames."""
    out: Path = Path(__file__).parent / "results"
    """Folder of the results."""


def main(arguments: Arguments) -> None:
    """Measure memory; write and print the results."""
    recipe = load_recipe("dice")
    recipe = replace(recipe, render=replace(recipe.render, views=VIEWS, channels=CHANNELS))
    facts = collect_environment(get_renderer().name, 1)
    for curve in watch_memory(recipe, arguments.frames):
        sizes = [f"{width}x{height}" for width, height in SIZES_PX]
        write_results(arguments.out / "leak.json", {"environment": facts, "sizes": sizes, **curve})
        print(f"{curve['frames']} frames: {curve['end_mb']:.0f} MB", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
