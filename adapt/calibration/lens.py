"""Lens estimation with model selection by cross-validation."""

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
from sim2cam.adapt.calibration.corner_residuals import pack_residuals, unpack_residuals
from sim2cam.data.parsing import STRICT_CONFIG
from sim2cam.errors import LensError
from sim2cam.geometry.lens import BrownConrady, KannalaBrandt, Rational, ThinPrism

Floats = NDArray[np.float64]

MIN_BOARD_PHOTOS = 4
"""Minimum number of board photos for a lens."""

_FOLDS = 5
_OUTLIER_RATIO = 3.0  # over the median error of photos
_OUTLIER_MODEL = "kannala_brandt"  # flexible with few parameters, so it exposes wrong boards
_PARENT_MODELS: dict[str, str | None] = {
    "pinhole": None,
    "kannala_brandt": "pinhole",
    "brown_conrady": "pinhole",
} | {"rational": "brown_conrady", "thin_prism": "rational"}


@dataclass(frozen=True)
class FittedLens:
    """Lens parameters with covariance and cross-validation results.

    Attributes:
        kind: ``brown_conrady``, ``rational``, ``thin_prism`` or ``kannala_brandt``: the simplest
            model that predicts held-out photos as well as the best.
        parameter_names: names of the fitted parameters; others are 0.
        parameter_values: fitted values.
        covariance: covariance of the fitted values.
        rms_px: RMS error of the fitted corners.
        held_out_rms_px: RMS error of held-out photos by model; without models that do not cover the
            whole image.
        outliers: photos that no lens fits, with their errors in pixels.
        corner_coverage: distance of the farthest board corner from the image centre, over that of
            the image corner.
        partial_view_models: evaluated models that do not cover the whole image.
        corner_residuals: sample of the residuals of the fitted corners, as of ``pack_residuals``;
            empty in older files.
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
    corner_residuals: str = ""

    def __post_init__(self) -> None:
        if self.kind not in _LENS_TYPES:
            raise ValueError(f"lens kind must be one of {', '.join(_LENS_TYPES)}, not {self.kind}")
        count = len(self.parameter_names)
        if len(self.parameter_values) != count or np.shape(self.covariance) != (count, count):
            raise ValueError(
                f"{count} lens parameters need {count} values and a {count}x{count} covariance"
            )
        allowed = [f.name for f in fields(_LENS_TYPES[self.kind]) if f.name != "kind"]
        missing = [name for name in PINHOLE_PARAMETERS if name not in self.parameter_names]
        unknown = [name for name in self.parameter_names if name not in allowed]
        if missing or unknown or len(set(self.parameter_names)) != count:
            raise ValueError(
                f"parameters of a {self.kind} lens must be {', '.join(PINHOLE_PARAMETERS)} and any of "
                f"{', '.join(name for name in allowed if name not in PINHOLE_PARAMETERS)}, each once"
            )
        unit = np.sqrt(np.maximum(np.diag(self.covariance), 0.0))
        unit[unit == 0] = 1.0
        correlation = np.array(self.covariance) / unit / unit[:, None]
        if not np.allclose(correlation, correlation.T, atol=_CORRELATION_TOLERANCE) or (
            np.linalg.eigvalsh(correlation).min() < -_CORRELATION_TOLERANCE
        ):
            raise ValueError("lens covariance must be symmetric and positive semidefinite")
        unpack_residuals(self.corner_residuals)
        self.to_lens()

    def to_lens(self) -> FittableLens:
        """Return the lens."""
        return make_lens(
            _LENS_TYPES[self.kind], self.parameter_names, np.array(self.parameter_values)
        )

    def sample(self, rng: np.random.Generator, image_size: tuple[int, int]) -> FittableLens:
        """Sample a lens from the covariance that covers the whole image.

        Args:
            image_size: width and height, pixels.
        """
        for _ in range(_MAX_SAMPLING_ATTEMPTS):
            parameters = rng.multivariate_normal(
                self.parameter_values, self.covariance, method="eigh"
            )
            try:
                lens = make_lens(_LENS_TYPES[self.kind], self.parameter_names, parameters)
                _check_full_view(lens, image_size)
            except LensError:
                continue
            return lens
        return self.to_lens()


_MAX_SAMPLING_ATTEMPTS = 50
_CORRELATION_TOLERANCE = 1e-3
_LENS_TYPES: dict[str, type[FittableLens]] = {
    kind.kind: kind for kind in (BrownConrady, Rational, ThinPrism, KannalaBrandt)
}
LENS_PARAMETERS = tuple(
    dict.fromkeys(f.name for kind in _LENS_TYPES.values() for f in fields(kind) if f.name != "kind")
)
"""Parameters of all lens models."""


def fit_lens(
    detections: Sequence[BoardDetection], image_size: tuple[int, int], rng: np.random.Generator
) -> FittedLens:
    """Estimate the lens from photos of a board.

    Args:
        detections: at least ``MIN_BOARD_PHOTOS`` boards.
        image_size: width and height of the photos, pixels.

    Raises:
        LensError: if no lens fits.
    """
    good, outliers = _remove_outliers(detections, image_size)
    folds = np.array_split(rng.permutation(len(good)), min(_FOLDS, len(good)))
    bundles, errors = _fit_models(good, image_size, folds)
    if not errors:
        raise LensError("no lens model fits the corners of the boards")
    best = bundles[_select_model(errors)]
    _check_well_determined(best, image_size)
    held_out_rms = {name: float(np.sqrt(squares.mean())) for name, squares in errors.items()}
    return FittedLens(
        best.lens.kind,
        best.model.free_parameters,
        tuple(float(getattr(best.lens, name)) for name in best.model.free_parameters),
        tuple(tuple(row) for row in best.covariance.tolist()),
        best.rms_px,
        held_out_rms,
        outliers,
        _compute_corner_coverage(good, image_size),
        tuple(name for name in bundles if name not in errors),
        pack_residuals([detection.corners_px for detection in good], best.residuals),
    )


def _check_well_determined(fit: BundleFit, image_size: tuple[int, int]) -> None:
    """Raise ``LensError`` if the boards do not determine the lens or fit it badly."""
    normals = Rotation.from_rotvec(fit.poses[:, :3]).as_matrix()[:, :, 2]
    tilt = np.degrees(np.arccos(np.clip(normals @ normals.T, -1, 1))).max()
    if tilt < _MIN_TILT_DEG:
        raise LensError(_PARALLEL_BOARDS_NOTE)
    if fit.rms_px > _MAX_RMS_SHARE * max(image_size):
        raise LensError(
            f"no single lens fits the boards: the RMS error of their corners is {fit.rms_px:.1f} px. "
            "Check for several cameras or zoom settings, or for a board that is not flat"
        )
    if not 1.96 * np.sqrt(fit.covariance[0, 0]) < _MAX_FOCAL_ERROR_SHARE * fit.lens.fx_px:
        raise LensError(_PARALLEL_BOARDS_NOTE)


_PARALLEL_BOARDS_NOTE = (
    "the board poses are too similar to determine a lens. Tilt the board in different directions"
)
_MAX_RMS_SHARE = 1 / 600
"""Maximum RMS error over the longer image side; usual are 0.1 to 0.5 px for 640 to 4000 px."""
_MAX_FOCAL_ERROR_SHARE = 0.5
"""Maximum half width of the focal length's 95 % interval, over the focal length."""
_MIN_TILT_DEG = 3.0
"""Minimum angle between the two boards that differ most; parallel boards add no constraint."""


