"""Photos that labels belong to: their file, and of which pixels the labels are, stored or upright."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.data.sample import ObjectLabel
from sim2cam.errors import InputError, RepairWarning
from sim2cam.geometry.boxes import Box
from sim2cam.geometry.run_length import RunLengths

_TO_UPRIGHT = {
    1: (False, False, False),
    2: (True, False, False),
    3: (True, True, False),
    4: (False, True, False),
    5: (False, False, True),
    6: (False, True, True),
    7: (True, True, True),
    8: (True, False, True),
}
"""EXIF orientation: mirrored in x, mirrored in y, then x and y exchanged, to stand upright."""


@dataclass(frozen=True)
class Photo:
    """A labelled image, and what its file and its labels say of it.

    Attributes:
        name: relative path that identifies the image.
        path: the file.
        stored: width and height of the stored pixels.
        orientation: of EXIF, 1 (upright) to 8.
        listed: width and height that the labels give; None where they give none.
    """

    name: str
    path: Path
    stored: tuple[int, int]
    orientation: int
    listed: tuple[int, int] | None

    @property
    def upright(self) -> tuple[int, int]:
        """Width and height as the image is read."""
        return self.stored[::-1] if _TO_UPRIGHT[self.orientation][2] else self.stored

    def size(self, turned: bool) -> tuple[int, int]:
        """Return width and height of the stored pixels where ``turned``, else of the upright ones."""
        return self.stored if turned else self.upright

    def upright_box(self, box_xyxy: Box) -> Box:
        """Return where a box of the stored pixels lies in the upright ones."""
        x0, y0, x1, y1 = box_xyxy
        width, height = self.stored
        mirrored_x, mirrored_y, exchanged = _TO_UPRIGHT[self.orientation]
        if mirrored_x:
            x0, x1 = width - x1, width - x0
        if mirrored_y:
            y0, y1 = height - y1, height - y0
        return (y0, x0, y1, x1) if exchanged else (x0, y0, x1, y1)

    def upright_label(self, label: ObjectLabel) -> ObjectLabel:
        """Return a label of the stored pixels as one of the upright ones."""
        if self.orientation == 1:  # masks need not be unpacked
            return label
        mask = None if label.mask is None else RunLengths.of(self._upright_mask(label.mask.mask()))
        points = label.keypoints
        if points is not None:
            points = tuple(
                replace(p, xy=self.upright_box((*p.xy, p.xy[0] + 1, p.xy[1] + 1))[:2])
                if p.visibility > 0
                else p
                for p in points
            )
        amodal = label.box_amodal_xyxy
        return replace(
            label,
            box_xyxy=self.upright_box(label.box_xyxy),
            box_amodal_xyxy=None if amodal is None else self.upright_box(amodal),
            mask=mask,
            keypoints=points,
        )

    def _upright_mask(self, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        mirrored_x, mirrored_y, exchanged = _TO_UPRIGHT[self.orientation]
        mask = mask[:: -1 if mirrored_y else 1, :: -1 if mirrored_x else 1]
        return mask.T if exchanged else mask


def read_photo(path: Path, name: str, image: Path, listed: tuple[int, int] | None) -> Photo:
    """Read size and orientation of an image and check them against its labels.

    Args:
        path: of the labels, for errors.
        name: that identifies the image.
        image: its file.
        listed: width and height that the labels give; None where they give none.

    Raises:
        InputError: the image cannot be read, or is of another size than listed.
    """
    orientation, (width, height) = images.read_orientation(image), images.read_size(image)
    is_exchanged = _TO_UPRIGHT[orientation][2]
    stored = (height, width) if is_exchanged else (width, height)
    photo = Photo(name, image, stored, orientation, listed)
    if listed is not None and listed not in (photo.stored, photo.upright):
        raise InputError(
            path,
            f"image {name} is {width}x{height} pixels, not {listed[0]}x{listed[1]} as listed. Export "
            "the annotations of this very image.",
        )
    return photo


def are_of_stored_pixels(path: Path, photos: Sequence[Photo]) -> list[bool]:
    """Return for each photo whether its labels are of the pixels as stored, not of the upright ones.

    The listed size says so where EXIF exchanges width and height. Others follow these; without any, labels
    are of the upright pixels, as browsers, OpenCV and CVAT show them.
    """
    are_stored = [p.listed == p.stored for p in photos if _is_said(p)]
    default = bool(are_stored) and all(are_stored)
    open_ones = [p for p in photos if p.orientation != 1 and not _is_said(p)]
    if open_ones and not are_stored:
        first = open_ones[0]
        count = f"image {first.name}" + (f" and {len(open_ones) - 1} more" if open_ones[1:] else "")
        warnings.warn(
            f"{path}: {count}: EXIF rotates or mirrors the pixels, and the listed size fits both the stored and the "
            "upright image. Labels are read as labels of the upright image, as browsers, OpenCV and CVAT show it.",
            RepairWarning,
            stacklevel=2,
        )
    return [p.listed == p.stored if _is_said(p) else default for p in photos]


def _is_said(photo: Photo) -> bool:
    """Return whether the listed size says of which pixels the labels are."""
    return photo.listed is not None and photo.stored != photo.upright
