import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pycocotools import mask as coco

from sim2cam.geometry.boxes import (
    compute_box_corners,
    mask_to_box,
    pairwise_iou,
    xywh_to_xyxy,
    xyxy_to_xywh,
)

masks = hnp.arrays(np.bool_, st.tuples(st.integers(1, 12), st.integers(1, 12)))
corners = st.tuples(*[st.integers(0, 50)] * 2, *[st.integers(1, 50)] * 2)
boxes_xywh = st.lists(corners, min_size=1, max_size=6)


def test_a_box_in_space_has_eight_corners_in_order():
    assert compute_box_corners((0.0, 2.0, 4.0), (1.0, 3.0, 5.0)).tolist() == [
        [0, 2, 4], [0, 2, 5], [0, 3, 4], [0, 3, 5], [1, 2, 4], [1, 2, 5], [1, 3, 4], [1, 3, 5],
    ]  # fmt: skip


def test_one_pixel_is_one_pixel_wide():
    mask = np.zeros((5, 7), np.bool_)
    mask[2, 4] = True
    assert mask_to_box(mask) == (4.0, 2.0, 5.0, 3.0)


def test_an_empty_mask_has_no_box():
    assert mask_to_box(np.zeros((3, 4), np.bool_)) is None


@given(mask=masks)
def test_the_box_of_a_mask_is_tight(mask):
    box = mask_to_box(mask)
    if box is None:
        assert not mask.any()
        return
    x0, y0, x1, y1 = (int(edge) for edge in box)
    inside = mask[y0:y1, x0:x1]
    assert inside.sum() == mask.sum()
    assert all(side.any() for side in (inside[0], inside[-1], inside[:, 0], inside[:, -1]))


@given(box=corners)
def test_the_two_forms_are_each_other_s_inverse(box):
    assert xyxy_to_xywh(xywh_to_xyxy(box)) == box


@given(a=boxes_xywh, b=boxes_xywh)
def test_overlap_agrees_with_pycocotools(a, b):
    expected = coco.iou(np.array(a, float), np.array(b, float), [0] * len(b))
    ours = pairwise_iou(
        *(np.array([xywh_to_xyxy(box) for box in boxes], float) for boxes in (a, b))
    )
    assert ours == pytest.approx(expected, abs=1e-12)


def test_empty_boxes_overlap_nothing():
    empty = np.array([[3.0, 3.0, 3.0, 3.0], [5.0, 5.0, 1.0, 1.0]])
    assert not pairwise_iou(empty, empty).any()


def test_no_boxes_give_no_rows():
    assert pairwise_iou(np.zeros((0, 4)), np.ones((2, 4))).shape == (0, 2)
