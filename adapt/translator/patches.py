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

from sim2cam.adapt.transfers.transfer import Frame, read_frame
from sim2cam.adapt.translator.augment import Augmentation, draw_augmentation
from sim2cam.adapt.translator.buffers import buffer_channels, count_channels, mirrored
from sim2cam.adapt.translator.config import TranslatorConfig
from sim2cam.adapt.translator.generator import ENCODED, THUMBNAIL_PX
from sim2cam.data.sample import Dataset, Sample
from sim2cam.images import read_rgb
from sim2cam.seeds import stream

Tiles = NDArray[np.bool_]
"""Of the tiles of an image, ``TILE_PX`` a side, from its upper left corner."""

TILE_PX = 32

MOST_PLACES = 256
"""Pixels of a layer that are looked for again, as CUT has it."""

_CANDIDATES = 4  # places compared before a patch is cut, and patches before one is taken
_IMAGES = 16  # compared before one is cut from
_CELLS = 4  # a side, in which a patch's layout is told
_GRAIN_LEVELS = 2.0  # contrast of a cell that shows nothing
_DARKEST = 0.02  # brightness of an image that shows nothing


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

    def of(self, patches: slice) -> Patches:
        """Returns some of them."""
        return Patches(*(tensor[patches] for tensor in vars(self).values()))


@dataclass(frozen=True)
class FilmPatches:
    """Pictures of films at places that stay, each with the one before it.

    Attributes:
        earlier, later: patches.
        flow: (n, 3, side, side), from each pixel of the later one to where its point was in the earlier
            one, pixels to the right and down; 1 where both patches show it, else 0.
    """

    earlier: Patches
    later: Patches
    flow: Tensor

    @property
    def seen(self) -> Tensor:
        """Pixels (n, side, side) of the later one that both show: 1, else 0."""
        return self.flow[:, 2]

    def to(self, device: torch.device) -> FilmPatches:
        """Returns the same on a device."""
        return FilmPatches(self.earlier.to(device), self.later.to(device), self.flow.to(device))

    def of(self, patches: slice) -> FilmPatches:
        """Returns some of its patches."""
        return FilmPatches(self.earlier.of(patches), self.later.of(patches), self.flow[patches])


@dataclass(frozen=True)
class Batch:
    """One step's renders and captures, and how the discriminator will see them.

    Attributes:
        sim, real: of the same places where they are pairs.
        augmentation: of both.
        registered: (n, 1, side, side), 1 where a pair shows the same; None where there are no pairs.
        places: of each of the generator's ``ENCODED`` layers, pixels (p,) that are looked for again; none
            where that is not learned.
        film: pictures of films; None where they are not to be changed alike.
        others: as many renders again, unlike the captures too, of whose translations no more is asked than that
            they show what was there; None where the renders are drawn by chance themselves.
    """

    sim: Patches
    real: Patches
    augmentation: Augmentation
    registered: Tensor | None = None
    places: tuple[Tensor, ...] = ()
    film: FilmPatches | None = None
    others: Patches | None = None

    def to(self, device: torch.device) -> Batch:
        """Returns the same with its tensors on a device."""
        return Batch(
            self.sim.to(device),
            self.real.to(device),
            self.augmentation,
            None if self.registered is None else self.registered.to(device),
            tuple(places.to(device) for places in self.places),
            None if self.film is None else self.film.to(device),
            None if self.others is None else self.others.to(device),
        )

    def parts(self, count: int) -> list[Batch]:
        """Returns as many equal parts of it; ``count`` divides the number of patches."""
        size = len(self.sim.rgb) // count
        return [self.of(slice(first, first + size)) for first in range(0, size * count, size)]

    def of(self, patches: slice) -> Batch:
        """Returns some of its patches."""
        return Batch(
            self.sim.of(patches),
            self.real.of(patches),
            Augmentation(*(drawn[patches] for drawn in vars(self.augmentation).values())),
            None if self.registered is None else self.registered[patches],
            self.places,
            None if self.film is None else self.film.of(patches),
            None if self.others is None else self.others.of(patches),
        )


class Place(NamedTuple):
    """Where a patch is cut.

    Attributes:
        image: its number in the data set.
        top, left: its first pixel.
        is_mirrored: whether left and right change places.
    """

    image: int
    top: int
    left: int
    is_mirrored: bool


