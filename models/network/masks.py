"""Masks of instances and categories from the network's maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.geometry.run_length import RleMask
from sim2cam.models.network.detector import STRIDE_PX, UNIT_PX, DetectionMaps

Floats = NDArray[np.float64]

MIN_COMPETING_SCORE = 0.3
"""Detections with lower scores take no cells from others, since most are false or parts of objects."""


def compute_instance_masks(
    maps: DetectionMaps,
    boxes_xyxy: Floats,
    scores: Floats,
    size: tuple[int, int],
    input_scale: float,
    *,
    indices: Sequence[int] | None = None,
) -> tuple[RleMask, ...]:
    """Return the mask of each detection in one image.

    As in Panoptic-DeepLab (Cheng et al. 2020, section 3.2), each foreground cell belongs to the detection whose
    centre is nearest to its predicted object centre. A mask exceeds its box by at most one cell.

    Args:
        maps: maps of one image, with masks.
        boxes_xyxy: boxes of the detections (n, 4) in pixels of the image.
        scores: scores of the detections (n,).
        size: height and width of the image.
        input_scale: scale of the image before the network.
        indices: detections to compute masks for; the others only compete for cells. None for all.
    """
    assert maps.segmentation is not None
    assert maps.centre_offsets is not None
    background = maps.segmentation[0].float().softmax(0)[0].cpu().numpy()
    offsets = maps.centre_offsets[0].float().cpu().numpy() * UNIT_PX
    cell_px = STRIDE_PX / input_scale
    row, column = np.mgrid[: background.shape[0], : background.shape[1]]
    predicted_centres = (
        np.stack([column, row]) + 0.5
    ) * cell_px + offsets / input_scale  # (2, h, w)
    centres = (boxes_xyxy[:, :2] + boxes_xyxy[:, 2:]) / 2
    nearest_distances = np.full(background.shape, np.inf)
    for centre in centres[scores >= MIN_COMPETING_SCORE]:
        nearest_distances = np.minimum(
            nearest_distances, _squared_distances(predicted_centres, centre)
        )
    masks = []
    selected = list(range(len(boxes_xyxy)) if indices is None else indices)
    canvas = np.zeros(size, np.bool_, order="F")  # column-major, as in run-length encoding
    for box, centre in zip(boxes_xyxy[selected], centres[selected], strict=True):
        low = np.maximum(np.floor(box[:2] - cell_px), 0).astype(int)
        high = np.minimum(np.ceil(box[2:] + cell_px), size[::-1]).astype(int)
        cells = tuple(
            slice(max(int(a / cell_px) - 1, 0), int(b / cell_px) + 2)
            for a, b in zip(low[::-1], high[::-1], strict=True)
        )
        is_assigned = (
            _squared_distances(predicted_centres[:, *cells], centre) <= nearest_distances[cells]
        )
        window = (slice(low[1], high[1]), slice(low[0], high[0]))
        first_cell_xy = np.array([cells[1].start, cells[0].start])
        canvas[window] = (
            upsample_window(
                is_assigned * (1 - background[cells]), low, high, first_cell_xy, cell_px
            )
            > 0.5
        )
        masks.append(RleMask.from_mask(canvas))
        canvas[window] = False
    return tuple(masks)


def compute_category_masks(
    maps: DetectionMaps, categories: Sequence[str], size: tuple[int, int], input_scale: float
) -> dict[str, RleMask]:
    """Return the mask of each category in one image, by name.

    Args:
        maps: maps of one image, with masks.
        categories: names in the order of class indices.
        size: height and width of the image.
        input_scale: scale of the image before the network.
    """
    assert maps.segmentation is not None
    logits = maps.segmentation[0].float().cpu().numpy()
    return decode_category_masks(logits, categories, size, STRIDE_PX / input_scale)


def decode_category_masks(
    logits: NDArray[np.float32], categories: Sequence[str], size: tuple[int, int], cell_px: float
) -> dict[str, RleMask]:
    """Return the mask of each category from logits of background and categories (1 + c, h, w)."""
    origin, end = np.zeros(2, np.int64), np.array(size[::-1])
    upsampled = np.stack(
        [upsample_window(values, origin, end, origin, cell_px) for values in logits]
    )
    class_map = upsampled.argmax(axis=0)
    return {name: RleMask.from_mask(class_map == index) for index, name in enumerate(categories, 1)}


def _squared_distances(points: Floats, centre: Floats) -> Floats:
    """Return the squared distances (h, w) of points (2, h, w) to a point."""
    return np.asarray(((points - centre[:, None, None]) ** 2).sum(axis=0))


def upsample_window(
    values: NDArray[np.floating[Any]],
    low: NDArray[np.int64],
    high: NDArray[np.int64],
    first_cell_xy: NDArray[np.int64],
    cell_px: float,
) -> NDArray[np.float32]:
    """Interpolate cell values at the pixels from ``low`` to ``high``.

    Args:
        values: values of cells (h, w).
        low: first pixel (x, y).
        high: pixel after the last one (x, y).
        first_cell_xy: indices of the first cell in ``values``.
        cell_px: side of a cell in pixels.
    """
    # OpenCV has integer coordinates at the centres of cells
    shift = (low + 0.5) / cell_px - 0.5 - first_cell_xy
    to_cells = np.array([[1 / cell_px, 0, shift[0]], [0, 1 / cell_px, shift[1]]])
    width, height = (high - low).tolist()
    upsampled = cv2.warpAffine(
        values.astype(np.float32),
        to_cells,
        (width, height),
        flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
        borderMode=cv2.BORDER_REPLICATE,
    )
    return np.asarray(upsampled, np.float32)
