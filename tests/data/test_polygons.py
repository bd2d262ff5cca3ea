import cv2
import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from sim2cam.data.polygons import trace_outline


def filled(outline, shape):
    corners = [np.floor(outline).astype(np.int32)]
    return cv2.fillPoly(np.zeros(shape, np.uint8), corners, 1) > 0


def area_of(outline):
    x, y = outline.T
    return abs((x * np.roll(y, -1) - y * np.roll(x, -1)).sum()) / 2


def test_a_rectangle_has_its_corners_a_quarter_of_a_pixel_inside():
    mask = np.zeros((20, 30), bool)
    mask[4:9, 10:25] = True
    outline = trace_outline(mask)
    assert outline.min(axis=0) == pytest.approx((10.25, 4.25))
    assert outline.max(axis=0) == pytest.approx((24.75, 8.75))
    assert len(outline) == 4


def test_a_pixel_is_a_square():
    mask = np.zeros((5, 5), bool)
    mask[2, 3] = True
    assert area_of(trace_outline(mask)) == pytest.approx(0.25)
    assert (filled(trace_outline(mask), mask.shape) == mask).all()


def test_pieces_are_joined():
    mask = np.zeros((40, 40), bool)
    mask[2:12, 2:12] = mask[30:35, 30:36] = True
    found = filled(trace_outline(mask), mask.shape)
    assert found[mask].all()
    assert (found & ~mask).sum() < 30  # the bridge, a pixel wide when it is drawn


def test_holes_stay_open():
    mask = np.zeros((40, 40), bool)
    mask[5:35, 5:35] = True
    mask[15:25, 15:25] = False
    outline = trace_outline(mask)
    away = cv2.distanceTransform((~mask).astype(np.uint8), cv2.DIST_L2, 3) > 1.5
    found = filled(outline, mask.shape)
    assert found[mask].all()
    assert not found[away].any()  # in the hole's middle, and beyond


@pytest.mark.parametrize("seed", range(5))
def test_ragged_masks_come_back(seed):
    rng = np.random.default_rng(seed)
    mask = gaussian_filter(rng.normal(size=(64, 80)), 5) > 0.02
    found = filled(trace_outline(mask), mask.shape)
    union = (found | mask).sum()
    assert found[mask].all()
    assert (found & mask).sum() / union > 0.9  # rims of holes and bridges are a pixel wide


def test_nothing_has_no_outline():
    assert trace_outline(np.zeros((4, 4), bool)).shape == (0, 2)
