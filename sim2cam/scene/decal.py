"""Decals: stickers, and lines of print, on the sides of bodies."""

from __future__ import annotations

from dataclasses import dataclass

from sim2cam.errors import SpecError
from sim2cam.scene.bounds import FRACTION_RANGE, SEED_RANGE, check_bounds, check_sizes
from sim2cam.scene.image_file import ImageFile
from sim2cam.scene.material import Color
from sim2cam.scene.packages import MAX_TEXT_LENGTH, is_printable_text

SIDE_COUNTS: dict[str, int] = {
    "die": 6, "board": 2, "card": 2, "sheet": 2, "tin": 1, "carton": 6, "box": 1, "ground": 1,
}  # fmt: skip
"""How many sides have places of their own in a picture, by the ``kind`` of asset: those of a die from
1 to 6, front and back of a plate, what is around a tin, -x, +x, -y, ... of a carton, the top of a box, of a table the square in its middle
that is half as wide as its picture: 48 cm, where that is no photo. Mirror images lie beyond."""


@dataclass(frozen=True)
class Decal:
    """A sticker, or a line of print, on one side of a body.

    What a body's label is read from, the pips of dice, the patterns of boards, the faces of cards, stays
    on top of it.

    Attributes:
        side: which side, from 0; see ``SIDE_COUNTS``.
        x, y: where, as the side is seen from outside: 0 where it touches the left or upper edge, 1
            where it touches the right or lower one.
        width_m: of it; what does not fit on the side is smaller.
        angle_rad: how far it is turned, clockwise.
        wear: how far it has come off from its edges, 0 to 1.
        seed: where it has.
        text: what it says; only what OpenCV's fonts have, ASCII.
        text_color: linear RGB of what it says.
        background_color: of the paper behind; None for letters alone.
        image: takes the place of text and ground; where it is transparent, the body shows.
    """

    side: int
    x: float
    y: float
    width_m: float
    angle_rad: float
    wear: float
    seed: int
    text: str
    text_color: Color
    background_color: Color | None = None
    image: ImageFile | None = None

    def __post_init__(self) -> None:
        check_sizes(self, "width_m")
        if not is_printable_text(self.text):
            raise SpecError(
                f"a decal cannot say {self.text[:80]!r}. It takes up to {MAX_TEXT_LENGTH} letters of ASCII."
            )
        try:
            check_bounds(
                self,
                "a decal",
                {
                    "x": FRACTION_RANGE,
                    "y": FRACTION_RANGE,
                    "wear": FRACTION_RANGE,
                    "seed": SEED_RANGE,
                },
            )
        except ValueError as error:
            raise SpecError(f"{error}.") from error
