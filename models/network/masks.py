"""From what a detector says of every cell to the masks of what it found."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.geometry.run_length import RleMask
from sim2cam.models.network.detector import STRIDE_PX, UNIT_PX, DetectionMaps

Floats = NDArray[np.float64]

MIN_COMPETING_SCORE = 0.3
"""Less sure detections take no cells from others: most of them are of nothing, or of parts."""


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

    As in Panoptic-DeepLab (Cheng et al. 2020, section 3.2), what shows an object belongs to the
    detection whose centre is nearest to where it says that its object's centre is. A mask does not
    reach beyond its box by more than a cell.

    Args:
        maps: of one image, with masks.
        boxes_xyxy: of the detections (n, 4), pixels of the image.
        scores: theirs (n,).
        size: height and width of the image.
        input_scale: magnification before the network.
        indices: which detections have masks, and the others only take cells from them; all when None.
    """
    assert maps.segmentation is not None
    assert maps.centre_offsets is not None
    nothing = maps.segmentation[0].float().softmax(0)[0].cpu().numpy()
    offsets = maps.centre_offsets[0].float().cpu().numpy() * UNIT_PX
    cell_px = STRIDE_PX / input_scale
    row, column = np.mgrid[: nothing.shape[0], : nothing.shape[1]]
    votes = (np.stack([column, row]) + 0.5) * cell_px + offsets / input_scale  # (2, h, w)
    centres = (boxes_xyxy[:, :2] + boxes_xyxy[:, 2:]) / 2
    nearest = np.full(nothing.shape, np.inf)
    for centre in centres[scores >= MIN_COMPETING_SCORE]:
        nearest = np.minimum(nearest, _squared_distances(votes, centre))
    masks = []
    chosen = list(range(len(boxes_xyxy)) if indices is None else indices)
    canvas = np.zeros(size, np.bool_, order="F")  # as run lengths go
    for box, centre in zip(boxes_xyxy[chosen], centres[chosen], strict=True):
        low = np.maximum(np.floor(box[:2] - cell_px), 0).astype(int)
        high = np.minimum(np.ceil(box[2:] + cell_px), size[::-1]).astype(int)
        cells = tuple(
            slice(max(int(a / cell_px) - 1, 0), int(b / cell_px) + 2)
            for a, b in zip(low[::-1], high[::-1], strict=True)
        )
        mine = _squared_distances(votes[:, *cells], centre) <= nearest[cells]
        window = (slice(low[1], high[1]), slice(low[0], high[0]))
        start = np.array([cells[1].start, cells[0].start])
        canvas[window] = (
            upsample_window(mine * (1 - nothing[cells]), low, high, start, cell_px) > 0.5
        )
        masks.append(RleMask.from_mask(canvas))
        canvas[window] = False
    return tuple(masks)


def compute_category_masks(
    maps: DetectionMaps, categories: Sequence[str], size: tuple[int, int], input_scale: float
) -> dict[str, RleMask]:
    """Return the pixels of one image that show each category, by its name.

    Args:
        maps: of one image, with masks.
        categories: names in the order of class indices.
        size: height and width of the image.
        input_scale: magnification before the network.
    """
    assert maps.segmentation is not None
    origin, end = np.zeros(2, np.int64), np.array(size[::-1])
    logits = maps.segmentation[0].float().cpu().numpy()
    said = np.stack(
        [upsample_window(one, origin, end, origin, STRIDE_PX / input_scale) for one in logits]
    )
    shown = said.argmax(axis=0)
    return {name: RleMask.from_mask(shown == number) for number, name in enumerate(categories, 1)}


def _squared_distances(points: Floats, centre: Floats) -> Floats:
    """Return the squared distances (h, w) of places (2, h, w) to one."""
    return np.asarray(((points - centre[:, None, None]) ** 2).sum(axis=0))


def upsample_window(
    values: Floats, low: NDArray[np.int64], high: NDArray[np.int64], initial_weights: NDArray[np.int64],
    cell_px: float,
) -> NDArray[np.float32]:  # fmt: skip
    """Return values of cells, from a first one (x, y) on, at the pixels from ``low`` to ``high``."""
    shift = (
        (low + 0.5) / cell_px - 0.5 - initial_weights
    )  # OpenCV puts integers at the cells' centres
    to_cells = np.array([[1 / cell_px, 0, shift[0]], [0, 1 / cell_px, shift[1]]])
    width, height = (high - low).tolist()
    found = cv2.warpAffine(
        values.astype(np.float32),
        to_cells,
        (width, height),
        flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
        borderMode=cv2.BORDER_REPLICATE,
    )
    return np.asarray(found, np.float32)
