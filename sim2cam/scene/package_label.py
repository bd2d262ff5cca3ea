"""Print of tins, cartons and sheets of paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from sim2cam.errors import SpecError
from sim2cam.scene.image_facts import TextureImageInfo
from sim2cam.scene.image_file import ImageFile
from sim2cam.scene.material import Color, hsv_to_linear
from sim2cam.scene.parameters import (
    MAX_TEXT_LENGTH,
    Fraction,
    NameOf,
    Seed,
    check_ranges,
    is_printable_text,
)


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
    seed: Seed
    background_color: Color
    text_color: Color
    pattern_color: Color
    image: ImageFile | None = None

    def __post_init__(self) -> None:
        if not is_printable_text(self.text):
            raise SpecError(
                f"the text {self.text[:80]!r} of a label is invalid. Allowed: up to {MAX_TEXT_LENGTH} printable ASCII characters."
            )
        try:
            check_ranges(self, "a label")
        except ValueError as error:
            raise SpecError(f"{error}.") from error


@dataclass(frozen=True)
class PackageLabelFactors:
    """Print on one tin, carton or sheet; see ``PackageLabel``.

    Attributes:
        seed: Seed of patterns, bar code and small print.
        ground_hue, ground_saturation, ground_value: Colour of the ground.
        letter_hue, letter_saturation, letter_value: Colour of the letters.
        pattern_hue, pattern_saturation, pattern_value: Colour of the pattern.
        picture: Name of an image in the recipe's ``[pictures]``, or ``none``.
    """

    seed: Seed
    ground_hue: float
    ground_saturation: Fraction
    ground_value: Fraction
    letter_hue: float
    letter_saturation: Fraction
    letter_value: Fraction
    pattern_hue: float
    pattern_saturation: Fraction
    pattern_value: Fraction
    picture: Annotated[str, NameOf("texture_image")] | None = None

    def to_label(self, text: str, images: Mapping[str, TextureImageInfo]) -> PackageLabel:
        """Return the print with a text and, if one is named, an image of the recipe."""
        info = images.get(self.picture or "")
        return PackageLabel(
            text,
            self.seed,
            hsv_to_linear(self.ground_hue, self.ground_saturation, self.ground_value),
            hsv_to_linear(self.letter_hue, self.letter_saturation, self.letter_value),
            hsv_to_linear(self.pattern_hue, self.pattern_saturation, self.pattern_value),
            None if info is None else info.file,
        )
