"""The lens: which model, which numbers and how sure, by what photos that were left out say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from sim2cam.adapt.calibration.board_corners import BoardDetection
from sim2cam.adapt.calibration.bundle_adjustment import (
    LENS_MODELS,
    PINHOLE_PARAMETERS,
    BundleFit,
    FittableLens,
    compute_held_out_residuals,
    fit_bundle,
    make_lens,
)
from sim2cam.data.parsing import STRICT_CONFIG
from sim2cam.errors import LensError
from sim2cam.geometry.lens import BrownConrady, KannalaBrandt, Rational, ThinPrism

Floats = NDArray[np.float64]

MIN_BOARD_PHOTOS = 4
"""Photos of a board that a lens is fitted to."""

_FOLDS = 5
_OUTLIER_RATIO = 3.0  # times the usual error of a photo
_OUTLIER_MODEL = "kannala_brandt"  # bends any lens with few numbers: it tells what no lens explains
_PARENT_MODELS: dict[str, str | None] = {
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
        parameter_names: of the numbers that were fitted; the others are 0.
        parameter_values: those.
        covariance: of them.
        rms_px: of the corners it was fitted to.
        held_out_rms_px: of photos left out, by model; those that cannot see the whole picture have none.
        outliers: photos that no lens explains, with their errors, pixels.
        corner_coverage: distance of the farthest corner from the middle, over that of the picture's corner.
        partial_view_models: models that were tried, and do not see the whole picture.
    """

    __pydantic_config__ = STRICT_CONFIG

    kind: str
    parameter_names: tuple[str, ...]
    parameter_values: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    rms_px: float
    held_out_rms_px: Mapping[str, float]
    outliers: Mapping[str, float]
    corner_coverage: float
    partial_view_models: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in _LENS_TYPES:
            raise ValueError(f"a lens is of {', '.join(_LENS_TYPES)}, not {self.kind}")
        count = len(self.parameter_names)
        if len(self.parameter_values) != count or np.shape(self.covariance) != (count, count):
            raise ValueError(
                f"{count} names of a lens have {count} numbers and {count}^2 covariances"
            )
        known = [f.name for f in fields(_LENS_TYPES[self.kind]) if f.name != "kind"]
        missing = [name for name in PINHOLE_PARAMETERS if name not in self.parameter_names]
        unknown = [name for name in self.parameter_names if name not in known]
        if missing or unknown or len(set(self.parameter_names)) != count:
            raise ValueError(
                f"names of a lens {self.kind} are {', '.join(PINHOLE_PARAMETERS)} and of "
                f"{', '.join(name for name in known if name not in PINHOLE_PARAMETERS)}, each once"
            )
        unit = np.sqrt(np.maximum(np.diag(self.covariance), 0.0))
        unit[unit == 0] = 1.0
        alike = np.array(self.covariance) / unit / unit[:, None]
        if not np.allclose(alike, alike.T, atol=_CORRELATION_TOLERANCE) or (
            np.linalg.eigvalsh(alike).min() < -_CORRELATION_TOLERANCE
        ):
            raise ValueError("covariance of a lens has no standard deviations")
        self.to_lens()

    def to_lens(self) -> FittableLens:
        """Return the lens itself."""
        return make_lens(
            _LENS_TYPES[self.kind], self.parameter_names, np.array(self.parameter_values)
        )

    def sample(self, rng: np.random.Generator, image_size: tuple[int, int]) -> FittableLens:
        """Return a lens that might as well be it, and sees the whole picture of that size."""
        for _ in range(_MAX_SAMPLING_ATTEMPTS):
            numbers = rng.multivariate_normal(self.parameter_values, self.covariance, method="eigh")
            try:
                drawn = make_lens(_LENS_TYPES[self.kind], self.parameter_names, numbers)
                _check_full_view(drawn, image_size)
            except LensError:
                continue
            return drawn
        return self.to_lens()


_MAX_SAMPLING_ATTEMPTS = 50
_CORRELATION_TOLERANCE = 1e-3  # by which correlations may be off
_LENS_TYPES: dict[str, type[FittableLens]] = {
    kind.kind: kind for kind in (BrownConrady, Rational, ThinPrism, KannalaBrandt)
}
LENS_PARAMETERS = tuple(
    dict.fromkeys(f.name for kind in _LENS_TYPES.values() for f in fields(kind) if f.name != "kind")
)
"""Numbers of all lenses."""


