"""Inputs and interface of image transfers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sim2cam.data import channels
from sim2cam.data.channels import ChannelName
from sim2cam.data.sample import Sample
from sim2cam.errors import InputError, Sim2CamError
from sim2cam.images import read_rgb


@dataclass(frozen=True)
class GBufferFrame:
    """An image with the renderer's buffers; None for buffers that are unknown.

    Attributes:
        rgb: (height, width, 3).
        depth_m: (height, width), metres along the optical axis, 0 for background.
        ids: (height, width), instance ids, 0 for unlabelled pixels.
        normals: (height, width, 3), unit vectors in the camera frame, 0 for background.
        coordinates: (height, width, 3), object coordinates, 0 to 1 along each side of the object's extent, NaN
            outside of labelled objects.
        categories: category of each instance id; None without labels.
    """

    rgb: NDArray[np.uint8]
    depth_m: NDArray[np.float32] | None = None
    ids: NDArray[np.uint16] | None = None
    normals: NDArray[np.float32] | None = None
    coordinates: NDArray[np.float32] | None = None
    categories: Mapping[int, str] | None = None


class Transfer(Protocol):
    """Translator of images that keeps geometry, so that labels stay valid."""

    def apply(self, frame: GBufferFrame, rng: np.random.Generator) -> NDArray[np.uint8]:
        """Return the translated image, RGB of the size of ``frame``; equal for equal ``rng``."""
        ...


def stack_style_statistics(statistics: Iterable[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Stack the statistics of style images along the first axis.

    Raises:
        Sim2CamError: there is no style image.
    """
    stacked = list(statistics)
    if not stacked:
        raise Sim2CamError("A transfer needs at least one style image. Give some real images.")
    return np.array(stacked)


def read_frame(sample: Sample) -> GBufferFrame:
    """Read the image of a sample with all its buffers.

    Raises:
        InputError: a file is missing or broken, or a buffer has another size than the image.
    """
    rgb = read_rgb(sample.rgb)
    buffers = {name: read_buffer(sample, name, rgb.shape) for name in _BUFFER_CHANNELS}
    objects = sample.objects
    return GBufferFrame(
        rgb,
        buffers["depth"],
        buffers["ids"],
        buffers["normals"],
        buffers["coordinates"],
        None if objects is None else {o.instance_id: o.category for o in objects if o.instance_id},
    )


_BUFFER_CHANNELS: tuple[ChannelName, ...] = ("depth", "ids", "normals", "coordinates")


def read_buffer(sample: Sample, name: ChannelName, shape: tuple[int, ...]) -> NDArray[Any] | None:
    """Read a channel of a sample; None if the sample lacks it.

    Raises:
        InputError: the file is missing or broken, or of another size than the image.
    """
    if name not in sample.channels:
        return None
    buffer = channels.read_channel(name, sample.channels[name])
    if buffer.shape[:2] != shape[:2]:
        height, width = buffer.shape[:2]
        raise InputError(
            sample.channels[name],
            f"has {width}x{height} pixels, but its image {sample.rgb.name} has {shape[1]}x{shape[0]}. "
            "Render both again, or remove the buffer.",
        )
    return buffer
