"""Large objects are seen at smaller magnifications, with all that is known of them."""

import itertools
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from sim2cam.data.known_objects import ObjectGeometry
from sim2cam.models.card import DetectorCard
from sim2cam.models.inference.detections import rescale_image
from sim2cam.models.inference.detector import (
    NativeDetector,
    detect_objects,
    predict_image,
    set_input_scale,
)
from sim2cam.models.inference.input_scales import PyramidLevel, build_pyramid
from sim2cam.models.network.detector import STRIDE_PX, UNIT_PX, DetectionMaps, DetectorNetwork
from sim2cam.models.network.roi_classifier import SURFACE_STRIDE_PX, RoiOutputs
from sim2cam.models.network.roi_crops import compute_roi_square
from tests.support.networks import Says

SIDE = 320
TRAINED_PX = (20.0, 80.0)
BRICK = ObjectGeometry(((-0.02, -0.01, -0.01), (0.02, 0.01, 0.01)))
CARD = DetectorCard(
    "nano", ("1", "2"), 0, {}, (), box_size_range_px=TRAINED_PX, keypoints={"1": ("tip",), "2": ()},
    objects={"1": BRICK, "2": BRICK},
)  # fmt: skip
RGB = np.zeros((SIDE, SIDE, 3), np.uint8)


@pytest.mark.parametrize("magnification", [0.7, 1.0, 1.5])
@pytest.mark.parametrize("trained_px", [(32.3, 117.3), (60.0, 70.0), (8.0, 300.0)])
def test_objects_of_every_size_count_somewhere_and_are_not_too_large_there(
    magnification, trained_px
):
    levels = build_pyramid(magnification, trained_px, 4000)
    assert levels[0].input_scale == magnification
    assert levels[0].min_side_px == 0
    assert all(a.input_scale == 2 * b.input_scale for a, b in itertools.pairwise(levels))
    for side in np.geomspace(2, 4000, 200):
        seen = [
            one for one in levels if one.min_side_px <= side * one.input_scale <= one.max_side_px
        ]
        assert seen
        assert min(side * one.input_scale for one in seen) <= trained_px[1]
    assert 4000 * levels[-1].input_scale <= trained_px[1] < 4000 * levels[-2].input_scale


def test_sizes_that_two_levels_tell_differently_are_not_lost_between_them():
    (first, second, *_) = build_pyramid(1.0, TRAINED_PX, SIDE)
    assert first.max_side_px / 2 * 0.8 >= second.min_side_px


def test_one_level_does_where_no_object_can_be_larger_or_nothing_is_known_of_sizes():
    assert build_pyramid(1.5, TRAINED_PX, 50) == (PyramidLevel(1.5),)
    assert build_pyramid(1.5, None, 4000) == (PyramidLevel(1.5, 0.0, math.inf),)


class Everywhere:
    """A reader that says of every cell that it shows the point whose x and y are its shares of the close-up."""

    def __call__(self, rgb):
        return RoiOutputs(None, rgb[..., ::SURFACE_STRIDE_PX, ::SURFACE_STRIDE_PX])

    def surface_head(self, cells, categories):
        n, _, side, _ = cells.shape
        shares = (torch.arange(side) + 0.5) / side
        points = torch.zeros(n, 3, side, side)
        points[:, 0], points[:, 1] = shares, shares[:, None]
        off = torch.rand(side, side, generator=torch.Generator().manual_seed(0))
        said = points, off.expand(n, -1, -1)
        return SimpleNamespace(
            mask_logits=torch.full((n, side, side), 4.0), decode_coordinates=lambda: said
        )


def said_of(width, objects, *, points=True):
    """Maps of a picture of a width, in which (x0, y0, x1, y1, logit) are seen, in pixels of ``RGB``."""
    cells, scale = width // STRIDE_PX, width / SIDE
    heat = torch.full((1, cells, cells), -9.0)
    sides, classes = torch.zeros(1, 4, cells, cells), torch.zeros(1, 2, cells, cells)
    classes[:, 0] = 20.0
    keypoints = torch.zeros(1, 2, 1, 4, cells, cells)
    segments, votes = torch.zeros(1, 3, cells, cells), torch.zeros(1, 2, cells, cells)
    segments[:, 0] = 9.0
    y, x = (torch.stack(torch.meshgrid(*[torch.arange(cells)] * 2, indexing="ij")) + 0.5) * 4
    for *box, logit in objects:
        x0, y0, x1, y1 = (value * scale for value in box)
        column, row = int((x0 + x1) / 8), int((y0 + y1) / 8)
        cx, cy = (column + 0.5) * STRIDE_PX, (row + 0.5) * STRIDE_PX
        heat[0, row, column] = logit
        distances = torch.tensor([cx - x0, cy - y0, x1 - cx, y1 - cy])
        sides[0, :, row, column] = (distances / UNIT_PX).log()
        unit_px = distances.log().mean().exp()
        place = (torch.tensor([x0, y0]) - torch.tensor([cx, cy])) / unit_px  # the upper left
        keypoints[0, 0, 0, :2, row, column] = place
        shown = (x > x0) & (x < x1) & (y > y0) & (y < y1)
        segments[0, 1][shown] = 20.0
        votes[0, 0][shown] = (((x0 + x1) / 2 - x) / UNIT_PX)[shown]
        votes[0, 1][shown] = (((y0 + y1) / 2 - y) / UNIT_PX)[shown]
    if not points:
        return DetectionMaps(heat, sides, classes)
    return DetectionMaps(heat, sides, classes, keypoints, segments, votes)


