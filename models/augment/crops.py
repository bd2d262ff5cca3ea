"""Crops of images at a random place, scale and turn, with their boxes."""

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

OBJECT_CENTRED_PROBABILITY = 0.8  # of the crops are laid around an object, the others anywhere
MAX_CENTRE_OFFSET = 0.4  # an object lies at most this far from the crop's centre, in crops
SUPERSAMPLE_BELOW_SCALE = 0.75  # smaller scales would alias
MIN_OBJECT_SIDE_PX = 6.0  # smaller objects are neither learned nor learned to be absent


@dataclass(frozen=True)
class CropConfig:
    """How crops are drawn.

    Attributes:
        crop_px: side of a crop.
        scale_range: smallest and largest magnification; its logarithm is uniform.
        rotate_90: crops are turned by multiples of 90 degrees. Close-ups are not.
        rotate_any: images with instance ids are, half of the time, turned by any angle.
        flips: half of the crops are mirrored.
        min_visible: objects less visible than this are neither learned nor learned to be absent.
        min_category_visible: of objects of which less is visible in the crop, the category is not learned; what lies
            beyond the picture's edge is not visible.
        balance: by what labelled pictures are drawn evenly; all alike without.
        copy_paste: objects of other pictures are laid before those of a picture (``crowded``).
        instance_colour_jitter: objects are seen in other shades (``recoloured``).
        amodal: boxes are of whole objects; one of which the crop shows nothing is not learned.
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
    """What the cells of a crop show.

    Attributes:
        semantic: 0 for nothing that is labelled, 1 and the class index of what is, -1 where it is not known
            (h, w).
        centre_offsets: where the centre of its box is, cut at the edge, as ``Maps`` has it; 0 where nothing is
            shown (2, h, w).
        object_indices: the number of the crop's object that each shows, -1 where it is none of these (h, w).
    """

    semantic: NDArray[np.int64]
    centre_offsets: NDArray[np.float64]
    object_indices: NDArray[np.int64]


@dataclass(frozen=True)
class Crop:
    """A square of an image.

    Attributes:
        rgb: (side, side, 3) uint8.
        boxes_xyxy: objects whose centre lies inside, cut at the edge (n, 4), pixels.
        categories: their class indices (n,).
        ignored_boxes_xyxy: regions in which nothing is known (m, 4).
        keypoints: of those objects, in pixels of the crop; whether one beyond its edge is seen is not
            known. None without keypoints.
        segmentation: what its cells show; None where the picture has no ``owners``.
        has_category: of those objects, whether the category is learned (n,); None where all are.
        visible_boxes_xyxy: of those objects, boxes of what the crop shows of them (n, 4); None where theirs are.
        is_fully_labelled: as ``Picture.is_complete``.
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
    """Return a random crop of a picture."""
    matrix = _sample_affine(image, crop_config, rng)
    boxes = _transform_boxes(image.outlines, matrix)
    cut = boxes.clip(0, crop_config.crop_px)
    seen = (
        _transform_visible_boxes(image, matrix, crop_config.crop_px) if crop_config.amodal else cut
    )
    learned, ignored = _split_boxes(image, boxes, seen, crop_config)
    return Crop(
        rgb=warp_crop(image.rgb, matrix, crop_config.crop_px),
        boxes_xyxy=cut[learned],
        categories=image.categories[learned],
        ignored_boxes_xyxy=cut[ignored],
        keypoints=_transform_keypoints(image.keypoints, learned, matrix, crop_config.crop_px),
        segmentation=_make_segmentation_labels(image, matrix, cut, learned, crop_config),
        has_category=None
        if crop_config.min_category_visible == 0
        else (
            image.visible_fractions * image.inside_fractions * _compute_areas(cut)
            >= crop_config.min_category_visible * _compute_areas(boxes)
        )[learned],
        visible_boxes_xyxy=seen[learned] if crop_config.amodal else None,
        is_fully_labelled=image.is_fully_labelled,
    )


