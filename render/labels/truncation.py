"""How much of a body lies beyond the edge of a picture."""

from __future__ import annotations

import cv2
import numpy as np

from sim2cam.geometry.boxes import Box, is_inside_image
from sim2cam.render.meshes.mesh import build_mesh
from sim2cam.scene.camera import Camera
from sim2cam.scene.scene import Body


def compute_truncation(body: Body, camera: Camera, amodal_box: Box) -> float | None:
    """Return the share of a body's outline that lies beyond the picture's edge, 0 to 1.

    The outline is the hull of the mesh's corners in the picture's plane. None where the lens does not see
    all of them.

    Args:
        body: where it is.
        camera: that sees some of it.
        amodal_box: of what of it lies in the picture, pixels.
    """
    if is_inside_image(amodal_box, camera.width, camera.height):
        return 0.0
    corners = (camera.pose.inverse() @ body.pose).apply(build_mesh(body.asset).vertices_m)
    if not camera.lens.can_project(corners).all():
        return None
    pixels = camera.lens.project(corners) + 0.5
    hull = cv2.convexHull(pixels.astype(np.float32))
    right, low = camera.width, camera.height
    picture = np.array([[0, 0], [right, 0], [right, low], [0, low]], np.float32)
    whole, inside = cv2.contourArea(hull), cv2.intersectConvexConvex(hull, picture)[0]
    return float(np.clip(1 - inside / whole, 0, 1)) if whole > 0 else None
