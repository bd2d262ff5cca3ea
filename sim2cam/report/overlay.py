"""Drawing of boxes, masks, keypoints and labels into images."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import matplotlib
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from sim2cam.data.sample import ObjectLabel
from sim2cam.geometry.boxes import Box, pairwise_iou
from sim2cam.metrics.detection import Detection
from sim2cam.report.values import Rgb

MIN_LONGER_SIDE_PX = 960  # smaller images are enlarged before drawing
CATEGORY_COLOURS = (
    (86, 190, 255), (255, 176, 32), (64, 222, 112), (240, 120, 255), (255, 100, 100),
    (245, 232, 80), (60, 228, 216), (190, 160, 255), (255, 150, 200), (176, 214, 90),
)  # fmt: skip

IGNORED_COLOUR = (200, 200, 200)
"""Colour of regions that are ignored in training and scoring."""

# at MIN_LONGER_SIDE_PX, scaled for other sizes
_TEXT_PX, _LINE_PX, _DASH_PX, _DOT_PX = 15, 2, 12, 6
_SMALLEST_TEXT_PX = 12
_MIN_SCALE = 0.5  # lines and dots of smaller images would be invisible
_CLIP_PX = 10_000  # OpenCV cannot draw beyond
_MASK_OPACITY = 0.4
_VISIBLE_THRESHOLD = 0.5  # minimum visibility score of a visible keypoint
_VISIBLE = 2  # COCO's visibility of a keypoint that is not occluded
_TEXT_COLOUR = (16, 16, 16)


@dataclass(frozen=True)
class BoxAnnotation:
    """Box to draw, in pixels of the image.

    Attributes:
        cuboid_corners: Projected corners (8, 2) of a 3D box, drawn instead of the box.
        keypoints: x, y and visibility score (N, 3); hidden keypoints are rings.
    """

    box_xyxy: Box
    text: str
    colour: tuple[int, int, int]
    is_dashed: bool = False
    cuboid_corners: NDArray[np.float64] | None = None
    keypoints: NDArray[np.float64] | None = None
    mask: NDArray[np.bool_] | None = None


def get_category_colour(index: int) -> tuple[int, int, int]:
    """Return the RGB colour of a category index; colours repeat after ten."""
    return CATEGORY_COLOURS[index % len(CATEGORY_COLOURS)]


def draw_labels(
    rgb: Rgb,
    objects: Sequence[ObjectLabel],
    categories: Sequence[str],
    *,
    longer_side_px: int | None = None,
) -> Rgb:
    """Draw labelled boxes, their categories and keypoints.

    Args:
        objects: Labels; crowd regions are dashed and grey.
        longer_side_px: Size of the result; by default, that of the image, at least ``MIN_LONGER_SIDE_PX``.
    """
    colours = {name: get_category_colour(index) for index, name in enumerate(categories)}
    marks = [
        BoxAnnotation(o.box_xyxy, f"ignored: {o.category}", IGNORED_COLOUR, is_dashed=True)
        if o.is_crowd
        else BoxAnnotation(
            o.box_xyxy, o.category, colours[o.category], keypoints=_collect_label_keypoints(o)
        )
        for o in objects
    ]
    return _draw_annotations(rgb, marks, longer_side_px)


def draw_detections(
    rgb: Rgb,
    detections: Sequence[tuple[Detection, NDArray[np.float64] | None]],
    categories: Sequence[str],
) -> Rgb:
    """Draw detections with their categories and scores.

    Args:
        detections: Detections with the projected corners (8, 2) of their 3D boxes in pixels, in the order
            of ``compute_box_corners``, or None.
    """
    marks = [
        BoxAnnotation(
            d.box_xyxy,
            f"{d.category} {_format_score(d.score)}",
            get_category_colour(categories.index(d.category)),
            cuboid_corners=corners,
            keypoints=_collect_keypoints(d),
            mask=None if d.mask is None else d.mask.decode(),
        )
        for d, corners in detections
    ]
    return _draw_annotations(rgb, marks)


def _collect_label_keypoints(label: ObjectLabel) -> NDArray[np.float64] | None:
    """Return x, y and visibility score of the labelled keypoints; hidden ones have the score 0."""
    if label.keypoints is None:
        return None
    points = [
        (p.xy[0] + 0.5, p.xy[1] + 0.5, float(p.visibility == _VISIBLE))
        for p in label.keypoints
        if p.visibility > 0
    ]
    return np.array(points, np.float64).reshape(-1, 3)


def _collect_keypoints(detection: Detection) -> NDArray[np.float64] | None:
    if detection.keypoints is None:
        return None
    points = [
        (x + 0.5, y + 0.5, 1.0 if p.visibility_score is None else p.visibility_score)
        for p in detection.keypoints
        for x, y in [p.xy]
    ]
    return np.array(points, np.float64).reshape(-1, 3)


def _format_score(score: float) -> str:
    return f"{score:.2f}".removeprefix("0")


def _draw_annotations(
    rgb: Rgb, annotations: Sequence[BoxAnnotation], longer_side_px: int | None = None
) -> Rgb:
    height, width = rgb.shape[:2]
    longer_side_px = longer_side_px or max(height, width, MIN_LONGER_SIDE_PX)
    scale = longer_side_px / max(height, width)
    size = (round(width * scale), round(height * scale))
    interpolation = cv2.INTER_CUBIC if scale > 1 else cv2.INTER_AREA
    resized = cv2.resize(rgb, size, interpolation=interpolation) if scale != 1 else rgb.copy()
    canvas = np.asarray(resized, dtype=np.uint8)
    for mark in annotations:
        _tint_mask(canvas, mark)
    scaled = [
        replace(
            mark,
            box_xyxy=tuple(scale * side for side in mark.box_xyxy),
            cuboid_corners=None if mark.cuboid_corners is None else mark.cuboid_corners * scale,
            keypoints=None if mark.keypoints is None else mark.keypoints * (scale, scale, 1),
        )
        for mark in annotations
    ]
    line_scale = max(_MIN_SCALE, longer_side_px / MIN_LONGER_SIDE_PX)
    for mark in scaled:
        _draw_box(canvas, mark, line_scale)
    return _draw_texts(canvas, scaled, max(_SMALLEST_TEXT_PX, round(_TEXT_PX * line_scale)))


def _tint_mask(canvas: Rgb, annotation: BoxAnnotation) -> None:
    if annotation.mask is not None:
        size, small = (canvas.shape[1], canvas.shape[0]), annotation.mask.astype(np.uint8)
        mask = cv2.resize(small, size, interpolation=cv2.INTER_NEAREST) > 0
        tint = _MASK_OPACITY * np.array(annotation.colour)
        canvas[mask] = (1 - _MASK_OPACITY) * canvas[mask] + tint


def _draw_box(canvas: Rgb, annotation: BoxAnnotation, line_scale: float) -> None:
    x0, y0, x1, y1 = (round(v) for v in annotation.box_xyxy)
    dash = _DASH_PX * line_scale if annotation.is_dashed else math.inf
    lines = (
        _build_box_sides(x0, y0, x1, y1, dash)
        if annotation.cuboid_corners is None
        else _build_cuboid_edges(annotation.cuboid_corners)
    )
    for colour, rim in ((_TEXT_COLOUR, 1), (annotation.colour, 0)):  # dark rim for contrast
        thickness = round((_LINE_PX + 2 * rim) * line_scale)
        for start, end in lines:
            cv2.line(canvas, start, end, colour, thickness)
        for x, y, visibility in () if annotation.keypoints is None else annotation.keypoints:
            position = [round(np.clip(v, -_CLIP_PX, _CLIP_PX)) for v in (x, y)]
            radius = round((_DOT_PX + rim) * line_scale)
            is_visible = visibility >= _VISIBLE_THRESHOLD
            cv2.circle(canvas, position, radius, colour, cv2.FILLED if is_visible else thickness)


def _build_cuboid_edges(
    corners: NDArray[np.float64],
) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    # Edges join corners whose indices differ in one bit.
    points = [(x, y) for x, y in np.rint(corners).clip(-_CLIP_PX, _CLIP_PX).astype(int).tolist()]
    pairs = itertools.combinations(range(len(points)), 2)
    return [(points[a], points[b]) for a, b in pairs if (a ^ b).bit_count() == 1]


def _build_box_sides(
    x0: int, y0: int, x1: int, y1: int, dash_px: float
) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return the line segments of a box, dashed at about this length."""
    corners = [(x0, y0), (x1, y0), (x1, y1), (x0, y1), (x0, y0)]
    segments = []
    for start, end in itertools.pairwise(corners):
        a, b = np.array(start, np.float64), np.array(end, np.float64)
        n = max(1, int(np.linalg.norm(b - a) // dash_px)) | 1  # odd: a dash at both ends
        stops = np.round(a + (b - a) * np.linspace(0, 1, n + 1)[:, None]).astype(int)
        segments += [
            ((int(p[0]), int(p[1])), (int(q[0]), int(q[1])))
            for p, q in zip(stops[:-1:2], stops[1::2], strict=True)
        ]
    return segments


def _draw_texts(canvas: Rgb, annotations: Sequence[BoxAnnotation], text_px: int) -> Rgb:
    """Draw each text on a plate above or below its box."""
    image, font = Image.fromarray(canvas), _load_font(text_px)
    canvas_draw = ImageDraw.Draw(image)
    plates: list[Box] = []
    for mark in annotations:
        size = canvas_draw.textlength(mark.text, font=font) + 0.4 * text_px, text_px * 4 / 3
        plate = _place_label(mark.box_xyxy, size, image.size, plates)
        plates.append(plate)
        canvas_draw.rectangle(plate, fill=mark.colour)
        canvas_draw.text(
            (plate[0] + text_px / 5, plate[1] + text_px / 15), mark.text, _TEXT_COLOUR, font
        )
    return np.asarray(image, dtype=np.uint8)


def _place_label(
    box: Box, size: tuple[float, float], image_size: tuple[int, int], occupied: Sequence[Box]
) -> Box:
    """Place a plate above or below its box, preferably without overlap of other plates."""
    width, height = size
    left = min(max(0.0, box[0] - 1), max(0.0, image_size[0] - width))
    candidates = [
        (left, top, left + width, top + height)
        for top in (box[1] - height, box[3])
        if 0 <= top <= image_size[1] - height
    ]
    candidates.append((left, max(0.0, box[1]), left + width, max(0.0, box[1]) + height))
    occupied_boxes = np.array(occupied, np.float64).reshape(-1, 4)
    free_candidates = (
        p for p in candidates if not pairwise_iou(np.array([p]), occupied_boxes).any()
    )
    return next(free_candidates, candidates[0])


@functools.cache
def _load_font(size_px: int) -> ImageFont.FreeTypeFont:
    """Load the font of matplotlib, which covers most languages."""
    fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    return ImageFont.truetype(fonts / "DejaVuSans-Bold.ttf", size_px)
