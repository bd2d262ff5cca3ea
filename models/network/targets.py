"""Training targets of the detector network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from sim2cam.models.augment.crops import SegmentationLabels
from sim2cam.models.network.detector import STRIDE_PX, UNIT_PX
from sim2cam.models.training.images import Keypoints

HEATMAP_SIGMA = 0.09  # standard deviation relative to the object's sides
MIN_SIGMA_CELLS = 0.45
POSITIVE_THRESHOLD = 0.5  # lowest heatmap value of cells that learn box and category
MIN_DISTANCE_PX = 0.5

_PER_OBJECT_FIELDS = ("keypoints", "keypoint_visibility")


@dataclass(frozen=True)
class DetectorTargets:
    """Target maps of one crop of h by w cells, or of several with a leading axis.

    Attributes:
        heatmap: 1 at the centre of an object's visible part, falling off around it (h, w) float32.
        heatmap_weight: 0 in ignored cells, 1 elsewhere (h, w) float32.
        log_sides: see ``DetectionMaps.log_sides`` (4, h, w) float32.
        categories: class index (h, w) int64.
        object_weight: weight of box and category losses (h, w) float32; the cells of an object sum to 1,
            background is 0.
        object_indices: index of a cell's object, -1 for background (h, w) int64.
        keypoints: keypoints of each object (n, k, 2) in pixels, NaN if unknown; None without keypoints. Those
            of several crops are concatenated.
        keypoint_visibility: 1 for visible, 0 for hidden, NaN for unknown (n, k); concatenated as well.
        semantic: 0 for background, 1 + class index for objects, -1 for unknown (h, w); None without masks.
        centre_offsets: see ``DetectionMaps.centre_offsets`` (2, h, w); None without masks.
        has_category: whether a cell learns its category (h, w); None if all do.
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
    """Compute the targets of a crop.

    Args:
        boxes_xyxy: boxes of the objects (n, 4) in pixels of the crop, with centres inside it.
        categories: class indices (n,).
        ignored_boxes_xyxy: ignored regions (m, 4).
        size_px: height and width of the crop, multiples of ``STRIDE_PX``.
        keypoints: keypoints of the objects in pixels of the crop.
        segmentation: segmentation of the cells.
        has_category: objects whose category is learned (n,); None for all.
        visible_boxes_xyxy: boxes of the visible parts (n, 4), whose centres are heatmap peaks, so that peaks are
            not on occluders; None for ``boxes_xyxy``.
        is_fully_labelled: whether all objects are labelled; otherwise cells outside the boxes are ignored.
    """
    height, width = size_px[0] // STRIDE_PX, size_px[1] // STRIDE_PX
    y, x = np.mgrid[:height, :width].astype(np.float64) + 0.5  # cell centres, in cells
    heat = np.zeros((height, width))
    log_sides = np.zeros((4, height, width))
    object_indices = np.full((height, width), -1)
    peak_boxes = (boxes_xyxy if visible_boxes_xyxy is None else visible_boxes_xyxy) / STRIDE_PX
    for index, box in enumerate(boxes_xyxy / STRIDE_PX):
        gaussian = _render_gaussian(x, y, peak_boxes[index])
        is_higher = gaussian > heat
        heat[is_higher] = gaussian[is_higher]
        object_indices[is_higher] = np.where(
            gaussian[is_higher] >= POSITIVE_THRESHOLD, index, object_indices[is_higher]
        )
        is_positive = is_higher & (gaussian >= POSITIVE_THRESHOLD)
        distances = (
            np.stack([x - box[0], y - box[1], box[2] - x, box[3] - y])[:, is_positive] * STRIDE_PX
        )
        log_sides[:, is_positive] = np.log(np.maximum(distances, MIN_DISTANCE_PX) / UNIT_PX)
    return DetectorTargets(
        heatmap=heat.astype(np.float32),
        heatmap_weight=_compute_heatmap_weight(
            None if is_fully_labelled else boxes_xyxy, ignored_boxes_xyxy, heat
        ),
        log_sides=log_sides.astype(np.float32),
        categories=np.where(
            object_indices >= 0, np.append(categories, 0)[object_indices], 0
        ).astype(np.int64),
        object_weight=_compute_object_weight(object_indices, heat, len(boxes_xyxy)),
        object_indices=object_indices.astype(np.int64),
        keypoints=None if keypoints is None else keypoints.points_xy.astype(np.float32),
        keypoint_visibility=None if keypoints is None else keypoints.visibility.astype(np.float32),
        semantic=None if segmentation is None else segmentation.semantic,
        centre_offsets=None
        if segmentation is None
        else segmentation.centre_offsets.astype(np.float32),
        has_category=None
        if has_category is None
        else np.append(has_category, False)[object_indices],
    )


