"""Shapes as specs; render turns them into meshes. Metres, in the object's own frame."""

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
"""How long each unit is."""

DIE_FACE_NORMALS: dict[str, tuple[float, float, float]] = {
    "1": (0.0, 0.0, 1.0),
    "2": (0.0, 1.0, 0.0),
    "3": (1.0, 0.0, 0.0),
    "4": (-1.0, 0.0, 0.0),
    "5": (0.0, -1.0, 0.0),
    "6": (0.0, 0.0, -1.0),
}
"""Outward normal of each face in the frame of a die that is not mirrored; opposites sum to seven."""

MARKER_COUNTS: dict[str, int] = {
    "4x4_50": 50, "4x4_100": 100, "5x5_50": 50, "5x5_100": 100, "6x6_250": 250, "7x7_250": 250,
    "apriltag_16h5": 30, "apriltag_25h9": 35, "apriltag_36h10": 2320, "apriltag_36h11": 587,
}  # fmt: skip
"""How many markers each dictionary has."""

CARD_FACES = tuple(
    f"{rank}{suit}" for suit in "CDHS" for rank in ("A", *map(str, range(2, 11)), "J", "Q", "K")
)
"""Clubs, diamonds, hearts and spades, from the ace to the king."""
CARD_BACK = "back"
"""Category of a card whose face lies down."""


@dataclass(frozen=True)
class Pips:
    """The marks of a die.

    Attributes:
        shape: outline.
        radius: over the die's edge.
        spread: distance of the outer marks from the middle of the face, along each of its sides, over
            the die's edge.
        depth: how deep they are cut, over the die's edge.
        color: linear RGB.
        ace: radius of the one's mark, over that of the others.
        two, three: their spread, over that of the others.
        rows: distance of the six's two rows of three from the middle of the face, over the spread.
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
    """A six-sided die; its category is the face that lies up.

    Attributes:
        edge_m: side length.
        rounding: radius of edges, over the side length.
        corner_cut: how much of the corners a concentric sphere takes away, 0 none, 1 down to the
            middle of the edges.
        mirrored: the other chirality (faces 3 and 4 exchanged).
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
        """Return the outward normal of each face, by its value, in the die's frame."""
        if not self.mirrored:
            return DIE_FACE_NORMALS
        return DIE_FACE_NORMALS | {"3": DIE_FACE_NORMALS["4"], "4": DIE_FACE_NORMALS["3"]}


@dataclass(frozen=True)
class Cuboid:
    """A cuboid with sides along the axes, centred on the origin."""

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
    """A ball around the origin."""

    radius_m: float
    kind: Literal["sphere"] = "sphere"

    def __post_init__(self) -> None:
        check_sizes(self, "radius_m")


@dataclass(frozen=True)
class Block:
    """A cuboid to be found, centred on the origin; its category is a name of its own, as its colour's.

    Attributes:
        size_m: sides along the axes.
        rounding: radius of edges, over the shortest side.
        category: what it is labelled as.
    """

    size_m: Vec3
    rounding: float
    category: str
    kind: Literal["block"] = "block"

    def __post_init__(self) -> None:
        check_sizes(self, "size_m")
        if not 0 <= self.rounding < 0.5:
            raise SpecError(f"rounding of a block is {self.rounding}. It takes 0 to below 0.5.")


@dataclass(frozen=True)
class Board:
    """A flat plate with a calibration pattern on its upper side (+z); its category is the pattern.

    The pattern lies in the middle, its rows along x, its first one at +y. Dark squares, numbers of
    markers and corners are those of OpenCV's boards.

    Attributes:
        pattern: ``chessboard``, ``charuco`` (markers in its light squares), or ``markers`` alone,
            one in each square.
        columns, rows: squares of it.
        square_m: their side.
        marker_share: side of a marker over that of its square.
        dictionary: of the markers, a key of ``MARKER_COUNTS``.
        first_marker: number of the first marker. They count up, and from 0 again after the last of
            the dictionary.
        margin_m: what is left free around the pattern.
        thickness_m: of the plate.
        ink: linear RGB of what is printed on the body's material.
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
        least = 1 if self.pattern == "markers" else 3
        if not (least <= self.columns <= 64 and least <= self.rows <= 64):
            raise SpecError(
                f"a board of {self.pattern} has {self.columns} x {self.rows} squares. It takes "
                f"{least} to 64 both ways."
            )
        if self.pattern == "chessboard" and (self.columns + self.rows) % 2 == 0:
            raise SpecError(
                f"a chessboard of {self.columns} x {self.rows} squares looks the same after half a "
                "turn, so that its corners have no names. Make one number even and the other odd."
            )
        if self.marker_share > 1 or self.dictionary not in MARKER_COUNTS:
            raise SpecError(
                f"markers of {self.dictionary} take {self.marker_share} of their squares. Allowed: up "
                f"to 1, of {', '.join(MARKER_COUNTS)}."
            )
        if len(self.markers) > MARKER_COUNTS[self.dictionary]:
            raise SpecError(
                f"a board of {self.columns} x {self.rows} squares needs {len(self.markers)} markers, "
                f"and {self.dictionary} has {MARKER_COUNTS[self.dictionary]}."
            )

    @property
    def size_m(self) -> Vec3:
        """Sides of the plate."""
        wide, high = (n * self.square_m + 2 * self.margin_m for n in (self.columns, self.rows))
        return wide, high, self.thickness_m

    @property
    def markers(self) -> dict[tuple[int, int], int]:
        """Number of the marker in each square that has one, by (row, column)."""
        if self.pattern == "chessboard":
            return {}
        squares = itertools.product(range(self.rows), range(self.columns))
        if self.pattern == "charuco":
            squares = (at for at in squares if sum(at) % 2)  # type: ignore[assignment]
        count = MARKER_COUNTS[self.dictionary]
        return {at: (self.first_marker + n) % count for n, at in enumerate(squares)}

    def compute_point_m(self, column: float, row: float) -> Vec3:
        """Return the point of the upper side so many squares right of and below the pattern's corner."""
        x, y = column - self.columns / 2, self.rows / 2 - row
        return x * self.square_m, y * self.square_m, self.thickness_m / 2


@dataclass(frozen=True)
class Card:
    """A playing card, face towards +z, top towards +y; its category is what it shows from above.

    Attributes:
        face: of ``CARD_FACES``: rank and suit, as ``10H`` for the ten of hearts.
        size_m: width, height, thickness.
        corner_radius_m: radius of its corners.
        back_color: linear RGB of the print on its back.
        face_image, back_image: take the place of what is printed there, stretched to fit.
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
    """An endless table, or what stands behind it: the plane z = 0, drawn as a square of this side."""

    side_m: float
    kind: Literal["ground"] = "ground"

    def __post_init__(self) -> None:
        check_sizes(self, "side_m")


@dataclass(frozen=True)
class MeshFile:
    """A shape from a file, in the file's own frame: a mesh, or a model of links and joints.

    It collides as its convex hull; a concave one that was brought in (``render.asset_import``) as a few
    convex parts. Its colour is the file's texture or that of its vertices, of the
    body's material where the file has neither; how it shines is the material's always.

    Attributes:
        path: of the file.
        category: what it is labelled as; empty of what never is.
        unit_m: metres that one unit of the file stands for.
        max_faces: a file with more triangles is refused.
        keypoints: named points of it, metres.
        digest: of what the file holds, as it was brought in; what is there may then be taken from
            the cache, and has to be just that.
        joints: how its joints stand; those that are not named, at 0.
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
            raise SpecError(f"'{self.digest[:80]}' is no SHA-256.")


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
