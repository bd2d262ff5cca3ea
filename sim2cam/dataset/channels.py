"""What may stand beside a picture, and how channels are stored: PNG of 16 bits, 0 where nothing is."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sim2cam import images

ChannelName = Literal[
    "depth", "ids", "parts", "normals", "coordinates", "sensor_depth", "disparity", "shared",
]  # fmt: skip
"""What a data set may hold of each pixel.

``depth``
    float32 (h, w), metres along the optical axis, or along each pixel's ray where the lens's
    ``depth_along`` says so; ``DEPTH_SCALE_M`` a step.
``ids``
    uint16 (h, w), instance ids, 0 for everything unlabelled.
``parts``
    uint16 (h, w), numbers from 1 of the parts of labelled objects; of a die the value of the face.
``normals``
    float32 (h, w, 3), unit vectors in the camera frame; a step is 1 / 32767.
``coordinates``
    float32 (h, w, 3), the point of the labelled object that is seen, 0 to 1 along each side of its
    ``extent_m`` (NOCS, Wang et al. 2019); a step is 1 / 65534. NaN where nothing is.
``sensor_depth``
    uint16 (h, w), what a depth camera at the same place reads, along the same way as ``depth``, in
    steps of the sample's ``depth_unit_m``; 0 where it reads nothing.
``disparity``
    float32 (h, w), how many pixels farther to the left the right eye of a pair sees the point,
    whether anything hides it there or not; a step is 1 / 256 as KITTI has it, so that nothing is
    also what is nearer than 16 bits reach.
``shared``
    uint16 (h, w), 1 where the right eye sees the point too; 0 where it is hidden there or outside.
"""

ExtraName = Literal["right", "amodal_masks", "keypoints", "occlusions", "symmetries"]
"""What else it may hold.

``right``
    the picture of the right eye of a pair, in ``right/``.
``amodal_masks``, ``keypoints``
    of each object, with its label.
``occlusions``
    which objects hide which, with each sample.
``symmetries``
    of each kind of object, once, in ``dataset.json``.
"""

Wanted = Literal[ChannelName, ExtraName]
"""What may be asked for."""

CHANNELS: tuple[ChannelName, ...] = get_args(ChannelName)
EXTRAS: tuple[ExtraName, ...] = get_args(ExtraName)
DEPTH_SCALE_M = 1e-4  # 6.5 m at most
_MIDDLE, _HALF = 32768, 32767
_MOST = 65534
_STEPS_PER_PX = 256


def encode(channel: ChannelName, values: NDArray[Any]) -> bytes:
    """Returns the file of a channel."""
    match channel:
        case "depth":
            steps = np.clip(np.round(values / DEPTH_SCALE_M), 0, 65535)
        case "normals":
            steps = np.where(_known(values), np.round(values * _HALF) + _MIDDLE, 0)
        case "coordinates":
            steps = np.where(np.isnan(values), 0, np.round(np.clip(values, 0, 1) * _MOST) + 1)
        case "disparity":
            steps = np.round(values * _STEPS_PER_PX)
            steps = np.where(steps <= 65535, steps, 0)
        case _:
            steps = values
    return images.encode_png(steps.astype(np.uint16))


def read(channel: ChannelName, path: Path) -> NDArray[Any]:
    """Returns a channel from its file.

    Raises:
        InputError: the file is missing, truncated or no 16-bit image of so many channels.
    """
    steps = images.read_16bit(path, planes=3 if channel in ("normals", "coordinates") else 1)
    match channel:
        case "depth":
            return steps * np.float32(DEPTH_SCALE_M)
        case "normals":
            signed = (steps.astype(np.float32) - _MIDDLE) / _HALF
            return np.where(_known(steps), signed, np.float32(0))
        case "coordinates":
            return np.where(
                _known(steps), (steps.astype(np.float32) - 1) / _MOST, np.float32("nan")
            )
        case "disparity":
            return steps / np.float32(_STEPS_PER_PX)
        case _:
            return steps


def _known(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Returns which pixels (h, w, 1) hold anything but zeros."""
    return np.asarray((values != 0).any(axis=-1, keepdims=True))
