"""What is printed on packages: names, patterns, small print and bar codes. All follows from the label.

Panels are linear RGB (h, w, 3); aspects are widths over heights.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.scene.image_file import PictureFile
from sim2cam.scene.material import Color
from sim2cam.scene.packages import Label
from sim2cam.surfaces.printing import Sheet, draw_text, texel
from sim2cam.surfaces.textures import shrunk_picture

Floats = NDArray[np.float64]

_TEXELS = 1024  # along the longer side of a panel
_INK: Color = (0.02, 0.02, 0.02)
_LETTERS = "bcdefghlmnoprstu"

# EAN-13 (ISO/IEC 15420): the modules of a digit in odd parity, and the parities of the left half that
# stand for the first digit; even ones are odd ones swapped and backwards
_ODD = (
    "0001101", "0011001", "0010011", "0111101", "0100011", "0110001", "0101111", "0111011", "0110111",
    "0001011",
)  # fmt: skip
_PARITIES = (
    "OOOOOO", "OOEOEE", "OOEEOE", "OOEEEO", "OEOOEE", "OEEOOE", "OEEEOO", "OEOEOE", "OEOEEO", "OEEOEO",
)  # fmt: skip
_SWAPPED = str.maketrans("01", "10")
_QUIET = 9  # modules that stay light beside the bars


def front_of(label: Label, aspect: float) -> Floats:
    """Returns the front of a package: its name on a pattern, or its picture."""
    if label.picture is not None:
        return _pictured(label.picture, aspect)
    rng = np.random.default_rng(label.seed)
    sheet = _sheet(aspect)
    _PATTERNS[int(rng.integers(len(_PATTERNS)))](sheet, rng)
    place = (0.5, float(rng.uniform(0.3, 0.7)) / aspect)
    return _printed(label, (sheet, label.pattern), (_named(label, aspect, place), label.letters))


def name_of(label: Label, aspect: float) -> Floats:
    """Returns a panel with the name alone."""
    sheet = _named(label, aspect, (0.5, 0.5 / aspect))
    return _printed(label, (sheet, label.letters))


def small_print_of(label: Label, aspect: float) -> Floats:
    """Returns a panel of small print over a bar code, which stands on white."""
    rng = np.random.default_rng((label.seed, 1))
    letters, white, bars = _sheet(aspect), _sheet(aspect), _sheet(aspect)
    height, width = bars.shape
    bottom, left = round(0.62 * height), round(0.15 * width)
    line = max(0.02, 0.045 * min(1.0, 1 / aspect))
    for y in np.arange(1.5 * line, bottom / width - line, 1.6 * line):
        words = " ".join(_word(rng) for _ in range(5))
        draw_text(letters, words, (0.5, float(y)), 0.7 * line, widest=float(rng.uniform(0.6, 0.86)))
    modules = np.array([int(module) for module in bar_code(int(rng.integers(10**12)))])
    size = max(1, (width - 2 * left) // (len(modules) + 2 * _QUIET))
    code = np.repeat(np.pad(modules, _QUIET), size)
    place = np.s_[bottom : round(0.93 * height), left : left + len(code)]
    white[place], bars[place] = 255, 255 * code
    return _printed(label, (letters, label.letters), (white, (0.9, 0.9, 0.9)), (bars, _INK))


def page_of(label: Label, aspect: float, number: int) -> Floats:
    """Returns a page: a heading in the pattern's colour over lines of text, some of which end early.

    The first one is the label's picture, where it has one.
    """
    if label.picture is not None and number == 0:
        return _pictured(label.picture, aspect)
    rng = np.random.default_rng((label.seed, 2, number))
    heading, letters = _sheet(aspect), _sheet(aspect)
    height, width = letters.shape
    line = float(rng.uniform(0.022, 0.04))
    draw_text(heading, label.text or _word(rng), (0.5, 3 * line), 2 * line, widest=0.8)
    for row in np.arange(6 * line, height / width - 2 * line, 1.8 * line):
        if rng.random() < 0.85:
            words = " ".join(_word(rng) for _ in range(int(rng.integers(6, 16))))
            draw_text(letters, words, (0.5, float(row)), 0.8 * line, widest=0.86)
    return _printed(label, (heading, label.pattern), (letters, label.letters))


def bar_code(number: int) -> str:
    """Returns the modules, 1 dark, of the EAN-13 of a number of up to twelve digits."""
    digits = [int(digit) for digit in f"{number:012d}"]
    check = -sum(digit * (3 if i % 2 else 1) for i, digit in enumerate(digits)) % 10
    left, right = digits[1:7], [*digits[7:], check]
    ends = [_ODD[digit].translate(_SWAPPED) for digit in right]
    starts = [
        _ODD[digit] if parity == "O" else _ODD[digit].translate(_SWAPPED)[::-1]
        for digit, parity in zip(left, _PARITIES[digits[0]], strict=True)
    ]
    return "".join(["101", *starts, "01010", *ends, "101"])


def _sheet(aspect: float) -> Sheet:
    scale = _TEXELS / max(aspect, 1.0)
    return np.zeros((max(16, round(scale)), max(16, round(scale * aspect))), np.uint8)


def _pictured(file: PictureFile, aspect: float) -> Floats:
    """Returns a panel that a picture fills."""
    height, width = _sheet(aspect).shape
    pixels = shrunk_picture(file, width)
    return np.asarray(cv2.resize(pixels, (width, height), interpolation=cv2.INTER_AREA), np.float64)


def _printed(label: Label, *layers: tuple[Sheet, Color]) -> Floats:
    """Returns a panel of sheets in their inks, one over another."""
    panel = np.ones((*layers[0][0].shape, 3)) * label.ground
    for sheet, ink in layers:
        panel += (sheet / 255.0)[..., None] * (np.array(ink) - panel)
    return panel


def _named(label: Label, aspect: float, place: tuple[float, float]) -> Sheet:
    sheet = _sheet(aspect)
    if label.text:
        high = min(0.35 / aspect, 1.6 / len(label.text))
        draw_text(sheet, label.text, place, high, widest=0.9)
    return sheet


def _word(rng: np.random.Generator) -> str:
    pairs = rng.integers(len(_LETTERS), size=(int(rng.integers(1, 4)), 1)).ravel()
    return "".join(_LETTERS[i] + "aeiou"[i % 5] for i in pairs)


def _bands(sheet: Sheet, rng: np.random.Generator) -> None:
    height = len(sheet)
    sheet[: round(rng.uniform(0.08, 0.25) * height)] = 255
    sheet[-round(rng.uniform(0.08, 0.25) * height) :] = 255


def _disc(sheet: Sheet, rng: np.random.Generator) -> None:
    height, width = sheet.shape
    x, y = (round(rng.uniform(0.35, 0.65) * side) for side in (width, height))
    cv2.circle(sheet, (x, y), round(rng.uniform(0.3, 0.48) * min(height, width)), 255, -1)


def _slant(sheet: Sheet, rng: np.random.Generator) -> None:
    y, x = np.mgrid[: sheet.shape[0], : sheet.shape[1]] / max(sheet.shape)
    turn = rng.uniform(0, math.pi)
    along = x * math.cos(turn) + y * math.sin(turn)
    sheet[np.sin(2 * math.pi * rng.uniform(1.5, 5) * along) > rng.uniform(-0.3, 0.6)] = 255


def _frame(sheet: Sheet, rng: np.random.Generator) -> None:
    inset = texel(sheet, float(rng.uniform(0.03, 0.08)))
    height, width = sheet.shape
    corners = (inset, inset), (width - inset, height - inset)
    cv2.rectangle(sheet, *corners, 255, texel(sheet, float(rng.uniform(0.01, 0.05))))


_PATTERNS: tuple[Callable[[Sheet, np.random.Generator], None], ...] = (
    _bands,
    _disc,
    _slant,
    _frame,
)
