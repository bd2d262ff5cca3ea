"""The renderer's buffers as the generator sees them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.adapt.transfers.transfer import GBufferFrame
from sim2cam.data.channels import ChannelName
from sim2cam.data.sample import Dataset, Sample
from sim2cam.errors import InputError, Sim2CamError

Floats = NDArray[np.float32]

BUFFER_CHANNELS = {"depth": 1, "objects": 2, "normals": 3, "coordinates": 3}
"""Channels of each buffer, besides those of ``CATEGORY_PREFIX``, which have one each."""

CATEGORY_PREFIX = "category "
"""Begins the name of the mask of a category's objects; the rest is the category's."""

MAX_CATEGORIES = 16
"""With more, their masks alone would fill the memory that is to hold images."""

_SOURCE_CHANNELS: Mapping[str, ChannelName] = {
    "depth": "depth",
    "objects": "ids",
    "normals": "normals",
    "coordinates": "coordinates",
}


def list_common_buffers(dataset: Dataset) -> tuple[str, ...]:
    """Return the names of the buffers that every sample has: of ``BUFFER_CHANNELS``, then masks of the
    categories where there are two to ``MAX_CATEGORIES``.
    """
    samples = dataset.samples
    names = [
        name
        for name, source in _SOURCE_CHANNELS.items()
        if all(source in s.channels for s in samples)
    ]
    is_labelled = "objects" in names and all(s.objects is not None for s in samples)
    if is_labelled and 2 <= len(dataset.categories) <= MAX_CATEGORIES:
        names += [CATEGORY_PREFIX + category for category in dataset.categories]
    return tuple(names)


def is_buffer(name: str) -> bool:
    """Return whether there is a buffer of this name."""
    return name in BUFFER_CHANNELS or name.startswith(CATEGORY_PREFIX)


def count_channels(names: tuple[str, ...]) -> int:
    """Return how many channels these buffers are together."""
    return sum(BUFFER_CHANNELS.get(name, 1) for name in names)


def flip_buffers(buffers: NDArray[np.float16], names: tuple[str, ...]) -> NDArray[np.float16]:
    """Return the channels (c, height, width) of these buffers as a mirrored scene has them.

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
    """Refuse a sample that lacks one of these buffers, without reading any.

    Raises:
        InputError: naming the picture.
    """
    for name in names:
        is_category = name.startswith(CATEGORY_PREFIX)
        source = "ids" if is_category else _SOURCE_CHANNELS[name]
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


def build_buffer_channels(frame: GBufferFrame, names: tuple[str, ...]) -> Floats:
    """Return the channels (c, height, width) of these buffers, from -1 to 1.

    Raises:
        Sim2CamError: the frame lacks one of them.
    """
    empty = np.zeros((0, *frame.rgb.shape[:2]), np.float32)
    return np.concatenate([empty, *(_encode_buffer(frame, name) for name in names)])


def _encode_buffer(frame: GBufferFrame, name: str) -> Floats:
    if name.startswith(CATEGORY_PREFIX):
        return _encode_category(frame, name.removeprefix(CATEGORY_PREFIX))
    return _ENCODERS[name](frame)


def _encode_depth(frame: GBufferFrame) -> Floats:
    """Return how near everything is: 0 at the median depth of the image, -1 far away."""
    depth_m = _require_buffer(frame.depth_m, "depth")
    seen = depth_m > 0
    median = np.median(depth_m[seen]) if seen.any() else 1.0
    nearness = np.divide(median, depth_m, out=np.zeros_like(depth_m), where=seen)
    return np.asarray(nearness.clip(0.0, 2.0) - 1.0, dtype=np.float32)[None]


def _encode_objects(frame: GBufferFrame) -> Floats:
    """Return where labelled objects are, and the pixels at their outlines."""
    ids = _require_buffer(frame.ids, "ids")
    outline = np.zeros(ids.shape, bool)
    for axis in (0, 1):
        differs = np.diff(ids.astype(np.int32), axis=axis) != 0
        before, after = [(0, 0), (0, 0)], [(0, 0), (0, 0)]
        before[axis], after[axis] = (0, 1), (1, 0)
        outline |= np.pad(differs, before) | np.pad(differs, after)
    return np.stack([ids > 0, outline]).astype(np.float32)


def _encode_normals(frame: GBufferFrame) -> Floats:
    """Return the normals, 0 where nothing is."""
    return _to_planes(_require_buffer(frame.normals, "normals"))


def _encode_coordinates(frame: GBufferFrame) -> Floats:
    """Return where on its object each pixel is, -1 to 1 along each side, 0 where nothing is."""
    return np.nan_to_num(
        _to_planes(2.0 * _require_buffer(frame.coordinates, "coordinates") - 1.0), nan=0.0
    )


def _encode_category(frame: GBufferFrame, category: str) -> Floats:
    """Return where objects of a category are."""
    if frame.categories is None:
        raise Sim2CamError(
            "The translator was trained with categories, and the image has no labels. Label its "
            "objects, or train the translator on renders without labels."
        )
    theirs = [number for number, name in frame.categories.items() if name == category]
    return np.isin(_require_buffer(frame.ids, "ids"), theirs).astype(np.float32)[None]


def _require_buffer(buffer: NDArray[Any] | None, channel: ChannelName) -> NDArray[Any]:
    if buffer is None:
        raise Sim2CamError(
            f"The translator was trained with {channel}, and the image has none. Render with "
            f"{channel}, or train the translator on renders without."
        )
    return buffer


def _to_planes(values: NDArray[Any]) -> Floats:
    return np.ascontiguousarray(values.transpose(2, 0, 1), np.float32)


_ENCODERS: Mapping[str, Callable[[GBufferFrame], Floats]] = {
    "depth": _encode_depth,
    "objects": _encode_objects,
    "normals": _encode_normals,
    "coordinates": _encode_coordinates,
}
