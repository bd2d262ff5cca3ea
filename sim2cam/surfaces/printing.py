"""Prints: one ink on a surface, as the share of each texel that it covers.

They are drawn on sheets, uint8 (h, w), on which lengths and places count in widths of the sheet.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.scene.material import Color

Sheet = NDArray[np.uint8]

_FONT = cv2.FONT_HERSHEY_DUPLEX
_STROKE = 0.16  # of the height of letters


@dataclass(frozen=True)
class Print:
    """What is printed on one side of a plate; row 0 is its top.

    Attributes:
        cover: (n, n) share of each texel that ink covers, 0 to 1; n is a power of two, so that
            smaller copies of the picture stay where they are.
        ink: linear RGB.
    """

    cover: NDArray[np.float64]
    ink: Color


def draw_text(
    sheet: Sheet,
    text: str,
    middle: tuple[float, float],
    high: float,
    *,
    widest: float = float("inf"),
) -> None:
    """Draws a line of text around a place; letters are smaller where it would be too wide."""
    thick = texel(sheet, _STROKE * high)
    scale = cv2.getFontScaleFromHeight(_FONT, texel(sheet, high), thick)
    (width, height), _ = cv2.getTextSize(text, _FONT, scale, thick)
    squeezed = min(1.0, texel(sheet, widest) / width) if widest < 1 else 1.0
    x, y = texels(sheet, middle)
    place = (x - round(width * squeezed / 2), y + round(height / 2))
    cv2.putText(sheet, text, place, _FONT, scale * squeezed, 255, thick, cv2.LINE_AA)


def averaged(sheet: Sheet, side: int) -> NDArray[np.float64]:
    """Returns the cover (side, side) of a sheet."""
    small = cv2.resize(sheet, (side, side), interpolation=cv2.INTER_AREA)
    return np.asarray(small / 255.0)


def texel(sheet: Sheet, length: float) -> int:
    """Returns a length in texels, at least one."""
    return max(1, round(length * int(sheet.shape[1])))


def texels(sheet: Sheet, place: tuple[float, float]) -> tuple[int, int]:
    """Returns a place in texels."""
    return texel(sheet, place[0]), texel(sheet, place[1])
