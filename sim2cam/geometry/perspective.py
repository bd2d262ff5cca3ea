"""Perspective lenses with OpenCV's models of five, eight and twelve coefficients."""

from __future__ import annotations

import dataclasses
import functools
import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sim2cam.geometry.central_lens import (
    CONVERGED_PX,
    MAX_RESIDUAL_PX,
    NEWTON_STEPS,
    CentralLens,
    Floats,
    find_first_root,
)

_N_START_ANGLES = 1024
_MAX_START_RAD = 1.55  # 88.8 degrees; Newton's method may leave this range
_N_COEFFICIENTS = 12


@dataclass(frozen=True)
class Perspective(CentralLens):
    """Base class of perspective lenses with distortion; without coefficients they are pinholes.

    A point (x, y) of the plane z = 1 at radius r is distorted to (OpenCV, "Camera Calibration and 3D
    Reconstruction", detailed description)::

        x (1 + k1 r^2 + k2 r^4 + k3 r^6) / (1 + k4 r^2 + k5 r^4 + k6 r^6)
            + 2 p1 x y + p2 (r^2 + 2 x^2) + s1 r^2 + s2 r^4
        y (1 + k1 r^2 + k2 r^4 + k3 r^6) / (1 + k4 r^2 + k5 r^4 + k6 r^6)
            + p1 (r^2 + 2 y^2) + 2 p2 x y + s3 r^2 + s4 r^4

    Attributes:
        fx_px, fy_px: Focal lengths in pixels.
        cx_px, cy_px: Principal point in pixels; may be outside the image.
        k1, k2, k3: Radial coefficients.
        p1, p2: Tangential coefficients.
    """

    depth_along: ClassVar[Literal["axis", "ray"]] = "axis"

    fx_px: float
    fy_px: float
    cx_px: float
    cy_px: float
    k1: float = 0.0
    k2: float = 0.0
    p1: float = 0.0
    p2: float = 0.0
    k3: float = 0.0

    def matrix(self) -> Floats:
        """Return the camera matrix (3, 3)."""
        return np.array([[self.fx_px, 0, self.cx_px], [0, self.fy_px, self.cy_px], [0, 0, 1.0]])

    def coefficients(self) -> Floats:
        """Return the distortion in OpenCV's order: k1 k2 p1 p2 k3 [k4 k5 k6 [s1 s2 s3 s4]]."""
        return np.array(dataclasses.astuple(self)[4:-1])  # without camera matrix and kind

    def is_pinhole(self) -> bool:
        """Return whether all distortion coefficients are 0."""
        return not self.coefficients().any()

    def can_project(self, points_m: Floats) -> NDArray[np.bool_]:
        """Return whether points (n, 3) are in front of the camera and before the distortion folds back."""
        is_in_front = points_m[:, 2] > 0
        with np.errstate(over="ignore"):  # points near the plane of the camera
            x, y = (points_m[:, :2] / np.where(is_in_front, points_m[:, 2], 1)[:, None]).T
        return np.asarray(is_in_front & self._is_unfolded(x, y))

    def describe_domain(self) -> str:
        """Describe the limit of the lens's domain and its reason."""
        fold = self._fold_radius
        if math.isinf(fold):
            return "it ends 90 degrees off the axis, or where tangential distortion folds back"
        return f"the distortion folds back {math.degrees(math.atan(fold)):.1f} degrees off the axis"

    def _project(self, points_m: Floats) -> Floats:
        x, y = self._distort(*(points_m[:, :2] / points_m[:, 2:]).T)
        return np.stack([x * self.fx_px + self.cx_px, y * self.fy_px + self.cy_px], axis=1)

    def _unproject(self, pixels: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        u = (pixels[:, 0] - self.cx_px) / self.fx_px
        v = (pixels[:, 1] - self.cy_px) / self.fy_px
        with np.errstate(all="ignore"):  # diverged points are marked as invalid
            x, y, residual = self._undistort(u, v)
            is_valid = (residual < MAX_RESIDUAL_PX) & self._is_unfolded(x, y)
            length = np.sqrt(x * x + y * y + 1)
            return np.stack([x / length, y / length, 1 / length], axis=1), is_valid

    def _undistort(self, u: Floats, v: Floats) -> tuple[Floats, Floats, Floats]:
        """Return undistorted x, y and the residual in pixels, by Newton's method."""
        x, y = self._guess_undistorted(u, v)
        for step in range(NEWTON_STEPS + 1):
            distorted_x, distorted_y = self._distort(x, y)
            residual_x, residual_y = distorted_x - u, distorted_y - v
            residual = self._convert_to_pixels(residual_x, residual_y)
            if step == NEWTON_STEPS or not (residual > CONVERGED_PX).any():
                break
            xx, xy, yx, yy = self._compute_jacobian(x, y)
            determinant = xx * yy - xy * yx
            x = x - (yy * residual_x - xy * residual_y) / determinant
            y = y - (xx * residual_y - yx * residual_x) / determinant
        return x, y, residual

    def _guess_undistorted(self, u: Floats, v: Floats) -> tuple[Floats, Floats]:
        """Return start values by inverting the radial distortion alone."""
        max_angle = min(_MAX_START_RAD, math.atan(self._fold_radius))
        angles = np.linspace(0, max_angle, _N_START_ANGLES, endpoint=False)  # the end may be a pole
        undistorted = np.tan(angles)
        distorted = undistorted * self._compute_radial_factor(undistorted * undistorted)[0]
        radius = np.sqrt(u * u + v * v)
        scale = np.interp(radius, distorted, undistorted) / np.maximum(radius, 1e-300)
        return u * scale, v * scale

    def _convert_to_pixels(self, offset_x: Floats, offset_y: Floats) -> Floats:
        return np.asarray(np.maximum(np.abs(offset_x) * self.fx_px, np.abs(offset_y) * self.fy_px))

    def _is_unfolded(self, x: Floats, y: Floats) -> NDArray[np.bool_]:
        """Return whether points are before the first fold of the distortion."""
        with np.errstate(all="ignore"):  # there may be poles beyond the fold
            xx, xy, yx, yy = self._compute_jacobian(x, y)
            is_within = x * x + y * y < self._fold_radius**2
            return np.asarray((xx * yy - xy * yx > 0) & is_within)

    @functools.cached_property
    def _fold_radius(self) -> float:
        """Radius on the plane at which the radial distortion first folds back or has a pole."""
        k1, k2, _, _, k3, k4, k5, k6, *_ = self._padded_coefficients
        numerator, denominator = np.array([1, k1, k2, k3]), np.array([1, k4, k5, k6])
        powers = np.arange(4)  # of r^2
        slope = np.convolve((1 + 2 * powers) * numerator, denominator)
        slope -= np.convolve(
            numerator, 2 * powers * denominator
        )  # derivative times denominator squared
        return math.sqrt(min(find_first_root(slope[1:]), find_first_root(denominator[1:])))

    @functools.cached_property
    def _padded_coefficients(self) -> list[float]:
        coefficients = [float(value) for value in self.coefficients()]
        return coefficients + [0.0] * (_N_COEFFICIENTS - len(coefficients))

    def _compute_radial_factor(self, r2: Floats) -> tuple[Floats, Floats]:
        """Return the radial factor and its derivative by r^2, each (n,)."""
        k1, k2, _, _, k3, k4, k5, k6, *_ = self._padded_coefficients
        numerator = 1 + r2 * (k1 + r2 * (k2 + r2 * k3))
        slope = k1 + r2 * (2 * k2 + 3 * r2 * k3)
        if not (k4 or k5 or k6):
            return numerator, slope
        denominator = 1 + r2 * (k4 + r2 * (k5 + r2 * k6))
        ratio = numerator / denominator
        return ratio, (slope - ratio * (k4 + r2 * (2 * k5 + 3 * r2 * k6))) / denominator

    def _distort(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        _, _, p1, p2, *_, s1, s2, s3, s4 = self._padded_coefficients
        x2, y2, xy = x * x, y * y, 2 * x * y
        r2 = x2 + y2
        radial, _ = self._compute_radial_factor(r2)
        distorted_x = x * radial + p1 * xy + p2 * (r2 + 2 * x2)
        distorted_y = y * radial + p1 * (r2 + 2 * y2) + p2 * xy
        if not (s1 or s2 or s3 or s4):
            return distorted_x, distorted_y
        return distorted_x + r2 * (s1 + r2 * s2), distorted_y + r2 * (s3 + r2 * s4)

    def _compute_jacobian(self, x: Floats, y: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the Jacobian of ``_distort``: xx, xy (x by y), yx, yy."""
        _, _, p1, p2, *_, s1, s2, s3, s4 = self._padded_coefficients
        r2 = x * x + y * y
        radial, slope = self._compute_radial_factor(r2)
        x2, y2 = 2 * x, 2 * y
        xx = radial + x2 * x * slope + p1 * y2 + 3 * p2 * x2
        xy = x2 * y * slope + p1 * x2 + p2 * y2
        yy = radial + y2 * y * slope + 3 * p1 * y2 + p2 * x2
        if not (s1 or s2 or s3 or s4):
            return xx, xy, xy, yy
        prism_x, prism_y = s1 + 2 * s2 * r2, s3 + 2 * s4 * r2
        return xx + prism_x * x2, xy + prism_x * y2, xy + prism_y * x2, yy + prism_y * y2


@dataclass(frozen=True)
class BrownConrady(Perspective):
    """Radial and tangential distortion (Brown 1966), OpenCV's five coefficients."""

    kind: Literal["brown_conrady"] = "brown_conrady"


@dataclass(frozen=True)
class Rational(Perspective):
    """Rational radial and tangential distortion, OpenCV's eight coefficients.

    Attributes:
        k4, k5, k6: Radial coefficients of the denominator.
    """

    k4: float = 0.0
    k5: float = 0.0
    k6: float = 0.0
    kind: Literal["rational"] = "rational"


@dataclass(frozen=True)
class ThinPrism(Perspective):
    """Rational model with thin prism distortion (Weng 1992), OpenCV's twelve coefficients.

    Attributes:
        k4, k5, k6: Radial coefficients of the denominator.
        s1, s2, s3, s4: Thin prism coefficients of r^2 and r^4 along x, then along y.
    """

    k4: float = 0.0
    k5: float = 0.0
    k6: float = 0.0
    s1: float = 0.0
    s2: float = 0.0
    s3: float = 0.0
    s4: float = 0.0
    kind: Literal["thin_prism"] = "thin_prism"
