"""Frames: images with ground truth, rendered or of a dataset."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.api.inputs import encode_html_image
from sim2cam.errors import UsageError, suggest_name

if TYPE_CHECKING:
    from sim2cam.data.channels import ChannelName
    from sim2cam.data.sample import ObjectLabel
    from sim2cam.geometry.lens import Lens


@dataclass(frozen=True, eq=False)
class Frame:
    """Image with its ground truth; pixels of datasets are read when they are used.

    Attributes:
        name: Name in its dataset.
        objects: Labels; None for unlabelled images.
        categories: Categories of the recipe or dataset.
        channels: Readers of the per-pixel channels by name, such as ``depth`` and ``ids``.
        read_rgb: Reader of the image.
        lens: Lens of the camera; None if unknown.
    """

    name: str
    objects: tuple[ObjectLabel, ...] | None
    categories: tuple[str, ...]
    channels: Mapping[ChannelName, Callable[[], NDArray[Any]]]
    read_rgb: Callable[[], NDArray[np.uint8]]
    lens: Lens | None = None

    @cached_property
    def rgb(self) -> NDArray[np.uint8]:
        """RGB image (H, W, 3)."""
        return self.read_rgb()

    @cached_property
    def depth_m(self) -> NDArray[np.float32]:
        """Depth (H, W) in metres along the optical axis; 0 without a value."""
        return self.read_channel("depth")

    def read_channel(self, name: ChannelName) -> NDArray[Any]:
        """Return a per-pixel channel; the reference of label channels has shapes and units.

        Raises:
            UsageError: If the frame has no such channel.
        """
        if name not in self.channels:
            hint = suggest_name(name, self.channels)
            raise UsageError(f"{self.name} has no channel '{name}'. {hint}")
        return self.channels[name]()

    def plot(self) -> NDArray[np.uint8]:
        """Return the image with labelled boxes (H, W, 3)."""
        from sim2cam.report.overlay import draw_labels

        return draw_labels(self.rgb, self.objects or (), self.categories)

    def _repr_html_(self) -> str:
        labels = "no labels" if self.objects is None else f"{len(self.objects)} objects"
        return f"<p>{labels}</p>{encode_html_image(self.plot())}"
