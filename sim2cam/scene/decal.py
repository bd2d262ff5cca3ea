"""Decals: stickers and printed lines on the sides of bodies."""

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
"""Number of sides with separate texture regions, by ``kind`` of asset. Sides are: the faces of a die from 1 to 6;
front and back of a plate; the wall of a tin; -x, +x, -y, ... of a carton; the top of a box; and, for a table, the
central square with half the width of its texture (48 cm, unless that is a photo), with mirror images beyond.
"""


@dataclass(frozen=True)
class Decal:
    """A sticker or printed line on one side of a body.

    Features that define a body's label (pips of dice, board patterns, card faces) stay on top of it.

    Attributes:
        side: Index of the side, from 0; see ``SIDE_COUNTS``.
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
                f"the text {self.text[:80]!r} of a decal is invalid. Allowed: up to {MAX_TEXT_LENGTH} printable ASCII characters."
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
