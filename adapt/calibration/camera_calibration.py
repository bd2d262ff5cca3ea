"""Calibration: from captures to all that they tell of the camera that took them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.adapt.calibration.board_corners import Sighting, markers_in
from sim2cam.adapt.calibration.camera_features import traits
from sim2cam.adapt.calibration.camera_fit import CameraFit, Finding
from sim2cam.adapt.calibration.detector_drift import Witness
from sim2cam.adapt.calibration.estimates import (
    DRAWS,
    LEAST_CAPTURES,
    of_draws,
    spread,
    told,
    too_few,
)
from sim2cam.adapt.calibration.jpeg import Jpeg
from sim2cam.adapt.calibration.lens import LEAST_PHOTOS, FittedLens, fit_lens
from sim2cam.adapt.calibration.linearization import SATURATION, TONE_CONTRAST
from sim2cam.adapt.calibration.photo_measurements import (
    Capture,
    Photo,
    boards_of,
    list_captures,
    look_at_one,
    open_captures,
    software,
    usual_orientation,
    usual_size,
)
from sim2cam.adapt.calibration.sensor import COLOR_FITTED, FITTED, RESPONSES, SensorFit, fit_sensor
from sim2cam.adapt.calibration.shutter import shutter_findings
from sim2cam.errors import LensError
from sim2cam.scene.sensor import Sensor, Subsampling
from sim2cam.scene.shape import Board

Floats = NDArray[np.float64]
Sensors = dict[str, tuple[float, ...]]

_BEST_QUALITY = 100  # of files that are no JPEG

_BOARD = (
    "no board in enough photos. Print a chessboard (9 x 6 squares, say) and take 15 photos of it: tilted "
    "each way, near and far, in every corner of the picture."
)
_TURNED = (
    "of {} photos of a board no more than {} have one EXIF orientation, {} are needed. Take 15 photos of it "
    "with the camera held one way."
)
_EVEN = (
    "nothing evenly lit. Take photos of a plain wall or a clear sky, and of it turned by a half."
)
_EDGY = "too few clear edges of black and white. Take photos of print, or of a chessboard."
_GRAINY = (
    "the noise that is left fits many sensors. Take JPEGs of highest quality, in dim light too, of a "
    "grey wall."
)
_BLURRY = "the edges fit many cameras. Take photos of print or of a chessboard, sharp and of highest quality."
_COLORS = "the noise of colours that is left fits many sensors. Take JPEGs of highest quality of a grey wall."
_COLORLESS = "the photos have no colour. Take them in colour."
_BLACK = "the photos are black. Take them in light."
_CLIPPED = "the photos are black or white all over. Take them as the camera exposes them."
_SCENES = "as the renderer's meter sees the scenes"
_NOT_JPEG = "the files are no JPEG, and their pixels show no trace of one. If the camera writes JPEG files, take those."
_FROM_PIXELS = "told from the pixels, which were a JPEG once"
_EVEN_COLORS = "the pixels' colours are too even to tell. Take the files as the camera writes them."
_NO_KIND = "colours are stored in another way than 4:4:4, 4:2:2 or 4:2:0. Take the files as the camera writes them."
_TONE = (
    "no photos tell it yet: sRGB's curve is taken, bent around middle grey by {:g} to {:g}, and intervals hold "
    "for all of that. Where it is known, set it in the recipe."
)
_SHOULDER = (
    "no photos tell it yet: it is taken that light above {:g} is rolled off. Where it is known, set it in the "
    "recipe."
)
_STRENGTH = (
    "no photos tell it yet: {:g} to {:g} is taken, and intervals hold for all of that. Where it is known, set "
    "it in the recipe."
)
_UNLIKE = (
    "no sensor that is tried shows noise and edges as these photos do. Take JPEGs of highest quality of a grey "
    "wall and of print, with the camera's filters off."
)
_BEYOND = "its interval reaches the end of what is tried, and may go on beyond, so none is given"


def calibrate(
    path: Path,
    board: Board | None,
    rng: np.random.Generator,
    progress: Callable[[int, int], None] = lambda done, total: None,
    witness: Witness | None = None,
) -> CameraFit:
    """Returns what captures tell of the camera that took most of them.

    Args:
        path: a folder of photos, one photo, or captures as ``read_captures`` takes them.
        board: of markers, in some of the photos; chessboards are found without.
        rng: resamples photos and draws cameras.
        progress: is told how many photos are done, and of how many.
        witness: a detector whose answers are kept for drift; None where none is asked.

    Raises:
        InputError: there is nothing there, or nothing that can be used.
    """
    return _calibrated(*list_captures(path), board, rng, progress, witness)


def calibrate_files(files: Iterable[Path], path: Path, rng: np.random.Generator) -> CameraFit:
    """Returns what photos tell of the camera that took most of them; see ``calibrate``.

    Args:
        files: of the photos; chessboards are found in them.
        path: where they come from, for errors.
        rng: resamples photos and draws cameras.

    Raises:
        InputError: there is nothing that can be used.
    """
    return _calibrated(*open_captures(files, path), None, rng, lambda done, total: None)


def _calibrated(
    captures: Sequence[Capture],
    refused: Mapping[str, str],
    board: Board | None,
    rng: np.random.Generator,
    progress: Callable[[int, int], None],
    witness: Witness | None = None,
) -> CameraFit:
    seen = look_at_one(captures, board, progress)
    photos, own = seen.photos, seen.captures
    orientation = usual_orientation(photos)
    size = usual_size(photos, orientation)
    boards, turned = boards_of(photos, orientation)
    lens, lens_findings = _lens(photos, boards, size, rng, own, board)
    sensor_findings, sensors = _sensor(photos, own, rng)
    answers = witness.traits(photos, own) if witness is not None else {}
    return CameraFit(
        seen.camera,
        *size,
        photos=len(photos),
        boards=len(boards) + len(turned),
        findings=(
            *lens_findings,
            *sensor_findings,
            *_glass(photos, rng),
            *shutter_findings(photos, own, lens, rng),
        ),
        lens=lens,
        sensors=sensors,
        border=_border(photos),
        brightest=max(photo.brightest for photo in photos),
        others=seen.others,
        refused={**refused, **seen.refused},
        software=software(own),
        traits={**traits(photos), **answers},
        orientation=orientation if lens is not None else None,
        turned=turned if lens is not None else {},
        witness=witness.digest if witness is not None else "",
    )


def _border(photos: Sequence[Photo]) -> tuple[int, int, int, int]:
    left, top, right, bottom = np.min([photo.border for photo in photos], axis=0).tolist()
    return left, top, right, bottom


def _lens(
    photos: Sequence[Photo],
    boards: Sequence[Sighting],
    size: tuple[int, int],
    rng: np.random.Generator,
    own: Sequence[Capture],
    board: Board | None,
) -> tuple[FittedLens | None, list[Finding]]:
    """Returns the lens and its numbers; with a word why not where there are too few boards."""
    if len(boards) < LEAST_PHOTOS:
        note = _no_lens(photos, len(boards), own, board)
        return None, [Finding("lens.fx_px", None, note=note)]
    try:
        lens = fit_lens(boards, size, rng)
    except LensError as error:
        return None, [
            Finding("lens.fx_px", None, note=f"{error}. Take the photos of the board anew.")
        ]
    note = "" if lens.reach > _REACH else _NEAR
    spreads = 1.96 * np.sqrt(np.diag(lens.covariance))
    numbers = zip(lens.names, lens.numbers, spreads.tolist(), strict=True)
    return lens, [
        Finding(f"lens.{name}", value, (value - spread, value + spread), note=note)
        for name, value, spread in numbers
    ]


_REACH = 0.75
_NEAR = "boards stay away from the corners of the picture. Take photos with the board there."


def _no_lens(
    photos: Sequence[Photo], alike: int, own: Sequence[Capture], board: Board | None
) -> str:
    """Returns why there are so few boards: perhaps the camera was turned between, or they have markers and
    were not told.
    """
    seen = sum(photo.sighting is not None for photo in photos)
    if seen >= LEAST_PHOTOS:
        return _TURNED.format(seen, alike, LEAST_PHOTOS)
    if board is None:
        path = next(c.path for c in own if c.name == photos[0].name)
        name = markers_in(np.ascontiguousarray(images.read_rgb(path)[..., 1]))
        if name:
            return f"markers of {name} are seen. Tell the board with --board."
    return _BOARD


def _sensor(
    photos: Sequence[Photo], own: Sequence[Capture], rng: np.random.Generator
) -> tuple[list[Finding], Sensors]:
    """Returns the numbers of the sensor, and the sensors that may be it."""
    stored = [photo.stored for photo in photos if photo.stored is not None]
    quality = round(np.median([one.quality for one in stored])) if stored else _BEST_QUALITY
    subsampling = _subsampling(stored)
    contrast = rng.uniform(*TONE_CONTRAST, DRAWS)
    white = _white(photos, rng)
    exposure = _exposure(photos, 1 / contrast, white, rng)
    vignetting = _vignetting(photos, 1 / contrast, rng)
    drawn, sensors = _drawn(photos, quality, subsampling or "444", white, rng)
    if sensors and exposure.ci95 is not None:
        contrasts = np.array(sensors["sensor.tone_contrast"])
        sensors["sensor.exposure_ev"] = tuple(_exposures(photos, contrasts, white, rng).tolist())
    return [
        exposure,
        *white,
        vignetting,
        *drawn,
        Finding("sensor.tone_contrast", None, note=_TONE.format(*TONE_CONTRAST)),
        Finding("sensor.tone_shoulder", None, note=_SHOULDER.format(Sensor.tone_shoulder)),
        Finding("sensor.saturation", None, note=_STRENGTH.format(*SATURATION)),
        Finding("sensor.file_format", "jpeg" if stored else "png", note=_past(stored)),
        _quality(stored),
        Finding(
            "sensor.processing.jpeg_subsampling",
            subsampling,
            note=_past(stored) if subsampling else _no_subsampling(own, stored),
        ),
    ], sensors


def _exposure(
    photos: Sequence[Photo], factors: Floats, white: Sequence[Finding], rng: np.random.Generator
) -> Finding:
    """Returns the exposure. Contrast bends light around middle grey, so what is told is multiplied there."""
    stops, over_grey = _stops(photos, white)
    found = told("sensor.exposure_ev", stops, rng, factors, _BLACK, over_grey)
    if found.ci95 is None:
        return found
    return replace(found, spread=spread([photo.exposure_ev for photo in photos]), note=_SCENES)


def _exposures(
    photos: Sequence[Photo], contrast: Floats, white: Sequence[Finding], rng: np.random.Generator
) -> Floats:
    """Returns the exposures (n,) with which cameras of these contrasts (n,) show photos as bright as they are."""
    stops = np.stack(_stops(photos, white))
    known = stops[:, np.isfinite(stops[0])]
    picks = rng.integers(known.shape[1], size=(len(contrast), known.shape[1]))
    plain, over_grey = known[:, picks]
    return np.asarray(np.median(plain + over_grey * (1 / contrast - 1)[:, None], axis=1))


def _stops(photos: Sequence[Photo], white: Sequence[Finding]) -> tuple[Floats, Floats]:
    """Returns the exposures (photos,) without what errors of the white balance add, and how many stops over
    middle grey each was told at.
    """
    gains = [gain.value if isinstance(gain.value, float) else 1.0 for gain in white]
    added = np.log2((1 + sum(gains)) / 3)
    return (
        np.array([photo.exposure_ev for photo in photos]) - added,
        np.array([photo.grey_ev for photo in photos]),
    )


def _vignetting(photos: Sequence[Photo], factors: Floats, rng: np.random.Generator) -> Finding:
    """Returns the light that corners lose: the lens's, and what light scenes have there themselves."""
    lost = told("sensor.vignetting", [p.falloff for p in photos], rng, factors, _EVEN)
    if lost.ci95 is None:
        return lost
    low, high = lost.ci95
    return replace(lost, ci95=(low - _SCENE_FALLOFF, high + _SCENE_FALLOFF))


