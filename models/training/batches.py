"""Batches of crops: what step k is trained on depends on nothing but the seed and k."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sim2cam.data.sample import Dataset
from sim2cam.learn.distributed import slice_batch
from sim2cam.models.augment.backgrounds import BackgroundAugmentation
from sim2cam.models.augment.colour_jitter import jitter_instance_colours
from sim2cam.models.augment.copy_paste import MAX_PASTED_IMAGES, paste_objects
from sim2cam.models.augment.crops import Crop, CropConfig, sample_crop
from sim2cam.models.augment.photometric import PhotometricAugmentation
from sim2cam.models.network.roi_classifier import SURFACE_STRIDE_PX
from sim2cam.models.network.roi_crops import (
    crop_object_coordinates,
    get_roi_side_px,
    sample_roi_crop,
    select_classifiable,
)
from sim2cam.models.network.targets import DetectorTargets, make_targets, stack_targets
from sim2cam.models.training.class_balance import compute_image_probabilities
from sim2cam.models.training.datasets import WeightedDatasets
from sim2cam.models.training.images import BOXES_ONLY, AnnotatedImage, ImageCache, Tasks
from sim2cam.seeds import derive_rng

T = TypeVar("T")

CROPS_PER_COMPOSITE = 2
"""Of a picture that is put together from several ones, which takes longer than a crop of it."""


@dataclass(frozen=True)
class RoiCrops:
    """Close-ups of objects.

    Attributes:
        rgb: (n, s, s, 3).
        categories: class index of each (n,), -1 where a picture has none to be shown.
        object_coordinates: the points that each shows (n, 3, s/8, s/8), as ``crop_object_coordinates`` returns them; None without
            poses.
    """

    rgb: NDArray[np.uint8]
    categories: NDArray[np.int64]
    object_coordinates: NDArray[np.float32] | None = None


@dataclass(frozen=True)
class DetectorBatch:
    """One step's data.

    Attributes:
        rgb: crops (n, h, w, 3).
        targets: of them, stacked.
        roi_crops: of objects; None without a reader.
        crops: with their labels, before their looks are varied.
    """

    rgb: NDArray[np.uint8]
    targets: DetectorTargets
    roi_crops: RoiCrops | None = None
    crops: tuple[Crop, ...] = ()


@dataclass(frozen=True)
class TargetViews:
    """One step's captures: crops as they are, and with another look of each (n, h, w, 3) uint8."""

    plain: NDArray[np.uint8]
    augmented: NDArray[np.uint8]


