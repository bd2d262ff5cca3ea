"""Calibration: from captures to all that they tell of the camera that took them."""

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
from sim2cam.scene.sensor import Sensor, Subsampling
from sim2cam.scene.shape import Board

Floats = NDArray[np.float64]
SensorSamples = dict[str, tuple[float, ...]]

_LOSSLESS_QUALITY = 100  # of files that are no JPEG

_NO_BOARD_NOTE = (
    "no board in enough photos. Print a chessboard (9 x 6 squares, say) and take 15 photos of it: tilted "
    "each way, near and far, in every corner of the picture."
)
_MIXED_ORIENTATIONS_NOTE = (
    "of {} photos of a board no more than {} have one EXIF orientation, {} are needed. Take 15 photos of it "
    "with the camera held one way."
)
_NO_EVEN_LIGHT_NOTE = (
    "nothing evenly lit. Take photos of a plain wall or a clear sky, and of it turned by a half."
)
_NO_EDGES_NOTE = "too few clear edges of black and white. Take photos of print, or of a chessboard."
_UNDETERMINED_NOISE_NOTE = (
    "the noise that is left fits many sensors. Take JPEGs of highest quality, in dim light too, of a "
    "grey wall."
)
_UNDETERMINED_BLUR_NOTE = "the edges fit many cameras. Take photos of print or of a chessboard, sharp and of highest quality."
_UNDETERMINED_COLOR_NOISE_NOTE = "the noise of colours that is left fits many sensors. Take JPEGs of highest quality of a grey wall."
_GREYSCALE_NOTE = "the photos have no colour. Take them in colour."
_BLACK_NOTE = "the photos are black. Take them in light."
_CLIPPED_NOTE = "the photos are black or white all over. Take them as the camera exposes them."
_METERED_NOTE = "as the renderer's meter sees the scenes"
_NO_JPEG_NOTE = "the files are no JPEG, and their pixels show no trace of one. If the camera writes JPEG files, take those."
_FROM_PIXELS_NOTE = "told from the pixels, which were a JPEG once"
_EVEN_COLORS_NOTE = (
    "the pixels' colours are too even to tell. Take the files as the camera writes them."
)
_UNKNOWN_SUBSAMPLING_NOTE = "colours are stored in another way than 4:4:4, 4:2:2 or 4:2:0. Take the files as the camera writes them."
_TONE_CONTRAST_NOTE = (
    "no photos tell it yet: sRGB's curve is taken, bent around middle grey by {:g} to {:g}, and intervals hold "
    "for all of that. Where it is known, set it in the recipe."
)
_TONE_SHOULDER_NOTE = (
    "no photos tell it yet: it is taken that light above {:g} is rolled off. Where it is known, set it in the "
    "recipe."
)
_SATURATION_NOTE = (
    "no photos tell it yet: {:g} to {:g} is taken, and intervals hold for all of that. Where it is known, set "
    "it in the recipe."
)
_NO_MATCHING_SENSOR_NOTE = (
    "no sensor that is tried shows noise and edges as these photos do. Take JPEGs of highest quality of a grey "
    "wall and of print, with the camera's filters off."
)
_UNBOUNDED_NOTE = (
    "its interval reaches the end of what is tried, and may go on beyond, so none is given"
)


def calibrate(
    path: Path,
    board: Board | None,
    rng: np.random.Generator,
    progress: Callable[[int, int], None] = lambda done, total: None,
    monitor: DetectorMonitor | None = None,
) -> CameraFit:
    """Return what captures tell of the camera that took most of them.

    Args:
        path: a folder of photos, one photo, or captures as ``read_real_images`` takes them.
        board: of markers, in some of the photos; chessboards are found without.
        rng: resamples photos and draws cameras.
        progress: is told how many photos are done, and of how many.
        monitor: a detector whose answers are kept for drift; None where none is asked.

    Raises:
        InputError: there is nothing there, or nothing that can be used.
    """
    return _calibrate_captures(*list_photo_files(path), board, rng, progress, monitor)


