import cv2
import numpy as np
import pytest

from sim2cam.adapt.calibration.board_corners import (
    _is_regular_grid,
    _refine_corners,
    detect_board,
    detect_full_chessboard,
    detect_marker_dictionary,
    select_common_shape,
)
from sim2cam.objects.board import Board
from tests.adapt.calibration.conftest import chessboard_picture


def board(pattern, columns, rows, dictionary):
    return Board(pattern, columns, rows, 0.03, 0.7, dictionary, 0, 0.01, 0.003, (0.0, 0.0, 0.0))


def printed(pattern):
    spec = board(pattern, 6, 5, "4x4_50" if pattern == "charuco" else "apriltag_36h11")
    name = "DICT_4X4_50" if pattern == "charuco" else "DICT_APRILTAG_36h11"
    dictionary = cv2.aruco.getPredefinedDictionary(getattr(cv2.aruco, name))
    if pattern == "charuco":
        made = cv2.aruco.CharucoBoard((6, 5), 0.03, 0.021, dictionary)
        return spec, made.generateImage((720, 600), marginSize=0)
    sheet = np.full((600, 720), 255, np.uint8)
    for (row, column), number in spec.markers.items():
        bits = cv2.aruco.generateImageMarker(dictionary, number, 84)
        sheet[row * 120 + 18 :, column * 120 + 18 :][:84, :84] = bits
    return spec, sheet


def test_a_chessboard_of_any_size_is_found_where_it_is():
    picture, corners = chessboard_picture()
    seen = detect_board("a.jpg", picture, None)
    assert seen.pattern_shape == (7, 5)
    assert len(seen.corners_px) == len(corners)
    distances = np.linalg.norm(seen.corners_px[:, None] - corners, axis=-1).min(axis=1)
    assert distances.mean() < 0.2
    assert distances.max() < 0.5


def test_a_large_photo_is_searched_small_and_measured_large():
    picture, _ = chessboard_picture()
    small = detect_board("a.jpg", picture, None)
    large = cv2.resize(picture, None, fx=4, fy=4, interpolation=cv2.INTER_CUBIC)
    seen = detect_board("a.jpg", large, None)
    order = np.linalg.norm((seen.corners_px[:, None] + 0.5) / 4 - 0.5 - small.corners_px, axis=-1)
    assert order.min(axis=1).max() < 0.6


@pytest.mark.parametrize("pattern", ["charuco", "markers"])
def test_boards_of_markers_are_found_corner_by_corner(pattern):
    spec, sheet = printed(pattern)
    shown = cv2.copyMakeBorder(
        cv2.resize(sheet, (600, 500)), 50, 50, 60, 60, cv2.BORDER_CONSTANT, value=255
    )
    seen = detect_board("a.jpg", shown, spec)
    assert len(seen.corners_px) == (20 if pattern == "charuco" else 120)
    flat = (
        np.column_stack([seen.points_m[:, 0], -seen.points_m[:, 1]]) / 0.03 * 100 + [60, 50] - 0.5
    )
    assert np.abs(seen.corners_px - flat).max() < 1.0
    if pattern == "markers":
        assert detect_marker_dictionary(shown) == "apriltag_36h11"


def test_a_picture_of_nothing_has_no_board():
    noise = np.random.default_rng(0).integers(0, 255, (240, 320)).astype(np.uint8)
    for spec in (None, board("charuco", 6, 5, "4x4_50"), board("markers", 6, 5, "4x4_50")):
        assert detect_board("a.jpg", noise, spec) is None
    assert detect_marker_dictionary(noise) is None
    assert detect_full_chessboard("a.jpg", noise, (7, 5)) is None


def test_the_usual_shape_is_that_of_most_photos():
    picture, _ = chessboard_picture()
    whole = detect_board("a.jpg", picture, None)
    part = detect_board("b.jpg", chessboard_picture(columns=6, rows=5)[0], None)
    assert part.pattern_shape == (5, 4)
    assert select_common_shape([whole, part, whole]) == (7, 5)
    again = detect_full_chessboard("a.jpg", picture, (7, 5))
    apart = np.linalg.norm(again.corners_px[:, None] - whole.corners_px, axis=-1).min(axis=1)
    assert apart.max() < 0.6
    assert select_common_shape([]) is None


def test_corners_are_where_their_edges_meet():
    picture, corners = chessboard_picture()
    seen = detect_board("a.jpg", picture, None)
    off = np.linalg.norm(seen.corners_px[:, None] - corners, axis=-1).min(axis=1)
    assert np.sqrt((off**2).mean()) < 0.06
    mean = (np.sort(seen.corners_px, axis=0) - np.sort(corners, axis=0)).mean(axis=0)
    assert np.abs(mean).max() < 0.02


EVEN = np.stack(np.meshgrid(np.arange(5.0) * 20, np.arange(4.0) * 20), axis=-1)


def test_a_grid_that_skips_a_row_or_meets_a_corner_twice_is_no_board():
    assert _is_regular_grid(EVEN)
    tilted = EVEN * [1.0, 0.5] + 0.002 * EVEN[..., 1:] * EVEN  # nearer rows are farther apart
    assert _is_regular_grid(tilted)
    skipped = EVEN.copy()
    skipped[2:, :, 1] += 20
    twice = EVEN.copy()
    twice[:, 2] = twice[:, 1]
    assert not _is_regular_grid(skipped)
    assert not _is_regular_grid(twice)


def test_corners_outside_the_photo_are_of_no_board():
    grey = np.zeros((90, 110), np.uint8)
    assert _refine_corners(grey, EVEN + 4, 1.0) is not None
    assert _refine_corners(grey, EVEN - 4, 1.0) is None
    assert _refine_corners(grey, EVEN + 40, 1.0) is None
