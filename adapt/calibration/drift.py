"""Camera drift since calibration.

Photo statistics are compared as in ``parameter_changes``, lenses by Hotelling's T-squared test of
the parameters from old and new boards.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter
from scipy.stats import f

from sim2cam.adapt.calibration.board_corners import BoardDetection
from sim2cam.adapt.calibration.camera_features import CAMERA_STATISTICS, tabulate_statistics
from sim2cam.adapt.calibration.camera_fit import CameraFit, StatisticRows
from sim2cam.adapt.calibration.detector_drift import DetectorMonitor
from sim2cam.adapt.calibration.lens import MIN_BOARD_PHOTOS, FittedLens, refit_lens
from sim2cam.adapt.calibration.parameter_changes import (
    LENS_NAME,
    ParameterShift,
    classify_shifts,
    compare_statistics,
)
from sim2cam.adapt.calibration.photo_measurements import (
    PhotoMeasurements,
    get_common_software,
    list_photo_files,
    measure_one_camera,
    select_common_orientation,
    select_common_size,
    split_by_orientation,
)
from sim2cam.errors import LensError, UsageError
from sim2cam.objects.board import Board

Floats = NDArray[np.float64]

_ELLIPSOID_SAMPLES = 100
_GRID_POINTS = 9  # per side, at which lenses are compared


@dataclass(frozen=True)
class DriftReport:
    """Drift of a camera.

    Attributes:
        camera: camera of the new photos according to their files.
        photos: number of measured photos.
        shifts: shift of each parameter; drifted ones first, then by p-value.
        other_cameras: number of photos of each other camera.
        skipped: excluded files with reasons.
    """

    camera: str
    photos: int
    shifts: tuple[ParameterShift, ...]
    other_cameras: Mapping[str, int]
    skipped: Mapping[str, str]

    @property
    def drifted(self) -> tuple[str, ...]:
        """Names of the drifted parameters."""
        return tuple(shift.name for shift in self.shifts if shift.status == "drifted")

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values; names of drifted parameters come first."""
        values: dict[str, Any] = json.loads(_ADAPTER.dump_json(self))
        return {"drifted": list(self.drifted), **values}


_ADAPTER: TypeAdapter[DriftReport] = TypeAdapter(DriftReport)


def detect_drift(
    fit: CameraFit,
    path: Path,
    board: Board | None,
    rng: np.random.Generator,
    progress: Callable[[int, int], None] = lambda done, total: None,
    monitor: DetectorMonitor | None = None,
) -> DriftReport:
    """Compare new photos with a calibrated camera.

    Args:
        path: new photos: a folder, one photo, or real images as ``read_real_images`` accepts them.
        board: marker board in some of the photos; chessboards are detected without it.
        progress: called with the number of finished photos and of all photos.
        monitor: detector whose responses are compared too; default none.

    Raises:
        InputError: if there are no usable photos.
        UsageError: if the camera was calibrated with another detector or none.
    """
    if monitor is not None and monitor.digest != fit.monitor_digest:
        used = "other weights" if fit.monitor_digest else "no detector"
        raise UsageError(
            f"--monitor: the calibration used {used}. Calibrate again with --monitor and these weights."
        )
    captures, excluded = list_photo_files(path)
    measured = measure_one_camera(captures, board, progress, fit.camera)
    responses = (
        monitor.measure_statistics(measured.photos, measured.captures)
        if monitor is not None
        else {}
    )
    metadata_shifts = _compare_metadata(
        fit, measured.camera, get_common_software(measured.captures)
    )
    size = select_common_size(measured.photos, fit.orientation)
    return DriftReport(
        measured.camera,
        len(measured.photos),
        (*metadata_shifts, *compare_photos(fit, measured.photos, size, rng, responses)),
        measured.other_cameras,
        {**excluded, **measured.skipped},
    )


def _compare_metadata(fit: CameraFit, camera: str, software_name: str) -> list[ParameterShift]:
    """Return shifts of camera name and software according to the files."""
    shifts = []
    if camera != fit.camera:
        note = f"{fit.camera} before, {camera} now"
        shifts.append(ParameterShift("camera", "camera and size", "drifted", note=note))
    if fit.software and software_name and software_name != fit.software:
        note = f"{fit.software} before, {software_name} now"
        shifts.append(ParameterShift("software", "camera software", "drifted", note=note))
    return shifts


def compare_photos(
    fit: CameraFit,
    photos: Sequence[PhotoMeasurements],
    image_size: tuple[int, int],
    rng: np.random.Generator,
    detector_statistics: Mapping[str, StatisticRows] = MappingProxyType({}),
) -> list[ParameterShift]:
    """Compare new photos of one size with a calibrated camera; see ``detect_drift``.

    Args:
        image_size: width and height of the photos, pixels.
        detector_statistics: statistics of a detector on the photos, by name.
    """
    has_other_size = sorted(image_size) != sorted((fit.width, fit.height))
    now = {**tabulate_statistics(photos), **detector_statistics}
    if has_other_size:
        now |= {stat.name: () for stat in CAMERA_STATISTICS if stat.is_size_dependent}
    orientation = fit.orientation or select_common_orientation(photos)
    boards, rotated = split_by_orientation(photos, orientation)
    lens = compare_lens(fit, boards, image_size, rng)
    if rotated and fit.lens is not None:
        note = _ROTATED_BOARDS_NOTE.format(len(rotated), orientation)
        lens = replace(lens, note=f"{lens.note} {note}".strip())
    shifts = classify_shifts([*compare_statistics(fit.statistics, now, rng), lens])
    if not has_other_size:
        return shifts
    sized = {stat.name for stat in CAMERA_STATISTICS if stat.is_size_dependent} | {LENS_NAME}
    return [replace(s, note=_SIZE_NOTE) if s.name in sized else s for s in shifts]


