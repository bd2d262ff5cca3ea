"""YOLO label files: boxes, polygons, keypoints.

A line is ``class x y width height``, the centre and size of a box, optionally followed by ``x y``
or ``x y visibility`` of each keypoint; or ``class x y x y x y ...``, the corners of a polygon.
Coordinates are normalised by the image size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from sim2cam.data.formats.yolo.layout import YoloLayout
from sim2cam.data.parsing import read_text
from sim2cam.data.problems import AnnotationErrors
from sim2cam.data.sample import Keypoint, ObjectLabel
from sim2cam.errors import InputError
from sim2cam.geometry.boxes import Box
from sim2cam.geometry.run_length import RleMask

_MAX_BYTES = 4_000_000
_EDGE_TOLERANCE = 1e-3  # over the image side; tolerance for rounded boxes
_VISIBILITIES: dict[float, Literal[0, 1, 2]] = {0.0: 0, 1.0: 1, 2.0: 2}


class YoloLabelReader:
    """Reader of label files.

    Attributes:
        confidence_count: number of lines with a trailing confidence, which is ignored.
    """

    def __init__(self, layout: YoloLayout, problems: AnnotationErrors) -> None:
        self._layout, self._problems = layout, problems
        self.confidence_count = 0

    def read(self, path: Path, width: int, height: int) -> list[ObjectLabel]:
        """Return the objects of an image.

        Raises:
            InputError: the file cannot be read.
        """
        labels: list[ObjectLabel] = []
        lines = read_text(path, _MAX_BYTES, "label file").splitlines()
        for number, line in enumerate(lines, start=1):
            with self._problems.collect():
                try:
                    labels += [self._parse_line(line, width, height)] if line.strip() else []
                except ValueError as error:
                    raise InputError(path, f"line {number}: {error}") from error
        return labels

    def _parse_line(self, line: str, width: int, height: int) -> ObjectLabel:
        try:
            class_index, *numbers = [float(word) for word in line.split()]
        except ValueError as error:
            raise ValueError(f"'{line[:60]}' is not a list of numbers.") from error
        categories = self._layout.categories
        if class_index not in range(len(categories)):
            raise ValueError(
                f"class {class_index:g} must be an integer from 0 to {len(categories) - 1}."
            )
        box, keypoint_values, polygon = self._split_numbers(numbers)
        x0, y0, x1, y1 = box
        if not (
            -_EDGE_TOLERANCE <= x0 < x1 <= 1 + _EDGE_TOLERANCE
            and -_EDGE_TOLERANCE <= y0 < y1 <= 1 + _EDGE_TOLERANCE
        ):
            raise ValueError(
                f"the box from ({x0:g}, {y0:g}) to ({x1:g}, {y1:g}) is empty or outside the image (0 to 1)."
            )
        box_px = x0 * width, y0 * height, x1 * width, y1 * height
        mask = _rasterize_polygon(polygon, width, height)
        area = (
            (x1 - x0) * width * (y1 - y0) * height
            if mask is None
            else float(mask.compute_area_px())
        )
        keypoints = (
            self._parse_keypoints(int(class_index), keypoint_values, width, height)
            if keypoint_values
            else None
        )
        return ObjectLabel(
            categories[int(class_index)], box_px, area, mask=mask, keypoints=keypoints
        )

    def _split_numbers(self, numbers: list[float]) -> tuple[Box, list[float], list[float]]:
        """Return box, keypoint values and polygon of a line; keypoints or polygon may be empty."""
        if not all(map(math.isfinite, numbers)):
            raise ValueError("a number is not finite.")
        n_keypoints = len(self._layout.keypoint_names[0]) if self._layout.keypoint_names else 0
        expected = 4 + n_keypoints * self._layout.keypoint_dims
        if len(numbers) == expected + 1 and 0 <= numbers[-1] <= 1:
            numbers = numbers[:-1]
            self.confidence_count += 1
        if len(numbers) in (4, expected):
            x, y, width, height = numbers[:4]
            box = x - width / 2, y - height / 2, x + width / 2, y + height / 2
            return box, numbers[4:], []
        if n_keypoints:
            raise ValueError(
                f"{len(numbers)} numbers after the class. Expected {expected}: 4 of the box and "
                f"{expected - 4} of {n_keypoints} keypoints (kpt_shape)."
            )
        if len(numbers) < 6 or len(numbers) % 2:
            raise ValueError(
                f"{len(numbers)} numbers after the class. A box has 4, a polygon an even number of 6 or more. "
                "Keypoints need kpt_shape in data.yaml; confidences of polygons are not supported."
            )
        xs, ys = numbers[::2], numbers[1::2]
        return (min(xs), min(ys), max(xs), max(ys)), [], numbers

    def _parse_keypoints(
        self, class_index: int, numbers: Sequence[float], width: int, height: int
    ) -> tuple[Keypoint, ...]:
        """Return the keypoints of an object; without visibilities, (0, 0) is not labelled."""
        names = self._layout.keypoint_names[class_index]
        keypoints = []
        for name, (x, y, *flags) in zip(
            names, np.reshape(numbers, (len(names), -1)).tolist(), strict=True
        ):
            visibility = flags[0] if flags else 2.0 * bool(x or y)
            if visibility not in _VISIBILITIES:
                raise ValueError(
                    f"keypoint {name} has the visibility {visibility:g}. Allowed: 0, 1, 2."
                )
            if visibility and not all(
                -_EDGE_TOLERANCE <= value <= 1 + _EDGE_TOLERANCE for value in (x, y)
            ):
                raise ValueError(
                    f"keypoint {name} at ({x:g}, {y:g}) is outside the image (0 to 1)."
                )
            xy = (x * width, y * height) if visibility else (0.0, 0.0)
            keypoints.append(Keypoint(name, xy, _VISIBILITIES[visibility]))
        return tuple(keypoints)


def _rasterize_polygon(polygon: Sequence[float], width: int, height: int) -> RleMask | None:
    """Return the mask of a polygon; None if empty."""
    if not polygon:
        return None
    corners = np.reshape(polygon, (-1, 2)).clip(0, 1) * (width, height)
    mask = RleMask.from_polygons([corners.ravel().tolist()], (height, width))
    return mask if mask.compute_area_px() else None
