"""Other pictures, or collages, behind the objects of a picture, and pieces of them before these.

What renders show around objects is never as various as the world. Objects that are cut out and laid before
anything at all teach a detector to look at them alone (Dwibedi et al. 2017, "Cut, Paste and Learn"), and pieces
that hide them to make do with what is left.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, exp, log

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.data.sample import Dataset
from sim2cam.models.augment.dead_leaves import collage
from sim2cam.models.augment.overlay import hidden, laid
from sim2cam.models.training.images import Picture, PictureStore, known_owners

BEHIND_SHARE, BEFORE_SHARE = 0.5, 0.5
"""Of the pictures that get another backdrop, and of those that get pieces."""

_SCALES = (0.4, 2.0)  # by which backdrops shrink, from where they fill the picture
_PIECE_CHANCE = 0.5  # of each object
_OFF_CENTRE = 0.6  # at most, of a piece from the middle of the box, in its longer sides
_REACHES = (0.2, 0.6)  # of a piece, in longer sides of the box
_CORNERS = (3, 8)


class Backdrops:
    """Pictures that show nothing of what is learned; may be used by several threads.

    Args:
        pictures: without labels; None with ``collages`` alone.
        cache_bytes: budget of decoded images.
        amodal: whether boxes are of whole objects, and stay as they are where pieces hide something.
        collages: whether collages serve too, half of the time where there are pictures.
    """

    def __init__(
        self, pictures: Dataset | None, cache_bytes: int, *, amodal: bool, collages: bool = False
    ) -> None:
        samples = () if pictures is None else pictures.samples
        self._store = PictureStore([samples], (), cache_bytes)
        self._count = len(samples)
        self._amodal = amodal
        self._collage_share = (0.5 if samples else 1.0) if collages else 0.0

    def fill(self, processes: int) -> None:
        """Decodes them as ``PictureStore.fill`` does."""
        self._store.fill(processes)

    def around(self, picture: Picture, rng: np.random.Generator) -> Picture:
        """Returns a picture with or without another backdrop, with or without pieces before its objects.

        One of which it is not known which pixels show objects is returned as it is.

        Args:
            picture: as it was rendered.
            rng: source of chance.

        Raises:
            InputError: a backdrop cannot be read.
        """
        owners = known_owners(picture)
        if owners is None:
            return picture
        if rng.random() < BEHIND_SHARE:
            rgb = laid(picture.rgb, self._other(picture.rgb.shape[:2], rng), owners == 0)
            picture = replace(picture, rgb=rgb)
        if rng.random() < BEFORE_SHARE:
            pieces = _draw_pieces(picture, rng)
            rgb = laid(picture.rgb, self._other(picture.rgb.shape[:2], rng), pieces)
            picture = hidden(replace(picture, rgb=rgb), owners, pieces, amodal=self._amodal)
        return picture

    def _other(self, shape: tuple[int, int], rng: np.random.Generator) -> NDArray[np.uint8]:
        """Returns a collage or a part of a backdrop (height, width, 3)."""
        if self._collage_share and rng.random() < self._collage_share:
            return collage(shape, rng)
        return self._window(shape, rng)

    def _window(self, shape: tuple[int, int], rng: np.random.Generator) -> NDArray[np.uint8]:
        """Returns a part of a backdrop (height, width, 3), larger or smaller than it is, mirrored half of the
        time; where it is too small for all of the picture, it goes on as in a mirror.
        """
        rgb = self._store.get(0, int(rng.integers(self._count))).rgb
        filling = max(shape[0] / rgb.shape[0], shape[1] / rgb.shape[1])
        scale = filling / exp(rng.uniform(log(_SCALES[0]), log(_SCALES[1])))
        sides = [
            min(ceil(want / scale), have) for want, have in zip(shape, rgb.shape[:2], strict=True)
        ]
        top, left = (
            int(rng.integers(have - side + 1))
            for have, side in zip(rgb.shape[:2], sides, strict=True)
        )
        seen = rgb[top : top + sides[0], left : left + sides[1]]
        size = [max(round(scale * side), 1) for side in sides]
        way = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
        shown = cv2.resize(seen, size[::-1], interpolation=way)
        down, across = (max(want - have, 0) for want, have in zip(shape, size, strict=True))
        shown = cv2.copyMakeBorder(shown, 0, down, 0, across, cv2.BORDER_REFLECT)
        part = shown[: shape[0], : shape[1]]
        return np.ascontiguousarray(part[:, ::-1] if rng.random() < 0.5 else part, np.uint8)


def _draw_pieces(picture: Picture, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Returns where polygons lie, over and beside some of the objects (h, w)."""
    pieces = np.zeros(picture.rgb.shape[:2], np.uint8)
    for outline in picture.outlines:
        if rng.random() >= _PIECE_CHANCE:
            continue
        low, high = outline.min(axis=0), outline.max(axis=0)
        longer = float((high - low).max())
        middle = (low + high) / 2 + longer * rng.uniform(-_OFF_CENTRE, _OFF_CENTRE, 2)
        count = int(rng.integers(*_CORNERS, endpoint=True))
        angles = 2 * np.pi * (np.arange(count) + rng.uniform(0, 1, count)) / count
        reach = longer * rng.uniform(*_REACHES) * rng.uniform(0.5, 1, (count, 1))
        corners = middle + reach * np.column_stack([np.cos(angles), np.sin(angles)])
        cv2.fillPoly(pieces, [np.round(corners).astype(np.int32)], 1)
    return pieces.astype(np.bool_)
