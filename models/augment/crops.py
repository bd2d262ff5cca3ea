"""Crops of images at a random place, scale and turn, with their boxes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, cos, exp, log, pi, sin

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.models.network.detector import MEAN_RGB, STRIDE_PX, UNIT_PX
from sim2cam.models.training.config import Balance
from sim2cam.models.training.images import UNKNOWN, Keypoints, Picture, boxes_around

CENTRED_SHARE = 0.8  # of the crops are laid around an object, the others anywhere
OFF_CENTRE = 0.4  # an object lies at most this far from the crop's centre, in crops
SMOOTH_BELOW = 0.75  # smaller scales would alias
MIN_SIDE_PX = 6.0  # smaller objects are neither learned nor learned to be absent


@dataclass(frozen=True)
class CropRules:
    """How crops are drawn.

    Attributes:
        crop_px: side of a crop.
        scale_range: smallest and largest magnification; its logarithm is uniform.
        quarter_turns: crops are turned by multiples of 90 degrees. Close-ups are not.
        free_turns: images with instance ids are, half of the time, turned by any angle.
        flips: half of the crops are mirrored.
        min_visible: objects less visible than this are neither learned nor learned to be absent.
        min_read: of objects of which less is visible in the crop, the category is not learned; what lies
            beyond the picture's edge is not visible.
        balance: by what labelled pictures are drawn evenly; all alike without.
        copy_paste: objects of other pictures are laid before those of a picture (``crowded``).
        recolour: objects are seen in other shades (``recoloured``).
        amodal: boxes are of whole objects; one of which the crop shows nothing is not learned.
        cell_px: side of the cells of ``Segments``.
    """

    crop_px: int = 192
    scale_range: tuple[float, float] = (0.6, 1.6)
    quarter_turns: bool = True
    free_turns: bool = True
    flips: bool = True
    min_visible: float = 0.25
    min_read: float = 0.0
    balance: tuple[Balance, ...] = ()
    copy_paste: bool = False
    recolour: bool = False
    amodal: bool = False
    cell_px: int = STRIDE_PX


@dataclass(frozen=True, eq=False)
class Segments:
    """What the cells of a crop show.

    Attributes:
        shown: 0 for nothing that is labelled, 1 and the class index of what is, -1 where it is not known
            (h, w).
        votes: where the centre of its box is, cut at the edge, as ``Maps`` has it; 0 where nothing is
            shown (2, h, w).
        owners: the number of the crop's object that each shows, -1 where it is none of these (h, w).
    """

    shown: NDArray[np.int64]
    votes: NDArray[np.float64]
    owners: NDArray[np.int64]


@dataclass(frozen=True)
class Crop:
    """A square of an image.

    Attributes:
        rgb: (side, side, 3) uint8.
        boxes_xyxy: objects whose centre lies inside, cut at the edge (n, 4), pixels.
        categories: their class indices (n,).
        ignored_xyxy: regions in which nothing is known (m, 4).
        keypoints: of those objects, in pixels of the crop; whether one beyond its edge is seen is not
            known. None without keypoints.
        segments: what its cells show; None where the picture has no ``owners``.
        is_read: of those objects, whether the category is learned (n,); None where all are.
        seen_xyxy: of those objects, boxes of what the crop shows of them (n, 4); None where theirs are.
        is_complete: as ``Picture.is_complete``.
    """

    rgb: NDArray[np.uint8]
    boxes_xyxy: NDArray[np.float64]
    categories: NDArray[np.int64]
    ignored_xyxy: NDArray[np.float64]
    keypoints: Keypoints | None = None
    segments: Segments | None = None
    is_read: NDArray[np.bool_] | None = None
    seen_xyxy: NDArray[np.float64] | None = None
    is_complete: bool = True


def draw_crop(picture: Picture, rules: CropRules, rng: np.random.Generator) -> Crop:
    """Returns a random crop of a picture."""
    matrix = _draw_matrix(picture, rules, rng)
    boxes = _moved_boxes(picture.outlines, matrix)
    cut = boxes.clip(0, rules.crop_px)
    seen = _seen_boxes(picture, matrix, rules.crop_px) if rules.amodal else cut
    learned, ignored = _sorted_boxes(picture, boxes, seen, rules)
    return Crop(
        rgb=warp(picture.rgb, matrix, rules.crop_px),
        boxes_xyxy=cut[learned],
        categories=picture.categories[learned],
        ignored_xyxy=cut[ignored],
        keypoints=_moved_keypoints(picture.keypoints, learned, matrix, rules.crop_px),
        segments=_segments(picture, matrix, cut, learned, rules),
        is_read=None
        if rules.min_read == 0
        else (picture.visible * picture.inside * _area(cut) >= rules.min_read * _area(boxes))[
            learned
        ],
        seen_xyxy=seen[learned] if rules.amodal else None,
        is_complete=picture.is_complete,
    )


def draw_upright(rules: CropRules, rng: np.random.Generator) -> NDArray[np.float64]:
    """Returns how a crop magnifies and mirrors (2, 2), before it is turned."""
    low, high = rules.scale_range
    scale = exp(rng.uniform(log(low), log(high)))
    mirror = -1.0 if rules.flips and rng.random() < 0.5 else 1.0
    return np.diag([mirror * scale, scale])


def _draw_turn(picture: Picture, rules: CropRules, rng: np.random.Generator) -> NDArray[np.float64]:
    """Returns how a crop is turned (2, 2)."""
    turn = float(rng.integers(4)) * pi / 2 if rules.quarter_turns else 0.0
    if rules.free_turns and picture.turns_freely and rng.random() < 0.5:
        turn = rng.uniform(0, 2 * pi)
    c, s = round(cos(turn), 12), round(sin(turn), 12)  # exact for quarter turns
    return np.array([[c, -s], [s, c]])


def _draw_matrix(
    picture: Picture, rules: CropRules, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Returns the affine map (2, 3) from edge-based pixels of the image to those of the crop."""
    linear = _draw_turn(picture, rules, rng) @ draw_upright(rules, rng)
    centre = _draw_centre(picture, rules.crop_px / _scale(linear), rng)
    return np.column_stack([linear, rules.crop_px / 2 - linear @ centre])


