"""Per-pixel channels of a dataset and their encoding as 16-bit PNG, where 0 means no value."""

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
"""Name of a per-pixel channel.

``depth``
    float32 (h, w), metres along the optical axis, or along the pixel's ray if the lens has
    ``depth_along`` set so; step 0.1 mm.
``ids``
    uint16 (h, w), instance ids; 0 for unlabelled pixels.
``parts``
    uint16 (h, w), part numbers of labelled objects, from 1: the face value of a die, the link of a model in
    the order of its asset in the recipe.
``normals``
    float32 (h, w, 3), unit vectors in the camera frame; step 1 / 32767.
``coordinates``
    float32 (h, w, 3), visible point of the labelled object, 0 to 1 along each side of its ``extent_m``
    (NOCS, Wang et al. 2019); NaN without an object; step 1 / 65534.
``coverage``
    float32 (h, w), fraction of the exposure during which the pixel showed the labelled body; below 1 at
    motion blur; 0 without an object; step 1 / 65535.
``flow_forward``, ``flow_backward``
    float32 (h, w, 3), displacement in pixels (x, y) to the next (previous) image of the same camera, and
    1 (visible there) or 2 (occluded or outside there); 0 without a value or beyond 511
    pixels. Stored as in KITTI 2015 (Menze and Geiger), whose readers treat both flags as valid; step 1 / 64
    pixel. Images without a next (previous) one have no such channel.
``sensor_depth``
    uint16 (h, w), readings of a depth camera at the same place, measured like ``depth``, in steps of the
    sample's ``depth_unit_m``; 0 without a reading.
``disparity``
    float32 (h, w), disparity to the right stereo image in pixels, also for points that are occluded there;
    step 1 / 256 as in KITTI; 0 also for points too near for 16 bits.
``shared``
    uint16 (h, w), 1 if the right stereo image shows the point; 0 if it is occluded or outside there.
``raw``
    uint16 (h, w), sensor values behind the colour filter array; pattern, black and white level are in the
    sample's ``raw_format``.
"""

ExtraName = Literal["right", "amodal_masks", "keypoints", "occlusions", "symmetries"]
"""Name of an output that is not a per-pixel channel.

``right``
    Right image of a stereo pair, in ``right/``.
``amodal_masks``, ``keypoints``
    Stored with each label.
``occlusions``
    Pairs of occluding and occluded objects, stored with each sample.
``symmetries``
    Symmetries of each object kind, stored once in ``dataset.json``.
"""

OutputName = Literal[ChannelName, ExtraName]
"""Name of a channel or extra that can be requested."""

CHANNELS: tuple[ChannelName, ...] = get_args(ChannelName)
EXTRAS: tuple[ExtraName, ...] = get_args(ExtraName)
DEPTH_SCALE_M = 1e-4  # at most 6.5 m
FLOW_SCALE_PX = 1 / 64
FLOW_VISIBLE, FLOW_OCCLUDED = 1, 2
_THREE_PLANE_CHANNELS: frozenset[ChannelName] = frozenset(
    {"normals", "coordinates", "flow_forward", "flow_backward"}
)
_SIGNED_OFFSET, _SIGNED_SCALE = 32768, 32767
_UNIT_SCALE = 65534
_DISPARITY_STEPS_PER_PX = 256


def encode_channel(channel: ChannelName, values: NDArray[Any]) -> bytes:
    """Return a channel as the bytes of a 16-bit PNG file."""
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
    """Read a channel from its file.

    Raises:
        InputError: If the file is missing, truncated or not a 16-bit image with the channel's number of planes.
    """
    steps = images.read_16bit(path, channels=3 if channel in _THREE_PLANE_CHANNELS else 1)
    values: NDArray[Any] = steps
    match channel:
        case "depth":
            values = steps * np.float32(DEPTH_SCALE_M)
        case "normals":
            signed = (steps.astype(np.float32) - _SIGNED_OFFSET) / _SIGNED_SCALE
            values = np.where(_mask_nonzero(steps), signed, np.float32(0))
        case "coordinates":
            fractions = (steps.astype(np.float32) - 1) / _UNIT_SCALE
            values = np.where(_mask_nonzero(steps), fractions, np.float32("nan"))
        case "disparity":
            values = steps / np.float32(_DISPARITY_STEPS_PER_PX)
        case "coverage":
            values = steps / np.float32(65535)
        case "flow_forward" | "flow_backward":
            offset = (steps[..., :2].astype(np.float32) - _SIGNED_OFFSET) * np.float32(
                FLOW_SCALE_PX
            )
            flow = np.concatenate([offset, steps[..., 2:]], axis=-1)
            values = np.where(steps[..., 2:] > 0, flow, np.float32(0))
    return values


def _quantize_flow(values: NDArray[Any]) -> NDArray[Any]:
    """Return quantized flow (h, w, 3); 0 without a value or beyond the range."""
    steps = np.round(values[..., :2] / FLOW_SCALE_PX)
    is_valid = (np.abs(steps) < _SIGNED_OFFSET).all(axis=-1, keepdims=True) & (values[..., 2:] > 0)
    return np.where(is_valid, np.concatenate([steps + _SIGNED_OFFSET, values[..., 2:]], axis=-1), 0)


def _mask_nonzero(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return a mask (h, w, 1) of pixels with a nonzero plane."""
    return np.asarray((values != 0).any(axis=-1, keepdims=True))
