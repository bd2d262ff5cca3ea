"""Edge recall: the fraction of visible object outlines that survive a translation."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.adapt.certificate.image_pair import Floats, ImagePair, ObjectRegion

MIN_EDGE_GRADIENT = 3.0  # levels per pixel of a visible outline
MIN_PIXELS = 12  # of a visible outline
MIN_GRADIENT_RATIO = 0.3  # of the gradient before times the gain, for a pixel to survive
_GAIN_STRIDE_PX = 3  # sampling stride of the gain
_NEIGHBOUR_OFFSETS = [(down, right) for down in (-1, 0, 1) for right in (-1, 0, 1)]


def measure_edge_recalls(pair: ImagePair) -> list[float | None]:
    """Measure the fraction of each object's visible outline that survives, 0 to 1.

    An outline pixel survives if within one pixel there is an edge of the same direction that is not much flatter
    than the edges of the whole image became. None for objects whose outline was hardly visible.
    """
    if pair.ids is None:
        return []
    before, after = _compute_gradients(pair.before), _compute_gradients(pair.after)
    gain, boundary_mask = _estimate_gradient_gain(before, after), _extract_boundary_mask(pair.ids)
    return [
        _measure_edge_recall(before, after, gain, region, boundary_mask)
        for region in pair.regions or ()
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
    gradients = gradients_before[rows, columns]  # (n, 3, 2)
    magnitudes = np.linalg.norm(gradients, axis=2)
    channel = magnitudes.argmax(axis=1)  # an edge may exist in one channel only
    magnitude = magnitudes.max(axis=1, initial=0.0)
    is_visible = magnitude >= MIN_EDGE_GRADIENT
    if is_visible.sum() < MIN_PIXELS:
        return None
    rows, columns, channel, magnitude = (v[is_visible] for v in (rows, columns, channel, magnitude))
    direction = gradients[is_visible, channel] / magnitude[:, None]
    best_response = np.full(len(rows), -np.inf, np.float32)
    for down, right in _NEIGHBOUR_OFFSETS:
        y = (rows + down).clip(0, gradients_before.shape[0] - 1)
        x = (columns + right).clip(0, gradients_before.shape[1] - 1)
        best_response = np.maximum(
            best_response, (gradients_after[y, x, channel] * direction).sum(axis=1)
        )
    return float((best_response >= MIN_GRADIENT_RATIO * gain * magnitude).mean())


def _compute_gradients(rgb: NDArray[np.uint8]) -> Floats:
    """Return the x and y gradient (h, w, 3, 2) of each channel, in levels per pixel."""
    smooth = cv2.GaussianBlur(rgb.astype(np.float32), (0, 0), 1.0)
    gradients = [cv2.Scharr(smooth, cv2.CV_32F, x, 1 - x, scale=1 / 32) for x in (1, 0)]
    return np.stack(gradients, axis=3)


def _estimate_gradient_gain(gradients_before: Floats, gradients_after: Floats) -> float:
    """Estimate the median gain of the visible edges of the image, clipped to 0.1 to 1."""
    grid = np.s_[::_GAIN_STRIDE_PX, ::_GAIN_STRIDE_PX]
    magnitude_before, magnitude_after = (
        np.linalg.norm(gradients[grid], axis=3) for gradients in (gradients_before, gradients_after)
    )
    is_visible = magnitude_before >= MIN_EDGE_GRADIENT
    return (
        float(np.median(magnitude_after[is_visible] / magnitude_before[is_visible]).clip(0.1, 1.0))
        if is_visible.any()
        else 1.0
    )


def _extract_boundary_mask(ids: NDArray[np.uint16]) -> NDArray[np.bool_]:
    """Return the boundary pixels (h, w) of objects."""
    instance_ids = ids.astype(np.int32)
    padded = np.pad(instance_ids, 1, mode="edge")
    neighbours = (padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:])
    is_boundary = np.logical_or.reduce([neighbour != instance_ids for neighbour in neighbours])
    return np.asarray(is_boundary & (instance_ids > 0))