def _draw_centre(
    picture: Picture, reach_px: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Returns the crop's centre in the image; crops reach over the edge only where they must."""
    size = np.array([picture.rgb.shape[1], picture.rgb.shape[0]], np.float64)
    if len(picture.outlines) and rng.random() < CENTRED_SHARE:
        outline = picture.outlines[int(rng.integers(len(picture.outlines)))]
        middle = (outline.min(axis=0) + outline.max(axis=0)) / 2
        centre = middle + rng.uniform(-OFF_CENTRE, OFF_CENTRE, 2) * reach_px
    else:
        centre = rng.uniform(0, 1, 2) * size
    margin = np.minimum(reach_px / 2, size / 2)
    return np.asarray(np.clip(centre, margin, size - margin))


def warp(rgb: NDArray[np.uint8], matrix: NDArray[np.float64], side: int) -> NDArray[np.uint8]:
    """Returns the square of an image that an affine map (2, 3) of edge-based pixels makes."""
    finer = max(ceil(SMOOTH_BELOW / _scale(matrix)), 1)
    centred = _centred(matrix * finer)
    warped = cv2.warpAffine(
        rgb,
        centred,
        (side * finer, side * finer),
        flags=cv2.INTER_LINEAR,
        borderMode=cv2.BORDER_CONSTANT,
        borderValue=MEAN_RGB,
    )
    if finer > 1:
        warped = cv2.resize(warped, (side, side), interpolation=cv2.INTER_AREA)
    return np.asarray(warped, dtype=np.uint8)


def _scale(matrix: NDArray[np.float64]) -> float:
    return float(np.hypot(*matrix[:, 0]))


def _centred(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns a map of edge-based pixels as OpenCV has it, which puts integers at their centres."""
    shift = matrix[:, :2] @ (0.5, 0.5) - 0.5
    return np.column_stack([matrix[:, :2], matrix[:, 2] + shift])


def _moved_boxes(
    outlines: Iterable[NDArray[np.float64]], matrix: NDArray[np.float64]
) -> NDArray[np.float64]:
    return boxes_around(_moved(outline, matrix) for outline in outlines)


def _seen_boxes(picture: Picture, matrix: NDArray[np.float64], side: int) -> NDArray[np.float64]:
    """Returns boxes of what a crop shows of the objects (n, 4), of no height or width or NaN where it is nothing."""
    opposite = picture.seen_xyxy.reshape(-1, 2, 2)  # corners do: turns are by right angles alone
    return _moved_boxes(opposite, matrix).clip(0, side)


def _moved(points: NDArray[np.float64], matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(points @ matrix[:, :2].T + matrix[:, 2])


def _moved_keypoints(
    keypoints: Keypoints | None, learned: NDArray[np.bool_], matrix: NDArray[np.float64], side: int
) -> Keypoints | None:
    if keypoints is None:
        return None
    places = _moved(keypoints.places[learned], matrix)
    seen, mirrored = keypoints.seen[learned], keypoints.mirrored[learned]
    if np.linalg.det(matrix[:, :2]) < 0:
        places = np.take_along_axis(places, mirrored[:, :, None], axis=1)
        seen = np.take_along_axis(seen, mirrored, axis=1)
    is_inside = np.asarray(((places >= 0) & (places < side)).all(axis=-1))
    return Keypoints(places, np.where(is_inside, seen, np.nan), mirrored)


def _segments(
    picture: Picture, matrix: NDArray[np.float64], boxes: NDArray[np.float64],
    learned: NDArray[np.bool_], rules: CropRules,
) -> Segments | None:  # fmt: skip
    """Return what is seen at the centres of cells. What is hardly visible and groups are not known, nor is
    background where objects may lack their labels.
    """
    if picture.owners is None:
        return None
    side = rules.crop_px // rules.cell_px
    to_cells = _centred(matrix / rules.cell_px)
    owners = cv2.warpAffine(picture.owners, to_cells, (side, side), flags=cv2.INTER_NEAREST)
    known = ~picture.ignored & (picture.visible >= rules.min_visible)
    kinds = np.concatenate(
        [[0 if picture.is_complete else -1], np.where(known, picture.categories + 1, -1), [-1]]
    )
    numbers = np.where(owners == UNKNOWN, len(kinds) - 1, owners)
    shown = kinds[numbers]
    middles = (boxes[:, :2] + boxes[:, 2:]) / 2
    middles = np.vstack([np.zeros((1, 2)), middles, np.zeros((1, 2))])
    row, column = np.mgrid[:side, :side]
    cells = (np.stack([column, row], -1) + 0.5) * rules.cell_px
    votes = np.where((shown > 0)[..., None], middles[numbers] - cells, 0) / UNIT_PX
    places = np.concatenate([[-1], np.where(learned, np.cumsum(learned) - 1, -1), [-1]])
    return Segments(shown, votes.transpose(2, 0, 1), places[numbers])


def _area(boxes_xyxy: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray((boxes_xyxy[:, 2:] - boxes_xyxy[:, :2]).prod(axis=1))


def _sorted_boxes(
    picture: Picture, boxes: NDArray[np.float64], seen: NDArray[np.float64], rules: CropRules
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Returns which boxes (n,) of the crop are learned, and which are ignored."""
    side = rules.crop_px
    centres = (boxes[:, :2] + boxes[:, 2:]) / 2
    inside = ((centres >= 0) & (centres < side)).all(axis=1)
    whole_side = (boxes[:, 2:] - boxes[:, :2]).min(axis=1)
    cut = boxes.clip(0, side)
    touching, shown = (((part[:, 2:] - part[:, :2]) > 0).all(axis=1) for part in (cut, seen))
    known = ~picture.ignored & (picture.visible >= rules.min_visible) & (whole_side >= MIN_SIDE_PX)
    learned = inside & known & shown
    return learned, touching & ~learned
