"""Shape specifications in metres, in the object frame."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from sim2cam.errors import SpecError, suggest_name
from sim2cam.geometry.poses import Vec3
from sim2cam.scene.articulation import JointStates
from sim2cam.scene.bounds import check_sizes
from sim2cam.scene.fasteners import Bolt, Nut
from sim2cam.scene.image_file import ImageFile
from sim2cam.scene.material import Color
from sim2cam.scene.packages import Carton, Sheet, Tin
from sim2cam.scene.tubes import Tubes
from sim2cam.scene.twisty import TwistyCube

PipShape = Literal["round", "ring", "square"]
BoardPattern = Literal["chessboard", "charuco", "markers"]
LengthUnit = Literal["m", "cm", "mm", "in"]
METRES_PER_UNIT: dict[LengthUnit, float] = {"m": 1.0, "cm": 0.01, "mm": 0.001, "in": 0.0254}
"""Length of each unit in metres."""

DIE_FACE_NORMALS: dict[str, tuple[float, float, float]] = {
    "1": (0.0, 0.0, 1.0),
    "2": (0.0, 1.0, 0.0),
    "3": (1.0, 0.0, 0.0),
    "4": (-1.0, 0.0, 0.0),
    "5": (0.0, -1.0, 0.0),
    "6": (0.0, 0.0, -1.0),
}
"""Outward normal of each face of a die that is not mirrored; opposite faces sum to seven."""

MARKER_COUNTS: dict[str, int] = {
    "4x4_50": 50, "4x4_100": 100, "5x5_50": 50, "5x5_100": 100, "6x6_250": 250, "7x7_250": 250,
    "apriltag_16h5": 30, "apriltag_25h9": 35, "apriltag_36h10": 2320, "apriltag_36h11": 587,
}  # fmt: skip
"""Number of markers by dictionary."""

CARD_FACES = tuple(
    f"{rank}{suit}" for suit in "CDHS" for rank in ("A", *map(str, range(2, 11)), "J", "Q", "K")
)
"""Clubs, diamonds, hearts and spades, from ace to king."""
CARD_BACK = "back"
"""Category of a card that lies face down."""


@dataclass(frozen=True)
class Pips:
    """Pips of a die.

    Attributes:
        shape: Outline.
        radius: Radius over the die's edge length.
        spread: Distance of the outer pips from the face centre, along each side, over the edge length.
        depth: Depth over the edge length.
        color: Linear RGB.
        ace: Radius of the single pip of face one, over that of the others.
        two, three: Spread on faces two and three, over that of the others.
        rows: Distance of the two rows of face six from the face centre, over the spread.
    """

    shape: PipShape
    radius: float
    spread: float
    depth: float
    color: Color
    ace: float = 1.0
    two: float = 1.0
    three: float = 1.0
    rows: float = 1.0


@dataclass(frozen=True)
class Die:
    """A six-sided die; its category is the upward face.

    Attributes:
        edge_m: Edge length.
        rounding: Radius of edges over the edge length.
        corner_cut: Amount of the corners cut by a concentric sphere: 0 none, 1 down to the middle of the
            edges.
        pips: Pips of the faces.
        mirrored: Whether the chirality is reversed (faces 3 and 4 exchanged).
    """

    edge_m: float
    rounding: float
    corner_cut: float
    pips: Pips
    mirrored: bool
    kind: Literal["die"] = "die"

    def __post_init__(self) -> None:
        check_sizes(self, "edge_m")

    def get_face_normals(self) -> dict[str, tuple[float, float, float]]:
        """Return the outward normal of each face in the die's frame, by value."""
        if not self.mirrored:
            return DIE_FACE_NORMALS
        return DIE_FACE_NORMALS | {"3": DIE_FACE_NORMALS["4"], "4": DIE_FACE_NORMALS["3"]}


@dataclass(frozen=True)
class Cuboid:
    """An axis-aligned cuboid, centred on the origin."""

    size_m: tuple[float, float, float]
    kind: Literal["box"] = "box"

    def __post_init__(self) -> None:
        check_sizes(self, "size_m")


