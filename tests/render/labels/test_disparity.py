import numpy as np
import pytest

from sim2cam.render.labels.disparity import (
    convert_depth_disparity,
    find_occluded_pixels,
    warp_to_right_view,
)


def strip(near_px=30.0, far_px=12.0, *, width=10):
    """A near strip from column 60 before a far wall, as disparities."""
    disparity = np.full((4, 120), far_px, np.float32)
    disparity[:, 60 : 60 + width] = near_px
    return disparity


def test_disparity_and_depth_are_each_other_s_inverse():
    depth = np.float32([[0.0, 0.5, 2.0]])
    found = convert_depth_disparity(depth, 580.0, 0.075)
    assert found.tolist() == [[0.0, pytest.approx(87.0), pytest.approx(21.75)]]
    assert np.allclose(convert_depth_disparity(found, 580.0, 0.075), depth)


@pytest.mark.parametrize(("near", "far"), [(1.0, 2.0), (0.6, 0.8), (0.5, 4.0)])
def test_a_shadow_is_as_wide_as_the_difference_of_the_disparities(near, far):
    focal, baseline = 580.0, 0.075
    depth = np.full((3, 400), far, np.float32)
    depth[:, 200:380] = near
    hidden = find_occluded_pixels(convert_depth_disparity(depth, focal, baseline))
    expected = focal * baseline * (1 / near - 1 / far)
    assert np.abs(hidden.sum(axis=1) - expected).max() <= 1
    assert hidden[:, 199].all()
    assert not hidden[:, 200:].any()


@pytest.mark.parametrize("step_px", [2, 3, 5])
def test_low_things_cast_short_shadows(step_px):
    assert np.flatnonzero(find_occluded_pixels(strip(12 + step_px, 12))[0]).tolist() == list(
        range(60 - step_px, 60)
    )


def test_a_thin_pole_hides_what_lies_in_its_shadow_only():
    hidden = find_occluded_pixels(strip(30, 12, width=4))
    assert np.flatnonzero(hidden[0]).tolist() == [42, 43, 44, 45]


def test_what_is_near_enough_to_a_plane_hides_nothing():
    slanted = np.broadcast_to(np.linspace(40, 10, 200, dtype=np.float32), (3, 200))
    assert not find_occluded_pixels(slanted).any()
    assert not find_occluded_pixels(strip(12.8, 12.0)).any()


def test_nothing_hides_nothing_and_is_not_hidden():
    assert not find_occluded_pixels(np.zeros((3, 9), np.float32)).any()
    disparity = strip()
    disparity[:, :60] = 0
    assert not find_occluded_pixels(disparity).any()


def test_the_right_eye_sees_the_nearest_of_what_falls_on_a_pixel():
    seen = warp_to_right_view(strip())
    assert (seen[:, 30:40] == 30).all()
    assert (seen[:, 40:48] == 12).all()
    assert (seen[:, 48:58] == 0).all()  # behind the strip for the left eye
    assert (seen[:, 58:108] == 12).all()


def test_a_surface_that_turns_to_the_right_eye_has_no_gaps():
    columns = np.arange(100, dtype=np.float32)
    seen = warp_to_right_view(np.broadcast_to(60 - 0.4 * columns, (2, 100)).astype(np.float32))
    assert (seen[0, :75] > 0).all()