def calibrate_files(files: Iterable[Path], path: Path, rng: np.random.Generator) -> CameraFit:
    """Return what photos tell of the camera that took most of them; see ``calibrate``.

    Args:
        files: of the photos; chessboards are found in them.
        path: where they come from, for errors.
        rng: resamples photos and draws cameras.

    Raises:
        InputError: there is nothing that can be used.
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
    seen = measure_one_camera(captures, board, progress)
    photos, own = seen.photos, seen.captures
    orientation = select_common_orientation(photos)
    size = select_common_size(photos, orientation)
    boards, turned = split_by_orientation(photos, orientation)
    lens, lens_findings = _estimate_lens(photos, boards, size, rng, own, board)
    sensor_findings, sensors = _estimate_sensor(photos, own, rng)
    answers = monitor.measure_statistics(photos, own) if monitor is not None else {}
    return CameraFit(
        seen.camera,
        *size,
        photos=len(photos),
        boards=len(boards) + len(turned),
        estimates=(
            *lens_findings,
            *sensor_findings,
            *_estimate_lateral_color(photos, rng),
            *estimate_shutter(photos, own, lens, rng),
        ),
        lens=lens,
        sensor_samples=sensors,
        border_px=_compute_common_border(photos),
        max_level=max(photo.max_level for photo in photos),
        other_cameras=seen.other_cameras,
        skipped={**skipped, **seen.skipped},
        software=get_common_software(own),
        statistics={**tabulate_statistics(photos), **answers},
        orientation=orientation if lens is not None else None,
        rotated_boards=turned if lens is not None else {},
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
    """Return the lens and its numbers; with a word why not where there are too few boards."""
    if len(detections) < MIN_BOARD_PHOTOS:
        note = _explain_missing_lens(photos, len(detections), captures, board)
        return None, [ParameterEstimate("lens.fx_px", None, note=note)]
    try:
        lens = fit_lens(detections, image_size, rng)
    except LensError as error:
        return None, [
            ParameterEstimate(
                "lens.fx_px", None, note=f"{error}. Take the photos of the board anew."
            )
        ]
    note = "" if lens.corner_coverage > _MIN_CORNER_COVERAGE else _LOW_COVERAGE_NOTE
    spreads = 1.96 * np.sqrt(np.diag(lens.covariance))
    numbers = zip(lens.parameter_names, lens.parameter_values, spreads.tolist(), strict=True)
    return lens, [
        ParameterEstimate(f"lens.{name}", value, (value - spread, value + spread), note=note)
        for name, value, spread in numbers
    ]


_MIN_CORNER_COVERAGE = 0.75
_LOW_COVERAGE_NOTE = (
    "boards stay away from the corners of the picture. Take photos with the board there."
)


def _explain_missing_lens(
    photos: Sequence[PhotoMeasurements],
    usable_boards: int,
    captures: Sequence[PhotoFile],
    board: Board | None,
) -> str:
    """Return why there are so few boards: perhaps the camera was turned between, or they have markers and
    were not told.
    """
    seen = sum(photo.board_detection is not None for photo in photos)
    if seen >= MIN_BOARD_PHOTOS:
        return _MIXED_ORIENTATIONS_NOTE.format(seen, usable_boards, MIN_BOARD_PHOTOS)
    if board is None:
        path = next(c.path for c in captures if c.name == photos[0].name)
        name = detect_marker_dictionary(np.ascontiguousarray(images.read_rgb(path)[..., 1]))
        if name:
            return f"markers of {name} are seen. Tell the board with --board."
    return _NO_BOARD_NOTE


def _estimate_sensor(
    photos: Sequence[PhotoMeasurements], captures: Sequence[PhotoFile], rng: np.random.Generator
) -> tuple[list[ParameterEstimate], SensorSamples]:
    """Return the numbers of the sensor, and the sensors that may be it."""
    stored = [photo.jpeg_encoding for photo in photos if photo.jpeg_encoding is not None]
    quality = round(np.median([one.quality for one in stored])) if stored else _LOSSLESS_QUALITY
    subsampling = _estimate_subsampling(stored)
    contrast = rng.uniform(*TONE_CONTRAST, MONTE_CARLO_SAMPLES)
    white = _estimate_white_balance(photos, rng)
    exposure = _estimate_exposure(photos, 1 / contrast, white, rng)
    vignetting = _estimate_vignetting(photos, 1 / contrast, rng)
    drawn, sensors = _estimate_noise_and_sharpness(
        photos, quality, subsampling or "444", white, rng
    )
    if sensors and exposure.ci95 is not None:
        contrasts = np.array(sensors["sensor.tone_contrast"])
        sensors["sensor.exposure_ev"] = tuple(
            _sample_exposures(photos, contrasts, white, rng).tolist()
        )
    return [
        exposure,
        *white,
        vignetting,
        *drawn,
        ParameterEstimate(
            "sensor.tone_contrast", None, note=_TONE_CONTRAST_NOTE.format(*TONE_CONTRAST)
        ),
        ParameterEstimate(
            "sensor.tone_shoulder", None, note=_TONE_SHOULDER_NOTE.format(Sensor.tone_shoulder)
        ),
        ParameterEstimate("sensor.saturation", None, note=_SATURATION_NOTE.format(*SATURATION)),
        ParameterEstimate(
            "sensor.file_format", "jpeg" if stored else "png", note=_get_source_note(stored)
        ),
        _estimate_quality(stored),
        ParameterEstimate(
            "sensor.processing.jpeg_subsampling",
            subsampling,
            note=_get_source_note(stored)
            if subsampling
            else _explain_missing_subsampling(captures, stored),
        ),
    ], sensors


def _estimate_exposure(
    photos: Sequence[PhotoMeasurements],
    factors: Floats,
    white_gains: Sequence[ParameterEstimate],
    rng: np.random.Generator,
) -> ParameterEstimate:
    """Return the exposure. Contrast bends light around middle grey, so what is told is multiplied there."""
    stops, over_grey = _compute_exposure_stops(photos, white_gains)
    found = estimate_parameter("sensor.exposure_ev", stops, rng, factors, _BLACK_NOTE, over_grey)
    if found.ci95 is None:
        return found
    return replace(
        found,
        photo_std=compute_photo_std([photo.exposure_ev for photo in photos]),
        note=_METERED_NOTE,
    )


def _sample_exposures(
    photos: Sequence[PhotoMeasurements],
    contrasts: Floats,
    white_gains: Sequence[ParameterEstimate],
    rng: np.random.Generator,
) -> Floats:
    """Return the exposures (n,) with which cameras of these contrasts (n,) show photos as bright as they are."""
    stops = np.stack(_compute_exposure_stops(photos, white_gains))
    known = stops[:, np.isfinite(stops[0])]
    picks = rng.integers(known.shape[1], size=(len(contrasts), known.shape[1]))
    plain, over_grey = known[:, picks]
    return np.asarray(np.median(plain + over_grey * (1 / contrasts - 1)[:, None], axis=1))


def _compute_exposure_stops(
    photos: Sequence[PhotoMeasurements], white_gains: Sequence[ParameterEstimate]
) -> tuple[Floats, Floats]:
    """Return the exposures (photos,) without what errors of the white balance add, and how many stops over
    middle grey each was told at.
    """
    gains = [gain.value if isinstance(gain.value, float) else 1.0 for gain in white_gains]
    added = np.log2((1 + sum(gains)) / 3)
    return (
        np.array([photo.exposure_ev for photo in photos]) - added,
        np.array([photo.grey_ev for photo in photos]),
    )


def _estimate_vignetting(
    photos: Sequence[PhotoMeasurements], factors: Floats, rng: np.random.Generator
) -> ParameterEstimate:
    """Return the light that corners lose: the lens's, and what light scenes have there themselves."""
    lost = estimate_parameter(
        "sensor.vignetting", [p.vignetting for p in photos], rng, factors, _NO_EVEN_LIGHT_NOTE
    )
    if lost.ci95 is None:
        return lost
    low, high = lost.ci95
    return replace(lost, ci95=(low - _SCENE_FALLOFF, high + _SCENE_FALLOFF))


