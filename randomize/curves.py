"""Strands: the shapes of cables and hands, from what was drawn of them. No chance here."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from sim2cam.geometry.poses import vec3
from sim2cam.randomize.sampling import Draw
from sim2cam.scene.tubes import Strand, Tubes

Floats = NDArray[np.float64]

_CABLE_STEP = 4.0  # of its radius, between points of a cable
_LEAST_POINTS, _MOST_POINTS = 8, 80
_JOINT_POINTS = 4  # between two joints of a finger

# of a hand, over its length from wrist to fingertip: fingers along +x, thumb at +y, palm towards -z
_KNUCKLES = ((0.50, 0.130), (0.52, 0.045), (0.49, -0.040), (0.45, -0.115))  # index to little finger
_PHALANGES = ((0.22, 0.13, 0.09), (0.24, 0.14, 0.10), (0.22, 0.135, 0.09), (0.17, 0.10, 0.08))
_FINGER_RADII = ((0.050, 0.039), (0.051, 0.040), (0.048, 0.038), (0.042, 0.033))  # knuckle, tip
_BENDS = (1.0, 1.15, 0.7)  # of the curl, at each joint of a finger
_POINTING = 0.15  # of the curl, of an index finger that points
_SPREADS = (1.0, 0.3, -0.35, -1.0)  # of the spread of fingers
_THUMB = ((0.06, 0.08, -0.01), (0.24, 0.20, -0.04), (0.38, 0.27, -0.08), (0.48, 0.29, -0.11))
_THUMB_RADII = (0.075, 0.045)
_PALM = ((0.06, 0.45), (0.30, 0.8))  # x, and y over that of the knuckle
_PALM_RADII = (0.085, 0.070)
_ARM = ((0.15, 0.0, 0.0), (-0.25, 0.0, 0.005), (-1.8, 0.0, 0.03))
_ARM_RADII = (0.08, 0.13, 0.24)


def cable_of(drawn: Draw, path: str) -> Tubes:
    """Returns a cable that lies level, around the centre of its mass.

    Its direction swings along its length, by two waves.
    """
    radius, length = drawn.number(f"{path}/radius_m"), drawn.number(f"{path}/length_m")
    count = int(np.clip(length / (_CABLE_STEP * radius), _LEAST_POINTS, _MOST_POINTS))
    along = (np.arange(count) + 0.5) / count
    phase = drawn.number(f"{path}/phase_rad")
    turn = drawn.number(f"{path}/sway_rad") * np.sin(math.pi * along + phase)
    turn += drawn.number(f"{path}/ripple_rad") * np.sin(3 * math.pi * along + 2 * phase)
    steps = np.stack([np.cos(turn), np.sin(turn), np.zeros(count)], axis=1) * length / count
    points = np.vstack([np.zeros(3), np.cumsum(steps, axis=0)])
    points -= (points[:-1] + points[1:]).mean(axis=0) / 2  # all its pieces are as long
    return Tubes((_strand(points, (radius,) * len(points)),))


def hand_of(drawn: Draw, path: str) -> Tubes:
    """Returns a hand and its arm, with the tip of its straight middle finger at the origin."""
    length, curl = drawn.number(f"{path}/length_m"), drawn.number(f"{path}/curl_rad")
    spread = drawn.number(f"{path}/spread_rad")
    index = _POINTING if drawn.flag(f"{path}/pointing") else 1.0
    lines = [_finger(i, share * curl, spread) for i, share in enumerate((index, 1.0, 1.0, 1.0))]
    radii = [np.array([*_PALM_RADII, *np.linspace(*ends, 4)]) for ends in _FINGER_RADII]
    lines += [np.array(_THUMB) * [1, 1, 1 + curl], np.array(_ARM)]
    radii += [np.linspace(*_THUMB_RADII, len(_THUMB)), np.array(_ARM_RADII)]
    mirror = [1, -1 if drawn.flag(f"{path}/left") else 1, 1]
    tip = [1.0, 0.045, 0.0]
    return Tubes(
        tuple(
            _strand(*_smooth((line - tip) * mirror * length, wide * length))
            for line, wide in zip(lines, radii, strict=True)
        )
    )


def _finger(number: int, curl_rad: float, spread_rad: float) -> Floats:
    """Returns wrist, palm, knuckle, joints and tip (6, 3) of a finger."""
    x, y = _KNUCKLES[number]
    down = np.cumsum(curl_rad * np.array(_BENDS))
    turn = spread_rad * _SPREADS[number]
    ways = np.stack(
        [np.cos(down) * math.cos(turn), np.cos(down) * math.sin(turn), -np.sin(down)], axis=1
    )
    palm = [(at, share * y, 0.0) for at, share in _PALM]
    steps = np.array(_PHALANGES[number])[:, None] * ways
    return np.vstack([palm, (x, y, 0.0), np.array((x, y, 0.0)) + np.cumsum(steps, axis=0)])


def _smooth(joints: Floats, radii: Floats) -> tuple[Floats, Floats]:
    """Returns points (n, 3) of a smooth line through joints (m, 3), and the radius at each."""
    at = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(joints, axis=0), axis=1))])
    steps = np.arange((len(joints) - 1) * _JOINT_POINTS + 1) / _JOINT_POINTS
    along = np.interp(steps, np.arange(len(joints)), at)
    return np.asarray(CubicSpline(at, joints)(along)), np.interp(along, at, radii)


def _strand(points: Floats, radii: Sequence[float] | Floats) -> Strand:
    return Strand(tuple(map(vec3, points)), tuple(map(float, radii)))
