"""Random crops of annotated images with their labels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, cos, exp, log, pi, sin

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.models.network.detector import MEAN_RGB, STRIDE_PX, UNIT_PX
from sim2cam.models.training.config import BalanceCriterion
from sim2cam.models.training.images import (
    UNKNOWN_INSTANCE,
    AnnotatedImage,
    Keypoints,
    compute_bounding_boxes,
)

OBJECT_CENTRED_PROBABILITY = 0.8  # for crops around an object; the others are anywhere
MAX_CENTRE_OFFSET = 0.4  # of an object from the crop's centre, in sides of the crop
SUPERSAMPLE_BELOW_SCALE = 0.75  # lower scales would alias
MIN_OBJECT_SIDE_PX = 6.0  # smaller objects are ignored


@dataclass(frozen=True)
class CropConfig:
    """Settings for sampling crops.

    Attributes:
        crop_px: side of a crop.
        scale_range: smallest and largest input scale, sampled log-uniformly.
        rotate_90: rotate crops, but not RoI crops, by multiples of 90 degrees.
        rotate_any: rotate half of the crops with instance ids by any angle.
        flips: mirror half of the crops.
        min_visible: objects with a lower visible fraction are ignored.
        min_category_visible: objects with a lower visible fraction in the crop do not learn their category;
            parts outside the image count as hidden.
        balance: criteria for balanced sampling of images; empty for uniform sampling.
        copy_paste: paste objects from other images (``paste_objects``).
        instance_colour_jitter: shift the colours of each object (``jitter_instance_colours``).
        amodal: boxes include hidden parts; objects with no visible part in the crop are ignored.
        cell_px: side of the cells of ``SegmentationLabels``.
    """

    crop_px: int = 192
    scale_range: tuple[float, float] = (0.6, 1.6)
    rotate_90: bool = True
    rotate_any: bool = True
    flips: bool = True
    min_visible: float = 0.25
    min_category_visible: float = 0.0
    balance: tuple[BalanceCriterion, ...] = ()
    copy_paste: bool = False
    instance_colour_jitter: bool = False
    amodal: bool = False
    cell_px: int = STRIDE_PX


@dataclass(frozen=True, eq=False)
class SegmentationLabels:
    """Segmentation of a crop's cells.

    Attributes:
        semantic: 0 for background, 1 + class index for objects, -1 for unknown (h, w).
        centre_offsets: offset to the centre of the object's box in the crop, see ``DetectionMaps``; 0 for
            background (2, h, w).
        object_indices: index of the object in the crop, -1 for none (h, w).
    """

    semantic: NDArray[np.int64]
    centre_offsets: NDArray[np.float64]
    object_indices: NDArray[np.int64]


@dataclass(frozen=True)
class Crop:
    """Square crop of an image with its labels.

    Attributes:
        rgb: (side, side, 3) uint8.
        boxes_xyxy: boxes of the objects with centres inside, clipped (n, 4), pixels.
        categories: class indices (n,).
        ignored_boxes_xyxy: ignored regions (m, 4).
        keypoints: keypoints of the objects in pixels of the crop, with unknown visibility outside it; None
            without keypoints.
        segmentation: segmentation of the cells; None without an instance map.
        has_category: objects that learn their category (n,); None if all do.
        visible_boxes_xyxy: boxes of the visible parts in the crop (n, 4); None without amodal boxes.
        is_fully_labelled: see ``AnnotatedImage``.
    """

    rgb: NDArray[np.uint8]
    boxes_xyxy: NDArray[np.float64]
    categories: NDArray[np.int64]
    ignored_boxes_xyxy: NDArray[np.float64]
    keypoints: Keypoints | None = None
    segmentation: SegmentationLabels | None = None
    has_category: NDArray[np.bool_] | None = None
    visible_boxes_xyxy: NDArray[np.float64] | None = None
    is_fully_labelled: bool = True


def sample_crop(image: AnnotatedImage, crop_config: CropConfig, rng: np.random.Generator) -> Crop:
    """Sample a random crop of an image."""
    matrix = _sample_affine(image, crop_config, rng)
    boxes = _transform_boxes(image.outlines, matrix)
    clipped = boxes.clip(0, crop_config.crop_px)
    visible_boxes = (
        _transform_visible_boxes(image, matrix, crop_config.crop_px)
        if crop_config.amodal
        else clipped
    )
    is_target, ignored = _split_boxes(image, boxes, visible_boxes, crop_config)
    return Crop(
        rgb=warp_crop(image.rgb, matrix, crop_config.crop_px),
        boxes_xyxy=clipped[is_target],
        categories=image.categories[is_target],
        ignored_boxes_xyxy=clipped[ignored],
        keypoints=_transform_keypoints(image.keypoints, is_target, matrix, crop_config.crop_px),
        segmentation=_make_segmentation_labels(image, matrix, clipped, is_target, crop_config),
        has_category=None
        if crop_config.min_category_visible == 0
        else (
            image.visible_fractions * image.inside_fractions * _compute_areas(clipped)
            >= crop_config.min_category_visible * _compute_areas(boxes)
        )[is_target],
        visible_boxes_xyxy=visible_boxes[is_target] if crop_config.amodal else None,
        is_fully_labelled=image.is_fully_labelled,
    )


def sample_scale_and_flip(crop_config: CropConfig, rng: np.random.Generator) -> NDArray[np.float64]:
    """Sample scale and flip of a crop as a matrix (2, 2), without rotation."""
    low, high = crop_config.scale_range
    scale = exp(rng.uniform(log(low), log(high)))
    x_sign = -1.0 if crop_config.flips and rng.random() < 0.5 else 1.0
    return np.diag([x_sign * scale, scale])


def _sample_rotation(
    image: AnnotatedImage, crop_config: CropConfig, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Sample the rotation of a crop as a matrix (2, 2)."""
    angle = float(rng.integers(4)) * pi / 2 if crop_config.rotate_90 else 0.0
    if crop_config.rotate_any and image.is_rotatable and rng.random() < 0.5:
        angle = rng.uniform(0, 2 * pi)
    c, s = round(cos(angle), 12), round(sin(angle), 12)  # exact for quarter turns
    return np.array([[c, -s], [s, c]])


