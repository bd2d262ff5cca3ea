"""Calibration of a camera from photos: lens, sensor, shutter and statistics for drift."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.adapt.calibration.board_corners import BoardDetection, detect_marker_dictionary
from sim2cam.adapt.calibration.camera_features import tabulate_statistics
from sim2cam.adapt.calibration.camera_fit import CameraFit, ParameterEstimate
from sim2cam.adapt.calibration.detector_drift import DetectorMonitor
from sim2cam.adapt.calibration.estimates import (
    MIN_CALIBRATION_PHOTOS,
    MONTE_CARLO_SAMPLES,
    compute_photo_std,
    estimate_from_samples,
    estimate_parameter,
    format_too_few,
)
from sim2cam.adapt.calibration.jpeg import JpegEncoding
from sim2cam.adapt.calibration.lens import MIN_BOARD_PHOTOS, FittedLens, fit_lens
from sim2cam.adapt.calibration.linearization import SATURATION, TONE_CONTRAST
from sim2cam.adapt.calibration.photo_measurements import (
    PhotoFile,
    PhotoMeasurements,
    get_common_software,
    list_photo_files,
    measure_one_camera,
    open_photo_files,
    select_common_orientation,
    select_common_size,
    split_by_orientation,
)
from sim2cam.adapt.calibration.sensor import (
    FITTED_COLOR_PARAMETERS,
    FITTED_PARAMETERS,
    RESPONSE_PARAMETERS,
    SensorFit,
    fit_sensor,
)
from sim2cam.adapt.calibration.shutter import estimate_shutter
from sim2cam.errors import LensError
from sim2cam.objects.board import Board
from sim2cam.scene.sensor import Sensor, Subsampling

Floats = NDArray[np.float64]
SensorSamples = dict[str, tuple[float, ...]]

_LOSSLESS_QUALITY = 100  # assumed of files that are not JPEG

_NO_BOARD_NOTE = (
    "too few photos show a board. Print a chessboard (such as 9 x 6 squares) and take 15 photos of "
    "it: tilted in each direction, near and far, in every corner of the image."
)
_MIXED_ORIENTATIONS_NOTE = (
    "of {} photos of a board at most {} have the same EXIF orientation, and {} are required. Take "
    "15 photos without turning the camera."
)
_NO_EVEN_LIGHT_NOTE = (
    "no evenly lit areas. Take photos of a plain wall or a clear sky, half of them with the camera "
    "upside down."
)
_NO_EDGES_NOTE = (
    "too few clear edges between black and white. Take photos of print or of a chessboard."
)
_UNDETERMINED_NOISE_NOTE = (
    "the remaining noise fits many sensors. Take JPEGs of highest quality of a grey wall, also in "
    "dim light."
)
_UNDETERMINED_BLUR_NOTE = (
    "the edges fit many cameras. Take sharp photos of print or of a chessboard, of highest quality."
)
_UNDETERMINED_COLOR_NOISE_NOTE = (
    "the remaining colour noise fits many sensors. Take JPEGs of highest quality of a grey wall."
)
_GREYSCALE_NOTE = "the photos have no colour. Take colour photos."
_BLACK_NOTE = "the photos are black. Take them with more light."
_CLIPPED_NOTE = "all pixels are black or white. Take photos with automatic exposure."
_METERED_NOTE = "relative to the auto exposure of the renderer"
_NO_JPEG_NOTE = (
    "the files are not JPEG, and their pixels show no trace of it. If the camera writes JPEG "
    "files, use those."
)
_FROM_PIXELS_NOTE = "estimated from the pixels of a former JPEG"
_EVEN_COLORS_NOTE = (
    "the colours are too uniform to estimate it. Use the files as the camera writes them."
)
_UNKNOWN_SUBSAMPLING_NOTE = (
    "chroma subsampling is not 4:4:4, 4:2:2 or 4:2:0. Use the files as the camera writes them."
)
_TONE_CONTRAST_NOTE = (
    "not estimated: the sRGB curve with a contrast of {:g} to {:g} around middle grey is assumed, "
    "and intervals cover this range. Set it in the recipe if known."
)
_TONE_SHOULDER_NOTE = (
    "not estimated: a roll-off of light above {:g} is assumed. Set it in the recipe if known."
)
_SATURATION_NOTE = (
    "not estimated: {:g} to {:g} is assumed, and intervals cover this range. Set it in the recipe "
    "if known."
)
_NO_MATCHING_SENSOR_NOTE = (
    "no simulated sensor reproduces the noise and edges of these photos. Take JPEGs of highest "
    "quality of a grey wall and of print, without camera filters."
)
_UNBOUNDED_NOTE = "the interval reaches the limit of the prior, so it is omitted"
_SCENE_WHITE_NOTE = "includes colours and light of the scenes, because no white reference is known"
_EQUAL_RESPONSES_NOTE = "assumes equal responses of all colour channels"
_LOW_COVERAGE_NOTE = "no board near the corners of the image. Take photos with the board there."

_MIN_CORNER_COVERAGE = 0.75
_SCENE_FALLOFF = 0.06
"""Vignetting that scenes alone can cause: 0.04 to 0.05 in renders of boards, measured."""
_LOG_LIGHT_PER_LEVEL = 0.016  # at medium levels, for a gamma of 2.2
_LEVELS_PER_QUANTIZATION_STEP = 2.1 / 16
"""Levels of blue minus green for half a quantization step of the chroma DC coefficient (8x8)."""
_FRINGE_RETENTION = (0.6, 1.05)
"""Share of fringes left by denoising and JPEG: most values of 17 hidden cameras, measured."""


def calibrate(
    path: Path,
    board: Board | None,
    rng: np.random.Generator,
    progress: Callable[[int, int], None] = lambda done, total: None,
    monitor: DetectorMonitor | None = None,
) -> CameraFit:
    """Calibrate the camera that took most of the photos.

    Args:
        path: folder of photos, one photo, or real images as ``read_real_images`` accepts them.
        board: marker board in some of the photos; chessboards are detected without it.
        progress: called with the number of finished photos and of all photos.
        monitor: detector whose responses are recorded for drift detection; default none.

    Raises:
        InputError: if there are no usable photos.
    """
    return _calibrate_captures(*list_photo_files(path), board, rng, progress, monitor)


def calibrate_files(files: Iterable[Path], path: Path, rng: np.random.Generator) -> CameraFit:
    """Calibrate the camera that took most of the given photos; see ``calibrate``.

    Args:
        files: photos, in which chessboards are detected.

    Raises:
        InputError: if no photo is usable.
    """
    return _calibrate_captures(*open_photo_files(files, path), None, rng, lambda done, total: None)


def _calibrate_captures(
    captures: Sequence[PhotoFile],
    skipped: Mapping[str, str],
    board: Board | None,
    rng: np.random.Generator,
    progress: Callable[[int, int], None],
    monitor: DetectorMonitor | None = None,
) -> CameraFit:
    measured = measure_one_camera(captures, board, progress)
    photos, camera_files = measured.photos, measured.captures
    orientation = select_common_orientation(photos)
    size = select_common_size(photos, orientation)
    boards, rotated_boards = split_by_orientation(photos, orientation)
    lens, lens_estimates = _estimate_lens(photos, boards, size, rng, camera_files, board)
    sensor_estimates, sensor_samples = _estimate_sensor(photos, camera_files, rng)
    responses = monitor.measure_statistics(photos, camera_files) if monitor is not None else {}
    return CameraFit(
        measured.camera,
        *size,
        photos=len(photos),
        boards=len(boards) + len(rotated_boards),
        estimates=(
            *lens_estimates,
            *sensor_estimates,
            *_estimate_lateral_color(photos, rng),
            *estimate_shutter(photos, camera_files, lens, rng),
        ),
        lens=lens,
        sensor_samples=sensor_samples,
        border_px=_compute_common_border(photos),
        max_level=max(photo.max_level for photo in photos),
        other_cameras=measured.other_cameras,
        skipped={**skipped, **measured.skipped},
        software=get_common_software(camera_files),
        statistics={**tabulate_statistics(photos), **responses},
        orientation=orientation if lens is not None else None,
        rotated_boards=rotated_boards if lens is not None else {},
        monitor_digest=monitor.digest if monitor is not None else "",
    )


def _compute_common_border(photos: Sequence[PhotoMeasurements]) -> tuple[int, int, int, int]:
    left, top, right, bottom = np.min([photo.border_px for photo in photos], axis=0).tolist()
    return left, top, right, bottom


def _estimate_lens(
    photos: Sequence[PhotoMeasurements],
    detections: Sequence[BoardDetection],
    image_size: tuple[int, int],
    rng: np.random.Generator,
    captures: Sequence[PhotoFile],
    board: Board | None,
) -> tuple[FittedLens | None, list[ParameterEstimate]]:
    """Return the lens and its parameters; with a note instead if there are too few boards."""
    if len(detections) < MIN_BOARD_PHOTOS:
        note = _explain_missing_lens(photos, len(detections), captures, board)
        return None, [ParameterEstimate("lens.fx_px", None, note=note)]
    try:
        lens = fit_lens(detections, image_size, rng)
    except LensError as error:
        return None, [
            ParameterEstimate("lens.fx_px", None, note=f"{error}. Take new photos of the board.")
        ]
    note = "" if lens.corner_coverage > _MIN_CORNER_COVERAGE else _LOW_COVERAGE_NOTE
    half_widths = 1.96 * np.sqrt(np.diag(lens.covariance))
    parameters = zip(lens.parameter_names, lens.parameter_values, half_widths.tolist(), strict=True)
    return lens, [
        ParameterEstimate(
            f"lens.{name}", value, (value - half_width, value + half_width), note=note
        )
        for name, value, half_width in parameters
    ]


def _explain_missing_lens(
    photos: Sequence[PhotoMeasurements],
    usable_boards: int,
    captures: Sequence[PhotoFile],
    board: Board | None,
) -> str:
    """Return why there are too few boards: changes of orientation or undescribed markers."""
    detected = sum(photo.board_detection is not None for photo in photos)
    if detected >= MIN_BOARD_PHOTOS:
        return _MIXED_ORIENTATIONS_NOTE.format(detected, usable_boards, MIN_BOARD_PHOTOS)
    if board is None:
        path = next(c.path for c in captures if c.name == photos[0].name)
        name = detect_marker_dictionary(np.ascontiguousarray(images.read_rgb(path)[..., 1]))
        if name:
            return f"markers of {name} are visible. Describe the board with --board."
    return _NO_BOARD_NOTE


def _estimate_sensor(
    photos: Sequence[PhotoMeasurements], captures: Sequence[PhotoFile], rng: np.random.Generator
) -> tuple[list[ParameterEstimate], SensorSamples]:
    """Return the estimates of the sensor parameters, and samples of sensors that fit."""
    encodings = [photo.jpeg_encoding for photo in photos if photo.jpeg_encoding is not None]
    qualities = [encoding.quality for encoding in encodings]
    quality = round(np.median(qualities)) if qualities else _LOSSLESS_QUALITY
    subsampling = _estimate_subsampling(encodings)
    contrast = rng.uniform(*TONE_CONTRAST, MONTE_CARLO_SAMPLES)
    white_gains = _estimate_white_balance(photos, rng)
    exposure = _estimate_exposure(photos, 1 / contrast, white_gains, rng)
    vignetting = _estimate_vignetting(photos, 1 / contrast, rng)
    noise_and_sharpness, samples = _estimate_noise_and_sharpness(
        photos, quality, subsampling or "444", white_gains, rng
    )
    if samples and exposure.ci95 is not None:
        contrasts = np.array(samples["sensor.tone_contrast"])
        samples["sensor.exposure_ev"] = tuple(
            _sample_exposures(photos, contrasts, white_gains, rng).tolist()
        )
    return [
        exposure,
        *white_gains,
        vignetting,
        *noise_and_sharpness,
        ParameterEstimate(
            "sensor.tone_contrast", None, note=_TONE_CONTRAST_NOTE.format(*TONE_CONTRAST)
        ),
        ParameterEstimate(
            "sensor.tone_shoulder", None, note=_TONE_SHOULDER_NOTE.format(Sensor.tone_shoulder)
        ),
        ParameterEstimate("sensor.saturation", None, note=_SATURATION_NOTE.format(*SATURATION)),
        ParameterEstimate(
            "sensor.file_format", "jpeg" if encodings else "png", note=_get_source_note(encodings)
        ),
        _estimate_quality(encodings),
        ParameterEstimate(
            "sensor.processing.jpeg_subsampling",
            subsampling,
            note=_get_source_note(encodings)
            if subsampling
            else _explain_missing_subsampling(captures, encodings),
        ),
    ], samples


def _estimate_exposure(
    photos: Sequence[PhotoMeasurements],
    factors: Floats,
    white_gains: Sequence[ParameterEstimate],
    rng: np.random.Generator,
) -> ParameterEstimate:
    """Return the exposure.

    Contrast pivots around middle grey, so it scales the distance of the metered light to middle
    grey.
    """
    stops, over_grey = _compute_exposure_stops(photos, white_gains)
    estimate = estimate_parameter("sensor.exposure_ev", stops, rng, factors, _BLACK_NOTE, over_grey)
    if estimate.ci95 is None:
        return estimate
    return replace(
        estimate,
        photo_std=compute_photo_std([photo.exposure_ev for photo in photos]),
        note=_METERED_NOTE,
    )


def _sample_exposures(
    photos: Sequence[PhotoMeasurements],
    contrasts: Floats,
    white_gains: Sequence[ParameterEstimate],
    rng: np.random.Generator,
) -> Floats:
    """Return exposures (n,) that match the photos' brightness for the given contrasts (n,)."""
    stops = np.stack(_compute_exposure_stops(photos, white_gains))
    finite = stops[:, np.isfinite(stops[0])]
    indices = rng.integers(finite.shape[1], size=(len(contrasts), finite.shape[1]))
    metered, over_grey = finite[:, indices]
    return np.asarray(np.median(metered + over_grey * (1 / contrasts - 1)[:, None], axis=1))


