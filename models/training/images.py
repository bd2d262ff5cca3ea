"""Decoded images with what crops need of their labels, kept in memory up to a budget."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
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
"""Where boxes have a place that lenses have at 0: theirs are from the pixel's corner."""

UNKNOWN_INSTANCE = 65535
"""In ``Picture.owners``: there may be an object, or not."""


@dataclass(frozen=True, eq=False)
class Tasks:
    """What is learned of objects besides their boxes and categories.

    Attributes:
        coordinate_scales_m: the largest coordinate of a point of the object of every category (c,); None without
            poses.
        symmetry_rotations: the rotations that leave it as it is (c, s, 3, 3); None without poses.
        amodal: whether boxes are of whole objects.
        keypoints: names of the points of every category, by its name; empty without keypoints.
        masks: whether masks are.
        cutouts: whether objects are cut out of their pictures, which takes knowing their pixels.
    """

    coordinate_scales_m: Floats | None = None
    symmetry_rotations: Floats | None = None
    amodal: bool = False
    keypoints: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    masks: bool = False
    cutouts: bool = False

    @property
    def needs_instance_map(self) -> bool:
        """Whether it must be known which object each pixel shows."""
        return self.masks or self.cutouts or self.amodal or self.coordinate_scales_m is not None


BOXES_ONLY = Tasks()
"""Boxes and categories alone."""


@dataclass(frozen=True, eq=False)
class Keypoints:
    """Named points of several objects.

    Attributes:
        points_xy: (n, k, 2) in the order in which the category of each has them, pixels as boxes have
            them; NaN where they are not known and where it has fewer.
        visibility: 1 where it is seen, 0 where it is hidden, NaN where neither is known (n, k).
        flip_indices: which one a mirror shows in the place of each (n, k).
    """

    points_xy: Floats
    visibility: Floats
    flip_indices: NDArray[np.int64]


@dataclass(frozen=True)
class AnnotatedImage:
    """One decoded image.

    Attributes:
        rgb: (height, width, 3) uint8.
        outlines: for every object, points whose bounding box is the object's box under any affine
            map, (k, 2), pixels: the hull of its mask, or else the corners of its box.
        categories: class indices (n,).
        ignored: objects that are groups (n,).
        visible_fractions: visible fractions of what lies inside the picture, 1 where unknown (n,).
        inside_fractions: shares that lie there, 1 where unknown (n,).
        is_rotatable: every outline is a hull, so boxes stay tight at any angle.
        keypoints: of every object; None without keypoints.
        instance_map: what each pixel shows: 0 nothing that is labelled, the number of an object from 1, or
            ``UNKNOWN_INSTANCE`` in the box of one without a mask (h, w); None where no task needs them.
        object_coordinates: which point of that object's surface, in its frame over its reach, NaN where it is not known
            (h, w, 3) float16; None without poses.
        is_fully_labelled: every object is labelled, so all else is background; a detector that labelled it may have
            missed some.
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
        """Memory that what is known of pixels takes; the other labels are few."""
        kept = (self.rgb, self.instance_map, self.object_coordinates)
        return sum(values.nbytes for values in kept if values is not None)

    @cached_property
    def visible_boxes_xyxy(self) -> Floats:
        """Boxes of what is seen of the objects (n, 4), pixels: NaN where nothing is, and their own where it is
        not known which pixels show them.
        """
        owners = get_complete_instance_map(self)
        if owners is None:
            return compute_bounding_boxes(self.outlines)
        seen = np.full((len(self.outlines), 4), np.nan)
        for box, window in zip(seen, find_objects(owners, len(seen)), strict=True):
            if window is not None:
                rows, columns = window
                box[:] = columns.start, rows.start, columns.stop, rows.stop
        return seen


def get_complete_instance_map(image: AnnotatedImage) -> NDArray[np.uint16] | None:
    """Return what each pixel of a picture shows (h, w); None where that is not known of all of them."""
    owners = image.instance_map
    return None if owners is None or UNKNOWN_INSTANCE in owners else owners


def compute_bounding_boxes(outlines: Iterable[Floats]) -> Floats:
    """Return the bounding boxes (n, 4) of points (k, 2)."""
    boxes = [np.concatenate([points.min(axis=0), points.max(axis=0)]) for points in outlines]
    return np.array(boxes, np.float64).reshape(-1, 4)


def read_annotated_image(
    sample: Sample, categories: Sequence[str], tasks: Tasks = BOXES_ONLY
) -> AnnotatedImage:
    """Return a labelled sample as crops need it.

    Args:
        sample: the sample.
        categories: names in the order of class indices.
        tasks: what is learned.

    Raises:
        InputError: an image cannot be read, or is not of the size that its labels are for.
    """
    objects = sample.objects or ()
    rgb = read_rgb(sample.rgb)
    if rgb.shape[:2] != (sample.height, sample.width):
        raise InputError(
            sample.rgb,
            f"{rgb.shape[1]}x{rgb.shape[0]} pixels, but its labels are for "
            f"{sample.width}x{sample.height}.",
        )
    ids = read_channel("ids", sample.channels["ids"]) if "ids" in sample.channels else None
    seen = None if tasks.amodal else ids  # hulls are of what is seen
    hulls = [None if seen is None else _compute_object_hull(label, seen) for label in objects]
    return AnnotatedImage(
        rgb=rgb,
        outlines=tuple(
            _get_box_corners(label) if hull is None else hull
            for label, hull in zip(objects, hulls, strict=True)
        ),
        categories=np.array([categories.index(o.category) for o in objects], np.int64),
        ignored=np.array([o.is_crowd for o in objects], np.bool_),
        visible_fractions=np.array(
            [1.0 if o.visible_fraction is None else o.visible_fraction for o in objects], np.float64
        ),
        inside_fractions=np.array([1.0 - (o.truncation or 0.0) for o in objects], np.float64),
        is_rotatable=seen is not None and all(hull is not None for hull in hulls),
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
    """Pictures by part and number, decoded once as long as the budget lasts; safe with threads.

    Args:
        datasets: the samples of each part.
        categories: names in the order of class indices.
        budget_bytes: decoded images beyond this are decoded at every use.
        tasks: what is learned.
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
        """Decode pictures until the budget is used up, in several processes. Those forked later share them.

        Raises:
            InputError: a file cannot be read.
        """
        keys = [
            (part, n) for part, samples in enumerate(self._datasets) for n in range(len(samples))
        ]
        read = prefetch_in_processes(lambda i: self._read(*keys[i]), range(len(keys)), processes)
        for key, picture in zip(keys, read, strict=True):
            if not self._store_if_room(
                key, copy.deepcopy(picture)
            ):  # what is shared takes an open file
                break

    def get(self, dataset_index: int, image_index: int) -> AnnotatedImage:
        """Return a picture.

        Raises:
            InputError: its files cannot be read.
        """
        key = (dataset_index, image_index)
        kept = self._images.get(key)
        if kept is not None:
            return kept
        picture = self._read(dataset_index, image_index)
        self._store_if_room(key, picture)
        return picture

    def _read(self, dataset_index: int, image_index: int) -> AnnotatedImage:
        return read_annotated_image(
            self._datasets[dataset_index][image_index], self._categories, self._tasks
        )

    def _store_if_room(self, key: tuple[int, int], image: AnnotatedImage) -> bool:
        """Keep a picture as far as there is room, and returns whether it is there."""
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
    """Return the ``points`` of a picture; of one without channels for them, none is known."""
    points = np.full((sample.height, sample.width, 3), np.nan, np.float16)
    if ids is None or "coordinates" not in sample.channels:
        return points
    shares = read_channel("coordinates", sample.channels["coordinates"])
    for label in sample.objects or ():
        if label.extent_m is not None:
            low, high = np.array(label.extent_m)
            mine = ids == label.instance_id
            points[mine] = (low + shares[mine] * (high - low)) / coordinate_scales_m[label.category]
    return points


