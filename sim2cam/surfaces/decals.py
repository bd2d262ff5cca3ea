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
from sim2cam.surfaces.printing import Sheet, draw_text
from sim2cam.surfaces.textures import cut_out, levels
from sim2cam.surfaces.uv_charts import Plane

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

_LETTER_PX = 64  # height at which letters are drawn, before they are fitted
_LETTERS = 0.55  # height of letters over that of their line
_ADVANCE = 0.55  # width of a letter over the height of its line
_MARGIN = 0.6  # beside a line, over its height
_TORN = 0.35  # of the shorter side: so far in come the tears of the most worn ones
_TEARS = 0.4  # size of the largest tears over that side


@dataclass(frozen=True)
class Panel:
    """A side of a body in its picture.

    Attributes:
        top, left: its first row and column.
        shape: how many it has of each.
        size_m: its width and height on the body.
        rises: whether its rows go up on the body as it is seen from outside, not down.
    """

    top: int
    left: int
    shape: tuple[int, int]
    size_m: tuple[float, float]
    rises: bool = False

    @property
    def place(self) -> tuple[slice, slice]:
        """Its rows and columns."""
        rows, columns = self.shape
        return slice(self.top, self.top + rows), slice(self.left, self.left + columns)

    @property
    def plane(self) -> Plane:
        """Where its texels lie on the side."""
        rows, columns = self.shape
        return Plane(self.shape, (self.size_m[0] / columns, self.size_m[1] / rows))


def stuck(
    colors: Floats, decals: Sequence[Decal], panels: Sequence[Panel], marks: Floats | float = 0.0
) -> tuple[Floats, Floats]:
    """Returns a picture with decals on it, linear RGB (h, w, 3), and how much of it (h, w) they cover.

    Args:
        colors: linear RGB (h, w, 3).
        decals: later ones lie over earlier ones.
        panels: the sides that they are on.
        marks: share (h, w) of each texel that stays on top of them.

    Raises:
        InputError: a decal's picture is missing, damaged, or not what it was.
    """
    found, cover = colors.copy(), np.zeros(colors.shape[:2])
    for decal in decals:
        panel = panels[decal.side]
        side, covered = found[panel.place], cover[panel.place]
        if panel.rises:
            side, covered = side[::-1], covered[::-1]
        _lay(decal, panel, side, covered)
    cover *= 1 - marks
    shown = found + np.broadcast_to(marks, cover.shape)[..., None] * (colors - found)
    return shown, cover


def _lay(decal: Decal, panel: Panel, side: Floats, cover: Floats) -> None:
    """Lays a decal on a side (h, w, 3), rows downwards, and on what of it is covered (h, w)."""
    texel, size_m = np.array(panel.plane.texel_m), np.array(panel.size_m)
    ink = _print_of(decal, max(8, math.ceil(min(decal.width_m, max(size_m)) / texel.min())))
    c, s = math.cos(decal.angle_rad), math.sin(decal.angle_rad)
    width, height = decal.width_m * np.array([1.0, ink.shape[0] / ink.shape[1]])
    around = np.array([abs(c) * width + abs(s) * height, abs(s) * width + abs(c) * height])
    fit = min(1.0, float((size_m / around).min()))
    width, height, around = fit * width, fit * height, fit * around
    middle = around / 2 + np.array([decal.x, decal.y]) * (size_m - around)
    first = np.floor((middle - around / 2) / texel).astype(int).clip(0)
    last = np.ceil((middle + around / 2) / texel).astype(int)
    place = np.s_[first[1] : last[1], first[0] : last[0]]
    row, column = np.indices(cover[place].shape)
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
    within -= _torn_m(decal, along, across, min(width, height))
    share = laid[..., 3] * (within / texel.max() + 0.5).clip(0, 1)
    side[place] += share[..., None] * (laid[..., :3] - side[place])
    cover[place] += share * (1 - cover[place])


def _torn_m(decal: Decal, along: Floats, across: Floats, side_m: float) -> Floats | float:
    """Returns how far from its edge a decal has come off, by points (h, w) from its middle."""
    if not decal.wear:
        return 0.0
    black = (0.0, 0.0, 0.0)
    tears = Texture("fbm", black, black, _TEARS * side_m, 1.0, 0.3, decal.seed)
    return decal.wear * _TORN * side_m * levels(tears)((along, across, np.zeros(1)))


def _print_of(decal: Decal, width_px: int) -> Singles:
    """Returns what a decal shows, linear RGB and how much of it covers, (h, w, 4), about so wide."""
    if decal.picture is not None:
        return cut_out(decal.picture, width_px)
    line = _line_of(decal.text)
    size = width_px, max(2, round(width_px * line.shape[0] / line.shape[1]))
    ink = (cv2.resize(line, size, interpolation=cv2.INTER_AREA) / 255.0)[..., None]
    letters = np.broadcast_to(decal.letters, (*ink.shape[:2], 3))
    if decal.ground is None:
        return np.concatenate([letters, ink], axis=2).astype(np.float32)
    colors = decal.ground + ink * (letters - decal.ground)
    return np.concatenate([colors, np.ones_like(ink)], axis=2).astype(np.float32)


def _line_of(text: str) -> Sheet:
    """Returns a line of text, 255 where there is ink."""
    aspect = _MARGIN + _ADVANCE * max(len(text), 1)
    high = _LETTER_PX / _LETTERS
    line = np.zeros((round(high), round(high * aspect)), np.uint8)
    if text:
        draw_text(line, text, (0.5, 0.5 / aspect), _LETTERS / aspect, widest=1 - 0.5 / aspect)
    return line
