"""Drift: whether a camera is still what it was when it was calibrated.

Traits of photos are compared as in ``changes``, lenses by Hotelling's test of the numbers that boards
of then and of now give.
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
from sim2cam.scene.shape import Board

Floats = NDArray[np.float64]

_ELLIPSOID_SAMPLES = 100
_GRID_POINTS = 9  # points a side at which lenses are compared


@dataclass(frozen=True)
class DriftReport:
    """What became of a camera.

    Attributes:
        camera: what took the photos of now, as far as their files say.
        photos: how many of them were looked at.
        shifts: number by number; those that moved first, then by their p-values.
        other_cameras: how many captures other cameras took, by what took them.
        skipped: files that were left out, and why.
    """

    camera: str
    photos: int
    shifts: tuple[ParameterShift, ...]
    other_cameras: Mapping[str, int]
    skipped: Mapping[str, str]

    @property
    def drifted(self) -> tuple[str, ...]:
        """Names of what moved."""
        return tuple(change.name for change in self.shifts if change.status == "drifted")

    def to_json(self) -> dict[str, Any]:
        """Return all of it as JSON values, led by the names of what moved."""
        found: dict[str, Any] = json.loads(_ADAPTER.dump_json(self))
        return {"drifted": list(self.drifted), **found}


_ADAPTER: TypeAdapter[DriftReport] = TypeAdapter(DriftReport)


def detect_drift(
    fit: CameraFit,
    path: Path,
    board: Board | None,
    rng: np.random.Generator,
    progress: Callable[[int, int], None] = lambda done, total: None,
    monitor: DetectorMonitor | None = None,
) -> DriftReport:
    """Return what became of a camera since it was calibrated.

    Args:
        fit: of then.
        path: captures of now: a folder of photos, one photo, or as ``read_real_images`` takes them.
        board: of markers, in some of the photos; chessboards are found without.
        rng: exchanges and resamples photos.
        progress: is told how many photos are done, and of how many.
        monitor: a detector whose answers are compared too; None where none is asked.

    Raises:
        InputError: there is nothing there, or nothing that can be used.
        UsageError: the camera was not calibrated with that detector.
    """
    if monitor is not None and monitor.digest != fit.monitor_digest:
        which = "other weights" if fit.monitor_digest else "no detector"
        raise UsageError(
            f"--monitor: {which} answered of the photos of then. Calibrate again, with --monitor and these weights."
        )
    captures, refused = list_photo_files(path)
    seen = measure_one_camera(captures, board, progress, fit.camera)
    answers = monitor.measure_statistics(seen.photos, seen.captures) if monitor is not None else {}
    facts = _compare_metadata(fit, seen.camera, get_common_software(seen.captures))
    size = select_common_size(seen.photos, fit.orientation)
    return DriftReport(
        seen.camera,
        len(seen.photos),
        (*facts, *compare_photos(fit, seen.photos, size, rng, answers)),
        seen.other_cameras,
        {**refused, **seen.skipped},
    )


def _compare_metadata(fit: CameraFit, camera: str, software_name: str) -> list[ParameterShift]:
    """Return what the files say of the camera, where that is not what they said then."""
    found = []
    if camera != fit.camera:
        note = f"{fit.camera} then, {camera} now"
        found.append(ParameterShift("camera", "camera and size", "drifted", note=note))
    if fit.software and software_name and software_name != fit.software:
        note = f"{fit.software} then, {software_name} now"
        found.append(ParameterShift("software", "software of the camera", "drifted", note=note))
    return found


def compare_photos(
    fit: CameraFit,
    photos: Sequence[PhotoMeasurements],
    image_size: tuple[int, int],
    rng: np.random.Generator,
    detector_statistics: Mapping[str, StatisticRows] = MappingProxyType({}),
) -> list[ParameterShift]:
    """Return what became of a camera, as photos of one size show it; see ``drift``.

    Args:
        fit: of then.
        photos: of now.
        image_size: width and height of them, pixels.
        rng: exchanges and resamples photos.
        detector_statistics: what a detector says of them, as traits by name.
    """
    scaled = sorted(image_size) != sorted((fit.width, fit.height))
    now = {**tabulate_statistics(photos), **detector_statistics}
    if scaled:
        now |= {t.name: () for t in CAMERA_STATISTICS if t.is_size_dependent}
    orientation = fit.orientation or select_common_orientation(photos)
    boards, turned = split_by_orientation(photos, orientation)
    lens = compare_lens(fit, boards, image_size, rng)
    if turned and fit.lens is not None:
        note = _ROTATED_BOARDS_NOTE.format(len(turned), orientation)
        lens = replace(lens, note=f"{lens.note} {note}".strip())
    found = classify_shifts([*compare_statistics(fit.statistics, now, rng), lens])
    if not scaled:
        return found
    sized = {t.name for t in CAMERA_STATISTICS if t.is_size_dependent} | {LENS_NAME}
    return [replace(c, note=_SIZE_NOTE) if c.name in sized else c for c in found]


_ROTATED_BOARDS_NOTE = "Left out: {} photos of a board, as the camera was held another way (EXIF orientation {} is needed)."
_SIZE_NOTE = "the photos have another size. Take photos of the size of then, or calibrate again."


def compare_lens(
    fit: CameraFit,
    detections: Sequence[BoardDetection],
    image_size: tuple[int, int],
    rng: np.random.Generator,
) -> ParameterShift:
    """Return what became of the lens by Hotelling's test.

    Args:
        fit: of then.
        detections: of boards now.
        image_size: width and height of the photos, pixels.
        rng: draws lenses.
    """
    counts = (fit.boards - len(fit.rotated_boards), len(detections))
    blank = ParameterShift(
        LENS_NAME, "lens", "undetermined", unit="px, mean over the picture", photo_counts=counts
    )
    if fit.lens is None:
        return replace(blank, photo_counts=(0, counts[1]), note=_NO_LENS_NOTE)
    free = sum(counts) - 1 - len(fit.lens.parameter_names)
    if image_size != (fit.width, fit.height) or counts[1] < MIN_BOARD_PHOTOS or free < 1:
        return replace(blank, note=_FEW_BOARDS_NOTE)
    try:
        now = refit_lens(fit.lens, detections, image_size)
    except LensError:
        return replace(blank, note=_NO_FIT_NOTE.format(fit.lens.kind))
    numbers = np.array([getattr(now.lens, name) for name in fit.lens.parameter_names])
    off, spread = (
        numbers - fit.lens.parameter_values,
        np.array(fit.lens.covariance) + now.covariance,
    )
    unit = np.sqrt(np.diag(spread))
    correlation = spread / unit / unit[:, None]
    statistic = float(off / unit @ np.linalg.pinv(correlation, hermitian=True) @ (off / unit))
    count, shift = len(off), _compute_lens_shift_px(fit.lens, off, image_size)
    scale = count * (sum(counts) - 2) / free
    p_value, bound = float(f.sf(statistic / scale, count, free)), scale * f.isf(0.05, count, free)
    if not np.isfinite(shift):
        return replace(blank, p_value=p_value, note=_PARTIAL_VIEW_NOTE)
    edge = [
        _compute_lens_shift_px(fit.lens, moved, image_size)
        for moved in _sample_confidence_ellipsoid(off, spread, bound, rng)
    ]
    low = 0.0  # where the test does not refuse that nothing moved
    if statistic > bound:
        nearest = _compute_lens_shift_px(
            fit.lens, off * (1 - np.sqrt(bound / statistic)), image_size
        )
        low = float(np.nanmin([*edge, shift, nearest]))
    ci95 = low, float(np.nanmax([*edge, shift]))
    return replace(blank, shift=shift, ci95=ci95, p_value=p_value)


def _sample_confidence_ellipsoid(
    offset: Floats, covariance: Floats, bound: float, rng: np.random.Generator
) -> Floats:
    """Return numbers (n, k) at the edge of what a test does not refuse: where Hotelling's statistic of their
    distance to ``offset`` is the bound.
    """
    directions = rng.normal(size=(_ELLIPSOID_SAMPLES, len(offset)))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    values, axes = np.linalg.eigh(covariance)
    root = axes * np.sqrt(values.clip(0))
    return np.asarray(offset + np.sqrt(bound) * directions @ root.T)


_NO_LENS_NOTE = "not known then. Calibrate again, with 15 photos of a chessboard among the others."
_FEW_BOARDS_NOTE = "too few boards now. Take 15 photos of the board of then, all over the picture."


_NO_FIT_NOTE = (
    "no {} lens, as it was then, explains where corners of the boards are seen now. Take 15 photos of the board, "
    "all over the picture, or calibrate again."
)
_PARTIAL_VIEW_NOTE = "the lens of now does not see the whole picture. Take 15 photos of the board, into every corner."


def _compute_lens_shift_px(lens: FittedLens, offset: Floats, image_size: tuple[int, int]) -> float:
    """Return how far points of a picture move when a lens's numbers do; NaN if it cannot see them."""
    x, y = (np.linspace(0, n - 1, _GRID_POINTS) for n in image_size)
    points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    try:
        seen = replace(
            lens, parameter_values=tuple((np.array(lens.parameter_values) + offset).tolist())
        ).to_lens()
        found = seen.project(lens.to_lens().unproject(points))
    except LensError:
        return float("nan")
    return float(np.linalg.norm(found - points, axis=1).mean())
