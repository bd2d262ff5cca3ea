"""Cameras: where they stand, what they are made of, when they take their picture."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sim2cam.errors import SpecError
from sim2cam.geometry.lens import Lens
from sim2cam.geometry.motion import ZERO_TWIST, RigidMotion, Twist
from sim2cam.geometry.poses import Pose
from sim2cam.scene.depth_camera import DepthCamera
from sim2cam.scene.lens_effects import LensEffects
from sim2cam.scene.sensor import Sensor
from sim2cam.seeds import derive_seed


@dataclass(frozen=True)
class Shutter:
    """When the rows of a picture gather light.

    Attributes:
        exposure_s: how long each row does.
        readout_s: how long it takes to read all rows, one after another from the top (from the
            bottom where negative); each is exposed that much later. 0 is a global shutter.

    Raises:
        ValueError: numbers that no shutter has.
    """

    exposure_s: float
    readout_s: float = 0.0

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
class Camera:
    """One view.

    Attributes:
        pose: the camera (x right, y down, z forward) in the world, when the exposure of the
            picture's middle is half over.
        width, height: pixels, at least 1.
        lens: projection.
        sensor: image formation.
        shutter: None for a picture taken in an instant.
        twist: how it moves in the world; None for one that stands still.
        depth_camera: a depth camera at the same place, whose readings are given in this camera's pixels.
        baseline_m: how far to the right a second eye of the same make stands; None without one.
        glass: what its lens does besides projecting; None for nothing.
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

    def __post_init__(self) -> None:
        if min(self.width, self.height) < 1:
            raise SpecError(
                f"a camera of {self.width} x {self.height} pixels takes no picture. Both have to be "
                "at least 1."
            )

    def get_motion(self) -> RigidMotion:
        """Return where it is over time."""
        return RigidMotion(self.pose, self.twist or ZERO_TWIST)

    def advance(self, seconds: float) -> Camera:
        """Return it some time later."""
        return replace(self, pose=self.get_motion().compute_pose(seconds))

    def rewind_frames(self, n_frames: int, interval_s: float) -> Camera:
        """Return it as it takes an earlier picture: where it was then, with that picture's noise.

        What is fixed in a sensor, on its lens or in a projector stays.

        Args:
            n_frames: pictures from that one to this one.
            interval_s: from one to the next.
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
        """Return how much later each row is exposed than the one above it."""
        return self.shutter.readout_s / self.height if self.shutter else 0.0

    def compute_row_times_s(self) -> NDArray[np.float64]:
        """Return when the exposure of each row (h,) is half over, from that of the middle."""
        rows: NDArray[np.float64] = np.arange(self.height, dtype=np.float64)
        return (rows - (self.height - 1) / 2) * self.get_row_delay_s()
