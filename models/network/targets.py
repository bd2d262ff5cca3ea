"""What the detector should have said of a crop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from sim2cam.models.augment.crops import SegmentationLabels
from sim2cam.models.network.detector import STRIDE_PX, UNIT_PX
from sim2cam.models.training.images import Keypoints

HEATMAP_SIGMA = 0.09  # standard deviation of the heat, in sides of the object
MIN_SIGMA_CELLS = 0.45
POSITIVE_THRESHOLD = 0.5  # cells as hot as this also learn sides and category
MIN_DISTANCE_PX = 0.5

_PER_OBJECT_FIELDS = ("keypoints", "keypoint_visibility")


@dataclass(frozen=True)
class DetectorTargets:
    """The maps of one crop of h by w cells, or with a leading axis, of several.

    Attributes:
        heatmap: 1 at the cell of the middle of what is seen of an object, falling off around it (h, w) float32.
        heatmap_weight: 0 where nothing is learned of the heat, 1 elsewhere (h, w) float32.
        log_sides: as ``Maps.log_sides`` (4, h, w) float32.
        categories: class index (h, w) int64.
        object_weight: weight of sides and category; the cells of one object sum to 1 and all
            others are 0 (h, w) float32.
        object_indices: index of the object that a cell learns, -1 where it learns none (h, w) int64.
        keypoints: of every object, the named points of its category (n, k, 2), pixels, NaN where they are
            not known; None without keypoints. Those of several crops follow one another, as do those below.
        keypoint_visibility: which of them are seen (1) and which are hidden (0), NaN where it is not known (n, k).
        semantic: 0 for nothing that is labelled, 1 and the class index of what is, -1 where it is not known
            (h, w); None without masks.
        centre_offsets: as ``Maps.votes`` (2, h, w); None without masks.
        has_category: whether a cell's category is learned (h, w); None where all are.
    """

    heatmap: NDArray[np.float32]
    heatmap_weight: NDArray[np.float32]
    log_sides: NDArray[np.float32]
    categories: NDArray[np.int64]
    object_weight: NDArray[np.float32]
    object_indices: NDArray[np.int64]
    keypoints: NDArray[np.float32] | None = None
    keypoint_visibility: NDArray[np.float32] | None = None
    semantic: NDArray[np.int64] | None = None
    centre_offsets: NDArray[np.float32] | None = None
    has_category: NDArray[np.bool_] | None = None


def make_targets(
    boxes_xyxy: NDArray[np.float64],
    categories: NDArray[np.int64],
    ignored_boxes_xyxy: NDArray[np.float64],
    size_px: tuple[int, int],
    keypoints: Keypoints | None = None,
    segmentation: SegmentationLabels | None = None,
    has_category: NDArray[np.bool_] | None = None,
    visible_boxes_xyxy: NDArray[np.float64] | None = None,
    *,
    is_fully_labelled: bool = True,
) -> DetectorTargets:
    """Return the targets of a crop.

    Args:
        boxes_xyxy: the objects (n, 4), pixels of the crop; their centres lie inside it.
        categories: their class indices (n,).
        ignored_boxes_xyxy: regions in which nothing is known (m, 4).
        size_px: (height, width) of the crop, multiples of ``STRIDE_PX``.
        keypoints: of the objects, in pixels of the crop.
        segmentation: what the cells show.
        has_category: of which objects the category is learned (n,); of all when None.
        visible_boxes_xyxy: boxes of what is seen of the objects (n, 4), in the middle of which there is heat, and not on
            what hides them; those of the objects when None.
        is_fully_labelled: every object is labelled. Otherwise nothing is learned outside the boxes: what is not
            labelled may be an object that was missed.
    """
    height, width = size_px[0] // STRIDE_PX, size_px[1] // STRIDE_PX
    y, x = np.mgrid[:height, :width].astype(np.float64) + 0.5  # cell centres, in cells
    heat = np.zeros((height, width))
    log_sides = np.zeros((4, height, width))
    owner = np.full((height, width), -1)
    bumps = (boxes_xyxy if visible_boxes_xyxy is None else visible_boxes_xyxy) / STRIDE_PX
    for index, box in enumerate(boxes_xyxy / STRIDE_PX):
        bump = _render_gaussian(x, y, bumps[index])
        hotter = bump > heat
        heat[hotter] = bump[hotter]
        owner[hotter] = np.where(bump[hotter] >= POSITIVE_THRESHOLD, index, owner[hotter])
        mine = hotter & (bump >= POSITIVE_THRESHOLD)
        distances = np.stack([x - box[0], y - box[1], box[2] - x, box[3] - y])[:, mine] * STRIDE_PX
        log_sides[:, mine] = np.log(np.maximum(distances, MIN_DISTANCE_PX) / UNIT_PX)
    return DetectorTargets(
        heatmap=heat.astype(np.float32),
        heatmap_weight=_compute_heatmap_weight(
            None if is_fully_labelled else boxes_xyxy, ignored_boxes_xyxy, heat
        ),
        log_sides=log_sides.astype(np.float32),
        categories=np.where(owner >= 0, np.append(categories, 0)[owner], 0).astype(np.int64),
        object_weight=_compute_object_weight(owner, heat, len(boxes_xyxy)),
        object_indices=owner.astype(np.int64),
        keypoints=None if keypoints is None else keypoints.points_xy.astype(np.float32),
        keypoint_visibility=None if keypoints is None else keypoints.visibility.astype(np.float32),
        semantic=None if segmentation is None else segmentation.semantic,
        centre_offsets=None
        if segmentation is None
        else segmentation.centre_offsets.astype(np.float32),
        has_category=None if has_category is None else np.append(has_category, False)[owner],
    )


def stack_targets(crops: Sequence[DetectorTargets]) -> DetectorTargets:
    """Return the targets of crops of one size as one, with a leading axis of crops."""
    values = {f.name: [getattr(crop, f.name) for crop in crops] for f in fields(DetectorTargets)}
    there = {name: each for name, each in values.items() if each[0] is not None}
    lists = {name: there.pop(name) for name in _PER_OBJECT_FIELDS if name in there}
    maps = {name: np.stack(each) for name, each in there.items()}
    if not lists:
        return DetectorTargets(**maps)
    before = np.cumsum([0, *map(len, next(iter(lists.values()))[:-1])])[:, None, None]
    maps["object_indices"] = np.where(
        maps["object_indices"] < 0, -1, maps["object_indices"] + before
    )
    return DetectorTargets(**maps, **{name: np.concatenate(each) for name, each in lists.items()})


def _render_gaussian(
    x: NDArray[np.float64], y: NDArray[np.float64], box: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the heat of one object: a bell around the cell that holds the middle of a box."""
    height, width = x.shape
    column = min(max(int((box[0] + box[2]) / 2), 0), width - 1)
    row = min(max(int((box[1] + box[3]) / 2), 0), height - 1)
    spread_x = max(HEATMAP_SIGMA * (box[2] - box[0]), MIN_SIGMA_CELLS)
    spread_y = max(HEATMAP_SIGMA * (box[3] - box[1]), MIN_SIGMA_CELLS)
    squared = ((x - column - 0.5) / spread_x) ** 2 + ((y - row - 0.5) / spread_y) ** 2
    return np.asarray(np.exp(-0.5 * squared))


