"""Printed objects: tins, cartons and sheets of paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sim2cam.errors import SpecError
from sim2cam.geometry.poses import Vec3
from sim2cam.scene.bounds import SEED_RANGE, check_sizes
from sim2cam.scene.image_file import ImageFile
from sim2cam.scene.material import Color

MAX_TEXT_LENGTH = 40
"""Longest text in large print."""

_MIN_ASPECT, _MAX_ASPECT = 0.1, 10.0  # height to width of a tin


def is_printable_text(text: str) -> bool:
    """Return whether a text is printable on a label: one short line of ASCII, which OpenCV's fonts cover."""
    return text.isascii() and (not text or text.isprintable()) and len(text) <= MAX_TEXT_LENGTH


@dataclass(frozen=True)
class PackageLabel:
    """Print of a package: a name, a pattern, small print and a bar code.

    Attributes:
        text: The name, printable ASCII.
        seed: Seed of pattern, small print and bar code.
        background_color: Linear RGB of the paper.
        text_color: Linear RGB of the text.
        pattern_color: Linear RGB of bands, stripes or discs.
        image: Image instead of name and pattern on fronts, stretched to fit; on a sheet, instead of the text of
            its front.
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
                f"the text {self.text[:80]!r} of a label is invalid. Allowed: up to {MAX_TEXT_LENGTH} printable ASCII characters."
            )
        if not SEED_RANGE[0] <= self.seed <= SEED_RANGE[1]:
            raise SpecError(
                f"seed of a label is {self.seed}. Allowed: {SEED_RANGE[0]} to {SEED_RANGE[1]}."
            )


@dataclass(frozen=True)
class Tin:
    """A tin along z, centred on the origin, with a label around it and bare rimmed ends.

    Attributes:
        radius_m, height_m: Outer size.
        label: Print around it, with the front twice.
        category: Category of the label.
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
    """A printed box, centred on the origin, with its front at -y and its top at +z.

    Attributes:
        size_m: Sides along the axes.
        label: Print of front and back; the name above and below, small print on the sides.
        category: Category of the label.
    """

    size_m: Vec3
    label: PackageLabel
    category: str
    kind: Literal["carton"] = "carton"

    def __post_init__(self) -> None:
        check_sizes(self, "size_m")


@dataclass(frozen=True)
class Sheet:
    """A sheet of paper with text on both sides, centred on the origin, top at +y.

    Attributes:
        size_m: Width, height, thickness.
        label: Heading, and seed of the small print.
    """

    size_m: Vec3
    label: PackageLabel
    kind: Literal["sheet"] = "sheet"

    def __post_init__(self) -> None:
        check_sizes(self, "size_m")