def stack_targets(crops: Sequence[DetectorTargets]) -> DetectorTargets:
    """Stack the targets of crops of one size along a leading axis."""
    fields_by_name = {
        field.name: [getattr(crop, field.name) for crop in crops]
        for field in fields(DetectorTargets)
    }
    present = {name: values for name, values in fields_by_name.items() if values[0] is not None}
    lists = {name: present.pop(name) for name in _PER_OBJECT_FIELDS if name in present}
    maps = {name: np.stack(values) for name, values in present.items()}
    if not lists:
        return DetectorTargets(**maps)
    offsets = np.cumsum([0, *map(len, next(iter(lists.values()))[:-1])])[:, None, None]
    maps["object_indices"] = np.where(
        maps["object_indices"] < 0, -1, maps["object_indices"] + offsets
    )
    return DetectorTargets(
        **maps, **{name: np.concatenate(values) for name, values in lists.items()}
    )


def _render_gaussian(
    x: NDArray[np.float64], y: NDArray[np.float64], box: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the heatmap of one object: a Gaussian around the cell at the centre of a box."""
    height, width = x.shape
    column = min(max(int((box[0] + box[2]) / 2), 0), width - 1)
    row = min(max(int((box[1] + box[3]) / 2), 0), height - 1)
    sigma_x = max(HEATMAP_SIGMA * (box[2] - box[0]), MIN_SIGMA_CELLS)
    sigma_y = max(HEATMAP_SIGMA * (box[3] - box[1]), MIN_SIGMA_CELLS)
    squared = ((x - column - 0.5) / sigma_x) ** 2 + ((y - row - 0.5) / sigma_y) ** 2
    return np.asarray(np.exp(-0.5 * squared))


def _compute_heatmap_weight(
    known_boxes_xyxy: NDArray[np.float64] | None,
    ignored_boxes_xyxy: NDArray[np.float64],
    heatmap: NDArray[np.float64],
) -> NDArray[np.float32]:
    """Return the weight (h, w) of each heatmap cell: 0 outside known boxes (None: all known) and in ignored ones."""
    weight = np.full(heatmap.shape, 1 if known_boxes_xyxy is None else 0, np.float32)
    for box in () if known_boxes_xyxy is None else known_boxes_xyxy:
        weight[_select_cells(box)] = 1
    for box in ignored_boxes_xyxy:
        weight[_select_cells(box)] = 0
    # an object inside an ignored region is still an object
    weight[heatmap >= POSITIVE_THRESHOLD] = 1
    return weight


def _select_cells(box_xyxy: NDArray[np.float64]) -> tuple[slice, slice]:
    """Return the rows and columns of the cells that a box touches."""
    x0, y0, x1, y1 = box_xyxy / STRIDE_PX
    return (
        slice(max(int(np.floor(y0)), 0), max(int(np.ceil(y1)), 0)),
        slice(max(int(np.floor(x0)), 0), max(int(np.ceil(x1)), 0)),
    )


def _compute_object_weight(
    object_indices: NDArray[np.intp], heatmap: NDArray[np.float64], n_objects: int
) -> NDArray[np.float32]:
    heat = np.where(object_indices >= 0, heatmap, 0.0)
    # index 0 is the background
    total = np.bincount(object_indices.ravel() + 1, heat.ravel(), n_objects + 1)
    return (heat / np.maximum(total[object_indices + 1], 1e-9)).astype(np.float32)
