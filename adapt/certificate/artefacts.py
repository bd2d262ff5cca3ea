"""What a translation adds that no camera does: structure, grids, seams, clipped light."""

from __future__ import annotations

import cv2
import numpy as np

from sim2cam.adapt.certificate.pair import Floats, Pair, detail_of

_WINDOW_PX = 11
_TILE_PX = 8
_STRIP_PX = 4
_MOSTLY = 0.5  # share of a column that has to be flat for a step to be told
_FLAT = 8.0  # levels a pixel up to which the picture before has no edge
_CLIPPED = (2, 253)


def added_levels(pair: Pair) -> float:
    """Returns the contrast of the strongest structure that the picture before lacks, in levels.

    The standard deviation after in a window, times the share of it that the window before does not
    explain, whatever its tones, brightness and contrast became.
    """
    before, after = detail_of(pair.expected), pair.detail[1]
    of_before, of_after = (_box(detail * detail).clip(min=0.0) for detail in (before, after))
    both = _box(before * after).clip(min=0.0)
    explained = (both * both / (of_before * of_after + 1e-3)).clip(max=1.0)
    return float((np.sqrt(of_after) * (1.0 - explained)).max())


def grid_levels(pair: Pair) -> float:
    """Returns the contrast of a grid that repeats every 2, 4 or 8 pixels, in levels.

    It is what the mean of all tiles of 8x8 pixels shows more of after than before, so it is the
    height of the spectrum's peaks at these fractions of the sampling rate.
    """
    if min(pair.before.shape[:2]) < _TILE_PX:
        return 0.0  # nothing can repeat
    before, after = (_mean_tile(luma) for luma in pair.luma)
    return float((after - before).std())


def seam_levels(pair: Pair) -> float:
    """Returns the largest step in brightness along a whole row or column that was not there before."""
    lumas = pair.luma[0], pair.luma[1] - pair.expected
    across = _steps(*lumas)
    down = _steps(*(np.ascontiguousarray(luma.T) for luma in lumas))
    return max(across, down)


def clipped_share(pair: Pair) -> float:
    """Returns how much more of the picture, or of its objects, is without light or at its end."""
    clipped = [
        ((rgb <= _CLIPPED[0]) | (rgb >= _CLIPPED[1])).any(axis=2)
        for rgb in (pair.before, pair.after)
    ]
    more = np.asarray(clipped[1].astype(np.float64) - clipped[0])
    shares = [float(more.mean())]
    if pair.objects.any():
        shares.append(float(more[pair.objects].mean()))
    return max(0.0, *shares)


def _box(values: Floats) -> Floats:
    # differences of running sums may fall below zero
    return np.asarray(cv2.boxFilter(values, -1, (_WINDOW_PX, _WINDOW_PX)), np.float32)


def _mean_tile(luma: Floats) -> Floats:
    fine = luma - cv2.GaussianBlur(luma, (0, 0), _TILE_PX / 2)
    rows, columns = (side // _TILE_PX for side in luma.shape)
    cut = fine[: rows * _TILE_PX, : columns * _TILE_PX]
    return np.asarray(cut.reshape(rows, _TILE_PX, columns, _TILE_PX).mean(axis=(0, 2)))


def _steps(before: Floats, change: Floats) -> float:
    """Returns the largest step of a change from one column to the next, the median over its rows."""
    smooth = cv2.GaussianBlur(before, (0, 0), 1.0)
    slope = np.abs(cv2.Sobel(smooth, cv2.CV_32F, 1, 0, scale=1 / 8))
    flat = cv2.dilate(slope, np.ones((1, 2 * _STRIP_PX + 1))) < _FLAT
    kernel = np.repeat([-1.0, 1.0], _STRIP_PX)[None] / _STRIP_PX
    steps = np.where(flat, cv2.filter2D(change, cv2.CV_32F, kernel), np.nan)
    mostly = flat.mean(axis=0) >= _MOSTLY
    mostly[:_STRIP_PX] = mostly[-_STRIP_PX:] = False
    ranked = np.sort(steps[:, mostly], axis=0)  # NaN comes last
    middle = (flat[:, mostly].sum(axis=0) - 1) // 2
    medians = np.take_along_axis(ranked, middle[None], axis=0)
    return float(np.abs(medians).max(initial=0.0))