def refit_lens(
    lens: FittedLens, detections: Sequence[BoardDetection], image_size: tuple[int, int]
) -> BundleFit:
    """Fit the same lens model to other photos of a board.

    Args:
        detections: at least ``MIN_BOARD_PHOTOS`` boards.
        image_size: width and height of the photos, pixels.

    Raises:
        LensError: if no lens of the model fits, or if no model has these parameters.
    """
    names = [
        m.name
        for m in LENS_MODELS
        if (m.lens_type.kind, m.free_parameters) == (lens.kind, lens.parameter_names)
    ]
    if not names:
        raise LensError(
            f"no {lens.kind} lens model has the parameters {', '.join(lens.parameter_names)}"
        )
    good, _ = _remove_outliers(detections, image_size)
    return _fit_with_parents(names[0], good, image_size)


def _fit_with_parents(
    name: str, detections: Sequence[BoardDetection], image_size: tuple[int, int]
) -> BundleFit:
    """Fit a model, initialized with the fits of the simpler models that it extends."""
    simpler = _PARENT_MODELS[name]
    start = None if simpler is None else _fit_with_parents(simpler, detections, image_size)
    model = next(model for model in LENS_MODELS if model.name == name)
    return fit_bundle(detections, image_size, model, start)


def _remove_outliers(
    detections: Sequence[BoardDetection], image_size: tuple[int, int]
) -> tuple[list[BoardDetection], dict[str, float]]:
    """Return the detections that a flexible lens fits, and the errors of all others."""
    flexible = next(model for model in LENS_MODELS if model.name == _OUTLIER_MODEL)
    good = list(detections)
    outliers: dict[str, float] = {}
    while True:
        pinhole = fit_bundle(good, image_size, LENS_MODELS[0])
        try:
            errors = fit_bundle(good, image_size, flexible, pinhole).rms_px_per_photo
        except LensError:  # a wrong board can make the distortion non-monotonic
            errors = pinhole.rms_px_per_photo
        limit = _OUTLIER_RATIO * float(np.median(errors))
        outlier_indices = [i for i in range(len(good)) if errors[i] > limit]
        if not outlier_indices or len(good) - len(outlier_indices) < MIN_BOARD_PHOTOS:
            return good, outliers
        outliers |= {good[i].photo: float(errors[i]) for i in outlier_indices}
        good = [detection for i, detection in enumerate(good) if i not in outlier_indices]


