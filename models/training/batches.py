"""Training batches; seed and step number determine each one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim2cam.data.sample import Dataset
from sim2cam.learn.device import get_memory_bytes
from sim2cam.learn.distributed import slice_batch
from sim2cam.models.augment.backgrounds import BackgroundAugmentation
from sim2cam.models.augment.colour_jitter import jitter_instance_colours
from sim2cam.models.augment.copy_paste import MAX_PASTED_IMAGES, paste_objects
from sim2cam.models.augment.crops import Crop, CropConfig, sample_crop
from sim2cam.models.augment.photometric import PhotometricAugmentation
from sim2cam.models.network.detector import STRIDE_PX
from sim2cam.models.network.roi_classifier import SURFACE_STRIDE_PX
from sim2cam.models.network.roi_crops import (
    ROI_CROPS_PER_CROP,
    crop_object_coordinates,
    get_roi_side_px,
    sample_roi_crop,
    select_classifiable,
)
from sim2cam.models.network.targets import DetectorTargets, make_targets, stack_targets
from sim2cam.models.training.class_balance import compute_image_probabilities
from sim2cam.models.training.config import TrainConfig
from sim2cam.models.training.datasets import WeightedDatasets, compute_dataset_shares
from sim2cam.models.training.images import BOXES_ONLY, AnnotatedImage, ImageCache, Tasks
from sim2cam.seeds import derive_rng

CACHE_MEMORY_SHARE = 0.6
"""Largest share of the machine's memory for decoded images."""

BACKGROUND_CACHE_DIVISOR = 8
"""Background images and target images each get 1 / BACKGROUND_CACHE_DIVISOR of the memory for decoded images."""

CROPS_PER_COMPOSITE = 2
"""Crops taken from one composed image, because composing takes longer than cropping."""


@dataclass(frozen=True)
class RoiCrops:
    """Batch of RoI crops.

    Attributes:
        rgb: (n, s, s, 3).
        categories: class indices (n,), -1 if the image has no suitable object.
        object_coordinates: object coordinates (n, 3, s/8, s/8) as in ``crop_object_coordinates``; None without
            poses.
    """

    rgb: NDArray[np.uint8]
    categories: NDArray[np.int64]
    object_coordinates: NDArray[np.float32] | None = None


@dataclass(frozen=True)
class DetectorBatch:
    """Data of one training step.

    Attributes:
        rgb: crops (n, h, w, 3).
        targets: stacked targets of the crops.
        roi_crops: RoI crops of objects; None without RoI classifier and poses.
        crops: crops with labels, before photometric augmentation.
    """

    rgb: NDArray[np.uint8]
    targets: DetectorTargets
    roi_crops: RoiCrops | None = None
    crops: tuple[Crop, ...] = ()


@dataclass(frozen=True)
class TargetViews:
    """Unlabelled target crops of one step, plain and augmented, each (n, h, w, 3) uint8."""

    plain: NDArray[np.uint8]
    augmented: NDArray[np.uint8]