class BatchMaker:
    """Makes the batch of any step.

    Args:
        datasets: data sets; their weights do not count here.
        image_cache: their pictures, with what the tasks need to know of them.
        dataset_shares: returns the share of each of them in the crops of a step.
        crop_config: how crops are drawn.
        batch: crops a step.
        photometric: whether looks are varied.
        seed: the run's seed.
        tasks: what is learned.
        n_roi_crops: for each crop, of its picture.
        background_augmentation: what objects are also seen before; None without any.
    """

    def __init__(
        self,
        datasets: WeightedDatasets,
        image_cache: ImageCache,
        crop_config: CropConfig,
        *,
        dataset_shares: Callable[[int], NDArray[np.float64]],
        batch: int,
        photometric: bool,
        seed: int,
        tasks: Tasks = BOXES_ONLY,
        n_roi_crops: int = 0,
        background_augmentation: BackgroundAugmentation | None = None,
    ) -> None:
        self._dataset_shares = dataset_shares
        self._dataset_sizes = [len(dataset.samples) for dataset, _ in datasets]
        self._image_probabilities = [
            compute_image_probabilities(
                dataset.samples, crop_config.balance, crop_config.min_visible
            )
            if crop_config.balance
            else None
            for dataset, _ in datasets
        ]
        self._image_cache = image_cache
        self._masks = tasks.masks
        self._crop_config = crop_config
        self._slots = range(batch)[slice_batch(batch)]
        self._n_roi_crops = n_roi_crops
        self._amodal = tasks.amodal
        self._background_augmentation = background_augmentation
        self._seed = seed
        self._photometric = PhotometricAugmentation() if photometric else None

    def preload(self, processes: int) -> None:
        """Decode pictures and backdrops as ``PictureStore.fill`` does."""
        self._image_cache.preload(processes)
        if self._background_augmentation is not None:
            self._background_augmentation.preload(processes)

    def make(self, step: int) -> DetectorBatch:
        """Return the batch of a step; of several processes, the part of this one.

        Raises:
            InputError: an image cannot be read.
        """
        crops: list[tuple[NDArray[np.uint8], DetectorTargets, Crop]] = []
        shown: list[RoiCrops] = []
        composed: AnnotatedImage | None = None
        for slot in self._slots:
            rng = derive_rng(self._seed, "batch", scene_index=step, attempt=slot)
            if self._uses_unmodified_images:
                picture = self._sample_image(step, rng)
            elif composed is None or slot % CROPS_PER_COMPOSITE == 0:
                number = slot // CROPS_PER_COMPOSITE
                chance = derive_rng(self._seed, "composed", scene_index=step, attempt=number)
                picture = composed = self._sample_image(step, chance)
            crops.append(self._make_crop(picture, rng))
            shown += [self._make_roi_crop(picture, rng) for _ in range(self._n_roi_crops)]
        rgb, targets, plain = zip(*crops, strict=True)
        close_ups = _concatenate_roi_crops(shown) if shown else None
        return DetectorBatch(np.stack(rgb), stack_targets(targets), close_ups, plain)

    @property
    def _uses_unmodified_images(self) -> bool:
        """Whether pictures are taken as they are."""
        rules = self._crop_config
        return self._background_augmentation is None and not (
            rules.copy_paste or rules.instance_colour_jitter
        )

    def _sample_image(self, step: int, rng: np.random.Generator) -> AnnotatedImage:
        """Return a picture, its objects in other shades, with what others show laid before and behind them."""
        part = int(rng.choice(len(self._dataset_sizes), p=self._dataset_shares(step)))
        picture = self._image_cache.get(part, self._sample_image_index(part, rng))
        for _ in range(
            int(rng.integers(MAX_PASTED_IMAGES + 1)) if self._crop_config.copy_paste else 0
        ):
            other = self._image_cache.get(part, self._sample_image_index(part, rng))
            picture = paste_objects(picture, other, rng, amodal=self._amodal)
        if self._crop_config.instance_colour_jitter:
            picture = jitter_instance_colours(picture, rng)
        if self._background_augmentation is not None:
            picture = self._background_augmentation.apply(picture, rng)
        return picture

    def _sample_image_index(self, dataset_index: int, rng: np.random.Generator) -> int:
        """Return the number of a picture of a part."""
        chances = self._image_probabilities[dataset_index]
        if chances is None:
            return int(rng.integers(self._dataset_sizes[dataset_index]))
        return int(rng.choice(self._dataset_sizes[dataset_index], p=chances))

    def _make_crop(
        self, image: AnnotatedImage, rng: np.random.Generator
    ) -> tuple[NDArray[np.uint8], DetectorTargets, Crop]:
        crop = sample_crop(image, self._crop_config, rng)
        side = self._crop_config.crop_px
        targets = make_targets(
            crop.boxes_xyxy,
            crop.categories,
            crop.ignored_boxes_xyxy,
            (side, side),
            crop.keypoints,
            crop.segmentation if self._masks else None,
            crop.has_category,
            crop.visible_boxes_xyxy,
            is_fully_labelled=crop.is_fully_labelled,
        )
        return self._augment(crop.rgb, rng), targets, crop

    def _make_roi_crop(self, image: AnnotatedImage, rng: np.random.Generator) -> RoiCrops:
        """Return a close-up of an object that is seen well enough, with a leading axis of 1."""
        side = get_roi_side_px(poses=image.object_coordinates is not None)
        rgb = np.zeros((side, side, 3), np.uint8)
        cells = side // SURFACE_STRIDE_PX
        surface = np.full((3, cells, cells), np.nan, np.float32)
        category = -1
        seen = np.flatnonzero(select_classifiable(image, self._crop_config))
        if len(seen):
            index = int(rng.choice(seen))
            category = int(image.categories[index])
            rgb, matrix = sample_roi_crop(image, index, self._crop_config, side, rng)
            rgb = self._augment(rgb, rng)
            if image.object_coordinates is not None:
                surface = crop_object_coordinates(image, index, matrix, side)
        surfaces = None if image.object_coordinates is None else surface[None]
        return RoiCrops(rgb[None], np.array([category]), surfaces)

    def _augment(self, rgb: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
        if self._photometric is None:
            return rgb
        return self._photometric(rgb, int(rng.integers(2**31)))


def _concatenate_roi_crops(roi_crops: Sequence[RoiCrops]) -> RoiCrops:
    surfaces = [one.object_coordinates for one in roi_crops if one.object_coordinates is not None]
    return RoiCrops(
        np.concatenate([one.rgb for one in roi_crops]),
        np.concatenate([one.categories for one in roi_crops]),
        np.concatenate(surfaces) if surfaces else None,
    )


class TargetViewMaker:
    """Makes what any step sees of captures.

    Args:
        target_images: without labels.
        crop_config: how crops are drawn.
        batch: crops a step.
        photometric: whether looks are varied; both views are the same otherwise.
        seed: the run's seed.
        cache_bytes: budget of decoded images.
    """

    def __init__(
        self,
        target_images: Dataset,
        crop_config: CropConfig,
        *,
        batch: int,
        photometric: bool,
        seed: int,
        cache_bytes: int,
    ) -> None:
        self._image_cache = ImageCache([target_images.samples], (), cache_bytes)
        self._n_images = len(target_images.samples)
        self._crop_config = crop_config
        self._slots = range(batch)[slice_batch(batch)]
        self._seed = seed
        self._photometric = PhotometricAugmentation() if photometric else None

    def make(self, step: int) -> TargetViews:
        """Return the views of a step; of several processes, the part of this one.

        Raises:
            InputError: an image cannot be read.
        """
        plain, varied = zip(*(self._make_crop(step, slot) for slot in self._slots), strict=True)
        return TargetViews(np.stack(plain), np.stack(varied))

    def _make_crop(self, step: int, slot: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        rng = derive_rng(self._seed, "captures", scene_index=step, attempt=slot)
        picture = self._image_cache.get(0, int(rng.integers(self._n_images)))
        rgb = sample_crop(picture, self._crop_config, rng).rgb
        if self._photometric is None:
            return rgb, rgb
        return rgb, self._photometric(rgb, int(rng.integers(2**31)))


class TimedIterator(Iterator[T]):
    """What an iterator yields, and how long it was waited for."""

    def __init__(self, iterator: Iterator[T]) -> None:
        self._iterator = iterator
        self._waits_s: list[float] = []

    def __next__(self) -> T:
        since = time.perf_counter()
        found = next(self._iterator)
        self._waits_s.append(time.perf_counter() - since)
        return found

    def pop_mean_wait_s(self) -> float:
        """Return the mean wait for what was yielded since the last call, in seconds."""
        mean_s = sum(self._waits_s) / len(self._waits_s)
        self._waits_s.clear()
        return mean_s
