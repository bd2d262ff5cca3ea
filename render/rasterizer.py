"""What a rasterizer is asked for and gives back; which one runs here is decided once per process."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sim2cam.errors import BackendError, did_you_mean
from sim2cam.geometry.poses import Pose
from sim2cam.scene.scene import Scene

BACKEND_VARIABLE = "SIM2CAM_BACKEND"
BITS_PER_WORD = 32


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


@dataclass(frozen=True)
class LabelBuffer:
    """Ground truth at the pixel centres of a view.

    Attributes:
        depth_m: (h, w) float32 along the optical axis, 0 where nothing is.
        ids: (h, w) uint16, the number (from 1) of the labelled body seen, 0 elsewhere.
        cover: (h, w, words) uint32; bit i - 1 says that body i lies behind the pixel, seen or not.
    """

    depth_m: NDArray[np.float32]
    ids: NDArray[np.uint16]
    cover: NDArray[np.uint32]


class Rasterizer(Protocol):
    """Draws one scene at a time, from any number of views."""

    @property
    def name(self) -> str:
        """The backend and what it runs on, for the record."""

    def load(self, scene: Scene) -> None:
        """Makes a settled scene the one that is drawn."""

    def radiance(self, view: PinholeView) -> NDArray[np.float32]:
        """Returns linear RGB (h, w, 3), anti-aliased."""

    def labels(self, view: PinholeView) -> LabelBuffer:
        """Returns the ground truth, not anti-aliased."""


@functools.cache
def rasterizer() -> Rasterizer:
    """Returns this process's rasterizer: OpenGL through EGL, or pybullet's where there is none.

    ``SIM2CAM_BACKEND`` (``egl`` or ``tiny``) decides otherwise. It is made once and never torn
    down: a second EGL context in a process disturbs the first.

    Raises:
        BackendError: the backend asked for is unknown or cannot start.
    """
    wanted = os.environ.get(BACKEND_VARIABLE, "")
    if wanted not in ("", "egl", "tiny"):
        raise BackendError(
            f"{BACKEND_VARIABLE}={wanted}: no such backend. {did_you_mean(wanted, ['egl', 'tiny'])}"
        )
    if wanted != "tiny":
        from sim2cam.render.egl import EglRasterizer

        try:
            return EglRasterizer()
        except BackendError:
            if wanted == "egl":
                raise
    from sim2cam.render.tiny import TinyRasterizer

    return TinyRasterizer()


def label_numbers(scene: Scene) -> dict[str, int]:
    """Returns the number (from 1) of each labelled body, by name."""
    targets = [body.name for body in scene.bodies if body.is_target]
    return {name: number for number, name in enumerate(targets, start=1)}


def cover_words(scene: Scene) -> int:
    """Returns how many 32-bit words hold one bit for each labelled body, at least 1."""
    return max(1, -(-len(label_numbers(scene)) // BITS_PER_WORD))
