"""Displacement of labelled objects by a translation, and structural correlation of images."""

from __future__ import annotations

from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.adapt.certificate.image_pair import Floats, ImagePair, ObjectRegion

SEARCH_RADIUS_PX = 6
MARGIN_PX = 4  # around an object, so that its outline is included
MIN_CONTRAST = 2.0  # least standard deviation of a template, in levels
MIN_IMAGE_CONTRAST = 1.0  # of a whole image, to which small objects add little
_MIN_SIDE_PX = 8
_MIN_STD = 1e-3  # floor of a standard deviation
_SHIFT_PENALTY = 0.03  # correlation per pixel of displacement


class TemplateMatch(NamedTuple):
    """Match of an object's source image in the translation.

    Attributes:
        shift_px: displacement of the best match.
        correlation: correlation at zero displacement, -1 to 1.
    """

    shift_px: float
    correlation: float


def match_objects(pair: ImagePair) -> list[TemplateMatch | None]:
    """Match each object; None for objects without contrast or at the image border."""
    return [_match_template(*pair.band_pass_luma, region) for region in pair.regions or ()]


def measure_image_correlation(pair: ImagePair) -> float | None:
    """Measure the correlation of the whole image before and after, -1 to 1; negative means inverted.

    Luma is band-pass filtered, so shadows and vignetting change it little. None for images without contrast.
    """
    before, after = (filtered - filtered.mean() for filtered in pair.band_pass_luma)
    if before.std() < MIN_IMAGE_CONTRAST:
        return None
    return float((before * after).mean() / (before.std() * max(after.std(), _MIN_STD)))


def _match_template(before: Floats, after: Floats, region: ObjectRegion) -> TemplateMatch | None:
    """Match by normalized cross-correlation, with a parabolic refinement of the peak."""
    rows, columns = region.pad_window(MARGIN_PX, before.shape, border_px=SEARCH_RADIUS_PX)
    template = before[rows, columns]
    if min(template.shape) < _MIN_SIDE_PX or template.std() < MIN_CONTRAST:
        return None
    search_area = after[
        rows.start - SEARCH_RADIUS_PX : rows.stop + SEARCH_RADIUS_PX,
        columns.start - SEARCH_RADIUS_PX : columns.stop + SEARCH_RADIUS_PX,
    ]
    correlations = np.asarray(
        cv2.matchTemplate(search_area, template, cv2.TM_CCOEFF_NORMED), np.float64
    )
    shifts = np.arange(-SEARCH_RADIUS_PX, SEARCH_RADIUS_PX + 1)
    penalty = _SHIFT_PENALTY * np.hypot(shifts[:, None], shifts[None, :])
    row, column = np.unravel_index(np.argmax(correlations - penalty), correlations.shape)
    shift_y = shifts[row] + _refine_peak(correlations[:, column], int(row))
    shift_x = shifts[column] + _refine_peak(correlations[row], int(column))
    return TemplateMatch(
        float(np.hypot(shift_y, shift_x)), float(correlations[SEARCH_RADIUS_PX, SEARCH_RADIUS_PX])
    )


def _refine_peak(values: NDArray[np.float64], index: int) -> float:
    """Return the offset of a parabola's peak, -0.5 to 0.5, from the highest value."""
    if not 0 < index < len(values) - 1:
        return 0.0
    left, middle, right = values[index - 1 : index + 2]
    curvature = left - 2 * middle + right
    return float(np.clip(0.5 * (left - right) / curvature, -0.5, 0.5)) if curvature < 0 else 0.0
