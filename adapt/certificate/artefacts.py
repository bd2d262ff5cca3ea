"""What a translation does that no camera does: structure added or lost, grids, seams, clipped light."""

from __future__ import annotations

import cv2
import numpy as np

from sim2cam.adapt.certificate.image_pair import Floats, ImagePair, ObjectRegion

_BOUNDARY_MARGIN_PX = 3  # of an object's inside; its outline has measures of its own
_MAX_PERIOD_PX = 24  # period of a grid
MIN_SIDE_PX = 2 * _MAX_PERIOD_PX
_MEDIAN_BINS = 5  # of the spectrum, among which a peak stands out
_STRIP_PX = 4
_MIN_FLAT_FRACTION = 0.5  # share of a column that has to be flat for a step to be told
_MAX_FLAT_GRADIENT = 8.0  # levels a pixel up to which the picture before has no edge
_CLIPPED_LEVELS = (2, 253)


def measure_added_structure(pair: ImagePair) -> float:
    """Return the contrast of the strongest structure that the picture before lacks, in levels.

    The standard deviation after in a window, times the share of it that the window before does not
    explain, whatever its tones, brightness and contrast became.
    """
    _, of_after, explained = pair.structure_statistics
    return float((of_after * (1.0 - explained)).max())


def measure_lost_structure(pair: ImagePair) -> list[float | None]:
    """Return of each object the contrast of the strongest structure within it that is gone, in levels.

    The mirror image of ``added_structure_levels``: the standard deviation before in a window, as the picture's
    tones became, times the share of it that the window after does not explain. Writing that was wiped
    off or moved is told so. None of an object too small to have an inside.
    """
    of_before, _, explained = pair.structure_statistics
    lost = of_before * (1.0 - explained)
    return [_max_inside_object(lost, region) for region in pair.regions or ()]


def _max_inside_object(values: Floats, region: ObjectRegion) -> float | None:
    """Return the most of values (h, w) within an object, away from its outline."""
    within = np.pad(region.mask.astype(np.uint8), 1)  # beyond its window is not the object
    inside = (
        cv2.erode(within, np.ones((2 * _BOUNDARY_MARGIN_PX + 1,) * 2, np.uint8))[1:-1, 1:-1] > 0
    )
    return float(values[region.window][inside].max()) if inside.any() else None


def measure_grid_artefact(pair: ImagePair) -> float | None:
    """Return the amplitude of the strongest wave that a grid has brought, in levels.

    A grid of any period up to ``_MAX_PERIOD_PX`` is a peak of the spectrum: by how much the amplitude of a
    frequency is higher after than before, as tones became, above the median around it. Noise, edges and
    the blocks of a JPEG have no such peaks. None of a picture with a side below ``MIN_SIDE_PX``, in
    which nothing can be said to repeat.
    """
    rows, columns = pair.before.shape[:2]
    if min(rows, columns) < MIN_SIDE_PX:
        return None
    more = _compute_amplitude_spectrum(pair.luma[1]) - _compute_amplitude_spectrum(
        pair.expected_luma
    )
    peaks = more - cv2.medianBlur(more.clip(min=0.0), _MEDIAN_BINS)
    down, right = np.fft.fftshift(np.fft.fftfreq(rows)), np.fft.rfftfreq(columns)
    return float(peaks[np.hypot(down[:, None], right) >= 1 / _MAX_PERIOD_PX].max())


def _compute_amplitude_spectrum(luma: Floats) -> Floats:
    """Return the amplitude of each wave of a picture (h, w // 2 + 1), its mean in the middle of a side."""
    fine = luma - cv2.GaussianBlur(luma, (0, 0), _MAX_PERIOD_PX / 3)
    window = np.outer(*(np.hanning(side) for side in luma.shape))
    waves = 2 * np.abs(np.fft.rfft2(fine * window)) / window.sum()
    return np.asarray(np.fft.fftshift(waves, axes=0), np.float32)


def measure_seam_step(pair: ImagePair) -> float | None:
    """Return the largest step in brightness along a whole row or column that was not there before.

    None of a picture without a row or column that is flat enough for a step to be told from what it shows.
    """
    lumas = pair.luma[0], pair.luma[1] - pair.expected_luma
    across = _measure_column_step(*lumas)
    down = _measure_column_step(*(np.ascontiguousarray(luma.T) for luma in lumas))
    return max((step for step in (across, down) if step is not None), default=None)


def measure_clipped_fraction(pair: ImagePair) -> float:
    """Return how much more of the picture, or of its objects, is without light or at its end."""
    clipped = [
        ((rgb <= _CLIPPED_LEVELS[0]) | (rgb >= _CLIPPED_LEVELS[1])).any(axis=2)
        for rgb in (pair.before, pair.after)
    ]
    more = np.asarray(clipped[1].astype(np.float64) - clipped[0])
    shares = [float(more.mean())]
    if pair.object_mask.any():
        shares.append(float(more[pair.object_mask].mean()))
    return max(0.0, *shares)


def _measure_column_step(before: Floats, change: Floats) -> float | None:
    """Return the largest step of a change from one column to the next, the median over its rows.

    None where no column is mostly flat.
    """
    smooth = cv2.GaussianBlur(before, (0, 0), 1.0)
    slope = np.abs(cv2.Sobel(smooth, cv2.CV_32F, 1, 0, scale=1 / 8))
    flat = cv2.dilate(slope, np.ones((1, 2 * _STRIP_PX + 1))) < _MAX_FLAT_GRADIENT
    kernel = np.repeat([-1.0, 1.0], _STRIP_PX)[None] / _STRIP_PX
    steps = np.where(flat, cv2.filter2D(change, cv2.CV_32F, kernel), np.nan)
    mostly = flat.mean(axis=0) >= _MIN_FLAT_FRACTION
    mostly[:_STRIP_PX] = mostly[-_STRIP_PX:] = False
    if not mostly.any():
        return None
    ranked = np.sort(steps[:, mostly], axis=0)  # NaN comes last
    middle = (flat[:, mostly].sum(axis=0) - 1) // 2
    medians = np.take_along_axis(ranked, middle[None], axis=0)
    return float(np.abs(medians).max())
