"""Cameras: where they stand, what their lens does, how their sensor answers."""

from __future__ import annotations

from dataclasses import dataclass

from sim2cam.geometry.lens import Lens
from sim2cam.geometry.poses import Pose
from sim2cam.scene.depth_camera import DepthCamera


@dataclass(frozen=True)
class Sensor:
    """From linear radiance to the bytes of a JPEG.

    Attributes:
        exposure_ev: stops over the exposure that the camera's meter would choose.
        red_gain, blue_gain: error of the white balance, over green.
        vignetting: light lost at the corner, 0 to 1 (on the mean of the image it is compensated).
        blur_px: standard deviation of the point spread, pixels.
        full_well_e: electrons at saturation; fewer is noisier.
        read_noise_e: standard deviation of the read noise, electrons.
        denoise: strength of the camera's own noise filter, 0 to 1.
        tone_contrast: slope of the tone curve around middle grey; 1 is plain sRGB.
        saturation: colour strength; 1 leaves it.
        sharpening: weight of the unsharp mask, 0 none.
        jpeg_quality: 1 to 100.
        noise_seed: which noise.
    """

    exposure_ev: float
    red_gain: float
    blue_gain: float
    vignetting: float
    blur_px: float
    full_well_e: float
    read_noise_e: float
    denoise: float
    tone_contrast: float
    saturation: float
    sharpening: float
    jpeg_quality: int
    noise_seed: int


@dataclass(frozen=True)
class Camera:
    """One view.

    Attributes:
        pose: the camera (x right, y down, z forward) in the world.
        width, height: pixels.
        lens: projection.
        sensor: image formation.
        depth: a depth camera at the same place, whose readings are given in this camera's pixels.
        baseline_m: how far to the right a second eye of the same make stands; None without one.
    """

    pose: Pose
    width: int
    height: int
    lens: Lens
    sensor: Sensor
    depth: DepthCamera | None = None
    baseline_m: float | None = None
