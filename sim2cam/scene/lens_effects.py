"""Lens effects besides projection; they do not move labels.

Each effect is optional. Lengths without a unit are fractions of the image width, so they do not depend on the
resolution.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from sim2cam.scene.parameters import Between, Fraction, Seed, check_ranges


@dataclass(frozen=True)
class Defocus:
    """Defocus of a thin lens.

    A point at depth d is blurred to a disk of A F |1/s - 1/d| pixels, for aperture A, focus distance s and focal length
    F in pixels. On the sensor this is A f |d - s| / (d (s - f)) for the lens's focal length f, because F is f s / (s - f).

    Attributes:
        aperture_m: Diameter of the entrance pupil: focal length over f-number.
        focus_m: Depth in focus, from the centre of projection.
    """

    aperture_m: Annotated[float, Between(0, 0.1)]
    focus_m: Annotated[float, Between(0.0001, 1e6)]

    def __post_init__(self) -> None:
        check_ranges(self, "defocus")


@dataclass(frozen=True)
class LateralColor:
    """Lateral chromatic aberration; the green channel and the labels do not move.

    Attributes:
        red, blue: Relative scale change of the red and blue channels about the principal point; 0.001 is one
            pixel at a distance of a thousand pixels.
    """

    red: Annotated[float, Between(-0.05, 0.05)] = 0.0
    blue: Annotated[float, Between(-0.05, 0.05)] = 0.0

    def __post_init__(self) -> None:
        check_ranges(self, "lateral_color")


@dataclass(frozen=True)
class Falloff:
    """Vignetting of a lens: light over that in the centre, 1 + k1 r^2 + k2 r^4 + k3 r^6.

    r is the distance from the image centre, 1 in the corners. It is the ``pa`` model of Hugin and Lensfun.

    Attributes:
        k1, k2, k3: Coefficients.
    """

    k1: Annotated[float, Between(-10, 10)]
    k2: Annotated[float, Between(-10, 10)] = 0.0
    k3: Annotated[float, Between(-10, 10)] = 0.0

    def __post_init__(self) -> None:
        check_ranges(self, "falloff")


@dataclass(frozen=True)
class FieldBlur:
    """Blur that grows with the distance from the image centre, from 0.

    Attributes:
        corner_px: Standard deviation in the corners, pixels.
    """

    corner_px: Annotated[float, Between(0, 20)] = 0.0

    def __post_init__(self) -> None:
        check_ranges(self, "field_blur")


@dataclass(frozen=True)
class Glare:
    """Stray light between lens surfaces; the total light is preserved.

    Attributes:
        veil: Fraction of light spread evenly over the image.
        bloom: Fraction of light spread around its source.
        bloom_radius: Standard deviation of the narrowest of three averaged Gaussians, over the image width; the
            others are two and four times as wide.
        ghost: Fraction of light in a ghost image, inverted about the principal point.
        ghost_scale: Scale of the ghost image.
    """

    veil: Fraction = 0.0
    bloom: Fraction = 0.0
    bloom_radius: Annotated[float, Between(0.001, 0.2)] = 0.02
    ghost: Fraction = 0.0
    ghost_scale: Annotated[float, Between(0.1, 3)] = 0.6

    def __post_init__(self) -> None:
        check_ranges(self, "glare")
        if self.veil + self.bloom + self.ghost > 1:
            raise ValueError(
                "glare: the sum of veil, bloom and ghost must be at most 1, not "
                f"{self.veil + self.bloom + self.ghost:g}"
            )


@dataclass(frozen=True)
class Dirt:
    """Smears on the front lens, far out of focus.

    Attributes:
        coverage: Fraction of the image covered.
        loss: Fraction of light lost at the thickest smears; half of it is scattered over the image.
        size: Size of a smear over the image width.
        seed: Seed of the smears.
    """

    coverage: Fraction
    loss: Fraction
    size: Annotated[float, Between(0.005, 0.5)] = 0.08
    seed: Seed = 0

    def __post_init__(self) -> None:
        check_ranges(self, "dirt")


@dataclass(frozen=True)
class Droplets:
    """Drops on the front lens that show their surroundings upside down; labels ignore them.

    Attributes:
        count: Number of drops.
        radius: Radius of the largest drop over the image width; the smallest is half as large.
        seed: Seed of their positions.
    """

    count: Annotated[int, Between(0, 200)]
    radius: Annotated[float, Between(0.002, 0.2)]
    seed: Seed = 0

    def __post_init__(self) -> None:
        check_ranges(self, "droplets")


@dataclass(frozen=True)
class LensEffects:
    """All lens effects; None disables an effect."""

    defocus: Defocus | None = None
    lateral_color: LateralColor | None = None
    field_blur: FieldBlur | None = None
    glare: Glare | None = None
    dirt: Dirt | None = None
    droplets: Droplets | None = None
    falloff: Falloff | None = None