_SCENE_FALLOFF = 0.06
"""By which the light of scenes themselves may fall off: 0.04 to 0.05 in renders of boards, measured."""


def _subsampling(stored: Sequence[Jpeg]) -> Subsampling | None:
    """Returns how most photos store colour, of files; of pixels, how most do that tell it."""
    found = Counter(one.subsampling for one in stored if one.subsampling or not one.is_past)
    return found.most_common(1)[0][0] if found else None


def _no_subsampling(own: Sequence[Capture], stored: Sequence[Jpeg]) -> str:
    """Returns why it is not told how many samples of colour most photos have."""
    if not stored:
        return _NOT_JPEG
    if all(capture.header.is_grey for capture in own):
        return _COLORLESS
    return _EVEN_COLORS if stored[0].is_past else _NO_KIND


def _quality(stored: Sequence[Jpeg]) -> Finding:
    if not stored:
        return Finding("sensor.jpeg_quality", None, note=_NOT_JPEG)
    qualities = [one.quality for one in stored]
    middle, note = float(np.median(qualities)), _past(stored)
    return Finding("sensor.jpeg_quality", middle, (middle, middle), spread(qualities), note)


def _past(stored: Sequence[Jpeg]) -> str:
    return _FROM_PIXELS if stored and stored[0].is_past else ""


