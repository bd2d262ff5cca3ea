"""Printed things: tins and cartons with labels, sheets of paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sim2cam.errors import SpecError
from sim2cam.geometry.poses import Vec3
from sim2cam.scene.bounds import SEED, check_sizes
from sim2cam.scene.image_file import PictureFile
from sim2cam.scene.material import Color

MOST_LETTERS = 40
"""Of what is printed in large letters."""

_LEAST_RATIO, _MOST_RATIO = 0.1, 10.0  # of a tin's height to its width


def can_say(text: str) -> bool:
    """Returns whether a label can say a text: one short line of what OpenCV's fonts have."""
    return text.isascii() and (not text or text.isprintable()) and len(text) <= MOST_LETTERS


@dataclass(frozen=True)
class Label:
    """What is printed on a package: a name, a pattern, small print and a bar code.

    Attributes:
        text: the name; only what OpenCV's fonts have, ASCII.
        seed: which pattern, which small print, which number in the bar code.
        ground: linear RGB of the paper.
        letters: of what is written.
        pattern: of bands, stripes or discs around it.
        picture: takes the place of name and pattern on fronts, stretched to fit; of a sheet, of what
            is written on its front.
    """

    text: str
    seed: int
    ground: Color
    letters: Color
    pattern: Color
    picture: PictureFile | None = None

    def __post_init__(self) -> None:
        if not can_say(self.text):
            raise SpecError(
                f"a label cannot say {self.text[:80]!r}. It takes up to {MOST_LETTERS} letters of ASCII."
            )
        if not SEED[0] <= self.seed <= SEED[1]:
            raise SpecError(f"seed of a label is {self.seed}. Allowed: {SEED[0]} to {SEED[1]}.")


@dataclass(frozen=True)
class Tin:
    """A tin along z, centred on the origin: a label around it, bare ends within a rim.

    Attributes:
        radius_m, height_m: of the whole.
        label: goes around it, its front twice.
        category: what it is labelled as.
    """

    radius_m: float
    height_m: float
    label: Label
    category: str
    kind: Literal["tin"] = "tin"

    def __post_init__(self) -> None:
        check_sizes(self, "radius_m", "height_m")
        ratio = self.height_m / (2 * self.radius_m)
        if not _LEAST_RATIO <= ratio <= _MOST_RATIO:
            raise SpecError(
                f"a tin is {ratio:.3g} times as high as wide. Allowed: {_LEAST_RATIO:g} to "
                f"{_MOST_RATIO:g} times."
            )


@dataclass(frozen=True)
class Carton:
    """A printed box, centred on the origin: front towards -y, top towards +z.

    Attributes:
        size_m: sides along the axes.
        label: front and back, with the name alone above and below, small print at its sides.
        category: what it is labelled as.
    """

    size_m: Vec3
    label: Label
    category: str
    kind: Literal["carton"] = "carton"

    def __post_init__(self) -> None:
        check_sizes(self, "size_m")


@dataclass(frozen=True)
class Sheet:
    """A sheet of paper that is written on both sides, centred on the origin, top towards +y.

    Attributes:
        size_m: width, height, thickness.
        label: its heading, and what its small print follows from.
    """

    size_m: Vec3
    label: Label
    kind: Literal["sheet"] = "sheet"

    def __post_init__(self) -> None:
        check_sizes(self, "size_m")
