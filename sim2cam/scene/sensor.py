"""Sensors: from the light that falls on them to the bytes of a file, in numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from sim2cam.scene.bounds import FRACTION_RANGE, SEED_RANGE, Bounds, check_bounds

BayerPattern = Literal["RGGB", "BGGR", "GRBG", "GBRG"]
Demosaic = Literal["bilinear", "edge_aware"]
Subsampling = Literal["444", "422", "420"]
FileFormat = Literal["jpeg", "png"]

SENSOR_BOUNDS: dict[str, Bounds] = {
    "mosaic": {
        "bits": (8, 16),
        "black_share": (0, 0.5),
        "crosstalk": (0, 0.3),
        "prnu": (0, 0.5),
        "dsnu_e": (0, 1e6),
        "row_noise_e": (0, 1e6),
        "dark_e": (0, 1e6),
        "hot_share": FRACTION_RANGE,
        "hot_e": (0, 1e9),
        "pattern_seed": SEED_RANGE,
    },
    "processing": {
        "shading_correction": FRACTION_RANGE,
        "color_correction": FRACTION_RANGE,
        "local_tone": FRACTION_RANGE,
        "chroma_blur_px": (0, 20),
    },
    "automatics": {
        "exposure_lag_s": (0, 60),
        "white_balance": FRACTION_RANGE,
        "white_lag_s": (0, 60),
        "fixed_gain": (1e-9, 1e9),
    },
}
"""What the numbers of each part may be."""


@dataclass(frozen=True)
class Mosaic:
    """A sensor that counts one colour in each pixel, and what it adds (EMVA 1288, release 3.1).

    Electrons at saturation, responses, read noise and the seed of what changes from picture to picture
    are those of the ``Sensor``.

    Attributes:
        pattern: filters of the first two pixels of the first row, then of the second.
        bits: of a pixel.
        black_share: number that darkness gives, over the largest.
        crosstalk: share of each of the two other colours that a filter passes.
        prnu: relative standard deviation of the pixels' gains.
        dsnu_e: standard deviation of what pixels add in darkness, electrons.
        row_noise_e: standard deviation of what rows add, other in each picture.
        dark_e: mean number of electrons that warmth sets free during an exposure, with shot noise.
        hot_share: of pixels that add much more.
        hot_e: mean of what those add, by an exponential law.
        pattern_seed: which pixels differ, in every picture of the camera alike.
    """

    pattern: BayerPattern
    bits: int = 12
    black_share: float = 1 / 16
    crosstalk: float = 0.0
    prnu: float = 0.0
    dsnu_e: float = 0.0
    row_noise_e: float = 0.0
    dark_e: float = 0.0
    hot_share: float = 0.0
    hot_e: float = 0.0
    pattern_seed: int = 0

    def __post_init__(self) -> None:
        check_bounds(self, "mosaic", SENSOR_BOUNDS["mosaic"])

    def white_level(self) -> int:
        """Return the largest number of a pixel."""
        return int(2**self.bits - 1)

    def black_level(self) -> int:
        """Return the number of a pixel that darkness gives."""
        return round(self.black_share * self.white_level())


@dataclass(frozen=True)
class Processing:
    """What the camera's processor does besides what the ``Sensor`` says.

    Attributes:
        demosaic: how it guesses the two colours that a pixel of a mosaic did not count.
        shading_correction: share of the vignetting that it undoes.
        color_correction: share of the crosstalk that its colour matrix undoes.
        local_tone: share of the contrast between large parts of the picture that it takes out, as
            phones do; what is within a part stays.
        chroma_blur_px: standard deviation of the blur by which it hides colour noise, pixels.
        jpeg_subsampling: how much coarser colour is stored: not at all, half as fine across, or
            both ways.
    """

    demosaic: Demosaic = "edge_aware"
    shading_correction: float = 0.0
    color_correction: float = 1.0
    local_tone: float = 0.0
    chroma_blur_px: float = 0.0
    jpeg_subsampling: Subsampling = "420"

    def __post_init__(self) -> None:
        check_bounds(self, "processing", SENSOR_BOUNDS["processing"])


@dataclass(frozen=True)
class Automatics:
    """How the camera follows the light; without them it meters every picture anew.

    Attributes:
        exposure_lag_s: time in which the exposure goes 63 % of the way to where the meter wants it;
            the first picture of a film is exposed as the meter wants it.
        white_balance: share of the light's colour that it takes out, judged by the picture's
            mean of the sixth power (Finlayson and Trezzi 2004, "Shades of gray and colour
            constancy").
        white_lag_s: time in which that goes 63 % of its way.
        fixed_gain: level at the sensor, in its saturation, over radiance, in every picture alike, as of
            a camera whose exposure is set by hand; None for what the meter wants.
    """

    exposure_lag_s: float = 0.0
    white_balance: float = 0.0
    white_lag_s: float = 0.0
    fixed_gain: float | None = None

    def __post_init__(self) -> None:
        check_bounds(self, "automatics", SENSOR_BOUNDS["automatics"])


@dataclass(frozen=True)
class Sensor:
    """From linear radiance to the bytes of a picture's file.

    Attributes:
        exposure_ev: stops over the exposure that the camera's automatics choose.
        red_gain, blue_gain: error of the white balance, over green. Balanced is what was counted and
            clipped, and white is not clipped anew: below 1 they colour saturated light.
        vignetting: light lost at the corner, 0 to 1 (on the mean of the image it is compensated).
        blur_px: standard deviation of the point spread, pixels.
        full_well_e: electrons at saturation; fewer is noisier.
        read_noise_e: standard deviation of the read noise, electrons.
        denoise: strength of the camera's own noise filter, 0 to 1.
        tone_contrast: exponent of the tone curve around middle grey; 1 is sRGB up to the shoulder, and
            below 1 saturated light is grey.
        saturation: colour strength; 1 leaves it.
        sharpening: weight of the unsharp mask, 0 none.
        jpeg_quality: 1 to 100, of a JPEG.
        noise_seed: which noise; earlier pictures of a film have seeds that follow from it.
        mosaic: what it counts; None for one that counts all three colours in every pixel.
        processing: what else is done to the picture; None for nothing.
        automatics: how it follows the light; None for a meter without lag and no white balance.
        red_response, blue_response: electrons that white light sets free in red and in blue, over
            those in green, at most 1; fewer are noisier once white is white.
        tone_shoulder: linear level above which the tone curve bends towards white, 0 to 1; saturated
            light is no full white then. 1 leaves the bend out, so that contrast 1 is plain sRGB.
        file_format: ``png`` keeps every level as it is, in larger files.
    """

    exposure_ev: float
    red_gain: float
    blue_gain: float
    vignetting: float
    blur_px: float
    full_well_e: float
    read_noise_e: float
    denoise: float
    tone_contrast: float
    saturation: float
    sharpening: float
    jpeg_quality: int
    noise_seed: int
    mosaic: Mosaic | None = None
    processing: Processing | None = None
    automatics: Automatics | None = None
    red_response: float = 1.0
    blue_response: float = 1.0
    tone_shoulder: float = 0.8
    file_format: FileFormat = "jpeg"

    def __post_init__(self) -> None:
        if self.mosaic is not None and not math.isfinite(self.full_well_e):
            raise ValueError(
                f"sensor: a mosaic counts electrons, so full_well_e must be finite, not "
                f"{self.full_well_e:g}. Give it 1e9 for a picture without noise."
            )
