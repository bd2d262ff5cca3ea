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

from sim2cam.adapt.calibration.board_corners import Sighting
from sim2cam.adapt.calibration.camera_features import TRAITS, traits
from sim2cam.adapt.calibration.camera_fit import CameraFit, Rows
from sim2cam.adapt.calibration.detector_drift import Witness
from sim2cam.adapt.calibration.lens import LEAST_PHOTOS, FittedLens, refit_lens
from sim2cam.adapt.calibration.parameter_changes import LENS, Change, compare, judge
from sim2cam.adapt.calibration.photo_measurements import (
    Photo,
    boards_of,
    list_captures,
    look_at_one,
    software,
    usual_orientation,
    usual_size,
)
from sim2cam.errors import LensError, UsageError
from sim2cam.scene.shape import Board

Floats = NDArray[np.float64]

_DRAWS = 100
_GRID = 9  # points a side at which lenses are compared


@dataclass(frozen=True)
class Drift:
    """What became of a camera.

    Attributes:
        camera: what took the photos of now, as far as their files say.
        photos: how many of them were looked at.
        changes: number by number; those that moved first, then by their p-values.
        others: how many captures other cameras took, by what took them.
        refused: files that were left out, and why.
    """

    camera: str
    photos: int
    changes: tuple[Change, ...]
    others: Mapping[str, int]
    refused: Mapping[str, str]

    @property
    def moved(self) -> tuple[str, ...]:
        """Names of what moved."""
        return tuple(change.name for change in self.changes if change.verdict == "moved")

    def to_json(self) -> dict[str, Any]:
        """Returns all of it as JSON values, led by the names of what moved."""
        found: dict[str, Any] = json.loads(_ADAPTER.dump_json(self))
        return {"moved": list(self.moved), **found}


_ADAPTER: TypeAdapter[Drift] = TypeAdapter(Drift)


def drift(
    fit: CameraFit,
    path: Path,
    board: Board | None,
    rng: np.random.Generator,
    progress: Callable[[int, int], None] = lambda done, total: None,
    witness: Witness | None = None,
) -> Drift:
    """Returns what became of a camera since it was calibrated.

    Args:
        fit: of then.
        path: captures of now: a folder of photos, one photo, or as ``read_captures`` takes them.
        board: of markers, in some of the photos; chessboards are found without.
        rng: exchanges and resamples photos.
        progress: is told how many photos are done, and of how many.
        witness: a detector whose answers are compared too; None where none is asked.

    Raises:
        InputError: there is nothing there, or nothing that can be used.
        UsageError: the camera was not calibrated with that detector.
    """
    if witness is not None and witness.digest != fit.witness:
        which = "other weights" if fit.witness else "no detector"
        raise UsageError(
            f"--run: {which} answered of the photos of then. Calibrate again, with --run and these weights."
        )
    captures, refused = list_captures(path)
    seen = look_at_one(captures, board, progress, fit.camera)
    answers = witness.traits(seen.photos, seen.captures) if witness is not None else {}
    facts = _facts(fit, seen.camera, software(seen.captures))
    size = usual_size(seen.photos, fit.orientation)
    return Drift(
        seen.camera,
        len(seen.photos),
        (*facts, *compare_photos(fit, seen.photos, size, rng, answers)),
        seen.others,
        {**refused, **seen.refused},
    )


def _facts(fit: CameraFit, camera: str, named: str) -> list[Change]:
    """Returns what the files say of the camera, where that is not what they said then."""
    found = []
    if camera != fit.camera:
        note = f"{fit.camera} then, {camera} now"
        found.append(Change("camera", "camera and size", "moved", note=note))
    if fit.software and named and named != fit.software:
        note = f"{fit.software} then, {named} now"
        found.append(Change("software", "software of the camera", "moved", note=note))
    return found


def compare_photos(
    fit: CameraFit,
    photos: Sequence[Photo],
    size: tuple[int, int],
    rng: np.random.Generator,
    answers: Mapping[str, Rows] = MappingProxyType({}),
) -> list[Change]:
    """Returns what became of a camera, as photos of one size show it; see ``drift``.

    Args:
        fit: of then.
        photos: of now.
        size: width and height of them, pixels.
        rng: exchanges and resamples photos.
        answers: what a detector says of them, as traits by name.
    """
    scaled = sorted(size) != sorted((fit.width, fit.height))
    now = {**traits(photos), **answers}
    if scaled:
        now |= {t.name: () for t in TRAITS if t.in_pixels}
    orientation = fit.orientation or usual_orientation(photos)
    boards, turned = boards_of(photos, orientation)
    lens = compare_lens(fit, boards, size, rng)
    if turned and fit.lens is not None:
        note = _TURNED.format(len(turned), orientation)
        lens = replace(lens, note=f"{lens.note} {note}".strip())
    found = judge([*compare(fit.traits, now, rng), lens])
    if not scaled:
        return found
    sized = {t.name for t in TRAITS if t.in_pixels} | {LENS}
    return [replace(c, note=_SIZED) if c.name in sized else c for c in found]


