"""sim2cam's rasterizer, timed as its peers are: new poses, so new shadow maps, in every frame.

The cost of a channel is the difference of two drawings of the same frame, one with all channels and
one with all but that: drawing it, reading it back and copying it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from peers import measure
from sim2cam import __version__
from sim2cam.render.gbuffer import Channel
from sim2cam.render.optics.views import build_optics
from sim2cam.render.rasterizer import get_rasterizer
from sim2cam.scene.light import Environment
from sim2cam.scene.scene import Scene
from sim2cam.surfaces.textures import encode_srgb

RGB_DEPTH: frozenset[Channel] = frozenset({"radiance", "depth_m"})
OUTPUTS: dict[str, frozenset[Channel]] = {
    "radiance": frozenset({"radiance"}),
    "depth": frozenset({"depth_m"}),
    "ids of bodies and parts": frozenset({"bodies", "parts"}),
    "normals": frozenset({"normals"}),
    "cover": frozenset({"cover"}),
}
"""What can be left out of a drawing; the channels of one output come together."""


def main() -> None:
    """Time what its peers draw, then all channels, then what each of them costs."""
    asked = measure.arguments()
    lines = (asked.folder / "scenes.jsonl").read_text(encoding="utf-8").splitlines()
    scenes = [Scene.from_json(line) for line in lines]
    view = build_optics(scenes[0].cameras[0]).pinhole
    assert view is not None
    drawing = get_rasterizer()
    every = drawing.channels

    def timed(
        what: str, channels: frozenset[Channel], samples: int = 1, lit: list[Scene] = scenes
    ) -> measure.Timing:
        def frame(number: int) -> Any:
            drawing.load(lit[number % len(lit)])
            return drawing.render(view, channels & every, samples=samples)

        return measure.timed(what, frame, asked)

    def prepare(number: int) -> None:
        drawing.load(scenes[number % len(scenes)])
        drawing.render(
            replace(view, width=16, height=16), {"radiance"}
        )  # which needs the shadow maps

    sunlit = [sunlit_alone(scene) for scene in scenes]
    prepare(0)
    seen = drawing.render(view, every, samples=4)
    before = measure.resident_mb()
    timings = [
        timed("RGB, depth", RGB_DEPTH),
        timed("RGB, depth, ids", RGB_DEPTH | {"bodies"}),
        timed("all channels", every),
        timed("all channels, 4 samples", every, 4),
        timed("all channels, one hard light", every, 1, sunlit),
        timed("all channels, 4 samples, one hard light", every, 4, sunlit),
        measure.timed("shadow maps", prepare, asked),
        *_channels(
            prepare, lambda channels: drawing.render(view, channels, samples=1), every, asked
        ),
    ]
    picture = measure.Picture(
        encode_srgb(seen["radiance"]), seen["depth_m"], seen["bodies"].astype(np.int64)
    )
    version = f"sim2cam {__version__}, {drawing.name}"
    measure.report(asked, version, timings, picture, before)


def sunlit_alone(scene: Scene) -> Scene:
    """Return the scene in one hard light, as its peers are lit but for their ambient light."""
    lamp = replace(scene.environment.lamps[0], radius_rad=0.005)
    black = (0.0, 0.0, 0.0)
    return replace(scene, environment=Environment(black, black, (lamp,)))


def _channels(
    prepare: Callable[[int], None],
    draw: Callable[[frozenset[Channel]], Any],
    every: frozenset[Channel],
    asked: measure.Arguments,
) -> list[measure.Timing]:
    """Return what each output adds, frame by frame.

    Args:
        prepare: makes a frame the one that is drawn.
        draw: draws channels of it.
        every: all channels.
        asked: how many frames.
    """
    outputs = {name: left for name, left in OUTPUTS.items() if left & every}
    found = {name: measure.Timing(f"channel: {name}", [], []) for name in outputs}
    for frame in range(asked.frames):
        prepare(frame)
        draw(every)
        whole = measure.once(partial(draw, every))
        for name, left in outputs.items():
            rest = measure.once(partial(draw, every - left))
            found[name].cpu_ms.append(whole[0] - rest[0])
            found[name].wall_ms.append(whole[1] - rest[1])
    return list(found.values())


if __name__ == "__main__":
    main()
