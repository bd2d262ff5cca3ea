"""Glass: what a camera's lens does to light besides bending it. Labels stay where they are.

Each part is left out or has its own numbers; lengths without a unit are shares of the picture's
width, so that they mean the same in small and large pictures.
"""

from __future__ import annotations

from dataclasses import dataclass

from sim2cam.scene.bounds import FRACTION_RANGE, SEED_RANGE, Bounds, check_bounds

LENS_EFFECT_BOUNDS: dict[str, Bounds] = {
    "defocus": {"aperture_m": (0, 0.1), "focus_m": (1e-4, 1e6)},
    "lateral_color": {"red": (-0.05, 0.05), "blue": (-0.05, 0.05)},
    "field_blur": {"corner_px": (0, 20)},
    "glare": {
        "veil": FRACTION_RANGE,
        "bloom": FRACTION_RANGE,
        "bloom_radius": (0.001, 0.2),
        "ghost": FRACTION_RANGE,
        "ghost_scale": (0.1, 3),
    },
    "dirt": {
        "coverage": FRACTION_RANGE,
        "loss": FRACTION_RANGE,
        "size": (0.005, 0.5),
        "seed": SEED_RANGE,
    },
    "droplets": {"count": (0, 200), "radius": (0.002, 0.2), "seed": SEED_RANGE},
}
"""What the numbers of each part may be."""


@dataclass(frozen=True)
class Defocus:
    """A thin lens, in focus at one distance.

    A point at depth d leaves a disk of A F |1/s - 1/d| pixels across, for the aperture A, the focus
    s and the focal length F in pixels, at which the picture is projected. That is A f |d - s| /
    (d (s - f)) on the sensor, for the lens's own focal length f, as F is f s / (s - f) there.

    Attributes:
        aperture_m: diameter of the entrance pupil, the focal length over the f-number.
        focus_m: depth that is sharp, from the centre of projection.
    """

    aperture_m: float
    focus_m: float

    def __post_init__(self) -> None:
        check_bounds(self, "defocus", LENS_EFFECT_BOUNDS["defocus"])


@dataclass(frozen=True)
class LateralColor:
    """Lateral chromatic aberration; the picture in green, and with it every label, stays.

    Attributes:
        red, blue: by which share the pictures in red and in blue are larger, about the principal
            point; 0.001 is a pixel at a thousand pixels from there.
    """

    red: float = 0.0
    blue: float = 0.0

    def __post_init__(self) -> None:
        check_bounds(self, "lateral_color", LENS_EFFECT_BOUNDS["lateral_color"])


@dataclass(frozen=True)
class FieldBlur:
    """A point spread that grows with the distance from the middle, where it is a point.

    Attributes:
        corner_px: its standard deviation in the corners, pixels.
    """

    corner_px: float = 0.0

    def __post_init__(self) -> None:
        check_bounds(self, "field_blur", LENS_EFFECT_BOUNDS["field_blur"])


@dataclass(frozen=True)
class Glare:
    """Light that goes astray between the surfaces of the lens; none is lost.

    Attributes:
        veil: share that is spread evenly over the picture.
        bloom: share that is spread around where it belongs.
        bloom_radius: standard deviation of the narrowest of the three normal laws whose mean that
            is; the others are two and four times as wide.
        ghost: share that comes back upside down on the other side of the principal point.
        ghost_scale: size of that picture.
    """

    veil: float = 0.0
    bloom: float = 0.0
    bloom_radius: float = 0.02
    ghost: float = 0.0
    ghost_scale: float = 0.6

    def __post_init__(self) -> None:
        check_bounds(self, "glare", LENS_EFFECT_BOUNDS["glare"])
        if self.veil + self.bloom + self.ghost > 1:
            raise ValueError(
                "glare: veil, bloom and ghost are shares of the same light, together at most 1, not "
                f"{self.veil + self.bloom + self.ghost:g}"
            )


@dataclass(frozen=True)
class Dirt:
    """Smears on the front of the lens, far out of focus.

    Attributes:
        coverage: share of the picture that they lie before.
        loss: share of the light that the thickest take; half of it is scattered over the picture.
        size: of a smear.
        seed: which smears.
    """

    coverage: float
    loss: float
    size: float = 0.08
    seed: int = 0

    def __post_init__(self) -> None:
        check_bounds(self, "dirt", LENS_EFFECT_BOUNDS["dirt"])


@dataclass(frozen=True)
class Droplets:
    """Drops on the front of the lens, each a small lens that shows its surroundings upside down.

    Labels are those of what stands behind.

    Attributes:
        count: of them.
        radius: of the largest; the smallest is half as large.
        seed: where they are.
    """

    count: int
    radius: float
    seed: int = 0

    def __post_init__(self) -> None:
        check_bounds(self, "droplets", LENS_EFFECT_BOUNDS["droplets"])


@dataclass(frozen=True)
class LensEffects:
    """Everything of the lens but its projection; a part that is None does nothing."""

    defocus: Defocus | None = None
    lateral_color: LateralColor | None = None
    field_blur: FieldBlur | None = None
    glare: Glare | None = None
    dirt: Dirt | None = None
    droplets: Droplets | None = None
