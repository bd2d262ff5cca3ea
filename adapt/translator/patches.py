"""Training patches, a pure function of seed and step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

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

TileMask = NDArray[np.bool_]
"""Of the tiles of an image, ``TILE_PX`` a side, from its upper left corner."""

TILE_PX = 32

MAX_LOCATIONS = 256
"""Pixels of a layer that are looked for again, as CUT has it."""

_CANDIDATE_CROPS = 4  # places compared before a patch is cut, and patches before one is taken
_CANDIDATE_IMAGES = 16  # compared before one is cut from
_LAYOUT_CELLS = 4  # a side, in which a patch's layout is told
_MIN_CONTRAST_LEVELS = 2.0  # contrast of a cell that shows nothing
_MIN_BRIGHTNESS = 0.02  # brightness of an image that shows nothing


@dataclass(frozen=True)
class DecodedImage:
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
class PatchBatch:
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

    def to(self, device: torch.device) -> PatchBatch:
        """Return the same on a device."""
        moved = (self.rgb, self.buffers, self.noise, self.thumbnail)
        return PatchBatch(*(tensor.to(device) for tensor in moved))

    def select(self, patches: slice) -> PatchBatch:
        """Return some of them."""
        return PatchBatch(*(tensor[patches] for tensor in vars(self).values()))


@dataclass(frozen=True)
class FramePairPatches:
    """Pictures of films at places that stay, each with the one before it.

    Attributes:
        earlier, later: patches.
        flow: (n, 3, side, side), from each pixel of the later one to where its point was in the earlier
            one, pixels to the right and down; 1 where both patches show it, else 0.
    """

    earlier: PatchBatch
    later: PatchBatch
    flow: Tensor

    @property
    def covisible_mask(self) -> Tensor:
        """Pixels (n, side, side) of the later one that both show: 1, else 0."""
        return self.flow[:, 2]

    def to(self, device: torch.device) -> FramePairPatches:
        """Return the same on a device."""
        return FramePairPatches(
            self.earlier.to(device), self.later.to(device), self.flow.to(device)
        )

    def select(self, patches: slice) -> FramePairPatches:
        """Return some of its patches."""
        return FramePairPatches(
            self.earlier.select(patches), self.later.select(patches), self.flow[patches]
        )


@dataclass(frozen=True)
class TranslatorBatch:
    """One step's renders and captures, and how the discriminator will see them.

    Attributes:
        sim, real: of the same places where they are pairs.
        augmentation: of both.
        registration_mask: (n, 1, side, side), 1 where a pair shows the same; None where there are no pairs.
        nce_locations: of each of the generator's ``ENCODER_STRIDES`` layers, pixels (p,) that are looked for again; none
            where that is not learned.
        frame_pairs: pictures of films; None where they are not to be changed alike.
        unmatched_sim: as many renders again, unlike the captures too, of whose translations no more is asked than that
            they show what was there; None where the renders are drawn by chance themselves.
    """

    sim: PatchBatch
    real: PatchBatch
    augmentation: Augmentation
    registration_mask: Tensor | None = None
    nce_locations: tuple[Tensor, ...] = ()
    frame_pairs: FramePairPatches | None = None
    unmatched_sim: PatchBatch | None = None

    def to(self, device: torch.device) -> TranslatorBatch:
        """Return the same with its tensors on a device."""
        return TranslatorBatch(
            self.sim.to(device),
            self.real.to(device),
            self.augmentation,
            None if self.registration_mask is None else self.registration_mask.to(device),
            tuple(places.to(device) for places in self.nce_locations),
            None if self.frame_pairs is None else self.frame_pairs.to(device),
            None if self.unmatched_sim is None else self.unmatched_sim.to(device),
        )

    def split(self, count: int) -> list[TranslatorBatch]:
        """Return as many equal parts of it; ``count`` divides the number of patches."""
        size = len(self.sim.rgb) // count
        return [self.select(slice(first, first + size)) for first in range(0, size * count, size)]

    def select(self, patches: slice) -> TranslatorBatch:
        """Return some of its patches."""
        return TranslatorBatch(
            self.sim.select(patches),
            self.real.select(patches),
            Augmentation(*(drawn[patches] for drawn in vars(self.augmentation).values())),
            None if self.registration_mask is None else self.registration_mask[patches],
            self.nce_locations,
            None if self.frame_pairs is None else self.frame_pairs.select(patches),
            None if self.unmatched_sim is None else self.unmatched_sim.select(patches),
        )


class PatchLocation(NamedTuple):
    """Where a patch is cut.

    Attributes:
        image_index: its number in the data set.
        top, left: its first pixel.
        is_flipped: whether left and right change places.
    """

    image_index: int
    top: int
    left: int
    is_flipped: bool


class PatchSource:
    """Cuts patches from the images of a data set; labels are not looked at."""

    def __init__(self, dataset: Dataset, *, buffers: tuple[str, ...], cache_bytes: int) -> None:
        self._samples = dataset.samples
        self._buffers = buffers
        sizes = sorted(
            (estimate_image_bytes(one, buffers) for one in dataset.samples), reverse=True
        )
        kept = int((np.cumsum(sizes) <= cache_bytes).sum())  # of whatever sizes they are
        self._decode = lru_cache(maxsize=max(1, kept))(self._decode_uncached)
        self._describe_image = lru_cache(maxsize=None)(self._describe_image_uncached)

    def sample_patch(self, rng: np.random.Generator, side: int) -> DecodedImage:
        """Return a square patch and the thumbnail of its image."""
        return self.crop(self.sample_location(rng, side), side)

    def sample_similar_patch(
        self, reference: DecodedImage, rng: np.random.Generator
    ) -> DecodedImage:
        """Return a patch like one of another source: of some images the most alike by colour and contrast, and
        of some patches of it the one that is laid out most alike.

        The discriminator then cannot tell them by what they show, so it learns how they show it (as Richter et
        al., 2021, "Enhancing Photorealism Enhancement", match crops, section 3.4).
        """
        images = rng.integers(len(self._samples), size=_CANDIDATE_IMAGES)
        character = compute_image_descriptor(reference.thumbnail)
        index = int(
            min(images, key=lambda i: _squared_distance(self._describe_image(int(i)), character))
        )
        side, layout = reference.rgb.shape[0], compute_layout_descriptor(reference.rgb)
        drawn = self._sample_patches_in(index, rng, side, _CANDIDATE_CROPS)
        return min(
            drawn, key=lambda one: _squared_distance(compute_layout_descriptor(one.rgb), layout)
        )

    def sample_patches_of_one_image(
        self, rng: np.random.Generator, side: int, count: int
    ) -> list[DecodedImage]:
        """Return square patches of one image, which is decoded once for all of them."""
        return self._sample_patches_in(int(rng.integers(len(self._samples))), rng, side, count)

    def sample_location(self, rng: np.random.Generator, side: int) -> PatchLocation:
        """Return where a square patch is cut."""
        return self._sample_location_in(int(rng.integers(len(self._samples))), rng, side)

    def _sample_patches_in(
        self, index: int, rng: np.random.Generator, side: int, count: int
    ) -> list[DecodedImage]:
        """Return square patches of an image."""
        return [self.crop(self._sample_location_in(index, rng, side), side) for _ in range(count)]

    def _sample_location_in(self, index: int, rng: np.random.Generator, side: int) -> PatchLocation:
        """Return where a square patch of an image is cut.

        Places with more contrast are likelier, for renders and captures by the same rule, so that
        the discriminator cannot tell them by how much empty ground they show.
        """
        image = self._decode(index)
        height, width = image.rgb.shape[:2]
        tops = rng.integers(0, max(height - side, 0) + 1, _CANDIDATE_CROPS)
        lefts = rng.integers(0, max(width - side, 0) + 1, _CANDIDATE_CROPS)
        cuts = [_crop_image(image, top, left, side) for top, left in zip(tops, lefts, strict=True)]
        contrast = np.array([float(cut.rgb[:, :, 1].std()) for cut in cuts]) + 1.0
        chosen = int(rng.choice(_CANDIDATE_CROPS, p=contrast / contrast.sum()))
        return PatchLocation(index, int(tops[chosen]), int(lefts[chosen]), bool(rng.random() < 0.5))

    def crop(self, location: PatchLocation, side: int) -> DecodedImage:
        """Return the square patch of a place and the thumbnail of its image."""
        chosen = _crop_image(self._decode(location.image_index), location.top, location.left, side)
        return _flip_patch(chosen, self._buffers) if location.is_flipped else chosen

    def _decode_uncached(self, index: int) -> DecodedImage:
        frame = _read_frame(self._samples[index], self._buffers)
        buffers = build_buffer_channels(frame, self._buffers).astype(np.float16)
        return DecodedImage(frame.rgb, buffers, make_thumbnail(frame.rgb))

    def _describe_image_uncached(self, index: int) -> NDArray[np.float32]:
        return compute_image_descriptor(make_thumbnail(read_rgb(self._samples[index].rgb)))


def estimate_image_bytes(sample: Sample, buffers: tuple[str, ...]) -> int:
    """Return how much memory a decoded image takes with these buffers."""
    return sample.width * sample.height * (3 + 2 * count_channels(buffers))


def sample_batch(
    sim: PatchSource, real: PatchSource, config: TranslatorConfig, channels: int, step: int
) -> TranslatorBatch:
    """Return the batch of a step; it depends on nothing that happened before."""
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
    """Return the batch of a step, of captures at the very places of the renders.

    Args:
        sim, real: renders, and the captures that are their partners in the same order.
        tile_masks: of each pair, which tiles show the same (``pairs``).
        config: of the training.
        channels: of the generator's buffers.
        step: on which it depends, and on nothing that happened before.
    """
    rng = derive_rng(config.seed, "translator/batch", scene_index=step)
    side = config.patch_px
    places = [sim.sample_location(rng, side) for _ in range(config.batch)]
    masks = [expand_tile_mask(tile_masks[place.image_index], place, side) for place in places]
    return TranslatorBatch(
        _stack_with_noise([sim.crop(place, side) for place in places], rng, channels),
        _stack_with_noise([real.crop(place, side) for place in places], rng, channels),
        sample_augmentation(rng, config.batch, side),
        torch.from_numpy(np.stack(masks)[:, None].astype(np.float32)),
    )


def compute_layout_descriptor(rgb: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return where a patch (side, side, 3) shows things: the logarithms of the contrast in 4x4 cells (16,),
    less their mean, so that light, tones and noise hardly matter.
    """
    cell = rgb.shape[0] // _LAYOUT_CELLS
    cells = rgb[: _LAYOUT_CELLS * cell, : _LAYOUT_CELLS * cell, 1].reshape(
        _LAYOUT_CELLS, cell, _LAYOUT_CELLS, cell
    )
    contrast = np.log(cells.std(axis=(1, 3), dtype=np.float32) + _MIN_CONTRAST_LEVELS).ravel()
    return np.asarray(contrast - contrast.mean())


