"""Drawing with light that is path traced; everything else is what a rasterizer sees."""

from __future__ import annotations

import zlib
from collections.abc import Collection

from sim2cam.render.backends.mitsuba import PathTracer, load_mitsuba
from sim2cam.render.gbuffer import Channel, GBuffer
from sim2cam.render.rasterizer import PinholeView, Rasterizer, check_channels
from sim2cam.scene.scene import Scene

SAMPLES_PER_PIXEL = 64
"""For each pixel."""


class PathTracedRasterizer:
    """Draws the radiance by Mitsuba and has a rasterizer draw the labels, at the pixels' centres.

    Mitsuba's own channels are taken at random places of the pixel, and it says nothing of what lies
    behind the surface seen.

    Args:
        label_rasterizer: draws them.
        samples_per_pixel: for each pixel.

    Raises:
        BackendError: Mitsuba is not installed.
    """

    def __init__(
        self, label_rasterizer: Rasterizer, *, samples_per_pixel: int = SAMPLES_PER_PIXEL
    ) -> None:
        module = load_mitsuba()
        self._version = f"{module.__version__} {module.variant()}"
        self._label_rasterizer = label_rasterizer
        self._samples_per_pixel = samples_per_pixel

    @property
    def name(self) -> str:
        """The backend, and what draws the labels."""
        return f"mitsuba: {self._version}, {self._samples_per_pixel} paths a pixel; labels by {self._label_rasterizer.name}"

    @property
    def channels(self) -> frozenset[Channel]:
        """The radiance and those of the rasterizer."""
        return self._label_rasterizer.channels | {"radiance"}

    def load(self, scene: Scene) -> None:
        """Hand a settled scene to both."""
        self._label_rasterizer.load(scene)
        self._tracer = PathTracer(scene)
        self._scene_hash = zlib.crc32(scene.to_json().encode())

    def render(
        self, view: PinholeView, channels: Collection[Channel], *, samples: int = 4
    ) -> GBuffer:
        """Return channels of a view; see ``Rasterizer``. The radiance has its own samples always."""
        check_channels(self.name, channels, self.channels)
        found = dict(
            self._label_rasterizer.render(view, set(channels) - {"radiance"}, samples=samples)
        )
        if "radiance" in channels:
            # other paths for another view: one pattern of noise on all pictures could be learned
            seed = zlib.crc32(repr(view).encode(), self._scene_hash)
            found["radiance"] = self._tracer.trace(
                view, samples_per_pixel=self._samples_per_pixel, seed=seed
            )
        return found
