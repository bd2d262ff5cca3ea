"""Playing cards: rank and suit on the face, a lattice on the back."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.scene.material import Color
from sim2cam.scene.shape import Card
from sim2cam.surfaces.printing import Print, averaged, draw_text, texel, texels

Floats = NDArray[np.float64]

_TEXELS = 512
_FINER = 4  # drawn so many times larger, then averaged
_RED: Color = (0.45, 0.008, 0.012)
_BLACK: Color = (0.012, 0.012, 0.014)
_MARGIN = 0.06  # of the width, around what is on the back
_PIP = 0.085  # half height of a pip, over the card's width

_LEFT, _RIGHT, _MIDDLE = 0.3, 0.7, 0.5
_PIP_PLACES: dict[str, tuple[tuple[float, float], ...]] = {
    "A": ((_MIDDLE, 0.5),),
    "2": ((_MIDDLE, 0.2), (_MIDDLE, 0.8)),
    "3": ((_MIDDLE, 0.2), (_MIDDLE, 0.5), (_MIDDLE, 0.8)),
    "4": ((_LEFT, 0.2), (_RIGHT, 0.2), (_LEFT, 0.8), (_RIGHT, 0.8)),
}
_PIP_PLACES["5"] = (*_PIP_PLACES["4"], (_MIDDLE, 0.5))
_PIP_PLACES["6"] = (*_PIP_PLACES["4"], (_LEFT, 0.5), (_RIGHT, 0.5))
_PIP_PLACES["7"] = (*_PIP_PLACES["6"], (_MIDDLE, 0.35))
_PIP_PLACES["8"] = (*_PIP_PLACES["7"], (_MIDDLE, 0.65))
_PIP_PLACES["9"] = (
    *_PIP_PLACES["4"], (_LEFT, 0.4), (_RIGHT, 0.4), (_LEFT, 0.6), (_RIGHT, 0.6), (_MIDDLE, 0.5),
)  # fmt: skip
_PIP_PLACES["10"] = (*_PIP_PLACES["9"][:-1], (_MIDDLE, 0.3), (_MIDDLE, 0.7))


def card_prints(card: Card) -> tuple[Print, Print]:
    """Returns the prints of a card's face and of its back."""
    aspect = card.size_m[1] / card.size_m[0]
    ink = _RED if card.face[-1] in "DH" else _BLACK
    return Print(_face(card.face, aspect), ink), Print(_back(aspect), card.back)


@functools.lru_cache(maxsize=64)
def _face(face: str, aspect: float) -> Floats:
    """Returns the cover of a face (n, n); everything is drawn in widths of the card, then fitted."""
    rank, suit = face[:-1], face[-1]
    sheet = np.zeros((round(_TEXELS * _FINER * aspect), _TEXELS * _FINER), np.uint8)
    if rank in _PIP_PLACES:
        size = 2.2 * _PIP if rank == "A" else _PIP
        for x, y in _PIP_PLACES[rank]:
            _draw_pip(sheet, suit, (x, y * aspect), size, turned=y > 0.5)
    else:
        _draw_court(sheet, rank, suit, aspect)
    for _end in range(2):
        _draw_index(sheet, rank, suit)
        sheet = np.ascontiguousarray(sheet[::-1, ::-1])
    return averaged(sheet, _TEXELS)


def _draw_court(sheet: NDArray[np.uint8], rank: str, suit: str, aspect: float) -> None:
    """Draws a frame, and in it the rank between two pips."""
    low, high = texels(sheet, (0.22, 0.14 * aspect)), texels(sheet, (0.78, 0.86 * aspect))
    cv2.rectangle(sheet, low, high, 255, texel(sheet, 0.012))
    draw_text(sheet, rank, (0.5, 0.5 * aspect), 0.3)
    _draw_pip(sheet, suit, (0.36, 0.27 * aspect), _PIP, turned=False)
    _draw_pip(sheet, suit, (0.64, 0.73 * aspect), _PIP, turned=True)


def _draw_index(sheet: NDArray[np.uint8], rank: str, suit: str) -> None:
    """Draws rank and suit into the upper left corner."""
    draw_text(sheet, rank, (0.11, 0.13), 0.11, widest=0.16)  # a ten is wide
    _draw_pip(sheet, suit, (0.11, 0.27), 0.045, turned=False)


def _draw_pip(
    sheet: NDArray[np.uint8], suit: str, middle: tuple[float, float], size: float, *, turned: bool
) -> None:
    """Draws the shape of a suit, which is about twice ``size`` high."""
    way = -size if turned else size
    for outline in _outlines(suit):
        points = (outline * way + middle) * sheet.shape[1]
        cv2.fillPoly(sheet, [np.round(points).astype(np.int32)], 255)


def _outlines(suit: str) -> Iterator[Floats]:
    """Yields polygons (n, 2) that make a suit's shape, within -1..1, y down."""
    foot = np.array([[0.0, 0.2], [0.35, 1.0], [-0.35, 1.0]])
    match suit:
        case "D":
            yield np.array([[0.0, -1.0], [0.72, 0.0], [0.0, 1.0], [-0.72, 0.0]])
        case "H":
            yield from _heart()
        case "S":
            for outline in _heart():
                yield outline * [1.0, -0.85] - [0.0, 0.15]
            yield foot
        case _:
            for x, y in ((0.0, -0.55), (-0.48, 0.2), (0.48, 0.2)):
                yield _disc(x, y, 0.43)
            yield foot


def _heart() -> Iterator[Floats]:
    yield _disc(-0.42, -0.45, 0.46)
    yield _disc(0.42, -0.45, 0.46)
    yield np.array([[-0.82, -0.23], [0.0, -0.5], [0.82, -0.23], [0.0, 1.0]])


def _disc(x: float, y: float, radius: float) -> Floats:
    turn = np.linspace(0, 2 * math.pi, 40, endpoint=False)
    return np.stack([x + radius * np.cos(turn), y + radius * np.sin(turn)], axis=1)


@functools.lru_cache(maxsize=4)
def _back(aspect: float) -> Floats:
    """Returns the cover of a back (n, n): a lattice in a frame."""
    n = _TEXELS * _FINER
    x, y = np.arange(n)[None] / n, np.arange(round(n * aspect))[:, None] / n
    lattice = (np.sin(24 * math.pi * (x + y)) > -0.3) & (np.sin(24 * math.pi * (x - y)) > -0.3)
    edge = np.minimum(np.minimum(x, 1 - x), np.minimum(y, aspect - y))
    frame = edge < 1.3 * _MARGIN
    return averaged(np.where(edge < _MARGIN, 0, 255 * (lattice | frame)).astype(np.uint8), _TEXELS)