def _compute_exposure_stops(
    photos: Sequence[PhotoMeasurements], white_gains: Sequence[ParameterEstimate]
) -> tuple[Floats, Floats]:
    """Return exposure and metered light over middle grey of photos (photos,), in stops.

    Errors of the white balance are removed from the exposure.
    """
    gains = [gain.value if isinstance(gain.value, float) else 1.0 for gain in white_gains]
    white_balance_stops = np.log2((1 + sum(gains)) / 3)
    return (
        np.array([photo.exposure_ev for photo in photos]) - white_balance_stops,
        np.array([photo.grey_ev for photo in photos]),
    )


def _estimate_vignetting(
    photos: Sequence[PhotoMeasurements], factors: Floats, rng: np.random.Generator
) -> ParameterEstimate:
    """Return the vignetting; the interval allows for falloff of the scenes themselves."""
    estimate = estimate_parameter(
        "sensor.vignetting", [p.vignetting for p in photos], rng, factors, _NO_EVEN_LIGHT_NOTE
    )
    if estimate.ci95 is None:
        return estimate
    low, high = estimate.ci95
    return replace(estimate, ci95=(low - _SCENE_FALLOFF, high + _SCENE_FALLOFF))


def _estimate_subsampling(encodings: Sequence[JpegEncoding]) -> Subsampling | None:
    """Return the most frequent chroma subsampling, ignoring pixels from which it is unknown."""
    counts = Counter(
        encoding.subsampling
        for encoding in encodings
        if encoding.subsampling or not encoding.is_from_pixels
    )
    return counts.most_common(1)[0][0] if counts else None


