"""Metadata of users' images of surfaces and environments."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sim2cam.errors import SpecError
from sim2cam.scene.image_file import ImageFile
from sim2cam.scene.light import Lamp
from sim2cam.scene.material import Color

NO_IMAGE = "none"
"""Sampled image name that stands for no image."""


@dataclass(frozen=True)
class ImageMetadata:
    """Metadata from the optional TOML file next to an image; all entries are optional.

    Attributes:
        licence: SPDX identifier of the file's licence.
        width_m: Width of the depicted surface; for images of surfaces.
        credit: Author and source of the file.
    """

    licence: str = ""
    width_m: float | None = None
    credit: str | None = None

    def __post_init__(self) -> None:
        if self.width_m is not None and not 0 < self.width_m < math.inf:
            raise SpecError(f"width_m must be above 0, not {self.width_m}")


@dataclass(frozen=True)
class EnvironmentMapInfo:
    """An environment map.

    Attributes:
        name: File name within the folder of environment maps.
        file: Path and digest.
        radiance: Radiance of a uniform sky with the same irradiance on a horizontal surface, mean over colours.
        sun: Brightest spot as a lamp, if it is bright enough to cast a shadow.
        licence: Licence of the file; empty if unknown.
        credit: Author and source of the file; None if unknown.
    """

    name: str
    file: ImageFile
    radiance: float
    sun: Lamp | None = None
    licence: str = ""
    credit: str | None = None


@dataclass(frozen=True)
class TextureImageInfo:
    """An image of a surface.

    Attributes:
        name: File name within the folder of images.
        file: Path and digest.
        color: Mean colour, linear RGB.
        width_m: Width of the depicted surface; None if unknown.
        licence: Licence of the file; empty if unknown.
        credit: Author and source of the file; None if unknown.
    """

    name: str
    file: ImageFile
    color: Color
    width_m: float | None = None
    licence: str = ""
    credit: str | None = None
