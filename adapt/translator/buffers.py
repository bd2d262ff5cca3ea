"""The renderer's buffers as the generator sees them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.adapt.transfers.transfer import Frame
from sim2cam.data.channels import ChannelName
from sim2cam.data.sample import Dataset, Sample
from sim2cam.errors import InputError, Sim2CamError

Floats = NDArray[np.float32]

CHANNELS = {"depth": 1, "objects": 2, "normals": 3, "coordinates": 3}
"""Channels of each buffer, besides those of ``CATEGORY``, which have one each."""

CATEGORY = "category "
"""Begins the name of the mask of a category's objects; the rest is the category's."""

MOST_CATEGORIES = 16
"""With more, their masks alone would fill the memory that is to hold images."""

_SOURCES: Mapping[str, ChannelName] = {
    "depth": "depth",
    "objects": "ids",
    "normals": "normals",
    "coordinates": "coordinates",
}


def buffers_of(dataset: Dataset) -> tuple[str, ...]:
    """Returns the names of the buffers that every sample has: of ``CHANNELS``, then masks of the
    categories where there are two to ``MOST_CATEGORIES``.
    """
    samples = dataset.samples
    names = [
        name for name, source in _SOURCES.items() if all(source in s.channels for s in samples)
    ]
    is_labelled = "objects" in names and all(s.objects is not None for s in samples)
    if is_labelled and 2 <= len(dataset.categories) <= MOST_CATEGORIES:
        names += [CATEGORY + category for category in dataset.categories]
    return tuple(names)


def is_buffer(name: str) -> bool:
    """Returns whether there is a buffer of this name."""
    return name in CHANNELS or name.startswith(CATEGORY)


def count_channels(names: tuple[str, ...]) -> int:
    """Returns how many channels these buffers are together."""
    return sum(CHANNELS.get(name, 1) for name in names)


def mirrored(buffers: NDArray[np.float16], names: tuple[str, ...]) -> NDArray[np.float16]:
    """Returns the channels (c, height, width) of these buffers as a mirrored scene has them.

    Left and right change places, and a normal that pointed to the right points to the left.
    """
    flipped = buffers[:, :, ::-1]
    if "normals" not in names:
        return flipped
    first = count_channels(names[: names.index("normals")])
    signs = np.ones((len(buffers), 1, 1), np.float16)
    signs[first] = -1
    return flipped * signs


def check_buffers(sample: Sample, names: tuple[str, ...]) -> None:
    """Refuses a sample that lacks one of these buffers, without reading any.

    Raises:
        InputError: naming the picture.
    """
    for name in names:
        is_category = name.startswith(CATEGORY)
        source = "ids" if is_category else _SOURCES[name]
        if source not in sample.channels:
            raise InputError(
                sample.rgb,
                f"has no {source}, with which the translator was trained. Render it with {source}, leave it "
                "out, or train the translator on renders without.",
            )
        if is_category and sample.objects is None:
            raise InputError(
                sample.rgb,
                "has no labels, and the translator was trained with categories. Label its objects, leave it "
                "out, or train the translator on renders without labels.",
            )


def buffer_channels(frame: Frame, names: tuple[str, ...]) -> Floats:
    """Returns the channels (c, height, width) of these buffers, from -1 to 1.

    Raises:
        Sim2CamError: the frame lacks one of them.
    """
    empty = np.zeros((0, *frame.rgb.shape[:2]), np.float32)
    return np.concatenate([empty, *(_read(frame, name) for name in names)])


def _read(frame: Frame, name: str) -> Floats:
    if name.startswith(CATEGORY):
        return _category_channel(frame, name.removeprefix(CATEGORY))
    return _READERS[name](frame)


def _depth_channel(frame: Frame) -> Floats:
    """Returns how near everything is: 0 at the median depth of the image, -1 far away."""
    depth_m = _known(frame.depth_m, "depth")
    seen = depth_m > 0
    median = np.median(depth_m[seen]) if seen.any() else 1.0
    nearness = np.divide(median, depth_m, out=np.zeros_like(depth_m), where=seen)
    return np.asarray(nearness.clip(0.0, 2.0) - 1.0, dtype=np.float32)[None]


def _object_channels(frame: Frame) -> Floats:
    """Returns where labelled objects are, and the pixels at their outlines."""
    ids = _known(frame.ids, "ids")
    outline = np.zeros(ids.shape, bool)
    for axis in (0, 1):
        differs = np.diff(ids.astype(np.int32), axis=axis) != 0
        before, after = [(0, 0), (0, 0)], [(0, 0), (0, 0)]
        before[axis], after[axis] = (0, 1), (1, 0)
        outline |= np.pad(differs, before) | np.pad(differs, after)
    return np.stack([ids > 0, outline]).astype(np.float32)


def _normal_channels(frame: Frame) -> Floats:
    """Returns the normals, 0 where nothing is."""
    return _planes(_known(frame.normals, "normals"))


def _coordinate_channels(frame: Frame) -> Floats:
    """Returns where on its object each pixel is, -1 to 1 along each side, 0 where nothing is."""
    return np.nan_to_num(_planes(2.0 * _known(frame.coordinates, "coordinates") - 1.0), nan=0.0)


def _category_channel(frame: Frame, category: str) -> Floats:
    """Returns where objects of a category are."""
    if frame.categories is None:
        raise Sim2CamError(
            "The translator was trained with categories, and the image has no labels. Label its "
            "objects, or train the translator on renders without labels."
        )
    theirs = [number for number, name in frame.categories.items() if name == category]
    return np.isin(_known(frame.ids, "ids"), theirs).astype(np.float32)[None]


def _known(buffer: NDArray[Any] | None, channel: ChannelName) -> NDArray[Any]:
    if buffer is None:
        raise Sim2CamError(
            f"The translator was trained with {channel}, and the image has none. Render with "
            f"{channel}, or train the translator on renders without."
        )
    return buffer


def _planes(values: NDArray[Any]) -> Floats:
    return np.ascontiguousarray(values.transpose(2, 0, 1), np.float32)


_READERS: Mapping[str, Callable[[Frame], Floats]] = {
    "depth": _depth_channel,
    "objects": _object_channels,
    "normals": _normal_channels,
    "coordinates": _coordinate_channels,
}
