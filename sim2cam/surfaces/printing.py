"""Prints: one ink on a surface, as the share of each texel that it covers.

They are drawn on sheets, uint8 (h, w), on which lengths and places count in widths of the sheet.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.scene.material import Color

Canvas = NDArray[np.uint8]

_FONT = cv2.FONT_HERSHEY_DUPLEX
_STROKE_FRACTION = 0.16  # of the height of letters


@dataclass(frozen=True)
class InkPrint:
    """What is printed on one side of a plate; row 0 is its top.

    Attributes:
        coverage: (n, n) share of each texel that ink covers, 0 to 1; n is a power of two, so that
            smaller copies of the picture stay where they are.
        ink: linear RGB.
    """

    coverage: NDArray[np.float64]
    ink: Color


def draw_text(
    canvas: Canvas,
    text: str,
    center: tuple[float, float],
    letter_height: float,
    *,
    max_width: float = float("inf"),
) -> None:
    """Draw a line of text around a place; letters are smaller where it would be too wide."""
    thick = to_texels(canvas, _STROKE_FRACTION * letter_height)
    scale = cv2.getFontScaleFromHeight(_FONT, to_texels(canvas, letter_height), thick)
    (width, height), _ = cv2.getTextSize(text, _FONT, scale, thick)
    squeezed = min(1.0, to_texels(canvas, max_width) / width) if max_width < 1 else 1.0
    x, y = to_texel_position(canvas, center)
    place = (x - round(width * squeezed / 2), y + round(height / 2))
    cv2.putText(canvas, text, place, _FONT, scale * squeezed, 255, thick, cv2.LINE_AA)


def downsample_coverage(canvas: Canvas, side_px: int) -> NDArray[np.float64]:
    """Return the cover (side, side) of a sheet."""
    small = cv2.resize(canvas, (side_px, side_px), interpolation=cv2.INTER_AREA)
    return np.asarray(small / 255.0)


def to_texels(canvas: Canvas, length: float) -> int:
    """Return a length in texels, at least one."""
    return max(1, round(length * int(canvas.shape[1])))


def to_texel_position(canvas: Canvas, position: tuple[float, float]) -> tuple[int, int]:
    """Return a place in texels."""
    return to_texels(canvas, position[0]), to_texels(canvas, position[1])
