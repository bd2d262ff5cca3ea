"""Ground planes on the CPU, intersected analytically."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.geometry.poses import Pose
from sim2cam.render.gbuffer import PinholeView
from sim2cam.render.meshes.texture_set import TextureSet

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class GroundPlane:
    """A textured square.

    Attributes:
        index: index of the body in the scene.
        side_m: side of the square.
        pose: pose of the body.
        textures: textures of the body.
    """

    index: int
    side_m: float
    pose: Pose
    textures: TextureSet

    def compute_depth_m(self, view: PinholeView) -> Floats:
        """Return the depth (h, w) of the plane in a view, 0 outside the square."""
        camera = (self.pose.inverse() @ view.pose).matrix().astype(np.float32)
        x = ((np.arange(view.width) - view.cx_px) / view.focal_px).astype(np.float32)
        y = ((np.arange(view.height) - view.cy_px) / view.focal_px).astype(np.float32)[:, None]
        directions = [row[0] * x + (row[1] * y + row[2]) for row in camera[:3]]  # (h, w) each
        with np.errstate(divide="ignore", invalid="ignore"):
            depth = -camera[2, 3] / directions[2]
            offsets = [np.abs(camera[i, 3] + depth * directions[i]) for i in (0, 1)]
            is_hit = (depth > 0) & (np.maximum(*offsets) <= self.side_m / 2)
        return np.where(is_hit, depth, np.float32(0))

    def sample_colors(self, points: Floats, camera: Pose) -> NDArray[np.uint8]:
        """Return the colours (h, w, 3) at points (3, h, w) of the plane, in the camera frame."""
        to_table = (self.pose.inverse() @ camera).matrix().astype(np.float32)
        texels_per_m = np.float32(self.textures.uv_scale * len(self.textures.colors))
        x, y = np.tensordot(to_table[:2, :3], points, 1) + to_table[:2, 3, None, None]
        origin = np.float32(self.textures.uv_offset * len(self.textures.colors) - 0.5)
        colors = cv2.remap(
            self.textures.colors,
            x * texels_per_m + origin,
            y * texels_per_m + origin,
            cv2.INTER_LINEAR,
            borderMode=cv2.BORDER_REFLECT,  # mirrored repeat, as in OpenGL
        )
        return np.asarray(colors, dtype=np.uint8)
