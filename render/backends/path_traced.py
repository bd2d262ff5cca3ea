"""Drawing with light that is path traced; everything else is what a rasterizer sees."""

from __future__ import annotations

import zlib
from collections.abc import Collection

from sim2cam.render.backends.mitsuba import Tracer, mitsuba
from sim2cam.render.gbuffer import Channel, GBuffer
from sim2cam.render.rasterizer import PinholeView, Rasterizer, check_channels
from sim2cam.scene.scene import Scene

PATHS = 64
"""For each pixel."""


class PathTracedRasterizer:
    """Draws the radiance by Mitsuba and has a rasterizer draw the labels, at the pixels' centres.

    Mitsuba's own channels are taken at random places of the pixel, and it says nothing of what lies
    behind the surface seen.

    Args:
        labels: draws them.
        paths: for each pixel.

    Raises:
        BackendError: Mitsuba is not installed.
    """

    def __init__(self, labels: Rasterizer, *, paths: int = PATHS) -> None:
        module = mitsuba()
        self._version = f"{module.__version__} {module.variant()}"
        self._labels = labels
        self._paths = paths

    @property
    def name(self) -> str:
        """The backend, and what draws the labels."""
        return (
            f"mitsuba: {self._version}, {self._paths} paths a pixel; labels by {self._labels.name}"
        )

    @property
    def channels(self) -> frozenset[Channel]:
        """The radiance and those of the rasterizer."""
        return self._labels.channels | {"radiance"}

    def load(self, scene: Scene) -> None:
        """Hands a settled scene to both."""
        self._labels.load(scene)
        self._tracer = Tracer(scene)
        self._salt = zlib.crc32(scene.to_json().encode())

    def draw(
        self, view: PinholeView, channels: Collection[Channel], *, samples: int = 4
    ) -> GBuffer:
        """Returns channels of a view; see ``Rasterizer``. The radiance has its own samples always."""
        check_channels(self.name, channels, self.channels)
        found = dict(self._labels.draw(view, set(channels) - {"radiance"}, samples=samples))
        if "radiance" in channels:
            # other paths for another view: one pattern of noise on all pictures could be learned
            seed = zlib.crc32(repr(view).encode(), self._salt)
            found["radiance"] = self._tracer.trace(view, paths=self._paths, seed=seed)
        return found
