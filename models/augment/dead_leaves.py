"""Dead-leaves images as backgrounds.

Overlapping shapes ("dead leaves") share many statistics of natural images (Lee et al. 2001, "Occlusion Models for
Natural Images") and suffice for learning visual features (Baradad et al. 2021, "Learning to See by Looking at
Noise"). Here larger leaves tend to lie below smaller ones, and some leaves carry prints.
"""

from __future__ import annotations

import colorsys
from math import exp, log

import cv2
import numpy as np
from numpy.typing import NDArray

_LEAF_COUNT_RANGE = (60, 500)
_RADIUS_RANGE = (0.012, 0.4)  # of leaves, in longer sides of the image
_ORDER_JITTER = 2.0  # largest size ratio of a leaf to an earlier one
_PRINT_PROBABILITY = 0.3  # per leaf
_PALETTE_SIZE_RANGE = (3, 12)  # colours per image
_GREY_PROBABILITY = 0.3  # per colour
_CORNER_COUNT_RANGE = (3, 7)
_SHADING_RANGE = (0.6, 1.3)  # local brightness factor
_BLUR_SIGMA_RANGE_PX = (0.0, 1.5)
_GLYPHS = "ABCDEFGHKLMNPRSTUVXYZ0123456789"

Colour = tuple[int, int, int]
Canvas = NDArray[np.uint8]
Floats = NDArray[np.float64]


def render_dead_leaves(shape: tuple[int, int], rng: np.random.Generator) -> Canvas:
    """Render a dead-leaves image (h, w, 3), sRGB.

    Args:
        shape: height and width in pixels.
    """
    palette = [
        _sample_colour(rng) for _ in range(rng.integers(*_PALETTE_SIZE_RANGE, endpoint=True))
    ]
    canvas = np.full((*shape, 3), palette[0], np.uint8)
    count = round(_sample_log_uniform(rng, _LEAF_COUNT_RANGE))
    radii = max(shape) * np.exp(rng.uniform(log(_RADIUS_RANGE[0]), log(_RADIUS_RANGE[1]), count))
    # large leaves would hide all others, so they tend to come first
    order = np.argsort(-radii * _ORDER_JITTER ** rng.random(count))
    for radius in radii[order]:
        centre = rng.uniform(-radius, np.array(shape[::-1]) + radius)
        front, back = (palette[i] for i in rng.integers(len(palette), size=2))
        leaf = _sample_leaf(centre, radius, rng)
        cv2.fillPoly(canvas, [leaf], back, cv2.LINE_AA)
        if rng.random() < _PRINT_PROBABILITY:
            _PRINT_FUNCTIONS[rng.integers(len(_PRINT_FUNCTIONS))](
                canvas, centre, float(radius), front, rng
            )
    return _apply_shading(canvas, rng)


def _sample_colour(rng: np.random.Generator) -> Colour:
    saturation = 0.1 * rng.random() if rng.random() < _GREY_PROBABILITY else rng.random()
    red, green, blue = colorsys.hsv_to_rgb(rng.random(), saturation, rng.random())
    return round(255 * red), round(255 * green), round(255 * blue)


def _sample_leaf(centre: Floats, radius: float, rng: np.random.Generator) -> NDArray[np.int32]:
    """Return the corners (n, 2) of an elliptic, rectangular or irregular leaf."""
    semi_axes = radius * np.array([1.0, rng.uniform(0.2, 1.0)])
    angle = rng.uniform(0, 2 * np.pi)
    kind = rng.integers(3)
    if kind == 0:
        angles, radii = np.linspace(0, 2 * np.pi, 24, endpoint=False), np.ones((24, 1))
    elif kind == 1:
        angles, radii = np.pi * (np.arange(4) / 2 + 0.25), np.ones((4, 1))
    else:
        count = int(rng.integers(*_CORNER_COUNT_RANGE, endpoint=True))
        angles = 2 * np.pi * (np.arange(count) + rng.random(count)) / count
        radii = rng.uniform(0.5, 1, (count, 1))
    corners = semi_axes * radii * np.column_stack([np.cos(angles), np.sin(angles)])
    return np.asarray(np.round(centre + corners @ _rotation_matrix(angle).T), np.int32)


