"""Stereo pairs: the right camera, disparity and shared visibility."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.data.channels import ChannelName
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


def make_right_camera(camera: Camera) -> Camera:
    """Return the right camera of a stereo pair, with its own noise and dirt.

    The pair is rigid: a rotation of the left camera adds to the velocity of the right one.

    Raises:
        UsageError: the camera has no baseline.
    """
    if camera.baseline_m is None:
        raise UsageError(
            "the camera has no stereo baseline. Set its baseline_m, or add [domain.stereo] to the recipe."
        )
    pose = camera.pose @ Pose(position_m=(camera.baseline_m, 0.0, 0.0))
    twist = camera.twist and _offset_twist(
        camera.twist, np.subtract(pose.position_m, camera.pose.position_m)
    )
    sensor, glass = _reseed_sensor(camera.sensor), camera.glass and _reseed_glass(camera.glass)
    return replace(camera, pose=pose, sensor=sensor, twist=twist, glass=glass)


def _reseed_sensor(sensor: Sensor) -> Sensor:
    """Return the sensor with other seeds of noise and fixed pattern."""
    mosaic = sensor.mosaic and replace(
        sensor.mosaic, pattern_seed=derive_seed(sensor.mosaic.pattern_seed, "right")
    )
    return replace(sensor, noise_seed=derive_seed(sensor.noise_seed, "right"), mosaic=mosaic)


def _reseed_glass(glass: LensEffects) -> LensEffects:
    """Return the lens effects with other seeds of dirt and droplets."""
    dirt, drops = glass.dirt, glass.droplets
    return replace(
        glass,
        dirt=dirt and replace(dirt, seed=derive_seed(dirt.seed, "right")),
        droplets=drops and replace(drops, seed=derive_seed(drops.seed, "right")),
    )


def _offset_twist(twist: Twist, offset_m: NDArray[np.float64]) -> Twist:
    """Return the twist of a moving frame at an offset from its origin."""
    tangential = np.cross(twist.spin_rad_s, offset_m)
    return replace(twist, velocity_m_s=vec3(np.add(twist.velocity_m_s, tangential)))


def compute_stereo_channels(
    left: RenderedView, right: RenderedView
) -> dict[ChannelName, NDArray[Any]]:
    """Return the stereo channels of the left image.

    Returns:
        ``disparity`` (h, w) float32, pixels to the left, 0 for the background; ``shared`` (h, w)
        uint16, 1 where the right camera sees the point.

    Raises:
        LensError: the lens is not a pinhole, so points do not move along rows.
    """
    view = build_optics(left.camera).pinhole
    if view is None or left.camera.baseline_m is None:
        raise LensError(
            "disparity needs a pinhole lens with fx = fy, so that points move along rows. "
            "Set the coefficients of [domain.lens] to 0."
        )
    depth_m, baseline_m = left.gbuffer["depth_m"], left.camera.baseline_m
    return {
        "disparity": convert_depth_disparity(depth_m, view.focal_px, baseline_m),
        "shared": compute_flow(left, right).visible.astype(np.uint16),
    }
