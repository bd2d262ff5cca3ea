"""Boards against OpenCV: what it prints, and what it finds in their pictures."""

from dataclasses import replace

import cv2
import numpy as np
import pytest

from sim2cam.errors import SpecError
from sim2cam.geometry.perspective import BrownConrady
from sim2cam.geometry.poses import Pose
from sim2cam.objects.board import MARKER_COUNTS, Board
from sim2cam.render.renderer import Stage

INK = (0.02, 0.02, 0.02)
CHESS = Board("chessboard", 7, 6, 0.025, 0.7, "4x4_50", 0, 0.015, 0.004, INK)
CHARUCO = replace(CHESS, pattern="charuco", dictionary="5x5_100")
TAGS = Board("markers", 3, 2, 0.06, 0.7, "apriltag_36h11", 585, 0.01, 0.004, INK)
VIEWS = {
    "above": ((0.0, 0.0, 0.42), 0.0),
    "slanted": ((0.1, -0.3, 0.3), 0.4),
    "steep": ((-0.32, 0.12, 0.22), -1.0),
}
LENSES = {
    "pinhole": BrownConrady(700.0, 700.0, 319.5, 239.5),
    "barrel": BrownConrady(640.0, 640.0, 320.0, 236.0, k1=-0.2, k2=0.05, p1=0.001),
}


def dictionary(name):
    key = name.upper().replace("H", "h")
    return cv2.aruco.getPredefinedDictionary(getattr(cv2.aruco, f"DICT_{key}"))


@pytest.fixture
def picture(egl, make):
    """The grey picture of a board and its label."""

    def shot(board, view, lens):
        body = make.body("board", board, (0.0, 0.0, 0.01), (0.8, 0.8, 0.8))
        eye, roll = VIEWS[view]
        camera = replace(
            make.camera(eye, width=640, height=480),
            pose=Pose.look_at(eye, (0.0, 0.0, 0.0), roll),
            lens=LENSES[lens],
        )
        scene = make.scene(body)
        stage = Stage(scene, egl)
        frame = stage.shoot(camera, ("ids", "keypoints"))
        decoded = cv2.imdecode(np.frombuffer(frame.image, np.uint8), cv2.IMREAD_GRAYSCALE)
        (label,) = frame.objects
        return decoded, label

    return shot


def points(label):
    assert all(point.visibility == 2 for point in label.keypoints)
    return {point.name: np.array(point.xy) for point in label.keypoints}


@pytest.mark.parametrize("lens", LENSES)
@pytest.mark.parametrize("view", VIEWS)
def test_the_corners_of_a_chessboard_are_where_they_are_found(picture, view, lens):
    grey, label = picture(CHESS, view, lens)
    assert label.category == "chessboard"
    found, corners = cv2.findChessboardCorners(grey, (6, 5))
    assert found
    end = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_MAX_ITER, 50, 1e-3)
    corners = cv2.cornerSubPix(grey, corners, (5, 5), (-1, -1), end).reshape(-1, 2)
    labelled = np.stack(list(points(label).values()))
    apart = np.linalg.norm(corners[:, None] - labelled, axis=-1)
    assert sorted(apart.argmin(axis=1)) == list(range(30))
    assert np.median(apart.min(axis=1)) < 0.1
    assert apart.min(axis=1).max() < 0.5


@pytest.mark.parametrize("view", VIEWS)
def test_a_charuco_board_s_corners_go_by_opencv_s_numbers(picture, view):
    grey, label = picture(CHARUCO, view, "pinhole")
    ids = np.array(list(CHARUCO.markers.values()))
    known = cv2.aruco.CharucoBoard((7, 6), 0.025, 0.7 * 0.025, dictionary("5x5_100"), ids)
    corners, numbers, _, _ = cv2.aruco.CharucoDetector(known).detectBoard(grey)
    assert len(numbers) >= 20
    labelled = points(label)
    apart = [
        np.linalg.norm(corner - labelled[str(number)])
        for corner, number in zip(corners.reshape(-1, 2), numbers.ravel(), strict=True)
    ]
    assert np.median(apart) < 0.3