def _white(photos: Sequence[Photo], rng: np.random.Generator) -> list[Finding]:
    """Returns the gains of red and blue: from boards, which are white, or else from all scenes."""
    boards = np.array([photo.board_white for photo in photos])
    on_boards = int(np.isfinite(boards).all(axis=1).sum()) >= LEAST_PHOTOS
    values = np.log(boards if on_boards else np.array([photo.white for photo in photos]))
    strength = rng.uniform(*TONE_CONTRAST, DRAWS) * rng.uniform(*SATURATION, DRAWS)
    note = (
        "" if on_boards else "of the scenes' own colours and light too, as nothing white is known"
    )
    missing = _CLIPPED if any(photo.is_colored for photo in photos) else _COLORLESS
    rounded = _rounding(photos)
    found: list[Finding] = []
    for i, name in enumerate(("sensor.red_gain", "sensor.blue_gain")):
        gain = told(name, values[:, i], rng, 1 / strength, missing)
        if gain.ci95 is not None and isinstance(gain.value, float):
            low, high = gain.ci95
            ends = low - rounded, high + rounded
            value, low, high = np.exp([gain.value, *ends]).tolist()
            gain = Finding(name, value, (low, high), value * (spread(values[:, i]) or 0.0), note)
        found.append(gain)
    return found


