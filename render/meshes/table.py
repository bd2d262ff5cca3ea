"""Tables on the CPU: planes, for which arithmetic is faster than drawing triangles."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.geometry.poses import Pose
from sim2cam.render.meshes.skin import TextureSet
from sim2cam.render.rasterizer import PinholeView

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class GroundPlane:
    """A level square and its picture.

    Attributes:
        index: of the body in the scene.
        side_m: length.
        pose: of the body.
        textures: its picture.
    """

    index: int
    side_m: float
    pose: Pose
    textures: TextureSet

    def compute_depth_m(self, view: PinholeView) -> Floats:
        """Return the depth (h, w) at which the pixels of a view meet it, 0 where they do not."""
        camera = (self.pose.inverse() @ view.pose).matrix().astype(np.float32)
        x = ((np.arange(view.width) - view.cx_px) / view.focal_px).astype(np.float32)
        y = ((np.arange(view.height) - view.cy_px) / view.focal_px).astype(np.float32)[:, None]
        along = [row[0] * x + (row[1] * y + row[2]) for row in camera[:3]]  # (h, w) each
        with np.errstate(divide="ignore", invalid="ignore"):
            depth = -camera[2, 3] / along[2]
            ends = [np.abs(camera[i, 3] + depth * along[i]) for i in (0, 1)]
            meets = (depth > 0) & (np.maximum(*ends) <= self.side_m / 2)
        return np.where(meets, depth, np.float32(0))

    def sample_colors(self, points: Floats, camera: Pose) -> NDArray[np.uint8]:
        """Return the colours (h, w, 3) where points (3, h, w) in the camera frame lie above it."""
        to_table = (self.pose.inverse() @ camera).matrix().astype(np.float32)
        texels_per_m = np.float32(self.textures.uv_scale * len(self.textures.colors))
        x, y = np.tensordot(to_table[:2, :3], points, 1) + to_table[:2, 3, None, None]
        first = np.float32(self.textures.uv_offset * len(self.textures.colors) - 0.5)
        found = cv2.remap(
            self.textures.colors,
            x * texels_per_m + first,
            y * texels_per_m + first,
            cv2.INTER_LINEAR,
            borderMode=cv2.BORDER_REFLECT,  # as textures that repeat, every second time mirrored
        )
        return np.asarray(found, dtype=np.uint8)