@pytest.mark.parametrize("view", VIEWS)
def test_tags_are_found_where_and_how_they_are_labelled(picture, view):
    grey, label = picture(TAGS, view, "barrel")
    detector = cv2.aruco.ArucoDetector(dictionary("apriltag_36h11"))
    corners, numbers, _ = detector.detectMarkers(grey)
    assert set(np.ravel(numbers)) == {585, 586, 0, 1, 2, 3}  # from 0 again after the last
    labelled = points(label)
    for number, found in zip(numbers.ravel(), corners, strict=True):
        known = np.stack([labelled[f"{number}.{corner}"] for corner in range(4)])
        off = found.reshape(4, 2) - known
        assert np.linalg.norm(off, axis=1).max() < 2  # contours run inside the dark
        assert np.linalg.norm(off.mean(axis=0)) < 0.5


def test_a_charuco_board_is_printed_as_opencv_prints_it():
    board = replace(CHARUCO, columns=4, rows=4, margin_m=0.025 / 2, marker_share=0.7)
    ids = np.array(list(board.markers.values()))
    known = cv2.aruco.CharucoBoard((4, 4), 0.025, 0.7 * 0.025, dictionary("5x5_100"), ids)
    # 200 texels a square, of which a marker takes 140, 20 a bit
    theirs = known.generateImage((1000, 1000), marginSize=100)
    ours = cv2.resize(board.make_print().coverage, (1000, 1000), interpolation=cv2.INTER_AREA)
    assert (np.abs(ours - (theirs == 0)) > 0.5).mean() < 2e-3


def test_corners_are_numbered_row_by_row_from_the_upper_left():
    points = replace(CHARUCO, columns=5, rows=4, square_m=0.02).get_keypoints()
    assert list(points) == [str(n) for n in range(12)]
    assert points["0"] == pytest.approx((-0.03, 0.02, 0.002))
    assert points["3"] == pytest.approx((0.03, 0.02, 0.002))
    assert points["11"] == pytest.approx((0.03, -0.02, 0.002))
    tags = replace(TAGS, columns=1, rows=1, first_marker=7, square_m=0.02).get_keypoints()
    assert list(tags) == ["7.0", "7.1", "7.2", "7.3"]
    assert tags["7.1"] == pytest.approx((0.007, 0.007, 0.002))


def test_print_covers_as_much_as_its_dark_squares():
    cover = CHESS.make_print().coverage
    width, height, _ = CHESS.size_m
    assert cover.min() >= 0
    assert cover.max() <= 1 + 1e-12
    assert cover.mean() == pytest.approx(21 * 0.025**2 / (width * height), rel=1e-9)


def test_dictionaries_have_as_many_markers_as_opencv_s():
    for name, count in MARKER_COUNTS.items():
        assert len(dictionary(name).bytesList) == count


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"columns": 6}, "a chessboard of 6 x 6 squares is symmetric, so its corners are ambiguous. Make one number even and the other odd."),
        ({"columns": 2}, "a board of chessboard has 2 x 6 squares. Allowed: 3 to 64 both ways."),
        ({"pattern": "charuco", "columns": 20, "rows": 30},
         "a board of 20 x 30 squares needs 300 markers, but 4x4_50 has 50."),
        ({"square_m": 0.0}, "square_m of a board is 0.0. Sizes must be finite and above 0."),
        ({"marker_share": 1.5}, f"marker_share is 1.5 and dictionary is 4x4_50. Allowed: up to 1, and {', '.join(MARKER_COUNTS)}."),
    ],
)  # fmt: skip
def test_boards_that_cannot_be_are_refused(changes, message):
    with pytest.raises(SpecError) as error:
        replace(CHESS, **changes)
    assert str(error.value) == message
