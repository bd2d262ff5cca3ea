"""Boxes and their names drawn into images, large enough to be read."""

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
from sim2cam.metrics.error_analysis import DetectionOutcome, OutcomeKind, classify_detections
from sim2cam.report.values import Rgb

MIN_LONGER_SIDE_PX = 960  # of drawn images: small ones are enlarged before text goes onto them
OUTCOME_COLOURS: dict[OutcomeKind, tuple[int, int, int]] = {
    "true positive": (64, 222, 112),
    "confusion": (255, 176, 32),
    "localisation": (86, 190, 255),
    "duplicate": (245, 232, 80),
    "background": (255, 84, 84),
    "missed": (240, 120, 255),
}
CATEGORY_COLOURS = (
    (86, 190, 255), (255, 176, 32), (64, 222, 112), (240, 120, 255), (255, 100, 100),
    (245, 232, 80), (60, 228, 216), (190, 160, 255), (255, 150, 200), (176, 214, 90),
)  # fmt: skip

IGNORED_COLOUR = (200, 200, 200)
"""Of regions that are neither trained on nor scored."""

_TEXT_PX, _LINE_PX, _DASH_PX, _DOT_PX = (
    15,
    2,
    12,
    6,
)  # in images of that length, in larger ones more
_CLIP_PX = 10_000  # from the picture, beyond which OpenCV draws no lines
_MASK_OPACITY = 0.4
_VISIBLE_THRESHOLD = 0.5  # how sure it has to be that a keypoint is seen
_TEXT_COLOUR = (16, 16, 16)


@dataclass(frozen=True)
class BoxAnnotation:
    """A box with its text; coordinates of the image that it is drawn into.

    With the ``cuboid_corners`` (8, 2) of its box in space, the edges of that are drawn instead. ``keypoints`` (n, 3)
    are x, y and how surely each is seen: those that are hidden are rings. The pixels of a ``mask`` (h, w) are tinted.
    """

    box_xyxy: Box
    text: str
    colour: tuple[int, int, int]
    is_dashed: bool = False
    cuboid_corners: NDArray[np.float64] | None = None
    keypoints: NDArray[np.float64] | None = None
    mask: NDArray[np.bool_] | None = None


def get_category_colour(index: int) -> tuple[int, int, int]:
    """Return the RGB colour of a category by its index; colours repeat after ten."""
    return CATEGORY_COLOURS[index % len(CATEGORY_COLOURS)]


def draw_matches(
    rgb: Rgb, objects: Sequence[ObjectLabel], detections: Sequence[Detection], threshold: float
) -> Rgb:
    """Return the image, enlarged, with detections of a score from ``threshold`` on and missed objects.

    Right detections show their category and score, wrong ones what the object is instead; missed
    objects are dashed.
    """
    marks = [
        BoxAnnotation(
            v.box_xyxy, _format_match(v), OUTCOME_COLOURS[v.kind], is_dashed=v.kind == "missed"
        )
        for v in classify_detections(objects, detections, threshold)
    ]
    return _draw_annotations(rgb, marks)


def draw_labels(rgb: Rgb, objects: Sequence[ObjectLabel], categories: Sequence[str]) -> Rgb:
    """Return the image, enlarged, with the labelled boxes and their categories drawn into it.

    Args:
        rgb: the image.
        objects: its labels; regions that are ignored (``is_crowd``) are dashed and grey.
        categories: of the data set, which give the colours.
    """
    marks = [
        BoxAnnotation(o.box_xyxy, f"ignored: {o.category}", IGNORED_COLOUR, is_dashed=True)
        if o.is_crowd
        else BoxAnnotation(
            o.box_xyxy, o.category, get_category_colour(categories.index(o.category))
        )
        for o in objects
    ]
    return _draw_annotations(rgb, marks)


