"""Clearance between cameras and bodies."""

from __future__ import annotations

import itertools

import numpy as np

from sim2cam.geometry.poses import Pose, Vec3
from sim2cam.objects.primitives import Ground
from sim2cam.render.meshes.mesh import compute_extent
from sim2cam.render.physics.bullet import SCALE
from sim2cam.render.physics.world import build_world
from sim2cam.scene.camera import Camera
from sim2cam.scene.scene import Body, Scene

MIN_CLEARANCE_M = 0.01
"""Smallest allowed distance between a camera and the collider of a body."""


def find_blocked_camera(scene: Scene) -> str | None:
    """Return a message about a camera that is inside a body or too near to it; None without one.

    Both cameras of a stereo pair are tested.
    """
    for number, camera in enumerate(scene.cameras):
        for eye_m, body in itertools.product(_compute_eyes(camera), scene.bodies):
            if _is_near_extent(body, eye_m) and _touches_collider(body, eye_m):
                return (
                    f"camera {number} is inside {body.name}, or nearer to it than "
                    f"{MIN_CLEARANCE_M * 1e3:g} mm"
                )
    return None


def _compute_eyes(camera: Camera) -> list[Vec3]:
    """Return the positions of a camera and of its right neighbour in the world."""
    offsets_m = (0.0,) if camera.baseline_m is None else (0.0, camera.baseline_m)
    return [(camera.pose @ Pose(position_m=(x, 0.0, 0.0))).position_m for x in offsets_m]


def _is_near_extent(body: Body, eye_m: Vec3) -> bool:
    """Return whether a point is near the bounding box of a body, which excludes most bodies."""
    point = body.pose.inverse().apply(np.array([eye_m]))[0]
    if isinstance(body.asset, Ground):
        return bool(point[2] < MIN_CLEARANCE_M)
    low, high = compute_extent(body.asset)
    outside = np.maximum(np.maximum(np.subtract(low, point), np.subtract(point, high)), 0)
    return float(np.linalg.norm(outside)) < MIN_CLEARANCE_M


def _touches_collider(body: Body, eye_m: Vec3) -> bool:
    """Return whether a sphere of the smallest clearance touches the collider of a body."""
    client, handles = build_world([body])
    sphere = client.createCollisionShape(client.GEOM_SPHERE, radius=MIN_CLEARANCE_M * SCALE)
    position = np.multiply(eye_m, SCALE).tolist()
    return any(
        client.getClosestPoints(
            bodyA=handle,
            bodyB=-1,
            distance=0.0,
            collisionShapeB=sphere,
            collisionShapePositionB=position,
        )
        for handle in handles[body.name]
    )
