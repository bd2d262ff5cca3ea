"""Cameras: pose, optics, sensor and shutter."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from sim2cam.errors import SpecError
from sim2cam.geometry.lens import Lens
from sim2cam.geometry.motion import ZERO_TWIST, RigidMotion, Twist
from sim2cam.geometry.poses import Pose
from sim2cam.scene.depth_camera import DepthCamera
from sim2cam.scene.lens_effects import LensEffects
from sim2cam.scene.parameters import Between
from sim2cam.scene.sensor import Sensor
from sim2cam.seeds import derive_seed


@dataclass(frozen=True)
class Shutter:
    """Exposure and readout timing.

    Attributes:
        exposure_s: Exposure time of each row.
        readout_s: Time to read all rows from top to bottom (from bottom to top if negative), by which rows are
            exposed later. 0 is a global shutter.

    Raises:
        ValueError: If a value is out of range.
    """

    exposure_s: Annotated[float, Between(1e-6, 10)]
    readout_s: Annotated[float, Between(-10, 10)] = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.exposure_s <= _MAX_DURATION_S:
            raise ValueError(
                f"exposure_s must be above 0 and at most {_MAX_DURATION_S:g}, not {self.exposure_s}"
            )
        if not math.isfinite(self.readout_s) or abs(self.readout_s) > _MAX_DURATION_S:
            raise ValueError(
                f"readout_s must be {-_MAX_DURATION_S:g} to {_MAX_DURATION_S:g}, not {self.readout_s}"
            )


_MAX_DURATION_S = 10.0


@dataclass(frozen=True)
class CameraModel:
    """Products whose measured noise and distortion a camera has; the names change no image.

    Attributes:
        sensor: Camera and sensitivity.
        lens: Lens, focal length and f-number.
    """

    sensor: str | None = None
    lens: str | None = None


@dataclass(frozen=True)
class Camera:
    """A camera of a scene.

    Attributes:
        pose: Camera frame (x right, y down, z forward) in the world, at the middle of the exposure of the image
            centre.
        width, height: Size in pixels, at least 1.
        lens: Projection.
        sensor: Image formation.
        shutter: Shutter; None for an instantaneous exposure.
        twist: Motion in the world; None if static.
        depth_camera: Depth camera at the same place with the same pixels; None without one.
        baseline_m: Stereo baseline to an identical camera at the right; None without one.
        glass: Lens effects besides projection; None without them.
        model: Products from databases; None for a camera without them.
    """

    pose: Pose
    width: int
    height: int
    lens: Lens
    sensor: Sensor
    shutter: Shutter | None = None
    twist: Twist | None = None
    depth_camera: DepthCamera | None = None
    baseline_m: float | None = None
    glass: LensEffects | None = None
    model: CameraModel | None = None

    def __post_init__(self) -> None:
        if min(self.width, self.height) < 1:
            raise SpecError(
                f"a camera has {self.width} x {self.height} pixels. Both must be at least 1."
            )

    def get_motion(self) -> RigidMotion:
        """Return the motion of the camera."""
        return RigidMotion(self.pose, self.twist or ZERO_TWIST)

    def advance(self, seconds: float) -> Camera:
        """Return the camera at a later time."""
        return replace(self, pose=self.get_motion().compute_pose(seconds))

    def rewind_frames(self, n_frames: int, interval_s: float) -> Camera:
        """Return the camera at an earlier frame: with its pose and noise at that time.

        Fixed patterns of sensor, lens and projector stay the same.

        Args:
            n_frames: Number of frames to go back.
            interval_s: Time between frames.
        """
        if n_frames == 0:
            return self
        name = f"picture/-{n_frames}"
        sensor = replace(self.sensor, noise_seed=derive_seed(self.sensor.noise_seed, name))
        depth = self.depth_camera and replace(
            self.depth_camera, noise_seed=derive_seed(self.depth_camera.noise_seed, name)
        )
        return replace(self.advance(-n_frames * interval_s), sensor=sensor, depth_camera=depth)

    def get_row_delay_s(self) -> float:
        """Return the delay between the exposures of successive rows."""
        return self.shutter.readout_s / self.height if self.shutter else 0.0

    def compute_row_times_s(self) -> NDArray[np.float64]:
        """Return the middle of the exposure of each row (h,), relative to the image centre."""
        rows: NDArray[np.float64] = np.arange(self.height, dtype=np.float64)
        return (rows - (self.height - 1) / 2) * self.get_row_delay_s()
