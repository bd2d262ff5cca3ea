"""Playing cards, labelled by the side seen from above."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Annotated, Any, ClassVar, Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.errors import SpecError, suggest_name
from sim2cam.geometry.poses import Pose, Quaternion, Vec3
from sim2cam.objects.kind import (
    ContactFactors,
    FlatFactors,
    LabelClass,
    ObjectInstance,
    ObjectKind,
    PossibleValues,
)
from sim2cam.objects.plate import Plate, Side
from sim2cam.objects.primitives import make_end_keypoints
from sim2cam.scene import symmetry
from sim2cam.scene.image_file import ImageFile
from sim2cam.scene.material import Color, hsv_to_linear
from sim2cam.scene.parameters import Between, Fraction, OneOf, check_sizes
from sim2cam.surfaces.printing import (
    InkPrint,
    downsample_coverage,
    draw_text,
    to_texel_position,
    to_texels,
)

Floats = NDArray[np.float64]

CARD_FACES = tuple(
    f"{rank}{suit}" for suit in "CDHS" for rank in ("A", *map(str, range(2, 11)), "J", "Q", "K")
)
"""Clubs, diamonds, hearts and spades, from ace to king."""
CARD_BACK = "back"
"""Category of a card that lies face down."""
HALF_TURN_FACES = tuple(
    face
    for face in CARD_FACES
    if face[:-1] in ("2", "4", "10") or (face[-1] == "D" and face[:-1] in "A35689")
)
"""Cards with a half-turn symmetry, without a central pip other than diamonds."""

_SUPERSAMPLING = 4  # drawn at this scale, then averaged
_RED: Color = (0.45, 0.008, 0.012)
_BLACK: Color = (0.012, 0.012, 0.014)
_MARGIN = 0.06  # of the width, around the lattice of the back
_PIP_HALF_HEIGHT = 0.085  # half height of a pip, over the card's width

_LEFT, _RIGHT, _MIDDLE = 0.3, 0.7, 0.5
_PIP_POSITIONS: dict[str, tuple[tuple[float, float], ...]] = {
    "A": ((_MIDDLE, 0.5),),
    "2": ((_MIDDLE, 0.2), (_MIDDLE, 0.8)),
    "3": ((_MIDDLE, 0.2), (_MIDDLE, 0.5), (_MIDDLE, 0.8)),
    "4": ((_LEFT, 0.2), (_RIGHT, 0.2), (_LEFT, 0.8), (_RIGHT, 0.8)),
}
_PIP_POSITIONS["5"] = (*_PIP_POSITIONS["4"], (_MIDDLE, 0.5))
_PIP_POSITIONS["6"] = (*_PIP_POSITIONS["4"], (_LEFT, 0.5), (_RIGHT, 0.5))
_PIP_POSITIONS["7"] = (*_PIP_POSITIONS["6"], (_MIDDLE, 0.35))
_PIP_POSITIONS["8"] = (*_PIP_POSITIONS["7"], (_MIDDLE, 0.65))
_PIP_POSITIONS["9"] = (
    *_PIP_POSITIONS["4"], (_LEFT, 0.4), (_RIGHT, 0.4), (_LEFT, 0.6), (_RIGHT, 0.6), (_MIDDLE, 0.5),
)  # fmt: skip
_PIP_POSITIONS["10"] = (*_PIP_POSITIONS["9"][:-1], (_MIDDLE, 0.3), (_MIDDLE, 0.7))


@dataclass(frozen=True)
class CardFactors(FlatFactors, ContactFactors):
    """One playing card.

    Attributes:
        face: Rank and suit, as ``10H``.
        face_down: Whether its back is up.
        width_m, thickness_m: Width and thickness.
        aspect: Height over width.
        corner: Corner radius over the shorter side.
        back_hue, back_saturation, back_value: Colour of the print on its back.
        pictured: Whether to use images of the recipe's ``[pictures]``: the one named after the face
            (``10H.jpg``) and, if present, ``back.jpg``.
    """

    face: Annotated[str, OneOf(CARD_FACES)]
    face_down: bool
    width_m: Annotated[float, Between(0.01, 1)]
    aspect: Annotated[float, Between(0.2, 5)]
    thickness_m: Annotated[float, Between(2e-4, 0.1)]
    corner: Annotated[float, Between(0.005, 0.4)]
    back_hue: float
    back_saturation: Fraction
    back_value: Fraction
    pictured: bool = False

    def compute_rotation(self) -> Quaternion:
        """Return the rotation; a card that lies face down makes half a turn about its y axis first."""
        w, x, y, z = super().compute_rotation()
        return (-y, -z, w, x) if self.face_down else (w, x, y, z)


@dataclass(frozen=True)
class Card(Plate, ObjectKind):
    """A playing card, face at +z, top at +y; its category is the side seen from above.

    Attributes:
        face: One of ``CARD_FACES``: rank and suit, as ``10H`` for the ten of hearts.
        size_m: Width, height, thickness.
        corner_radius_m: Radius of the corners.
        back_color: Linear RGB of the print on the back.
        face_image, back_image: Images instead of the print, stretched to fit.
    """

    factors_type: ClassVar[type[Any]] = CardFactors
    derived_factors: ClassVar[Mapping[str, tuple[str, Callable[[str], str]]]] = {
        "rank": ("face", lambda face: face[:-1]),
        "suit": ("face", lambda face: face[-1]),
    }
    shape_symmetries: ClassVar[symmetry.Symmetries] = symmetry.CUBOID
    texture_px: ClassVar[int] = 512

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

    @classmethod
    def from_instance(cls, instance: ObjectInstance[CardFactors]) -> Card:
        """Return the card."""
        factors = instance.factors
        size = (factors.width_m, factors.width_m * factors.aspect, factors.thickness_m)
        images = {PurePath(name).stem: facts.file for name, facts in instance.images.items()}
        return cls(
            factors.face,
            size,
            min(size[:2]) * factors.corner,
            hsv_to_linear(factors.back_hue, factors.back_saturation, factors.back_value),
            images[factors.face] if factors.pictured else None,
            images.get(CARD_BACK) if factors.pictured else None,
        )

    @classmethod
    def list_label_classes(cls, possible: PossibleValues) -> tuple[LabelClass, ...]:
        """Return the cards with and without a half-turn symmetry, and the back."""
        faces = set(map(str, possible("face")))
        symmetric = faces & set(HALF_TURN_FACES)
        back = cls.list_hidden_categories(possible)
        return (
            cls.make_label_class(faces - symmetric | back),
            cls.make_label_class(symmetric, "turnable card", symmetry.HALF_TURN),
        )

    @classmethod
    def list_hidden_categories(cls, possible: PossibleValues) -> set[str]:
        """Return the back if it can be seen."""
        moves = (
            possible(f"layout/{name}") != {0}
            for name in ("drop_height_m", "speed_m_s", "spin_rad_s")
        )
        is_back_seen = True in possible("face_down") or possible("lean_rad") != {0} or any(moves)
        return {CARD_BACK} if is_back_seen else set()

    @classmethod
    def find_problem(
        cls, possible: PossibleValues, image_names: Collection[str]
    ) -> tuple[str, str] | None:
        """Return the faces that ``pictured`` cards lack images of."""
        if True not in possible("pictured"):
            return None
        stems = {PurePath(name).stem for name in image_names}
        missing = sorted(set(map(str, possible("face"))) - stems)
        if not missing:
            return None
        names = ", ".join(missing[:5])
        return (
            "pictured",
            f"[pictures] lacks {names}. Name image files after the faces: {missing[0]}.jpg",
        )

    def get_category(self, pose: Pose) -> str:
        """Return the side that is up."""
        return self.get_hidden_category(pose) or self.face

    def get_hidden_category(self, pose: Pose) -> str | None:
        """Return ``back`` if the card lies face down."""
        return CARD_BACK if pose.rotation().apply((0.0, 0.0, 1.0))[2] <= 0 else None

    def get_keypoints(self) -> dict[str, Vec3]:
        """Return the centres of the sides."""
        return make_end_keypoints(self.size_m[2], ("back", "front"))

    def get_symmetries(self) -> symmetry.Symmetries:
        """Return the half-turn symmetry of some faces."""
        return symmetry.HALF_TURN if self.face in HALF_TURN_FACES else symmetry.NO_SYMMETRIES

    def make_prints(self) -> tuple[InkPrint, InkPrint]:
        """Return the prints of face and back."""
        aspect = self.size_m[1] / self.size_m[0]
        ink = _RED if self.face[-1] in "DH" else _BLACK
        face = InkPrint(_draw_face(self.face, aspect), ink)
        return face, InkPrint(_draw_back(aspect), self.back_color)

    def make_sides(self) -> tuple[Side, Side]:
        """Return images where there are any, and prints elsewhere."""
        front, back = self.make_prints()
        return self.face_image or front, self.back_image or back


@functools.lru_cache(maxsize=64)
def _draw_face(face: str, aspect: float) -> Floats:
    """Return the ink coverage (n, n) of a face."""
    rank, suit = face[:-1], face[-1]
    canvas = np.zeros(
        (round(Card.texture_px * _SUPERSAMPLING * aspect), Card.texture_px * _SUPERSAMPLING),
        np.uint8,
    )
    if rank in _PIP_POSITIONS:
        size = 2.2 * _PIP_HALF_HEIGHT if rank == "A" else _PIP_HALF_HEIGHT
        for x, y in _PIP_POSITIONS[rank]:
            _draw_pip(canvas, suit, (x, y * aspect), size, is_upside_down=y > 0.5)
    else:
        _draw_court(canvas, rank, suit, aspect)
    for _end in range(2):
        _draw_index(canvas, rank, suit)
        canvas = np.ascontiguousarray(canvas[::-1, ::-1])
    return downsample_coverage(canvas, Card.texture_px)


def _draw_court(canvas: NDArray[np.uint8], rank: str, suit: str, aspect: float) -> None:
    """Draw a frame with the rank between two pips."""
    low, high = (
        to_texel_position(canvas, (0.22, 0.14 * aspect)),
        to_texel_position(canvas, (0.78, 0.86 * aspect)),
    )
    cv2.rectangle(canvas, low, high, 255, to_texels(canvas, 0.012))
    draw_text(canvas, rank, (0.5, 0.5 * aspect), 0.3)
    _draw_pip(canvas, suit, (0.36, 0.27 * aspect), _PIP_HALF_HEIGHT, is_upside_down=False)
    _draw_pip(canvas, suit, (0.64, 0.73 * aspect), _PIP_HALF_HEIGHT, is_upside_down=True)


def _draw_index(canvas: NDArray[np.uint8], rank: str, suit: str) -> None:
    """Draw rank and suit in the upper left corner."""
    draw_text(canvas, rank, (0.11, 0.13), 0.11, max_width=0.16)  # a ten is wide
    _draw_pip(canvas, suit, (0.11, 0.27), 0.045, is_upside_down=False)


def _draw_pip(
    canvas: NDArray[np.uint8],
    suit: str,
    center: tuple[float, float],
    size: float,
    *,
    is_upside_down: bool,
) -> None:
    """Draw the symbol of a suit, about twice ``size`` high."""
    scale = -size if is_upside_down else size
    for outline in _make_suit_outlines(suit):
        points = (outline * scale + center) * canvas.shape[1]
        cv2.fillPoly(canvas, [np.round(points).astype(np.int32)], 255)


def _make_suit_outlines(suit: str) -> Iterator[Floats]:
    """Yield polygons (n, 2) of the symbol of a suit, within -1..1, y down."""
    foot = np.array([[0.0, 0.2], [0.35, 1.0], [-0.35, 1.0]])
    match suit:
        case "D":
            yield np.array([[0.0, -1.0], [0.72, 0.0], [0.0, 1.0], [-0.72, 0.0]])
        case "H":
            yield from _make_heart()
        case "S":
            for outline in _make_heart():
                yield outline * [1.0, -0.85] - [0.0, 0.15]
            yield foot
        case _:
            for x, y in ((0.0, -0.55), (-0.48, 0.2), (0.48, 0.2)):
                yield _make_disc(x, y, 0.43)
            yield foot


def _make_heart() -> Iterator[Floats]:
    yield _make_disc(-0.42, -0.45, 0.46)
    yield _make_disc(0.42, -0.45, 0.46)
    yield np.array([[-0.82, -0.23], [0.0, -0.5], [0.82, -0.23], [0.0, 1.0]])


def _make_disc(x: float, y: float, radius: float) -> Floats:
    angle = np.linspace(0, 2 * math.pi, 40, endpoint=False)
    return np.stack([x + radius * np.cos(angle), y + radius * np.sin(angle)], axis=1)


@functools.lru_cache(maxsize=4)
def _draw_back(aspect: float) -> Floats:
    """Return the ink coverage (n, n) of the back: a lattice in a frame."""
    n = Card.texture_px * _SUPERSAMPLING
    x, y = np.arange(n)[None] / n, np.arange(round(n * aspect))[:, None] / n
    lattice = (np.sin(24 * math.pi * (x + y)) > -0.3) & (np.sin(24 * math.pi * (x - y)) > -0.3)
    edge = np.minimum(np.minimum(x, 1 - x), np.minimum(y, aspect - y))
    frame = edge < 1.3 * _MARGIN
    return downsample_coverage(
        np.where(edge < _MARGIN, 0, 255 * (lattice | frame)).astype(np.uint8), Card.texture_px
    )
