"""Boards: where the corners of a calibration pattern are in a photo."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.scene.shape import MARKER_COUNTS, Board

Floats = NDArray[np.float64]
Grey = NDArray[np.uint8]

_DETECTION_SIDE_PX = 1280  # of the longer side: finer detail does not help to find a board
_MIN_PATTERN = (3, 3)  # inner corners of the smallest chessboard that is looked for
_CHESSBOARD_FLAGS = cv2.CALIB_CB_LARGER | cv2.CALIB_CB_NORMALIZE_IMAGE
_SUBPIXEL_CRITERIA = (cv2.TERM_CRITERIA_EPS + cv2.TERM_CRITERIA_MAX_ITER, 40, 1e-3)
_WINDOW_SHARE, _MAX_WINDOW_PX = (
    0.4,
    15,
)  # half of a corner's window, over the smallest square's side; at most
_MAX_SPACING_CHANGE = 0.45  # change from one step between corners to the next, over the shorter
_MIN_POINTS = 12
_MIN_MARKERS = 4


@dataclass(frozen=True, eq=False)
class BoardDetection:
    """A board in a photo.

    Attributes:
        photo: name of the photo.
        points_m: (n, 3) corners on the board's plane z = 0; a chessboard's in squares.
        corners_px: (n, 2) where they are.
        pattern_shape: inner corners of a chessboard, the larger number first; None for other boards.
    """

    photo: str
    points_m: Floats
    corners_px: Floats
    pattern_shape: tuple[int, int] | None = None


def detect_board(photo: str, grey: Grey, board: Board | None) -> BoardDetection | None:
    """Return the board in a photo; None where there is none.

    Args:
        photo: its name.
        grey: (h, w).
        board: of markers; None for a chessboard, of any size or a part of one.
    """
    if board is None:
        return _detect_chessboard(photo, grey)
    find = _detect_charuco_corners if board.pattern == "charuco" else _detect_marker_corners
    found = find(grey, board)
    return (
        BoardDetection(photo, *found)
        if found is not None and len(found[0]) >= _MIN_POINTS
        else None
    )


def detect_marker_dictionary(grey: Grey) -> str | None:
    """Return the dictionary of most of the markers in a photo; None where there are hardly any."""
    small, _ = _downscale_image(grey)
    counts = {name: len(_detect_markers(small, name)[0]) for name in MARKER_COUNTS}
    name = max(counts, key=lambda name: counts[name])
    return name if counts[name] >= _MIN_MARKERS else None


def select_common_shape(detections: Sequence[BoardDetection]) -> tuple[int, int] | None:
    """Return the inner corners of the chessboard that most photos show whole; None without any."""
    shapes = Counter(s.pattern_shape for s in detections if s.pattern_shape)
    return max(shapes, key=lambda shape: (shapes[shape], shape)) if shapes else None


def detect_full_chessboard(
    photo: str, grey: Grey, pattern_shape: tuple[int, int]
) -> BoardDetection | None:
    """Return a chessboard of known shape, also where its squares are few pixels or bend much."""
    small, scale = _downscale_image(grey)
    found, corners = cv2.findChessboardCorners(small, pattern_shape)
    pixels = (
        _refine_corners(grey, corners.reshape(pattern_shape[1], pattern_shape[0], 2), scale)
        if found
        else None
    )
    return (
        None
        if pixels is None
        else BoardDetection(photo, _make_grid_points(pattern_shape), pixels, pattern_shape)
    )


def _detect_chessboard(photo: str, grey: Grey) -> BoardDetection | None:
    small, scale = _downscale_image(grey)
    found, corners, meta = cv2.findChessboardCornersSBWithMeta(
        small, _MIN_PATTERN, _CHESSBOARD_FLAGS
    )
    if not found or len(corners) < _MIN_POINTS:
        return None
    pixels = _refine_corners(grey, corners.reshape(*meta.shape[:2], 2), scale)
    if pixels is None:
        return None
    rows, columns = sorted(meta.shape[:2])
    return BoardDetection(photo, _make_grid_points(meta.shape[1::-1]), pixels, (columns, rows))


def _make_grid_points(pattern_shape: Sequence[int]) -> Floats:
    """Return the inner corners (n, 3) of a chessboard row by row, in squares."""
    rows, columns = np.indices((pattern_shape[1], pattern_shape[0])).reshape(2, -1)
    return np.column_stack([columns, rows, np.zeros(len(rows))]).astype(np.float64)


def _detect_charuco_corners(grey: Grey, board: Board) -> tuple[Floats, Floats] | None:
    numbers = np.array([n for _, n in sorted(board.markers.items())])
    size, side = (board.columns, board.rows), board.square_m
    printed = cv2.aruco.CharucoBoard(
        size, side, side * board.marker_share, _get_aruco_dictionary(board.dictionary), numbers
    )
    corners, found, _, _ = cv2.aruco.CharucoDetector(printed).detectBoard(grey)
    if found is None or not len(found):
        return None
    row, column = np.divmod(np.asarray(found).ravel(), board.columns - 1)
    return _to_board_points(board, column + 1.0, row + 1.0), np.asarray(
        corners, np.float64
    ).reshape(-1, 2)


def _detect_marker_corners(grey: Grey, board: Board) -> tuple[Floats, Floats] | None:
    squares = {number: at for at, number in board.markers.items()}
    corners, numbers = _detect_markers(grey, board.dictionary, refine=True)
    known = [(c, squares[n]) for c, n in zip(corners, numbers, strict=True) if n in squares]
    if not known:
        return None
    rim = (1 - board.marker_share) / 2
    ends = np.array([[rim, rim], [1 - rim, rim], [1 - rim, 1 - rim], [rim, 1 - rim]])
    places = np.concatenate([ends + np.array([column, row]) for _, (row, column) in known])
    pixels = np.concatenate([np.reshape(c, (4, 2)) for c, _ in known]).astype(np.float64)
    return _to_board_points(board, places[:, 0], places[:, 1]), pixels


def _to_board_points(board: Board, columns: Floats, rows: Floats) -> Floats:
    """Return points (n, 3) so many squares right of and below the pattern's corner."""
    y = -rows * board.square_m
    return np.column_stack([columns * board.square_m, y, np.zeros(len(rows))])


