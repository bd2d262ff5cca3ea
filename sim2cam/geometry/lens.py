"""Lenses: from rays to pixels and back, as OpenCV defines them.

Pixel coordinates have integers at pixel centres. Rays are points of the plane z = 1 in the camera
frame (x right, y down, z forward).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_NEWTON_STEPS = 20
_CONVERGED_PX = 1e-7
_ON_TARGET_PX = 1e-4


@dataclass(frozen=True)
class BrownConrady:
    """A pinhole with radial and tangential distortion (Brown 1966), OpenCV's five coefficients.

    Attributes:
        fx_px, fy_px: focal lengths in pixels.
        cx_px, cy_px: principal point in pixels.
        k1, k2, k3: radial coefficients.
        p1, p2: tangential coefficients.
    """

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
        """Returns the (3, 3) camera matrix."""
        return np.array([[self.fx_px, 0, self.cx_px], [0, self.fy_px, self.cy_px], [0, 0, 1.0]])

    def coefficients(self) -> Floats:
        """Returns (k1, k2, p1, p2, k3), OpenCV's order."""
        return np.array([self.k1, self.k2, self.p1, self.p2, self.k3])

    def is_pinhole(self) -> bool:
        """Returns whether the lens has no distortion at all."""
        return not self.coefficients().any()

    def project(self, points_m: Floats) -> Floats:
        """Returns the pixels (n, 2) of points (n, 3) in the camera frame, which lie before it."""
        return self._to_pixels(self._distort(points_m[:, :2] / points_m[:, 2:]))

    def unproject(self, pixels: Floats) -> Floats:
        """Returns the points (n, 2) of the plane z = 1 seen at pixels (n, 2).

        Newton's method with the exact derivative, to 1e-7 px.

        Raises:
            ValueError: a pixel lies outside the lens's domain, where distortion folds back.
        """
        target = (pixels - [self.cx_px, self.cy_px]) / [self.fx_px, self.fy_px]
        rays = target.copy()
        with np.errstate(all="ignore"):  # rays that run away are told below
            for _ in range(_NEWTON_STEPS):
                error = self._distort(rays) - target
                if not (np.abs(error) * self._focal_px() > _CONVERGED_PX).any():
                    break
                rays = rays - self._solve(rays, error)
            outside = ~self._in_domain(rays, target)
        if outside.any():
            x, y = pixels[outside][0]
            raise ValueError(
                f"pixel ({x:.1f}, {y:.1f}) lies outside the domain of {self}: the distortion folds "
                "back there. Use smaller coefficients or a smaller image."
            )
        return rays

    def _focal_px(self) -> float:
        return max(self.fx_px, self.fy_px)

    def _to_pixels(self, points: Floats) -> Floats:
        return np.asarray(points * [self.fx_px, self.fy_px] + [self.cx_px, self.cy_px])

    def _in_domain(self, rays: Floats, target: Floats) -> NDArray[np.bool_]:
        """Returns which rays (n, 2) meet their target before the distortion first folds back."""
        off_x, off_y = np.abs(self._distort(rays) - target).T
        residual_px = np.maximum(off_x, off_y) * self._focal_px()
        xx, xy, yy = self._jacobian(rays)
        unfolded = rays[:, 0] ** 2 + rays[:, 1] ** 2 < self._fold_r2()
        return np.asarray((residual_px < _ON_TARGET_PX) & (xx * yy - xy * xy > 0) & unfolded)

    def _fold_r2(self) -> float:
        """Returns the squared radius at which the radial distortion first turns back."""
        inverse = np.roots([1.0, 3 * self.k1, 5 * self.k2, 7 * self.k3])  # of r^2: never singular
        real = inverse.real[(np.abs(inverse.imag) < 1e-12) & (inverse.real > 0)]
        return 1 / float(real.max()) if len(real) else np.inf

    def _distort(self, rays: Floats) -> Floats:
        x, y = rays[:, 0], rays[:, 1]
        r2 = x * x + y * y
        radial = 1 + r2 * (self.k1 + r2 * (self.k2 + r2 * self.k3))
        along_x = x * radial + 2 * self.p1 * x * y + self.p2 * (r2 + 2 * x * x)
        along_y = y * radial + self.p1 * (r2 + 2 * y * y) + 2 * self.p2 * x * y
        return np.stack([along_x, along_y], axis=1)

    def _solve(self, rays: Floats, error: Floats) -> Floats:
        """Returns the Newton step (n, 2) that takes the error (n, 2) away."""
        xx, xy, yy = self._jacobian(rays)
        along_x = yy * error[:, 0] - xy * error[:, 1]
        along_y = xx * error[:, 1] - xy * error[:, 0]
        return np.stack([along_x, along_y], axis=1) / (xx * yy - xy * xy)[:, None]

    def _jacobian(self, rays: Floats) -> tuple[Floats, Floats, Floats]:
        """Returns the derivative of the distorted point by the ray: xx, xy = yx, yy, each (n,)."""
        x, y = rays[:, 0], rays[:, 1]
        r2 = x * x + y * y
        radial = 1 + r2 * (self.k1 + r2 * (self.k2 + r2 * self.k3))
        slope = 2 * (self.k1 + r2 * (2 * self.k2 + 3 * r2 * self.k3))  # d radial / d r2, times 2
        xx = radial + x * x * slope + 2 * self.p1 * y + 6 * self.p2 * x
        xy = x * y * slope + 2 * self.p1 * x + 2 * self.p2 * y
        yy = radial + y * y * slope + 6 * self.p1 * y + 2 * self.p2 * x
        return xx, xy, yy