def _print_text(
    canvas: Canvas, centre: Floats, radius: float, ink: Colour, rng: np.random.Generator
) -> None:
    """Print lines of text."""
    lines = int(rng.integers(1, 5))
    size = radius / (15 * lines)
    for line in range(lines):
        text = "".join(rng.choice(list(_GLYPHS), rng.integers(2, 9)))
        position = centre + radius * np.array([-0.6, (line + 1) / lines - 0.5])
        font = int(rng.choice([cv2.FONT_HERSHEY_SIMPLEX, cv2.FONT_HERSHEY_TRIPLEX]))
        thickness = max(1, round(2 * size))
        corner = (int(position[0]), int(position[1]))
        cv2.putText(canvas, text, corner, font, size, ink, thickness, cv2.LINE_AA)


def _print_checkerboard(
    canvas: Canvas, centre: Floats, radius: float, ink: Colour, rng: np.random.Generator
) -> None:
    """Print a rotated checkerboard or a random grid, like markers and codes."""
    count = int(rng.integers(3, 9))
    is_dark = np.indices((count, count)).sum(0) % 2 == 0
    if rng.random() < 0.5:
        is_dark = rng.random((count, count)) < 0.5
    side, rotation = 1.2 * radius / count, _rotation_matrix(rng.uniform(0, 2 * np.pi))
    square = np.array([[0, 0], [1, 0], [1, 1], [0, 1]]) - count / 2
    cells = side * (square + np.argwhere(is_dark)[:, None]) @ rotation.T + centre
    cv2.fillPoly(canvas, list(np.round(cells).astype(np.int32)), ink, cv2.LINE_AA)


def _print_strokes(
    canvas: Canvas, centre: Floats, radius: float, ink: Colour, rng: np.random.Generator
) -> None:
    """Print parallel lines, or a bent line like a cable."""
    thickness = max(1, round(radius * rng.uniform(0.02, 0.15)))
    rotation = _rotation_matrix(rng.uniform(0, 2 * np.pi)).T
    if rng.random() < 0.5:
        offsets = np.linspace(-0.7, 0.7, int(rng.integers(2, 9)))
        points = np.array([[[-0.7, y], [0.7, y]] for y in offsets])
    else:
        points = np.cumsum(rng.normal(0, 0.4, (1, 12, 2)), axis=1)
        points -= points.mean(axis=1, keepdims=True)
    lines = np.round(radius * points @ rotation + centre).astype(np.int32)
    cv2.polylines(canvas, list(lines), False, ink, thickness, cv2.LINE_AA)


_PRINT_FUNCTIONS = (_print_text, _print_checkerboard, _print_strokes)


def _apply_shading(canvas: Canvas, rng: np.random.Generator) -> Canvas:
    """Apply smooth random shading and blur."""
    height, width = canvas.shape[:2]
    coarse_light = np.exp(
        rng.uniform(log(_SHADING_RANGE[0]), log(_SHADING_RANGE[1]), (4, 4))
    ).astype(np.float32)
    light = cv2.resize(coarse_light, (width, height), interpolation=cv2.INTER_CUBIC)
    shaded = cv2.multiply(canvas, cv2.merge([light] * 3), dtype=cv2.CV_8U)
    sigma = rng.uniform(*_BLUR_SIGMA_RANGE_PX)
    return np.asarray(cv2.GaussianBlur(shaded, (0, 0), sigma) if sigma > 0.3 else shaded)


def _rotation_matrix(angle: float) -> Floats:
    cosine, sine = np.cos(angle), np.sin(angle)
    return np.array([[cosine, -sine], [sine, cosine]])


def _sample_log_uniform(rng: np.random.Generator, bounds: tuple[float, float]) -> float:
    return exp(rng.uniform(log(bounds[0]), log(bounds[1])))
