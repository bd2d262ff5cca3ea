"""Calibrated camera as a value and as ``camera.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

from sim2cam.adapt.calibration.lens import LENS_PARAMETERS, FittedLens
from sim2cam.data.parsing import STRICT_CONFIG, format_validation_error, read_json
from sim2cam.data.writer import write_json
from sim2cam.errors import InputError, suggest_name
from sim2cam.scene.sensor import FileFormat, Subsampling

VERSION = 4

StatisticRows = tuple[tuple[float | None, ...], ...]
"""Values of a photo statistic, a row per photo; None where unknown."""

_MAX_BYTES = 4_000_000


@dataclass(frozen=True)
class ParameterEstimate:
    """Estimate of one camera parameter.

    Attributes:
        name: path of the field in ``scene.camera.Camera``, as ``sensor.vignetting``.
        value: estimate; None if the photos do not determine it.
        ci95: 95 % interval; None for strings, for undetermined parameters, and if it reaches the
            limit of the prior.
        photo_std: standard deviation between photos; None for constants of the camera.
        note: why it is undetermined and which photos would determine it, or what the estimate
            assumes.
    """

    __pydantic_config__ = STRICT_CONFIG

    name: str
    value: float | str | None
    ci95: tuple[float, float] | None = None
    photo_std: float | None = None
    note: str = ""

    def __post_init__(self) -> None:
        if self.ci95 is not None:
            low, high = self.ci95
            if not isinstance(self.value, int | float) or not low <= self.value <= high:
                raise ValueError(
                    f"{self.name} is {self.value}, outside its interval {low} to {high}"
                )
        if self.photo_std is not None and self.photo_std < 0:
            raise ValueError(f"photo_std of {self.name} must be 0 or more, not {self.photo_std}")


NUMERIC_LIMITS: Mapping[str, tuple[float, float]] = {
    "sensor.exposure_ev": (-20, 20),
    "sensor.red_gain": (1e-3, 1e3),
    "sensor.blue_gain": (1e-3, 1e3),
    "sensor.vignetting": (-1, 1),
    "sensor.full_well_e": (1, 1e9),
    "sensor.read_noise_e": (0, 1e4),
    "sensor.denoise": (0, 1),
    "sensor.sharpening": (0, 10),
    "sensor.blur_px": (0, 50),
    "sensor.tone_contrast": (0.1, 5),
    "sensor.tone_shoulder": (0, 1),
    "sensor.saturation": (0, 5),
    "sensor.jpeg_quality": (1, 100),
    "sensor.red_response": (1e-3, 1e3),
    "sensor.blue_response": (1e-3, 1e3),
    "sensor.processing.chroma_blur_px": (0, 20),
    "glass.lateral_color.red": (-1, 1),
    "glass.lateral_color.blue": (-1, 1),
    "shutter.exposure_s": (0, 60),
    "shutter.readout_s": (0, 60),
    "twist.spin_rad_s": (0, 1e9),
} | {f"lens.{name}": (-1e9, 1e9) for name in LENS_PARAMETERS}
"""Smallest and largest valid value of each numeric parameter."""
JOINT_PARAMETERS = tuple(
    f"sensor.{name}"
    for name in (
        "full_well_e", "read_noise_e", "denoise", "sharpening", "blur_px", "tone_contrast", "exposure_ev",
        "red_response", "blue_response", "processing.chroma_blur_px",
    )
)  # fmt: skip
"""Parameters that are estimated and sampled jointly, one sensor at a time."""
CATEGORICAL_VALUES: Mapping[str, tuple[str, ...]] = {
    "sensor.processing.jpeg_subsampling": get_args(Subsampling),
    "sensor.file_format": get_args(FileFormat),
}
"""Valid values of each categorical parameter."""


@dataclass(frozen=True)
class CameraFit:
    """Calibration of a camera from its photos.

    Attributes:
        camera: camera according to the files.
        width, height: image size, pixels.
        photos: number of measured photos.
        boards: number of photos with a detected board.
        estimates: estimate of each parameter.
        lens: fitted lens with covariance; None without enough boards.
        sensor_samples: sensors that reproduce noise and edges of the photos: values (n,) of
            ``JOINT_PARAMETERS``, one sensor per index. Recipes sample them jointly. Empty if no
            sensor fits.
        border_px: masked pixels at the left, top, right and bottom.
        max_level: highest level in any photo.
        other_cameras: number of photos of each other camera.
        skipped: excluded files with reasons.
        software: camera software according to the files.
        statistics: statistics of each photo for drift detection, by the names of
            ``camera_features.CAMERA_STATISTICS`` and ``DETECTOR_STATISTICS``.
        orientation: EXIF orientation of the photos of the lens; None without a lens.
        rotated_boards: EXIF orientations of board photos that the lens excludes, by name.
        monitor_digest: digest of the weights of the monitor detector; empty without one.
    """

    __pydantic_config__ = STRICT_CONFIG

    camera: str
    width: int
    height: int
    photos: int
    boards: int
    estimates: tuple[ParameterEstimate, ...]
    lens: FittedLens | None = None
    sensor_samples: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    border_px: tuple[int, int, int, int] = (0, 0, 0, 0)
    max_level: int = 255
    other_cameras: Mapping[str, int] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    software: str = ""
    statistics: Mapping[str, StatisticRows] = field(default_factory=dict)
    orientation: int | None = None
    rotated_boards: Mapping[str, int] = field(default_factory=dict)
    monitor_digest: str = ""

    def __post_init__(self) -> None:
        if min(self.width, self.height, self.photos) < 1 or min(self.boards, *self.border_px) < 0:
            raise ValueError(
                "width, height and photos must be 1 or more, boards and border_px 0 or more"
            )
        names = [estimate.name for estimate in self.estimates]
        duplicates = [name for name in names if names.count(name) > 1]
        if duplicates:
            raise ValueError(f"estimates: duplicate {duplicates[0]}")
        for estimate in self.estimates:
            _check_estimate(estimate)
        for name, values in self.sensor_samples.items():
            if name not in JOINT_PARAMETERS:
                raise ValueError(
                    f"sensor_samples: unknown parameter '{name}'. {suggest_name(name, JOINT_PARAMETERS)}"
                )
            low, high = NUMERIC_LIMITS[name]
            if not values or min(values) < low or max(values) > high:
                raise ValueError(
                    f"sensor_samples: {name} needs one or more values from {low:g} to {high:g}"
                )
        if len({len(values) for values in self.sensor_samples.values()}) > 1:
            raise ValueError("sensor_samples: all parameters must have equally many values")
        for name, rows in self.statistics.items():
            if len(rows) != self.photos or len(set(map(len, rows))) > 1:
                raise ValueError(
                    f"statistics: {name} must have one row per photo, all of one length"
                )

    def get_estimate(self, name: str) -> ParameterEstimate:
        """Return the estimate of a parameter; an empty one if it was not estimated."""
        matches = (estimate for estimate in self.estimates if estimate.name == name)
        return next(matches, ParameterEstimate(name, None))

    def to_json(self) -> dict[str, Any]:
        """Return the calibration as JSON values."""
        values: dict[str, Any] = json.loads(_ADAPTER.dump_json(self))
        return {"version": VERSION, **values}


def _check_estimate(estimate: ParameterEstimate) -> None:
    """Raise ``ValueError`` for an unknown parameter or an invalid value."""
    name, value = estimate.name, estimate.value
    if name not in NUMERIC_LIMITS and name not in CATEGORICAL_VALUES:
        raise ValueError(
            f"estimates: unknown parameter '{name}'. {suggest_name(name, (*NUMERIC_LIMITS, *CATEGORICAL_VALUES))}"
        )
    if value is None:
        return
    if name in CATEGORICAL_VALUES:
        if value not in CATEGORICAL_VALUES[name]:
            raise ValueError(
                f"estimates: {name} must be one of {', '.join(CATEGORICAL_VALUES[name])}, not {value}"
            )
        return
    low, high = NUMERIC_LIMITS[name]
    if isinstance(value, str) or not low <= value <= high:
        raise ValueError(f"estimates: {name} must be from {low:g} to {high:g}, not {value}")


_ADAPTER: TypeAdapter[CameraFit] = TypeAdapter(CameraFit)


def write_camera(path: Path, fit: CameraFit) -> None:
    """Write a calibrated camera to a ``camera.json`` file.

    Raises:
        OutputError: if the file cannot be written.
    """
    write_json(path, fit.to_json())


def read_camera(path: Path) -> CameraFit:
    """Read a file that ``write_camera`` wrote.

    Raises:
        InputError: if the file is missing, invalid or of another version.
    """
    values = read_json(path, _MAX_BYTES, "camera.json")
    version = values.pop("version", None) if isinstance(values, dict) else None
    if version != VERSION:
        raise InputError(
            path, f"not a camera file of version {VERSION} (found {version!r}). Calibrate again."
        )
    try:
        return _ADAPTER.validate_python(values)
    except ValidationError as error:
        raise InputError(path, f"{format_validation_error(error)}. Calibrate again.") from error
