"""The lens: which model, which numbers and how sure, by what photos that were left out say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from sim2cam.adapt.calibration.board_corners import Sighting
from sim2cam.adapt.calibration.bundle_adjustment import (
    MODELS,
    PINHOLE,
    Bundle,
    Fittable,
    fit_bundle,
    lens_of,
    place_board,
)
from sim2cam.data.parsing import PLAIN
from sim2cam.errors import LensError
from sim2cam.geometry.lens import BrownConrady, KannalaBrandt, Rational, ThinPrism

Floats = NDArray[np.float64]

LEAST_PHOTOS = 4
"""Photos of a board that a lens is fitted to."""

_FOLDS = 5
_OUTLIER = 3.0  # times the usual error of a photo
_JUDGE = "kannala_brandt"  # bends any lens with few numbers: it tells what no lens explains
_STARTS: dict[str, str | None] = {
    "pinhole": None,
    "kannala_brandt": "pinhole",
    "brown_conrady": "pinhole",
} | {
    "rational": "brown_conrady",
    "thin_prism": "rational",
}


@dataclass(frozen=True)
class FittedLens:
    """A lens and how sure it is.

    Attributes:
        kind: ``brown_conrady``, ``rational``, ``thin_prism`` or ``kannala_brandt``: the simplest of those that
            foretell photos left out as well as the best.
        names: of the numbers that were fitted; the others are 0.
        numbers: those.
        covariance: of them.
        rms_px: of the corners it was fitted to.
        left_out_px: of photos left out, by model; those that cannot see the whole picture have none.
        outliers: photos that no lens explains, with their errors, pixels.
        reach: distance of the farthest corner from the middle, over that of the picture's corner.
        blind: models that were tried, and do not see the whole picture.
    """

    __pydantic_config__ = PLAIN

    kind: str
    names: tuple[str, ...]
    numbers: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    rms_px: float
    left_out_px: Mapping[str, float]
    outliers: Mapping[str, float]
    reach: float
    blind: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise ValueError(f"a lens is of {', '.join(_KINDS)}, not {self.kind}")
        count = len(self.names)
        if len(self.numbers) != count or np.shape(self.covariance) != (count, count):
            raise ValueError(
                f"{count} names of a lens have {count} numbers and {count}^2 covariances"
            )
        known = [f.name for f in fields(_KINDS[self.kind]) if f.name != "kind"]
        missing = [name for name in PINHOLE if name not in self.names]
        unknown = [name for name in self.names if name not in known]
        if missing or unknown or len(set(self.names)) != count:
            raise ValueError(
                f"names of a lens {self.kind} are {', '.join(PINHOLE)} and of "
                f"{', '.join(name for name in known if name not in PINHOLE)}, each once"
            )
        unit = np.sqrt(np.maximum(np.diag(self.covariance), 0.0))
        unit[unit == 0] = 1.0
        alike = np.array(self.covariance) / unit / unit[:, None]
        if not np.allclose(alike, alike.T, atol=_ROUNDED) or (
            np.linalg.eigvalsh(alike).min() < -_ROUNDED
        ):
            raise ValueError("covariance of a lens has no standard deviations")
        self.best()

    def best(self) -> Fittable:
        """Returns the lens itself."""
        return lens_of(_KINDS[self.kind], self.names, np.array(self.numbers))

    def draw(self, rng: np.random.Generator, size: tuple[int, int]) -> Fittable:
        """Returns a lens that might as well be it, and sees the whole picture of that size."""
        for _ in range(_DRAWS):
            numbers = rng.multivariate_normal(self.numbers, self.covariance, method="eigh")
            try:
                drawn = lens_of(_KINDS[self.kind], self.names, numbers)
                _check_sees(drawn, size)
            except LensError:
                continue
            return drawn
        return self.best()


_DRAWS = 50
_ROUNDED = 1e-3  # by which correlations may be off
_KINDS: dict[str, type[Fittable]] = {
    kind.kind: kind for kind in (BrownConrady, Rational, ThinPrism, KannalaBrandt)
}
LENS_NUMBERS = tuple(
    dict.fromkeys(f.name for kind in _KINDS.values() for f in fields(kind) if f.name != "kind")
)
"""Numbers of all lenses."""


def fit_lens(
    sightings: Sequence[Sighting], size: tuple[int, int], rng: np.random.Generator
) -> FittedLens:
    """Returns the lens of photos of a board.

    Args:
        sightings: at least ``LEAST_PHOTOS``.
        size: width and height of the photos, pixels.
        rng: decides which photos are left out together.

    Raises:
        LensError: no lens explains them.
    """
    good, outliers = _without_outliers(sightings, size)
    folds = np.array_split(rng.permutation(len(good)), min(_FOLDS, len(good)))
    bundles, errors = _fitted(good, size, folds)
    if not errors:
        raise LensError("no lens model explains where the corners of the boards are seen")
    best = bundles[_simplest(errors)]
    _check_told(best, size)
    numbers = {name: float(np.sqrt(found.mean())) for name, found in errors.items()}
    return FittedLens(
        best.lens.kind,
        best.model.free,
        tuple(float(getattr(best.lens, name)) for name in best.model.free),
        tuple(tuple(row) for row in best.covariance.tolist()),
        best.rms_px,
        numbers,
        outliers,
        _reach(good, size),
        tuple(name for name in bundles if name not in errors),
    )


def _check_told(best: Bundle, size: tuple[int, int]) -> None:
    """Refuses a lens that the boards do not tell, or that does not tell where boards are.

    Raises:
        LensError: naming what is wrong with the photos.
    """
    normals = Rotation.from_rotvec(best.poses[:, :3]).as_matrix()[:, :, 2]
    tilt = np.degrees(np.arccos(np.clip(normals @ normals.T, -1, 1))).max()
    if tilt < _LEAST_TILT:
        raise LensError(_ALIKE)
    if best.rms_px > _MOST_OFF * max(size):
        raise LensError(
            f"no one lens explains the boards: their corners are off by {best.rms_px:.1f} px. Perhaps several "
            "cameras or zooms took them, or the board is not flat"
        )
    if not 1.96 * np.sqrt(best.covariance[0, 0]) < _MOST_UNSURE * best.lens.fx_px:
        raise LensError(_ALIKE)


_ALIKE = "the boards stand too much alike to tell a lens. Tilt them, each another way"
_MOST_OFF = 1 / 600
"""Of the longer side, by which corners are off a lens at most: 0.1 to 0.5 px are usual, of 640 to 4000."""
_MOST_UNSURE = 0.5
"""Of the focal length, at the end of its interval."""
_LEAST_TILT = 3.0
"""Degrees between the two boards that are tilted most differently: those that are parallel tell of a lens no more
than one."""


def refit_lens(lens: FittedLens, sightings: Sequence[Sighting], size: tuple[int, int]) -> Bundle:
    """Returns the lens of the same model that other photos of a board tell.

    Args:
        lens: whose model it is.
        sightings: at least ``LEAST_PHOTOS``.
        size: width and height of the photos, pixels.

    Raises:
        LensError: no lens of the model explains them, or no model has these numbers.
    """
    names = [m.name for m in MODELS if (m.kind.kind, m.free) == (lens.kind, lens.names)]
    if not names:
        raise LensError(f"no lens model {lens.kind} is fitted by {', '.join(lens.names)}")
    good, _ = _without_outliers(sightings, size)
    return _fit_after(names[0], good, size)


def _fit_after(name: str, sightings: Sequence[Sighting], size: tuple[int, int]) -> Bundle:
    """Returns the fit of a model that starts where those that it extends end."""
    simpler = _STARTS[name]
    start = None if simpler is None else _fit_after(simpler, sightings, size)
    model = next(model for model in MODELS if model.name == name)
    return fit_bundle(sightings, size, model, start)


def _without_outliers(
    sightings: Sequence[Sighting], size: tuple[int, int]
) -> tuple[list[Sighting], dict[str, float]]:
    """Returns the sightings that a flexible lens explains, and the errors of the others."""
    judge = next(model for model in MODELS if model.name == _JUDGE)
    good = list(sightings)
    outliers: dict[str, float] = {}
    while True:
        plain = fit_bundle(good, size, MODELS[0])
        try:
            errors = fit_bundle(good, size, judge, plain).photo_rms_px
        except LensError:  # a wrong board can bend it until it folds
            errors = plain.photo_rms_px
        bound = _OUTLIER * float(np.median(errors))
        bad = [i for i in range(len(good)) if errors[i] > bound]
        if not bad or len(good) - len(bad) < LEAST_PHOTOS:
            return good, outliers
        outliers |= {good[i].photo: float(errors[i]) for i in bad}
        good = [s for i, s in enumerate(good) if i not in bad]


def _fitted(
    sightings: Sequence[Sighting], size: tuple[int, int], folds: Sequence[NDArray[np.intp]]
) -> tuple[dict[str, Bundle], dict[str, Floats]]:
    """Returns the fits of models, and the errors (photos,) of those that see the whole picture.

    A model is tried where the simpler one that it extends was worth its numbers.
    """
    bundles: dict[str, Bundle] = {}
    errors: dict[str, Floats] = {}
    for model in MODELS:
        simpler = _STARTS[model.name]
        if not _was_worth(simpler, errors):
            continue
        try:
            found = fit_bundle(sightings, size, model, bundles.get(simpler or ""))
            bundles[model.name] = found
            _check_sees(found.lens, size)
            errors[model.name] = _left_out(sightings, size, found, folds)
        except LensError:
            continue
    return bundles, errors


def _was_worth(name: str | None, errors: Mapping[str, Floats]) -> bool:
    """Returns whether a model foretold photos left out better than the one it extends."""
    before = _STARTS.get(name or "")
    if name is None or before is None or not {name, before} <= errors.keys():
        return True
    gained = np.asarray(errors[before] - errors[name])
    return bool(gained.mean() > gained.std() / np.sqrt(len(gained)))


def _left_out(
    sightings: Sequence[Sighting],
    size: tuple[int, int],
    whole: Bundle,
    folds: Sequence[NDArray[np.intp]],
) -> Floats:
    """Returns the mean squared error (photos,) of each photo under the fit to other folds."""
    found = np.zeros(len(sightings))
    for fold in folds:
        rest = np.setdiff1d(np.arange(len(sightings)), fold)
        start = replace(whole, poses=whole.poses[rest])
        part = fit_bundle([sightings[i] for i in rest], size, whole.model, start)
        for i in fold:
            off = place_board(sightings[i], part.lens)
            found[i] = (off**2).sum(axis=-1).mean()
    return found


def _simplest(errors: Mapping[str, Floats]) -> str:
    """Returns the first of the models that is no worse than the best, by more than their difference is sure.

    Brown's comes before the fisheye: without tangential numbers a fisheye takes its middle elsewhere, and is
    sure of it.
    """
    best = min(errors.values(), key=np.mean)
    return next(name for name, found in errors.items() if _is_as_good(found - best))


def _is_as_good(worse: Floats) -> bool:
    return bool(worse.mean() <= worse.std() / np.sqrt(len(worse)))


def _reach(sightings: Sequence[Sighting], size: tuple[int, int]) -> float:
    middle = (np.array(size) - 1) / 2
    away = [np.linalg.norm(s.pixels - middle, axis=1).max() for s in sightings]
    return float(max(away) / np.linalg.norm(middle))


def _check_sees(lens: Fittable, size: tuple[int, int]) -> None:
    """Refuses a lens that does not see the whole picture."""
    lens.unproject(np.array(list(_rim(size)), dtype=np.float64))


def _rim(size: tuple[int, int]) -> Iterator[tuple[float, float]]:
    right, bottom = size[0] - 1, size[1] - 1
    for share in np.linspace(0, 1, 9):
        yield from ((share * right, 0), (share * right, bottom))
        yield from ((0, share * bottom), (right, share * bottom))