_ROTATED_BOARDS_NOTE = "Excluded: {} photos of a board with another EXIF orientation than {}."
_SIZE_NOTE = "the photos have another size. Take photos of the calibrated size, or calibrate again."


def compare_lens(
    fit: CameraFit,
    detections: Sequence[BoardDetection],
    image_size: tuple[int, int],
    rng: np.random.Generator,
) -> ParameterShift:
    """Compare the lens by Hotelling's T-squared test.

    Args:
        image_size: width and height of the photos, pixels.
    """
    counts = (fit.boards - len(fit.rotated_boards), len(detections))
    blank = ParameterShift(
        LENS_NAME, "lens", "undetermined", unit="px, mean over the image", photo_counts=counts
    )
    if fit.lens is None:
        return replace(blank, photo_counts=(0, counts[1]), note=_NO_LENS_NOTE)
    degrees_of_freedom = sum(counts) - 1 - len(fit.lens.parameter_names)
    if (
        image_size != (fit.width, fit.height)
        or counts[1] < MIN_BOARD_PHOTOS
        or degrees_of_freedom < 1
    ):
        return replace(blank, note=_FEW_BOARDS_NOTE)
    try:
        now = refit_lens(fit.lens, detections, image_size)
    except LensError:
        return replace(blank, note=_NO_FIT_NOTE.format(fit.lens.kind))
    parameters = np.array([getattr(now.lens, name) for name in fit.lens.parameter_names])
    difference, covariance = (
        parameters - fit.lens.parameter_values,
        np.array(fit.lens.covariance) + now.covariance,
    )
    unit = np.sqrt(np.diag(covariance))
    correlation = covariance / unit / unit[:, None]
    statistic = float(
        difference / unit @ np.linalg.pinv(correlation, hermitian=True) @ (difference / unit)
    )
    count, shift = len(difference), _compute_lens_shift_px(fit.lens, difference, image_size)
    scale = count * (sum(counts) - 2) / degrees_of_freedom
    p_value, bound = (
        float(f.sf(statistic / scale, count, degrees_of_freedom)),
        scale * f.isf(0.05, count, degrees_of_freedom),
    )
    if not np.isfinite(shift):
        return replace(blank, p_value=p_value, note=_PARTIAL_VIEW_NOTE)
    boundary_shifts = [
        _compute_lens_shift_px(fit.lens, sample, image_size)
        for sample in _sample_confidence_ellipsoid(difference, covariance, bound, rng)
    ]
    low = 0.0  # if the test does not reject zero shift
    if statistic > bound:
        nearest = _compute_lens_shift_px(
            fit.lens, difference * (1 - np.sqrt(bound / statistic)), image_size
        )
        low = float(np.nanmin([*boundary_shifts, shift, nearest]))
    ci95 = low, float(np.nanmax([*boundary_shifts, shift]))
    return replace(blank, shift=shift, ci95=ci95, p_value=p_value)


def _sample_confidence_ellipsoid(
    offset: Floats, covariance: Floats, bound: float, rng: np.random.Generator
) -> Floats:
    """Sample parameters (n, k) on the boundary of the confidence ellipsoid around ``offset``."""
    directions = rng.normal(size=(_ELLIPSOID_SAMPLES, len(offset)))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    values, axes = np.linalg.eigh(covariance)
    root = axes * np.sqrt(values.clip(0))
    return np.asarray(offset + np.sqrt(bound) * directions @ root.T)


_NO_LENS_NOTE = (
    "no lens was calibrated. Calibrate again, with 15 photos of a chessboard among the photos."
)
_FEW_BOARDS_NOTE = (
    "too few boards in the new photos. Take 15 photos of the calibrated board, spread over the "
    "image."
)
_NO_FIT_NOTE = (
    "no {} lens fits the corners of the boards. Take 15 photos of the board, spread over the image, "
    "or calibrate again."
)
_PARTIAL_VIEW_NOTE = (
    "the new lens does not cover the whole image. Take 15 photos of the board, also in every "
    "corner."
)


def _compute_lens_shift_px(lens: FittedLens, offset: Floats, image_size: tuple[int, int]) -> float:
    """Return the mean shift of image points for a parameter offset; NaN outside the lens domain."""
    x, y = (np.linspace(0, n - 1, _GRID_POINTS) for n in image_size)
    points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    try:
        shifted = replace(
            lens, parameter_values=tuple((np.array(lens.parameter_values) + offset).tolist())
        ).to_lens()
        pixels = shifted.project(lens.to_lens().unproject(points))
    except LensError:
        return float("nan")
    return float(np.linalg.norm(pixels - points, axis=1).mean())