class PatchSource:
    """Cuts patches from the images of a data set; labels are not looked at."""

    def __init__(self, dataset: Dataset, *, buffers: tuple[str, ...], cache_bytes: int) -> None:
        self._samples = dataset.samples
        self._buffers = buffers
        sizes = sorted((image_bytes(one, buffers) for one in dataset.samples), reverse=True)
        kept = int((np.cumsum(sizes) <= cache_bytes).sum())  # of whatever sizes they are
        self._decode = lru_cache(maxsize=max(1, kept))(self._decode_anew)
        self._character = lru_cache(maxsize=None)(self._character_anew)

    def draw(self, rng: np.random.Generator, side: int) -> Decoded:
        """Returns a square patch and the thumbnail of its image."""
        return self.cut(self.place(rng, side), side)

    def draw_like(self, other: Decoded, rng: np.random.Generator) -> Decoded:
        """Returns a patch like one of another source: of some images the most alike by colour and contrast, and
        of some patches of it the one that is laid out most alike.

        The discriminator then cannot tell them by what they show, so it learns how they show it (as Richter et
        al., 2021, "Enhancing Photorealism Enhancement", match crops, section 3.4).
        """
        images = rng.integers(len(self._samples), size=_IMAGES)
        character = character_of(other.thumbnail)
        index = int(min(images, key=lambda i: _apart(self._character(int(i)), character)))
        side, layout = other.rgb.shape[0], layout_of(other.rgb)
        drawn = self._draw_in(index, rng, side, _CANDIDATES)
        return min(drawn, key=lambda one: _apart(layout_of(one.rgb), layout))

    def draw_together(self, rng: np.random.Generator, side: int, count: int) -> list[Decoded]:
        """Returns square patches of one image, which is decoded once for all of them."""
        return self._draw_in(int(rng.integers(len(self._samples))), rng, side, count)

    def place(self, rng: np.random.Generator, side: int) -> Place:
        """Returns where a square patch is cut."""
        return self._place_in(int(rng.integers(len(self._samples))), rng, side)

    def _draw_in(
        self, index: int, rng: np.random.Generator, side: int, count: int
    ) -> list[Decoded]:
        """Returns square patches of an image."""
        return [self.cut(self._place_in(index, rng, side), side) for _ in range(count)]

    def _place_in(self, index: int, rng: np.random.Generator, side: int) -> Place:
        """Returns where a square patch of an image is cut.

        Places with more contrast are likelier, for renders and captures by the same rule, so that
        the discriminator cannot tell them by how much empty ground they show.
        """
        image = self._decode(index)
        height, width = image.rgb.shape[:2]
        tops = rng.integers(0, max(height - side, 0) + 1, _CANDIDATES)
        lefts = rng.integers(0, max(width - side, 0) + 1, _CANDIDATES)
        cuts = [_cut(image, top, left, side) for top, left in zip(tops, lefts, strict=True)]
        contrast = np.array([float(cut.rgb[:, :, 1].std()) for cut in cuts]) + 1.0
        chosen = int(rng.choice(_CANDIDATES, p=contrast / contrast.sum()))
        return Place(index, int(tops[chosen]), int(lefts[chosen]), bool(rng.random() < 0.5))

    def cut(self, place: Place, side: int) -> Decoded:
        """Returns the square patch of a place and the thumbnail of its image."""
        chosen = _cut(self._decode(place.image), place.top, place.left, side)
        return _mirror(chosen, self._buffers) if place.is_mirrored else chosen

    def _decode_anew(self, index: int) -> Decoded:
        frame = _read(self._samples[index], self._buffers)
        buffers = buffer_channels(frame, self._buffers).astype(np.float16)
        return Decoded(frame.rgb, buffers, thumbnail_of(frame.rgb))

    def _character_anew(self, index: int) -> NDArray[np.float32]:
        return character_of(thumbnail_of(read_rgb(self._samples[index].rgb)))


def image_bytes(sample: Sample, buffers: tuple[str, ...]) -> int:
    """Returns how much memory a decoded image takes with these buffers."""
    return sample.width * sample.height * (3 + 2 * count_channels(buffers))


def cached_bytes(dataset: Dataset, buffers: tuple[str, ...], cache_bytes: int) -> int:
    """Returns how much memory the decoded images of a source take at most."""
    return min(cache_bytes, sum(image_bytes(sample, buffers) for sample in dataset.samples))


def draw_batch(
    sim: PatchSource, real: PatchSource, config: TranslatorConfig, channels: int, step: int
) -> Batch:
    """Returns the batch of a step; it depends on nothing that happened before."""
    rng = stream(config.seed, "translator/batch", scene_index=step)
    side = config.patch_px
    captures = [real.draw(rng, side) for _ in range(config.batch)]
    return Batch(
        _patches([sim.draw_like(capture, rng) for capture in captures], rng, channels),
        _patches(captures, rng, channels),
        draw_augmentation(rng, config.batch, side),
        others=_patches(sim.draw_together(rng, side, config.batch), rng, channels),
    )