def _explain_missing_subsampling(
    captures: Sequence[PhotoFile], encodings: Sequence[JpegEncoding]
) -> str:
    """Return why the chroma subsampling is unknown."""
    if not encodings:
        return _NO_JPEG_NOTE
    if all(capture.header.is_grey for capture in captures):
        return _GREYSCALE_NOTE
    return _EVEN_COLORS_NOTE if encodings[0].is_from_pixels else _UNKNOWN_SUBSAMPLING_NOTE


def _estimate_quality(encodings: Sequence[JpegEncoding]) -> ParameterEstimate:
    if not encodings:
        return ParameterEstimate("sensor.jpeg_quality", None, note=_NO_JPEG_NOTE)
    qualities = [encoding.quality for encoding in encodings]
    median, note = float(np.median(qualities)), _get_source_note(encodings)
    return ParameterEstimate(
        "sensor.jpeg_quality", median, (median, median), compute_photo_std(qualities), note
    )


def _get_source_note(encodings: Sequence[JpegEncoding]) -> str:
    return _FROM_PIXELS_NOTE if encodings and encodings[0].is_from_pixels else ""


def _estimate_white_balance(
    photos: Sequence[PhotoMeasurements], rng: np.random.Generator
) -> list[ParameterEstimate]:
    """Return the gains of red and blue from white boards, otherwise from the scenes."""
    boards = np.array([photo.board_white for photo in photos])
    on_boards = int(np.isfinite(boards).all(axis=1).sum()) >= MIN_BOARD_PHOTOS
    values = np.log(boards if on_boards else np.array([photo.metered_white for photo in photos]))
    contrast = rng.uniform(*TONE_CONTRAST, MONTE_CARLO_SAMPLES) * rng.uniform(
        *SATURATION, MONTE_CARLO_SAMPLES
    )
    note = "" if on_boards else _SCENE_WHITE_NOTE
    missing = _CLIPPED_NOTE if any(photo.is_color for photo in photos) else _GREYSCALE_NOTE
    rounding_error = _estimate_rounding_error(photos)
    estimates: list[ParameterEstimate] = []
    for i, name in enumerate(("sensor.red_gain", "sensor.blue_gain")):
        estimate = estimate_parameter(name, values[:, i], rng, 1 / contrast, missing)
        if estimate.ci95 is not None and isinstance(estimate.value, float):
            low, high = estimate.ci95
            bounds = low - rounding_error, high + rounding_error
            value, low, high = np.exp([estimate.value, *bounds]).tolist()
            estimate = ParameterEstimate(
                name, value, (low, high), value * (compute_photo_std(values[:, i]) or 0.0), note
            )
        estimates.append(estimate)
    return estimates


