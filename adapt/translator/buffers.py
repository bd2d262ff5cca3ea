"""Renderer buffers as inputs of the generator."""

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
"""Number of channels of each buffer; category masks have one."""

CATEGORY_PREFIX = "category "
"""Prefix of the names of category masks, followed by the category."""

MAX_CATEGORIES = 16
"""Largest number of category masks; more would fill the image cache."""

_SOURCE_CHANNELS: Mapping[str, ChannelName] = {
    "depth": "depth",
    "objects": "ids",
    "normals": "normals",
    "coordinates": "coordinates",
}


def list_common_buffers(dataset: Dataset) -> tuple[str, ...]:
    """List the buffers that all samples have.

    Category masks are included for two to ``MAX_CATEGORIES`` categories.
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
    """Return whether a buffer of this name exists."""
    return name in BUFFER_CHANNELS or name.startswith(CATEGORY_PREFIX)


def count_channels(names: tuple[str, ...]) -> int:
    """Return the total number of channels of these buffers."""
    return sum(BUFFER_CHANNELS.get(name, 1) for name in names)


def flip_buffers(buffers: NDArray[np.float16], names: tuple[str, ...]) -> NDArray[np.float16]:
    """Flip buffers (c, height, width) horizontally, including the x component of normals."""
    flipped = buffers[:, :, ::-1]
    if "normals" not in names:
        return flipped
    first = count_channels(names[: names.index("normals")])
    signs = np.ones((len(buffers), 1, 1), np.float16)
    signs[first] = -1
    return flipped * signs


def check_buffers(sample: Sample, names: tuple[str, ...]) -> None:
    """Raise if a sample lacks one of these buffers; no file is read.

    Raises:
        InputError: a buffer or the labels are missing.
    """
    for name in names:
        is_category = name.startswith(CATEGORY_PREFIX)
        source = "ids" if is_category else _SOURCE_CHANNELS[name]
        if source not in sample.channels:
            raise InputError(
                sample.rgb,
                f"has no {source} buffer, but the translator was trained with it. Render with {source}, remove the "
                "image, or train a translator without it.",
            )
        if is_category and sample.objects is None:
            raise InputError(
                sample.rgb,
                "has no labels, but the translator was trained with categories. Label its objects, remove the "
                "image, or train a translator on renders without labels.",
            )


def build_buffer_channels(frame: GBufferFrame, names: tuple[str, ...]) -> Floats:
    """Encode buffers of a frame as channels (c, height, width), from -1 to 1.

    Raises:
        Sim2CamError: the frame lacks a buffer.
    """
    empty = np.zeros((0, *frame.rgb.shape[:2]), np.float32)
    return np.concatenate([empty, *(_encode_buffer(frame, name) for name in names)])


def _encode_buffer(frame: GBufferFrame, name: str) -> Floats:
    if name.startswith(CATEGORY_PREFIX):
        return _encode_category(frame, name.removeprefix(CATEGORY_PREFIX))
    return _ENCODERS[name](frame)


def _encode_depth(frame: GBufferFrame) -> Floats:
    """Encode relative inverse depth (1, h, w): 0 at the median depth, -1 far away."""
    depth_m = _require_buffer(frame.depth_m, "depth")
    is_valid = depth_m > 0
    median = np.median(depth_m[is_valid]) if is_valid.any() else 1.0
    nearness = np.divide(median, depth_m, out=np.zeros_like(depth_m), where=is_valid)
    return np.asarray(nearness.clip(0.0, 2.0) - 1.0, dtype=np.float32)[None]


def _encode_objects(frame: GBufferFrame) -> Floats:
    """Encode masks of labelled objects and of their outlines (2, h, w)."""
    ids = _require_buffer(frame.ids, "ids")
    outline = np.zeros(ids.shape, bool)
    for axis in (0, 1):
        differs = np.diff(ids.astype(np.int32), axis=axis) != 0
        before, after = [(0, 0), (0, 0)], [(0, 0), (0, 0)]
        before[axis], after[axis] = (0, 1), (1, 0)
        outline |= np.pad(differs, before) | np.pad(differs, after)
    return np.stack([ids > 0, outline]).astype(np.float32)


def _encode_normals(frame: GBufferFrame) -> Floats:
    return _to_planes(_require_buffer(frame.normals, "normals"))


def _encode_coordinates(frame: GBufferFrame) -> Floats:
    """Encode object coordinates (3, h, w), -1 to 1, 0 outside of objects."""
    return np.nan_to_num(
        _to_planes(2.0 * _require_buffer(frame.coordinates, "coordinates") - 1.0), nan=0.0
    )


def _encode_category(frame: GBufferFrame, category: str) -> Floats:
    if frame.categories is None:
        raise Sim2CamError(
            "The translator was trained with categories, but the image has no labels. Label its "
            "objects, or train a translator on renders without labels."
        )
    instance_ids = [
        instance_id
        for instance_id, instance_category in frame.categories.items()
        if instance_category == category
    ]
    return np.isin(_require_buffer(frame.ids, "ids"), instance_ids).astype(np.float32)[None]


def _require_buffer(buffer: NDArray[Any] | None, channel: ChannelName) -> NDArray[Any]:
    if buffer is None:
        raise Sim2CamError(
            f"The translator was trained with {channel}, but the image has no such buffer. Render with "
            f"{channel}, or train a translator without it."
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