_TURNED = "Left out: {} photos of a board, as the camera was held another way (EXIF orientation {} is needed)."
_SIZED = "the photos have another size. Take photos of the size of then, or calibrate again."


def compare_lens(
    fit: CameraFit, sightings: Sequence[Sighting], size: tuple[int, int], rng: np.random.Generator
) -> Change:
    """Returns what became of the lens by Hotelling's test.

    Args:
        fit: of then.
        sightings: of boards now.
        size: width and height of the photos, pixels.
        rng: draws lenses.
    """
    counts = (fit.boards - len(fit.turned), len(sightings))
    blank = Change(LENS, "lens", "untold", unit="px, mean over the picture", photos=counts)
    if fit.lens is None:
        return replace(blank, photos=(0, counts[1]), note=_NO_LENS)
    free = sum(counts) - 1 - len(fit.lens.names)
    if size != (fit.width, fit.height) or counts[1] < LEAST_PHOTOS or free < 1:
        return replace(blank, note=_FEW_BOARDS)
    try:
        now = refit_lens(fit.lens, sightings, size)
    except LensError:
        return replace(blank, note=_NO_FIT.format(fit.lens.kind))
    numbers = np.array([getattr(now.lens, name) for name in fit.lens.names])
    off, spread = numbers - fit.lens.numbers, np.array(fit.lens.covariance) + now.covariance
    unit = np.sqrt(np.diag(spread))
    correlation = spread / unit / unit[:, None]
    statistic = float(off / unit @ np.linalg.pinv(correlation, hermitian=True) @ (off / unit))
    count, shift = len(off), _moved_px(fit.lens, off, size)
    scale = count * (sum(counts) - 2) / free
    p_value, bound = float(f.sf(statistic / scale, count, free)), scale * f.isf(0.05, count, free)
    if not np.isfinite(shift):
        return replace(blank, p_value=p_value, note=_FOLDED)
    edge = [_moved_px(fit.lens, moved, size) for moved in _edge(off, spread, bound, rng)]
    low = 0.0  # where the test does not refuse that nothing moved
    if statistic > bound:
        nearest = _moved_px(fit.lens, off * (1 - np.sqrt(bound / statistic)), size)
        low = float(np.nanmin([*edge, shift, nearest]))
    ci95 = low, float(np.nanmax([*edge, shift]))
    return replace(blank, shift=shift, ci95=ci95, p_value=p_value)


def _edge(off: Floats, spread: Floats, bound: float, rng: np.random.Generator) -> Floats:
    """Returns numbers (n, k) at the edge of what a test does not refuse: where Hotelling's statistic of their
    distance to ``off`` is the bound.
    """
    directions = rng.normal(size=(_DRAWS, len(off)))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    values, axes = np.linalg.eigh(spread)
    root = axes * np.sqrt(values.clip(0))
    return np.asarray(off + np.sqrt(bound) * directions @ root.T)


_NO_LENS = "not known then. Calibrate again, with 15 photos of a chessboard among the others."
_FEW_BOARDS = "too few boards now. Take 15 photos of the board of then, all over the picture."


_NO_FIT = (
    "no {} lens, as it was then, explains where corners of the boards are seen now. Take 15 photos of the board, "
    "all over the picture, or calibrate again."
)
_FOLDED = "the lens of now does not see the whole picture. Take 15 photos of the board, into every corner."


def _moved_px(lens: FittedLens, off: Floats, size: tuple[int, int]) -> float:
    """Returns how far points of a picture move when a lens's numbers do; NaN if it cannot see them."""
    x, y = (np.linspace(0, n - 1, _GRID) for n in size)
    points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    try:
        seen = replace(lens, numbers=tuple((np.array(lens.numbers) + off).tolist())).best()
        found = seen.project(lens.best().unproject(points))
    except LensError:
        return float("nan")
    return float(np.linalg.norm(found - points, axis=1).mean())
