"""Traits: numbers of a photo that change when its camera does, and which number of the camera that is.

They are no estimates of the camera: what photos show moves them too, as much before as now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim2cam.adapt.calibration.camera_fit import Rows
from sim2cam.adapt.calibration.noise import LEVEL_BINS, FlatTiles, grain
from sim2cam.adapt.calibration.photo_measurements import Photo, see
from sim2cam.images import Header

Floats = NDArray[np.float64]

_EDGY = "print, or a chessboard, sharp"
_GREY = "a grey wall"
_WALL = "a plain wall, and of it turned by a half"
_ANY = "what was photographed before"
_FILES = "anything, as JPEGs that nobody edited"
_LEAST_GRAIN = 0.05  # square levels, below which nothing is left of noise
_SHADING = 4.0  # square levels, coarse variance of a tile that is nearly flat
_SAMPLES = {"444": 1.0, "422": 0.5, "420": 0.25}


@dataclass(frozen=True)
class Trait:
    """A trait of photos.

    Attributes:
        name: path of the field in ``scene.camera.Camera`` that it tells most of; ``run`` and what it says
            of a detector's.
        words: what it is.
        unit: of a shift of it; that of logarithms is told in per cent.
        least: shift of the trait itself up to which it counts as unmoved.
        take: what photos are to show that tell it.
        by_scenes: whether what photos show, and its light, moves it as easily as the camera.
        in_pixels: whether it means another thing in pictures of another size.
        columns: numbers of a photo; each is compared with its like.
    """

    name: str
    words: str
    unit: str
    least: float
    take: str
    by_scenes: bool = False
    in_pixels: bool = False
    columns: int = 1


TRAITS = (
    Trait("sensor.exposure_ev", "exposure", "stops", 0.1, _ANY, by_scenes=True),
    Trait("sensor.red_gain", "white balance, red", "%", 0.02, _ANY, by_scenes=True),
    Trait("sensor.blue_gain", "white balance, blue", "%", 0.02, _ANY, by_scenes=True),
    Trait("sensor.tone_contrast", "contrast", "%", 0.05, _ANY, by_scenes=True),
    Trait("sensor.saturation", "strength of colours", "%", 0.05, _ANY, by_scenes=True),
    Trait("glass.glare.veil", "light in the darkest parts", "of the mean", 0.02, _ANY, by_scenes=True),
    Trait("sensor.vignetting", "light that corners lose", "of it", 0.02, _WALL),
    Trait(
        "sensor.full_well_e", "noise", "%", 0.1, _GREY, by_scenes=True, in_pixels=True,
        columns=len(LEVEL_BINS) - 1,
    ),
    Trait("sensor.denoise", "fineness of noise", "%", 0.1, _GREY, by_scenes=True, in_pixels=True),
    Trait("sensor.blur_px", "blur", "px", 0.1, _EDGY, by_scenes=True, in_pixels=True),
    Trait("sensor.sharpening", "sharpening", "of edges", 0.1, _EDGY, by_scenes=True, in_pixels=True),
    Trait("glass.lateral_color.red", "size of the picture in red", "of it", 2e-4, _EDGY),
    Trait("glass.lateral_color.blue", "size of the picture in blue", "of it", 2e-4, _EDGY),
    Trait("sensor.jpeg_quality", "JPEG quality", "of 100", 1.0, _FILES),
    Trait("sensor.processing.jpeg_subsampling", "samples of colour", "a pixel", 0.1, _FILES),
)  # fmt: skip
"""All that photos have themselves."""

NOVELTY = Trait(
    "run.novelty", "novelty to the detector", "of its limit", 0.02, _ANY, by_scenes=True
)
CONFIDENCE = Trait(
    "run.confidence", "the detector's confidence", "of 1", 0.02, _ANY, by_scenes=True
)
ANSWERS = (NOVELTY, CONFIDENCE)
"""What a detector that is asked says of them."""


def traits(photos: Sequence[Photo]) -> dict[str, Rows]:
    """Returns the traits of photos, by name."""
    found = [_of(photo) for photo in photos]
    return {trait.name: tuple(_row(one[trait.name]) for one in found) for trait in TRAITS}


def picture_traits(rgb: NDArray[np.uint8]) -> dict[str, Floats]:
    """Returns the traits of a picture (h, w, 3), by name; NaN where it does not tell.

    Those that stand in files are not told.
    """
    return _of(see(rgb, Header(rgb.shape[1], rgb.shape[0], "RGB", {})))


def _of(photo: Photo) -> dict[str, Floats]:
    noise = grain([_even(photo.marks.flat)]) + _LEAST_GRAIN  # (bins, lags)
    left = noise[noise[:, 1] > 2 * _LEAST_GRAIN]
    fine = np.median(np.log(left[:, 0] / left[:, 1])) if len(left) else np.nan
    white = np.log(photo.white)
    stored = photo.stored
    found = {
        "sensor.exposure_ev": photo.exposure_ev,
        "sensor.red_gain": white[0],
        "sensor.blue_gain": white[1],
        "sensor.tone_contrast": photo.tones.contrast,
        "sensor.saturation": photo.tones.color,
        "glass.glare.veil": photo.tones.darkest,
        "sensor.vignetting": photo.falloff,
        "sensor.full_well_e": np.log(noise[:, 1]) / 2,
        "sensor.denoise": fine,
        "sensor.blur_px": photo.marks.edges[0],
        "sensor.sharpening": photo.marks.edges[1],
        "glass.lateral_color.red": photo.fringes[0],
        "glass.lateral_color.blue": photo.fringes[1],
        "sensor.jpeg_quality": stored.quality if stored else np.nan,
        "sensor.processing.jpeg_subsampling": _SAMPLES.get(
            (stored and stored.subsampling) or "", np.nan
        ),
    }
    return {name: np.atleast_1d(np.asarray(value, np.float64)) for name, value in found.items()}


def _even(tiles: FlatTiles) -> FlatTiles:
    """Returns the tiles that hold nothing but noise: one photo's flattest may still show things."""
    even = tiles.coarse < tiles.fine[:, 1] + _SHADING
    return FlatTiles(tiles.bins[even], tiles.coarse[even], tiles.fine[even], tiles.color[even])


def _row(numbers: Floats) -> tuple[float | None, ...]:
    return tuple(float(n) if np.isfinite(n) else None for n in numbers)
