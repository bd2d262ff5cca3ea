"""Calibration boards, as OpenCV detects them, with prints of exact texel coverage."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.errors import SpecError
from sim2cam.geometry.poses import Pose, Vec3
from sim2cam.objects.kind import (
    ContactFactors,
    FlatFactors,
    LabelClass,
    ObjectInstance,
    ObjectKind,
    PossibleValues,
)
from sim2cam.objects.plate import Plate, Side
from sim2cam.scene import symmetry
from sim2cam.scene.material import Color
from sim2cam.scene.parameters import Between, Fraction, check_sizes
from sim2cam.surfaces.printing import InkPrint

Floats = NDArray[np.float64]

BoardPattern = Literal["chessboard", "charuco", "markers"]
MarkerDictionary = Literal[
    "4x4_50", "4x4_100", "5x5_50", "5x5_100", "6x6_250", "7x7_250",
    "apriltag_16h5", "apriltag_25h9", "apriltag_36h10", "apriltag_36h11",
]  # fmt: skip
MARKER_COUNTS: dict[str, int] = {
    "4x4_50": 50, "4x4_100": 100, "5x5_50": 50, "5x5_100": 100, "6x6_250": 250, "7x7_250": 250,
    "apriltag_16h5": 30, "apriltag_25h9": 35, "apriltag_36h10": 2320, "apriltag_36h11": 587,
}  # fmt: skip
"""Number of markers by dictionary."""


@dataclass(frozen=True)
class BoardFactors(FlatFactors, ContactFactors):
    """One calibration board; see ``Board``.

    Attributes:
        pattern: ``chessboard``, ``charuco`` (markers in its light squares), or ``markers`` (one in each
            square).
        columns, rows: Number of squares.
        square_m: Side of a square.
        marker_share: Side of a marker over that of its square.
        dictionary: Marker dictionary of OpenCV.
        first_marker: Id of the first marker; ids count up and wrap around at the end of the dictionary.
        margin_m: Blank margin around the pattern.
        thickness_m: Thickness of the plate.
        ink: Reflectance of its dark squares.
        held: Whether it is fixed in its initial pose, as if held by a person.
    """

    pattern: BoardPattern
    columns: Annotated[int, Between(1, 64)]
    rows: Annotated[int, Between(1, 64)]
    square_m: Annotated[float, Between(1e-3, 0.5)]
    marker_share: Annotated[float, Between(0.1, 1)]
    dictionary: MarkerDictionary
    first_marker: Annotated[int, Between(0, 2**31)]
    margin_m: Annotated[float, Between(1e-4, 0.5)]
    thickness_m: Annotated[float, Between(2e-4, 0.1)]
    ink: Fraction
    held: bool

    @property
    def is_held(self) -> bool:
        """Whether it is held."""
        return self.held


@dataclass(frozen=True)
class Board(Plate, ObjectKind):
    """A flat plate with a calibration pattern on its upper side (+z); its category is the pattern.

    The pattern is centred, with rows along x and the first row at +y. Dark squares, marker ids and corners are as on
    OpenCV's boards.

    Attributes:
        pattern: ``chessboard``, ``charuco`` (markers in its light squares), or ``markers`` (one in each
            square).
        columns, rows: Number of squares.
        square_m: Side of a square.
        marker_share: Side of a marker over that of its square.
        dictionary: Marker dictionary, a key of ``MARKER_COUNTS``.
        first_marker: Id of the first marker; ids count up and wrap around at the end of the dictionary.
        margin_m: Blank margin around the pattern.
        thickness_m: Thickness of the plate.
        ink: Linear RGB of the print on the body's material.
    """

    factors_type: ClassVar[type[Any]] = BoardFactors
    shape_symmetries: ClassVar[symmetry.Symmetries] = symmetry.CUBOID
    texture_px: ClassVar[int] = 1024
    corner_radius_m: ClassVar[float] = 5e-4

    pattern: BoardPattern
    columns: int
    rows: int
    square_m: float
    marker_share: float
    dictionary: str
    first_marker: int
    margin_m: float
    thickness_m: float
    ink: Color
    kind: Literal["board"] = "board"

    def __post_init__(self) -> None:
        check_sizes(self, "square_m", "margin_m", "thickness_m", "marker_share")
        minimum = 1 if self.pattern == "markers" else 3
        if not (minimum <= self.columns <= 64 and minimum <= self.rows <= 64):
            raise SpecError(
                f"a board of {self.pattern} has {self.columns} x {self.rows} squares. Allowed: "
                f"{minimum} to 64 both ways."
            )
        if self.pattern == "chessboard" and (self.columns + self.rows) % 2 == 0:
            raise SpecError(
                f"a chessboard of {self.columns} x {self.rows} squares is symmetric, so its corners are "
                "ambiguous. Make one number even and the other odd."
            )
        if self.marker_share > 1 or self.dictionary not in MARKER_COUNTS:
            raise SpecError(
                f"marker_share is {self.marker_share} and dictionary is {self.dictionary}. Allowed: up "
                f"to 1, and {', '.join(MARKER_COUNTS)}."
            )
        if len(self.markers) > MARKER_COUNTS[self.dictionary]:
            raise SpecError(
                f"a board of {self.columns} x {self.rows} squares needs {len(self.markers)} markers, "
                f"but {self.dictionary} has {MARKER_COUNTS[self.dictionary]}."
            )

    @classmethod
    def from_instance(cls, instance: ObjectInstance[BoardFactors]) -> Board:
        """Return the board."""
        factors = instance.factors
        return cls(
            factors.pattern,
            factors.columns,
            factors.rows,
            factors.square_m,
            factors.marker_share,
            factors.dictionary,
            factors.first_marker,
            factors.margin_m,
            factors.thickness_m,
            (factors.ink, factors.ink, factors.ink),
        )

    @classmethod
    def list_label_classes(cls, possible: PossibleValues) -> tuple[LabelClass, ...]:
        """Return one class with the patterns."""
        return (cls.make_label_class(possible("pattern")),)

    @property
    def size_m(self) -> Vec3:
        """Sides of the plate."""
        width, height = (
            count * self.square_m + 2 * self.margin_m for count in (self.columns, self.rows)
        )
        return width, height, self.thickness_m

    @property
    def markers(self) -> dict[tuple[int, int], int]:
        """Marker id by (row, column) of its square."""
        if self.pattern == "chessboard":
            return {}
        squares = itertools.product(range(self.rows), range(self.columns))
        if self.pattern == "charuco":
            squares = (square for square in squares if sum(square) % 2)  # type: ignore[assignment]
        count = MARKER_COUNTS[self.dictionary]
        return {square: (self.first_marker + index) % count for index, square in enumerate(squares)}

    def compute_point_m(self, column: float, row: float) -> Vec3:
        """Return the point on the upper side at a column and row, counted in squares from the pattern's corner."""
        x, y = column - self.columns / 2, self.rows / 2 - row
        return x * self.square_m, y * self.square_m, self.thickness_m / 2

    def get_category(self, pose: Pose) -> str:
        """Return the pattern."""
        return self.pattern

    def get_keypoints(self) -> dict[str, Vec3]:
        """Return the inner corners, numbered as in OpenCV.

        Boards of markers alone have the marker corners, clockwise from the upper left, as 7.0 for the first corner of
        marker 7.
        """
        if self.pattern == "markers":
            return self._compute_marker_corners()
        corners = itertools.product(range(1, self.rows), range(1, self.columns))
        return {
            str(index): self.compute_point_m(column, row)
            for index, (row, column) in enumerate(corners)
        }

    def get_keypoint_normals(self) -> dict[str, Vec3]:
        """Return the normal of the upper side."""
        return dict.fromkeys(self.get_keypoints(), (0.0, 0.0, 1.0))

    def make_print(self) -> InkPrint:
        """Return the print of the upper side, including the margin."""
        width, height, _ = self.size_m
        marker_bits = _make_marker_bits(self, 0).shape[0] if self.markers else 0
        columns, rows = (
            _compute_texel_coverage(_compute_cell_edges(count, self, marker_bits), side_m)
            for count, side_m in ((self.columns, width), (self.rows, height))
        )
        return InkPrint(rows @ _make_cells(self, marker_bits) @ columns.T, self.ink)

    def make_sides(self) -> tuple[Side, Side]:
        """Return the print; the back is bare."""
        return self.make_print(), None

    def _compute_marker_corners(self) -> dict[str, Vec3]:
        half = self.marker_share / 2
        offsets = ((-half, -half), (half, -half), (half, half), (-half, half))
        return {
            f"{marker}.{corner}": self.compute_point_m(column + 0.5 + right, row + 0.5 + down)
            for (row, column), marker in self.markers.items()
            for corner, (right, down) in enumerate(offsets)
        }


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
    texel_edges = np.linspace(0, side_m, Board.texture_px + 1)
    low = np.maximum(texel_edges[:-1, None], edges_m[:-1])
    high = np.minimum(texel_edges[1:, None], edges_m[1:])
    return np.asarray(np.clip(high - low, 0, None) * Board.texture_px / side_m)
