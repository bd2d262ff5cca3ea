"""What all lenses share: every ray they see meets in one point, the origin of the camera frame.

Pixel coordinates have integers at pixel centres, as OpenCV's do. Points and rays are in the camera
frame (x right, y down, z forward). Rays are unit vectors, so that a lens may see what lies beside
and behind it.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from sim2cam.errors import LensError

Floats = NDArray[np.float64]

_CHUNK_PIXELS = 32768  # pixels at a time: their intermediate values stay in the processor's cache

NEWTON_STEPS = 20
CONVERGED_PX = 1e-7
MAX_RESIDUAL_PX = 1e-4
"""A pixel from which Newton's method stays farther than this has no ray."""


@dataclass(frozen=True)
class CentralLens(ABC):
    """A map between rays and pixels.

    Attributes:
        depth_along: what depth means in pictures through this lens: along the optical ``axis``, or
            the distance along the ``ray`` of each pixel.
    """

    depth_along: ClassVar[Literal["axis", "ray"]]

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, float) and not math.isfinite(value):
                raise LensError(f"{field.name} of a lens is {value}. It takes a finite number.")
            if field.name in ("fx_px", "fy_px") and value <= 0:
                raise LensError(f"{field.name} of a lens is {value}. It takes a number above 0.")

    def project(self, points_m: Floats) -> Floats:
        """Return the pixels (n, 2) of points (n, 3) in the camera frame, metres.

        Raises:
            LensError: the lens does not see a point; ask ``sees`` before.
        """
        unseen = np.flatnonzero(~self.can_project(points_m))
        if len(unseen):
            x, y, z = points_m[unseen[0]]
            raise LensError(
                f"point ({x:.4g}, {y:.4g}, {z:.4g}) lies {_compute_off_axis_deg(x, y, z):.1f} degrees off "
                f"the axis of {self}: {self.describe_domain()}. Leave out what the lens does not see."
            )
        return self._project(points_m)

    def unproject(self, pixels: Floats) -> Floats:
        """Return the unit rays (n, 3) in the camera frame that pixels (n, 2) see.

        Raises:
            LensError: no ray of the lens's domain meets a pixel.
        """
        starts = range(0, max(1, len(pixels)), _CHUNK_PIXELS)
        found = [self._unproject(pixels[start : start + _CHUNK_PIXELS]) for start in starts]
        rays, met = (np.concatenate(parts) for parts in zip(*found, strict=True))
        missed = np.flatnonzero(~met)
        if len(missed):
            x, y = pixels[missed[0]]
            raise LensError(
                f"pixel ({x:.1f}, {y:.1f}) lies outside the domain of {self}: {self.describe_domain()}. Use "
                "a smaller image or a lens that bends less."
            )
        return rays

    @abstractmethod
    def can_project(self, points_m: Floats) -> NDArray[np.bool_]:
        """Return which points (n, 3) in the camera frame lie in the lens's domain."""

    def can_unproject(self, pixels: Floats) -> NDArray[np.bool_]:
        """Return which pixels (n, 2) a ray of the lens's domain meets."""
        return self._unproject(pixels)[1]

    @abstractmethod
    def describe_domain(self) -> str:
        """Return where the lens's domain ends and why, in words."""

    @abstractmethod
    def _project(self, points_m: Floats) -> Floats:
        """Return the pixels (n, 2) of points (n, 3) of the domain."""

    @abstractmethod
    def _unproject(self, pixels: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """Return unit rays (n, 3), and which of them are in the domain and meet their pixel."""


def center_rays(rays: Floats) -> tuple[Rotation, Floats]:
    """Return the turn that brings the middle of rays (n, 3) to the axis, and where they are then.

    These are places (n, 2) in the plane z = 1, where anything that takes a pinhole can use them; rays
    of 90 degrees or more off that axis have none that is of use.
    """
    ahead = Rotation.align_vectors([[0.0, 0.0, 1.0]], [rays.mean(axis=0)])[0]
    turned = ahead.apply(rays)
    return ahead, np.ascontiguousarray(turned[:, :2] / turned[:, 2:])


def find_first_root(coefficients: Floats) -> float:
    """Return the least positive u with 1 + c1 u + c2 u^2 + ... = 0 for c1, c2, ...; or infinity."""
    inverse = np.roots([1.0, *coefficients])  # of 1 / u: the leading coefficient is never 0
    real = inverse.real[(np.abs(inverse.imag) < 1e-12) & (inverse.real > 0)]
    return 1 / float(real.max()) if len(real) else math.inf


def _compute_off_axis_deg(x: float, y: float, z: float) -> float:
    return math.degrees(math.atan2(math.hypot(x, y), z))
