"""Annotated images of a training, decoded and cached in memory up to a budget."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import find_objects

from sim2cam.data.channels import read_channel
from sim2cam.data.keypoints import find_flip_indices
from sim2cam.data.sample import PSEUDO_LABELLED, ObjectLabel, Sample
from sim2cam.data.silhouettes import read_visible_masks
from sim2cam.errors import InputError
from sim2cam.geometry.run_length import RleMask
from sim2cam.images import read_rgb
from sim2cam.learn.prefetch import prefetch_in_processes

Floats = NDArray[np.float64]

PIXEL_CENTRE_OFFSET = 0.5
"""Offset from lens coordinates (pixel centres at integers) to box coordinates (pixel corners at integers)."""

UNKNOWN_INSTANCE = 65535
"""Value in ``AnnotatedImage.instance_map`` for pixels that may or may not show an object."""


@dataclass(frozen=True, eq=False)
class Tasks:
    """Learning tasks besides boxes and categories.

    Attributes:
        coordinate_scales_m: largest object coordinate of each category, (c,) in metres; None without poses.
        symmetry_rotations: symmetry rotations of each category (c, s, 3, 3); None without poses.
        amodal: learn boxes of whole objects including hidden parts.
        keypoints: keypoint names by category; empty without keypoints.
        masks: learn masks.
        cutouts: an augmentation cuts out objects, which needs instance masks.
    """

    coordinate_scales_m: Floats | None = None
    symmetry_rotations: Floats | None = None
    amodal: bool = False
    keypoints: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    masks: bool = False
    cutouts: bool = False

    @property
    def needs_instance_map(self) -> bool:
        """Whether the instance at each pixel must be known."""
        return self.masks or self.cutouts or self.amodal or self.coordinate_scales_m is not None


BOXES_ONLY = Tasks()
"""Boxes and categories only."""


@dataclass(frozen=True, eq=False)
class Keypoints:
    """Keypoints of several objects.

    Attributes:
        points_xy: (n, k, 2) in box coordinates, in the order of each object's category; NaN if unknown or
            beyond the category's number of keypoints.
        visibility: (n, k), 1 if visible, 0 if hidden, NaN if unknown.
        flip_indices: index of the keypoint that takes each place after mirroring (n, k).
    """

    points_xy: Floats
    visibility: Floats
    flip_indices: NDArray[np.int64]


@dataclass(frozen=True)
class AnnotatedImage:
    """Decoded image with its annotations.

    Attributes:
        rgb: (h, w, 3) uint8.
        outlines: per object points (k, 2) in pixels whose bounding box is the object's box under any affine
            transform: the hull of its mask, or else the corners of its box.
        categories: class indices (n,).
        ignored: whether an object is ignored (n,): a group, or fully hidden by augmentation.
        visible_fractions: visible fraction of the part inside the image, 1 if unknown (n,).
        inside_fractions: fraction of the object inside the image, 1 if unknown (n,).
        is_rotatable: whether each outline is a hull, so that boxes stay tight at any angle.
        keypoints: keypoints of each object; None without keypoint learning.
        instance_map: object of each pixel (h, w): 0 for background, object number from 1, or
            ``UNKNOWN_INSTANCE`` in the box of an object without a mask; None if no task needs it.
        object_coordinates: surface point of each pixel in the object frame, divided by the category's
            ``coordinate_scales_m`` (h, w, 3) float16, NaN if unknown; None without poses.
        is_fully_labelled: whether each object is labelled, so that the rest is background; False for
            pseudo-labels.
    """

    rgb: NDArray[np.uint8]
    outlines: tuple[NDArray[np.float64], ...]
    categories: NDArray[np.int64]
    ignored: NDArray[np.bool_]
    visible_fractions: NDArray[np.float64]
    inside_fractions: NDArray[np.float64]
    is_rotatable: bool
    keypoints: Keypoints | None = None
    instance_map: NDArray[np.uint16] | None = None
    object_coordinates: NDArray[np.float16] | None = None
    is_fully_labelled: bool = True

    @property
    def nbytes(self) -> int:
        """Memory of the pixel arrays in bytes."""
        arrays = (self.rgb, self.instance_map, self.object_coordinates)
        return sum(values.nbytes for values in arrays if values is not None)

    @cached_property
    def visible_boxes_xyxy(self) -> Floats:
        """Boxes of the visible parts of objects (n, 4) in pixels, NaN if an object is hidden.

        Without a complete instance map these are the bounding boxes of the outlines.
        """
        instance_map = get_complete_instance_map(self)
        if instance_map is None:
            return compute_bounding_boxes(self.outlines)
        boxes = np.full((len(self.outlines), 4), np.nan)
        for box, window in zip(boxes, find_objects(instance_map, len(boxes)), strict=True):
            if window is not None:
                rows, columns = window
                box[:] = columns.start, rows.start, columns.stop, rows.stop
        return boxes


def remove_objects(image: AnnotatedImage, rgb: NDArray[np.uint8]) -> AnnotatedImage:
    """Return an image with other pixels and without objects, with the same kinds of annotations.

    Args:
        rgb: pixels (h, w, 3) of the size of the image.
    """
    keypoints = image.keypoints
    return replace(
        image,
        rgb=rgb,
        outlines=(),
        categories=image.categories[:0],
        ignored=image.ignored[:0],
        visible_fractions=image.visible_fractions[:0],
        inside_fractions=image.inside_fractions[:0],
        keypoints=None
        if keypoints is None
        else Keypoints(
            keypoints.points_xy[:0], keypoints.visibility[:0], keypoints.flip_indices[:0]
        ),
        instance_map=None if image.instance_map is None else np.zeros_like(image.instance_map),
        object_coordinates=None
        if image.object_coordinates is None
        else np.full_like(image.object_coordinates, np.nan),
        is_fully_labelled=True,
    )


def get_complete_instance_map(image: AnnotatedImage) -> NDArray[np.uint16] | None:
    """Return the instance map of an image (h, w); None if pixels of an object are unknown."""
    instance_map = image.instance_map
    return None if instance_map is None or UNKNOWN_INSTANCE in instance_map else instance_map


def compute_bounding_boxes(outlines: Iterable[Floats]) -> Floats:
    """Return the bounding boxes (n, 4) of sets of points (k, 2)."""
    boxes = [np.concatenate([points.min(axis=0), points.max(axis=0)]) for points in outlines]
    return np.array(boxes, np.float64).reshape(-1, 4)


def read_annotated_image(
    sample: Sample, categories: Sequence[str], tasks: Tasks = BOXES_ONLY
) -> AnnotatedImage:
    """Read a labelled sample.

    Args:
        sample: the sample.
        categories: names in the order of class indices.
        tasks: what the detector learns besides boxes.

    Raises:
        InputError: if an image cannot be read, or its size differs from that of the labels.
    """
    objects = sample.objects or ()
    rgb = read_rgb(sample.rgb)
    if rgb.shape[:2] != (sample.height, sample.width):
        raise InputError(
            sample.rgb,
            f"{rgb.shape[1]}x{rgb.shape[0]} pixels, but its labels are for "
            f"{sample.width}x{sample.height}. Use the image that was labelled, or scale the labels.",
        )
    ids = read_channel("ids", sample.channels["ids"]) if "ids" in sample.channels else None
    hull_ids = None if tasks.amodal else ids  # hulls cover visible parts only
    hulls = [
        None if hull_ids is None else _compute_object_hull(label, hull_ids) for label in objects
    ]
    return AnnotatedImage(
        rgb=rgb,
        outlines=tuple(
            _get_box_corners(label) if hull is None else hull
            for label, hull in zip(objects, hulls, strict=True)
        ),
        categories=np.array([categories.index(label.category) for label in objects], np.int64),
        ignored=np.array([label.is_crowd for label in objects], np.bool_),
        visible_fractions=np.array(
            [
                1.0 if label.visible_fraction is None else label.visible_fraction
                for label in objects
            ],
            np.float64,
        ),
        inside_fractions=np.array(
            [1.0 - (label.truncation or 0.0) for label in objects], np.float64
        ),
        is_rotatable=hull_ids is not None and all(hull is not None for hull in hulls),
        keypoints=_make_keypoints(objects, tasks.keypoints) if tasks.keypoints else None,
        instance_map=_make_instance_map(sample) if tasks.needs_instance_map else None,
        object_coordinates=None
        if tasks.coordinate_scales_m is None
        else _read_object_coordinates(
            sample, ids, dict(zip(categories, tasks.coordinate_scales_m, strict=True))
        ),
        is_fully_labelled=sample.origin != PSEUDO_LABELLED,
    )


class ImageCache:
    """Cache of annotated images, thread-safe; images beyond the budget are decoded at each use.

    Args:
        datasets: samples of each dataset.
        categories: names in the order of class indices.
        budget_bytes: memory budget of decoded images.
        tasks: what the detector learns besides boxes.
    """

    def __init__(
        self,
        datasets: Sequence[Sequence[Sample]],
        categories: Sequence[str],
        budget_bytes: int,
        tasks: Tasks = BOXES_ONLY,
    ) -> None:
        self._datasets = datasets
        self._categories = categories
        self._remaining_bytes = budget_bytes
        self._tasks = tasks
        self._images: dict[tuple[int, int], AnnotatedImage] = {}
        self._lock = threading.Lock()

    def preload(self, processes: int) -> None:
        """Decode images in several processes until the budget is used up.

        Processes that are forked later share the memory.

        Raises:
            InputError: if a file cannot be read.
        """
        keys = [
            (dataset_index, image_index)
            for dataset_index, samples in enumerate(self._datasets)
            for image_index in range(len(samples))
        ]
        images = prefetch_in_processes(lambda i: self._read(*keys[i]), range(len(keys)), processes)
        for key, image in zip(keys, images, strict=True):
            # a copy, because each array in shared memory holds an open file
            if not self._store_if_room(key, copy.deepcopy(image)):
                break

    def get(self, dataset_index: int, image_index: int) -> AnnotatedImage:
        """Return an image.

        Raises:
            InputError: if its files cannot be read.
        """
        key = (dataset_index, image_index)
        cached = self._images.get(key)
        if cached is not None:
            return cached
        image = self._read(dataset_index, image_index)
        self._store_if_room(key, image)
        return image

    def _read(self, dataset_index: int, image_index: int) -> AnnotatedImage:
        return read_annotated_image(
            self._datasets[dataset_index][image_index], self._categories, self._tasks
        )

    def _store_if_room(self, key: tuple[int, int], image: AnnotatedImage) -> bool:
        """Store an image if the budget allows; return whether it is stored."""
        size = image.nbytes
        with self._lock:
            if key not in self._images and size <= self._remaining_bytes:
                self._remaining_bytes -= size
                self._images[key] = image
        return key in self._images


def _get_box_corners(label: ObjectLabel) -> NDArray[np.float64]:
    x0, y0, x1, y1 = label.box_xyxy
    return np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]], np.float64)


def _read_object_coordinates(
    sample: Sample, ids: NDArray[np.uint16] | None, coordinate_scales_m: Mapping[str, float]
) -> NDArray[np.float16]:
    """Return the object coordinates of an image; all NaN without the channels."""
    coordinates = np.full((sample.height, sample.width, 3), np.nan, np.float16)
    if ids is None or "coordinates" not in sample.channels:
        return coordinates
    fractions = read_channel("coordinates", sample.channels["coordinates"])
    for label in sample.objects or ():
        if label.extent_m is not None:
            low, high = np.array(label.extent_m)
            mask = ids == label.instance_id
            coordinates[mask] = (low + fractions[mask] * (high - low)) / coordinate_scales_m[
                label.category
            ]
    return coordinates


def _make_keypoints(
    objects: Sequence[ObjectLabel], names: Mapping[str, tuple[str, ...]]
) -> Keypoints:
    n_keypoints = max(map(len, names.values()))
    points_xy = np.full((len(objects), n_keypoints, 2), np.nan)
    visibility = np.full((len(objects), n_keypoints), np.nan)
    flip_indices = np.tile(np.arange(n_keypoints), (len(objects), 1))
    for row, label in enumerate(objects):
        category_names = names[label.category]
        order = find_flip_indices(category_names) or range(len(category_names))
        flip_indices[row, : len(category_names)] = order
        for point in label.keypoints or ():
            if point.visibility > 0:
                column = category_names.index(point.name)
                points_xy[row, column] = np.add(point.xy, PIXEL_CENTRE_OFFSET)
                visibility[row, column] = point.visibility == 2
    return Keypoints(points_xy, visibility, flip_indices)


def _make_instance_map(sample: Sample) -> NDArray[np.uint16]:
    objects, masks = sample.objects or (), read_visible_masks(sample)
    instance_map = np.zeros((sample.height, sample.width), np.uint16)
    for label, mask in zip(objects, masks, strict=True):
        if mask is None:
            instance_map[RleMask.from_box(label.box_xyxy, instance_map.shape).decode()] = (
                UNKNOWN_INSTANCE
            )
    for number, mask in enumerate(masks, 1):
        if mask is not None:
            instance_map[mask] = number
    return instance_map


def _compute_object_hull(label: ObjectLabel, ids: NDArray[np.uint16]) -> NDArray[np.float64] | None:
    """Return the hull of the object's visible pixels; None if there are none."""
    x0, y0 = (max(int(np.floor(v)), 0) for v in label.box_xyxy[:2])
    x1, y1 = (int(np.ceil(v)) for v in label.box_xyxy[2:])
    if label.instance_id is None:
        return None
    hull = compute_hull(ids[y0:y1, x0:x1] == label.instance_id)
    return None if hull is None else hull + np.array([x0, y0])


def compute_hull(mask: NDArray[np.bool_]) -> NDArray[np.float64] | None:
    """Return the hull (k, 2) of the pixel squares of a mask (h, w); None for an empty mask."""
    rows, columns = np.nonzero(mask)
    if not len(rows):
        return None
    corners = np.stack([columns, rows], axis=1)
    squares = np.concatenate([corners + offset for offset in ((0, 0), (1, 0), (0, 1), (1, 1))])
    return np.asarray(cv2.convexHull(squares.astype(np.int32)), np.float64).reshape(-1, 2)