def compute_image_descriptor(thumbnail: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return how colourful and how rich in contrast the image of a thumbnail (3, s, s) is (2,), over its
    brightness, so that exposure hardly matters.
    """
    most = thumbnail.max(axis=0)
    colour, contrast = (most - thumbnail.min(axis=0)).mean(), most.std()
    return np.array([colour, contrast], np.float32) / np.float32(most.mean() + _MIN_BRIGHTNESS)


def _squared_distance(first: NDArray[np.float32], second: NDArray[np.float32]) -> float:
    return float(np.square(first - second).sum())


def make_thumbnail(rgb: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the image scaled to (3, THUMBNAIL_PX, THUMBNAIL_PX), 0 to 1."""
    small = cv2.resize(rgb, (THUMBNAIL_PX, THUMBNAIL_PX), interpolation=cv2.INTER_AREA)
    return np.ascontiguousarray(small.transpose(2, 0, 1), dtype=np.float32) / np.float32(255.0)


def sample_nce_locations(config: TranslatorConfig, step: int) -> tuple[Tensor, ...]:
    """Return up to ``MAX_LOCATIONS`` different pixels of each of the generator's ``ENCODER_STRIDES`` layers."""
    rng = derive_rng(config.seed, "translator/places", scene_index=step)
    sides = (config.patch_px // smaller for smaller in ENCODER_STRIDES)
    return tuple(torch.from_numpy(rng.permutation(side**2)[:MAX_LOCATIONS]) for side in sides)


def _stack_with_noise(
    crops: Sequence[DecodedImage], rng: np.random.Generator, channels: int
) -> PatchBatch:
    """Return patches with noise of their own."""
    side = crops[0].rgb.shape[0]
    noise = rng.standard_normal((len(crops), 1, side, side), np.float32)
    return stack_patches(crops, noise, channels)


def stack_patches(
    crops: Sequence[DecodedImage], noise: NDArray[np.float32], channels: int
) -> PatchBatch:
    """Return patches; those of a source without buffers get zeros, which mean nothing known.

    Args:
        crops: of one size.
        noise: (n, 1, side, side).
        channels: of the generator's buffers.
    """
    side = crops[0].rgb.shape[0]
    buffers = np.zeros((len(crops), channels, side, side), np.float32)
    for row, cut in zip(buffers, crops, strict=True):
        row[: len(cut.buffers)] = cut.buffers
    rgb = np.stack([cut.rgb.transpose(2, 0, 1) for cut in crops])
    return PatchBatch(
        torch.from_numpy(rgb).float() / 255.0,
        torch.from_numpy(buffers),
        torch.from_numpy(noise),
        torch.from_numpy(np.stack([cut.thumbnail for cut in crops])),
    )


def _crop_image(image: DecodedImage, top: int, left: int, side: int) -> DecodedImage:
    rgb = image.rgb[top : top + side, left : left + side]
    buffers = image.buffers[:, top : top + side, left : left + side]
    missing = [(0, side - rgb.shape[0]), (0, side - rgb.shape[1])]
    if any(after for _, after in missing):
        rgb = np.pad(rgb, [*missing, (0, 0)], mode="symmetric")
        buffers = np.pad(buffers, [(0, 0), *missing], mode="symmetric")
    return DecodedImage(rgb, buffers, image.thumbnail)


def _flip_patch(patch: DecodedImage, names: tuple[str, ...]) -> DecodedImage:
    return DecodedImage(
        patch.rgb[:, ::-1], flip_buffers(patch.buffers, names), patch.thumbnail[:, :, ::-1]
    )


def expand_tile_mask(tile_mask: TileMask, location: PatchLocation, side: int) -> TileMask:
    """Return which pixels (side, side) of a patch lie in such a tile; beyond a small image, as its last."""
    rows, columns = (
        np.minimum((start + np.arange(side)) // TILE_PX, count - 1)
        for start, count in zip((location.top, location.left), tile_mask.shape, strict=True)
    )
    mask = tile_mask[np.ix_(rows, columns)]
    return mask[:, ::-1] if location.is_flipped else mask


def _read_frame(sample: Sample, buffers: tuple[str, ...]) -> GBufferFrame:
    return read_frame(sample) if buffers else GBufferFrame(read_rgb(sample.rgb))
