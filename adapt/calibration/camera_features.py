"""Traits: numbers of a photo that change when its camera does, and which number of the camera that is.

They are no estimates of the camera: what photos show moves them too, as much before as now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim2cam.adapt.calibration.camera_fit import StatisticRows
from sim2cam.adapt.calibration.noise import LEVEL_BINS, FlatTiles, estimate_noise
from sim2cam.adapt.calibration.photo_measurements import PhotoMeasurements, measure_photo
from sim2cam.images import ImageHeader

Floats = NDArray[np.float64]

_EDGES_SUBJECT = "print, or a chessboard, sharp"
_GREY_SUBJECT = "a grey wall"
_WALL_SUBJECT = "a plain wall, and of it turned by a half"
_SAME_SUBJECT = "what was photographed before"
_UNEDITED_SUBJECT = "anything, as JPEGs that nobody edited"
_MIN_NOISE = 0.05  # square levels, below which nothing is left of noise
_MAX_SHADING_VARIANCE = 4.0  # square levels, coarse variance of a tile that is nearly flat
_CHROMA_SAMPLES = {"444": 1.0, "422": 0.5, "420": 0.25}


@dataclass(frozen=True)
class CameraStatistic:
    """A trait of photos.

    Attributes:
        name: path of the field in ``scene.camera.Camera`` that it tells most of; ``run`` and what it says
            of a detector's.
        description: what it is.
        unit: of a shift of it; that of logarithms is told in per cent.
        min_shift: shift of the trait itself up to which it counts as unmoved.
        subject: what photos are to show that tell it.
        is_scene_dependent: whether what photos show, and its light, moves it as easily as the camera.
        is_size_dependent: whether it means another thing in pictures of another size.
        columns: numbers of a photo; each is compared with its like.
    """

    name: str
    description: str
    unit: str
    min_shift: float
    subject: str
    is_scene_dependent: bool = False
    is_size_dependent: bool = False
    columns: int = 1


CAMERA_STATISTICS = (
    CameraStatistic("sensor.exposure_ev", "exposure", "stops", 0.1, _SAME_SUBJECT, is_scene_dependent=True),
    CameraStatistic("sensor.red_gain", "white balance, red", "%", 0.02, _SAME_SUBJECT, is_scene_dependent=True),
    CameraStatistic("sensor.blue_gain", "white balance, blue", "%", 0.02, _SAME_SUBJECT, is_scene_dependent=True),
    CameraStatistic("sensor.tone_contrast", "contrast", "%", 0.05, _SAME_SUBJECT, is_scene_dependent=True),
    CameraStatistic("sensor.saturation", "strength of colours", "%", 0.05, _SAME_SUBJECT, is_scene_dependent=True),
    CameraStatistic("glass.glare.veil", "light in the darkest parts", "of the mean", 0.02, _SAME_SUBJECT, is_scene_dependent=True),
    CameraStatistic("sensor.vignetting", "light that corners lose", "of it", 0.02, _WALL_SUBJECT),
    CameraStatistic(
        "sensor.full_well_e", "noise", "%", 0.1, _GREY_SUBJECT, is_scene_dependent=True, is_size_dependent=True,
        columns=len(LEVEL_BINS) - 1,
    ),
    CameraStatistic("sensor.denoise", "fineness of noise", "%", 0.1, _GREY_SUBJECT, is_scene_dependent=True, is_size_dependent=True),
    CameraStatistic("sensor.blur_px", "blur", "px", 0.1, _EDGES_SUBJECT, is_scene_dependent=True, is_size_dependent=True),
    CameraStatistic("sensor.sharpening", "sharpening", "of edges", 0.1, _EDGES_SUBJECT, is_scene_dependent=True, is_size_dependent=True),
    CameraStatistic("glass.lateral_color.red", "size of the picture in red", "of it", 2e-4, _EDGES_SUBJECT),
    CameraStatistic("glass.lateral_color.blue", "size of the picture in blue", "of it", 2e-4, _EDGES_SUBJECT),
    CameraStatistic("sensor.jpeg_quality", "JPEG quality", "of 100", 1.0, _UNEDITED_SUBJECT),
    CameraStatistic("sensor.processing.jpeg_subsampling", "samples of colour", "a pixel", 0.1, _UNEDITED_SUBJECT),
)  # fmt: skip
"""All that photos have themselves."""

OOD_STATISTIC = CameraStatistic(
    "detector.ood_score",
    "novelty to the detector",
    "of its limit",
    0.02,
    _SAME_SUBJECT,
    is_scene_dependent=True,
)
CONFIDENCE_STATISTIC = CameraStatistic(
    "detector.confidence",
    "the detector's confidence",
    "of 1",
    0.02,
    _SAME_SUBJECT,
    is_scene_dependent=True,
)
DETECTOR_STATISTICS = (OOD_STATISTIC, CONFIDENCE_STATISTIC)
"""What a detector that is asked says of them."""


def tabulate_statistics(photos: Sequence[PhotoMeasurements]) -> dict[str, StatisticRows]:
    """Return the traits of photos, by name."""
    found = [_compute_statistics(photo) for photo in photos]
    return {
        trait.name: tuple(_to_row(one[trait.name]) for one in found) for trait in CAMERA_STATISTICS
    }


def measure_image_statistics(rgb: NDArray[np.uint8]) -> dict[str, Floats]:
    """Return the traits of a picture (h, w, 3), by name; NaN where it does not tell.

    Those that stand in files are not told.
    """
    return _compute_statistics(
        measure_photo(rgb, ImageHeader(rgb.shape[1], rgb.shape[0], "RGB", {}))
    )


def _compute_statistics(photo: PhotoMeasurements) -> dict[str, Floats]:
    noise = (
        estimate_noise([_select_noise_tiles(photo.sensor_features.flat_tiles)]) + _MIN_NOISE
    )  # (bins, lags)
    left = noise[noise[:, 1] > 2 * _MIN_NOISE]
    fine = np.median(np.log(left[:, 0] / left[:, 1])) if len(left) else np.nan
    white = np.log(photo.metered_white)
    stored = photo.jpeg_encoding
    found = {
        "sensor.exposure_ev": photo.exposure_ev,
        "sensor.red_gain": white[0],
        "sensor.blue_gain": white[1],
        "sensor.tone_contrast": photo.tones.log_contrast,
        "sensor.saturation": photo.tones.log_colorfulness,
        "glass.glare.veil": photo.tones.shadow_level,
        "sensor.vignetting": photo.vignetting,
        "sensor.full_well_e": np.log(noise[:, 1]) / 2,
        "sensor.denoise": fine,
        "sensor.blur_px": photo.sensor_features.edge_blur_sharpening[0],
        "sensor.sharpening": photo.sensor_features.edge_blur_sharpening[1],
        "glass.lateral_color.red": photo.lateral_color[0],
        "glass.lateral_color.blue": photo.lateral_color[1],
        "sensor.jpeg_quality": stored.quality if stored else np.nan,
        "sensor.processing.jpeg_subsampling": _CHROMA_SAMPLES.get(
            (stored and stored.subsampling) or "", np.nan
        ),
    }
    return {name: np.atleast_1d(np.asarray(value, np.float64)) for name, value in found.items()}


def _select_noise_tiles(tiles: FlatTiles) -> FlatTiles:
    """Return the tiles that hold nothing but noise: one photo's flattest may still show things."""
    even = tiles.coarse_variance < tiles.semivariance[:, 1] + _MAX_SHADING_VARIANCE
    return FlatTiles(
        tiles.bins[even],
        tiles.coarse_variance[even],
        tiles.semivariance[even],
        tiles.color_semivariance[even],
    )


def _to_row(values: Floats) -> tuple[float | None, ...]:
    return tuple(float(n) if np.isfinite(n) else None for n in values)
