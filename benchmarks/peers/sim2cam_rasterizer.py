"""sim2cam's rasterizer, timed as its peers are: new poses, so new shadow maps, in every frame."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from peers import measure
from sim2cam import __version__
from sim2cam.render.gbuffer import Channel
from sim2cam.render.optics import view_maps
from sim2cam.render.rasterizer import rasterizer
from sim2cam.render.textures import encode_srgb
from sim2cam.scene.scene import Scene

RGB_DEPTH: frozenset[Channel] = frozenset({"radiance", "depth_m"})
OUTPUTS: dict[str, frozenset[Channel]] = {
    "radiance": frozenset({"radiance"}),
    "depth": frozenset({"depth_m"}),
    "ids of bodies and parts": frozenset({"bodies", "parts"}),
    "normals": frozenset({"normals"}),
    "object coordinates": frozenset({"object_xyz_m"}),
    "cover": frozenset({"cover"}),
}
"""What can be left out of a drawing; the channels of one output come together."""


def main() -> None:
    """Times what its peers draw, then all channels, then all but one."""
    asked = measure.arguments()
    lines = (asked.folder / "scenes.jsonl").read_text(encoding="utf-8").splitlines()
    scenes = [Scene.from_json(line) for line in lines]
    view = view_maps(scenes[0].cameras[0])[0].view
    drawing = rasterizer()
    every = drawing.channels

    def timed(what: str, channels: frozenset[Channel], samples: int = 1) -> measure.Timing:
        def frame(number: int) -> Any:
            drawing.load(scenes[number % len(scenes)])
            return drawing.draw(view, channels & every, samples=samples)

        return measure.timed(what, frame, asked)

    def prepare(number: int) -> None:
        drawing.load(scenes[number % len(scenes)])
        drawing.draw(replace(view, width=16, height=16), {"depth_m"})  # waits for the shadow maps

    prepare(0)
    seen = drawing.draw(view, every, samples=4)
    before = measure.resident_mb()
    timings = [
        timed("RGB, depth", RGB_DEPTH),
        timed("RGB, depth, ids", RGB_DEPTH | {"bodies"}),
        timed("all channels", every),
        timed("all channels, 4 samples", every, 4),
        measure.timed("shadow maps", prepare, asked),
        *(timed(f"without {name}", every - left) for name, left in OUTPUTS.items() if left & every),
    ]
    picture = measure.Picture(
        encode_srgb(seen["radiance"]), seen["depth_m"], seen["bodies"].astype(np.int64)
    )
    version = f"sim2cam {__version__}, {drawing.name}"
    measure.report(asked, version, timings, picture, before)


if __name__ == "__main__":
    main()
