"""Two eyes: the right one beside the camera, and where it sees what the left one sees."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sim2cam.errors import LensError, UsageError
from sim2cam.geometry.motion import Twist
from sim2cam.geometry.poses import Pose, vec3
from sim2cam.render.labels.disparity import convert_depth_disparity
from sim2cam.render.labels.ground_truth import RenderedView, compute_flow
from sim2cam.render.optics.views import build_optics
from sim2cam.scene.camera import Camera
from sim2cam.scene.lens_effects import LensEffects
from sim2cam.scene.sensor import Sensor
from sim2cam.seeds import derive_seed


@dataclass(frozen=True)
class StereoGroundTruth:
    """Where the right eye sees what the left one sees.

    Attributes:
        disparity: (h, w) float32, pixels to the left; 0 where nothing is.
        shared: (h, w) uint16, 1 where it sees the point, 0 where that is hidden or outside.
    """

    disparity: NDArray[np.float32]
    shared: NDArray[np.uint16]


def make_right_camera(camera: Camera) -> Camera:
    """Return the right eye of a camera with two: of the same make, with noise and dirt of its own.

    Both are fixed to one another, so that where the camera turns, the right eye goes its own way.

    Raises:
        UsageError: the camera has one eye.
    """
    if camera.baseline_m is None:
        raise UsageError(
            "the camera has one eye. Give it a baseline_m, or its recipe a [domain.stereo]."
        )
    pose = camera.pose @ Pose(position_m=(camera.baseline_m, 0.0, 0.0))
    twist = camera.twist and _offset_twist(
        camera.twist, np.subtract(pose.position_m, camera.pose.position_m)
    )
    sensor, glass = _reseed_sensor(camera.sensor), camera.glass and _reseed_glass(camera.glass)
    return replace(camera, pose=pose, sensor=sensor, twist=twist, glass=glass)


def _reseed_sensor(sensor: Sensor) -> Sensor:
    """Return one of the same make, whose noise and pixels are others."""
    mosaic = sensor.mosaic and replace(
        sensor.mosaic, pattern_seed=derive_seed(sensor.mosaic.pattern_seed, "right")
    )
    return replace(sensor, noise_seed=derive_seed(sensor.noise_seed, "right"), mosaic=mosaic)


def _reseed_glass(glass: LensEffects) -> LensEffects:
    """Return one of the same make, with smears and drops of its own."""
    dirt, drops = glass.dirt, glass.droplets
    return replace(
        glass,
        dirt=dirt and replace(dirt, seed=derive_seed(dirt.seed, "right")),
        droplets=drops and replace(drops, seed=derive_seed(drops.seed, "right")),
    )


def _offset_twist(twist: Twist, offset_m: NDArray[np.float64]) -> Twist:
    """Return how a point beside the origin of a moving frame moves with it."""
    swung = np.cross(twist.spin_rad_s, offset_m)
    return replace(twist, velocity_m_s=vec3(np.add(twist.velocity_m_s, swung)))


def compute_stereo_ground_truth(left: RenderedView, right: RenderedView) -> StereoGroundTruth:
    """Return the disparity of the left eye's picture.

    Args:
        left: its picture.
        right: that of its right eye.

    Raises:
        LensError: the lens bends, so that points do not move along the rows.
    """
    view = build_optics(left.camera).pinhole
    if view is None or left.camera.baseline_m is None:
        raise LensError(
            "disparity needs a pinhole lens of one focal length: under any other, points do not "
            "move along rows. Set the coefficients of [domain.lens] to 0."
        )
    return StereoGroundTruth(
        convert_depth_disparity(left.gbuffer["depth_m"], view.focal_px, left.camera.baseline_m),
        compute_flow(left, right).visible.astype(np.uint16),
    )
