"""Prints of calibration boards, with exact texel coverage."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.scene.shape import Board
from sim2cam.surfaces.printing import InkPrint

Floats = NDArray[np.float64]

_TEXTURE_PX = 1024


def make_board_print(board: Board) -> InkPrint:
    """Return the print of the upper side of a board, including the margin."""
    width, height, _ = board.size_m
    marker_bits = _make_marker_bits(board, 0).shape[0] if board.markers else 0
    columns, rows = (
        _compute_texel_coverage(_compute_cell_edges(count, board, marker_bits), side_m)
        for count, side_m in ((board.columns, width), (board.rows, height))
    )
    return InkPrint(rows @ _make_cells(board, marker_bits) @ columns.T, board.ink)


def _make_cells(board: Board, marker_bits: int) -> Floats:
    """Return the dark cells of the pattern; squares with a marker have its bits and a rim."""
    side = marker_bits + 2 if marker_bits else 1
    cells = np.zeros((board.rows * side, board.columns * side))
    for row in range(board.rows):
        for column in range(board.columns):
            square = cells[row * side :, column * side :][:side, :side]
            if (row, column) in board.markers:
                square[1:-1, 1:-1] = _make_marker_bits(board, board.markers[row, column])
            elif board.pattern != "markers" and (row + column) % 2 == 0:
                square[:] = 1
    return cells


def _make_marker_bits(board: Board, marker_id: int) -> Floats:
    """Return the dark bits (n, n) of a marker with its border."""
    name = f"DICT_{board.dictionary.upper()}".replace("H", "h")
    dictionary = cv2.aruco.getPredefinedDictionary(getattr(cv2.aruco, name))
    side = dictionary.markerSize + 2
    return np.asarray(cv2.aruco.generateImageMarker(dictionary, marker_id, side) == 0, np.float64)


def _compute_cell_edges(count: int, board: Board, marker_bits: int) -> Floats:
    """Return the cell edges (n + 1,) along a side with ``count`` squares, in metres."""
    rim = (1 - board.marker_share) / 2
    inner = np.linspace(rim, 1 - rim, marker_bits + 1) if marker_bits else np.zeros(0)
    cell_offsets = np.concatenate([[0.0], inner])
    squares = (np.arange(count)[:, None] + cell_offsets).ravel()
    return board.margin_m + board.square_m * np.append(squares, count)


def _compute_texel_coverage(edges_m: Floats, side_m: float) -> Floats:
    """Return the share of each texel in each of n cells along a side, (texels, n)."""
    texel_edges = np.linspace(0, side_m, _TEXTURE_PX + 1)
    low = np.maximum(texel_edges[:-1, None], edges_m[:-1])
    high = np.minimum(texel_edges[1:, None], edges_m[1:])
    return np.asarray(np.clip(high - low, 0, None) * _TEXTURE_PX / side_m)