def _compute_heatmap_weight(
    known_boxes_xyxy: NDArray[np.float64] | None,
    ignored_boxes_xyxy: NDArray[np.float64],
    heatmap: NDArray[np.float64],
) -> NDArray[np.float32]:
    """Return the weight (h, w) of the heat of each cell: 0 outside known regions (None: all is known) and in
    ignored ones.
    """
    weight = np.full(heatmap.shape, 1 if known_boxes_xyxy is None else 0, np.float32)
    for box in () if known_boxes_xyxy is None else known_boxes_xyxy:
        weight[_select_cells(box)] = 1
    for box in ignored_boxes_xyxy:
        weight[_select_cells(box)] = 0
    weight[heatmap >= POSITIVE_THRESHOLD] = (
        1  # an object inside an ignored region is still an object
    )
    return weight


def _select_cells(box_xyxy: NDArray[np.float64]) -> tuple[slice, slice]:
    """Return the rows and columns of cells that a box touches."""
    x0, y0, x1, y1 = box_xyxy / STRIDE_PX
    return (
        slice(max(int(np.floor(y0)), 0), max(int(np.ceil(y1)), 0)),
        slice(max(int(np.floor(x0)), 0), max(int(np.ceil(x1)), 0)),
    )


def _compute_object_weight(
    object_indices: NDArray[np.intp], heatmap: NDArray[np.float64], n_objects: int
) -> NDArray[np.float32]:
    owned = np.where(object_indices >= 0, heatmap, 0.0)
    total = np.bincount(object_indices.ravel() + 1, owned.ravel(), n_objects + 1)  # 0 is nobody
    return (owned / np.maximum(total[object_indices + 1], 1e-9)).astype(np.float32)