def fit_lens(
    detections: Sequence[BoardDetection], image_size: tuple[int, int], rng: np.random.Generator
) -> FittedLens:
    """Return the lens of photos of a board.

    Args:
        detections: at least ``MIN_BOARD_PHOTOS``.
        image_size: width and height of the photos, pixels.
        rng: decides which photos are left out together.

    Raises:
        LensError: no lens explains them.
    """
    good, outliers = _remove_outliers(detections, image_size)
    folds = np.array_split(rng.permutation(len(good)), min(_FOLDS, len(good)))
    bundles, errors = _fit_models(good, image_size, folds)
    if not errors:
        raise LensError("no lens model explains where the corners of the boards are seen")
    best = bundles[_select_model(errors)]
    _check_well_determined(best, image_size)
    numbers = {name: float(np.sqrt(found.mean())) for name, found in errors.items()}
    return FittedLens(
        best.lens.kind,
        best.model.free_parameters,
        tuple(float(getattr(best.lens, name)) for name in best.model.free_parameters),
        tuple(tuple(row) for row in best.covariance.tolist()),
        best.rms_px,
        numbers,
        outliers,
        _compute_corner_coverage(good, image_size),
        tuple(name for name in bundles if name not in errors),
    )


def _check_well_determined(fit: BundleFit, image_size: tuple[int, int]) -> None:
    """Refuse a lens that the boards do not tell, or that does not tell where boards are.

    Raises:
        LensError: naming what is wrong with the photos.
    """
    normals = Rotation.from_rotvec(fit.poses[:, :3]).as_matrix()[:, :, 2]
    tilt = np.degrees(np.arccos(np.clip(normals @ normals.T, -1, 1))).max()
    if tilt < _MIN_TILT_DEG:
        raise LensError(_PARALLEL_BOARDS_NOTE)
    if fit.rms_px > _MAX_RMS_SHARE * max(image_size):
        raise LensError(
            f"no one lens explains the boards: their corners are off by {fit.rms_px:.1f} px. Perhaps several "
            "cameras or zooms took them, or the board is not flat"
        )
    if not 1.96 * np.sqrt(fit.covariance[0, 0]) < _MAX_FOCAL_ERROR_SHARE * fit.lens.fx_px:
        raise LensError(_PARALLEL_BOARDS_NOTE)


_PARALLEL_BOARDS_NOTE = (
    "the boards stand too much alike to tell a lens. Tilt them, each another way"
)
_MAX_RMS_SHARE = 1 / 600
"""Of the longer side, by which corners are off a lens at most: 0.1 to 0.5 px are usual, of 640 to 4000."""
_MAX_FOCAL_ERROR_SHARE = 0.5
"""Of the focal length, at the end of its interval."""
_MIN_TILT_DEG = 3.0
"""Degrees between the two boards that are tilted most differently: those that are parallel tell of a lens no more
than one."""


def refit_lens(
    lens: FittedLens, detections: Sequence[BoardDetection], image_size: tuple[int, int]
) -> BundleFit:
    """Return the lens of the same model that other photos of a board tell.

    Args:
        lens: whose model it is.
        detections: at least ``MIN_BOARD_PHOTOS``.
        image_size: width and height of the photos, pixels.

    Raises:
        LensError: no lens of the model explains them, or no model has these numbers.
    """
    names = [
        m.name
        for m in LENS_MODELS
        if (m.lens_type.kind, m.free_parameters) == (lens.kind, lens.parameter_names)
    ]
    if not names:
        raise LensError(f"no lens model {lens.kind} is fitted by {', '.join(lens.parameter_names)}")
    good, _ = _remove_outliers(detections, image_size)
    return _fit_with_parents(names[0], good, image_size)


def _fit_with_parents(
    name: str, detections: Sequence[BoardDetection], image_size: tuple[int, int]
) -> BundleFit:
    """Return the fit of a model that starts where those that it extends end."""
    simpler = _PARENT_MODELS[name]
    start = None if simpler is None else _fit_with_parents(simpler, detections, image_size)
    model = next(model for model in LENS_MODELS if model.name == name)
    return fit_bundle(detections, image_size, model, start)


