"""Decals: stickers and printed lines on the sides of bodies."""

from __future__ import annotations

from dataclasses import dataclass

from sim2cam.errors import SpecError
from sim2cam.scene.image_file import ImageFile
from sim2cam.scene.material import Color
from sim2cam.scene.parameters import (
    MAX_TEXT_LENGTH,
    Fraction,
    Seed,
    check_ranges,
    check_sizes,
    is_printable_text,
)


@dataclass(frozen=True)
class Decal:
    """A sticker or printed line on one side of a body.

    Features that define a body's label (pips of dice, board patterns, card faces) stay on top of it.

    Attributes:
        side: Index of the side, from 0, below ``Shape.side_count``: the faces of a die from 1 to 6; front and back
            of a plate; the wall of a tin; -x, +x, -y, ... of a carton; the top of a box; and, for a table, the
            central square with half the width of its texture (48 cm, unless that is a photo), with mirror images
            beyond.
        x, y: Position on the side seen from outside: 0 at the left or upper edge, 1 at the right or lower one.
        width_m: Width; reduced if it does not fit on the side.
        angle_rad: Rotation, clockwise.
        wear: Amount that has peeled off from the edges, 0 to 1.
        seed: Seed of the wear.
        text: Printable ASCII text.
        text_color: Linear RGB of the text.
        background_color: Linear RGB of the paper; None for text alone.
        image: Image instead of text and paper; transparent pixels show the body.
    """

    side: int
    x: Fraction
    y: Fraction
    width_m: float
    angle_rad: float
    wear: Fraction
    seed: Seed
    text: str
    text_color: Color
    background_color: Color | None = None
    image: ImageFile | None = None

    def __post_init__(self) -> None:
        check_sizes(self, "width_m")
        if not is_printable_text(self.text):
            raise SpecError(
                f"the text {self.text[:80]!r} of a decal is invalid. Allowed: up to {MAX_TEXT_LENGTH} printable ASCII characters."
            )
        try:
            check_ranges(self, "a decal")
        except ValueError as error:
            raise SpecError(f"{error}.") from error
