"""Printed things: tins and cartons with labels, sheets of paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sim2cam.errors import SpecError
from sim2cam.geometry.poses import Vec3
from sim2cam.scene.bounds import SEED_RANGE, check_sizes
from sim2cam.scene.image_file import ImageFile
from sim2cam.scene.material import Color

MAX_TEXT_LENGTH = 40
"""Of what is printed in large letters."""

_MIN_ASPECT, _MAX_ASPECT = 0.1, 10.0  # of a tin's height to its width


def is_printable_text(text: str) -> bool:
    """Return whether a label can say a text: one short line of what OpenCV's fonts have."""
    return text.isascii() and (not text or text.isprintable()) and len(text) <= MAX_TEXT_LENGTH


@dataclass(frozen=True)
class PackageLabel:
    """What is printed on a package: a name, a pattern, small print and a bar code.

    Attributes:
        text: the name; only what OpenCV's fonts have, ASCII.
        seed: which pattern, which small print, which number in the bar code.
        background_color: linear RGB of the paper.
        text_color: of what is written.
        pattern_color: of bands, stripes or discs around it.
        image: takes the place of name and pattern on fronts, stretched to fit; of a sheet, of what
            is written on its front.
    """

    text: str
    seed: int
    background_color: Color
    text_color: Color
    pattern_color: Color
    image: ImageFile | None = None

    def __post_init__(self) -> None:
        if not is_printable_text(self.text):
            raise SpecError(
                f"a label cannot say {self.text[:80]!r}. It takes up to {MAX_TEXT_LENGTH} letters of ASCII."
            )
        if not SEED_RANGE[0] <= self.seed <= SEED_RANGE[1]:
            raise SpecError(
                f"seed of a label is {self.seed}. Allowed: {SEED_RANGE[0]} to {SEED_RANGE[1]}."
            )


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
    label: PackageLabel
    category: str
    kind: Literal["tin"] = "tin"

    def __post_init__(self) -> None:
        check_sizes(self, "radius_m", "height_m")
        ratio = self.height_m / (2 * self.radius_m)
        if not _MIN_ASPECT <= ratio <= _MAX_ASPECT:
            raise SpecError(
                f"a tin is {ratio:.3g} times as high as wide. Allowed: {_MIN_ASPECT:g} to "
                f"{_MAX_ASPECT:g} times."
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
    label: PackageLabel
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
    label: PackageLabel
    kind: Literal["sheet"] = "sheet"

    def __post_init__(self) -> None:
        check_sizes(self, "size_m")
