"""The renderer's buffers as the generator sees them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sim2cam.adapt.frame import Frame
from sim2cam.dataset.sample import Dataset
from sim2cam.errors import Sim2CamError

CHANNELS = {"depth": 1, "objects": 2}


def buffers_of(dataset: Dataset) -> tuple[str, ...]:
    """Returns the names of the buffers that every sample has, of ``CHANNELS``."""
    has = {
        "depth": all("depth" in sample.channels for sample in dataset.samples),
        "objects": all("ids" in sample.channels for sample in dataset.samples),
    }
    return tuple(name for name in CHANNELS if has[name])


def count_channels(names: tuple[str, ...]) -> int:
    """Returns how many channels these buffers are together."""
    return sum(CHANNELS[name] for name in names)


def buffer_channels(frame: Frame, names: tuple[str, ...]) -> NDArray[np.float32]:
    """Returns the channels (c, height, width) of these buffers, from -1 to 1.

    Raises:
        Sim2CamError: the frame lacks one of them.
    """
    empty = np.zeros((0, *frame.rgb.shape[:2]), np.float32)
    return np.concatenate([empty, *(_READERS[name](frame) for name in names)])


def _depth_channel(frame: Frame) -> NDArray[np.float32]:
    """Returns how near everything is: 0 at the median depth of the image, -1 far away."""
    if frame.depth_m is None:
        raise Sim2CamError(
            "The translator was trained with depth, and the image has none. Render with depth, "
            "or train the translator on renders without it."
        )
    seen = frame.depth_m > 0
    median = np.median(frame.depth_m[seen]) if seen.any() else 1.0
    nearness = np.divide(median, frame.depth_m, out=np.zeros_like(frame.depth_m), where=seen)
    return np.asarray(nearness.clip(0.0, 2.0) - 1.0, dtype=np.float32)[None]


def _object_channels(frame: Frame) -> NDArray[np.float32]:
    """Returns where labelled objects are, and the pixels at their outlines."""
    if frame.ids is None:
        raise Sim2CamError(
            "The translator was trained with instance ids, and the image has none. Render with "
            "ids, or train the translator on renders without them."
        )
    outline = np.zeros(frame.ids.shape, bool)
    for axis in (0, 1):
        differs = np.diff(frame.ids.astype(np.int32), axis=axis) != 0
        before, after = [(0, 0), (0, 0)], [(0, 0), (0, 0)]
        before[axis], after[axis] = (0, 1), (1, 0)
        outline |= np.pad(differs, before) | np.pad(differs, after)
    return np.stack([frame.ids > 0, outline]).astype(np.float32)


_READERS = {"depth": _depth_channel, "objects": _object_channels}