def detector(by_width, **changes):
    nothing = {width: said_of(width, [], **changes) for width in (320, 160, 80)}
    card = replace(CARD, masks=bool(changes.get("points", True)))
    card = card if card.masks else replace(card, keypoints={}, objects={})
    said = {width: said_of(width, objects, **changes) for width, objects in by_width.items()}
    return NativeDetector(Says(nothing | said, Everywhere() if card.objects else None), card)


SMALL, LARGE = (20, 20, 52, 52), (96, 96, 224, 224)


def test_a_large_object_comes_from_its_level_with_all_that_is_known_of_it():
    made = detector({320: [(*SMALL, 5.0), (*LARGE, 6.0)], 160: [(*LARGE, 4.0), (*SMALL, 6.0)]})
    seen = predict_image(made, RGB)
    small, large = seen.detections
    assert small.box_xyxy == pytest.approx(SMALL, abs=1e-3)
    assert small.score > large.score == pytest.approx(1 / math.sqrt(1 + math.exp(-4)), abs=1e-3)
    for one, surface, box in zip(seen.detections, seen.surfaces, (SMALL, LARGE), strict=True):
        assert one.box_xyxy == pytest.approx(box, abs=1e-3)
        assert one.keypoints[0].xy == pytest.approx((box[0] - 0.5, box[1] - 0.5), abs=1e-3)
        corner, side = compute_roi_square(np.array(box, float))
        on_it = (surface.image_points - corner) / side
        assert surface.object_points_m[:, :2] == pytest.approx(0.02 * on_it, abs=1e-6)
        assert np.ptp(on_it, axis=0).min() > 0.5
        inside = np.zeros((SIDE, SIDE), bool)
        inside[box[1] : box[3], box[0] : box[2]] = True
        mask = one.mask.decode()
        assert (mask & inside).sum() / (mask | inside).sum() > 0.9


def test_levels_do_not_repeat_what_they_both_see():
    both = (100, 100, 170, 170)  # 70 px, and 35 px at the next level
    (found,) = detect_objects(
        detector({320: [(*both, 3.0)], 160: [(*both, 4.0)]}, points=False), RGB
    )
    assert found.score == pytest.approx(1 / math.sqrt(1 + math.exp(-4)), abs=1e-3)


@pytest.mark.parametrize(("part", "whole", "left"), [(3.0, 4.0, LARGE), (4.0, 3.0, None)])
def test_parts_of_objects_and_groups_of_them_are_not_objects(part, whole, left):
    inside = (110, 110, 150, 150)
    (found,) = detect_objects(
        detector({320: [(*inside, part)], 160: [(*LARGE, whole)]}, points=False), RGB
    )
    assert found.box_xyxy == pytest.approx(left or inside, abs=1e-3)


def test_small_objects_before_large_ones_stay_where_one_level_sees_both():
    before, behind = (110, 110, 140, 140), (100, 100, 175, 175)
    found = detect_objects(detector({320: [(*before, 3.0), (*behind, 4.0)]}, points=False), RGB)
    assert len(found) == 2


@pytest.mark.parametrize(
    ("amodal", "other", "count"), [(True, True, 2), (True, False, 1), (False, True, 1)]
)
def test_what_hides_a_whole_object_lies_inside_its_box(amodal, other, count):
    inside = (110, 110, 150, 150)
    made = detector({320: [(*inside, 4.0)], 160: [(*LARGE, 3.0)]}, points=False)
    made.network.maps[160].class_logits[:, int(other)] = 40.0
    made = replace(made, card=replace(made.card, config={"amodal": amodal}))
    assert len(detect_objects(made, RGB)) == count


def test_a_given_magnification_is_the_only_one():
    made = detector({160: [(*LARGE, 4.0), (*SMALL, 6.0)]}, points=False)
    assert len(detect_objects(made, RGB, input_scale=0.5)) == 2
    assert [d.box_xyxy for d in detect_objects(made, RGB)] == [pytest.approx(LARGE, abs=1e-3)]


def test_several_scales_find_what_one_misses_and_keep_occluders_and_no_duplicates():
    small, before, behind = (20, 20, 32, 32), (110, 110, 140, 140), (100, 100, 175, 175)
    maps = {width: said_of(width, [], points=False) for width in (240, 320, 400)}
    maps[320] = said_of(320, [(*before, 3.0), (*behind, 4.0)], points=False)
    maps[400] = said_of(400, [(*small, 2.0), (*before, 2.5)], points=False)
    card = replace(CARD, box_size_range_px=None, keypoints={}, objects={})
    made = NativeDetector(Says(maps), card)
    assert len(detect_objects(made, RGB)) == 2
    found = detect_objects(set_input_scale(made, None, multi_scale=True), RGB)
    assert [d.box_xyxy for d in found] == [
        pytest.approx(box, abs=1e-3) for box in (behind, before, small)
    ]
    assert len(detect_objects(set_input_scale(made, 1.25), RGB)) == 2


@pytest.mark.parametrize("size", [(2, 640), (640, 2), (1, 640), (1, 1)])
def test_pictures_that_are_thinner_than_a_pixel_at_a_smaller_magnification_are_looked_at(size):
    assert rescale_image(np.full((*size, 3), 7, np.uint8), 0.25).min() == 7
    network = DetectorNetwork("nano", 2, torch.Generator().manual_seed(0)).eval()
    with torch.no_grad():
        network.box_head[1].bias[0] = 0.0  # it finds something everywhere
    card = DetectorCard("nano", ("1", "2"), 0, {}, (), box_size_range_px=TRAINED_PX)
    found = detect_objects(NativeDetector(network, card), np.zeros((*size, 3), np.uint8))
    assert found
    assert all(d.box_xyxy[2] <= size[1] and d.box_xyxy[3] <= size[0] for d in found)
