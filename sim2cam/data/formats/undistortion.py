"""Straightening: pictures and labels as a pinhole of the same camera matrix would have them."""

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
    """Takes the values of a picture to where a pinhole sees them.

    Attributes:
        camera_matrix: (3, 3) of both lenses.
        source_xy: (h, w, 2) float32, the pixel of the picture that each pixel of the new one shows;
            None where the lens is a pinhole already and nothing changes.
    """

    camera_matrix: NDArray[np.float64]
    source_xy: NDArray[np.float32] | None

    @classmethod
    def from_sample(cls, sample: Sample) -> Undistorter:
        """Return that of a sample.

        Raises:
            InputError: its lens is unknown, or sees too far around for a pinhole.
        """
        lens = sample.lens
        if not isinstance(lens, Perspective):
            kind = "no known lens" if lens is None else f"a lens of kind '{lens.kind}'"
            raise InputError(
                sample.rgb,
                f"{kind}, and only pictures of perspective lenses can be turned into those of a "
                "pinhole. Choose the format coco, which keeps any lens.",
            )
        matrix = lens.matrix()
        if lens.is_pinhole():
            return cls(matrix, None)
        y, x = np.mgrid[: sample.height, : sample.width].reshape(2, -1)
        points = np.stack([x, y, np.ones_like(x)], axis=1) @ np.linalg.inv(matrix).T
        seen = lens.can_project(points)
        source = np.full((len(points), 2), -2.0)  # outside every picture
        source[seen] = lens.project(points[seen])
        shape = sample.height, sample.width, 2
        return cls(matrix, np.clip(source, -2, 1e6).astype(np.float32).reshape(shape))

    def undistort_image(self, values: NDArray[T]) -> NDArray[T]:
        """Return a picture (h, w, ...), between pixels by bilinear interpolation; 0 outside."""
        return self._remap(values, cv2.INTER_LINEAR)

    def undistort_labels(self, values: NDArray[T]) -> NDArray[T]:
        """Return labels (h, w), of the pixel that is nearest; 0 outside."""
        return self._remap(values, cv2.INTER_NEAREST)

    def _remap(self, values: NDArray[Any], interpolation: int) -> NDArray[Any]:
        if self.source_xy is None:
            return values
        return np.asarray(
            cv2.remap(
                values, self.source_xy[..., 0], self.source_xy[..., 1], interpolation, borderValue=0
            )
        )
