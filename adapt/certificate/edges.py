"""Whether the outlines of objects are still seen."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.adapt.certificate.image_pair import Floats, Pair, Region

VISIBLE = 3.0  # levels a pixel from which an outline is seen
LEAST_PIXELS = 12  # of a seen outline
KEPT = 0.3  # share of its steepness, by the measure of the whole picture, that is enough
_EVERY = 3  # pixels from one to the next of which the gain is taken
_STEPS = [(down, right) for down in (-1, 0, 1) for right in (-1, 0, 1)]


def outline_recalls(pair: Pair) -> list[float | None]:
    """Returns the share of each object's seen outline that is still seen, 0 to 1.

    Looked for is an edge of the same direction, not flatter than the rest of the picture became,
    within a pixel. None of an object whose outline was hardly seen.
    """
    if pair.ids is None:
        return []
    before, after = _gradients(pair.before), _gradients(pair.after)
    gain, outline = _gain(before, after), _outline(pair.ids)
    return [_recall(before, after, gain, region, outline) for region in pair.regions or ()]


def _recall(
    before: Floats, after: Floats, gain: float, region: Region, outline: NDArray[np.bool_]
) -> float | None:
    rows, columns = np.nonzero(outline[region.window] & region.mask)
    rows, columns = rows + region.window[0].start, columns + region.window[1].start
    slopes = before[rows, columns]  # (n, 3, 2)
    steep = np.linalg.norm(slopes, axis=2)
    channel = steep.argmax(axis=1)  # an edge may be one of colour alone
    height = steep.max(axis=1, initial=0.0)
    seen = height >= VISIBLE
    if seen.sum() < LEAST_PIXELS:
        return None
    rows, columns, channel, height = (v[seen] for v in (rows, columns, channel, height))
    direction = slopes[seen, channel] / height[:, None]
    best = np.full(len(rows), -np.inf, np.float32)
    for down, right in _STEPS:
        y = (rows + down).clip(0, before.shape[0] - 1)
        x = (columns + right).clip(0, before.shape[1] - 1)
        best = np.maximum(best, (after[y, x, channel] * direction).sum(axis=1))
    return float((best >= KEPT * gain * height).mean())


def _gradients(rgb: NDArray[np.uint8]) -> Floats:
    """Returns the slope (h, w, 3, 2) of each channel to the right and down, levels a pixel."""
    smooth = cv2.GaussianBlur(rgb.astype(np.float32), (0, 0), 1.0)
    slopes = [cv2.Scharr(smooth, cv2.CV_32F, x, 1 - x, scale=1 / 32) for x in (1, 0)]
    return np.stack(slopes, axis=3)


def _gain(before: Floats, after: Floats) -> float:
    """Returns how much steeper the seen edges of the whole picture became, 0.1 to 1."""
    some = np.s_[::_EVERY, ::_EVERY]
    first, then = (np.linalg.norm(slopes[some], axis=3) for slopes in (before, after))
    seen = first >= VISIBLE
    return float(np.median(then[seen] / first[seen]).clip(0.1, 1.0)) if seen.any() else 1.0


def _outline(ids: NDArray[np.uint16]) -> NDArray[np.bool_]:
    """Returns the pixels (h, w) of objects beside which something else is."""
    whole = ids.astype(np.int32)
    edge = np.pad(whole, 1, mode="edge")
    sides = (edge[:-2, 1:-1], edge[2:, 1:-1], edge[1:-1, :-2], edge[1:-1, 2:])
    borders = np.logical_or.reduce([side != whole for side in sides])
    return np.asarray(borders & (whole > 0))
