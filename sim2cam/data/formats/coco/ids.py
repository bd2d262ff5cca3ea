"""Ids of a COCO file, to resolve results."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sim2cam.data.formats.coco.annotation_file import limit_nesting, read_coco_file
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
    """Images and categories of a COCO file by id."""

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
        """Return a result as a label of the upright pixels.

        Without ``bbox``, the box is the bounding box of the mask or else of the keypoints, as in
        pycocotools.

        Raises:
            ValueError: all of box, mask and keypoints are missing, or one is invalid.
        """
        photo, is_stored = self.images[image_id], image_id in self.stored_pixel_ids
        columns, rows = photo.stored_size if is_stored else photo.upright_size
        mask = parse_segmentation(segmentation, (rows, columns))
        parsed_keypoints = parse_keypoints(
            _mark_keypoints_visible(keypoints), self.keypoint_names[category_id]
        )
        box = _compute_bounding_box(mask, parsed_keypoints) if bbox is None else xywh_to_xyxy(bbox)
        if box is None:
            raise ValueError("bbox is missing.")
        area_px = (box[2] - box[0]) * (box[3] - box[1])
        label = ObjectLabel(
            self.categories[category_id], box, area_px, mask=mask, keypoints=parsed_keypoints
        )
        return photo.orient_label(label) if is_stored else label


def read_coco_ids(path: Path) -> CocoIds:
    """Return the ids of a COCO file.

    Raises:
        InputError: as ``read_coco``.
    """
    problems = AnnotationErrors(path, skip_invalid=True)  # annotations are not used
    with limit_nesting(path), warnings.catch_warnings():
        warnings.simplefilter("ignore", RepairWarning)  # already given by read_coco
        file = read_coco_file(path, problems)
        photos = find_coco_images(path, file.images)
        are_stored = detect_stored_pixel_labels(path, photos)
    categories = file.categories.items()
    return CocoIds(
        {photo.entry.id: photo.name for photo in photos},
        {category_id: category.name for category_id, category in categories},
        {category_id: tuple(category.keypoints or ()) for category_id, category in categories},
        {photo.entry.id: photo for photo in photos},
        {p.entry.id for p, is_stored in zip(photos, are_stored, strict=True) if is_stored},
    )


def _mark_keypoints_visible(keypoints: Any) -> Any:
    """Return the keypoints of a result with visibility 1, as results have no labels."""
    if isinstance(keypoints, list) and len(keypoints) % 3 == 0:
        return [1 if i % 3 == 2 else value for i, value in enumerate(keypoints)]
    return keypoints


def _compute_bounding_box(mask: RleMask | None, points: Sequence[Keypoint] | None) -> Box | None:
    if mask is not None:
        return mask_to_box(mask.decode()) or (0.0, 0.0, 0.0, 0.0)
    if not points:
        return None
    x, y = zip(*(point.xy for point in points), strict=True)
    return min(x), min(y), max(x), max(y)
