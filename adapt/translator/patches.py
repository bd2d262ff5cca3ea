"""Training patches, a pure function of seed and step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, is_dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar, cast

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sim2cam.adapt.transfers.transfer import GBufferFrame, read_frame
from sim2cam.adapt.translator.augment import Augmentation, sample_augmentation
from sim2cam.adapt.translator.buffers import build_buffer_channels, count_channels, flip_buffers
from sim2cam.adapt.translator.config import TranslatorConfig
from sim2cam.adapt.translator.generator import ENCODER_STRIDES, THUMBNAIL_PX
from sim2cam.data.sample import Dataset, Sample
from sim2cam.images import read_rgb
from sim2cam.seeds import derive_rng

Part = TypeVar("Part")

TileMask = NDArray[np.bool_]
"""Boolean mask (rows, columns) of tiles of ``TILE_PX`` a side, from the top left corner."""

TILE_PX = 32

MAX_LOCATIONS = 256
"""Largest number of NCE locations per layer, as in CUT."""

_CANDIDATE_CROPS = 4  # random locations per patch, and patches per similar patch
_CANDIDATE_IMAGES = 16  # random images per similar patch
_LAYOUT_CELLS = 4  # per side of a layout descriptor
_MIN_CONTRAST_LEVELS = 2.0  # offset of the logarithm
_MIN_BRIGHTNESS = 0.02  # offset of the denominator


@dataclass(frozen=True)
class DecodedImage:
    """A decoded image or a patch of it.

    Attributes:
        rgb: (height, width, 3).
        buffers: (c, height, width), about -1 to 1.
        thumbnail: (3, THUMBNAIL_PX, THUMBNAIL_PX), 0 to 1, of the whole image.
    """

    rgb: NDArray[np.uint8]
    buffers: NDArray[np.float16]
    thumbnail: NDArray[np.float32]


@dataclass(frozen=True)
class PatchBatch:
    """Inputs of the generator.

    Attributes:
        rgb: (n, 3, side, side), 0 to 1.
        buffers: (n, c, side, side), about -1 to 1.
        noise: (n, 1, side, side), standard normal.
        thumbnail: (n, 3, THUMBNAIL_PX, THUMBNAIL_PX), of the whole images.
    """

    rgb: Tensor
    buffers: Tensor
    noise: Tensor
    thumbnail: Tensor


@dataclass(frozen=True)
class FramePairPatches:
    """Patches of consecutive frames of sequences, at the same location in both frames.

    Attributes:
        earlier, later: patches of the earlier and the later frames.
        flow: (n, 3, side, side), backward flow from the later to the earlier frame in pixels (right, down), and 1
            for pixels that both patches show, else 0.
    """

    earlier: PatchBatch
    later: PatchBatch
    flow: Tensor

    @property
    def covisible_mask(self) -> Tensor:
        """Pixels (n, side, side) of the later patches that both patches show: 1, else 0."""
        return self.flow[:, 2]


@dataclass(frozen=True)
class TranslatorBatch:
    """Batch of one training step.

    Attributes:
        sim, real: patches of renders and real images; at the same locations for pairs.
        augmentation: augmentation parameters of both.
        registration_mask: (n, 1, side, side), 1 for registered pixels of pairs; None for unpaired training.
        nce_locations: pixel indices (p,) for each of the ``ENCODER_STRIDES`` layers; empty without PatchNCE loss.
        frame_pairs: patches of consecutive frames; None without flow loss.
        unmatched_sim: more patches of renders, not selected by similarity, for the structure losses only; None if
            ``sim`` is sampled at random.
    """

    sim: PatchBatch
    real: PatchBatch
    augmentation: Augmentation
    registration_mask: Tensor | None = None
    nce_locations: tuple[Tensor, ...] = ()
    frame_pairs: FramePairPatches | None = None
    unmatched_sim: PatchBatch | None = None

    def to(self, device: torch.device) -> TranslatorBatch:
        """Return a copy with tensors on a device."""
        return _map_arrays(self, lambda a: a.to(device) if isinstance(a, Tensor) else a)

    def split(self, count: int) -> list[TranslatorBatch]:
        """Split the batch into ``count`` equal parts; ``count`` divides the number of patches."""
        size = len(self.sim.rgb) // count
        return [self.select(slice(start, start + size)) for start in range(0, size * count, size)]

    def select(self, patches: slice) -> TranslatorBatch:
        """Return a slice of the patches."""
        selected = _map_arrays(self, lambda a: a[patches])
        return replace(selected, nce_locations=self.nce_locations)


def _map_arrays(value: Part, function: Callable[[Any], Any]) -> Part:
    """Apply a function to all tensors and arrays of a dataclass, also in its parts."""
    changed: Any = value
    if isinstance(value, tuple):
        changed = tuple(_map_arrays(part, function) for part in value)
    elif is_dataclass(value):
        changed = cast("Any", type(value))(
            *(_map_arrays(part, function) for part in vars(value).values())
        )
    elif value is not None:
        changed = function(value)
    return cast("Part", changed)


class PatchLocation(NamedTuple):
    """Location of a patch.

    Attributes:
        image_index: index of the image in the dataset.
        top, left: first pixel of the patch.
        is_flipped: whether the patch is flipped horizontally.
    """

    image_index: int
    top: int
    left: int
    is_flipped: bool


class PatchSource:
    """Source of patches from the images of a dataset; labels are not used."""

    def __init__(self, dataset: Dataset, *, buffers: tuple[str, ...], cache_bytes: int) -> None:
        self._samples = dataset.samples
        self._buffers = buffers
        sizes = sorted(
            (estimate_image_bytes(sample, buffers) for sample in dataset.samples), reverse=True
        )
        cache_size = int((np.cumsum(sizes) <= cache_bytes).sum())
        self._decode = lru_cache(maxsize=max(1, cache_size))(self._decode_uncached)
        self._describe_image = lru_cache(maxsize=None)(self._describe_image_uncached)

    def sample_patch(self, rng: np.random.Generator, side: int) -> DecodedImage:
        """Sample a square patch."""
        return self.crop(self.sample_location(rng, side), side)

    def sample_similar_patch(
        self, reference: DecodedImage, rng: np.random.Generator
    ) -> DecodedImage:
        """Sample a patch that resembles a reference patch of another source.

        Of several random images, the one with the most similar colourfulness and contrast is used; of several random
        patches of it, the one with the most similar layout. Matching content makes the discriminator compare
        appearance (Richter et al., 2021, "Enhancing Photorealism Enhancement", section 3.4, match crops too).
        """
        images = rng.integers(len(self._samples), size=_CANDIDATE_IMAGES)
        descriptor = compute_image_descriptor(reference.thumbnail)
        index = int(
            min(images, key=lambda i: _squared_distance(self._describe_image(int(i)), descriptor))
        )
        side, layout = reference.rgb.shape[0], compute_layout_descriptor(reference.rgb)
        crops = self._sample_patches_in(index, rng, side, _CANDIDATE_CROPS)
        return min(
            crops, key=lambda crop: _squared_distance(compute_layout_descriptor(crop.rgb), layout)
        )

    def sample_patches_of_one_image(
        self, rng: np.random.Generator, side: int, count: int
    ) -> list[DecodedImage]:
        """Sample square patches of one random image, which is decoded once."""
        return self._sample_patches_in(int(rng.integers(len(self._samples))), rng, side, count)

    def sample_location(self, rng: np.random.Generator, side: int) -> PatchLocation:
        """Sample the location of a square patch."""
        return self._sample_location_in(int(rng.integers(len(self._samples))), rng, side)

    def _sample_patches_in(
        self, index: int, rng: np.random.Generator, side: int, count: int
    ) -> list[DecodedImage]:
        return [self.crop(self._sample_location_in(index, rng, side), side) for _ in range(count)]

    def _sample_location_in(self, index: int, rng: np.random.Generator, side: int) -> PatchLocation:
        """Sample the location of a square patch of an image, with probability proportional to contrast.

        The rule is the same for renders and real images, so that the amount of empty background does not separate
        them.
        """
        image = self._decode(index)
        height, width = image.rgb.shape[:2]
        tops = rng.integers(0, max(height - side, 0) + 1, _CANDIDATE_CROPS)
        lefts = rng.integers(0, max(width - side, 0) + 1, _CANDIDATE_CROPS)
        crops = [_crop_image(image, top, left, side) for top, left in zip(tops, lefts, strict=True)]
        contrast = np.array([float(crop.rgb[:, :, 1].std()) for crop in crops]) + 1.0
        chosen = int(rng.choice(_CANDIDATE_CROPS, p=contrast / contrast.sum()))
        return PatchLocation(index, int(tops[chosen]), int(lefts[chosen]), bool(rng.random() < 0.5))

    def crop(self, location: PatchLocation, side: int) -> DecodedImage:
        """Return the square patch at a location."""
        patch = _crop_image(self._decode(location.image_index), location.top, location.left, side)
        return _flip_patch(patch, self._buffers) if location.is_flipped else patch

    def _decode_uncached(self, index: int) -> DecodedImage:
        frame = _read_frame(self._samples[index], self._buffers)
        buffers = build_buffer_channels(frame, self._buffers).astype(np.float16)
        return DecodedImage(frame.rgb, buffers, make_thumbnail(frame.rgb))

    def _describe_image_uncached(self, index: int) -> NDArray[np.float32]:
        return compute_image_descriptor(make_thumbnail(read_rgb(self._samples[index].rgb)))


def estimate_image_bytes(sample: Sample, buffers: tuple[str, ...]) -> int:
    """Return the memory of a decoded image with these buffers, in bytes."""
    return sample.width * sample.height * (3 + 2 * count_channels(buffers))


def sample_batch(
    sim: PatchSource, real: PatchSource, config: TranslatorConfig, channels: int, step: int
) -> TranslatorBatch:
    """Sample the unpaired batch of a step; it depends only on its arguments."""
    rng = derive_rng(config.seed, "translator/batch", scene_index=step)
    side = config.patch_px
    captures = [real.sample_patch(rng, side) for _ in range(config.batch)]
    return TranslatorBatch(
        _stack_with_noise(
            [sim.sample_similar_patch(capture, rng) for capture in captures], rng, channels
        ),
        _stack_with_noise(captures, rng, channels),
        sample_augmentation(rng, config.batch, side),
        unmatched_sim=_stack_with_noise(
            sim.sample_patches_of_one_image(rng, side, config.batch), rng, channels
        ),
    )


def sample_paired_batch(
    sim: PatchSource,
    real: PatchSource,
    tile_masks: Sequence[TileMask],
    config: TranslatorConfig,
    channels: int,
    step: int,
) -> TranslatorBatch:
    """Sample the paired batch of a step; it depends only on its arguments.

    Args:
        sim, real: renders and their paired real images, in the same order.
        tile_masks: mask of registered tiles of each pair.
        channels: channels of the generator's buffers.
    """
    rng = derive_rng(config.seed, "translator/batch", scene_index=step)
    side = config.patch_px
    locations = [sim.sample_location(rng, side) for _ in range(config.batch)]
    masks = [
        expand_tile_mask(tile_masks[location.image_index], location, side) for location in locations
    ]
    return TranslatorBatch(
        _stack_with_noise([sim.crop(location, side) for location in locations], rng, channels),
        _stack_with_noise([real.crop(location, side) for location in locations], rng, channels),
        sample_augmentation(rng, config.batch, side),
        torch.from_numpy(np.stack(masks)[:, None].astype(np.float32)),
    )


def compute_layout_descriptor(rgb: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the layout descriptor (16,) of a patch (side, side, 3): log contrast in 4x4 cells.

    The mean is subtracted, so that illumination, tones and noise have little influence.
    """
    cell = rgb.shape[0] // _LAYOUT_CELLS
    cells = rgb[: _LAYOUT_CELLS * cell, : _LAYOUT_CELLS * cell, 1].reshape(
        _LAYOUT_CELLS, cell, _LAYOUT_CELLS, cell
    )
    contrast = np.log(cells.std(axis=(1, 3), dtype=np.float32) + _MIN_CONTRAST_LEVELS).ravel()
    return np.asarray(contrast - contrast.mean())