def sample_scale_and_flip(crop_config: CropConfig, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return how a crop magnifies and mirrors (2, 2), before it is turned."""
    low, high = crop_config.scale_range
    scale = exp(rng.uniform(log(low), log(high)))
    mirror = -1.0 if crop_config.flips and rng.random() < 0.5 else 1.0
    return np.diag([mirror * scale, scale])


def _sample_rotation(
    image: AnnotatedImage, crop_config: CropConfig, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return how a crop is turned (2, 2)."""
    turn = float(rng.integers(4)) * pi / 2 if crop_config.rotate_90 else 0.0
    if crop_config.rotate_any and image.is_rotatable and rng.random() < 0.5:
        turn = rng.uniform(0, 2 * pi)
    c, s = round(cos(turn), 12), round(sin(turn), 12)  # exact for quarter turns
    return np.array([[c, -s], [s, c]])


def _sample_affine(
    image: AnnotatedImage, crop_config: CropConfig, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return the affine map (2, 3) from edge-based pixels of the image to those of the crop."""
    linear = _sample_rotation(image, crop_config, rng) @ sample_scale_and_flip(crop_config, rng)
    centre = _sample_centre(image, crop_config.crop_px / _get_scale(linear), rng)
    return np.column_stack([linear, crop_config.crop_px / 2 - linear @ centre])


def _sample_centre(
    image: AnnotatedImage, crop_side_px: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return the crop's centre in the image; crops reach over the edge only where they must."""
    size = np.array([image.rgb.shape[1], image.rgb.shape[0]], np.float64)
    if len(image.outlines) and rng.random() < OBJECT_CENTRED_PROBABILITY:
        outline = image.outlines[int(rng.integers(len(image.outlines)))]
        middle = (outline.min(axis=0) + outline.max(axis=0)) / 2
        centre = middle + rng.uniform(-MAX_CENTRE_OFFSET, MAX_CENTRE_OFFSET, 2) * crop_side_px
    else:
        centre = rng.uniform(0, 1, 2) * size
    margin = np.minimum(crop_side_px / 2, size / 2)
    return np.asarray(np.clip(centre, margin, size - margin))


def warp_crop(rgb: NDArray[np.uint8], matrix: NDArray[np.float64], side: int) -> NDArray[np.uint8]:
    """Return the square of an image that an affine map (2, 3) of edge-based pixels makes."""
    finer = max(ceil(SUPERSAMPLE_BELOW_SCALE / _get_scale(matrix)), 1)
    centred = _to_opencv_affine(matrix * finer)
    warped = cv2.warpAffine(
        rgb,
        centred,
        (side * finer, side * finer),
        flags=cv2.INTER_LINEAR,
        borderMode=cv2.BORDER_CONSTANT,
        borderValue=MEAN_RGB,
    )
    if finer > 1:
        warped = cv2.resize(warped, (side, side), interpolation=cv2.INTER_AREA)
    return np.asarray(warped, dtype=np.uint8)


def _get_scale(matrix: NDArray[np.float64]) -> float:
    return float(np.hypot(*matrix[:, 0]))


def _to_opencv_affine(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a map of edge-based pixels as OpenCV has it, which puts integers at their centres."""
    shift = matrix[:, :2] @ (0.5, 0.5) - 0.5
    return np.column_stack([matrix[:, :2], matrix[:, 2] + shift])


def _transform_boxes(
    outlines: Iterable[NDArray[np.float64]], matrix: NDArray[np.float64]
) -> NDArray[np.float64]:
    return compute_bounding_boxes(_transform_points(outline, matrix) for outline in outlines)


def _transform_visible_boxes(
    image: AnnotatedImage, matrix: NDArray[np.float64], side: int
) -> NDArray[np.float64]:
    """Return boxes of what a crop shows of the objects (n, 4), of no height or width or NaN where it is nothing."""
    opposite = image.visible_boxes_xyxy.reshape(
        -1, 2, 2
    )  # corners do: turns are by right angles alone
    return _transform_boxes(opposite, matrix).clip(0, side)


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
    places = _transform_points(keypoints.points_xy[is_target], matrix)
    seen, mirrored = keypoints.visibility[is_target], keypoints.flip_indices[is_target]
    if np.linalg.det(matrix[:, :2]) < 0:
        places = np.take_along_axis(places, mirrored[:, :, None], axis=1)
        seen = np.take_along_axis(seen, mirrored, axis=1)
    is_inside = np.asarray(((places >= 0) & (places < side)).all(axis=-1))
    return Keypoints(places, np.where(is_inside, seen, np.nan), mirrored)


def _make_segmentation_labels(
    image: AnnotatedImage, matrix: NDArray[np.float64], boxes: NDArray[np.float64],
    is_target: NDArray[np.bool_], crop_config: CropConfig,
) -> SegmentationLabels | None:  # fmt: skip
    """Return what is seen at the centres of cells. What is hardly visible and groups are not known, nor is
    background where objects may lack their labels.
    """
    if image.instance_map is None:
        return None
    side = crop_config.crop_px // crop_config.cell_px
    to_cells = _to_opencv_affine(matrix / crop_config.cell_px)
    owners = cv2.warpAffine(image.instance_map, to_cells, (side, side), flags=cv2.INTER_NEAREST)
    known = ~image.ignored & (image.visible_fractions >= crop_config.min_visible)
    kinds = np.concatenate(
        [[0 if image.is_fully_labelled else -1], np.where(known, image.categories + 1, -1), [-1]]
    )
    numbers = np.where(owners == UNKNOWN_INSTANCE, len(kinds) - 1, owners)
    shown = kinds[numbers]
    middles = (boxes[:, :2] + boxes[:, 2:]) / 2
    middles = np.vstack([np.zeros((1, 2)), middles, np.zeros((1, 2))])
    row, column = np.mgrid[:side, :side]
    cells = (np.stack([column, row], -1) + 0.5) * crop_config.cell_px
    votes = np.where((shown > 0)[..., None], middles[numbers] - cells, 0) / UNIT_PX
    places = np.concatenate([[-1], np.where(is_target, np.cumsum(is_target) - 1, -1), [-1]])
    return SegmentationLabels(shown, votes.transpose(2, 0, 1), places[numbers])


def _compute_areas(boxes_xyxy: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray((boxes_xyxy[:, 2:] - boxes_xyxy[:, :2]).prod(axis=1))


def _split_boxes(
    image: AnnotatedImage,
    boxes: NDArray[np.float64],
    visible_boxes: NDArray[np.float64],
    crop_config: CropConfig,
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which boxes (n,) of the crop are learned, and which are ignored."""
    side = crop_config.crop_px
    centres = (boxes[:, :2] + boxes[:, 2:]) / 2
    inside = ((centres >= 0) & (centres < side)).all(axis=1)
    whole_side = (boxes[:, 2:] - boxes[:, :2]).min(axis=1)
    cut = boxes.clip(0, side)
    touching, shown = (
        ((part[:, 2:] - part[:, :2]) > 0).all(axis=1) for part in (cut, visible_boxes)
    )
    known = (
        ~image.ignored
        & (image.visible_fractions >= crop_config.min_visible)
        & (whole_side >= MIN_OBJECT_SIDE_PX)
    )
    learned = inside & known & shown
    return learned, touching & ~learned