_SCENE_FALLOFF = 0.06
"""By which the light of scenes themselves may fall off: 0.04 to 0.05 in renders of boards, measured."""


def _estimate_subsampling(encodings: Sequence[JpegEncoding]) -> Subsampling | None:
    """Return how most photos store colour, of files; of pixels, how most do that tell it."""
    found = Counter(
        one.subsampling for one in encodings if one.subsampling or not one.is_from_pixels
    )
    return found.most_common(1)[0][0] if found else None


def _explain_missing_subsampling(
    captures: Sequence[PhotoFile], encodings: Sequence[JpegEncoding]
) -> str:
    """Return why it is not told how many samples of colour most photos have."""
    if not encodings:
        return _NO_JPEG_NOTE
    if all(capture.header.is_grey for capture in captures):
        return _GREYSCALE_NOTE
    return _EVEN_COLORS_NOTE if encodings[0].is_from_pixels else _UNKNOWN_SUBSAMPLING_NOTE


def _estimate_quality(encodings: Sequence[JpegEncoding]) -> ParameterEstimate:
    if not encodings:
        return ParameterEstimate("sensor.jpeg_quality", None, note=_NO_JPEG_NOTE)
    qualities = [one.quality for one in encodings]
    middle, note = float(np.median(qualities)), _get_source_note(encodings)
    return ParameterEstimate(
        "sensor.jpeg_quality", middle, (middle, middle), compute_photo_std(qualities), note
    )


