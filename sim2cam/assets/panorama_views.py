"""Perspective views of environment maps.

Directions are in the world, z up; image coordinates as in OpenCV (x right, y down). An azimuth of 0 looks along y,
which is the first column of the map, and grows towards x.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sim2cam.assets.environment_map import Float32Array, Floats, sample_directions

ENLARGEMENT_RANGE = (1.0, 2.0)
"""Pixels of a view per pixel of the map in the view's centre; more would be blurred, fewer would alias."""

_FIELD_OF_VIEW_RANGE_RAD = (math.radians(70), math.radians(110))
_ELEVATION_RANGE_RAD = (math.radians(-70), math.radians(30))
_ROLL_STD_RAD = math.radians(8)
_ASPECT = 3 / 4
_WIDTH_STEP_PX = 32  # few sizes, so that the card of a dataset can list them


@dataclass(frozen=True)
class PanoramaView:
    """A perspective view of an environment map.

    Attributes:
        azimuth_rad, elevation_rad, roll_rad: Direction of the optical axis, and rotation about it; a positive
            roll turns the image content counter-clockwise.
        field_of_view_rad: Horizontal angle of view.
        width, height: Size in pixels.
    """

    azimuth_rad: float
    elevation_rad: float
    roll_rad: float
    field_of_view_rad: float
    width: int
    height: int

    @property
    def focal_px(self) -> float:
        """Focal length in pixels."""
        return self.width / (2 * math.tan(self.field_of_view_rad / 2))

    def compute_directions(self) -> Floats:
        """Return the world directions (height, width, 3) of the pixel centres, of any length."""
        x = (np.arange(self.width) + 0.5 - self.width / 2) / self.focal_px
        y = (np.arange(self.height) + 0.5 - self.height / 2) / self.focal_px
        rays = np.stack([*np.meshgrid(x, y), np.ones((self.height, self.width))], axis=-1)
        return np.asarray(rays @ self._compute_axes())

    def _compute_axes(self) -> Floats:
        """Return the camera's right, down and forward axis (3, 3) in the world, one a row."""
        sin_a, cos_a = math.sin(self.azimuth_rad), math.cos(self.azimuth_rad)
        sin_e, cos_e = math.sin(self.elevation_rad), math.cos(self.elevation_rad)
        forward = np.array([cos_e * sin_a, cos_e * cos_a, sin_e])
        level_right = np.array([cos_a, -sin_a, 0.0])
        level_down = np.cross(forward, level_right)
        sin_r, cos_r = math.sin(self.roll_rad), math.cos(self.roll_rad)
        right = cos_r * level_right + sin_r * level_down
        return np.stack([right, np.cross(forward, right), forward])


def sample_view(rows: int, rng: np.random.Generator) -> PanoramaView:
    """Sample a view of a map with this number of rows; most views look below the horizon."""
    field_of_view_rad = float(rng.uniform(*_FIELD_OF_VIEW_RANGE_RAD))
    native_width = 2 * rows / math.pi * math.tan(field_of_view_rad / 2)
    step = _WIDTH_STEP_PX if native_width >= _WIDTH_STEP_PX else 1
    first, last = (factor * native_width / step for factor in ENLARGEMENT_RANGE)
    width = step * int(rng.integers(math.ceil(first), math.floor(last), endpoint=True))
    return PanoramaView(
        float(rng.uniform(0, 2 * math.pi)),
        float(rng.uniform(*_ELEVATION_RANGE_RAD)),
        float(rng.normal(0, _ROLL_STD_RAD)),
        field_of_view_rad,
        width,
        max(round(_ASPECT * width), 1),
    )


def project_view(radiance: Float32Array, view: PanoramaView) -> Float32Array:
    """Return the linear radiance (height, width, 3) of a view of an equirectangular image."""
    return sample_directions(radiance, view.compute_directions())
