import cv2
import numpy as np
import pytest

from sim2cam.adapt.certificate.colour import measure_colour_shifts


def rgb8(values):
    return np.rint(values).clip(0, 255).astype(np.uint8)


@pytest.mark.parametrize("gains", [(0.6, 0.6, 0.6), (1.1, 1.0, 0.8), (0.8, 1.0, 1.1)])
def test_neither_exposure_nor_white_balance_moves_colours(pair, picture, gains):
    assert max(measure_colour_shifts(pair(rgb8(picture * np.array(gains))))) < 0.1


@pytest.mark.parametrize("saturation", [0.3, 0.6, 1.3])
def test_paler_and_stronger_colours_are_the_same(pair, picture, saturation):
    grey = picture.mean(axis=2, keepdims=True)
    assert max(measure_colour_shifts(pair(rgb8(grey + saturation * (picture - grey))))) < 0.25


def test_swapped_channels_of_one_object_are_told(pair, picture, ids):
    after = picture.copy()
    after[ids == 1] = after[ids == 1][:, ::-1]  # red becomes blue
    first, *others = measure_colour_shifts(pair(after))
    assert first > 0.75
    assert max(others) < 0.05


def test_a_grey_object_that_is_painted_is_told(pair, picture, ids):
    lab = cv2.cvtColor(picture.astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
    lab[ids == 3, 1:] += (45, -45)
    assert measure_colour_shifts(pair(rgb8(255 * cv2.cvtColor(lab, cv2.COLOR_LAB2RGB))))[2] > 0.5


def test_a_clipped_object_has_no_colour(pair, picture, ids):
    after = picture.copy()
    after[ids == 3] = 255
    assert measure_colour_shifts(pair(after))[2] is None
