"""Background augmentation: other backgrounds behind objects, and occluders before them.

Renders have fewer backgrounds than the world. Arbitrary ones teach a detector to use objects only (Dwibedi et al.
2017, "Cut, Paste and Learn"); occluders teach it to use parts of objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, exp, log

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.data.sample import Dataset
from sim2cam.models.augment.dead_leaves import render_dead_leaves
from sim2cam.models.augment.overlay import composite, occlude
from sim2cam.models.training.images import (
    AnnotatedImage,
    ImageCache,
    get_complete_instance_map,
    remove_objects,
)

BACKGROUND_PROBABILITY, OCCLUDER_PROBABILITY = 0.5, 0.5
"""Share of images with another background, and with occluders."""

TARGET_PROBABILITY = 0.5
"""Share of target images among the backgrounds, if there are also others."""

_SHRINK_RANGE = (0.4, 2.0)  # scale reduction of background images, relative to filling the image
_OBJECT_OCCLUDER_PROBABILITY = 0.5  # per object
_MAX_CENTRE_OFFSET = 0.6  # of an occluder from the centre of the box, in longer sides of the box
_OCCLUDER_RADIUS_RANGE = (0.2, 0.6)  # in longer sides of the box
_CORNER_COUNT_RANGE = (3, 8)


class BackgroundAugmentation:
    """Sampler of backgrounds and occluders, thread-safe.

    Target images may show objects that nobody has labelled. They are backgrounds only, not occluders, and what
    they show beside the labelled objects is neither positive nor negative (``AnnotatedImage.is_fully_labelled``).

    Args:
        images: unlabelled background images without objects; None without.
        cache_bytes: memory budget of decoded images.
        amodal: whether boxes include hidden parts, so that occluders do not change them.
        dead_leaves: use dead-leaves backgrounds, half of the time if there are also background images.
        target_images: unlabelled images of the target, which may show objects; None without.
        negative_share: share of crops that show a background without objects.
        shares: number of images and relative share of each source among ``images``, in order; empty for equally
            frequent images.
    """

    def __init__(
        self,
        images: Dataset | None,
        cache_bytes: int,
        *,
        amodal: bool,
        dead_leaves: bool = False,
        target_images: Dataset | None = None,
        negative_share: float = 0.0,
        shares: Sequence[tuple[int, float]] = (),
    ) -> None:
        self._samples = [() if d is None else d.samples for d in (images, target_images)]
        self._image_cache = ImageCache(self._samples, (), cache_bytes)
        self._amodal = amodal
        has_images = bool(self._samples[0])
        self._dead_leaves_probability = (0.5 if has_images else 1.0) if dead_leaves else 0.0
        self._has_background_images = has_images or dead_leaves
        self._negative_share = negative_share if self._has_background_images else 0.0
        self._target_probability = (
            (TARGET_PROBABILITY if self._has_background_images else 1.0) if target_images else 0.0
        )
        self._source_sizes = [count for count, _ in shares]
        self._source_shares = np.array([share for _, share in shares]) / (
            sum(share for _, share in shares) or 1
        )

    def preload(self, processes: int) -> None:
        """Decode the background images; see ``ImageCache.preload``."""
        self._image_cache.preload(processes)

    def apply(self, image: AnnotatedImage, rng: np.random.Generator) -> AnnotatedImage:
        """Return an image with a random background and random occluders.

        An image without a complete instance map is returned unchanged.

        Raises:
            InputError: if a background image cannot be read.
        """
        instance_map = get_complete_instance_map(image)
        if instance_map is None:
            return image
        if rng.random() < BACKGROUND_PROBABILITY:
            image = self._replace_background(image, instance_map == 0, rng)
        if self._has_background_images and rng.random() < OCCLUDER_PROBABILITY:
            occluders = _sample_occluders(image, rng)
            rgb = composite(image.rgb, self._make_background(image.rgb.shape[:2], rng), occluders)
            image = occlude(replace(image, rgb=rgb), instance_map, occluders, amodal=self._amodal)
        return image

    def sample_negative(self, image: AnnotatedImage, rng: np.random.Generator) -> AnnotatedImage:
        """Return an image of the same size without objects with ``negative_share``, else the image.

        Target images may show objects: without other backgrounds the image is returned.

        Raises:
            InputError: if a background image cannot be read.
        """
        if not self._negative_share or rng.random() >= self._negative_share:
            return image
        return remove_objects(image, self._make_background(image.rgb.shape[:2], rng))

    def _replace_background(
        self, image: AnnotatedImage, is_background: NDArray[np.bool_], rng: np.random.Generator
    ) -> AnnotatedImage:
        shape = image.rgb.shape[:2]
        if self._target_probability and rng.random() < self._target_probability:
            index = int(rng.integers(len(self._samples[1])))
            rgb = composite(image.rgb, self._sample_window(1, index, shape, rng), is_background)
            return replace(image, rgb=rgb, is_fully_labelled=False)
        return replace(
            image, rgb=composite(image.rgb, self._make_background(shape, rng), is_background)
        )

    def _make_background(
        self, shape: tuple[int, int], rng: np.random.Generator
    ) -> NDArray[np.uint8]:
        """Return a dead-leaves background or a window of a background image (h, w, 3)."""
        if self._dead_leaves_probability and rng.random() < self._dead_leaves_probability:
            return render_dead_leaves(shape, rng)
        return self._sample_window(0, self._sample_image_index(rng), shape, rng)

    def _sample_image_index(self, rng: np.random.Generator) -> int:
        if not self._source_sizes:
            return int(rng.integers(len(self._samples[0])))
        source = int(rng.choice(len(self._source_sizes), p=self._source_shares))
        first = sum(self._source_sizes[:source])
        return first + int(rng.integers(self._source_sizes[source]))

    def _sample_window(
        self, dataset_index: int, image_index: int, shape: tuple[int, int], rng: np.random.Generator
    ) -> NDArray[np.uint8]:
        """Sample a window of a background image at a random scale and flip (h, w, 3).

        Images that are too small are continued by reflection. Photographs are not enlarged: blurred backgrounds
        would teach a detector that objects are what is sharp.
        """
        rgb = self._image_cache.get(dataset_index, image_index).rgb
        fill_scale = max(shape[0] / rgb.shape[0], shape[1] / rgb.shape[1])
        scale = fill_scale / exp(rng.uniform(log(_SHRINK_RANGE[0]), log(_SHRINK_RANGE[1])))
        if self._samples[dataset_index][image_index].origin == "real":
            scale = min(scale, 1.0)
        sides = [
            min(ceil(target_px / scale), source_px)
            for target_px, source_px in zip(shape, rgb.shape[:2], strict=True)
        ]
        top, left = (
            int(rng.integers(source_px - side + 1))
            for source_px, side in zip(rgb.shape[:2], sides, strict=True)
        )
        window = rgb[top : top + sides[0], left : left + sides[1]]
        size = [max(round(scale * side), 1) for side in sides]
        interpolation = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
        resized = cv2.resize(window, size[::-1], interpolation=interpolation)
        bottom, right = (
            max(target_px - source_px, 0) for target_px, source_px in zip(shape, size, strict=True)
        )
        resized = cv2.copyMakeBorder(resized, 0, bottom, 0, right, cv2.BORDER_REFLECT)
        background = resized[: shape[0], : shape[1]]
        return np.ascontiguousarray(
            background[:, ::-1] if rng.random() < 0.5 else background, np.uint8
        )


def _sample_occluders(image: AnnotatedImage, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return a mask (h, w) of random polygons that overlap some of the objects."""
    mask = np.zeros(image.rgb.shape[:2], np.uint8)
    for outline in image.outlines:
        if rng.random() >= _OBJECT_OCCLUDER_PROBABILITY:
            continue
        low, high = outline.min(axis=0), outline.max(axis=0)
        longer_side = float((high - low).max())
        centre = (low + high) / 2 + longer_side * rng.uniform(
            -_MAX_CENTRE_OFFSET, _MAX_CENTRE_OFFSET, 2
        )
        count = int(rng.integers(*_CORNER_COUNT_RANGE, endpoint=True))
        angles = 2 * np.pi * (np.arange(count) + rng.uniform(0, 1, count)) / count
        radii = longer_side * rng.uniform(*_OCCLUDER_RADIUS_RANGE) * rng.uniform(0.5, 1, (count, 1))
        corners = centre + radii * np.column_stack([np.cos(angles), np.sin(angles)])
        cv2.fillPoly(mask, [np.round(corners).astype(np.int32)], 1)
    return mask.astype(np.bool_)
