"""Photo statistics that change with the camera, for drift detection.

They are not estimates of camera parameters, because they also depend on the scene.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from sim2cam.adapt.calibration.camera_fit import StatisticRows
from sim2cam.adapt.calibration.noise import LEVEL_BINS, FlatTiles, estimate_noise
from sim2cam.adapt.calibration.photo_measurements import PhotoMeasurements, measure_photo
from sim2cam.images import ImageHeader

Floats = NDArray[np.float64]

_EDGES_SUBJECT = "print or a chessboard, in focus"
_GREY_SUBJECT = "a grey wall"
_WALL_SUBJECT = "a plain wall, half of them with the camera upside down"
_SAME_SUBJECT = "the same scenes as before"
_UNEDITED_SUBJECT = "any scene, as unedited JPEGs"
_MIN_NOISE = 0.05  # squared levels; noise floor
_MAX_SHADING_VARIANCE = 4.0  # squared levels; coarse variance of nearly flat tiles
_CHROMA_SAMPLES = {"444": 1.0, "422": 0.5, "420": 0.25}


@dataclass(frozen=True)
class CameraStatistic:
    """Definition of one photo statistic.

    Attributes:
        name: path of the most related field in ``scene.camera.Camera``; ``detector`` and a name for
            detector statistics.
        description: what the statistic measures.
        unit: unit of a shift; ``%`` for logarithms.
        min_shift: largest shift that counts as stable.
        subject: what photos must show to determine it.
        is_scene_dependent: whether scene and light affect it as much as the camera.
        is_size_dependent: whether it depends on the image size.
        columns: values per photo; each column is centred separately.
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
    CameraStatistic("sensor.saturation", "colourfulness", "%", 0.05, _SAME_SUBJECT, is_scene_dependent=True),
    CameraStatistic("glass.glare.veil", "light of the shadows", "of the mean", 0.02, _SAME_SUBJECT, is_scene_dependent=True),
    CameraStatistic("sensor.vignetting", "vignetting", "of the light", 0.02, _WALL_SUBJECT),
    CameraStatistic(
        "sensor.full_well_e", "noise", "%", 0.1, _GREY_SUBJECT, is_scene_dependent=True, is_size_dependent=True,
        columns=len(LEVEL_BINS) - 1,
    ),
    CameraStatistic("sensor.denoise", "ratio of fine to coarse noise", "%", 0.1, _GREY_SUBJECT, is_scene_dependent=True, is_size_dependent=True),
    CameraStatistic("sensor.blur_px", "blur", "px", 0.1, _EDGES_SUBJECT, is_scene_dependent=True, is_size_dependent=True),
    CameraStatistic("sensor.sharpening", "sharpening", "of edges", 0.1, _EDGES_SUBJECT, is_scene_dependent=True, is_size_dependent=True),
    CameraStatistic("glass.lateral_color.red", "lateral colour, red", "of the size", 2e-4, _EDGES_SUBJECT),
    CameraStatistic("glass.lateral_color.blue", "lateral colour, blue", "of the size", 2e-4, _EDGES_SUBJECT),
    CameraStatistic("sensor.jpeg_quality", "JPEG quality", "of 100", 1.0, _UNEDITED_SUBJECT),
    CameraStatistic("sensor.processing.jpeg_subsampling", "chroma samples", "per pixel", 0.1, _UNEDITED_SUBJECT),
)  # fmt: skip
"""Statistics of the photos themselves."""

_make_detector_statistic = partial(
    CameraStatistic, min_shift=0.02, subject=_SAME_SUBJECT, is_scene_dependent=True
)
OOD_STATISTIC = _make_detector_statistic(
    "detector.ood_score", "OOD score of the detector", "of its threshold"
)
CONFIDENCE_STATISTIC = _make_detector_statistic(
    "detector.confidence", "mean confidence of the detector", "of 1"
)
DETECTOR_STATISTICS = (OOD_STATISTIC, CONFIDENCE_STATISTIC)
"""Statistics of the responses of a monitor detector."""


def tabulate_statistics(photos: Sequence[PhotoMeasurements]) -> dict[str, StatisticRows]:
    """Return the statistics of photos by name."""
    by_photo = [_compute_statistics(photo) for photo in photos]
    return {
        statistic.name: tuple(_to_row(values[statistic.name]) for values in by_photo)
        for statistic in CAMERA_STATISTICS
    }


def measure_image_statistics(rgb: NDArray[np.uint8]) -> dict[str, Floats]:
    """Return the statistics of an image (h, w, 3) by name; NaN for file metadata."""
    return _compute_statistics(
        measure_photo(rgb, ImageHeader(rgb.shape[1], rgb.shape[0], "RGB", {}))
    )


def _compute_statistics(photo: PhotoMeasurements) -> dict[str, Floats]:
    noise = (
        estimate_noise([_select_noise_tiles(photo.sensor_features.flat_tiles)]) + _MIN_NOISE
    )  # (bins, lags)
    noisy = noise[noise[:, 1] > 2 * _MIN_NOISE]
    log_fineness = np.median(np.log(noisy[:, 0] / noisy[:, 1])) if len(noisy) else np.nan
    white = np.log(photo.metered_white)
    encoding = photo.jpeg_encoding
    statistics = {
        "sensor.exposure_ev": photo.exposure_ev,
        "sensor.red_gain": white[0],
        "sensor.blue_gain": white[1],
        "sensor.tone_contrast": photo.tones.log_contrast,
        "sensor.saturation": photo.tones.log_colorfulness,
        "glass.glare.veil": photo.tones.shadow_level,
        "sensor.vignetting": photo.vignetting,
        "sensor.full_well_e": np.log(noise[:, 1]) / 2,
        "sensor.denoise": log_fineness,
        "sensor.blur_px": photo.sensor_features.edge_blur_sharpening[0],
        "sensor.sharpening": photo.sensor_features.edge_blur_sharpening[1],
        "glass.lateral_color.red": photo.lateral_color[0],
        "glass.lateral_color.blue": photo.lateral_color[1],
        "sensor.jpeg_quality": encoding.quality if encoding else np.nan,
        "sensor.processing.jpeg_subsampling": _CHROMA_SAMPLES.get(
            (encoding and encoding.subsampling) or "", np.nan
        ),
    }
    return {
        name: np.atleast_1d(np.asarray(value, np.float64)) for name, value in statistics.items()
    }


def _select_noise_tiles(tiles: FlatTiles) -> FlatTiles:
    """Return the tiles with noise only; the flattest tiles of one photo may have texture."""
    is_flat = tiles.coarse_variance < tiles.semivariance[:, 1] + _MAX_SHADING_VARIANCE
    return FlatTiles(
        tiles.bins[is_flat],
        tiles.coarse_variance[is_flat],
        tiles.semivariance[is_flat],
        tiles.color_semivariance[is_flat],
    )


def _to_row(values: Floats) -> tuple[float | None, ...]:
    return tuple(float(n) if np.isfinite(n) else None for n in values)
