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
from sim2cam.metrics.error_analysis import Kind, Verdict, judge
from sim2cam.report.values import Rgb

LONGER_SIDE_PX = 960  # of drawn images: small ones are enlarged before text goes onto them
KIND_COLOURS: dict[Kind, tuple[int, int, int]] = {
    "right": (64, 222, 112),
    "wrong category": (255, 176, 32),
    "poorly placed": (86, 190, 255),
    "duplicate": (245, 232, 80),
    "false": (255, 84, 84),
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
_FAR_PX = 10_000  # from the picture, beyond which OpenCV draws no lines
_TINT = 0.4
_SEEN = 0.5  # how sure it has to be that a keypoint is seen
_INK = (16, 16, 16)


@dataclass(frozen=True)
class Mark:
    """A box with its text; coordinates of the image that it is drawn into.

    With the ``corners`` (8, 2) of its box in space, the edges of that are drawn instead. ``points`` (n, 3)
    are x, y and how surely each is seen: those that are hidden are rings. The pixels of a ``mask`` (h, w) are tinted.
    """

    box_xyxy: Box
    text: str
    colour: tuple[int, int, int]
    dashed: bool = False
    corners: NDArray[np.float64] | None = None
    points: NDArray[np.float64] | None = None
    mask: NDArray[np.bool_] | None = None


def category_colour(index: int) -> tuple[int, int, int]:
    """Returns the RGB colour of a category by its index; colours repeat after ten."""
    return CATEGORY_COLOURS[index % len(CATEGORY_COLOURS)]


def draw_verdicts(
    rgb: Rgb, objects: Sequence[ObjectLabel], detections: Sequence[Detection], threshold: float
) -> Rgb:
    """Return the image, enlarged, with detections of a score from ``threshold`` on and missed objects.

    Right detections show their category and score, wrong ones what the object is instead; missed
    objects are dashed.
    """
    marks = [
        Mark(v.box_xyxy, _text(v), KIND_COLOURS[v.kind], dashed=v.kind == "missed")
        for v in judge(objects, detections, threshold)
    ]
    return _draw(rgb, marks)


def draw_labels(rgb: Rgb, objects: Sequence[ObjectLabel], categories: Sequence[str]) -> Rgb:
    """Returns the image, enlarged, with the labelled boxes and their categories drawn into it.

    Args:
        rgb: the image.
        objects: its labels; regions that are ignored (``is_crowd``) are dashed and grey.
        categories: of the data set, which give the colours.
    """
    marks = [
        Mark(o.box_xyxy, f"ignored: {o.category}", IGNORED_COLOUR, dashed=True)
        if o.is_crowd
        else Mark(o.box_xyxy, o.category, category_colour(categories.index(o.category)))
        for o in objects
    ]
    return _draw(rgb, marks)


def draw_detections(
    rgb: Rgb,
    detections: Sequence[tuple[Detection, NDArray[np.float64] | None]],
    categories: Sequence[str],
) -> Rgb:
    """Returns the image, enlarged, with what was found, its category and score drawn into it.

    Args:
        rgb: the image.
        detections: what was found, and of each the corners (8, 2) of its box in space, pixels, in the
            order of ``corners_in_space``; None where they are not known. Keypoints that are hidden are
            rings, masks are tinted.
        categories: of the detector, which give the colours.
    """
    marks = [
        Mark(
            d.box_xyxy,
            f"{d.category} {_score_text(d.score)}",
            category_colour(categories.index(d.category)),
            corners=corners,
            points=_points(d),
            mask=None if d.mask is None else d.mask.mask(),
        )
        for d, corners in detections
    ]
    return _draw(rgb, marks)


def _points(detection: Detection) -> NDArray[np.float64] | None:
    if detection.keypoints is None:
        return None
    points = [
        (x + 0.5, y + 0.5, 1.0 if p.seen is None else p.seen)
        for p in detection.keypoints
        for x, y in [p.xy]
    ]
    return np.array(points, np.float64).reshape(-1, 3)


def _text(verdict: Verdict) -> str:
    if verdict.kind == "missed":
        return f"{verdict.truth} missed"
    assert verdict.score is not None  # of all that was found
    score = _score_text(verdict.score)
    if verdict.truth not in (None, verdict.found):
        return f"{verdict.found}, is {verdict.truth} {score}"
    return f"{verdict.found} {score}"


def _score_text(score: float) -> str:
    return f"{score:.2f}".removeprefix("0")


def _draw(rgb: Rgb, marks: Sequence[Mark]) -> Rgb:
    height, width = rgb.shape[:2]
    scale = LONGER_SIDE_PX / max(height, width)
    if scale > 1:
        size = (round(width * scale), round(height * scale))
        large = cv2.resize(rgb, size, interpolation=cv2.INTER_CUBIC)
    else:
        scale, large = 1.0, rgb.copy()
    canvas = np.asarray(large, dtype=np.uint8)
    for mark in marks:
        _tint(canvas, mark)
    placed = [
        replace(
            mark,
            box_xyxy=_scaled(mark.box_xyxy, scale),
            corners=None if mark.corners is None else mark.corners * scale,
            points=None if mark.points is None else mark.points * (scale, scale, 1),
        )
        for mark in marks
    ]
    unit = max(1.0, max(canvas.shape[:2]) / LONGER_SIDE_PX)
    for mark in placed:
        _draw_box(canvas, mark, unit)
    return _with_texts(canvas, placed, round(_TEXT_PX * unit))


def _tint(canvas: Rgb, mark: Mark) -> None:
    if mark.mask is not None:
        size = (canvas.shape[1], canvas.shape[0])
        large = cv2.resize(mark.mask.astype(np.uint8), size, interpolation=cv2.INTER_NEAREST) > 0
        canvas[large] = (1 - _TINT) * canvas[large] + _TINT * np.array(mark.colour)


def _draw_box(canvas: Rgb, mark: Mark, unit: float) -> None:
    x0, y0, x1, y1 = (round(v) for v in mark.box_xyxy)
    dash = _DASH_PX * unit if mark.dashed else math.inf
    lines = _sides(x0, y0, x1, y1, dash) if mark.corners is None else _edges(mark.corners)
    for colour, rim in ((_INK, 1), (mark.colour, 0)):  # a dark rim, to be seen on any ground
        thickness = round((_LINE_PX + 2 * rim) * unit)
        for start, end in lines:
            cv2.line(canvas, start, end, colour, thickness)
        for x, y, seen in () if mark.points is None else mark.points:
            place = round(np.clip(x, -_FAR_PX, _FAR_PX)), round(np.clip(y, -_FAR_PX, _FAR_PX))
            drawn = cv2.FILLED if seen >= _SEEN else thickness
            cv2.circle(canvas, place, round((_DOT_PX + rim) * unit), colour, drawn)


def _edges(corners: NDArray[np.float64]) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Returns the twelve lines between corners that differ in one bit of their number."""
    places = [(x, y) for x, y in np.rint(corners).clip(-_FAR_PX, _FAR_PX).astype(int).tolist()]
    pairs = itertools.combinations(range(len(places)), 2)
    return [(places[a], places[b]) for a, b in pairs if (a ^ b).bit_count() == 1]


def _sides(
    x0: int, y0: int, x1: int, y1: int, dash_px: float
) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Returns the pieces of line that make a box: dashes about so long."""
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


def _with_texts(canvas: Rgb, marks: Sequence[Mark], text_px: int) -> Rgb:
    """Returns the image with every text on a plate above or below its box."""
    picture, font = Image.fromarray(canvas), _font(text_px)
    pen = ImageDraw.Draw(picture)
    plates: list[Box] = []
    for mark in marks:
        size = pen.textlength(mark.text, font=font) + 0.4 * text_px, text_px * 4 / 3
        plate = _free_place(mark.box_xyxy, size, picture.size, plates)
        plates.append(plate)
        pen.rectangle(plate, fill=mark.colour)
        pen.text((plate[0] + text_px / 5, plate[1] + text_px / 15), mark.text, _INK, font)
    return np.asarray(picture, dtype=np.uint8)


def _free_place(
    box: Box, size: tuple[float, float], picture: tuple[int, int], taken: Sequence[Box]
) -> Box:
    """Returns where a plate goes: above or below its box, preferably onto no other plate."""
    width, height = size
    left = min(max(0.0, box[0] - 1), max(0.0, picture[0] - width))
    places = [
        (left, top, left + width, top + height)
        for top in (box[1] - height, box[3])
        if 0 <= top <= picture[1] - height
    ]
    places.append((left, max(0.0, box[1]), left + width, max(0.0, box[1]) + height))
    others = np.array(taken, np.float64).reshape(-1, 4)
    free = (p for p in places if not pairwise_iou(np.array([p]), others).any())
    return next(free, places[0])


@functools.cache
def _font(size_px: int) -> ImageFont.FreeTypeFont:
    """Returns the font that comes with matplotlib, which has the letters of most languages."""
    fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    return ImageFont.truetype(fonts / "DejaVuSans-Bold.ttf", size_px)


def _scaled(box: Box, scale: float) -> Box:
    x0, y0, x1, y1 = box
    return x0 * scale, y0 * scale, x1 * scale, y1 * scale
