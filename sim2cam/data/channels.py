"""What may stand beside a picture, and how channels are stored: PNG of 16 bits, 0 where nothing is."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sim2cam import images

ChannelName = Literal[
    "depth", "ids", "parts", "normals", "coordinates", "coverage", "flow_forward", "flow_backward",
    "sensor_depth", "disparity", "shared", "raw",
]  # fmt: skip
"""What a data set may hold of each pixel.

``depth``
    float32 (h, w), metres along the optical axis, or along each pixel's ray where the lens's
    ``depth_along`` says so; ``DEPTH_SCALE_M`` a step.
``ids``
    uint16 (h, w), instance ids, 0 for everything unlabelled.
``parts``
    uint16 (h, w), numbers from 1 of the parts of labelled objects; of a die the value of the face, of a
    model the link, in the order of its asset in the recipe.
``normals``
    float32 (h, w, 3), unit vectors in the camera frame; a step is 1 / 32767.
``coordinates``
    float32 (h, w, 3), the point of the labelled object that is seen, 0 to 1 along each side of its
    ``extent_m`` (NOCS, Wang et al. 2019); a step is 1 / 65534. NaN where nothing is.
``coverage``
    float32 (h, w), share of its exposure in which a pixel saw the very body that the labels name;
    below 1 where that moves out of it. A step is 1 / 65535; 0 where nothing is.
``flow_forward``, ``flow_backward``
    float32 (h, w, 3): how many pixels to the right and down the point that is seen lies in the next
    (the previous) picture of the same camera, and ``FLOW_VISIBLE`` where it is seen there too,
    ``FLOW_OCCLUDED`` where it is behind something or outside; 0 where nothing is, or farther than
    511 pixels. The file is that of KITTI 2015 (Menze and Geiger), whose readers take both for
    valid; a step is 1 / 64 pixel. Pictures without a next (a previous) one have none.
``render_sensor_depth``
    uint16 (h, w), what a depth camera at the same place reads, along the same way as ``depth``, in
    steps of the sample's ``depth_unit_m``; 0 where it reads nothing.
``disparity``
    float32 (h, w), how many pixels farther to the left the right eye of a pair sees the point,
    whether anything hides it there or not; a step is 1 / 256 as KITTI has it, so that nothing is
    also what is nearer than 16 bits reach.
``shared``
    uint16 (h, w), 1 where the right eye sees the point too; 0 where it is hidden there or outside.
``raw``
    uint16 (h, w), what each pixel of the sensor counted behind its colour filter; pattern, black
    and white level are the sample's ``raw``.
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

OutputName = Literal[ChannelName, ExtraName]
"""What may be asked for."""

CHANNELS: tuple[ChannelName, ...] = get_args(ChannelName)
EXTRAS: tuple[ExtraName, ...] = get_args(ExtraName)
DEPTH_SCALE_M = 1e-4  # 6.5 m at most
FLOW_SCALE_PX = 1 / 64
FLOW_VISIBLE, FLOW_OCCLUDED = 1, 2
_THREE_PLANE_CHANNELS: frozenset[ChannelName] = frozenset(
    {"normals", "coordinates", "flow_forward", "flow_backward"}
)
_SIGNED_OFFSET, _SIGNED_SCALE = 32768, 32767
_UNIT_SCALE = 65534
_DISPARITY_STEPS_PER_PX = 256


def encode_channel(channel: ChannelName, values: NDArray[Any]) -> bytes:
    """Return the file of a channel."""
    match channel:
        case "depth":
            steps = np.clip(np.round(values / DEPTH_SCALE_M), 0, 65535)
        case "normals":
            steps = np.where(
                _mask_nonzero(values), np.round(values * _SIGNED_SCALE) + _SIGNED_OFFSET, 0
            )
        case "coordinates":
            steps = np.where(np.isnan(values), 0, np.round(np.clip(values, 0, 1) * _UNIT_SCALE) + 1)
        case "disparity":
            steps = np.round(values * _DISPARITY_STEPS_PER_PX)
            steps = np.where(steps <= 65535, steps, 0)
        case "coverage":
            steps = np.round(values * 65535)
        case "flow_forward" | "flow_backward":
            steps = _quantize_flow(values)
        case _:
            steps = values
    return images.encode_png(steps.astype(np.uint16))


def read_channel(channel: ChannelName, path: Path) -> NDArray[Any]:
    """Return a channel from its file.

    Raises:
        InputError: the file is missing, truncated or no 16-bit image of so many channels.
    """
    steps = images.read_16bit(path, channels=3 if channel in _THREE_PLANE_CHANNELS else 1)
    found: NDArray[Any] = steps
    match channel:
        case "depth":
            found = steps * np.float32(DEPTH_SCALE_M)
        case "normals":
            signed = (steps.astype(np.float32) - _SIGNED_OFFSET) / _SIGNED_SCALE
            found = np.where(_mask_nonzero(steps), signed, np.float32(0))
        case "coordinates":
            shares = (steps.astype(np.float32) - 1) / _UNIT_SCALE
            found = np.where(_mask_nonzero(steps), shares, np.float32("nan"))
        case "disparity":
            found = steps / np.float32(_DISPARITY_STEPS_PER_PX)
        case "coverage":
            found = steps / np.float32(65535)
        case "flow_forward" | "flow_backward":
            offset = (steps[..., :2].astype(np.float32) - _SIGNED_OFFSET) * np.float32(
                FLOW_SCALE_PX
            )
            whole = np.concatenate([offset, steps[..., 2:]], axis=-1)
            found = np.where(steps[..., 2:] > 0, whole, np.float32(0))
    return found


def _quantize_flow(values: NDArray[Any]) -> NDArray[Any]:
    """Return the steps (h, w, 3) of a flow; all 0 where it has no value or one out of reach."""
    steps = np.round(values[..., :2] / FLOW_SCALE_PX)
    reached = (np.abs(steps) < _SIGNED_OFFSET).all(axis=-1, keepdims=True) & (values[..., 2:] > 0)
    return np.where(reached, np.concatenate([steps + _SIGNED_OFFSET, values[..., 2:]], axis=-1), 0)


def _mask_nonzero(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which pixels (h, w, 1) hold anything but zeros."""
    return np.asarray((values != 0).any(axis=-1, keepdims=True))
