"""Drawn boxes lie where they should, in the colour of their outcome; the image given stays."""

from dataclasses import replace

import numpy as np
import pytest

from sim2cam.data.sample import Keypoint
from sim2cam.metrics.detection import DetectedKeypoint, Detection
from sim2cam.report.overlay import (
    IGNORED_COLOUR,
    MIN_LONGER_SIDE_PX,
    draw_detections,
    draw_labels,
    get_category_colour,
)

BOX = (100.0, 120.0, 200.0, 180.0)


def grey(height=320, width=480):
    return np.full((height, width, 3), 128, np.uint8)


def test_a_box_is_drawn_in_the_colour_of_its_category(label):
    given = grey()
    drawn = draw_labels(given, [label("a", BOX)], ["a", "b"])
    assert drawn.shape == (640, 960, 3)
    assert (given == 128).all()
    inside = np.zeros(drawn.shape[:2], bool)
    inside[245:355, 205:395] = True
    assert (drawn[inside] == 128).all()
    for row, column in ((240, 200), (360, 400)):  # two corners, twice as far
        assert tuple(drawn[row, column]) == get_category_colour(0)
    assert not (drawn == get_category_colour(1)).all(axis=2).any()


def test_a_large_image_keeps_its_size():
    assert draw_labels(grey(100, MIN_LONGER_SIDE_PX + 40), [], []).shape == (100, 1000, 3)


def test_what_is_drawn_into_a_large_image_is_still_seen_when_that_is_shown_small(label):
    def share(scale):
        box = tuple(scale * v for v in BOX)
        drawn = draw_labels(grey(320 * scale, 480 * scale), [label("a", box)], ["a"])
        return (drawn == get_category_colour(0)).all(axis=2).mean()

    assert share(8) == pytest.approx(share(2), rel=0.4)


@pytest.mark.parametrize(
    "box", [(0.0, 0.0, 480.0, 320.0), (-20.0, -9.0, 5.0, 4.0), (470.0, 310.0, 500.0, 340.0)]
)
@pytest.mark.parametrize("name", ["", "Würfel", "骰子", "x" * 300])
def test_boxes_at_the_edge_and_any_name(label, box, name):
    assert draw_labels(grey(), [label(name, box)], [name]).shape == (640, 960, 3)


def test_ignored_regions_are_dashed_and_grey(label):
    drawn = draw_labels(grey(), [label("a", BOX, is_crowd=True)], ["a"])
    side = (drawn[360, 200:400] == IGNORED_COLOUR).all(axis=1).mean()
    assert 0.3 < side < 0.8
    assert not (drawn == get_category_colour(0)).all(axis=2).any()


def test_texts_of_near_boxes_do_not_cover_one_another(label):
    near = (104.0, 121.0, 204.0, 181.0)
    drawn = draw_labels(grey(), [label("a", BOX), label("b", near)], ["a", "b"])
    above, below = drawn[225, 212], drawn[368, 218]
    assert tuple(above) == get_category_colour(0)
    assert tuple(below) == get_category_colour(1)


def test_colours_of_categories_repeat():
    assert get_category_colour(0) == get_category_colour(10) != get_category_colour(1)


def test_a_box_in_space_is_drawn_by_its_edges():
    corners = np.array([(x, y + z) for x in (110, 190) for y in (130, 160) for z in (0, 15)], float)
    found = Detection("a", BOX, 0.9)
    flat, space = (
        draw_detections(grey(), [(found, seen)], ["a"]) == get_category_colour(0)
        for seen in (None, corners)
    )
    flat, space = flat.all(axis=2), space.all(axis=2)
    assert flat[240, 200:400].all()
    assert not space[245:355, 200].any()
    ends = 2 * corners.astype(int)  # twice as far
    for a, b in ((0, 1), (0, 2), (0, 4), (7, 6), (7, 5), (7, 3)):
        column, row = (ends[a] + ends[b]) // 2
        assert space[row, column]
    far = np.full((8, 2), 1e9) * np.linspace(-1, 1, 16).reshape(8, 2)
    assert draw_detections(grey(), [(found, far)], ["a"]).shape == (640, 960, 3)


def test_keypoints_are_dots_and_hidden_ones_rings():
    points = tuple(
        DetectedKeypoint(name, xy, seen, 1.0)
        for name, xy, seen in (("a", (129.5, 149.5), 0.9), ("b", (169.5, 149.5), 0.2))
    )
    far = DetectedKeypoint("c", (1e9, -1e9), 0.9, 1.0)
    found = Detection("a", BOX, 0.9, (*points, far))
    drawn = draw_detections(grey(), [(found, None)], ["a"])
    assert tuple(drawn[300, 260]) == get_category_colour(0)
    assert tuple(drawn[300, 340]) == (128, 128, 128)
    assert tuple(drawn[300, 346]) == get_category_colour(0)


@pytest.mark.parametrize("longer_side_px", [180, 360])
def test_text_of_small_images_is_readable(label, longer_side_px):
    drawn = draw_labels(grey(), [label("abc", BOX)], ["abc"], longer_side_px=longer_side_px)
    assert drawn.shape == (longer_side_px * 2 // 3, longer_side_px, 3)
    plate_rows = (drawn == get_category_colour(0)).all(axis=2).sum(axis=1) > 10
    assert plate_rows.sum() > 11


def test_labelled_keypoints_are_drawn_unless_outside_the_image(label):
    def draw(visibility):
        points = (Keypoint("corner", (150.0, 150.0), visibility),)
        drawn = draw_labels(grey(), [replace(label("a", BOX), keypoints=points)], ["a"])
        return (drawn[290:312, 290:312] == get_category_colour(0)).all(axis=2)

    visible, hidden, outside = draw(2), draw(1), draw(0)
    assert visible[11, 11]
    assert hidden.any()
    assert not hidden[11, 11]
    assert not outside.any()
