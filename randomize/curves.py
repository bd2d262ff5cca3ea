"""Shapes of cables and hands as tubes, deterministic in the sampled factors."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from sim2cam.geometry.poses import vec3
from sim2cam.objects.tubes import Strand, Tubes
from sim2cam.randomize.factors import CableFactors, HandFactors

Floats = NDArray[np.float64]

_CABLE_STEP_RADII = 4.0  # distance between points over the radius
_MIN_POINTS, _MAX_POINTS = 8, 80
_POINTS_PER_JOINT = 4  # between two joints of a finger

# hand, over its length from wrist to fingertip: fingers along +x, thumb at +y, palm towards -z
_KNUCKLES = ((0.50, 0.130), (0.52, 0.045), (0.49, -0.040), (0.45, -0.115))  # index to little finger
_PHALANGES = ((0.22, 0.13, 0.09), (0.24, 0.14, 0.10), (0.22, 0.135, 0.09), (0.17, 0.10, 0.08))
_FINGER_RADII = ((0.050, 0.039), (0.051, 0.040), (0.048, 0.038), (0.042, 0.033))  # knuckle, tip
_JOINT_CURL_RATIOS = (1.0, 1.15, 0.7)  # over the curl, at each joint of a finger
_POINTING_CURL = 0.15  # over the curl, of a pointing index finger
_FINGER_SPREAD_RATIOS = (1.0, 0.3, -0.35, -1.0)  # over the spread, of each finger
_THUMB = ((0.06, 0.08, -0.01), (0.24, 0.20, -0.04), (0.38, 0.27, -0.08), (0.48, 0.29, -0.11))
_THUMB_RADII = (0.075, 0.045)
_PALM = ((0.06, 0.45), (0.30, 0.8))  # x, and y over the y of the knuckle
_PALM_RADII = (0.085, 0.070)
_ARM = ((0.15, 0.0, 0.0), (-0.25, 0.0, 0.005), (-1.8, 0.0, 0.03))
_ARM_RADII = (0.08, 0.13, 0.24)


def make_cable(factors: CableFactors) -> Tubes:
    """Return a horizontal cable around its centre of mass.

    Its direction oscillates along its length as the sum of two waves.
    """
    radius, length = factors.radius_m, factors.length_m
    count = int(np.clip(length / (_CABLE_STEP_RADII * radius), _MIN_POINTS, _MAX_POINTS))
    position = (np.arange(count) + 0.5) / count
    phase = factors.phase_rad
    direction = factors.sway_rad * np.sin(math.pi * position + phase)
    direction += factors.ripple_rad * np.sin(3 * math.pi * position + 2 * phase)
    steps = (
        np.stack([np.cos(direction), np.sin(direction), np.zeros(count)], axis=1) * length / count
    )
    points = np.vstack([np.zeros(3), np.cumsum(steps, axis=0)])
    points -= (points[:-1] + points[1:]).mean(axis=0) / 2  # segments have equal length
    return Tubes((_make_strand(points, (radius,) * len(points)),))


def make_hand(factors: HandFactors) -> Tubes:
    """Return a hand with forearm; the tip of the straight middle finger is the origin."""
    length, curl = factors.length_m, factors.curl_rad
    spread = factors.spread_rad
    index_curl = _POINTING_CURL if factors.pointing else 1.0
    lines = [
        _make_finger(i, share * curl, spread) for i, share in enumerate((index_curl, 1.0, 1.0, 1.0))
    ]
    radii = [
        np.array([*_PALM_RADII, *np.linspace(*finger_radii, 4)]) for finger_radii in _FINGER_RADII
    ]
    lines += [np.array(_THUMB) * [1, 1, 1 + curl], np.array(_ARM)]
    radii += [np.linspace(*_THUMB_RADII, len(_THUMB)), np.array(_ARM_RADII)]
    mirror = [1, -1 if factors.left else 1, 1]
    tip = [1.0, 0.045, 0.0]
    return Tubes(
        tuple(
            _make_strand(*_interpolate_joints((line - tip) * mirror * length, line_radii * length))
            for line, line_radii in zip(lines, radii, strict=True)
        )
    )


def _make_finger(finger_index: int, curl_rad: float, spread_rad: float) -> Floats:
    """Return wrist, palm, knuckle, joints and tip (6, 3) of a finger."""
    x, y = _KNUCKLES[finger_index]
    pitch = np.cumsum(curl_rad * np.array(_JOINT_CURL_RATIOS))
    yaw = spread_rad * _FINGER_SPREAD_RATIOS[finger_index]
    directions = np.stack(
        [np.cos(pitch) * math.cos(yaw), np.cos(pitch) * math.sin(yaw), -np.sin(pitch)], axis=1
    )
    palm = [(palm_x, share * y, 0.0) for palm_x, share in _PALM]
    steps = np.array(_PHALANGES[finger_index])[:, None] * directions
    return np.vstack([palm, (x, y, 0.0), np.array((x, y, 0.0)) + np.cumsum(steps, axis=0)])


def _interpolate_joints(joints: Floats, radii: Floats) -> tuple[Floats, Floats]:
    """Return points (n, 3) of a cubic spline through joints (m, 3), and radii (n,)."""
    joint_lengths = np.concatenate(
        [[0.0], np.cumsum(np.linalg.norm(np.diff(joints, axis=0), axis=1))]
    )
    steps = np.arange((len(joints) - 1) * _POINTS_PER_JOINT + 1) / _POINTS_PER_JOINT
    lengths = np.interp(steps, np.arange(len(joints)), joint_lengths)
    return np.asarray(CubicSpline(joint_lengths, joints)(lengths)), np.interp(
        lengths, joint_lengths, radii
    )


def _make_strand(points: Floats, radii: Sequence[float] | Floats) -> Strand:
    return Strand(tuple(map(vec3, points)), tuple(map(float, radii)))
