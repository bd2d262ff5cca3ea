"""Prints of playing cards: rank and suit on the face, a lattice on the back."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.scene.material import Color
from sim2cam.scene.shape import Card
from sim2cam.surfaces.printing import (
    InkPrint,
    downsample_coverage,
    draw_text,
    to_texel_position,
    to_texels,
)

Floats = NDArray[np.float64]

_TEXTURE_PX = 512
_SUPERSAMPLING = 4  # drawn at this scale, then averaged
_RED: Color = (0.45, 0.008, 0.012)
_BLACK: Color = (0.012, 0.012, 0.014)
_MARGIN = 0.06  # of the width, around the lattice of the back
_PIP_HALF_HEIGHT = 0.085  # half height of a pip, over the card's width

_LEFT, _RIGHT, _MIDDLE = 0.3, 0.7, 0.5
_PIP_POSITIONS: dict[str, tuple[tuple[float, float], ...]] = {
    "A": ((_MIDDLE, 0.5),),
    "2": ((_MIDDLE, 0.2), (_MIDDLE, 0.8)),
    "3": ((_MIDDLE, 0.2), (_MIDDLE, 0.5), (_MIDDLE, 0.8)),
    "4": ((_LEFT, 0.2), (_RIGHT, 0.2), (_LEFT, 0.8), (_RIGHT, 0.8)),
}
_PIP_POSITIONS["5"] = (*_PIP_POSITIONS["4"], (_MIDDLE, 0.5))
_PIP_POSITIONS["6"] = (*_PIP_POSITIONS["4"], (_LEFT, 0.5), (_RIGHT, 0.5))
_PIP_POSITIONS["7"] = (*_PIP_POSITIONS["6"], (_MIDDLE, 0.35))
_PIP_POSITIONS["8"] = (*_PIP_POSITIONS["7"], (_MIDDLE, 0.65))
_PIP_POSITIONS["9"] = (
    *_PIP_POSITIONS["4"], (_LEFT, 0.4), (_RIGHT, 0.4), (_LEFT, 0.6), (_RIGHT, 0.6), (_MIDDLE, 0.5),
)  # fmt: skip
_PIP_POSITIONS["10"] = (*_PIP_POSITIONS["9"][:-1], (_MIDDLE, 0.3), (_MIDDLE, 0.7))


def make_card_prints(card: Card) -> tuple[InkPrint, InkPrint]:
    """Return the prints of the face and the back of a card."""
    aspect = card.size_m[1] / card.size_m[0]
    ink = _RED if card.face[-1] in "DH" else _BLACK
    return InkPrint(_draw_face(card.face, aspect), ink), InkPrint(
        _draw_back(aspect), card.back_color
    )


@functools.lru_cache(maxsize=64)
def _draw_face(face: str, aspect: float) -> Floats:
    """Return the ink coverage (n, n) of a face."""
    rank, suit = face[:-1], face[-1]
    canvas = np.zeros(
        (round(_TEXTURE_PX * _SUPERSAMPLING * aspect), _TEXTURE_PX * _SUPERSAMPLING), np.uint8
    )
    if rank in _PIP_POSITIONS:
        size = 2.2 * _PIP_HALF_HEIGHT if rank == "A" else _PIP_HALF_HEIGHT
        for x, y in _PIP_POSITIONS[rank]:
            _draw_pip(canvas, suit, (x, y * aspect), size, is_upside_down=y > 0.5)
    else:
        _draw_court(canvas, rank, suit, aspect)
    for _end in range(2):
        _draw_index(canvas, rank, suit)
        canvas = np.ascontiguousarray(canvas[::-1, ::-1])
    return downsample_coverage(canvas, _TEXTURE_PX)


def _draw_court(canvas: NDArray[np.uint8], rank: str, suit: str, aspect: float) -> None:
    """Draw a frame with the rank between two pips."""
    low, high = (
        to_texel_position(canvas, (0.22, 0.14 * aspect)),
        to_texel_position(canvas, (0.78, 0.86 * aspect)),
    )
    cv2.rectangle(canvas, low, high, 255, to_texels(canvas, 0.012))
    draw_text(canvas, rank, (0.5, 0.5 * aspect), 0.3)
    _draw_pip(canvas, suit, (0.36, 0.27 * aspect), _PIP_HALF_HEIGHT, is_upside_down=False)
    _draw_pip(canvas, suit, (0.64, 0.73 * aspect), _PIP_HALF_HEIGHT, is_upside_down=True)


def _draw_index(canvas: NDArray[np.uint8], rank: str, suit: str) -> None:
    """Draw rank and suit in the upper left corner."""
    draw_text(canvas, rank, (0.11, 0.13), 0.11, max_width=0.16)  # a ten is wide
    _draw_pip(canvas, suit, (0.11, 0.27), 0.045, is_upside_down=False)


def _draw_pip(
    canvas: NDArray[np.uint8],
    suit: str,
    center: tuple[float, float],
    size: float,
    *,
    is_upside_down: bool,
) -> None:
    """Draw the symbol of a suit, about twice ``size`` high."""
    scale = -size if is_upside_down else size
    for outline in _make_suit_outlines(suit):
        points = (outline * scale + center) * canvas.shape[1]
        cv2.fillPoly(canvas, [np.round(points).astype(np.int32)], 255)


def _make_suit_outlines(suit: str) -> Iterator[Floats]:
    """Yield polygons (n, 2) of the symbol of a suit, within -1..1, y down."""
    foot = np.array([[0.0, 0.2], [0.35, 1.0], [-0.35, 1.0]])
    match suit:
        case "D":
            yield np.array([[0.0, -1.0], [0.72, 0.0], [0.0, 1.0], [-0.72, 0.0]])
        case "H":
            yield from _make_heart()
        case "S":
            for outline in _make_heart():
                yield outline * [1.0, -0.85] - [0.0, 0.15]
            yield foot
        case _:
            for x, y in ((0.0, -0.55), (-0.48, 0.2), (0.48, 0.2)):
                yield _make_disc(x, y, 0.43)
            yield foot


def _make_heart() -> Iterator[Floats]:
    yield _make_disc(-0.42, -0.45, 0.46)
    yield _make_disc(0.42, -0.45, 0.46)
    yield np.array([[-0.82, -0.23], [0.0, -0.5], [0.82, -0.23], [0.0, 1.0]])


def _make_disc(x: float, y: float, radius: float) -> Floats:
    angle = np.linspace(0, 2 * math.pi, 40, endpoint=False)
    return np.stack([x + radius * np.cos(angle), y + radius * np.sin(angle)], axis=1)


@functools.lru_cache(maxsize=4)
def _draw_back(aspect: float) -> Floats:
    """Return the ink coverage (n, n) of the back: a lattice in a frame."""
    n = _TEXTURE_PX * _SUPERSAMPLING
    x, y = np.arange(n)[None] / n, np.arange(round(n * aspect))[:, None] / n
    lattice = (np.sin(24 * math.pi * (x + y)) > -0.3) & (np.sin(24 * math.pi * (x - y)) > -0.3)
    edge = np.minimum(np.minimum(x, 1 - x), np.minimum(y, aspect - y))
    frame = edge < 1.3 * _MARGIN
    return downsample_coverage(
        np.where(edge < _MARGIN, 0, 255 * (lattice | frame)).astype(np.uint8), _TEXTURE_PX
    )
