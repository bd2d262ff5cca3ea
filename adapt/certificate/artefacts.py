"""Translation artefacts that no camera causes: added or lost structure, grids, seams, clipping."""

from __future__ import annotations

import cv2
import numpy as np

from sim2cam.adapt.certificate.image_pair import Floats, ImagePair, ObjectRegion

_BOUNDARY_MARGIN_PX = 3  # from the outline, which edge recall measures
_MAX_PERIOD_PX = 24  # longest period of a grid
MIN_SIDE_PX = 2 * _MAX_PERIOD_PX
_MEDIAN_BINS = 5  # window of the median that a spectral peak is compared with
_STRIP_PX = 4
_MIN_FLAT_FRACTION = 0.5  # of a column, for a step to be measured
_MAX_FLAT_GRADIENT = 8.0  # levels per pixel; steeper gradients of the source are edges
_CLIPPED_LEVELS = (2, 253)


def measure_added_structure(pair: ImagePair) -> float:
    """Measure the contrast of the strongest structure that the source lacks, in levels.

    It is the maximum over windows of the standard deviation after, times the fraction not explained by the
    window before. Changes of tone, brightness and contrast do not count.
    """
    _, contrast_after, explained = pair.structure_statistics
    return float((contrast_after * (1.0 - explained)).max())


def measure_lost_structure(pair: ImagePair) -> list[float | None]:
    """Measure the contrast of the strongest lost structure within each object, in levels.

    It is the counterpart of ``measure_added_structure``: the standard deviation before (with the tone curve
    applied), times the fraction not explained by the window after. It detects erased or moved print. None for
    objects too small to have an interior.
    """
    contrast_before, _, explained = pair.structure_statistics
    lost = contrast_before * (1.0 - explained)
    return [_max_inside_object(lost, region) for region in pair.regions or ()]


def _max_inside_object(values: Floats, region: ObjectRegion) -> float | None:
    """Return the maximum of values (h, w) inside an object, away from its outline."""
    padded = np.pad(region.mask.astype(np.uint8), 1)  # pixels outside of the window are background
    inside = (
        cv2.erode(padded, np.ones((2 * _BOUNDARY_MARGIN_PX + 1,) * 2, np.uint8))[1:-1, 1:-1] > 0
    )
    return float(values[region.window][inside].max()) if inside.any() else None


def measure_grid_artefact(pair: ImagePair) -> float | None:
    """Measure the amplitude of the strongest periodic pattern that the translation adds, in levels.

    A grid with a period up to ``_MAX_PERIOD_PX`` is a peak of the spectrum: the increase of the amplitude of a
    frequency over the source with the tone curve applied, above the median of its neighbours. Noise, edges and
    JPEG blocks have no such peaks. None for images with a side below ``MIN_SIDE_PX``.
    """
    rows, columns = pair.before.shape[:2]
    if min(rows, columns) < MIN_SIDE_PX:
        return None
    increase = _compute_amplitude_spectrum(pair.luma[1]) - _compute_amplitude_spectrum(
        pair.expected_luma
    )
    peaks = increase - cv2.medianBlur(increase.clip(min=0.0), _MEDIAN_BINS)
    row_frequencies, column_frequencies = (
        np.fft.fftshift(np.fft.fftfreq(rows)),
        np.fft.rfftfreq(columns),
    )
    return float(
        peaks[np.hypot(row_frequencies[:, None], column_frequencies) >= 1 / _MAX_PERIOD_PX].max()
    )


def _compute_amplitude_spectrum(luma: Floats) -> Floats:
    """Return the amplitude spectrum (h, w // 2 + 1) of an image, with row frequency 0 in the middle."""
    fine = luma - cv2.GaussianBlur(luma, (0, 0), _MAX_PERIOD_PX / 3)
    window = np.outer(*(np.hanning(side) for side in luma.shape))
    waves = 2 * np.abs(np.fft.rfft2(fine * window)) / window.sum()
    return np.asarray(np.fft.fftshift(waves, axes=0), np.float32)


def measure_seam_step(pair: ImagePair) -> float | None:
    """Measure the largest added brightness step along a whole row or column, in levels.

    None for images without a row or column that is flat enough.
    """
    lumas = pair.luma[0], pair.luma[1] - pair.expected_luma
    across = _measure_column_step(*lumas)
    down = _measure_column_step(*(np.ascontiguousarray(luma.T) for luma in lumas))
    return max((step for step in (across, down) if step is not None), default=None)


def measure_clipped_fraction(pair: ImagePair) -> float:
    """Measure the increase of the fraction of clipped pixels, in the image or in its objects."""
    clipped = [
        ((rgb <= _CLIPPED_LEVELS[0]) | (rgb >= _CLIPPED_LEVELS[1])).any(axis=2)
        for rgb in (pair.before, pair.after)
    ]
    increase = np.asarray(clipped[1].astype(np.float64) - clipped[0])
    fractions = [float(increase.mean())]
    if pair.object_mask.any():
        fractions.append(float(increase[pair.object_mask].mean()))
    return max(0.0, *fractions)


def _measure_column_step(before: Floats, change: Floats) -> float | None:
    """Return the largest median step of a change (h, w) between adjacent columns.

    None if no column is mostly flat.
    """
    smooth = cv2.GaussianBlur(before, (0, 0), 1.0)
    slope = np.abs(cv2.Sobel(smooth, cv2.CV_32F, 1, 0, scale=1 / 8))
    flat = cv2.dilate(slope, np.ones((1, 2 * _STRIP_PX + 1))) < _MAX_FLAT_GRADIENT
    kernel = np.repeat([-1.0, 1.0], _STRIP_PX)[None] / _STRIP_PX
    steps = np.where(flat, cv2.filter2D(change, cv2.CV_32F, kernel), np.nan)
    is_valid = flat.mean(axis=0) >= _MIN_FLAT_FRACTION
    is_valid[:_STRIP_PX] = is_valid[-_STRIP_PX:] = False
    if not is_valid.any():
        return None
    sorted_steps = np.sort(steps[:, is_valid], axis=0)  # NaNs sort last
    median_index = (flat[:, is_valid].sum(axis=0) - 1) // 2
    medians = np.take_along_axis(sorted_steps, median_index[None], axis=0)
    return float(np.abs(medians).max())
