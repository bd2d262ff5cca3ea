"""What a rasterizer is asked for and gives back; which one runs here is decided once per process."""

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
    """An undistorted view; integers are pixel centres.

    Attributes:
        pose: the camera (x right, y down, z forward) in the world.
        width, height: pixels.
        focal_px: focal length.
        cx_px, cy_px: principal point; may lie outside.
    """

    pose: Pose
    width: int
    height: int
    focal_px: float
    cx_px: float
    cy_px: float


class Rasterizer(Protocol):
    """Draws one scene at a time, from any number of views."""

    @property
    def name(self) -> str:
        """The backend and what it runs on, for the record."""

    @property
    def channels(self) -> frozenset[Channel]:
        """The channels that it can give."""

    def load(self, scene: Scene) -> None:
        """Make a scene the one that is drawn."""

    def render(
        self, view: PinholeView, channels: Collection[Channel], *, samples: int = 4
    ) -> GBuffer:
        """Return channels of a view.

        Args:
            view: what is seen.
            channels: those that are wanted.
            samples: a pixel, of the radiance; 1 or 4. All else is taken at the pixel's centre.

        Raises:
            BackendError: a channel or more lights than this rasterizer can give.
        """


@functools.cache
def get_rasterizer() -> Rasterizer:
    """Return this process's rasterizer: OpenGL through EGL, or pybullet's where there is none.

    ``SIM2CAM_BACKEND`` (``egl``, ``osmesa``, ``tiny``, or ``mitsuba`` for path-traced light) decides
    otherwise. It is made once and never torn down: a second EGL context in a process disturbs the
    first.

    Raises:
        BackendError: the backend asked for is unknown or cannot start.
    """
    wanted = os.environ.get(BACKEND_VARIABLE, "")
    if wanted not in ("", *BACKENDS):
        raise BackendError(
            f"{BACKEND_VARIABLE}={wanted}: no such backend. {suggest_name(wanted, BACKENDS)}"
        )
    match wanted:
        case "egl" | "osmesa":
            return _create_opengl(wanted)
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
    """Return the number (from 1) of each labelled body, by name."""
    targets = [body.name for body in scene.bodies if body.is_target]
    return {name: number for number, name in enumerate(targets, start=1)}


def convert_to_instance_ids(scene: Scene, body_ids: NDArray[np.uint32]) -> NDArray[np.uint16]:
    """Return the numbers (h, w) of the labelled bodies among the bodies (h, w) seen, 0 elsewhere."""
    numbers = assign_label_ids(scene)
    by_body = [0, *(numbers.get(body.name, 0) for body in scene.bodies)]
    return np.array(by_body, np.uint16)[body_ids]


def check_channels(
    name: str, requested: Collection[Channel], supported: frozenset[Channel]
) -> None:
    """Refuse channels that a rasterizer cannot give.

    Raises:
        BackendError: naming one and those that it gives.
    """
    missing = sorted(set(requested) - supported)
    if missing:
        raise BackendError(
            f"the rasterizer '{name}' has no channel {missing[0]}. It gives {', '.join(sorted(supported))}."
        )


def count_amodal_words(scene: Scene) -> int:
    """Return how many 32-bit words hold one bit for each labelled body, at least 1."""
    return max(1, -(-len(assign_label_ids(scene)) // BITS_PER_WORD))
