"""Whether the outlines of objects are still seen."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.adapt.certificate.image_pair import Floats, ImagePair, ObjectRegion

MIN_EDGE_GRADIENT = 3.0  # levels a pixel from which an outline is seen
MIN_PIXELS = 12  # of a seen outline
MIN_GRADIENT_RATIO = (
    0.3  # share of its steepness, by the measure of the whole picture, that is enough
)
_GAIN_STRIDE_PX = 3  # pixels from one to the next of which the gain is taken
_NEIGHBOUR_OFFSETS = [(down, right) for down in (-1, 0, 1) for right in (-1, 0, 1)]


def measure_edge_recalls(pair: ImagePair) -> list[float | None]:
    """Return the share of each object's seen outline that is still seen, 0 to 1.

    Looked for is an edge of the same direction, not flatter than the rest of the picture became,
    within a pixel. None of an object whose outline was hardly seen.
    """
    if pair.ids is None:
        return []
    before, after = _compute_gradients(pair.before), _compute_gradients(pair.after)
    gain, outline = _estimate_gradient_gain(before, after), _extract_boundary_mask(pair.ids)
    return [
        _measure_edge_recall(before, after, gain, region, outline) for region in pair.regions or ()
    ]


def _measure_edge_recall(
    gradients_before: Floats,
    gradients_after: Floats,
    gain: float,
    region: ObjectRegion,
    boundary_mask: NDArray[np.bool_],
) -> float | None:
    rows, columns = np.nonzero(boundary_mask[region.window] & region.mask)
    rows, columns = rows + region.window[0].start, columns + region.window[1].start
    slopes = gradients_before[rows, columns]  # (n, 3, 2)
    steep = np.linalg.norm(slopes, axis=2)
    channel = steep.argmax(axis=1)  # an edge may be one of colour alone
    height = steep.max(axis=1, initial=0.0)
    seen = height >= MIN_EDGE_GRADIENT
    if seen.sum() < MIN_PIXELS:
        return None
    rows, columns, channel, height = (v[seen] for v in (rows, columns, channel, height))
    direction = slopes[seen, channel] / height[:, None]
    best = np.full(len(rows), -np.inf, np.float32)
    for down, right in _NEIGHBOUR_OFFSETS:
        y = (rows + down).clip(0, gradients_before.shape[0] - 1)
        x = (columns + right).clip(0, gradients_before.shape[1] - 1)
        best = np.maximum(best, (gradients_after[y, x, channel] * direction).sum(axis=1))
    return float((best >= MIN_GRADIENT_RATIO * gain * height).mean())


def _compute_gradients(rgb: NDArray[np.uint8]) -> Floats:
    """Return the slope (h, w, 3, 2) of each channel to the right and down, levels a pixel."""
    smooth = cv2.GaussianBlur(rgb.astype(np.float32), (0, 0), 1.0)
    slopes = [cv2.Scharr(smooth, cv2.CV_32F, x, 1 - x, scale=1 / 32) for x in (1, 0)]
    return np.stack(slopes, axis=3)


def _estimate_gradient_gain(gradients_before: Floats, gradients_after: Floats) -> float:
    """Return how much steeper the seen edges of the whole picture became, 0.1 to 1."""
    some = np.s_[::_GAIN_STRIDE_PX, ::_GAIN_STRIDE_PX]
    first, then = (
        np.linalg.norm(slopes[some], axis=3) for slopes in (gradients_before, gradients_after)
    )
    seen = first >= MIN_EDGE_GRADIENT
    return float(np.median(then[seen] / first[seen]).clip(0.1, 1.0)) if seen.any() else 1.0


def _extract_boundary_mask(ids: NDArray[np.uint16]) -> NDArray[np.bool_]:
    """Return the pixels (h, w) of objects beside which something else is."""
    whole = ids.astype(np.int32)
    edge = np.pad(whole, 1, mode="edge")
    sides = (edge[:-2, 1:-1], edge[2:, 1:-1], edge[1:-1, :-2], edge[1:-1, 2:])
    borders = np.logical_or.reduce([side != whole for side in sides])
    return np.asarray(borders & (whole > 0))