def _get_source_note(encodings: Sequence[JpegEncoding]) -> str:
    return _FROM_PIXELS_NOTE if encodings and encodings[0].is_from_pixels else ""


def _estimate_white_balance(
    photos: Sequence[PhotoMeasurements], rng: np.random.Generator
) -> list[ParameterEstimate]:
    """Return the gains of red and blue: from boards, which are white, or else from all scenes."""
    boards = np.array([photo.board_white for photo in photos])
    on_boards = int(np.isfinite(boards).all(axis=1).sum()) >= MIN_BOARD_PHOTOS
    values = np.log(boards if on_boards else np.array([photo.metered_white for photo in photos]))
    strength = rng.uniform(*TONE_CONTRAST, MONTE_CARLO_SAMPLES) * rng.uniform(
        *SATURATION, MONTE_CARLO_SAMPLES
    )
    note = (
        "" if on_boards else "of the scenes' own colours and light too, as nothing white is known"
    )
    missing = _CLIPPED_NOTE if any(photo.is_color for photo in photos) else _GREYSCALE_NOTE
    rounded = _estimate_rounding_error(photos)
    found: list[ParameterEstimate] = []
    for i, name in enumerate(("sensor.red_gain", "sensor.blue_gain")):
        gain = estimate_parameter(name, values[:, i], rng, 1 / strength, missing)
        if gain.ci95 is not None and isinstance(gain.value, float):
            low, high = gain.ci95
            ends = low - rounded, high + rounded
            value, low, high = np.exp([gain.value, *ends]).tolist()
            gain = ParameterEstimate(
                name, value, (low, high), value * (compute_photo_std(values[:, i]) or 0.0), note
            )
        found.append(gain)
    return found


def _estimate_rounding_error(photos: Sequence[PhotoMeasurements]) -> float:
    """Return by how much the log of a ratio of two lights may be off, as levels are whole numbers and JPEG
    takes colours in steps: what is nearly grey is grey in every photo.
    """
    steps = [p.header.quantization[1][0] for p in photos if len(p.header.quantization) > 1]
    return _LOG_LIGHT_PER_LEVEL * (
        0.5 + _LEVELS_PER_QUANTIZATION_STEP * float(np.median(steps or [0]))
    )


_LOG_LIGHT_PER_LEVEL = (
    0.016  # of the log of light, by a curve of the power 2.2 in the middle of levels
)
_LEVELS_PER_QUANTIZATION_STEP = 2.1 / 16
"""Levels of blue less green that half a step of the mean of a block of colour (8x8) is worth."""