def _estimate_rounding_error(photos: Sequence[PhotoMeasurements]) -> float:
    """Return the error of a log ratio of light due to rounding and JPEG chroma quantization."""
    steps = [p.header.quantization[1][0] for p in photos if len(p.header.quantization) > 1]
    return _LOG_LIGHT_PER_LEVEL * (
        0.5 + _LEVELS_PER_QUANTIZATION_STEP * float(np.median(steps or [0]))
    )


def _estimate_noise_and_sharpness(
    photos: Sequence[PhotoMeasurements],
    quality: int,
    subsampling: Subsampling,
    white_gains: Sequence[ParameterEstimate],
    rng: np.random.Generator,
) -> tuple[list[ParameterEstimate], SensorSamples]:
    """Return estimates of noise, filters and sharpness, and samples of sensors that fit.

    Args:
        white_gains: gains of red and blue, which relate noise ratios to channel responses.
    """
    names = (*FITTED_PARAMETERS, *FITTED_COLOR_PARAMETERS)
    if len(photos) < MIN_CALIBRATION_PHOTOS:
        return [
            ParameterEstimate(_get_parameter_path(name), None, note=format_too_few(len(photos)))
            for name in names
        ], {}
    fit = fit_sensor([photo.sensor_features for photo in photos], quality, subsampling, rng)
    marginals, joint_samples = fit.samples, fit.joint_samples
    response_note = "" if RESPONSE_PARAMETERS[0] in marginals else _EQUAL_RESPONSES_NOTE
    for name, gain in zip(RESPONSE_PARAMETERS, white_gains, strict=True):
        if isinstance(gain.value, float) and gain.ci95 is not None:
            std = float(np.log(gain.ci95[1] / gain.ci95[0])) / (2 * 1.96)
            for samples in (marginals, joint_samples):
                if name in samples:
                    log_errors = rng.normal(0.0, std, len(samples[name]))
                    samples[name] = samples[name] * gain.value * np.exp(log_errors)
    reasons = _explain_undetermined(fit, is_color=any(photo.is_color for photo in photos))
    notes = {"full_well_e": response_note, "read_noise_e": response_note}
    estimates: list[ParameterEstimate] = []
    for name in names:
        if name not in marginals:
            estimates.append(ParameterEstimate(_get_parameter_path(name), None, note=reasons[name]))
            continue
        estimate = replace(
            estimate_from_samples(_get_parameter_path(name), marginals[name]),
            note=notes.get(name, ""),
        )
        if name in fit.unbounded:
            estimate = replace(estimate, ci95=None, note=f"{_UNBOUNDED_NOTE}: {reasons[name]}")
        estimates.append(estimate)
    return estimates, {
        _get_parameter_path(name): tuple(values.tolist()) for name, values in joint_samples.items()
    }


