"""Truncation of objects by the image border."""

from __future__ import annotations

import cv2
import numpy as np

from sim2cam.geometry.boxes import Box, is_inside_image
from sim2cam.render.meshes.mesh import build_mesh
from sim2cam.scene.camera import Camera
from sim2cam.scene.scene import Body


def compute_truncation(body: Body, camera: Camera, amodal_box: Box) -> float | None:
    """Return the share of a body's area that lies outside the image, 0 to 1.

    The area is that of the convex hull of the projected vertices. None if the lens cannot project
    all of them.

    Args:
        body: body at its pose.
        camera: camera of the image.
        amodal_box: amodal box of the body inside the image, pixels.
    """
    if is_inside_image(amodal_box, camera.width, camera.height):
        return 0.0
    corners = (camera.pose.inverse() @ body.pose).apply(build_mesh(body.asset).vertices_m)
    if not camera.lens.can_project(corners).all():
        return None
    pixels = camera.lens.project(corners) + 0.5
    hull = cv2.convexHull(pixels.astype(np.float32))
    right, bottom = camera.width, camera.height
    image_corners = np.array([[0, 0], [right, 0], [right, bottom], [0, bottom]], np.float32)
    area, inside = cv2.contourArea(hull), cv2.intersectConvexConvex(hull, image_corners)[0]
    return float(np.clip(1 - inside / area, 0, 1)) if area > 0 else None
