"""Printed panels of packages: names, patterns, small print and bar codes. Deterministic.

Panels are linear RGB (h, w, 3). Aspects are width over height.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.scene.image_file import ImageFile
from sim2cam.scene.material import Color
from sim2cam.scene.package_label import PackageLabel
from sim2cam.surfaces.printing import Canvas, draw_text, to_texels
from sim2cam.surfaces.textures import load_linear_image

Floats = NDArray[np.float64]

_PANEL_PX = 1024  # along the longer side of a panel
_INK: Color = (0.02, 0.02, 0.02)
_CONSONANTS = "bcdefghlmnoprstu"

# EAN-13 (ISO/IEC 15420): modules of digits in odd parity, and parities of the left half by first
# digit; even parity is odd parity inverted and reversed
_ODD_PARITY_CODES = (
    "0001101", "0011001", "0010011", "0111101", "0100011", "0110001", "0101111", "0111011", "0110111",
    "0001011",
)  # fmt: skip
_PARITIES = (
    "OOOOOO", "OOEOEE", "OOEEOE", "OOEEEO", "OEOOEE", "OEEOOE", "OEEEOO", "OEOEOE", "OEOEEO", "OEEOEO",
)  # fmt: skip
_BIT_INVERSION = str.maketrans("01", "10")
_QUIET_ZONE_MODULES = 9  # light modules on each side of the bars


def render_front_panel(label: PackageLabel, aspect: float) -> Floats:
    """Render the front: the image of the label, or its name on a pattern."""
    if label.image is not None:
        return _render_image_panel(label.image, aspect)
    rng = np.random.default_rng(label.seed)
    pattern = _make_canvas(aspect)
    _PATTERN_PAINTERS[int(rng.integers(len(_PATTERN_PAINTERS)))](pattern, rng)
    name_center = (0.5, float(rng.uniform(0.3, 0.7)) / aspect)
    return _composite_layers(
        label,
        (pattern, label.pattern_color),
        (_draw_name(label, aspect, name_center), label.text_color),
    )


def render_name_panel(label: PackageLabel, aspect: float) -> Floats:
    """Render a panel with the name only."""
    name = _draw_name(label, aspect, (0.5, 0.5 / aspect))
    return _composite_layers(label, (name, label.text_color))


def render_small_print_panel(label: PackageLabel, aspect: float) -> Floats:
    """Render a panel of small print above a bar code on white."""
    rng = np.random.default_rng((label.seed, 1))
    letters, white, bars = _make_canvas(aspect), _make_canvas(aspect), _make_canvas(aspect)
    height, width = bars.shape
    bottom, left = round(0.62 * height), round(0.15 * width)
    line_height = max(0.02, 0.045 * min(1.0, 1 / aspect))
    for y in np.arange(1.5 * line_height, bottom / width - line_height, 1.6 * line_height):
        words = " ".join(_sample_word(rng) for _ in range(5))
        draw_text(
            letters,
            words,
            (0.5, float(y)),
            0.7 * line_height,
            max_width=float(rng.uniform(0.6, 0.86)),
        )
    modules = np.array([int(module) for module in encode_ean13(int(rng.integers(10**12)))])
    module_px = max(1, (width - 2 * left) // (len(modules) + 2 * _QUIET_ZONE_MODULES))
    code = np.repeat(np.pad(modules, _QUIET_ZONE_MODULES), module_px)
    window = np.s_[bottom : round(0.93 * height), left : left + len(code)]
    white[window], bars[window] = 255, 255 * code
    return _composite_layers(
        label, (letters, label.text_color), (white, (0.9, 0.9, 0.9)), (bars, _INK)
    )


def render_page(label: PackageLabel, aspect: float, page_index: int) -> Floats:
    """Render a page: a heading in the pattern colour above lines of text.

    If the label has an image, page 0 is that image.
    """
    if label.image is not None and page_index == 0:
        return _render_image_panel(label.image, aspect)
    rng = np.random.default_rng((label.seed, 2, page_index))
    heading, letters = _make_canvas(aspect), _make_canvas(aspect)
    height, width = letters.shape
    line_height = float(rng.uniform(0.022, 0.04))
    draw_text(
        heading,
        label.text or _sample_word(rng),
        (0.5, 3 * line_height),
        2 * line_height,
        max_width=0.8,
    )
    for row in np.arange(6 * line_height, height / width - 2 * line_height, 1.8 * line_height):
        if rng.random() < 0.85:
            words = " ".join(_sample_word(rng) for _ in range(int(rng.integers(6, 16))))
            draw_text(letters, words, (0.5, float(row)), 0.8 * line_height, max_width=0.86)
    return _composite_layers(label, (heading, label.pattern_color), (letters, label.text_color))


def encode_ean13(number: int) -> str:
    """Encode a number of up to 12 digits as EAN-13 modules; 1 is dark."""
    digits = [int(digit) for digit in f"{number:012d}"]
    check = -sum(digit * (3 if i % 2 else 1) for i, digit in enumerate(digits)) % 10
    left, right = digits[1:7], [*digits[7:], check]
    right_codes = [_ODD_PARITY_CODES[digit].translate(_BIT_INVERSION) for digit in right]
    left_codes = [
        _ODD_PARITY_CODES[digit]
        if parity == "O"
        else _ODD_PARITY_CODES[digit].translate(_BIT_INVERSION)[::-1]
        for digit, parity in zip(left, _PARITIES[digits[0]], strict=True)
    ]
    return "".join(["101", *left_codes, "01010", *right_codes, "101"])


def _make_canvas(aspect: float) -> Canvas:
    scale = _PANEL_PX / max(aspect, 1.0)
    return np.zeros((max(16, round(scale)), max(16, round(scale * aspect))), np.uint8)


def _render_image_panel(image_file: ImageFile, aspect: float) -> Floats:
    height, width = _make_canvas(aspect).shape
    pixels = load_linear_image(image_file, width)
    return np.asarray(cv2.resize(pixels, (width, height), interpolation=cv2.INTER_AREA), np.float64)


def _composite_layers(label: PackageLabel, *layers: tuple[Canvas, Color]) -> Floats:
    """Composite canvases in their inks onto the background colour, bottom to top."""
    panel = np.ones((*layers[0][0].shape, 3)) * label.background_color
    for canvas, ink in layers:
        panel += (canvas / 255.0)[..., None] * (np.array(ink) - panel)
    return panel


def _draw_name(label: PackageLabel, aspect: float, center: tuple[float, float]) -> Canvas:
    canvas = _make_canvas(aspect)
    if label.text:
        letter_height = min(0.35 / aspect, 1.6 / len(label.text))
        draw_text(canvas, label.text, center, letter_height, max_width=0.9)
    return canvas


def _sample_word(rng: np.random.Generator) -> str:
    pairs = rng.integers(len(_CONSONANTS), size=(int(rng.integers(1, 4)), 1)).ravel()
    return "".join(_CONSONANTS[i] + "aeiou"[i % 5] for i in pairs)


def _draw_bands(canvas: Canvas, rng: np.random.Generator) -> None:
    height = len(canvas)
    canvas[: round(rng.uniform(0.08, 0.25) * height)] = 255
    canvas[-round(rng.uniform(0.08, 0.25) * height) :] = 255


def _draw_disc(canvas: Canvas, rng: np.random.Generator) -> None:
    height, width = canvas.shape
    x, y = (round(rng.uniform(0.35, 0.65) * side) for side in (width, height))
    cv2.circle(canvas, (x, y), round(rng.uniform(0.3, 0.48) * min(height, width)), 255, -1)


def _draw_stripes(canvas: Canvas, rng: np.random.Generator) -> None:
    y, x = np.mgrid[: canvas.shape[0], : canvas.shape[1]] / max(canvas.shape)
    angle = rng.uniform(0, math.pi)
    position = x * math.cos(angle) + y * math.sin(angle)
    canvas[np.sin(2 * math.pi * rng.uniform(1.5, 5) * position) > rng.uniform(-0.3, 0.6)] = 255


def _draw_frame(canvas: Canvas, rng: np.random.Generator) -> None:
    inset = to_texels(canvas, float(rng.uniform(0.03, 0.08)))
    height, width = canvas.shape
    corners = (inset, inset), (width - inset, height - inset)
    cv2.rectangle(canvas, *corners, 255, to_texels(canvas, float(rng.uniform(0.01, 0.05))))


_PATTERN_PAINTERS: tuple[Callable[[Canvas, np.random.Generator], None], ...] = (
    _draw_bands,
    _draw_disc,
    _draw_stripes,
    _draw_frame,
)


def resize_panel(panel: Floats, width: int, height: int) -> Floats:
    """Return a panel of another size in texels."""
    return np.asarray(cv2.resize(panel, (width, height), interpolation=cv2.INTER_AREA))
