"""Other pictures, or collages, behind the objects of a picture, and pieces of them before these.

What renders show around objects is never as various as the world. Objects that are cut out and laid before
anything at all teach a detector to look at them alone (Dwibedi et al. 2017, "Cut, Paste and Learn"), and pieces
that hide them to make do with what is left.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, exp, log

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.data.sample import Dataset
from sim2cam.models.augment.dead_leaves import render_dead_leaves
from sim2cam.models.augment.overlay import composite, occlude
from sim2cam.models.training.images import AnnotatedImage, ImageCache, get_complete_instance_map

BACKGROUND_PROBABILITY, OCCLUDER_PROBABILITY = 0.5, 0.5
"""Of the pictures that get another backdrop, and of those that get pieces."""

_SHRINK_RANGE = (0.4, 2.0)  # by which backdrops shrink, from where they fill the picture
_OBJECT_OCCLUDER_PROBABILITY = 0.5  # of each object
_MAX_CENTRE_OFFSET = 0.6  # at most, of a piece from the middle of the box, in its longer sides
_OCCLUDER_RADIUS_RANGE = (0.2, 0.6)  # of a piece, in longer sides of the box
_CORNER_COUNT_RANGE = (3, 8)


class BackgroundAugmentation:
    """Pictures that show nothing of what is learned; may be used by several threads.

    Args:
        images: without labels; None with ``dead_leaves`` alone.
        cache_bytes: budget of decoded images.
        amodal: whether boxes are of whole objects, and stay as they are where pieces hide something.
        dead_leaves: whether collages serve too, half of the time where there are pictures.
    """

    def __init__(
        self, images: Dataset | None, cache_bytes: int, *, amodal: bool, dead_leaves: bool = False
    ) -> None:
        samples = () if images is None else images.samples
        self._image_cache = ImageCache([samples], (), cache_bytes)
        self._n_images = len(samples)
        self._amodal = amodal
        self._dead_leaves_probability = (0.5 if samples else 1.0) if dead_leaves else 0.0

    def preload(self, processes: int) -> None:
        """Decode them as ``PictureStore.fill`` does."""
        self._image_cache.preload(processes)

    def apply(self, image: AnnotatedImage, rng: np.random.Generator) -> AnnotatedImage:
        """Return a picture with or without another backdrop, with or without pieces before its objects.

        One of which it is not known which pixels show objects is returned as it is.

        Args:
            image: as it was rendered.
            rng: source of chance.

        Raises:
            InputError: a backdrop cannot be read.
        """
        owners = get_complete_instance_map(image)
        if owners is None:
            return image
        if rng.random() < BACKGROUND_PROBABILITY:
            rgb = composite(image.rgb, self._make_background(image.rgb.shape[:2], rng), owners == 0)
            image = replace(image, rgb=rgb)
        if rng.random() < OCCLUDER_PROBABILITY:
            pieces = _sample_occluders(image, rng)
            rgb = composite(image.rgb, self._make_background(image.rgb.shape[:2], rng), pieces)
            image = occlude(replace(image, rgb=rgb), owners, pieces, amodal=self._amodal)
        return image

    def _make_background(
        self, shape: tuple[int, int], rng: np.random.Generator
    ) -> NDArray[np.uint8]:
        """Return a collage or a part of a backdrop (height, width, 3)."""
        if self._dead_leaves_probability and rng.random() < self._dead_leaves_probability:
            return render_dead_leaves(shape, rng)
        return self._sample_window(shape, rng)

    def _sample_window(self, shape: tuple[int, int], rng: np.random.Generator) -> NDArray[np.uint8]:
        """Return a part of a backdrop (height, width, 3), larger or smaller than it is, mirrored half of the
        time; where it is too small for all of the picture, it goes on as in a mirror.
        """
        rgb = self._image_cache.get(0, int(rng.integers(self._n_images))).rgb
        filling = max(shape[0] / rgb.shape[0], shape[1] / rgb.shape[1])
        scale = filling / exp(rng.uniform(log(_SHRINK_RANGE[0]), log(_SHRINK_RANGE[1])))
        sides = [
            min(ceil(want / scale), have) for want, have in zip(shape, rgb.shape[:2], strict=True)
        ]
        top, left = (
            int(rng.integers(have - side + 1))
            for have, side in zip(rgb.shape[:2], sides, strict=True)
        )
        seen = rgb[top : top + sides[0], left : left + sides[1]]
        size = [max(round(scale * side), 1) for side in sides]
        way = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
        shown = cv2.resize(seen, size[::-1], interpolation=way)
        down, across = (max(want - have, 0) for want, have in zip(shape, size, strict=True))
        shown = cv2.copyMakeBorder(shown, 0, down, 0, across, cv2.BORDER_REFLECT)
        part = shown[: shape[0], : shape[1]]
        return np.ascontiguousarray(part[:, ::-1] if rng.random() < 0.5 else part, np.uint8)


def _sample_occluders(image: AnnotatedImage, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return where polygons lie, over and beside some of the objects (h, w)."""
    pieces = np.zeros(image.rgb.shape[:2], np.uint8)
    for outline in image.outlines:
        if rng.random() >= _OBJECT_OCCLUDER_PROBABILITY:
            continue
        low, high = outline.min(axis=0), outline.max(axis=0)
        longer = float((high - low).max())
        middle = (low + high) / 2 + longer * rng.uniform(-_MAX_CENTRE_OFFSET, _MAX_CENTRE_OFFSET, 2)
        count = int(rng.integers(*_CORNER_COUNT_RANGE, endpoint=True))
        angles = 2 * np.pi * (np.arange(count) + rng.uniform(0, 1, count)) / count
        reach = longer * rng.uniform(*_OCCLUDER_RADIUS_RANGE) * rng.uniform(0.5, 1, (count, 1))
        corners = middle + reach * np.column_stack([np.cos(angles), np.sin(angles)])
        cv2.fillPoly(pieces, [np.round(corners).astype(np.int32)], 1)
    return pieces.astype(np.bool_)
