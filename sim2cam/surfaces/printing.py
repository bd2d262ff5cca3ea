"""Prints with one ink, drawn on canvases.

A canvas is uint8 (h, w), 255 for full ink. Lengths and positions are in widths of the canvas.
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
    """The print on one side of a plate; row 0 is the top.

    Attributes:
        coverage: (n, n) share of each texel covered by ink, 0 to 1; n is a power of two, so that
            mipmaps stay aligned.
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
    """Draw a line of text centred on a position, shrunk to ``max_width``."""
    thickness = to_texels(canvas, _STROKE_FRACTION * letter_height)
    scale = cv2.getFontScaleFromHeight(_FONT, to_texels(canvas, letter_height), thickness)
    (width, height), _ = cv2.getTextSize(text, _FONT, scale, thickness)
    shrink = min(1.0, to_texels(canvas, max_width) / width) if max_width < 1 else 1.0
    x, y = to_texel_position(canvas, center)
    origin = (x - round(width * shrink / 2), y + round(height / 2))
    cv2.putText(canvas, text, origin, _FONT, scale * shrink, 255, thickness, cv2.LINE_AA)


def downsample_coverage(canvas: Canvas, side_px: int) -> NDArray[np.float64]:
    """Return the ink coverage (side, side) of a canvas."""
    small = cv2.resize(canvas, (side_px, side_px), interpolation=cv2.INTER_AREA)
    return np.asarray(small / 255.0)


def to_texels(canvas: Canvas, length: float) -> int:
    """Convert a length to texels, at least 1."""
    return max(1, round(length * int(canvas.shape[1])))


def to_texel_position(canvas: Canvas, position: tuple[float, float]) -> tuple[int, int]:
    """Convert a position to texels."""
    return to_texels(canvas, position[0]), to_texels(canvas, position[1])