@dataclass(frozen=True)
class Cylinder:
    """A cylinder along z, centred on the origin."""

    radius_m: float
    height_m: float
    kind: Literal["cylinder"] = "cylinder"

    def __post_init__(self) -> None:
        check_sizes(self, "radius_m", "height_m")


@dataclass(frozen=True)
class Sphere:
    """A sphere centred on the origin."""

    radius_m: float
    kind: Literal["sphere"] = "sphere"

    def __post_init__(self) -> None:
        check_sizes(self, "radius_m")


@dataclass(frozen=True)
class Block:
    """A labelled cuboid, centred on the origin, with a category of its own, such as its colour.

    Attributes:
        size_m: Sides along the axes.
        rounding: Radius of edges over the shortest side.
        category: Category of the label.
    """

    size_m: Vec3
    rounding: float
    category: str
    kind: Literal["block"] = "block"

    def __post_init__(self) -> None:
        check_sizes(self, "size_m")
        if not 0 <= self.rounding < 0.5:
            raise SpecError(f"rounding of a block is {self.rounding}. Allowed: 0 to below 0.5.")


@dataclass(frozen=True)
class Board:
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


@dataclass(frozen=True)
class Card:
    """A playing card, face at +z, top at +y; its category is the side seen from above.

    Attributes:
        face: One of ``CARD_FACES``: rank and suit, as ``10H`` for the ten of hearts.
        size_m: Width, height, thickness.
        corner_radius_m: Radius of the corners.
        back_color: Linear RGB of the print on the back.
        face_image, back_image: Images instead of the print, stretched to fit.
    """

    face: str
    size_m: Vec3
    corner_radius_m: float
    back_color: Color
    face_image: ImageFile | None = None
    back_image: ImageFile | None = None
    kind: Literal["card"] = "card"

    def __post_init__(self) -> None:
        check_sizes(self, "size_m", "corner_radius_m")
        if self.face not in CARD_FACES:
            raise SpecError(
                f"there is no card '{self.face}'. {suggest_name(self.face, CARD_FACES)}."
            )
        if 2 * self.corner_radius_m >= min(self.size_m[:2]):
            raise SpecError(
                f"corners of {self.corner_radius_m} m do not fit a card of {self.size_m} m."
            )


@dataclass(frozen=True)
class Ground:
    """An infinite table or the background: the plane z = 0, rendered as a square with this side."""

    side_m: float
    kind: Literal["ground"] = "ground"

    def __post_init__(self) -> None:
        check_sizes(self, "side_m")


@dataclass(frozen=True)
class MeshFile:
    """A shape from a mesh or model file, in the file's frame.

    It collides as its convex hull, or as a few convex parts if it was imported (``render.asset_import``). Its colour
    is the file's texture or vertex colours, or else that of the body's material. Reflectance is always the
    material's.

    Attributes:
        path: Path of the file.
        category: Category of the label; empty for unlabelled objects.
        unit_m: Length of one unit of the file in metres.
        max_faces: Largest accepted number of triangles.
        keypoints: Named points, metres.
        digest: SHA-256 of the imported content, which must not change and may come from the cache.
        joints: States of the joints; 0 for unnamed ones.
    """

    path: str
    category: str
    unit_m: float = 1.0
    max_faces: int = 200_000
    keypoints: tuple[tuple[str, Vec3], ...] = ()
    digest: str = ""
    joints: JointStates = ()
    kind: Literal["mesh"] = "mesh"

    def __post_init__(self) -> None:
        check_sizes(self, "unit_m", "max_faces")
        if not re.fullmatch(r"([0-9a-f]{64})?", self.digest):
            raise SpecError(f"'{self.digest[:80]}' is not a SHA-256 digest.")


Asset = Annotated[
    Die
    | Cuboid
    | Cylinder
    | Sphere
    | Block
    | Board
    | Card
    | TwistyCube
    | Tin
    | Carton
    | Bolt
    | Nut
    | Sheet
    | Tubes
    | Ground
    | MeshFile,
    Field(discriminator="kind"),
]