def _explain_undetermined(fit: SensorFit, *, is_color: bool) -> dict[str, str]:
    """Return for each sensor parameter why photos do not determine it, and what to take."""
    reasons = dict.fromkeys(FITTED_PARAMETERS, _UNDETERMINED_NOISE_NOTE) | dict.fromkeys(
        FITTED_COLOR_PARAMETERS, _UNDETERMINED_COLOR_NOISE_NOTE
    )
    reasons |= dict.fromkeys(("sharpening", "blur_px"), _UNDETERMINED_BLUR_NOTE)
    for names, is_consistent in zip(
        (FITTED_PARAMETERS, FITTED_COLOR_PARAMETERS), fit.is_consistent, strict=True
    ):
        reasons |= {} if is_consistent else dict.fromkeys(names, _NO_MATCHING_SENSOR_NOTE)
    return (
        reasons if is_color else reasons | dict.fromkeys(FITTED_COLOR_PARAMETERS, _GREYSCALE_NOTE)
    )


def _get_parameter_path(name: str) -> str:
    """Return the path of a sensor parameter in a camera."""
    part = "sensor.processing" if name == "chroma_blur_px" else "sensor"
    return f"{part}.{name}"


def _estimate_lateral_color(
    photos: Sequence[PhotoMeasurements], rng: np.random.Generator
) -> list[ParameterEstimate]:
    visible_share = rng.uniform(*SATURATION, MONTE_CARLO_SAMPLES) * rng.uniform(
        *_FRINGE_RETENTION, MONTE_CARLO_SAMPLES
    )
    fringes = np.array([photo.lateral_color for photo in photos])
    missing = _NO_EDGES_NOTE if any(photo.is_color for photo in photos) else _GREYSCALE_NOTE
    return [
        estimate_parameter(
            f"glass.lateral_color.{name}", fringes[:, i], rng, 1 / visible_share, missing
        )
        for i, name in enumerate(("red", "blue"))
    ]
