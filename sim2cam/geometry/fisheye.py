"""Fisheye lenses, whose image radius is a function of the angle off the axis."""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sim2cam.errors import LensError
from sim2cam.geometry.central_lens import (
    CONVERGED_PX,
    MAX_RESIDUAL_PX,
    NEWTON_STEPS,
    CentralLens,
    Floats,
    find_first_root,
)

_N_START_ANGLES = 1024


class Fisheye(CentralLens):
    """Base class of lenses with a radius for every angle off the axis."""

    depth_along: ClassVar[Literal["axis", "ray"]] = "ray"

    def can_project(self, points_m: Floats) -> NDArray[np.bool_]:
        """Return whether points (n, 3) are within the largest angle off the axis."""
        distance = np.hypot(points_m[:, 0], points_m[:, 1])
        has_direction = (distance > 0) | (
            points_m[:, 2] > 0
        )  # excludes the origin and the ray straight back
        return np.asarray(
            has_direction & (np.arctan2(distance, points_m[:, 2]) <= self.get_max_angle_rad())
        )

    @abstractmethod
    def get_max_angle_rad(self) -> float:
        """Return the largest angle off the axis in the domain, at most pi."""

    @abstractmethod
    def _get_principal_point_px(self) -> tuple[float, float]:
        pass

    @abstractmethod
    def _get_focal_lengths_px(self) -> tuple[float, float]:
        """Return the scale along x and y in pixels per unit of radius."""

    @abstractmethod
    def _compute_radius(self, angles_rad: Floats) -> tuple[Floats, Floats]:
        """Return the radii (n,) of angles (n,) and their derivatives (n,)."""

    def _project(self, points_m: Floats) -> Floats:
        distance = np.hypot(points_m[:, 0], points_m[:, 1])
        radius, _ = self._compute_radius(np.arctan2(distance, points_m[:, 2]))
        scale = radius / np.maximum(distance, 1e-300)  # both are 0 on the axis
        return np.asarray(
            points_m[:, :2] * scale[:, None] * self._get_focal_lengths_px()
            + self._get_principal_point_px()
        )

    def _unproject(self, pixels: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        x, y = ((pixels - self._get_principal_point_px()) / self._get_focal_lengths_px()).T
        radius = np.hypot(x, y)
        angles = self._solve_angles(radius)
        is_valid = (
            np.abs(self._compute_radius(angles)[0] - radius) * max(self._get_focal_lengths_px())
            < MAX_RESIDUAL_PX
        )
        sine = np.sin(angles) / np.maximum(radius, 1e-300)
        return np.stack([x * sine, y * sine, np.cos(angles)], axis=1), is_valid

    def _solve_angles(self, radius: Floats) -> Floats:
        """Return the angles (n,) of radii (n,) by Newton's method, clipped to the domain."""
        limit = self.get_max_angle_rad()
        start_angles = np.linspace(0, limit, _N_START_ANGLES)
        angles = np.interp(radius, self._compute_radius(start_angles)[0], start_angles)
        for _ in range(NEWTON_STEPS):
            current_radius, slope = self._compute_radius(angles)
            error = current_radius - radius
            if not (np.abs(error) * max(self._get_focal_lengths_px()) > CONVERGED_PX).any():
                break
            step = np.divide(error, slope, out=np.zeros_like(error), where=slope > 0)
            angles = np.clip(angles - step, 0, limit)
        return np.asarray(angles)


@dataclass(frozen=True)
class KannalaBrandt(Fisheye):
    """Polynomial of the angle (Kannala and Brandt 2006), OpenCV's fisheye model.

    The radius at angle t is t (1 + k1 t^2 + k2 t^4 + k3 t^6 + k4 t^8) focal lengths. Without coefficients the
    lens is equidistant.

    Attributes:
        fx_px, fy_px: Focal lengths in pixels, equal to pixels per radian at the centre.
        cx_px, cy_px: Principal point in pixels; may be outside the image.
    """

    fx_px: float
    fy_px: float
    cx_px: float
    cy_px: float
    k1: float = 0.0
    k2: float = 0.0
    k3: float = 0.0
    k4: float = 0.0
    kind: Literal["kannala_brandt"] = "kannala_brandt"

    def matrix(self) -> Floats:
        """Return the camera matrix (3, 3)."""
        return np.array([[self.fx_px, 0, self.cx_px], [0, self.fy_px, self.cy_px], [0, 0, 1.0]])

    def coefficients(self) -> Floats:
        """Return (k1, k2, k3, k4), OpenCV's order."""
        return np.array([self.k1, self.k2, self.k3, self.k4])

    def get_max_angle_rad(self) -> float:
        """Return the angle at which the polynomial stops increasing, at most pi."""
        squared_angle = find_first_root(self.coefficients() * [3, 5, 7, 9])
        return min(math.sqrt(squared_angle), math.pi)

    def describe_domain(self) -> str:
        """Describe the limit of the lens's domain and its reason."""
        limit = self.get_max_angle_rad()
        if limit == math.pi:
            return "it covers 180.0 degrees off the axis"
        return f"the distortion folds back {math.degrees(limit):.1f} degrees off the axis"

    def _get_principal_point_px(self) -> tuple[float, float]:
        return self.cx_px, self.cy_px

    def _get_focal_lengths_px(self) -> tuple[float, float]:
        return self.fx_px, self.fy_px

    def _compute_radius(self, angles_rad: Floats) -> tuple[Floats, Floats]:
        t2 = angles_rad * angles_rad
        k1, k2, k3, k4 = self.k1, self.k2, self.k3, self.k4
        radius = angles_rad * (1 + t2 * (k1 + t2 * (k2 + t2 * (k3 + t2 * k4))))
        slope = 1 + t2 * (3 * k1 + t2 * (5 * k2 + t2 * (7 * k3 + t2 * 9 * k4)))
        return radius, slope


@dataclass(frozen=True)
class RadialTable(Fisheye):
    """Measured lens: image height by field angle, as in lens data sheets.

    Values are interpolated with the monotone cubic of Fritsch and Carlson (1980). Pixels are square. Divide image
    heights in millimetres by the pixel pitch to get pixels.

    Attributes:
        cx_px, cy_px: Principal point in pixels; may be outside the image.
        angles_rad: Angles off the axis, increasing from 0 to the limit of the field, at most pi.
        radii_px: Distance from the principal point at each angle, increasing from 0.
    """

    cx_px: float
    cy_px: float
    angles_rad: tuple[float, ...]
    radii_px: tuple[float, ...]
    kind: Literal["radial_table"] = "radial_table"

    def __post_init__(self) -> None:
        super().__post_init__()
        angles, radii = self.angles_rad, self.radii_px
        if len(angles) != len(radii) or len(angles) < 2:
            raise LensError(
                f"a radial table has {len(angles)} angles_rad and {len(radii)} radii_px. It needs "
                "equal numbers of both, at least 2."
            )
        _check_increasing("angles_rad", angles)
        _check_increasing("radii_px", radii)
        if angles[-1] > math.pi:
            raise LensError(
                f"angles_rad of a radial table ends at {angles[-1]}, above pi. Give angles off the "
                "axis, in radians."
            )

    def __str__(self) -> str:
        """Return a short description without the table."""
        entries = f"{len(self.angles_rad)} entries"
        return f"RadialTable(cx_px={self.cx_px}, cy_px={self.cy_px}, {entries})"

    def get_max_angle_rad(self) -> float:
        """Return the last angle of the table."""
        return self.angles_rad[-1]

    def describe_domain(self) -> str:
        """Describe the limit of the lens's domain and its reason."""
        end = f"{math.degrees(self.angles_rad[-1]):.1f} degrees off the axis"
        return f"its table ends {end}, {self.radii_px[-1]:.1f} px from the principal point"

    def _get_principal_point_px(self) -> tuple[float, float]:
        return self.cx_px, self.cy_px

    def _get_focal_lengths_px(self) -> tuple[float, float]:
        return 1.0, 1.0

    def _compute_radius(self, angles_rad: Floats) -> tuple[Floats, Floats]:
        from scipy.interpolate import PchipInterpolator

        curve = PchipInterpolator(self.angles_rad, self.radii_px)
        return curve(angles_rad), curve(angles_rad, nu=1)


def _check_increasing(name: str, values: tuple[float, ...]) -> None:
    """Raise LensError if a column does not start at 0 or is not strictly increasing."""
    if values[0] != 0:
        raise LensError(f"{name} of a radial table starts at {values[0]}. It must start at 0.")
    for before, after in itertools.pairwise(values):
        if not before < after < math.inf:
            raise LensError(
                f"{name} of a radial table goes from {before} to {after}. It must be strictly "
                "increasing. Sort the table and remove duplicates."
            )