def _sample_affine(
    image: AnnotatedImage, crop_config: CropConfig, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Sample the affine map (2, 3) from image to crop; integer coordinates are pixel corners."""
    linear = _sample_rotation(image, crop_config, rng) @ sample_scale_and_flip(crop_config, rng)
    centre = _sample_centre(image, crop_config.crop_px / _get_scale(linear), rng)
    return np.column_stack([linear, crop_config.crop_px / 2 - linear @ centre])


def _sample_centre(
    image: AnnotatedImage, crop_side_px: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Sample the crop's centre in the image; a crop exceeds the image only if it is larger."""
    size = np.array([image.rgb.shape[1], image.rgb.shape[0]], np.float64)
    if len(image.outlines) and rng.random() < OBJECT_CENTRED_PROBABILITY:
        outline = image.outlines[int(rng.integers(len(image.outlines)))]
        object_centre = (outline.min(axis=0) + outline.max(axis=0)) / 2
        centre = (
            object_centre + rng.uniform(-MAX_CENTRE_OFFSET, MAX_CENTRE_OFFSET, 2) * crop_side_px
        )
    else:
        centre = rng.uniform(0, 1, 2) * size
    margin = np.minimum(crop_side_px / 2, size / 2)
    return np.asarray(np.clip(centre, margin, size - margin))


def warp_crop(rgb: NDArray[np.uint8], matrix: NDArray[np.float64], side: int) -> NDArray[np.uint8]:
    """Return the square crop of an image under an affine map (2, 3) with integers at pixel corners."""
    supersampling = max(ceil(SUPERSAMPLE_BELOW_SCALE / _get_scale(matrix)), 1)
    centred = _to_opencv_affine(matrix * supersampling)
    warped = cv2.warpAffine(
        rgb,
        centred,
        (side * supersampling, side * supersampling),
        flags=cv2.INTER_LINEAR,
        borderMode=cv2.BORDER_CONSTANT,
        borderValue=MEAN_RGB,
    )
    if supersampling > 1:
        warped = cv2.resize(warped, (side, side), interpolation=cv2.INTER_AREA)
    return np.asarray(warped, dtype=np.uint8)


def _get_scale(matrix: NDArray[np.float64]) -> float:
    return float(np.hypot(*matrix[:, 0]))


def _to_opencv_affine(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Convert a map with integers at pixel corners to OpenCV's convention of pixel centres."""
    shift = matrix[:, :2] @ (0.5, 0.5) - 0.5
    return np.column_stack([matrix[:, :2], matrix[:, 2] + shift])


def _transform_boxes(
    outlines: Iterable[NDArray[np.float64]], matrix: NDArray[np.float64]
) -> NDArray[np.float64]:
    return compute_bounding_boxes(_transform_points(outline, matrix) for outline in outlines)


def _transform_visible_boxes(
    image: AnnotatedImage, matrix: NDArray[np.float64], side: int
) -> NDArray[np.float64]:
    """Return boxes of the visible parts in the crop (n, 4), empty or NaN for hidden objects."""
    # two corners suffice because rotations are by multiples of 90 degrees
    corners = image.visible_boxes_xyxy.reshape(-1, 2, 2)
    return _transform_boxes(corners, matrix).clip(0, side)


def _transform_points(
    points: NDArray[np.float64], matrix: NDArray[np.float64]
) -> NDArray[np.float64]:
    return np.asarray(points @ matrix[:, :2].T + matrix[:, 2])


def _transform_keypoints(
    keypoints: Keypoints | None,
    is_target: NDArray[np.bool_],
    matrix: NDArray[np.float64],
    side: int,
) -> Keypoints | None:
    if keypoints is None:
        return None
    points_xy = _transform_points(keypoints.points_xy[is_target], matrix)
    visibility, flip_indices = keypoints.visibility[is_target], keypoints.flip_indices[is_target]
    if np.linalg.det(matrix[:, :2]) < 0:
        points_xy = np.take_along_axis(points_xy, flip_indices[:, :, None], axis=1)
        visibility = np.take_along_axis(visibility, flip_indices, axis=1)
    is_inside = np.asarray(((points_xy >= 0) & (points_xy < side)).all(axis=-1))
    return Keypoints(points_xy, np.where(is_inside, visibility, np.nan), flip_indices)


def _make_segmentation_labels(
    image: AnnotatedImage,
    matrix: NDArray[np.float64],
    boxes: NDArray[np.float64],
    is_target: NDArray[np.bool_],
    crop_config: CropConfig,
) -> SegmentationLabels | None:
    """Return the segmentation at the centres of cells.

    Unknown are groups, hardly visible objects and, in images that are not fully labelled, the background.
    """
    if image.instance_map is None:
        return None
    side = crop_config.crop_px // crop_config.cell_px
    to_cells = _to_opencv_affine(matrix / crop_config.cell_px)
    instance_map = cv2.warpAffine(
        image.instance_map, to_cells, (side, side), flags=cv2.INTER_NEAREST
    )
    is_known = ~image.ignored & (image.visible_fractions >= crop_config.min_visible)
    class_by_instance = np.concatenate(
        [[0 if image.is_fully_labelled else -1], np.where(is_known, image.categories + 1, -1), [-1]]
    )
    instances = np.where(instance_map == UNKNOWN_INSTANCE, len(class_by_instance) - 1, instance_map)
    semantic = class_by_instance[instances]
    centres = (boxes[:, :2] + boxes[:, 2:]) / 2
    centres = np.vstack([np.zeros((1, 2)), centres, np.zeros((1, 2))])
    row, column = np.mgrid[:side, :side]
    cells = (np.stack([column, row], -1) + 0.5) * crop_config.cell_px
    centre_offsets = np.where((semantic > 0)[..., None], centres[instances] - cells, 0) / UNIT_PX
    target_by_instance = np.concatenate(
        [[-1], np.where(is_target, np.cumsum(is_target) - 1, -1), [-1]]
    )
    return SegmentationLabels(
        semantic, centre_offsets.transpose(2, 0, 1), target_by_instance[instances]
    )


def _compute_areas(boxes_xyxy: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray((boxes_xyxy[:, 2:] - boxes_xyxy[:, :2]).prod(axis=1))


def _split_boxes(
    image: AnnotatedImage,
    boxes: NDArray[np.float64],
    visible_boxes: NDArray[np.float64],
    crop_config: CropConfig,
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return masks (n,) of the target boxes of the crop and of the ignored boxes."""
    side = crop_config.crop_px
    centres = (boxes[:, :2] + boxes[:, 2:]) / 2
    is_inside = ((centres >= 0) & (centres < side)).all(axis=1)
    shorter_side = (boxes[:, 2:] - boxes[:, :2]).min(axis=1)
    clipped = boxes.clip(0, side)
    touches_crop, is_visible = (
        ((box_set[:, 2:] - box_set[:, :2]) > 0).all(axis=1) for box_set in (clipped, visible_boxes)
    )
    is_known = (
        ~image.ignored
        & (image.visible_fractions >= crop_config.min_visible)
        & (shorter_side >= MIN_OBJECT_SIDE_PX)
    )
    is_target = is_inside & is_known & is_visible
    return is_target, touches_crop & ~is_target