def compute_image_descriptor(thumbnail: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return colourfulness and contrast (2,) of a thumbnail (3, s, s), relative to its brightness."""
    value = thumbnail.max(axis=0)
    colourfulness, contrast = (value - thumbnail.min(axis=0)).mean(), value.std()
    return np.array([colourfulness, contrast], np.float32) / np.float32(
        value.mean() + _MIN_BRIGHTNESS
    )


def _squared_distance(first: NDArray[np.float32], second: NDArray[np.float32]) -> float:
    return float(np.square(first - second).sum())


def make_thumbnail(rgb: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Resize an image to (3, THUMBNAIL_PX, THUMBNAIL_PX), 0 to 1."""
    small = cv2.resize(rgb, (THUMBNAIL_PX, THUMBNAIL_PX), interpolation=cv2.INTER_AREA)
    return np.ascontiguousarray(small.transpose(2, 0, 1), dtype=np.float32) / np.float32(255.0)


def sample_nce_locations(config: TranslatorConfig, step: int) -> tuple[Tensor, ...]:
    """Sample up to ``MAX_LOCATIONS`` distinct pixel indices for each of the ``ENCODER_STRIDES`` layers."""
    rng = derive_rng(config.seed, "translator/places", scene_index=step)
    sides = (config.patch_px // stride for stride in ENCODER_STRIDES)
    return tuple(torch.from_numpy(rng.permutation(side**2)[:MAX_LOCATIONS]) for side in sides)


def _stack_with_noise(
    crops: Sequence[DecodedImage], rng: np.random.Generator, channels: int
) -> PatchBatch:
    side = crops[0].rgb.shape[0]
    noise = rng.standard_normal((len(crops), 1, side, side), np.float32)
    return stack_patches(crops, noise, channels)


def stack_patches(
    crops: Sequence[DecodedImage], noise: NDArray[np.float32], channels: int
) -> PatchBatch:
    """Stack patches to a batch; patches without buffers get zeros.

    Args:
        crops: patches of the same size.
        noise: (n, 1, side, side).
        channels: channels of the generator's buffers.
    """
    side = crops[0].rgb.shape[0]
    buffers = np.zeros((len(crops), channels, side, side), np.float32)
    for row, crop in zip(buffers, crops, strict=True):
        row[: len(crop.buffers)] = crop.buffers
    rgb = np.stack([crop.rgb.transpose(2, 0, 1) for crop in crops])
    return PatchBatch(
        torch.from_numpy(rgb).float() / 255.0,
        torch.from_numpy(buffers),
        torch.from_numpy(noise),
        torch.from_numpy(np.stack([crop.thumbnail for crop in crops])),
    )


def _crop_image(image: DecodedImage, top: int, left: int, side: int) -> DecodedImage:
    rgb = image.rgb[top : top + side, left : left + side]
    buffers = image.buffers[:, top : top + side, left : left + side]
    padding = [(0, side - rgb.shape[0]), (0, side - rgb.shape[1])]
    if any(after for _, after in padding):
        rgb = np.pad(rgb, [*padding, (0, 0)], mode="symmetric")
        buffers = np.pad(buffers, [(0, 0), *padding], mode="symmetric")
    return DecodedImage(rgb, buffers, image.thumbnail)


def _flip_patch(patch: DecodedImage, names: tuple[str, ...]) -> DecodedImage:
    return DecodedImage(
        patch.rgb[:, ::-1], flip_buffers(patch.buffers, names), patch.thumbnail[:, :, ::-1]
    )


def expand_tile_mask(tile_mask: TileMask, location: PatchLocation, side: int) -> TileMask:
    """Expand the tile mask of an image to the pixels (side, side) of a patch; padding repeats the last tile."""
    rows, columns = (
        np.minimum((start + np.arange(side)) // TILE_PX, count - 1)
        for start, count in zip((location.top, location.left), tile_mask.shape, strict=True)
    )
    mask = tile_mask[np.ix_(rows, columns)]
    return mask[:, ::-1] if location.is_flipped else mask


def _read_frame(sample: Sample, buffers: tuple[str, ...]) -> GBufferFrame:
    return read_frame(sample) if buffers else GBufferFrame(read_rgb(sample.rgb))
