"""sim2cam's rasterizer, with new poses and shadow maps in every frame like its peers.

The cost of a channel is the time difference between rendering all channels and all but this one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from peers import measure
from sim2cam.render.gbuffer import Channel
from sim2cam.render.optics.views import build_optics
from sim2cam.render.renderer import get_renderer
from sim2cam.scene.light import Environment
from sim2cam.scene.scene import Scene
from sim2cam.surfaces.textures import encode_srgb
from sim2cam.version import __version__

RGB_DEPTH: frozenset[Channel] = frozenset({"radiance", "depth_m"})
OUTPUTS: dict[str, frozenset[Channel]] = {
    "radiance": frozenset({"radiance"}),
    "depth": frozenset({"depth_m"}),
    "ids of bodies and parts": frozenset({"bodies", "parts"}),
    "normals": frozenset({"normals"}),
    "cover": frozenset({"cover"}),
}
"""Channels that can be omitted, by output."""


def main() -> None:
    """Time the channels of other renderers, all channels, and each channel."""
    arguments = measure.parse_arguments()
    lines = (arguments.folder / "scenes.jsonl").read_text(encoding="utf-8").splitlines()
    scenes = [Scene.from_json(line) for line in lines]
    view = build_optics(scenes[0].cameras[0]).pinhole
    assert view is not None
    rasterizer = get_renderer().rasterizer
    all_channels = rasterizer.channels

    def time_channels(
        what: str,
        channels: frozenset[Channel],
        samples: int = 1,
        scenes_to_render: list[Scene] = scenes,
    ) -> measure.Timing:
        def frame(number: int) -> Any:
            scene = scenes_to_render[number % len(scenes_to_render)]
            rasterizer.release()
            return rasterizer.render(scene, view, channels & all_channels, samples=samples)

        return measure.time_frames(what, frame, arguments)

    def prepare(number: int) -> None:
        scene = scenes[number % len(scenes)]
        rasterizer.release()
        rasterizer.render(scene, replace(view, width=16, height=16), {"radiance"})  # with shadows

    sunlit = [use_one_hard_light(scene) for scene in scenes]
    prepare(0)
    buffers = rasterizer.render(scenes[0], view, all_channels)
    before = measure.resident_mb()
    timings = [
        time_channels("RGB, depth", RGB_DEPTH),
        time_channels("RGB, depth, ids", RGB_DEPTH | {"bodies"}),
        time_channels("all channels", all_channels),
        time_channels("all channels, 4 samples", all_channels, 4),
        time_channels("all channels, one hard light", all_channels, 1, sunlit),
        time_channels("all channels, 4 samples, one hard light", all_channels, 4, sunlit),
        measure.time_frames("shadow maps", prepare, arguments),
        *_time_outputs(
            prepare,
            lambda number, channels: rasterizer.render(
                scenes[number % len(scenes)], view, channels, samples=1
            ),
            all_channels,
            arguments,
        ),
    ]
    image = measure.RenderedImage(
        encode_srgb(buffers["radiance"]), buffers["depth_m"], buffers["bodies"].astype(np.int64)
    )
    version = f"sim2cam {__version__}, {rasterizer.name}"
    measure.report(arguments, version, timings, image, before)


def use_one_hard_light(scene: Scene) -> Scene:
    """Return the scene with one hard light and no ambient light."""
    lamp = replace(scene.environment.lamps[0], radius_rad=0.005)
    black = (0.0, 0.0, 0.0)
    return replace(scene, environment=Environment(black, black, (lamp,)))


def _time_outputs(
    prepare: Callable[[int], None],
    render: Callable[[int, frozenset[Channel]], Any],
    all_channels: frozenset[Channel],
    arguments: measure.Arguments,
) -> list[measure.Timing]:
    """Return the time that each output adds, frame by frame.

    Args:
        prepare: loads a frame.
        render: renders channels of a frame.
        all_channels: all channels.
    """
    outputs = {name: channels for name, channels in OUTPUTS.items() if channels & all_channels}
    timings = {name: measure.Timing(f"channel: {name}", [], []) for name in outputs}
    for frame in range(arguments.frames):
        prepare(frame)
        render(frame, all_channels)
        complete = measure.time_call(partial(render, frame, all_channels))
        for name, channels in outputs.items():
            partial_render = measure.time_call(partial(render, frame, all_channels - channels))
            timings[name].cpu_ms.append(complete[0] - partial_render[0])
            timings[name].wall_ms.append(complete[1] - partial_render[1])
    return list(timings.values())


if __name__ == "__main__":
    main()
