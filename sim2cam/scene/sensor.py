"""Sensor parameters, from incident light to the encoded image file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from sim2cam.scene.parameters import Between, Fraction, Positive, Seed, check_ranges

BayerPattern = Literal["RGGB", "BGGR", "GRBG", "GBRG"]
Demosaic = Literal["bilinear", "edge_aware"]
Subsampling = Literal["444", "422", "420"]
FileFormat = Literal["jpeg", "png"]


@dataclass(frozen=True)
class Mosaic:
    """A sensor with a colour filter array and its noise (EMVA 1288, release 3.1).

    Saturation, responses, read noise and the noise seed are those of the ``Sensor``.

    Attributes:
        pattern: Colours of the 2x2 filter pattern, row by row.
        bits: Bits per pixel.
        black_share: Black level over the largest value.
        crosstalk: Fraction of each of the other two colours that a filter passes.
        prnu: Relative standard deviation of pixel gains.
        dsnu_e: Standard deviation of pixel offsets in darkness, electrons.
        row_noise_e: Standard deviation of row offsets, different in each image.
        dark_e: Mean dark signal per exposure in electrons, with shot noise.
        hot_share: Fraction of hot pixels.
        hot_e: Mean of the exponentially distributed offsets of hot pixels.
        pattern_seed: Seed of the fixed pattern, equal in all images of the camera.
    """

    pattern: BayerPattern
    bits: Annotated[int, Between(8, 16)] = 12
    black_share: Annotated[float, Between(0, 0.5)] = 1 / 16
    crosstalk: Annotated[float, Between(0, 0.3)] = 0.0
    prnu: Annotated[float, Between(0, 0.5)] = 0.0
    dsnu_e: Annotated[float, Between(0, 1e6)] = 0.0
    row_noise_e: Annotated[float, Between(0, 1e6)] = 0.0
    dark_e: Annotated[float, Between(0, 1e6)] = 0.0
    hot_share: Fraction = 0.0
    hot_e: Annotated[float, Between(0, 1e9)] = 0.0
    pattern_seed: Seed = 0

    def __post_init__(self) -> None:
        check_ranges(self, "mosaic")

    def white_level(self) -> int:
        """Return the largest pixel value."""
        return int(2**self.bits - 1)

    def black_level(self) -> int:
        """Return the pixel value of darkness."""
        return round(self.black_share * self.white_level())


@dataclass(frozen=True)
class Processing:
    """Image processing in the camera besides that of the ``Sensor``.

    Attributes:
        demosaic: Demosaicing method.
        shading_correction: Fraction of the vignetting that is corrected.
        color_correction: Fraction of the crosstalk that the colour matrix corrects.
        local_tone: Fraction of large-scale contrast that local tone mapping removes, as in phones; local
            contrast is kept.
        chroma_blur_px: Standard deviation of the blur against colour noise, pixels.
        jpeg_subsampling: Chroma subsampling: none, horizontal, or both ways.
    """

    demosaic: Demosaic = "edge_aware"
    shading_correction: Fraction = 0.0
    color_correction: Fraction = 1.0
    local_tone: Fraction = 0.0
    chroma_blur_px: Annotated[float, Between(0, 20)] = 0.0
    jpeg_subsampling: Subsampling = "420"

    def __post_init__(self) -> None:
        check_ranges(self, "processing")


@dataclass(frozen=True)
class Automatics:
    """Auto-exposure and auto white balance; without them every image is metered independently.

    Attributes:
        exposure_lag_s: Time constant of the exposure (63 % of a step); the first image of a sequence is exposed
            without lag.
        white_balance: Fraction of the illuminant colour that is removed, estimated with shades of gray at p = 6
            (Finlayson and Trezzi 2004, "Shades of gray and colour constancy").
        white_lag_s: Time constant of the white balance.
        fixed_gain: Sensor level, relative to saturation, over radiance, for manual exposure; None for
            auto-exposure.
    """

    exposure_lag_s: Annotated[float, Between(0, 60)] = 0.0
    white_balance: Fraction = 0.0
    white_lag_s: Annotated[float, Between(0, 60)] = 0.0
    fixed_gain: Annotated[float, Between(1e-09, 1e9)] | None = None

    def __post_init__(self) -> None:
        check_ranges(self, "automatics")


@dataclass(frozen=True)
class Sensor:
    """Image formation from linear radiance to the image file.

    Attributes:
        exposure_ev: Exposure compensation in stops.
        red_gain, blue_gain: White balance error relative to green. It is applied after clipping, without
            clipping again, so values below 1 tint saturated light.
        vignetting: Light loss in the corners, 0 to 1, before automatic exposure.
        blur_px: Standard deviation of the point spread function, pixels.
        full_well_e: Electrons at saturation; fewer give more noise.
        read_noise_e: Standard deviation of the read noise, electrons.
        denoise: Strength of the camera's denoising, 0 to 1.
        tone_contrast: Exponent of the tone curve around middle grey; 1 is sRGB up to the shoulder. Below 1
            saturated light is grey.
        saturation: Colour saturation; 1 is neutral.
        sharpening: Weight of the unsharp mask; 0 is none.
        jpeg_quality: JPEG quality, 1 to 100.
        noise_seed: Seed of the noise; seeds of earlier images of a sequence are derived from it.
        mosaic: Colour filter array; None for a sensor with all three colours in every pixel.
        processing: Further processing; None for none.
        automatics: Automatic exposure and white balance; None for metering without lag or white balance.
        red_response, blue_response: Electrons of white light in red and blue over those in green, at most 1;
            fewer give more noise after white balance.
        tone_shoulder: Linear level above which the tone curve bends towards white, 0 to 1; saturated light is
            then below full white. 1 disables the shoulder, so contrast 1 is plain sRGB.
        file_format: ``png`` is lossless, with larger files.
    """

    exposure_ev: float
    red_gain: Positive
    blue_gain: Positive
    vignetting: Fraction
    blur_px: Annotated[float, Between(0, 50)]
    full_well_e: Positive
    read_noise_e: Annotated[float, Between(0)]
    denoise: Fraction
    tone_contrast: Annotated[float, Between(0.1, 5)]
    saturation: Annotated[float, Between(0, 5)]
    sharpening: Annotated[float, Between(0, 10)]
    jpeg_quality: Annotated[int, Between(1, 100)]
    noise_seed: Seed
    mosaic: Mosaic | None = None
    processing: Processing | None = None
    automatics: Automatics | None = None
    red_response: Annotated[float, Between(0.05, 1)] = 1.0
    blue_response: Annotated[float, Between(0.05, 1)] = 1.0
    tone_shoulder: Fraction = 0.8
    file_format: FileFormat = "jpeg"

    def __post_init__(self) -> None:
        if self.mosaic is not None and not math.isfinite(self.full_well_e):
            raise ValueError(
                f"sensor: a mosaic counts electrons, so full_well_e must be finite, not "
                f"{self.full_well_e:g}. Set 1e9 for an image without noise."
            )