def _fit_models(
    detections: Sequence[BoardDetection],
    image_size: tuple[int, int],
    folds: Sequence[NDArray[np.intp]],
) -> tuple[dict[str, BundleFit], dict[str, Floats]]:
    """Return the fits of all models, and squared errors (photos,) of those that cover the image.

    A model is skipped if the simpler model that it extends did not improve on its own parent.
    """
    bundles: dict[str, BundleFit] = {}
    errors: dict[str, Floats] = {}
    for model in LENS_MODELS:
        simpler = _PARENT_MODELS[model.name]
        if not _improves_on_parent(simpler, errors):
            continue
        try:
            bundle = fit_bundle(detections, image_size, model, bundles.get(simpler or ""))
            bundles[model.name] = bundle
            _check_full_view(bundle.lens, image_size)
            errors[model.name] = _cross_validate(detections, image_size, bundle, folds)
        except LensError:
            continue
    return bundles, errors


def _improves_on_parent(name: str | None, errors: Mapping[str, Floats]) -> bool:
    """Return whether a model predicted held-out photos better than the model it extends."""
    parent = _PARENT_MODELS.get(name or "")
    if name is None or parent is None or not {name, parent} <= errors.keys():
        return True
    gains = np.asarray(errors[parent] - errors[name])
    return bool(gains.mean() > gains.std() / np.sqrt(len(gains)))


def _cross_validate(
    detections: Sequence[BoardDetection],
    image_size: tuple[int, int],
    full_fit: BundleFit,
    folds: Sequence[NDArray[np.intp]],
) -> Floats:
    """Return the mean squared error (photos,) of each photo under the fit to other folds."""
    errors = np.zeros(len(detections))
    for fold in folds:
        rest = np.setdiff1d(np.arange(len(detections)), fold)
        start = replace(full_fit, poses=full_fit.poses[rest])
        fit = fit_bundle([detections[i] for i in rest], image_size, full_fit.model, start)
        for i in fold:
            residuals = compute_held_out_residuals(detections[i], fit.lens)
            errors[i] = (residuals**2).sum(axis=-1).mean()
    return errors


def _select_model(errors: Mapping[str, Floats]) -> str:
    """Return the first model whose errors exceed the best by no more than one standard error.

    Brown-Conrady precedes the fisheye, which compensates tangential distortion by a shifted
    principal point with too small an interval.
    """
    best = min(errors.values(), key=np.mean)
    return next(name for name, squares in errors.items() if _is_not_worse(squares - best))


def _is_not_worse(error_differences: Floats) -> bool:
    return bool(
        error_differences.mean() <= error_differences.std() / np.sqrt(len(error_differences))
    )


def _compute_corner_coverage(
    detections: Sequence[BoardDetection], image_size: tuple[int, int]
) -> float:
    center = (np.array(image_size) - 1) / 2
    distances = [
        np.linalg.norm(detection.corners_px - center, axis=1).max() for detection in detections
    ]
    return float(max(distances) / np.linalg.norm(center))


def _check_full_view(lens: FittableLens, image_size: tuple[int, int]) -> None:
    """Raise ``LensError`` if a lens does not cover the whole image."""
    lens.unproject(np.array(list(_iterate_border_points(image_size)), dtype=np.float64))


def _iterate_border_points(image_size: tuple[int, int]) -> Iterator[tuple[float, float]]:
    right, bottom = image_size[0] - 1, image_size[1] - 1
    for share in np.linspace(0, 1, 9):
        yield from ((share * right, 0), (share * right, bottom))
        yield from ((0, share * bottom), (right, share * bottom))