def _rounding(photos: Sequence[Photo]) -> float:
    """Returns by how much the log of a ratio of two lights may be off, as levels are whole numbers and JPEG
    takes colours in steps: what is nearly grey is grey in every photo.
    """
    steps = [p.header.quantization[1][0] for p in photos if len(p.header.quantization) > 1]
    return _OF_A_LEVEL * (0.5 + _OF_A_STEP * float(np.median(steps or [0])))


_OF_A_LEVEL = 0.016  # of the log of light, by a curve of the power 2.2 in the middle of levels
_OF_A_STEP = 2.1 / 16
"""Levels of blue less green that half a step of the mean of a block of colour (8x8) is worth."""


def _drawn(
    photos: Sequence[Photo],
    quality: int,
    subsampling: Subsampling,
    white: Sequence[Finding],
    rng: np.random.Generator,
) -> tuple[list[Finding], Sensors]:
    """Returns what the chart tells of noise, filters and sharpness, and the sensors that may be it.

    Args:
        photos: what is seen in each.
        quality, subsampling: of their files.
        white: the gains of red and blue, which make responses out of noise where white is white.
        rng: draws sensors and resamples photos.
    """
    names = (*FITTED, *COLOR_FITTED)
    if len(photos) < LEAST_CAPTURES:
        return [Finding(_place(name), None, note=too_few(len(photos))) for name in names], {}
    fit = fit_sensor([photo.marks for photo in photos], quality, subsampling, rng)
    draws, together = fit.draws, fit.together
    alike = "" if RESPONSES[0] in draws else _ALIKE
    for name, gain in zip(RESPONSES, white, strict=True):
        if isinstance(gain.value, float) and gain.ci95 is not None:
            std = float(np.log(gain.ci95[1] / gain.ci95[0])) / (2 * 1.96)
            for found in (draws, together):
                if name in found:
                    unsure = rng.normal(0.0, std, len(found[name]))
                    found[name] = found[name] * gain.value * np.exp(unsure)
    untold = _untold(fit, is_colored=any(photo.is_colored for photo in photos))
    notes = {"full_well_e": alike, "read_noise_e": alike}
    numbers: list[Finding] = []
    for name in names:
        if name not in draws:
            numbers.append(Finding(_place(name), None, note=untold[name]))
            continue
        number = replace(of_draws(_place(name), draws[name]), note=notes.get(name, ""))
        if name in fit.beyond:
            number = replace(number, ci95=None, note=f"{_BEYOND}: {untold[name]}")
        numbers.append(number)
    return numbers, {_place(name): tuple(values.tolist()) for name, values in together.items()}


def _untold(fit: SensorFit, *, is_colored: bool) -> dict[str, str]:
    """Returns why photos do not tell each number of a sensor, if they do not, and what to take."""
    untold = dict.fromkeys(FITTED, _GRAINY) | dict.fromkeys(COLOR_FITTED, _COLORS)
    untold |= dict.fromkeys(("sharpening", "blur_px"), _BLURRY)
    for part, is_alike in zip((FITTED, COLOR_FITTED), fit.alike, strict=True):
        untold |= {} if is_alike else dict.fromkeys(part, _UNLIKE)
    return untold if is_colored else untold | dict.fromkeys(COLOR_FITTED, _COLORLESS)


def _place(name: str) -> str:
    """Returns where a number of the chart's sensors is in a camera."""
    part = "sensor.processing" if name == "chroma_blur_px" else "sensor"
    return f"{part}.{name}"


_ALIKE = "as if of as many electrons in every colour"


def _glass(photos: Sequence[Photo], rng: np.random.Generator) -> list[Finding]:
    strength = rng.uniform(*SATURATION, DRAWS) * rng.uniform(*_FRINGES_LEFT, DRAWS)
    fringes = np.array([photo.fringes for photo in photos])
    missing = _EDGY if any(photo.is_colored for photo in photos) else _COLORLESS
    return [
        told(f"glass.lateral_color.{name}", fringes[:, i], rng, 1 / strength, missing)
        for i, name in enumerate(("red", "blue"))
    ]


_FRINGES_LEFT = (0.6, 1.05)
"""Shares of fringes that smoothing and JPEG leave: most of what was measured on seventeen hidden cameras."""
