"""Lenses that bend the plane z = 1: OpenCV's models of five, eight and twelve coefficients."""

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
_MAX_START_RAD = 1.55  # 88.8 degrees; Newton's method goes farther where it must
_N_COEFFICIENTS = 12


@dataclass(frozen=True)
class Perspective(CentralLens):
    """What lenses on the plane z = 1 share, which without coefficients are pinholes.

    A point (x, y) of the plane, r from the axis, is moved to (OpenCV, "Camera Calibration and 3D
    Reconstruction", detailed description)::

        x (1 + k1 r^2 + k2 r^4 + k3 r^6) / (1 + k4 r^2 + k5 r^4 + k6 r^6)
            + 2 p1 x y + p2 (r^2 + 2 x^2) + s1 r^2 + s2 r^4
        y (1 + k1 r^2 + k2 r^4 + k3 r^6) / (1 + k4 r^2 + k5 r^4 + k6 r^6)
            + p1 (r^2 + 2 y^2) + 2 p2 x y + s3 r^2 + s4 r^4

    Attributes:
        fx_px, fy_px: focal lengths in pixels.
        cx_px, cy_px: principal point in pixels; may lie outside the picture.
        k1, k2, k3: radial coefficients.
        p1, p2: tangential coefficients.
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
        """Return the (3, 3) camera matrix."""
        return np.array([[self.fx_px, 0, self.cx_px], [0, self.fy_px, self.cy_px], [0, 0, 1.0]])

    def coefficients(self) -> Floats:
        """Return the distortion in OpenCV's order: k1 k2 p1 p2 k3 [k4 k5 k6 [s1 s2 s3 s4]]."""
        return np.array(dataclasses.astuple(self)[4:-1])  # between the matrix and the kind

    def is_pinhole(self) -> bool:
        """Return whether the lens has no distortion at all."""
        return not self.coefficients().any()

    def can_project(self, points_m: Floats) -> NDArray[np.bool_]:
        """Return which points (n, 3) lie before the camera and where nothing has folded back."""
        before = points_m[:, 2] > 0
        with np.errstate(over="ignore"):  # hardly before the camera is infinitely far on the plane
            x, y = (points_m[:, :2] / np.where(before, points_m[:, 2], 1)[:, None]).T
        return np.asarray(before & self._is_unfolded(x, y))

    def describe_domain(self) -> str:
        """Return where the lens's domain ends and why, in words."""
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
        with np.errstate(all="ignore"):  # points that run away are told from the others below
            x, y, off = self._undistort(u, v)
            met = (off < MAX_RESIDUAL_PX) & self._is_unfolded(x, y)
            length = np.sqrt(x * x + y * y + 1)
            return np.stack([x / length, y / length, 1 / length], axis=1), met

    def _undistort(self, u: Floats, v: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the points x, y that Newton's method finds for u, v, and how far off they end."""
        x, y = self._guess_undistorted(u, v)
        for step in range(NEWTON_STEPS + 1):
            moved_x, moved_y = self._distort(x, y)
            off_x, off_y = moved_x - u, moved_y - v
            off = self._convert_to_pixels(off_x, off_y)
            if step == NEWTON_STEPS or not (off > CONVERGED_PX).any():
                break
            xx, xy, yx, yy = self._compute_jacobian(x, y)
            area = xx * yy - xy * yx
            x = x - (yy * off_x - xy * off_y) / area
            y = y - (xx * off_y - yx * off_x) / area
        return x, y, off

    def _guess_undistorted(self, u: Floats, v: Floats) -> tuple[Floats, Floats]:
        """Return the points that radial distortion alone moves to u, v."""
        widest = min(_MAX_START_RAD, math.atan(self._fold_radius))
        known = np.tan(
            np.linspace(0, widest, _N_START_ANGLES, endpoint=False)
        )  # there may be a pole
        moved = known * self._compute_radial_factor(known * known)[0]
        radius = np.sqrt(u * u + v * v)
        scale = np.interp(radius, moved, known) / np.maximum(radius, 1e-300)
        return u * scale, v * scale

    def _convert_to_pixels(self, off_x: Floats, off_y: Floats) -> Floats:
        return np.asarray(np.maximum(np.abs(off_x) * self.fx_px, np.abs(off_y) * self.fy_px))

    def _is_unfolded(self, x: Floats, y: Floats) -> NDArray[np.bool_]:
        """Return which points lie before the distortion first folds back."""
        with np.errstate(all="ignore"):  # beyond the fold may be poles
            xx, xy, yx, yy = self._compute_jacobian(x, y)
            within = x * x + y * y < self._fold_radius**2
            return np.asarray((xx * yy - xy * yx > 0) & within)

    @functools.cached_property
    def _fold_radius(self) -> float:
        """The radius on the plane at which r N / D first turns back or has a pole."""
        k1, k2, _, _, k3, k4, k5, k6, *_ = self._padded_coefficients
        numerator, denominator = np.array([1, k1, k2, k3]), np.array([1, k4, k5, k6])
        powers = np.arange(4)  # of r^2
        slope = np.convolve((1 + 2 * powers) * numerator, denominator)
        slope -= np.convolve(numerator, 2 * powers * denominator)  # times D^2
        return math.sqrt(min(find_first_root(slope[1:]), find_first_root(denominator[1:])))

    @functools.cached_property
    def _padded_coefficients(self) -> list[float]:
        """The coefficients in OpenCV's order, 0 for those that this lens has not."""
        given = [float(c) for c in self.coefficients()]
        return given + [0.0] * (_N_COEFFICIENTS - len(given))

    def _compute_radial_factor(self, r2: Floats) -> tuple[Floats, Floats]:
        """Return N / D and its derivative by r^2, each (n,)."""
        k1, k2, _, _, k3, k4, k5, k6, *_ = self._padded_coefficients
        numerator = 1 + r2 * (k1 + r2 * (k2 + r2 * k3))
        slope = k1 + r2 * (2 * k2 + 3 * r2 * k3)
        if not (k4 or k5 or k6):
            return numerator, slope
        denominator = 1 + r2 * (k4 + r2 * (k5 + r2 * k6))
        ratio = numerator / denominator
        return ratio, (slope - ratio * (k4 + r2 * (2 * k5 + 3 * r2 * k6))) / denominator

    def _distort(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Return where the points x, y of the plane are moved."""
        _, _, p1, p2, *_, s1, s2, s3, s4 = self._padded_coefficients
        x2, y2, xy = x * x, y * y, 2 * x * y
        r2 = x2 + y2
        radial, _ = self._compute_radial_factor(r2)
        along_x = x * radial + p1 * xy + p2 * (r2 + 2 * x2)
        along_y = y * radial + p1 * (r2 + 2 * y2) + p2 * xy
        if not (s1 or s2 or s3 or s4):
            return along_x, along_y
        return along_x + r2 * (s1 + r2 * s2), along_y + r2 * (s3 + r2 * s4)

    def _compute_jacobian(self, x: Floats, y: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the derivative of ``_distort``: xx, xy (of x by y), yx, yy."""
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
    """Radial distortion as a ratio, and tangential distortion: OpenCV's eight coefficients.

    Attributes:
        k4, k5, k6: radial coefficients of the denominator.
    """

    k4: float = 0.0
    k5: float = 0.0
    k6: float = 0.0
    kind: Literal["rational"] = "rational"


@dataclass(frozen=True)
class ThinPrism(Perspective):
    """The rational model and a sensor that stands askew (Weng 1992): OpenCV's twelve coefficients.

    Attributes:
        k4, k5, k6: radial coefficients of the denominator.
        s1, s2, s3, s4: of the thin prism, for r^2 and r^4 along x, then along y.
    """

    k4: float = 0.0
    k5: float = 0.0
    k6: float = 0.0
    s1: float = 0.0
    s2: float = 0.0
    s3: float = 0.0
    s4: float = 0.0
    kind: Literal["thin_prism"] = "thin_prism"