def draw_detections(
    rgb: Rgb,
    detections: Sequence[tuple[Detection, NDArray[np.float64] | None]],
    categories: Sequence[str],
) -> Rgb:
    """Return the image, enlarged, with what was found, its category and score drawn into it.

    Args:
        rgb: the image.
        detections: what was found, and of each the corners (8, 2) of its box in space, pixels, in the
            order of ``compute_box_corners``; None where they are not known. Keypoints that are hidden are
            rings, masks are tinted.
        categories: of the detector, which give the colours.
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


def _collect_keypoints(detection: Detection) -> NDArray[np.float64] | None:
    if detection.keypoints is None:
        return None
    points = [
        (x + 0.5, y + 0.5, 1.0 if p.visibility_score is None else p.visibility_score)
        for p in detection.keypoints
        for x, y in [p.xy]
    ]
    return np.array(points, np.float64).reshape(-1, 3)


def _format_match(match: DetectionOutcome) -> str:
    if match.kind == "missed":
        return f"{match.true_category} missed"
    assert match.score is not None  # of all that was found
    score = _format_score(match.score)
    if match.true_category not in (None, match.predicted_category):
        return f"{match.predicted_category} {score}, label {match.true_category}"
    return f"{match.predicted_category} {score}"


def _format_score(score: float) -> str:
    return f"{score:.2f}".removeprefix("0")


def _draw_annotations(rgb: Rgb, annotations: Sequence[BoxAnnotation]) -> Rgb:
    height, width = rgb.shape[:2]
    scale = MIN_LONGER_SIDE_PX / max(height, width)
    if scale > 1:
        size = (round(width * scale), round(height * scale))
        large = cv2.resize(rgb, size, interpolation=cv2.INTER_CUBIC)
    else:
        scale, large = 1.0, rgb.copy()
    canvas = np.asarray(large, dtype=np.uint8)
    for mark in annotations:
        _tint_mask(canvas, mark)
    placed = [
        replace(
            mark,
            box_xyxy=_scale_box(mark.box_xyxy, scale),
            cuboid_corners=None if mark.cuboid_corners is None else mark.cuboid_corners * scale,
            keypoints=None if mark.keypoints is None else mark.keypoints * (scale, scale, 1),
        )
        for mark in annotations
    ]
    unit = max(1.0, max(canvas.shape[:2]) / MIN_LONGER_SIDE_PX)
    for mark in placed:
        _draw_box(canvas, mark, unit)
    return _draw_texts(canvas, placed, round(_TEXT_PX * unit))


def _tint_mask(canvas: Rgb, annotation: BoxAnnotation) -> None:
    if annotation.mask is not None:
        size = (canvas.shape[1], canvas.shape[0])
        large = (
            cv2.resize(annotation.mask.astype(np.uint8), size, interpolation=cv2.INTER_NEAREST) > 0
        )
        canvas[large] = (1 - _MASK_OPACITY) * canvas[large] + _MASK_OPACITY * np.array(
            annotation.colour
        )


def _draw_box(canvas: Rgb, annotation: BoxAnnotation, line_scale: float) -> None:
    x0, y0, x1, y1 = (round(v) for v in annotation.box_xyxy)
    dash = _DASH_PX * line_scale if annotation.is_dashed else math.inf
    lines = (
        _build_box_sides(x0, y0, x1, y1, dash)
        if annotation.cuboid_corners is None
        else _build_cuboid_edges(annotation.cuboid_corners)
    )
    for colour, rim in (
        (_TEXT_COLOUR, 1),
        (annotation.colour, 0),
    ):  # a dark rim, to be seen on any ground
        thickness = round((_LINE_PX + 2 * rim) * line_scale)
        for start, end in lines:
            cv2.line(canvas, start, end, colour, thickness)
        for x, y, seen in () if annotation.keypoints is None else annotation.keypoints:
            place = round(np.clip(x, -_CLIP_PX, _CLIP_PX)), round(np.clip(y, -_CLIP_PX, _CLIP_PX))
            drawn = cv2.FILLED if seen >= _VISIBLE_THRESHOLD else thickness
            cv2.circle(canvas, place, round((_DOT_PX + rim) * line_scale), colour, drawn)


def _build_cuboid_edges(
    corners: NDArray[np.float64],
) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return the twelve lines between corners that differ in one bit of their number."""
    places = [(x, y) for x, y in np.rint(corners).clip(-_CLIP_PX, _CLIP_PX).astype(int).tolist()]
    pairs = itertools.combinations(range(len(places)), 2)
    return [(places[a], places[b]) for a, b in pairs if (a ^ b).bit_count() == 1]


def _build_box_sides(
    x0: int, y0: int, x1: int, y1: int, dash_px: float
) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return the pieces of line that make a box: dashes about so long."""
    corners = [(x0, y0), (x1, y0), (x1, y1), (x0, y1), (x0, y0)]
    pieces = []
    for start, end in itertools.pairwise(corners):
        a, b = np.array(start, np.float64), np.array(end, np.float64)
        n = max(1, int(np.linalg.norm(b - a) // dash_px)) | 1  # odd: a dash at both ends
        stops = np.round(a + (b - a) * np.linspace(0, 1, n + 1)[:, None]).astype(int)
        pieces += [
            ((int(p[0]), int(p[1])), (int(q[0]), int(q[1])))
            for p, q in zip(stops[:-1:2], stops[1::2], strict=True)
        ]
    return pieces


def _draw_texts(canvas: Rgb, annotations: Sequence[BoxAnnotation], text_px: int) -> Rgb:
    """Return the image with every text on a plate above or below its box."""
    picture, font = Image.fromarray(canvas), _load_font(text_px)
    pen = ImageDraw.Draw(picture)
    plates: list[Box] = []
    for mark in annotations:
        size = pen.textlength(mark.text, font=font) + 0.4 * text_px, text_px * 4 / 3
        plate = _place_label(mark.box_xyxy, size, picture.size, plates)
        plates.append(plate)
        pen.rectangle(plate, fill=mark.colour)
        pen.text((plate[0] + text_px / 5, plate[1] + text_px / 15), mark.text, _TEXT_COLOUR, font)
    return np.asarray(picture, dtype=np.uint8)


def _place_label(
    box: Box, size: tuple[float, float], image_size: tuple[int, int], occupied: Sequence[Box]
) -> Box:
    """Return where a plate goes: above or below its box, preferably onto no other plate."""
    width, height = size
    left = min(max(0.0, box[0] - 1), max(0.0, image_size[0] - width))
    places = [
        (left, top, left + width, top + height)
        for top in (box[1] - height, box[3])
        if 0 <= top <= image_size[1] - height
    ]
    places.append((left, max(0.0, box[1]), left + width, max(0.0, box[1]) + height))
    others = np.array(occupied, np.float64).reshape(-1, 4)
    free = (p for p in places if not pairwise_iou(np.array([p]), others).any())
    return next(free, places[0])


@functools.cache
def _load_font(size_px: int) -> ImageFont.FreeTypeFont:
    """Return the font that comes with matplotlib, which has the letters of most languages."""
    fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    return ImageFont.truetype(fonts / "DejaVuSans-Bold.ttf", size_px)


def _scale_box(box: Box, scale: float) -> Box:
    x0, y0, x1, y1 = box
    return x0 * scale, y0 * scale, x1 * scale, y1 * scale
