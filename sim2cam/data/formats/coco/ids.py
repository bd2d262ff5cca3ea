"""Ids of a COCO file: what lists of results, which name images and categories by them, mean."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sim2cam.data.formats.coco.file import limit_nesting, read_coco_file
from sim2cam.data.formats.coco.photos import CocoImage, find_coco_images
from sim2cam.data.formats.coco.shapes import parse_keypoints, parse_segmentation
from sim2cam.data.formats.photos import detect_stored_pixel_labels
from sim2cam.data.problems import AnnotationErrors
from sim2cam.data.sample import Keypoint, ObjectLabel
from sim2cam.errors import RepairWarning
from sim2cam.geometry.boxes import Box, mask_to_box, xywh_to_xyxy
from sim2cam.geometry.run_length import RleMask


@dataclass(frozen=True)
class CocoIds:
    """What a COCO file means by its ids.

    Attributes:
        image_names: of images, by id.
        categories: names, by id.
        keypoint_names: names of those of each category, by its id.
        images: by id.
        stored_pixel_ids: ids of images whose labels are of the pixels as stored.
    """

    image_names: dict[int | str, str]
    categories: dict[int, str]
    keypoint_names: dict[int, tuple[str, ...]]
    images: dict[int | str, CocoImage]
    stored_pixel_ids: set[int | str]

    def build_label(
        self,
        image_id: int | str,
        category_id: int,
        bbox: tuple[float, float, float, float] | None,
        segmentation: Any,
        keypoints: Any,
    ) -> ObjectLabel:
        """Return what a result says as a label of the pixels that ``images`` returns.

        Without ``bbox`` the box is that around the mask or else the keypoints, as COCO's own tools take it.

        Raises:
            ValueError: there is neither of these, or one that does not fit.
        """
        photo, is_turned = self.images[image_id], image_id in self.stored_pixel_ids
        columns, rows = photo.stored_size if is_turned else photo.upright_size
        mask = parse_segmentation(segmentation, (rows, columns))
        points = parse_keypoints(
            _mark_keypoints_visible(keypoints), self.keypoint_names[category_id]
        )
        box = _compute_bounding_box(mask, points) if bbox is None else xywh_to_xyxy(bbox)
        if box is None:
            raise ValueError("bbox is missing.")
        area_px = (box[2] - box[0]) * (box[3] - box[1])
        label = ObjectLabel(self.categories[category_id], box, area_px, mask=mask, keypoints=points)
        return photo.orient_label(label) if is_turned else label


def read_coco_ids(path: Path) -> CocoIds:
    """Return what a COCO file means by its ids.

    Raises:
        InputError: as ``read_coco``.
    """
    problems = AnnotationErrors(path, skip_invalid=True)  # ids alone are asked for
    with limit_nesting(path), warnings.catch_warnings():
        warnings.simplefilter("ignore", RepairWarning)  # read_coco gave them
        file = read_coco_file(path, problems)
        photos = find_coco_images(path, file.images)
        are_stored = detect_stored_pixel_labels(path, photos)
    categories = file.categories.items()
    return CocoIds(
        {photo.entry.id: photo.name for photo in photos},
        {number: category.name for number, category in categories},
        {number: tuple(category.keypoints or ()) for number, category in categories},
        {photo.entry.id: photo for photo in photos},
        {p.entry.id for p, is_stored in zip(photos, are_stored, strict=True) if is_stored},
    )


def _mark_keypoints_visible(keypoints: Any) -> Any:
    """Return keypoints of a result, of which all have a place: what they say of visibility is not asked."""
    if isinstance(keypoints, list) and len(keypoints) % 3 == 0:
        return [1 if place % 3 == 2 else number for place, number in enumerate(keypoints)]
    return keypoints


def _compute_bounding_box(mask: RleMask | None, points: Sequence[Keypoint] | None) -> Box | None:
    if mask is not None:
        return mask_to_box(mask.decode()) or (0.0, 0.0, 0.0, 0.0)
    if not points:
        return None
    x, y = zip(*(point.xy for point in points), strict=True)
    return min(x), min(y), max(x), max(y)
