"""Detection of calibration boards and their corners."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.objects.board import MARKER_COUNTS, Board

Floats = NDArray[np.float64]
Grey = NDArray[np.uint8]

_DETECTION_SIDE_PX = 1280  # longer side for detection; finer detail does not help
_MIN_PATTERN = (3, 3)  # inner corners of the smallest chessboard
_CHESSBOARD_FLAGS = cv2.CALIB_CB_LARGER | cv2.CALIB_CB_NORMALIZE_IMAGE
_SUBPIXEL_CRITERIA = (cv2.TERM_CRITERIA_EPS + cv2.TERM_CRITERIA_MAX_ITER, 40, 1e-3)
_WINDOW_SHARE, _MAX_WINDOW_PX = 0.4, 15  # half window over the smallest corner spacing; limit
_MAX_SPACING_CHANGE = 0.45  # difference of adjacent corner spacings, over the shorter one
_MIN_POINTS = 12
_MIN_MARKERS = 4


@dataclass(frozen=True, eq=False)
class BoardDetection:
    """Detected calibration board in a photo.

    Attributes:
        photo: name of the photo.
        points_m: (n, 3) corners in the plane z = 0 of the board; in squares for chessboards.
        corners_px: (n, 2) detected corners.
        pattern_shape: inner corners of a chessboard, the larger number first; None for other
            boards.
    """

    photo: str
    points_m: Floats
    corners_px: Floats
    pattern_shape: tuple[int, int] | None = None


def detect_board(photo: str, grey: Grey, board: Board | None) -> BoardDetection | None:
    """Detect a calibration board in a photo.

    Args:
        grey: (h, w) levels.
        board: marker board; None for a chessboard of any size or a part of one.

    Returns:
        Detected board; None without one.
    """
    if board is None:
        return _detect_chessboard(photo, grey)
    is_charuco = board.pattern == "charuco"
    corners = (_detect_charuco_corners if is_charuco else _detect_marker_corners)(grey, board)
    if corners is None or len(corners[0]) < _MIN_POINTS:
        return None
    return BoardDetection(photo, *corners)


def detect_marker_dictionary(grey: Grey) -> str | None:
    """Return the marker dictionary with most detections in a photo; None with too few."""
    small, _ = _downscale_image(grey)
    counts = {name: len(_detect_markers(small, name)[0]) for name in MARKER_COUNTS}
    name = max(counts, key=lambda name: counts[name])
    return name if counts[name] >= _MIN_MARKERS else None


def select_common_shape(detections: Sequence[BoardDetection]) -> tuple[int, int] | None:
    """Return the inner corners of the most frequent full chessboard; None without any."""
    shapes = Counter(board.pattern_shape for board in detections if board.pattern_shape)
    return max(shapes, key=lambda shape: (shapes[shape], shape)) if shapes else None


def detect_full_chessboard(
    photo: str, grey: Grey, pattern_shape: tuple[int, int]
) -> BoardDetection | None:
    """Detect a chessboard of known shape, also with small squares or strong distortion."""
    small, scale = _downscale_image(grey)
    is_found, corners = cv2.findChessboardCorners(small, pattern_shape)
    if not is_found:
        return None
    grid = corners.reshape(pattern_shape[1], pattern_shape[0], 2)
    pixels = _refine_corners(grey, grid, scale)
    if pixels is None:
        return None
    return BoardDetection(photo, _make_grid_points(pattern_shape), pixels, pattern_shape)


def _detect_chessboard(photo: str, grey: Grey) -> BoardDetection | None:
    small, scale = _downscale_image(grey)
    is_found, corners, meta = cv2.findChessboardCornersSBWithMeta(
        small, _MIN_PATTERN, _CHESSBOARD_FLAGS
    )
    if not is_found or len(corners) < _MIN_POINTS:
        return None
    pixels = _refine_corners(grey, corners.reshape(*meta.shape[:2], 2), scale)
    if pixels is None:
        return None
    rows, columns = sorted(meta.shape[:2])
    return BoardDetection(photo, _make_grid_points(meta.shape[1::-1]), pixels, (columns, rows))


def _make_grid_points(pattern_shape: Sequence[int]) -> Floats:
    """Return the inner corners (n, 3) of a chessboard in row order, in squares."""
    rows, columns = np.indices((pattern_shape[1], pattern_shape[0])).reshape(2, -1)
    return np.column_stack([columns, rows, np.zeros(len(rows))]).astype(np.float64)


def _detect_charuco_corners(grey: Grey, board: Board) -> tuple[Floats, Floats] | None:
    marker_ids = np.array([n for _, n in sorted(board.markers.items())])
    size, side = (board.columns, board.rows), board.square_m
    charuco = cv2.aruco.CharucoBoard(
        size, side, side * board.marker_share, _get_aruco_dictionary(board.dictionary), marker_ids
    )
    corners, corner_ids, _, _ = cv2.aruco.CharucoDetector(charuco).detectBoard(grey)
    if corner_ids is None or not len(corner_ids):
        return None
    row, column = np.divmod(np.asarray(corner_ids).ravel(), board.columns - 1)
    return _to_board_points(board, column + 1.0, row + 1.0), np.asarray(
        corners, np.float64
    ).reshape(-1, 2)


def _detect_marker_corners(grey: Grey, board: Board) -> tuple[Floats, Floats] | None:
    squares = {marker_id: square for square, marker_id in board.markers.items()}
    corners, marker_ids = _detect_markers(grey, board.dictionary, refine=True)
    markers = [(c, squares[n]) for c, n in zip(corners, marker_ids, strict=True) if n in squares]
    if not markers:
        return None
    low = (1 - board.marker_share) / 2
    high = 1 - low
    unit_corners = np.array([[low, low], [high, low], [high, high], [low, high]])
    positions = np.concatenate(
        [unit_corners + np.array([column, row]) for _, (row, column) in markers]
    )
    pixels = np.concatenate([np.reshape(c, (4, 2)) for c, _ in markers]).astype(np.float64)
    return _to_board_points(board, positions[:, 0], positions[:, 1]), pixels


def _to_board_points(board: Board, columns: Floats, rows: Floats) -> Floats:
    """Return points (n, 3) from columns (right) and rows (down) in squares, from the corner."""
    y = -rows * board.square_m
    return np.column_stack([columns * board.square_m, y, np.zeros(len(rows))])


def _detect_markers(
    grey: Grey, dictionary: str, *, refine: bool = False
) -> tuple[Sequence[NDArray[Any]], list[int]]:
    """Return corners (4, 2) and ids of the markers of a dictionary."""
    parameters = cv2.aruco.DetectorParameters()
    if refine:
        parameters.cornerRefinementMethod = cv2.aruco.CORNER_REFINE_SUBPIX
    detector = cv2.aruco.ArucoDetector(_get_aruco_dictionary(dictionary), parameters)
    corners, marker_ids, _ = detector.detectMarkers(grey)
    return corners, [] if marker_ids is None else [int(n) for n in np.asarray(marker_ids).ravel()]


def _get_aruco_dictionary(name: str) -> cv2.aruco.Dictionary:
    key = f"DICT_{name.upper()}".replace("H", "h")
    return cv2.aruco.getPredefinedDictionary(getattr(cv2.aruco, key))


def _downscale_image(grey: Grey) -> tuple[Grey, float]:
    """Return a photo downscaled to the detection size, and the scale of the original over it."""
    scale = max(1.0, max(grey.shape) / _DETECTION_SIDE_PX)
    if scale == 1:
        return grey, scale
    size = (round(grey.shape[1] / scale), round(grey.shape[0] / scale))
    return np.asarray(cv2.resize(grey, size, interpolation=cv2.INTER_AREA), np.uint8), scale


def _refine_corners(grey: Grey, corners: NDArray[Any], scale: float) -> Floats | None:
    """Refine corners to subpixel accuracy in the full photo.

    In renders of boards the chessboard detector has an error of 0.16 px and a bias per photo of
    0.05 px; refined corners have 0.06 and 0.01 px.

    Args:
        grey: (h, w) photo.
        corners: (rows, columns, 2) corners in the downscaled photo.
        scale: size of the photo over the downscaled one.

    Returns:
        Corners (n, 2) in the photo; None for corners outside it or an irregular grid.
    """
    pixels = ((corners + 0.5) * scale - 0.5).astype(np.float32)
    is_outside = (pixels < 0) | (pixels > np.array(grey.shape[::-1]) - 1)
    if is_outside.any() or not _is_regular_grid(pixels):
        return None
    window = _compute_window(pixels)
    refined = cv2.cornerSubPix(grey, pixels.reshape(-1, 1, 2), window, (-1, -1), _SUBPIXEL_CRITERIA)
    return np.asarray(refined, np.float64).reshape(-1, 2)


def _is_regular_grid(corners: NDArray[Any]) -> bool:
    """Return whether the spacing of corners (rows, columns, 2) changes little along each line."""
    for axis in (0, 1):
        steps = np.diff(corners, axis=axis)
        changes = np.linalg.norm(np.diff(steps, axis=axis), axis=-1)
        lengths = np.linalg.norm(steps, axis=-1)
        shorter = np.minimum(*(np.delete(lengths, end, axis=axis) for end in (0, -1)))
        if (changes > _MAX_SPACING_CHANGE * shorter).any():
            return False
    return True


def _compute_window(corners: NDArray[Any]) -> tuple[int, int]:
    """Return the half size of the refinement window, limited by the corner spacing."""
    spacing = min(float(np.linalg.norm(np.diff(corners, axis=i), axis=-1).min()) for i in (0, 1))
    half = int(np.clip(_WINDOW_SHARE * spacing, 2, _MAX_WINDOW_PX))
    return half, half