def _make_keypoints(
    objects: Sequence[ObjectLabel], names: Mapping[str, tuple[str, ...]]
) -> Keypoints:
    most = max(map(len, names.values()))
    places = np.full((len(objects), most, 2), np.nan)
    seen = np.full((len(objects), most), np.nan)
    others = np.tile(np.arange(most), (len(objects), 1))
    for row, label in enumerate(objects):
        ours = names[label.category]
        order = find_flip_indices(ours) or range(len(ours))
        others[row, : len(ours)] = order
        for point in label.keypoints or ():
            if point.visibility > 0:
                column = ours.index(point.name)
                places[row, column] = np.add(point.xy, PIXEL_CENTRE_OFFSET)
                seen[row, column] = point.visibility == 2
    return Keypoints(places, seen, others)


def _make_instance_map(sample: Sample) -> NDArray[np.uint16]:
    objects, masks = sample.objects or (), read_visible_masks(sample)
    owners = np.zeros((sample.height, sample.width), np.uint16)
    for label, mask in zip(objects, masks, strict=True):
        if mask is None:
            owners[RleMask.from_box(label.box_xyxy, owners.shape).decode()] = UNKNOWN_INSTANCE
    for number, mask in enumerate(masks, 1):
        if mask is not None:
            owners[mask] = number
    return owners


def _compute_object_hull(label: ObjectLabel, ids: NDArray[np.uint16]) -> NDArray[np.float64] | None:
    """Return the hull of the pixels that show the object; None when there are none."""
    x0, y0 = (max(int(np.floor(v)), 0) for v in label.box_xyxy[:2])
    x1, y1 = (int(np.ceil(v)) for v in label.box_xyxy[2:])
    if label.instance_id is None:
        return None
    hull = compute_hull(ids[y0:y1, x0:x1] == label.instance_id)
    return None if hull is None else hull + np.array([x0, y0])


def compute_hull(mask: NDArray[np.bool_]) -> NDArray[np.float64] | None:
    """Return the hull (k, 2) of the squares of the pixels of a mask (h, w); None when there are none."""
    rows, columns = np.nonzero(mask)
    if not len(rows):
        return None
    corner = np.stack([columns, rows], axis=1)
    squares = np.concatenate([corner + offset for offset in ((0, 0), (1, 0), (0, 1), (1, 1))])
    return np.asarray(cv2.convexHull(squares.astype(np.int32)), np.float64).reshape(-1, 2)
