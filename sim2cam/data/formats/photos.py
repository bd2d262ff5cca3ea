"""Labelled image files: size, EXIF orientation, and whether labels are of stored or upright pixels."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sim2cam import images
from sim2cam.data.sample import ObjectLabel
from sim2cam.errors import InputError, RepairWarning
from sim2cam.geometry.boxes import Box
from sim2cam.geometry.run_length import RleMask

_EXIF_TRANSFORMS = {
    1: (False, False, False),
    2: (True, False, False),
    3: (True, True, False),
    4: (False, True, False),
    5: (False, False, True),
    6: (False, True, True),
    7: (True, True, True),
    8: (True, False, True),
}
"""EXIF orientation: mirror x, mirror y, then exchange x and y, to get the upright image."""


@dataclass(frozen=True)
class OrientedImage:
    """A labelled image file.

    Attributes:
        name: relative path that identifies the image.
        path: image file.
        stored_size: width and height of the stored pixels.
        orientation: EXIF orientation, 1 (upright) to 8.
        annotated_size: width and height in the labels; None if missing.
    """

    name: str
    path: Path
    stored_size: tuple[int, int]
    orientation: int
    annotated_size: tuple[int, int] | None

    @property
    def upright_size(self) -> tuple[int, int]:
        """Width and height of the upright image."""
        return self.stored_size[::-1] if _EXIF_TRANSFORMS[self.orientation][2] else self.stored_size

    def get_size(self, is_stored: bool) -> tuple[int, int]:
        """Return width and height of the stored pixels if ``is_stored``, else of the upright ones."""
        return self.stored_size if is_stored else self.upright_size

    def orient_box(self, box_xyxy: Box) -> Box:
        """Return a box of the stored pixels as a box of the upright ones."""
        x0, y0, x1, y1 = box_xyxy
        width, height = self.stored_size
        mirrored_x, mirrored_y, exchanged = _EXIF_TRANSFORMS[self.orientation]
        if mirrored_x:
            x0, x1 = width - x1, width - x0
        if mirrored_y:
            y0, y1 = height - y1, height - y0
        return (y0, x0, y1, x1) if exchanged else (x0, y0, x1, y1)

    def orient_label(self, label: ObjectLabel) -> ObjectLabel:
        """Return a label of the stored pixels as a label of the upright ones."""
        if self.orientation == 1:  # avoids decoding masks
            return label
        mask = label.mask
        if mask is not None:
            mask = RleMask.from_mask(images.orient_pixels(mask.decode(), self.orientation))
        keypoints = label.keypoints
        if keypoints is not None:
            keypoints = tuple(
                replace(p, xy=self.orient_box((*p.xy, p.xy[0] + 1, p.xy[1] + 1))[:2])
                if p.visibility > 0
                else p
                for p in keypoints
            )
        amodal = label.box_amodal_xyxy
        return replace(
            label,
            box_xyxy=self.orient_box(label.box_xyxy),
            box_amodal_xyxy=None if amodal is None else self.orient_box(amodal),
            mask=mask,
            keypoints=keypoints,
        )


def read_oriented_image(
    path: Path, name: str, image_path: Path, annotated_size: tuple[int, int] | None
) -> OrientedImage:
    """Read size and orientation of an image and check them against its labels.

    Args:
        path: label file, for errors.
        name: name that identifies the image.
        image_path: image file.
        annotated_size: width and height in the labels; None if missing.

    Raises:
        InputError: the image cannot be read, or its size differs from the labels.
    """
    orientation, (width, height) = images.read_orientation(image_path), images.read_size(image_path)
    is_exchanged = _EXIF_TRANSFORMS[orientation][2]
    stored = (height, width) if is_exchanged else (width, height)
    photo = OrientedImage(name, image_path, stored, orientation, annotated_size)
    if annotated_size is not None and annotated_size not in (photo.stored_size, photo.upright_size):
        raise InputError(
            path,
            f"image {name} is {width}x{height} pixels, not {annotated_size[0]}x{annotated_size[1]} as listed. Export "
            "the annotations of this image.",
        )
    return photo


def detect_stored_pixel_labels(path: Path, photos: Sequence[OrientedImage]) -> list[bool]:
    """Return for each photo whether its labels are of the stored instead of the upright pixels.

    Decided by the listed size if EXIF exchanges width and height. Other photos follow these;
    without any, labels are of the upright pixels, as in browsers, OpenCV and CVAT.
    """
    are_stored = [p.annotated_size == p.stored_size for p in photos if _has_distinct_size(p)]
    default = bool(are_stored) and all(are_stored)
    ambiguous = [p for p in photos if p.orientation != 1 and not _has_distinct_size(p)]
    if ambiguous and not are_stored:
        first = ambiguous[0]
        count = f"image {first.name}" + (f" and {len(ambiguous) - 1} more" if ambiguous[1:] else "")
        warnings.warn(
            f"{path}: {count}: EXIF rotates or mirrors the pixels, and the listed size fits both the stored and the "
            "upright image. Labels are read as labels of the upright image, as browsers, OpenCV and CVAT show it.",
            RepairWarning,
            stacklevel=2,
        )
    return [p.annotated_size == p.stored_size if _has_distinct_size(p) else default for p in photos]


def _has_distinct_size(photo: OrientedImage) -> bool:
    """Return whether the listed size decides between stored and upright pixels."""
    return photo.annotated_size is not None and photo.stored_size != photo.upright_size
