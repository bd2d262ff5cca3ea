"""Rasterizer with path-traced radiance."""

from __future__ import annotations

import zlib
from collections.abc import Collection

from sim2cam.render.backends.mitsuba import PathTracer, load_mitsuba
from sim2cam.render.gbuffer import Channel, GBuffer
from sim2cam.render.rasterizer import PinholeView, Rasterizer, check_channels
from sim2cam.scene.scene import Scene

SAMPLES_PER_PIXEL = 64
"""Default number of paths per pixel."""


class PathTracedRasterizer:
    """Radiance by Mitsuba, all other channels by a rasterizer.

    Mitsuba samples its channels at random positions in the pixel and has no amodal channel.

    Args:
        label_rasterizer: rasterizer of all channels but the radiance.
        samples_per_pixel: number of paths per pixel.

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
        """Backend, and the rasterizer of the labels."""
        return f"mitsuba: {self._version}, {self._samples_per_pixel} paths a pixel; labels by {self._label_rasterizer.name}"

    @property
    def channels(self) -> frozenset[Channel]:
        """Channels of the rasterizer, and the radiance."""
        return self._label_rasterizer.channels | {"radiance"}

    def load(self, scene: Scene) -> None:
        """Load a settled scene into the rasterizer and the path tracer."""
        self._label_rasterizer.load(scene)
        self._tracer = PathTracer(scene)
        self._scene_hash = zlib.crc32(scene.to_json().encode())

    def render(
        self, view: PinholeView, channels: Collection[Channel], *, samples: int = 4
    ) -> GBuffer:
        """Render channels of a view; see ``Rasterizer``. ``samples`` does not affect the radiance."""
        check_channels(self.name, channels, self.channels)
        gbuffer = dict(
            self._label_rasterizer.render(view, set(channels) - {"radiance"}, samples=samples)
        )
        if "radiance" in channels:
            # a seed per view: a noise pattern shared by all images could be learned
            seed = zlib.crc32(repr(view).encode(), self._scene_hash)
            gbuffer["radiance"] = self._tracer.trace(
                view, samples_per_pixel=self._samples_per_pixel, seed=seed
            )
        return gbuffer