def _detect_markers(
    grey: Grey, dictionary: str, *, refine: bool = False
) -> tuple[Sequence[NDArray[Any]], list[int]]:
    """Return corners (4, 2) of the markers of a dictionary, and their numbers."""
    options = cv2.aruco.DetectorParameters()
    if refine:
        options.cornerRefinementMethod = cv2.aruco.CORNER_REFINE_SUBPIX
    detector = cv2.aruco.ArucoDetector(_get_aruco_dictionary(dictionary), options)
    corners, numbers, _ = detector.detectMarkers(grey)
    return corners, [] if numbers is None else [int(n) for n in np.asarray(numbers).ravel()]


def _get_aruco_dictionary(name: str) -> cv2.aruco.Dictionary:
    key = f"DICT_{name.upper()}".replace("H", "h")
    return cv2.aruco.getPredefinedDictionary(getattr(cv2.aruco, key))


def _downscale_image(grey: Grey) -> tuple[Grey, float]:
    """Return a photo no larger than is searched, and the pixels of the photo to one of it."""
    scale = max(1.0, max(grey.shape) / _DETECTION_SIDE_PX)
    if scale == 1:
        return grey, scale
    size = (round(grey.shape[1] / scale), round(grey.shape[0] / scale))
    return np.asarray(cv2.resize(grey, size, interpolation=cv2.INTER_AREA), np.uint8), scale


def _refine_corners(grey: Grey, corners: NDArray[Any], scale: float) -> Floats | None:
    """Return corners (n, 2) found in a smaller photo as exactly as the photo shows them.

    None where they lie as no board's do: outside the photo, or not in even rows. The chessboard detector's own places are off by 0.16 px in renders of boards, all of a photo together by
    0.05; these are by 0.06 and 0.01.

    Args:
        grey: (h, w), the photo.
        corners: (rows, columns, 2) in the smaller one.
        scale: pixels of the photo to one of that.
    """
    pixels = ((corners + 0.5) * scale - 0.5).astype(np.float32)
    outside = (pixels < 0) | (pixels > np.array(grey.shape[::-1]) - 1)
    if outside.any() or not _is_regular_grid(pixels):
        return None
    window = _compute_window(pixels)
    found = cv2.cornerSubPix(grey, pixels.reshape(-1, 1, 2), window, (-1, -1), _SUBPIXEL_CRITERIA)
    return np.asarray(found, np.float64).reshape(-1, 2)


def _is_regular_grid(corners: NDArray[Any]) -> bool:
    """Return whether steps from corner to corner (rows, columns, 2) change little along each line."""
    for axis in (0, 1):
        steps = np.diff(corners, axis=axis)
        bends = np.linalg.norm(np.diff(steps, axis=axis), axis=-1)
        lengths = np.linalg.norm(steps, axis=-1)
        shorter = np.minimum(*(np.delete(lengths, end, axis=axis) for end in (0, -1)))
        if (bends > _MAX_SPACING_CHANGE * shorter).any():
            return False
    return True


def _compute_window(corners: NDArray[Any]) -> tuple[int, int]:
    """Return half the window in which a corner is refined: as large as others leave room for."""
    apart = min(float(np.linalg.norm(np.diff(corners, axis=i), axis=-1).min()) for i in (0, 1))
    half = int(np.clip(_WINDOW_SHARE * apart, 2, _MAX_WINDOW_PX))
    return half, half
