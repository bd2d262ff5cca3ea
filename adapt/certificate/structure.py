"""Whether objects stay where they are, and light stays light."""

from __future__ import annotations

from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.adapt.certificate.image_pair import Floats, ImagePair, ObjectRegion

SEARCH_RADIUS_PX = 6
MARGIN_PX = 4  # of what is around an object, so that its outline counts
MIN_CONTRAST = 2.0  # standard deviation in levels from which a window shows anything
MIN_IMAGE_CONTRAST = 1.0  # likewise; few and small things on a plain ground are not much of it
_MIN_SIDE_PX = 8
_MIN_STD = 1e-3  # standard deviation that counts as none
_SHIFT_PENALTY = 0.03  # correlation that each pixel of displacement has to gain over none


class TemplateMatch(NamedTuple):
    """How an object's picture before lies in the one after.

    Attributes:
        shift_px: how far it fits best from where it was.
        correlation: -1 to 1, of both pictures where it was.
    """

    shift_px: float
    correlation: float


def match_objects(pair: ImagePair) -> list[TemplateMatch | None]:
    """Return the place of each object; None of one that has no contrast or lies at the edge."""
    return [_match_template(*pair.band_pass_luma, region) for region in pair.regions or ()]


def measure_image_correlation(pair: ImagePair) -> float | None:
    """Return the correlation of the whole picture before and after, -1 to 1; negative is inverted.

    Of detail, as objects' is: a shadow or the dark corners of a lens change it little. None of a picture
    with next to no contrast.
    """
    before, after = (detail - detail.mean() for detail in pair.band_pass_luma)
    if before.std() < MIN_IMAGE_CONTRAST:
        return None
    return float((before * after).mean() / (before.std() * max(after.std(), _MIN_STD)))


def _match_template(before: Floats, after: Floats, region: ObjectRegion) -> TemplateMatch | None:
    """Return the place by normalized correlation, its peak refined by a parabola."""
    rows, columns = region.pad_window(MARGIN_PX, before.shape, border_px=SEARCH_RADIUS_PX)
    template = before[rows, columns]
    if min(template.shape) < _MIN_SIDE_PX or template.std() < MIN_CONTRAST:
        return None
    area = after[
        rows.start - SEARCH_RADIUS_PX : rows.stop + SEARCH_RADIUS_PX,
        columns.start - SEARCH_RADIUS_PX : columns.stop + SEARCH_RADIUS_PX,
    ]
    fits = np.asarray(cv2.matchTemplate(area, template, cv2.TM_CCOEFF_NORMED), np.float64)
    steps = np.arange(-SEARCH_RADIUS_PX, SEARCH_RADIUS_PX + 1)
    price = _SHIFT_PENALTY * np.hypot(steps[:, None], steps[None, :])
    row, column = np.unravel_index(np.argmax(fits - price), fits.shape)
    down = steps[row] + _refine_peak(fits[:, column], int(row))
    right = steps[column] + _refine_peak(fits[row], int(column))
    return TemplateMatch(
        float(np.hypot(down, right)), float(fits[SEARCH_RADIUS_PX, SEARCH_RADIUS_PX])
    )


def _refine_peak(values: NDArray[np.float64], index: int) -> float:
    """Return where, from -0.5 to 0.5 beside a highest value, a parabola is highest."""
    if not 0 < index < len(values) - 1:
        return 0.0
    left, middle, right = values[index - 1 : index + 2]
    bend = left - 2 * middle + right
    return float(np.clip(0.5 * (left - right) / bend, -0.5, 0.5)) if bend < 0 else 0.0
