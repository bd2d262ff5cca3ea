"""Decals as texels: stickers and lines of print, laid on the sides that a picture holds once each."""

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

_LETTER_PX = 64  # height at which letters are drawn, before they are fitted
_LETTER_HEIGHT_FRACTION = 0.55  # height of letters over that of their line
_LETTER_ADVANCE_FRACTION = 0.55  # width of a letter over the height of its line
_TEXT_MARGIN_FRACTION = 0.6  # beside a line, over its height
_MAX_TEAR_DEPTH = 0.35  # of the shorter side: so far in come the tears of the most worn ones
_TEAR_SCALE = 0.4  # size of the largest tears over that side


@dataclass(frozen=True)
class Panel:
    """A side of a body in its picture.

    Attributes:
        top, left: its first row and column.
        shape: how many it has of each.
        size_m: its width and height on the body.
        is_bottom_up: whether its rows go up on the body as it is seen from outside, not down.
    """

    top: int
    left: int
    shape: tuple[int, int]
    size_m: tuple[float, float]
    is_bottom_up: bool = False

    @property
    def window(self) -> tuple[slice, slice]:
        """Its rows and columns."""
        rows, columns = self.shape
        return slice(self.top, self.top + rows), slice(self.left, self.left + columns)

    @property
    def plane(self) -> PlanarTexels:
        """Where its texels lie on the side."""
        rows, columns = self.shape
        return PlanarTexels(self.shape, (self.size_m[0] / columns, self.size_m[1] / rows))


def composite_decals(
    colors: Floats,
    decals: Sequence[Decal],
    panels: Sequence[Panel],
    print_mask: Floats | float = 0.0,
) -> tuple[Floats, Floats]:
    """Return a picture with decals on it, linear RGB (h, w, 3), and how much of it (h, w) they cover.

    Args:
        colors: linear RGB (h, w, 3).
        decals: later ones lie over earlier ones.
        panels: the sides that they are on.
        print_mask: share (h, w) of each texel that stays on top of them.

    Raises:
        InputError: a decal's picture is missing, damaged, or not what it was.
    """
    found, cover = colors.copy(), np.zeros(colors.shape[:2])
    for decal in decals:
        panel = panels[decal.side]
        side, covered = found[panel.window], cover[panel.window]
        if panel.is_bottom_up:
            side, covered = side[::-1], covered[::-1]
        _composite_decal(decal, panel, side, covered)
    cover *= 1 - print_mask
    shown = found + np.broadcast_to(print_mask, cover.shape)[..., None] * (colors - found)
    return shown, cover


def _composite_decal(decal: Decal, panel: Panel, side_colors: Floats, coverage: Floats) -> None:
    """Lay a decal on a side (h, w, 3), rows downwards, and on what of it is covered (h, w)."""
    texel, size_m = np.array(panel.plane.texel_size_m), np.array(panel.size_m)
    ink = _render_decal(decal, max(8, math.ceil(min(decal.width_m, max(size_m)) / texel.min())))
    c, s = math.cos(decal.angle_rad), math.sin(decal.angle_rad)
    width, height = decal.width_m * np.array([1.0, ink.shape[0] / ink.shape[1]])
    around = np.array([abs(c) * width + abs(s) * height, abs(s) * width + abs(c) * height])
    fit = min(1.0, float((size_m / around).min()))
    width, height, around = fit * width, fit * height, fit * around
    middle = around / 2 + np.array([decal.x, decal.y]) * (size_m - around)
    first = np.floor((middle - around / 2) / texel).astype(int).clip(0)
    last = np.ceil((middle + around / 2) / texel).astype(int)
    place = np.s_[first[1] : last[1], first[0] : last[0]]
    row, column = np.indices(coverage[place].shape)
    right = (column + first[0] + 0.5) * texel[0] - middle[0]
    down = (row + first[1] + 0.5) * texel[1] - middle[1]
    along, across = c * right + s * down, c * down - s * right
    laid = cv2.remap(
        ink,
        ((along / width + 0.5) * ink.shape[1] - 0.5).astype(np.float32),
        ((across / height + 0.5) * ink.shape[0] - 0.5).astype(np.float32),
        cv2.INTER_LINEAR,
        borderMode=cv2.BORDER_REPLICATE,
    )
    within = np.minimum(width / 2 - np.abs(along), height / 2 - np.abs(across))
    within -= _compute_tear_depth_m(decal, along, across, min(width, height))
    share = laid[..., 3] * (within / texel.max() + 0.5).clip(0, 1)
    side_colors[place] += share[..., None] * (laid[..., :3] - side_colors[place])
    coverage[place] += share * (1 - coverage[place])


def _compute_tear_depth_m(
    decal: Decal, along: Floats, across: Floats, side_m: float
) -> Floats | float:
    """Return how far from its edge a decal has come off, by points (h, w) from its middle."""
    if not decal.wear:
        return 0.0
    black = (0.0, 0.0, 0.0)
    tears = Texture("fbm", black, black, _TEAR_SCALE * side_m, 1.0, 0.3, decal.seed)
    return (
        decal.wear
        * _MAX_TEAR_DEPTH
        * side_m
        * make_level_sampler(tears)((along, across, np.zeros(1)))
    )


def _render_decal(decal: Decal, width_px: int) -> Float32Array:
    """Return what a decal shows, linear RGB and how much of it covers, (h, w, 4), about so wide."""
    if decal.image is not None:
        return load_cutout_image(decal.image, width_px)
    line = _draw_text_line(decal.text)
    size = width_px, max(2, round(width_px * line.shape[0] / line.shape[1]))
    ink = (cv2.resize(line, size, interpolation=cv2.INTER_AREA) / 255.0)[..., None]
    letters = np.broadcast_to(decal.text_color, (*ink.shape[:2], 3))
    if decal.background_color is None:
        return np.concatenate([letters, ink], axis=2).astype(np.float32)
    colors = decal.background_color + ink * (letters - decal.background_color)
    return np.concatenate([colors, np.ones_like(ink)], axis=2).astype(np.float32)


def _draw_text_line(text: str) -> Canvas:
    """Return a line of text, 255 where there is ink."""
    aspect = _TEXT_MARGIN_FRACTION + _LETTER_ADVANCE_FRACTION * max(len(text), 1)
    high = _LETTER_PX / _LETTER_HEIGHT_FRACTION
    line = np.zeros((round(high), round(high * aspect)), np.uint8)
    if text:
        draw_text(
            line,
            text,
            (0.5, 0.5 / aspect),
            _LETTER_HEIGHT_FRACTION / aspect,
            max_width=1 - 0.5 / aspect,
        )
    return line
