"""pybullet's TinyRenderer: colour, depth and ids by one call, on the CPU without OpenGL."""

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
NEAR, FAR = 0.01, 100.0  # with other ones its shadows fail
SCALE = 10.0
"""Its shadows begin 0.05 units behind what casts them; in metres, dice would cast none."""


def main() -> None:
    """Time frames with a shadow."""
    asked = measure.arguments()
    bullet = measure.required("pybullet", CURE)
    tabletop = measure.read_tabletop(asked.folder)
    bullet.connect(bullet.DIRECT)
    with tempfile.TemporaryDirectory() as folder:
        handles = [
            _add(bullet, body, Path(folder) / f"{i}.obj") for i, body in enumerate(tabletop.bodies)
        ]
    shot = _shot(bullet, tabletop)

    def draw(frame: int) -> Any:
        for body, handle in enumerate(handles):
            place, turn = _place(tabletop.pose(frame, body))
            bullet.resetBasePositionAndOrientation(handle, place, turn)
        return bullet.getCameraImage(**shot)

    _, _, rgba, stored, ids = draw(0)
    before = measure.resident_mb()
    timings = [measure.timed("RGB, depth, ids", draw, asked)]
    shape = (tabletop.height, tabletop.width)
    depth_m = FAR * NEAR / (FAR - (FAR - NEAR) * np.reshape(stored, shape)) / SCALE
    picture = measure.Picture(
        np.reshape(rgba, (*shape, 4))[..., :3].astype(np.uint8),
        depth_m.astype(np.float32),
        np.reshape(ids, shape).astype(np.int64) + 1,
    )
    measure.report(asked, measure.version_of("pybullet"), timings, picture, before)


def _add(bullet: Any, body: measure.Body, path: Path) -> int:
    measure.write_obj(path, replace(body, vertices_m=body.vertices_m * SCALE))
    shape = bullet.createVisualShape(bullet.GEOM_MESH, fileName=str(path))
    handle = bullet.createMultiBody(baseVisualShapeIndex=shape)
    texture = bullet.loadTexture(str(body.picture))
    bullet.changeVisualShape(handle, -1, textureUniqueId=texture, rgbaColor=(1, 1, 1, 1))
    return int(handle)


def _place(pose: measure.Floats) -> tuple[list[float], list[float]]:
    """Return scaled position and quaternion (x, y, z, w)."""
    r = pose[:3, :3]
    w = math.sqrt(max(0.0, 1 + r[0, 0] + r[1, 1] + r[2, 2])) / 2
    if w > 1e-3:
        axis = np.array([r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]]) / (4 * w)
    else:  # half a turn: the axis is left where it was
        values, vectors = np.linalg.eigh(r + r.T)
        axis = vectors[:, int(np.argmax(values))]
    return (pose[:3, 3] * SCALE).tolist(), [*axis.tolist(), w]


def _shot(bullet: Any, tabletop: measure.Tabletop) -> dict[str, Any]:
    """Return what ``getCameraImage`` is given."""
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
