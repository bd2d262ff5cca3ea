"""Rasterizers and G-buffers: the channels that a rasterizer renders of an undistorted view.

All channels but the radiance are sampled at pixel centres and never interpolated. Background
pixels are 0.

``radiance``
    linear RGB (h, w, 3) float32, averaged over the pixel.
``depth_m``
    (h, w) float32 along the optical axis.
``bodies``
    (h, w) uint32 number of the visible body, from 1 in the order of the scene.
``parts``
    (h, w) uint32 number of the visible part of that body, from 1.
``normals``
    (h, w, 3) float32 unit normals in the camera frame, without normal maps.
``cover``
    (h, w, words) uint32; bit i - 1 is set where labelled body i lies, visible or occluded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sim2cam.errors import BackendError
from sim2cam.geometry.boxes import Box, extents_to_box
from sim2cam.geometry.poses import Pose
from sim2cam.scene.scene import Scene

Channel = Literal["radiance", "depth_m", "bodies", "parts", "normals", "cover"]
CHANNELS: frozenset[Channel] = frozenset(get_args(Channel))
LABEL_CHANNELS: tuple[Channel, ...] = ("depth_m", "bodies", "cover")
"""Channels that labels need."""

BITS_PER_WORD = 32

GBuffer = Mapping[Channel, NDArray[Any]]
"""Requested channels of a view."""


@dataclass(frozen=True)
class PinholeView:
    """An undistorted view. Integer coordinates are pixel centres.

    Attributes:
        pose: camera (x right, y down, z forward) in the world frame.
        width, height: size in pixels.
        focal_px: focal length in pixels.
        cx_px, cy_px: principal point in pixels; may lie outside the view.
    """

    pose: Pose
    width: int
    height: int
    focal_px: float
    cx_px: float
    cy_px: float


class Rasterizer(ABC):
    """Renderer of G-buffers. It keeps the scene of the last view in device memory."""

    _loaded: Scene | None = None

    @property
    @abstractmethod
    def name(self) -> str:
        """Backend and device, for provenance."""

    @property
    @abstractmethod
    def channels(self) -> frozenset[Channel]:
        """Supported channels."""

    def render(
        self, scene: Scene, view: PinholeView, channels: Collection[Channel], *, samples: int = 4
    ) -> GBuffer:
        """Render channels of a view of a scene.

        Args:
            scene: settled scene.
            view: view to render.
            channels: channels to render.
            samples: radiance samples per pixel, 1 or 4, on OpenGL; other backends ignore it.

        Raises:
            BackendError: a channel or the scene is not supported.
        """
        missing = sorted(set(channels) - self.channels)
        if missing:
            raise BackendError(
                f"the rasterizer '{self.name}' has no channel {missing[0]}. "
                f"Supported: {', '.join(sorted(self.channels))}."
            )
        self.load(scene)
        return self._render(scene, view, channels, samples)

    def load(self, scene: Scene) -> None:
        """Load a scene into device memory, unless it is the loaded one.

        Raises:
            BackendError: the scene is not supported.
        """
        if scene is not self._loaded:
            self.release()
            self._load(scene)
            self._loaded = scene

    def release(self) -> None:
        """Release the device memory of the loaded scene; meshes and textures may stay cached."""
        self._loaded = None
        self._release()

    @abstractmethod
    def _load(self, scene: Scene) -> None: ...

    @abstractmethod
    def _release(self) -> None: ...

    @abstractmethod
    def _render(
        self, scene: Scene, view: PinholeView, channels: Collection[Channel], samples: int
    ) -> GBuffer: ...


def assign_label_ids(scene: Scene) -> dict[str, int]:
    """Return the label id (from 1) of each labelled body, by name."""
    names = [body.name for body in scene.bodies if body.is_target]
    return {name: label_id for label_id, name in enumerate(names, start=1)}


def convert_to_instance_ids(scene: Scene, body_ids: NDArray[np.uint32]) -> NDArray[np.uint16]:
    """Return the label ids (h, w) of body numbers (h, w); 0 for bodies without a label."""
    label_ids = assign_label_ids(scene)
    ids_by_body = [0, *(label_ids.get(body.name, 0) for body in scene.bodies)]
    return np.array(ids_by_body, np.uint16)[body_ids]


def count_amodal_words(scene: Scene) -> int:
    """Return the number of 32-bit words with one bit for each labelled body, at least 1."""
    return max(1, -(-len(assign_label_ids(scene)) // BITS_PER_WORD))


def decode_amodal_mask(amodal_bits: NDArray[np.uint32], label_id: int) -> NDArray[np.bool_]:
    """Return the amodal mask (h, w) of a labelled body."""
    word, bit = divmod(label_id - 1, BITS_PER_WORD)
    return np.asarray((amodal_bits[..., word] >> np.uint32(bit)) & 1 > 0)


def find_amodal_boxes(amodal_bits: NDArray[np.uint32]) -> dict[int, Box]:
    """Return the amodal box of each labelled body, by label id."""
    rows, columns = (
        np.bitwise_or.reduce(amodal_bits, axis=axis) for axis in (1, 0)
    )  # (h or w, words)
    boxes = {}
    for label_id in range(1, BITS_PER_WORD * amodal_bits.shape[2] + 1):
        occupied = (decode_amodal_mask(words[None], label_id)[0] for words in (rows, columns))
        box = extents_to_box(*occupied)
        if box is not None:
            boxes[label_id] = box
    return boxes
