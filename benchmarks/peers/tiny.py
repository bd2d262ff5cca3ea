"""pybullet's TinyRenderer: colour, depth and ids in one call, on the CPU without OpenGL."""

from __future__ import annotations

import math
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peers import measure

CURE = "pip install pybullet"
NEAR, FAR = 0.01, 100.0  # shadows fail with other values
SCALE = 10.0
"""Scale of the scene: shadows start 0.05 units behind an object, too far for dice in metres."""


def main() -> None:
    """Time frames with a shadow."""
    arguments = measure.parse_arguments()
    bullet = measure.require_module("pybullet", CURE)
    tabletop = measure.read_tabletop(arguments.folder)
    bullet.connect(bullet.DIRECT)
    with tempfile.TemporaryDirectory() as folder:
        handles = [
            _add_body(bullet, body, Path(folder) / f"{i}.obj")
            for i, body in enumerate(tabletop.bodies)
        ]
    camera_arguments = _make_camera_arguments(bullet, tabletop)

    def render(frame: int) -> Any:
        for body, handle in enumerate(handles):
            position, quaternion = _convert_pose(tabletop.pose(frame, body))
            bullet.resetBasePositionAndOrientation(handle, position, quaternion)
        return bullet.getCameraImage(**camera_arguments)

    _, _, rgba, depth_buffer, ids = render(0)
    before = measure.resident_mb()
    timings = [measure.time_frames("RGB, depth, ids", render, arguments)]
    shape = (tabletop.height, tabletop.width)
    depth_m = FAR * NEAR / (FAR - (FAR - NEAR) * np.reshape(depth_buffer, shape)) / SCALE
    image = measure.RenderedImage(
        np.reshape(rgba, (*shape, 4))[..., :3].astype(np.uint8),
        depth_m.astype(np.float32),
        np.reshape(ids, shape).astype(np.int64) + 1,
    )
    measure.report(arguments, measure.get_version("pybullet"), timings, image, before)


def _add_body(bullet: Any, body: measure.Body, path: Path) -> int:
    measure.write_obj(path, replace(body, vertices_m=body.vertices_m * SCALE))
    shape = bullet.createVisualShape(bullet.GEOM_MESH, fileName=str(path))
    handle = bullet.createMultiBody(baseVisualShapeIndex=shape)
    texture = bullet.loadTexture(str(body.texture))
    bullet.changeVisualShape(handle, -1, textureUniqueId=texture, rgbaColor=(1, 1, 1, 1))
    return int(handle)


def _convert_pose(pose: measure.Floats) -> tuple[list[float], list[float]]:
    """Return scaled position and quaternion (x, y, z, w)."""
    r = pose[:3, :3]
    w = math.sqrt(max(0.0, 1 + r[0, 0] + r[1, 1] + r[2, 2])) / 2
    if w > 1e-3:
        axis = np.array([r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]]) / (4 * w)
    else:  # rotation by pi: eigenvector of the largest eigenvalue
        values, vectors = np.linalg.eigh(r + r.T)
        axis = vectors[:, int(np.argmax(values))]
    return (pose[:3, 3] * SCALE).tolist(), [*axis.tolist(), w]


def _make_camera_arguments(bullet: Any, tabletop: measure.Tabletop) -> dict[str, Any]:
    """Return the arguments of ``getCameraImage``."""
    camera = tabletop.camera @ measure.OPENGL_FROM_OPENCV
    camera[:3, 3] *= SCALE
    fov_deg = math.degrees(2 * math.atan(tabletop.height / 2 / tabletop.focal_px))
    return {
        "width": tabletop.width,
        "height": tabletop.height,
        "viewMatrix": _columns(np.linalg.inv(camera)),
        "projectionMatrix": bullet.computeProjectionMatrixFOV(fov_deg, 1.0, NEAR, FAR),
        "lightDirection": tabletop.to_light.tolist(),
        "lightColor": (1, 1, 1),
        "lightDistance": 10.0,
        "shadow": 1,
        "lightAmbientCoeff": 0.5,
        "lightDiffuseCoeff": 0.6,
        "lightSpecularCoeff": 0.1,
        "renderer": bullet.ER_TINY_RENDERER,
    }


def _columns(matrix: NDArray[Any]) -> list[float]:
    return [float(v) for v in matrix.T.ravel()]


if __name__ == "__main__":
    main()