class BatchMaker:
    """Source of the training batch of any step.

    Args:
        datasets: labelled datasets; their weights are not used.
        image_cache: cache of their images.
        dataset_shares: returns the share of each dataset in the crops of a step.
        crop_config: how crops are sampled.
        batch: crops per step.
        photometric: augmentation of colours, sharpness and noise; None without.
        seed: seed of the run.
        tasks: what the detector learns besides boxes.
        n_roi_crops: RoI crops per crop.
        background_augmentation: backgrounds and occluders for objects; None without any.
    """

    def __init__(
        self,
        datasets: WeightedDatasets,
        image_cache: ImageCache,
        crop_config: CropConfig,
        *,
        dataset_shares: Callable[[int], NDArray[np.float64]],
        batch: int,
        photometric: PhotometricAugmentation | None,
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
        self._photometric = photometric

    def preload(self, processes: int) -> None:
        """Decode images and background images into the caches, see ``ImageCache.preload``."""
        self._image_cache.preload(processes)
        if self._background_augmentation is not None:
            self._background_augmentation.preload(processes)

    def make(self, step: int) -> DetectorBatch:
        """Return the batch of a step, or this process's part of it.

        Raises:
            InputError: if an image cannot be read.
        """
        crops: list[tuple[NDArray[np.uint8], DetectorTargets, Crop]] = []
        roi_crops: list[RoiCrops] = []
        composite: AnnotatedImage | None = None
        for slot in self._slots:
            rng = derive_rng(self._seed, "batch", scene_index=step, attempt=slot)
            if self._uses_unmodified_images:
                image = self._sample_image(step, rng)
            elif composite is None or slot % CROPS_PER_COMPOSITE == 0:
                group = slot // CROPS_PER_COMPOSITE
                group_rng = derive_rng(self._seed, "composed", scene_index=step, attempt=group)
                image = composite = self._sample_image(step, group_rng)
            crops.append(self._make_crop(self._sample_negative(image, rng), rng))
            roi_crops += [self._make_roi_crop(image, rng) for _ in range(self._n_roi_crops)]
        rgb, targets, plain_crops = zip(*crops, strict=True)
        stacked_roi_crops = _concatenate_roi_crops(roi_crops) if roi_crops else None
        return DetectorBatch(np.stack(rgb), stack_targets(targets), stacked_roi_crops, plain_crops)

    @property
    def _uses_unmodified_images(self) -> bool:
        """Whether images are used without composing."""
        config = self._crop_config
        return self._background_augmentation is None and not (
            config.copy_paste or config.instance_colour_jitter
        )

    def _sample_image(self, step: int, rng: np.random.Generator) -> AnnotatedImage:
        """Sample an image, with copy-paste, colour jitter and background augmentation."""
        dataset_index = int(rng.choice(len(self._dataset_sizes), p=self._dataset_shares(step)))
        image = self._image_cache.get(dataset_index, self._sample_image_index(dataset_index, rng))
        for _ in range(
            int(rng.integers(MAX_PASTED_IMAGES + 1)) if self._crop_config.copy_paste else 0
        ):
            source_image = self._image_cache.get(
                dataset_index, self._sample_image_index(dataset_index, rng)
            )
            image = paste_objects(image, source_image, rng, amodal=self._amodal)
        if self._crop_config.instance_colour_jitter:
            image = jitter_instance_colours(image, rng)
        if self._background_augmentation is not None:
            image = self._background_augmentation.apply(image, rng)
        return image

    def _sample_negative(self, image: AnnotatedImage, rng: np.random.Generator) -> AnnotatedImage:
        if self._background_augmentation is None:
            return image
        return self._background_augmentation.sample_negative(image, rng)

    def _sample_image_index(self, dataset_index: int, rng: np.random.Generator) -> int:
        probabilities = self._image_probabilities[dataset_index]
        if probabilities is None:
            return int(rng.integers(self._dataset_sizes[dataset_index]))
        return int(rng.choice(self._dataset_sizes[dataset_index], p=probabilities))

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
        """Sample a RoI crop of a sufficiently visible object, with a leading axis of 1."""
        side = get_roi_side_px(poses=image.object_coordinates is not None)
        rgb = np.zeros((side, side, 3), np.uint8)
        cells = side // SURFACE_STRIDE_PX
        coordinates = np.full((3, cells, cells), np.nan, np.float32)
        category = -1
        candidates = np.flatnonzero(select_classifiable(image, self._crop_config))
        if len(candidates):
            index = int(rng.choice(candidates))
            category = int(image.categories[index])
            rgb, matrix = sample_roi_crop(image, index, self._crop_config, side, rng)
            rgb = self._augment(rgb, rng)
            if image.object_coordinates is not None:
                coordinates = crop_object_coordinates(image, index, matrix, side)
        batched_coordinates = None if image.object_coordinates is None else coordinates[None]
        return RoiCrops(rgb[None], np.array([category]), batched_coordinates)

    def _augment(self, rgb: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
        if self._photometric is None:
            return rgb
        return self._photometric(rgb, int(rng.integers(2**31)))


def _concatenate_roi_crops(roi_crops: Sequence[RoiCrops]) -> RoiCrops:
    coordinates = [c.object_coordinates for c in roi_crops if c.object_coordinates is not None]
    return RoiCrops(
        np.concatenate([crop.rgb for crop in roi_crops]),
        np.concatenate([crop.categories for crop in roi_crops]),
        np.concatenate(coordinates) if coordinates else None,
    )


class TargetViewMaker:
    """Source of unlabelled target crops for any step.

    Args:
        target_images: unlabelled images.
        crop_config: how crops are sampled.
        batch: crops per step.
        photometric: augmentation of the second view; None if both views are equal.
        seed: seed of the run.
        cache_bytes: memory budget of decoded images.
    """

    def __init__(
        self,
        target_images: Dataset,
        crop_config: CropConfig,
        *,
        batch: int,
        photometric: PhotometricAugmentation | None,
        seed: int,
        cache_bytes: int,
    ) -> None:
        self._image_cache = ImageCache([target_images.samples], (), cache_bytes)
        self._n_images = len(target_images.samples)
        self._crop_config = crop_config
        self._slots = range(batch)[slice_batch(batch)]
        self._seed = seed
        self._photometric = photometric

    def make(self, step: int) -> TargetViews:
        """Return the target crops of a step, or this process's part of them.

        Raises:
            InputError: if an image cannot be read.
        """
        plain, augmented = zip(*(self._make_crop(step, slot) for slot in self._slots), strict=True)
        return TargetViews(np.stack(plain), np.stack(augmented))

    def _make_crop(self, step: int, slot: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        rng = derive_rng(self._seed, "captures", scene_index=step, attempt=slot)
        image = self._image_cache.get(0, int(rng.integers(self._n_images)))
        rgb = sample_crop(image, self._crop_config, rng).rgb
        if self._photometric is None:
            return rgb, rgb
        return rgb, self._photometric(rgb, int(rng.integers(2**31)))


def build_batch_maker(
    datasets: WeightedDatasets,
    categories: tuple[str, ...],
    tasks: Tasks,
    config: TrainConfig,
    background_images: Dataset | None = None,
    background_shares: Sequence[tuple[int, float]] = (),
    target_images: Dataset | None = None,
) -> BatchMaker:
    """Return the source of a training's batches.

    Args:
        datasets: labelled datasets and their weights.
        categories: names in the order of class indices.
        tasks: what the detector learns besides boxes.
        config: settings of the training.
        background_images: background images for objects; None without any.
        background_shares: number of images and share of each of their sources, as in ``BackgroundAugmentation``.
        target_images: unlabelled images of the target, backgrounds if ``config.target_backgrounds``.
    """
    background_augmentation = None
    cache_bytes = _limit_cache_bytes(config)
    if target_images is not None and config.adapt is not None:
        cache_bytes -= cache_bytes // BACKGROUND_CACHE_DIVISOR  # of ``build_view_maker``
    if background_images is not None or config.dead_leaves or config.target_backgrounds:
        has_files = background_images is not None or config.target_backgrounds
        share = cache_bytes // BACKGROUND_CACHE_DIVISOR if has_files else 0
        background_augmentation = BackgroundAugmentation(
            background_images,
            share,
            amodal=tasks.amodal,
            dead_leaves=config.dead_leaves,
            negative_share=config.negative_share,
            target_images=target_images if config.target_backgrounds else None,
            shares=background_shares,
        )
        cache_bytes -= share
    samples = [dataset.samples for dataset, _ in datasets]
    has_roi_network = config.roi_classifier or tasks.symmetry_rotations is not None
    return BatchMaker(
        datasets,
        ImageCache(samples, categories, cache_bytes, tasks),
        _make_crop_config(config),
        dataset_shares=lambda step: compute_dataset_shares(step, datasets, config),
        batch=config.batch,
        photometric=build_photometric(config),
        seed=config.seed,
        tasks=tasks,
        n_roi_crops=ROI_CROPS_PER_CROP if has_roi_network else 0,
        background_augmentation=background_augmentation,
    )


def build_view_maker(target_images: Dataset, config: TrainConfig) -> TargetViewMaker:
    """Return the source of target images for each step."""
    return TargetViewMaker(
        target_images,
        _make_crop_config(config),
        batch=config.batch,
        photometric=build_photometric(config),
        seed=config.seed,
        cache_bytes=_limit_cache_bytes(config) // BACKGROUND_CACHE_DIVISOR,
    )


def _limit_cache_bytes(config: TrainConfig) -> int:
    """Return the memory for all decoded images in bytes."""
    return int(min(config.cache_bytes, CACHE_MEMORY_SHARE * get_memory_bytes()))


def build_photometric(config: TrainConfig) -> PhotometricAugmentation | None:
    """Return the photometric augmentation of a training; None without."""
    return PhotometricAugmentation(strong=config.strong_colour) if config.photometric else None


def _make_crop_config(config: TrainConfig) -> CropConfig:
    return CropConfig(
        crop_px=config.crop_px,
        scale_range=config.scale_range,
        rotate_90=config.rotate_90,
        rotate_any=config.rotate_any,
        flips=config.flips,
        min_visible=config.min_visible,
        min_category_visible=config.min_category_visible,
        balance=config.balance,
        copy_paste=config.copy_paste,
        instance_colour_jitter=config.instance_colour_jitter,
        amodal=config.amodal,
        cell_px=1 if config.is_torchvision else STRIDE_PX,
    )
