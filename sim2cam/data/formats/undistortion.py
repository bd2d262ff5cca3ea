"""Undistortion of images and labels to a pinhole with the same camera matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.data.sample import Sample
from sim2cam.errors import InputError
from sim2cam.geometry.perspective import Perspective

T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True, eq=False)
class Undistorter:
    """Map from an image to its undistorted image.

    Attributes:
        camera_matrix: camera matrix (3, 3) of both lenses.
        source_xy: (h, w, 2) float32, source pixel of each undistorted pixel; None if the lens is a
            pinhole.
    """

    camera_matrix: NDArray[np.float64]
    source_xy: NDArray[np.float32] | None

    @classmethod
    def from_sample(cls, sample: Sample) -> Undistorter:
        """Return the undistorter of a sample's lens.

        Raises:
            InputError: the lens is unknown or not a perspective lens.
        """
        lens = sample.lens
        if not isinstance(lens, Perspective):
            kind = "unknown lens" if lens is None else f"lens of kind '{lens.kind}'"
            raise InputError(
                sample.rgb,
                f"{kind}. Only images of perspective lenses can be undistorted. Export as coco, which "
                "supports all lenses.",
            )
        matrix = lens.matrix()
        if lens.is_pinhole():
            return cls(matrix, None)
        y, x = np.mgrid[: sample.height, : sample.width].reshape(2, -1)
        points = np.stack([x, y, np.ones_like(x)], axis=1) @ np.linalg.inv(matrix).T
        is_projectable = lens.can_project(points)
        source = np.full((len(points), 2), -2.0)  # outside the image
        source[is_projectable] = lens.project(points[is_projectable])
        shape = sample.height, sample.width, 2
        return cls(matrix, np.clip(source, -2, 1e6).astype(np.float32).reshape(shape))

    def undistort_image(self, values: NDArray[T]) -> NDArray[T]:
        """Return an undistorted image (h, w, ...), bilinearly interpolated; 0 outside."""
        return self._remap(values, cv2.INTER_LINEAR)

    def undistort_labels(self, values: NDArray[T]) -> NDArray[T]:
        """Return undistorted labels (h, w), by nearest neighbour; 0 outside."""
        return self._remap(values, cv2.INTER_NEAREST)

    def _remap(self, values: NDArray[Any], interpolation: int) -> NDArray[Any]:
        if self.source_xy is None:
            return values
        return np.asarray(
            cv2.remap(
                values, self.source_xy[..., 0], self.source_xy[..., 1], interpolation, borderValue=0
            )
        )