def _estimate_noise_and_sharpness(
    photos: Sequence[PhotoMeasurements],
    quality: int,
    subsampling: Subsampling,
    white_gains: Sequence[ParameterEstimate],
    rng: np.random.Generator,
) -> tuple[list[ParameterEstimate], SensorSamples]:
    """Return what the chart tells of noise, filters and sharpness, and the sensors that may be it.

    Args:
        photos: what is seen in each.
        quality, subsampling: of their files.
        white_gains: the gains of red and blue, which make responses out of noise where white is white.
        rng: draws sensors and resamples photos.
    """
    names = (*FITTED_PARAMETERS, *FITTED_COLOR_PARAMETERS)
    if len(photos) < MIN_CALIBRATION_PHOTOS:
        return [
            ParameterEstimate(_get_parameter_path(name), None, note=format_too_few(len(photos)))
            for name in names
        ], {}
    fit = fit_sensor([photo.sensor_features for photo in photos], quality, subsampling, rng)
    draws, together = fit.samples, fit.joint_samples
    alike = "" if RESPONSE_PARAMETERS[0] in draws else _EQUAL_RESPONSES_NOTE
    for name, gain in zip(RESPONSE_PARAMETERS, white_gains, strict=True):
        if isinstance(gain.value, float) and gain.ci95 is not None:
            std = float(np.log(gain.ci95[1] / gain.ci95[0])) / (2 * 1.96)
            for found in (draws, together):
                if name in found:
                    unsure = rng.normal(0.0, std, len(found[name]))
                    found[name] = found[name] * gain.value * np.exp(unsure)
    untold = _explain_undetermined(fit, is_color=any(photo.is_color for photo in photos))
    notes = {"full_well_e": alike, "read_noise_e": alike}
    numbers: list[ParameterEstimate] = []
    for name in names:
        if name not in draws:
            numbers.append(ParameterEstimate(_get_parameter_path(name), None, note=untold[name]))
            continue
        number = replace(
            estimate_from_samples(_get_parameter_path(name), draws[name]), note=notes.get(name, "")
        )
        if name in fit.unbounded:
            number = replace(number, ci95=None, note=f"{_UNBOUNDED_NOTE}: {untold[name]}")
        numbers.append(number)
    return numbers, {
        _get_parameter_path(name): tuple(values.tolist()) for name, values in together.items()
    }


def _explain_undetermined(fit: SensorFit, *, is_color: bool) -> dict[str, str]:
    """Return why photos do not tell each number of a sensor, if they do not, and what to take."""
    untold = dict.fromkeys(FITTED_PARAMETERS, _UNDETERMINED_NOISE_NOTE) | dict.fromkeys(
        FITTED_COLOR_PARAMETERS, _UNDETERMINED_COLOR_NOISE_NOTE
    )
    untold |= dict.fromkeys(("sharpening", "blur_px"), _UNDETERMINED_BLUR_NOTE)
    for part, is_alike in zip(
        (FITTED_PARAMETERS, FITTED_COLOR_PARAMETERS), fit.is_consistent, strict=True
    ):
        untold |= {} if is_alike else dict.fromkeys(part, _NO_MATCHING_SENSOR_NOTE)
    return untold if is_color else untold | dict.fromkeys(FITTED_COLOR_PARAMETERS, _GREYSCALE_NOTE)


def _get_parameter_path(name: str) -> str:
    """Return where a number of the chart's sensors is in a camera."""
    part = "sensor.processing" if name == "chroma_blur_px" else "sensor"
    return f"{part}.{name}"


_EQUAL_RESPONSES_NOTE = "as if of as many electrons in every colour"


def _estimate_lateral_color(
    photos: Sequence[PhotoMeasurements], rng: np.random.Generator
) -> list[ParameterEstimate]:
    strength = rng.uniform(*SATURATION, MONTE_CARLO_SAMPLES) * rng.uniform(
        *_FRINGE_RETENTION, MONTE_CARLO_SAMPLES
    )
    fringes = np.array([photo.lateral_color for photo in photos])
    missing = _NO_EDGES_NOTE if any(photo.is_color for photo in photos) else _GREYSCALE_NOTE
    return [
        estimate_parameter(f"glass.lateral_color.{name}", fringes[:, i], rng, 1 / strength, missing)
        for i, name in enumerate(("red", "blue"))
    ]


_FRINGE_RETENTION = (0.6, 1.05)
"""Shares of fringes that smoothing and JPEG leave: most of what was measured on seventeen hidden cameras."""