def _remove_outliers(
    detections: Sequence[BoardDetection], image_size: tuple[int, int]
) -> tuple[list[BoardDetection], dict[str, float]]:
    """Return the sightings that a flexible lens explains, and the errors of the others."""
    judge = next(model for model in LENS_MODELS if model.name == _OUTLIER_MODEL)
    good = list(detections)
    outliers: dict[str, float] = {}
    while True:
        plain = fit_bundle(good, image_size, LENS_MODELS[0])
        try:
            errors = fit_bundle(good, image_size, judge, plain).rms_px_per_photo
        except LensError:  # a wrong board can bend it until it folds
            errors = plain.rms_px_per_photo
        bound = _OUTLIER_RATIO * float(np.median(errors))
        bad = [i for i in range(len(good)) if errors[i] > bound]
        if not bad or len(good) - len(bad) < MIN_BOARD_PHOTOS:
            return good, outliers
        outliers |= {good[i].photo: float(errors[i]) for i in bad}
        good = [s for i, s in enumerate(good) if i not in bad]


def _fit_models(
    detections: Sequence[BoardDetection],
    image_size: tuple[int, int],
    folds: Sequence[NDArray[np.intp]],
) -> tuple[dict[str, BundleFit], dict[str, Floats]]:
    """Return the fits of models, and the errors (photos,) of those that see the whole picture.

    A model is tried where the simpler one that it extends was worth its numbers.
    """
    bundles: dict[str, BundleFit] = {}
    errors: dict[str, Floats] = {}
    for model in LENS_MODELS:
        simpler = _PARENT_MODELS[model.name]
        if not _improves_on_parent(simpler, errors):
            continue
        try:
            found = fit_bundle(detections, image_size, model, bundles.get(simpler or ""))
            bundles[model.name] = found
            _check_full_view(found.lens, image_size)
            errors[model.name] = _cross_validate(detections, image_size, found, folds)
        except LensError:
            continue
    return bundles, errors


def _improves_on_parent(name: str | None, errors: Mapping[str, Floats]) -> bool:
    """Return whether a model foretold photos left out better than the one it extends."""
    before = _PARENT_MODELS.get(name or "")
    if name is None or before is None or not {name, before} <= errors.keys():
        return True
    gained = np.asarray(errors[before] - errors[name])
    return bool(gained.mean() > gained.std() / np.sqrt(len(gained)))


def _cross_validate(
    detections: Sequence[BoardDetection],
    image_size: tuple[int, int],
    full_fit: BundleFit,
    folds: Sequence[NDArray[np.intp]],
) -> Floats:
    """Return the mean squared error (photos,) of each photo under the fit to other folds."""
    found = np.zeros(len(detections))
    for fold in folds:
        rest = np.setdiff1d(np.arange(len(detections)), fold)
        start = replace(full_fit, poses=full_fit.poses[rest])
        part = fit_bundle([detections[i] for i in rest], image_size, full_fit.model, start)
        for i in fold:
            off = compute_held_out_residuals(detections[i], part.lens)
            found[i] = (off**2).sum(axis=-1).mean()
    return found


def _select_model(errors: Mapping[str, Floats]) -> str:
    """Return the first of the models that is no worse than the best, by more than their difference is sure.

    Brown's comes before the fisheye: without tangential numbers a fisheye takes its middle elsewhere, and is
    sure of it.
    """
    best = min(errors.values(), key=np.mean)
    return next(name for name, found in errors.items() if _is_not_worse(found - best))


def _is_not_worse(error_differences: Floats) -> bool:
    return bool(
        error_differences.mean() <= error_differences.std() / np.sqrt(len(error_differences))
    )


def _compute_corner_coverage(
    detections: Sequence[BoardDetection], image_size: tuple[int, int]
) -> float:
    middle = (np.array(image_size) - 1) / 2
    away = [np.linalg.norm(s.corners_px - middle, axis=1).max() for s in detections]
    return float(max(away) / np.linalg.norm(middle))


def _check_full_view(lens: FittableLens, image_size: tuple[int, int]) -> None:
    """Refuse a lens that does not see the whole picture."""
    lens.unproject(np.array(list(_iterate_border_points(image_size)), dtype=np.float64))


def _iterate_border_points(image_size: tuple[int, int]) -> Iterator[tuple[float, float]]:
    right, bottom = image_size[0] - 1, image_size[1] - 1
    for share in np.linspace(0, 1, 9):
        yield from ((share * right, 0), (share * right, bottom))
        yield from ((0, share * bottom), (right, share * bottom))
