"""What is known of a user's picture besides its pixels, as recipes draw from it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sim2cam.errors import SpecError
from sim2cam.scene.image_file import ImageFile
from sim2cam.scene.light import Lamp
from sim2cam.scene.material import Color

NO_IMAGE = "none"
"""What is drawn in place of a picture's name for none."""


@dataclass(frozen=True)
class ImageMetadata:
    """What people write about a picture, in the TOML file beside it; all of it may be left out.

    Attributes:
        licence: of the file, as SPDX names it.
        width_m: how wide what it shows is; of pictures of surfaces.
    """

    licence: str = ""
    width_m: float | None = None

    def __post_init__(self) -> None:
        if self.width_m is not None and not 0 < self.width_m < math.inf:
            raise SpecError(f"width_m has to be above 0, not {self.width_m}")


@dataclass(frozen=True)
class EnvironmentMapInfo:
    """A picture of light from all around.

    Attributes:
        name: of its file, within the folder of skies.
        file: where it is, and what it holds.
        radiance: of the even sky that would shed as much light on a level table, mean of the colours.
        sun: its brightest spot, if that alone sheds enough to cast a shadow.
        licence: of the file; empty when nobody said.
    """

    name: str
    file: ImageFile
    radiance: float
    sun: Lamp | None = None
    licence: str = ""


@dataclass(frozen=True)
class TextureImageInfo:
    """A picture of a surface.

    Attributes:
        name: of its file, within the folder of pictures.
        file: where it is, and what it holds.
        color: its mean, linear RGB.
        width_m: how wide what it shows is; None when nobody said.
        licence: of the file; empty when nobody said.
    """

    name: str
    file: ImageFile
    color: Color
    width_m: float | None = None
    licence: str = ""
