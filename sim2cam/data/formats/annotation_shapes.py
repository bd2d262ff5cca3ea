"""Conversion of shapes of annotation tools to labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from sim2cam.data.formats.coco.shapes import parse_segmentation
from sim2cam.data.sample import ObjectLabel
from sim2cam.geometry.boxes import Box, bound_rotated_box, is_valid_box
from sim2cam.geometry.run_length import RleMask


class ShapeConverter:
    """Converter of shapes to labels, which counts changed and skipped shapes."""

    def __init__(self) -> None:
        self._rotated_count = 0
        self._skipped_counts: Counter[str] = Counter()

    def convert_box(
        self, category: str, box: Box, size: tuple[int, int], rotation_deg: float = 0.0
    ) -> ObjectLabel:
        """Return the label of a box that is rotated about its centre.

        Args:
            box: box before rotation, as x0, y0, x1, y1.
            size: width and height of the image.
            rotation_deg: rotation of the box, degrees.

        Raises:
            ValueError: the box is empty or lies outside the image.
        """
        x0, y0, x1, y1 = box
        width, height = size
        if rotation_deg % 180:
            self._rotated_count += 1
            box = bound_rotated_box(box, rotation_deg)
        left, top, right, bottom = box
        is_inside = left < width and top < height and right > 0 and bottom > 0
        if not (is_valid_box((x0, y0, x1, y1)) and is_inside):
            raise ValueError(
                f"the box from ({x0:g}, {y0:g}) to ({x1:g}, {y1:g}) is empty or outside the image of "
                f"{width}x{height} pixels."
            )
        return ObjectLabel(category, box, (x1 - x0) * (y1 - y0))

    def convert_polygons(
        self, category: str, polygons: Sequence[Sequence[float]], size: tuple[int, int]
    ) -> ObjectLabel:
        """Return the label of an object of one or several polygons.

        Args:
            polygons: corners x, y, x, y, ... of each polygon.
            size: width and height of the image.

        Raises:
            ValueError: a polygon is invalid, empty or outside the image.
        """
        mask = parse_segmentation([list(polygon) for polygon in polygons], size[::-1])
        xs = [x for polygon in polygons for x in polygon[::2]]
        ys = [y for polygon in polygons for y in polygon[1::2]]
        label = self.convert_box(category, (min(xs), min(ys), max(xs), max(ys)), size)
        return label if mask is None else _attach_mask(label, mask)

    def skip(self, kind: str) -> None:
        """Count a shape of an unsupported kind."""
        self._skipped_counts[kind] += 1

    def list_warnings(self) -> list[str]:
        """Return notes on changed and skipped shapes."""
        notes = []
        if self._rotated_count:
            notes.append(
                f"rotated boxes: {self._rotated_count}. The axis-aligned boxes around them are used."
            )
        if self._skipped_counts:
            kinds = ", ".join(
                f"{count} of {kind}" for kind, count in sorted(self._skipped_counts.items())
            )
            notes.append(
                f"shapes other than boxes and polygons are left out: {kinds}. Draw them as polygons, or export "
                "the labels as COCO."
            )
        return notes


def _attach_mask(label: ObjectLabel, mask: RleMask) -> ObjectLabel:
    """Return a label with a mask, unless the mask is empty (thinner than a pixel)."""
    area = mask.compute_area_px()
    return replace(label, mask=mask, area_px=float(area)) if area else label
