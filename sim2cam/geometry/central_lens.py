"""Base class of central lenses, whose rays meet in the origin of the camera frame.

Pixel coordinates are integers at pixel centres, as in OpenCV. Points and rays are in the camera frame (x right,
y down, z forward). Rays are unit vectors, so that lenses may see sideways and backwards.
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

_CHUNK_PIXELS = 32768  # per block, so that intermediate values fit into the CPU cache

NEWTON_STEPS = 20
CONVERGED_PX = 1e-7
MAX_RESIDUAL_PX = 1e-4
"""Largest residual of Newton's method for a pixel inside the domain."""


@dataclass(frozen=True)
class CentralLens(ABC):
    """A mapping between rays and pixels.

    Attributes:
        depth_along: Definition of depth for this lens: along the optical ``axis``, or the distance along the
            ``ray`` of each pixel.
    """

    depth_along: ClassVar[Literal["axis", "ray"]]

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, float) and not math.isfinite(value):
                raise LensError(f"{field.name} of a lens is {value}. It must be finite.")
            if field.name in ("fx_px", "fy_px") and value <= 0:
                raise LensError(f"{field.name} of a lens is {value}. It must be above 0.")

    def project(self, points_m: Floats) -> Floats:
        """Project points (n, 3) in the camera frame, metres, to pixels (n, 2).

        Raises:
            LensError: If a point is outside the domain; see ``can_project``.
        """
        outside = np.flatnonzero(~self.can_project(points_m))
        if len(outside):
            x, y, z = points_m[outside[0]]
            raise LensError(
                f"point ({x:.4g}, {y:.4g}, {z:.4g}) is {_compute_off_axis_deg(x, y, z):.1f} degrees off "
                f"the axis of the lens: {self.describe_domain()}. Remove points outside the field of view."
            )
        return self._project(points_m)

    def unproject(self, pixels: Floats) -> Floats:
        """Return the unit rays (n, 3) of pixels (n, 2) in the camera frame.

        Raises:
            LensError: If a pixel is outside the domain.
        """
        starts = range(0, max(1, len(pixels)), _CHUNK_PIXELS)
        blocks = [self._unproject(pixels[start : start + _CHUNK_PIXELS]) for start in starts]
        rays, is_valid = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
        outside = np.flatnonzero(~is_valid)
        if len(outside):
            x, y = pixels[outside[0]]
            raise LensError(
                f"pixel ({x:.1f}, {y:.1f}) is outside the domain of the lens: {self.describe_domain()}. Use "
                "a smaller image or a lens with less distortion."
            )
        return rays

    @abstractmethod
    def can_project(self, points_m: Floats) -> NDArray[np.bool_]:
        """Return whether points (n, 3) in the camera frame are in the lens's domain."""

    def can_unproject(self, pixels: Floats) -> NDArray[np.bool_]:
        """Return whether pixels (n, 2) are in the image of the lens's domain."""
        return self._unproject(pixels)[1]

    @abstractmethod
    def describe_domain(self) -> str:
        """Describe the limit of the lens's domain and its reason."""

    @abstractmethod
    def _project(self, points_m: Floats) -> Floats:
        """Project points (n, 3) inside the domain to pixels (n, 2)."""

    @abstractmethod
    def _unproject(self, pixels: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """Return unit rays (n, 3), and whether they are valid (n,)."""


def center_rays(rays: Floats) -> tuple[Rotation, Floats]:
    """Rotate rays so that their mean lies on the z axis.

    Args:
        rays: (n, 3) unit rays within 90 degrees of their mean.

    Returns:
        The rotation, and the rotated rays (n, 2) on the plane z = 1, as for a pinhole camera.
    """
    rotation = Rotation.align_vectors([[0.0, 0.0, 1.0]], [rays.mean(axis=0)])[0]
    rotated = rotation.apply(rays)
    return rotation, np.ascontiguousarray(rotated[:, :2] / rotated[:, 2:])


def find_first_root(coefficients: Floats) -> float:
    """Return the smallest positive root u of 1 + c1 u + c2 u^2 + ..., or infinity."""
    inverse = np.roots(
        [1.0, *coefficients]
    )  # solved for 1 / u, so that the leading coefficient is not 0
    real = inverse.real[(np.abs(inverse.imag) < 1e-12) & (inverse.real > 0)]
    return 1 / float(real.max()) if len(real) else math.inf


def _compute_off_axis_deg(x: float, y: float, z: float) -> float:
    return math.degrees(math.atan2(math.hypot(x, y), z))
