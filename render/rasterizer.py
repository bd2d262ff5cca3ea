"""Rasterizer protocol, and the choice of a backend for this process."""

from __future__ import annotations

import functools
import os
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from sim2cam.errors import BackendError, suggest_name
from sim2cam.geometry.poses import Pose
from sim2cam.render.gbuffer import BITS_PER_WORD, Channel, GBuffer
from sim2cam.scene.scene import Scene

if TYPE_CHECKING:
    from sim2cam.render.backends.opengl.context import PlatformName

BACKEND_VARIABLE = "SIM2CAM_BACKEND"
BACKENDS = ("egl", "osmesa", "tiny", "mitsuba")


@dataclass(frozen=True)
class PinholeView:
    """An undistorted view. Integer coordinates are pixel centres.

    Attributes:
        pose: camera (x right, y down, z forward) in the world frame.
        width, height: size in pixels.
        focal_px: focal length in pixels.
        cx_px, cy_px: principal point in pixels; may lie outside the view.
    """

    pose: Pose
    width: int
    height: int
    focal_px: float
    cx_px: float
    cy_px: float


class Rasterizer(Protocol):
    """Renderer of G-buffers of one loaded scene."""

    @property
    def name(self) -> str:
        """Backend and device, for provenance."""

    @property
    def channels(self) -> frozenset[Channel]:
        """Supported channels."""

    def load(self, scene: Scene) -> None:
        """Load the scene to render."""

    def render(
        self, view: PinholeView, channels: Collection[Channel], *, samples: int = 4
    ) -> GBuffer:
        """Render channels of a view.

        Args:
            view: view to render.
            channels: channels to render.
            samples: radiance samples per pixel, 1 or 4. Other channels are sampled at pixel centres.

        Raises:
            BackendError: a channel or the number of lights is not supported.
        """


@functools.cache
def get_rasterizer() -> Rasterizer:
    """Return the rasterizer of this process.

    Environment variable ``SIM2CAM_BACKEND`` (``egl``, ``osmesa``, ``tiny``, or ``mitsuba`` for
    path-traced light) selects the backend. The default is EGL, or TinyRenderer without EGL. The
    rasterizer is never closed: a second EGL context in a process disturbs the first.

    Raises:
        BackendError: the selected backend is unknown or cannot start.
    """
    backend = os.environ.get(BACKEND_VARIABLE, "")
    if backend not in ("", *BACKENDS):
        raise BackendError(
            f"{BACKEND_VARIABLE}={backend}: unknown backend. {suggest_name(backend, BACKENDS)}"
        )
    match backend:
        case "egl" | "osmesa":
            return _create_opengl(backend)
        case "tiny":
            return _create_tiny()
        case "mitsuba":
            from sim2cam.render.backends.path_traced import PathTracedRasterizer

            return PathTracedRasterizer(_create_first_available())
        case _:
            return _create_first_available()


def _create_first_available() -> Rasterizer:
    try:
        return _create_opengl("egl")
    except BackendError:
        return _create_tiny()


def _create_opengl(platform: PlatformName) -> Rasterizer:
    from sim2cam.render.backends.opengl.rasterizer import OpenGLRasterizer

    return OpenGLRasterizer(platform)


def _create_tiny() -> Rasterizer:
    from sim2cam.render.backends.tiny_renderer import TinyRasterizer

    return TinyRasterizer()


def assign_label_ids(scene: Scene) -> dict[str, int]:
    """Return the label id (from 1) of each labelled body, by name."""
    names = [body.name for body in scene.bodies if body.is_target]
    return {name: label_id for label_id, name in enumerate(names, start=1)}


def convert_to_instance_ids(scene: Scene, body_ids: NDArray[np.uint32]) -> NDArray[np.uint16]:
    """Return the label ids (h, w) of body numbers (h, w); 0 for bodies without a label."""
    label_ids = assign_label_ids(scene)
    ids_by_body = [0, *(label_ids.get(body.name, 0) for body in scene.bodies)]
    return np.array(ids_by_body, np.uint16)[body_ids]


def check_channels(
    name: str, requested: Collection[Channel], supported: frozenset[Channel]
) -> None:
    """Raise BackendError if a rasterizer does not support a channel."""
    missing = sorted(set(requested) - supported)
    if missing:
        raise BackendError(
            f"the rasterizer '{name}' has no channel {missing[0]}. Supported: {', '.join(sorted(supported))}."
        )


def count_amodal_words(scene: Scene) -> int:
    """Return the number of 32-bit words with one bit for each labelled body, at least 1."""
    return max(1, -(-len(assign_label_ids(scene)) // BITS_PER_WORD))
