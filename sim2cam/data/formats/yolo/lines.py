"""Lines of YOLO's label files: boxes, outlines, keypoints.

A line is ``class x y width height``, the centre and size of a box, then perhaps ``x y`` or
``x y visibility`` of each keypoint; or ``class x y x y x y ...``, the corners of an outline. All are
shares of the width and height of the image.
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
_EDGE_TOLERANCE = 1e-3  # of a side of the image: what rounding may push a box beyond its edge
_VISIBILITIES: dict[float, Literal[0, 1, 2]] = {0.0: 0, 1.0: 1, 2.0: 2}


class YoloLabelReader:
    """Read label files.

    Args:
        layout: what the classes and keypoints of the lines are.
        problems: takes flawed lines.

    Attributes:
        confidence_count: number of lines that end in a confidence, which is not read.
    """

    def __init__(self, layout: YoloLayout, problems: AnnotationErrors) -> None:
        self._layout, self._problems = layout, problems
        self.confidence_count = 0

    def read(self, path: Path, width: int, height: int) -> list[ObjectLabel]:
        """Return the objects of an image.

        Args:
            path: the label file.
            width: of the image, in pixels.
            height: of the image, in pixels.

        Raises:
            InputError: the file cannot be read.
        """
        found: list[ObjectLabel] = []
        lines = read_text(path, _MAX_BYTES, "file of labels").splitlines()
        for number, line in enumerate(lines, start=1):
            with self._problems.collect():
                try:
                    found += [self._parse_line(line, width, height)] if line.strip() else []
                except ValueError as error:
                    raise InputError(path, f"line {number}: {error}") from error
        return found

    def _parse_line(self, line: str, width: int, height: int) -> ObjectLabel:
        try:
            first, *numbers = [float(word) for word in line.split()]
        except ValueError as error:
            raise ValueError(f"'{line[:60]}' is not all numbers.") from error
        categories = self._layout.categories
        if first not in range(len(categories)):
            raise ValueError(f"class {first:g}, but there are {len(categories)}, from 0.")
        box, points, outline = self._split_numbers(numbers)
        x0, y0, x1, y1 = box
        if not (
            -_EDGE_TOLERANCE <= x0 < x1 <= 1 + _EDGE_TOLERANCE
            and -_EDGE_TOLERANCE <= y0 < y1 <= 1 + _EDGE_TOLERANCE
        ):
            raise ValueError(
                f"the box from ({x0:g}, {y0:g}) to ({x1:g}, {y1:g}) does not lie in the picture, 0 to 1 "
                "both ways, or is empty."
            )
        box_px = x0 * width, y0 * height, x1 * width, y1 * height
        mask = _rasterize_polygon(outline, width, height)
        area = (
            (x1 - x0) * width * (y1 - y0) * height
            if mask is None
            else float(mask.compute_area_px())
        )
        keypoints = self._parse_keypoints(int(first), points, width, height) if points else None
        return ObjectLabel(categories[int(first)], box_px, area, mask=mask, keypoints=keypoints)

    def _split_numbers(self, numbers: list[float]) -> tuple[Box, list[float], list[float]]:
        """Return the box of a line, the numbers of its keypoints and those of its outline."""
        if not all(map(math.isfinite, numbers)):
            raise ValueError("it holds a number that is not finite.")
        count = len(self._layout.keypoint_names[0]) if self._layout.keypoint_names else 0
        whole = 4 + count * self._layout.keypoint_dims
        if len(numbers) == whole + 1 and 0 <= numbers[-1] <= 1:
            numbers = numbers[:-1]
            self.confidence_count += 1
        if len(numbers) in (4, whole):
            x, y, width, height = numbers[:4]
            box = x - width / 2, y - height / 2, x + width / 2, y + height / 2
            return box, numbers[4:], []
        if count:
            raise ValueError(
                f"{len(numbers)} numbers after the class. A box has 4 and {count} keypoints have "
                f"{whole - 4}, by kpt_shape: {whole} in all."
            )
        if len(numbers) < 6 or len(numbers) % 2:
            raise ValueError(
                f"{len(numbers)} numbers after the class. A box has 4, an outline 6 or more and as many x "
                "as y; keypoints need kpt_shape in data.yaml, and confidences of outlines are not read."
            )
        xs, ys = numbers[::2], numbers[1::2]
        return (min(xs), min(ys), max(xs), max(ys)), [], numbers

    def _parse_keypoints(
        self, class_index: int, numbers: Sequence[float], width: int, height: int
    ) -> tuple[Keypoint, ...]:
        """Return the keypoints of an object; without visibilities, one at (0, 0) is not labelled."""
        names = self._layout.keypoint_names[class_index]
        found = []
        for name, (x, y, *rest) in zip(
            names, np.reshape(numbers, (len(names), -1)).tolist(), strict=True
        ):
            visibility = rest[0] if rest else 2.0 * bool(x or y)
            if visibility not in _VISIBILITIES:
                raise ValueError(
                    f"keypoint {name} has the visibility {visibility:g}, not 0, 1 or 2."
                )
            if visibility and not all(
                -_EDGE_TOLERANCE <= value <= 1 + _EDGE_TOLERANCE for value in (x, y)
            ):
                raise ValueError(f"keypoint {name} at ({x:g}, {y:g}) does not lie in the picture.")
            xy = (x * width, y * height) if visibility else (0.0, 0.0)
            found.append(Keypoint(name, xy, _VISIBILITIES[visibility]))
        return tuple(found)


def _rasterize_polygon(polygon: Sequence[float], width: int, height: int) -> RleMask | None:
    """Return the pixels inside an outline; None where there are none, or no outline."""
    if not polygon:
        return None
    corners = np.reshape(polygon, (-1, 2)).clip(0, 1) * (width, height)
    mask = RleMask.from_polygons([corners.ravel().tolist()], (height, width))
    return mask if mask.compute_area_px() else None
