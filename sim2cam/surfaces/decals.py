"""Decals (stickers and printed text) composited onto texture atlases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.scene.decal import Decal
from sim2cam.scene.material import Texture
from sim2cam.surfaces.printing import Canvas, draw_text
from sim2cam.surfaces.textures import load_cutout_image, make_level_sampler
from sim2cam.surfaces.uv_charts import PlanarTexels

Floats = NDArray[np.float64]
Float32Array = NDArray[np.float32]

_LETTER_PX = 64  # height at which letters are rendered before resizing
_LETTER_HEIGHT_FRACTION = 0.55  # letter height over line height
_LETTER_ADVANCE_FRACTION = 0.55  # letter width over line height
_TEXT_MARGIN_FRACTION = 0.6  # horizontal margin over line height
_MAX_TEAR_DEPTH = 0.35  # of the shorter side, at full wear
_TEAR_SCALE = 0.4  # of the largest tears, over the shorter side


@dataclass(frozen=True)
class Panel:
    """A side of a body in its texture.

    Attributes:
        top, left: first row and column.
        shape: number of rows and columns.
        size_m: width and height on the body.
        is_bottom_up: whether rows go up instead of down on the body, viewed from outside.
    """

    top: int
    left: int
    shape: tuple[int, int]
    size_m: tuple[float, float]
    is_bottom_up: bool = False

    @property
    def window(self) -> tuple[slice, slice]:
        """Rows and columns in the texture."""
        rows, columns = self.shape
        return slice(self.top, self.top + rows), slice(self.left, self.left + columns)

    @property
    def plane(self) -> PlanarTexels:
        """Layout of the texels on the side."""
        rows, columns = self.shape
        return PlanarTexels(self.shape, (self.size_m[0] / columns, self.size_m[1] / rows))


def composite_decals(
    colors: Floats,
    decals: Sequence[Decal],
    panels: Sequence[Panel],
    print_mask: Floats | float = 0.0,
) -> tuple[Floats, Floats]:
    """Composite decals onto a texture.

    Args:
        colors: linear RGB (h, w, 3).
        decals: decals, bottom to top.
        panels: sides of the body in the texture.
        print_mask: share (h, w) of each texel that stays above decals.

    Returns:
        Linear RGB (h, w, 3), and the coverage (h, w) by decals.

    Raises:
        InputError: a decal's image is missing, damaged or has changed.
    """
    result, coverage = colors.copy(), np.zeros(colors.shape[:2])
    for decal in decals:
        panel = panels[decal.side]
        side, side_coverage = result[panel.window], coverage[panel.window]
        if panel.is_bottom_up:
            side, side_coverage = side[::-1], side_coverage[::-1]
        _composite_decal(decal, panel, side, side_coverage)
    coverage *= 1 - print_mask
    printed = result + np.broadcast_to(print_mask, coverage.shape)[..., None] * (colors - result)
    return printed, coverage


def _composite_decal(decal: Decal, panel: Panel, side_colors: Floats, coverage: Floats) -> None:
    """Composite a decal onto the colours (h, w, 3) and coverage (h, w) of a side, in place."""
    texel, size_m = np.array(panel.plane.texel_size_m), np.array(panel.size_m)
    width_px = math.ceil(min(decal.width_m, max(size_m)) / texel.min())
    decal_rgba = _render_decal(decal, max(8, width_px))
    c, s = math.cos(decal.angle_rad), math.sin(decal.angle_rad)
    width, height = decal.width_m * np.array([1.0, decal_rgba.shape[0] / decal_rgba.shape[1]])
    bounding_m = np.array([abs(c) * width + abs(s) * height, abs(s) * width + abs(c) * height])
    scale = min(1.0, float((size_m / bounding_m).min()))
    width, height, bounding_m = scale * width, scale * height, scale * bounding_m
    center_m = bounding_m / 2 + np.array([decal.x, decal.y]) * (size_m - bounding_m)
    first = np.floor((center_m - bounding_m / 2) / texel).astype(int).clip(0)
    last = np.ceil((center_m + bounding_m / 2) / texel).astype(int)
    window = np.s_[first[1] : last[1], first[0] : last[0]]
    row, column = np.indices(coverage[window].shape)
    right = (column + first[0] + 0.5) * texel[0] - center_m[0]
    down = (row + first[1] + 0.5) * texel[1] - center_m[1]
    along, across = c * right + s * down, c * down - s * right
    resampled = cv2.remap(
        decal_rgba,
        ((along / width + 0.5) * decal_rgba.shape[1] - 0.5).astype(np.float32),
        ((across / height + 0.5) * decal_rgba.shape[0] - 0.5).astype(np.float32),
        cv2.INTER_LINEAR,
        borderMode=cv2.BORDER_REPLICATE,
    )
    edge_distance = np.minimum(width / 2 - np.abs(along), height / 2 - np.abs(across))
    edge_distance -= _compute_tear_depth_m(decal, along, across, min(width, height))
    opacity = resampled[..., 3] * (edge_distance / texel.max() + 0.5).clip(0, 1)
    side_colors[window] += opacity[..., None] * (resampled[..., :3] - side_colors[window])
    coverage[window] += opacity * (1 - coverage[window])


def _compute_tear_depth_m(
    decal: Decal, along: Floats, across: Floats, side_m: float
) -> Floats | float:
    """Return the depth of tears from the edge, at points (h, w) relative to the centre."""
    if not decal.wear:
        return 0.0
    black = (0.0, 0.0, 0.0)
    tears = Texture("fbm", black, black, _TEAR_SCALE * side_m, 1.0, 0.3, decal.seed)
    level = make_level_sampler(tears)((along, across, np.zeros(1)))
    return decal.wear * _MAX_TEAR_DEPTH * side_m * level


def _render_decal(decal: Decal, width_px: int) -> Float32Array:
    """Render a decal as linear RGB and opacity (h, w, 4), about ``width_px`` wide."""
    if decal.image is not None:
        return load_cutout_image(decal.image, width_px)
    text_canvas = _draw_text_line(decal.text)
    size = width_px, max(2, round(width_px * text_canvas.shape[0] / text_canvas.shape[1]))
    ink = (cv2.resize(text_canvas, size, interpolation=cv2.INTER_AREA) / 255.0)[..., None]
    letters = np.broadcast_to(decal.text_color, (*ink.shape[:2], 3))
    if decal.background_color is None:
        return np.concatenate([letters, ink], axis=2).astype(np.float32)
    colors = decal.background_color + ink * (letters - decal.background_color)
    return np.concatenate([colors, np.ones_like(ink)], axis=2).astype(np.float32)


def _draw_text_line(text: str) -> Canvas:
    """Draw a line of text; ink is 255."""
    aspect = _TEXT_MARGIN_FRACTION + _LETTER_ADVANCE_FRACTION * max(len(text), 1)
    line_px = _LETTER_PX / _LETTER_HEIGHT_FRACTION
    canvas = np.zeros((round(line_px), round(line_px * aspect)), np.uint8)
    if text:
        height = _LETTER_HEIGHT_FRACTION / aspect
        draw_text(canvas, text, (0.5, 0.5 / aspect), height, max_width=1 - 0.5 / aspect)
    return canvas
