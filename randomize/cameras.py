"""Cameras from sampled factors: pose, lens, sensor and their effects."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from sim2cam.errors import LensError
from sim2cam.geometry.lens import BrownConrady, KannalaBrandt, Lens, Rational, ThinPrism
from sim2cam.geometry.motion import Twist
from sim2cam.geometry.poses import Pose, vec3
from sim2cam.randomize.bodies import compute_position
from sim2cam.randomize.distributions import LogUniform, Normal, Uniform, iterate_parts
from sim2cam.randomize.domain import Domain
from sim2cam.randomize.sampling import FactorValues
from sim2cam.scene.camera import Camera, CameraModel, Shutter
from sim2cam.scene.depth_camera import DEPTH_CAMERA_TYPES, AnyDepthCamera
from sim2cam.scene.lens_effects import (
    Defocus,
    Dirt,
    Droplets,
    Falloff,
    FieldBlur,
    Glare,
    LateralColor,
    LensEffects,
)
from sim2cam.scene.parameters import read_parameters
from sim2cam.scene.sensor import Automatics, Mosaic, Processing, Sensor

Part = TypeVar("Part")

_REFERENCE_DIE_M = 0.016
_REFERENCE_WIDTH_PX = 640
_FOLD_MARGIN = 0.05  # of the width: next to a fold, the image is stretched without limit
_DISTORTION_STEPS = 20


def make_camera(
    factors: FactorValues, domain: Domain, view: int, width: int, height: int, length_m: float
) -> Camera:
    """Return one camera of a scene.

    Distortion that is sampled from ranges is reduced if it folds back within the image. Constant and
    calibrated lenses stay as they are.

    Args:
        factors: sampled values.
        domain: distributions of the values.
        view: number of the camera.
        width, height: image size in pixels.
        length_m: longest side of the object of median size.
    """
    path = f"view/{view}"
    half = factors.get_float(f"{path}/fov_rad") / 2
    focal_px = width / 2 / (half if factors.has_group(f"fisheye/{view}") else math.tan(half))
    distance = _compute_distance_m(factors, path, focal_px, width, length_m)
    tilt, azimuth = factors.get_float(f"{path}/tilt_rad"), factors.get_float(f"{path}/azimuth_rad")
    x, y, _ = compute_position(
        factors, factors.get_float(f"{path}/aim_radius"), factors.get_float(f"{path}/aim_angle_rad")
    )
    z = factors.get_float_or(f"{path}/aim_height_m", 0.0)
    radius = distance * math.sin(tilt)
    eye = (
        x + radius * math.cos(azimuth),
        y + radius * math.sin(azimuth),
        z + distance * math.cos(tilt),
    )
    pose = Pose.look_at(eye, (x, y, z), factors.get_float(f"{path}/roll_rad"))
    lens = _make_lens(factors, view, focal_px, width, height)
    if _has_range(domain, "fisheye" if isinstance(lens, KannalaBrandt) else "lens"):
        lens = _limit_distortion(lens, width, height)
    return Camera(
        pose=pose,
        width=width,
        height=height,
        lens=lens,
        sensor=_make_sensor(factors, view),
        shutter=_make_part(factors, f"shutter/{view}", Shutter),
        twist=_make_twist(factors, view, pose),
        depth_camera=_make_depth_camera(factors, view),
        baseline_m=_get_baseline_m(factors, view),
        glass=_make_glass(factors, view, distance),
        model=_make_part(factors, f"camera_model/{view}", CameraModel),
    )


def _compute_distance_m(
    factors: FactorValues, path: str, focal_px: float, width: int, length_m: float
) -> float:
    """Return the distance from the look-at point: sampled, or from the size of a reference length."""
    if f"{path}/distance_m" in factors.values:
        return factors.get_float(f"{path}/distance_m")
    if f"{path}/die_px" in factors.values:
        reference_m, reference_px = _REFERENCE_DIE_M, factors.get_float(f"{path}/die_px")
    else:
        reference_m, reference_px = length_m, factors.get_float(f"{path}/object_px")
    return focal_px * reference_m / (reference_px * width / _REFERENCE_WIDTH_PX)


def _make_twist(factors: FactorValues, view: int, pose: Pose) -> Twist | None:
    """Return the motion of a camera at this pose, in world coordinates."""
    path = f"motion/{view}"
    if not factors.has_group(path):
        return None
    velocity, spin = (
        np.array([factors.get_float(f"{path}/{name}") for name in names])
        for names in (
            ("right_m_s", "down_m_s", "forward_m_s"),
            ("pitch_rad_s", "yaw_rad_s", "roll_rad_s"),
        )
    )
    to_world = pose.rotation()
    return Twist(vec3(to_world.apply(velocity)), vec3(to_world.apply(spin)))


def _make_depth_camera(factors: FactorValues, view: int) -> AnyDepthCamera | None:
    path = f"depth_camera/{view}"
    if not factors.has_group(path):
        return None
    return factors.read(DEPTH_CAMERA_TYPES[factors.get_str(f"{path}/kind")], path)


def _make_part(factors: FactorValues, path: str, part_type: type[Part]) -> Part | None:
    """Return a camera component with the sampled values; None if its group is absent."""
    return factors.read(part_type, path) if factors.has_group(path) else None


def _make_glass(factors: FactorValues, view: int, distance_m: float) -> LensEffects | None:
    """Return the lens effects of a camera with this look-at distance; None without any."""
    effects = LensEffects(
        defocus=_make_defocus(factors, view, distance_m),
        lateral_color=_make_part(factors, f"lateral_color/{view}", LateralColor),
        field_blur=_make_part(factors, f"field_blur/{view}", FieldBlur),
        glare=_make_part(factors, f"glare/{view}", Glare),
        dirt=_make_part(factors, f"dirt/{view}", Dirt),
        droplets=_make_part(factors, f"droplets/{view}", Droplets),
        falloff=_make_part(factors, f"falloff/{view}", Falloff),
    )
    return None if effects == LensEffects() else effects


def _make_defocus(factors: FactorValues, view: int, distance_m: float) -> Defocus | None:
    path = f"defocus/{view}"
    if not factors.has_group(path):
        return None
    focus_m = distance_m * factors.get_float(f"{path}/focus")
    return Defocus(factors.get_float(f"{path}/aperture_m"), focus_m)


def _get_baseline_m(factors: FactorValues, view: int) -> float | None:
    path = f"stereo/{view}"
    return factors.get_float(f"{path}/baseline_m") if factors.has_group(path) else None


def _make_lens(factors: FactorValues, view: int, focal_px: float, width: int, height: int) -> Lens:
    path, fisheye = f"lens/{view}", f"fisheye/{view}"
    center = (
        (width - 1) / 2 + width * factors.get_float(f"{path}/shift_x"),
        (height - 1) / 2 + width * factors.get_float(f"{path}/shift_y"),
    )
    focal = focal_px, focal_px * factors.get_float_or(f"{path}/aspect", 1.0)
    if factors.has_group(fisheye):
        k1, k2, k3, k4 = (
            factors.get_float(f"{fisheye}/{name}") for name in ("k1", "k2", "k3", "k4")
        )
        return KannalaBrandt(*focal, *center, k1, k2, k3, k4)
    distortion: list[Any] = [
        factors.get_float_or(f"{path}/{name}", 0.0) for name in _DISTORTION_COEFFICIENTS
    ]
    if any(f"{path}/{name}" in factors.values for name in _DISTORTION_COEFFICIENTS[8:]):
        return ThinPrism(*focal, *center, *distortion)
    if any(f"{path}/{name}" in factors.values for name in _DISTORTION_COEFFICIENTS[5:8]):
        return Rational(*focal, *center, *distortion[:8])
    return BrownConrady(*focal, *center, *distortion[:5])


def _has_range(domain: Domain, group: str) -> bool:
    """Return whether a distortion coefficient is sampled from a range, also a nested one."""
    return any(
        isinstance(part, Normal | Uniform | LogUniform)
        for name, distribution in domain.groups[group].items()
        if name in _DISTORTION_COEFFICIENTS
        for part in iterate_parts(distribution)
    )


def _limit_distortion(lens: Lens, width: int, height: int) -> Lens:
    """Reduce the distortion of a lens that folds back within the image.

    All coefficients are multiplied by the largest multiple of 1 / ``_DISTORTION_STEPS`` with which the
    lens covers the image and a margin. A lens that covers the image is returned unchanged, and so is
    one that does not cover it without distortion.
    """
    if _covers_image(lens, width, height):
        return lens
    names = [name for name in _DISTORTION_COEFFICIENTS if hasattr(lens, name)]
    for step in reversed(range(_DISTORTION_STEPS)):
        scaled = {name: getattr(lens, name) * step / _DISTORTION_STEPS for name in names}
        limited = replace(lens, **scaled)
        if _covers_image(limited, width, height, _FOLD_MARGIN * width):
            return limited
    return lens


def _covers_image(lens: Lens, width: int, height: int, margin_px: float = 0.0) -> bool:
    """Return whether a lens can unproject the corners of an image with a margin."""
    left, right, bottom = -margin_px, width - 1 + margin_px, height - 1 + margin_px
    try:
        lens.unproject(
            np.array([[left, left], [right, left], [left, bottom], [right, bottom]], np.float64)
        )
    except LensError:
        return False
    return True


_DISTORTION_COEFFICIENTS = ("k1", "k2", "p1", "p2", "k3", "k4", "k5", "k6", "s1", "s2", "s3", "s4")


def _make_sensor(factors: FactorValues, view: int) -> Sensor:
    groups = (f"exposure/{view}/", f"sensor/{view}/")
    values = {
        f"sensor/{path.rpartition('/')[2]}": value
        for path, value in factors.values.items()
        if path.startswith(groups)
    }
    return replace(
        read_parameters(Sensor, values, "sensor"),
        mosaic=_make_part(factors, f"mosaic/{view}", Mosaic),
        processing=_make_part(factors, f"processing/{view}", Processing),
        automatics=_make_part(factors, f"automatics/{view}", Automatics),
    )