def draw_paired_batch(
    sim: PatchSource,
    real: PatchSource,
    registered: Sequence[Tiles],
    config: TranslatorConfig,
    channels: int,
    step: int,
) -> Batch:
    """Returns the batch of a step, of captures at the very places of the renders.

    Args:
        sim, real: renders, and the captures that are their partners in the same order.
        registered: of each pair, which tiles show the same (``pairs``).
        config: of the training.
        channels: of the generator's buffers.
        step: on which it depends, and on nothing that happened before.
    """
    rng = stream(config.seed, "translator/batch", scene_index=step)
    side = config.patch_px
    places = [sim.place(rng, side) for _ in range(config.batch)]
    masks = [pixels_of(registered[place.image], place, side) for place in places]
    return Batch(
        _patches([sim.cut(place, side) for place in places], rng, channels),
        _patches([real.cut(place, side) for place in places], rng, channels),
        draw_augmentation(rng, config.batch, side),
        torch.from_numpy(np.stack(masks)[:, None].astype(np.float32)),
    )


def layout_of(rgb: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Returns where a patch (side, side, 3) shows things: the logarithms of the contrast in 4x4 cells (16,),
    less their mean, so that light, tones and noise hardly matter.
    """
    cell = rgb.shape[0] // _CELLS
    cells = rgb[: _CELLS * cell, : _CELLS * cell, 1].reshape(_CELLS, cell, _CELLS, cell)
    contrast = np.log(cells.std(axis=(1, 3), dtype=np.float32) + _GRAIN_LEVELS).ravel()
    return np.asarray(contrast - contrast.mean())


def character_of(thumbnail: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns how colourful and how rich in contrast the image of a thumbnail (3, s, s) is (2,), over its
    brightness, so that exposure hardly matters.
    """
    most = thumbnail.max(axis=0)
    colour, contrast = (most - thumbnail.min(axis=0)).mean(), most.std()
    return np.array([colour, contrast], np.float32) / np.float32(most.mean() + _DARKEST)


def _apart(first: NDArray[np.float32], second: NDArray[np.float32]) -> float:
    return float(np.square(first - second).sum())


def thumbnail_of(rgb: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Returns the image scaled to (3, THUMBNAIL_PX, THUMBNAIL_PX), 0 to 1."""
    small = cv2.resize(rgb, (THUMBNAIL_PX, THUMBNAIL_PX), interpolation=cv2.INTER_AREA)
    return np.ascontiguousarray(small.transpose(2, 0, 1), dtype=np.float32) / np.float32(255.0)


def draw_places(config: TranslatorConfig, step: int) -> tuple[Tensor, ...]:
    """Returns up to ``MOST_PLACES`` different pixels of each of the generator's ``ENCODED`` layers."""
    rng = stream(config.seed, "translator/places", scene_index=step)
    sides = (config.patch_px // smaller for smaller in ENCODED)
    return tuple(torch.from_numpy(rng.permutation(side**2)[:MOST_PLACES]) for side in sides)


def _patches(cuts: Sequence[Decoded], rng: np.random.Generator, channels: int) -> Patches:
    """Returns patches with noise of their own."""
    side = cuts[0].rgb.shape[0]
    noise = rng.standard_normal((len(cuts), 1, side, side), np.float32)
    return patches_of(cuts, noise, channels)


def patches_of(cuts: Sequence[Decoded], noise: NDArray[np.float32], channels: int) -> Patches:
    """Returns patches; those of a source without buffers get zeros, which mean nothing known.

    Args:
        cuts: of one size.
        noise: (n, 1, side, side).
        channels: of the generator's buffers.
    """
    side = cuts[0].rgb.shape[0]
    buffers = np.zeros((len(cuts), channels, side, side), np.float32)
    for row, cut in zip(buffers, cuts, strict=True):
        row[: len(cut.buffers)] = cut.buffers
    rgb = np.stack([cut.rgb.transpose(2, 0, 1) for cut in cuts])
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


def _mirror(cut: Decoded, names: tuple[str, ...]) -> Decoded:
    return Decoded(cut.rgb[:, ::-1], mirrored(cut.buffers, names), cut.thumbnail[:, :, ::-1])


def pixels_of(tiles: Tiles, place: Place, side: int) -> Tiles:
    """Returns which pixels (side, side) of a patch lie in such a tile; beyond a small image, as its last."""
    rows, columns = (
        np.minimum((start + np.arange(side)) // TILE_PX, count - 1)
        for start, count in zip((place.top, place.left), tiles.shape, strict=True)
    )
    mask = tiles[np.ix_(rows, columns)]
    return mask[:, ::-1] if place.is_mirrored else mask


def _read(sample: Sample, buffers: tuple[str, ...]) -> Frame:
    return read_frame(sample) if buffers else Frame(read_rgb(sample.rgb))
