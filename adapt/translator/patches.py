"""Training patches, a pure function of seed and step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sim2cam.adapt.frame import Frame, read_frame
from sim2cam.adapt.translator.augment import Augmentation, draw_augmentation
from sim2cam.adapt.translator.buffers import buffer_channels, count_channels
from sim2cam.adapt.translator.config import TranslatorConfig
from sim2cam.adapt.translator.generator import THUMBNAIL_PX
from sim2cam.dataset.sample import Dataset, Sample
from sim2cam.images import read_rgb
from sim2cam.seeds import stream

_CANDIDATES = 4  # places compared before a patch is cut


@dataclass(frozen=True)
class Decoded:
    """A whole image, ready to be cut.

    Attributes:
        rgb: (height, width, 3).
        buffers: (c, height, width), about -1 to 1.
        thumbnail: (3, THUMBNAIL_PX, THUMBNAIL_PX), 0 to 1.
    """

    rgb: NDArray[np.uint8]
    buffers: NDArray[np.float16]
    thumbnail: NDArray[np.float32]


@dataclass(frozen=True)
class Patches:
    """What enters the generator.

    Attributes:
        rgb: (n, 3, side, side), 0 to 1.
        buffers: (n, c, side, side), about -1 to 1.
        noise: (n, 1, side, side), standard normal.
        thumbnail: (n, 3, THUMBNAIL_PX, THUMBNAIL_PX), of the images the patches were cut from.
    """

    rgb: Tensor
    buffers: Tensor
    noise: Tensor
    thumbnail: Tensor

    def to(self, device: torch.device) -> Patches:
        """Returns the same on a device."""
        moved = (self.rgb, self.buffers, self.noise, self.thumbnail)
        return Patches(*(tensor.to(device) for tensor in moved))


@dataclass(frozen=True)
class Batch:
    """One step's renders and captures, and how the discriminator will see them."""

    sim: Patches
    real: Patches
    augmentation: Augmentation

    def to(self, device: torch.device) -> Batch:
        """Returns the same with its tensors on a device."""
        return Batch(self.sim.to(device), self.real.to(device), self.augmentation)


class PatchSource:
    """Cuts patches from the images of a data set; labels are not looked at."""

    def __init__(self, dataset: Dataset, *, buffers: tuple[str, ...], cache_bytes: int) -> None:
        self._samples = dataset.samples
        self._buffers = buffers
        first = dataset.samples[0]
        image_bytes = first.width * first.height * (3 + 2 * count_channels(buffers))
        kept = max(1, cache_bytes // image_bytes)
        self._decode = lru_cache(maxsize=kept)(self._decode_anew)

    def draw(self, rng: np.random.Generator, side: int) -> Decoded:
        """Returns a square patch and the thumbnail of its image.

        Places with more contrast are likelier, for renders and captures by the same rule, so that
        the discriminator cannot tell them by how much empty ground they show.
        """
        image = self._decode(int(rng.integers(len(self._samples))))
        height, width = image.rgb.shape[:2]
        tops = rng.integers(0, max(height - side, 0) + 1, _CANDIDATES)
        lefts = rng.integers(0, max(width - side, 0) + 1, _CANDIDATES)
        cuts = [_cut(image, top, left, side) for top, left in zip(tops, lefts, strict=True)]
        contrast = np.array([float(cut.rgb[:, :, 1].std()) for cut in cuts]) + 1.0
        chosen = cuts[int(rng.choice(_CANDIDATES, p=contrast / contrast.sum()))]
        return _mirror(chosen) if rng.random() < 0.5 else chosen

    def _decode_anew(self, index: int) -> Decoded:
        frame = _read(self._samples[index], self._buffers)
        buffers = buffer_channels(frame, self._buffers).astype(np.float16)
        return Decoded(frame.rgb, buffers, thumbnail_of(frame.rgb))


def draw_batch(
    sim: PatchSource, real: PatchSource, config: TranslatorConfig, channels: int, step: int
) -> Batch:
    """Returns the batch of a step; it depends on nothing that happened before."""
    rng = stream(config.seed, "translator/batch", scene_index=step)
    return Batch(
        _draw_patches(sim, rng, config, channels),
        _draw_patches(real, rng, config, channels),
        draw_augmentation(rng, config.batch, config.patch_px),
    )


def thumbnail_of(rgb: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Returns the image scaled to (3, THUMBNAIL_PX, THUMBNAIL_PX), 0 to 1."""
    small = cv2.resize(rgb, (THUMBNAIL_PX, THUMBNAIL_PX), interpolation=cv2.INTER_AREA)
    return np.ascontiguousarray(small.transpose(2, 0, 1), dtype=np.float32) / np.float32(255.0)


def _draw_patches(
    source: PatchSource, rng: np.random.Generator, config: TranslatorConfig, channels: int
) -> Patches:
    """Returns patches; a source without buffers gets zeros, which mean nothing known."""
    side = config.patch_px
    cuts = [source.draw(rng, side) for _ in range(config.batch)]
    buffers = np.zeros((config.batch, channels, side, side), np.float32)
    for row, cut in zip(buffers, cuts, strict=True):
        row[: len(cut.buffers)] = cut.buffers
    rgb = np.stack([cut.rgb.transpose(2, 0, 1) for cut in cuts])
    noise = rng.standard_normal((config.batch, 1, side, side), np.float32)
    return Patches(
        torch.from_numpy(rgb).float() / 255.0,
        torch.from_numpy(buffers),
        torch.from_numpy(noise),
        torch.from_numpy(np.stack([cut.thumbnail for cut in cuts])),
    )


def _cut(image: Decoded, top: int, left: int, side: int) -> Decoded:
    rgb = image.rgb[top : top + side, left : left + side]
    buffers = image.buffers[:, top : top + side, left : left + side]
    missing = [(0, side - rgb.shape[0]), (0, side - rgb.shape[1])]
    if any(after for _, after in missing):
        rgb = np.pad(rgb, [*missing, (0, 0)], mode="symmetric")
        buffers = np.pad(buffers, [(0, 0), *missing], mode="symmetric")
    return Decoded(rgb, buffers, image.thumbnail)


def _mirror(cut: Decoded) -> Decoded:
    return Decoded(cut.rgb[:, ::-1], cut.buffers[:, :, ::-1], cut.thumbnail[:, :, ::-1])


def _read(sample: Sample, buffers: tuple[str, ...]) -> Frame:
    return read_frame(sample) if buffers else Frame(read_rgb(sample.rgb))
