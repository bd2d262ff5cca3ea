"""The result: what is known of a camera, as a value and as ``camera.json``."""

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
"""A trait of photos: a row for each; None where the photo does not tell."""

_MAX_BYTES = 4_000_000


@dataclass(frozen=True)
class ParameterEstimate:
    """One number of a camera.

    Attributes:
        name: path of the field in ``scene.camera.Camera``, as ``sensor.vignetting``.
        value: the estimate; None where the captures do not tell.
        ci95: its 95 % interval; None for words, for what is not told, and for what may lie beyond all that
            is tried.
        photo_std: standard deviation from photo to photo; None for what a camera has once.
        note: why it is not told and which captures would, or what the estimate stands on.
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
            raise ValueError(f"spread of {self.name} is 0 or more, not {self.photo_std}")


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
"""Least and most that each number of a camera may be."""
JOINT_PARAMETERS = tuple(
    f"sensor.{name}"
    for name in (
        "full_well_e", "read_noise_e", "denoise", "sharpening", "blur_px", "tone_contrast", "exposure_ev",
        "red_response", "blue_response", "processing.chroma_blur_px",
    )
)  # fmt: skip
"""Numbers that sensors are fitted by and drawn with, one sensor at a time."""
CATEGORICAL_VALUES: Mapping[str, tuple[str, ...]] = {
    "sensor.processing.jpeg_subsampling": get_args(Subsampling),
    "sensor.file_format": get_args(FileFormat),
}
"""What each word of a camera may be."""


@dataclass(frozen=True)
class CameraFit:
    """What captures tell of the camera that took them.

    Attributes:
        camera: what took them, as far as their files say.
        width, height: pixels of each.
        photos: how many were looked at.
        boards: in how many of them a board was found.
        estimates: number by number.
        lens: all of the lens; None where there are no boards.
        sensor_samples: that show noise and edges as the photos do: numbers (n,) of ``JOINT_PARAMETERS``, one
            sensor in each place. Recipes draw them whole. Empty where no sensor does.
        border_px: dead pixels at the left, top, right and bottom.
        max_level: the highest level in any photo.
        other_cameras: how many captures other cameras took, by what took them.
        skipped: files that were left out, and why.
        software: of the camera, as far as the files say.
        statistics: of each photo what changes with its camera, by names of ``traits.TRAITS``, and what a
            detector says, by those of ``traits.ANSWERS``; drift needs it.
        orientation: as EXIF has it, of the photos that the lens is fitted to; None where no lens is.
        rotated_boards: photos of a board that it is not fitted to, as the camera was held another way: their
            orientations, by name.
        monitor_digest: digest of the weights of the detector whose answers are among the traits; empty without.
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
            raise ValueError("width, height and photos are 1 or more, boards and border 0 or more")
        names = [finding.name for finding in self.estimates]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ValueError(f"estimates: {twice[0]} is there twice")
        for finding in self.estimates:
            _check_estimate(finding)
        for name, values in self.sensor_samples.items():
            if name not in JOINT_PARAMETERS:
                raise ValueError(
                    f"sensor_samples: '{name}' is none of theirs. {suggest_name(name, JOINT_PARAMETERS)}"
                )
            least, most = NUMERIC_LIMITS[name]
            if not values or min(values) < least or max(values) > most:
                raise ValueError(
                    f"sensor_samples: {name} is {least:g} to {most:g}, of one sensor or more"
                )
        if len({len(values) for values in self.sensor_samples.values()}) > 1:
            raise ValueError("sensor_samples: every number has as many values as the others")
        for name, rows in self.statistics.items():
            if len(rows) != self.photos or len(set(map(len, rows))) > 1:
                raise ValueError(f"statistics: {name} has a row, as long as others, of each photo")

    def get_estimate(self, name: str) -> ParameterEstimate:
        """Return what is known of a number; nothing where it was not asked for."""
        return next((f for f in self.estimates if f.name == name), ParameterEstimate(name, None))

    def to_json(self) -> dict[str, Any]:
        """Return all of it as JSON values."""
        found: dict[str, Any] = json.loads(_ADAPTER.dump_json(self))
        return {"version": VERSION, **found}


def _check_estimate(estimate: ParameterEstimate) -> None:
    """Refuse what is no number of a camera, or cannot be one."""
    name, value = estimate.name, estimate.value
    if name not in NUMERIC_LIMITS and name not in CATEGORICAL_VALUES:
        raise ValueError(
            f"estimates: '{name}' is no number of a camera. {suggest_name(name, NUMERIC_LIMITS)}"
        )
    if value is None:
        return
    if name in CATEGORICAL_VALUES:
        if value not in CATEGORICAL_VALUES[name]:
            raise ValueError(
                f"estimates: {name} is {', '.join(CATEGORICAL_VALUES[name])}, not {value}"
            )
        return
    least, most = NUMERIC_LIMITS[name]
    if isinstance(value, str) or not least <= value <= most:
        raise ValueError(f"estimates: {name} is {least:g} to {most:g}, not {value}")


_ADAPTER: TypeAdapter[CameraFit] = TypeAdapter(CameraFit)


def write_camera(path: Path, fit: CameraFit) -> None:
    """Write ``camera.json``.

    Raises:
        OutputError: the file cannot be written.
    """
    write_json(path, fit.to_json())


def read_camera(path: Path) -> CameraFit:
    """Return what ``write_camera`` wrote.

    Raises:
        InputError: it is missing, broken, or of another version.
    """
    found = read_json(path, _MAX_BYTES, "camera.json")
    version = found.pop("version", None) if isinstance(found, dict) else None
    if version != VERSION:
        raise InputError(
            path,
            f"not what sim2cam calibrate writes (version {version!r}, not {VERSION}). Calibrate again.",
        )
    try:
        return _ADAPTER.validate_python(found)
    except ValidationError as error:
        raise InputError(path, f"{format_validation_error(error)}. Calibrate again.") from error
