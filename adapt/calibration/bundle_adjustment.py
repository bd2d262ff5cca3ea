"""Bundle adjustment of a lens and board poses.

Levenberg-Marquardt with Huber weights. The poses are eliminated photo by photo (Schur complement),
so a step costs little more than its derivatives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from sim2cam.adapt.calibration.board_corners import BoardDetection
from sim2cam.errors import LensError
from sim2cam.geometry.central_lens import center_rays
from sim2cam.geometry.lens import BrownConrady, KannalaBrandt, Rational, ThinPrism

Floats = NDArray[np.float64]
FittableLens = BrownConrady | Rational | ThinPrism | KannalaBrandt

_MAX_ITERATIONS = 60
_COST_TOLERANCE = 1e-6  # relative change of the cost at convergence
_INITIAL_DAMPING, _MAX_DAMPING = 1e-3, 1e12
_HUBER_STDS = 3.0  # standard deviations up to which a corner has full weight
_DERIVATIVE_STEP = 1e-6  # of finite differences
_MAX_REWEIGHTINGS = 3
_INTERVAL_QUANTILE = 0.975  # upper quantile of 95 % intervals
_MIN_STD_PX = 1e-3  # lower bound of the corner error


@dataclass(frozen=True)
class LensModel:
    """Lens model with its free parameters; others are 0.

    Attributes:
        name: name of the model.
        lens_type: lens class.
        free_parameters: names of the fitted parameters.
    """

    name: str
    lens_type: type[FittableLens]
    free_parameters: tuple[str, ...]


PINHOLE_PARAMETERS = ("fx_px", "fy_px", "cx_px", "cy_px")
"""Parameters of every lens."""
_BROWN_PARAMETERS = (*PINHOLE_PARAMETERS, "k1", "k2", "p1", "p2", "k3")
_RATIONAL_PARAMETERS = (*_BROWN_PARAMETERS, "k4", "k5", "k6")
LENS_MODELS = (
    LensModel("pinhole", BrownConrady, PINHOLE_PARAMETERS),
    LensModel("brown_conrady", BrownConrady, _BROWN_PARAMETERS),
    LensModel("kannala_brandt", KannalaBrandt, (*PINHOLE_PARAMETERS, "k1", "k2", "k3", "k4")),
    LensModel("rational", Rational, _RATIONAL_PARAMETERS),
    LensModel("thin_prism", ThinPrism, (*_RATIONAL_PARAMETERS, "s1", "s2", "s3", "s4")),
)
"""Lens models in order of complexity."""


@dataclass(frozen=True, eq=False)
class BundleFit:
    """Fitted lens with board poses.

    Attributes:
        model: model with the fitted parameters.
        lens: fitted lens.
        poses: (photos, 6) rotation vector and position of each board, in the camera frame.
        residuals: (n, 2) observed minus projected corners of each photo, pixels.
        covariance: (p, p) covariance of the fitted parameters.
    """

    model: LensModel
    lens: FittableLens
    poses: Floats
    residuals: tuple[Floats, ...]
    covariance: Floats

    @property
    def rms_px(self) -> float:
        """RMS distance between observed and projected corners, as in OpenCV."""
        return _compute_rms(np.concatenate(self.residuals))

    @property
    def rms_px_per_photo(self) -> Floats:
        """RMS distance of each photo (photos,)."""
        return np.array([_compute_rms(residuals) for residuals in self.residuals])


def fit_bundle(
    detections: Sequence[BoardDetection],
    image_size: tuple[int, int],
    model: LensModel,
    initial: BundleFit | None = None,
) -> BundleFit:
    """Fit a lens model and the board poses to detected corners.

    Args:
        detections: at least two boards.
        image_size: width and height of the photos, pixels.
        initial: fit of a simpler model to the same detections; default: from homographies.

    Raises:
        LensError: if no lens of the model fits.
    """
    lens, poses = (
        (initial.lens, initial.poses) if initial else _estimate_initial(detections, image_size)
    )
    parameters = np.array([getattr(lens, name, 0.0) for name in model.free_parameters])
    weights = [np.ones(2 * len(s.corners_px)) for s in detections]
    for _ in range(_MAX_REWEIGHTINGS):
        parameters, poses = _minimize_cost(detections, model, parameters, poses, weights)
        residuals = _compute_residuals(detections, model, parameters, poses)
        new_weights = _compute_huber_weights(residuals)
        if all(np.allclose(a, b, atol=1e-2) for a, b in zip(weights, new_weights, strict=True)):
            break
        weights = new_weights
    covariance = _estimate_covariance(detections, model, parameters, poses, weights)
    residuals = _compute_residuals(detections, model, parameters, poses)
    pairs = tuple(-part.reshape(-1, 2) for part in residuals)
    return BundleFit(
        model,
        make_lens(model.lens_type, model.free_parameters, parameters),
        poses,
        pairs,
        covariance,
    )


def compute_held_out_residuals(detection: BoardDetection, lens: FittableLens) -> Floats:
    """Return the residuals (n, 2) of a held-out photo after fitting only its board pose.

    Raises:
        LensError: if the board is outside the domain of the lens.
    """
    model = next(m for m in reversed(LENS_MODELS) if m.lens_type is type(lens))
    parameters = np.array([getattr(lens, name) for name in model.free_parameters])
    pose, weights = _estimate_pose(detection, lens)[None], [np.ones(2 * len(detection.corners_px))]
    _, pose = _minimize_cost([detection], model, parameters, pose, weights, fix_lens=True)
    (residuals,) = _compute_residuals([detection], model, parameters, pose)
    return -residuals.reshape(-1, 2)


def _minimize_cost(
    detections: Sequence[BoardDetection],
    model: LensModel,
    parameters: Floats,
    poses: Floats,
    weights: Sequence[Floats],
    *,
    fix_lens: bool = False,
) -> tuple[Floats, Floats]:
    """Return lens parameters and poses that minimize the weighted sum of squares."""
    damping, cost = (
        _INITIAL_DAMPING,
        _compute_cost(_compute_residuals(detections, model, parameters, poses), weights),
    )
    for _ in range(_MAX_ITERATIONS):
        lens_jacobians, pose_jacobians, residuals = _compute_jacobians(
            detections, model, parameters, poses
        )
        equations = _build_normal_equations(lens_jacobians, pose_jacobians, residuals, weights)
        while damping < _MAX_DAMPING:
            lens_step, pose_steps = _solve_step(equations, damping, fix_lens=fix_lens)
            try:
                new_cost = _compute_cost(
                    _compute_residuals(
                        detections, model, parameters + lens_step, poses + pose_steps
                    ),
                    weights,
                )
            except LensError:
                new_cost = np.inf
            if new_cost < cost:
                break
            damping *= 10
        else:
            return parameters, poses
        gain, cost, damping = (cost - new_cost) / cost, new_cost, damping / 10
        parameters, poses = parameters + lens_step, poses + pose_steps
        if gain < _COST_TOLERANCE:
            break
    return parameters, poses


@dataclass(frozen=True, eq=False)
class _NormalEquations:
    """Blocks of the normal equations by photo.

    Attributes:
        lens_hessian: (photos, p, p).
        cross_hessian: (photos, p, 6).
        pose_hessian: (photos, 6, 6).
        lens_gradient: (photos, p).
        pose_gradient: (photos, 6).
    """

    lens_hessian: Floats
    cross_hessian: Floats
    pose_hessian: Floats
    lens_gradient: Floats
    pose_gradient: Floats


def _build_normal_equations(
    lens_jacobians: Sequence[Floats],
    pose_jacobians: Sequence[Floats],
    residuals: Sequence[Floats],
    weights: Sequence[Floats],
) -> _NormalEquations:
    lens, cross, pose, lens_gradient, pose_gradient = [], [], [], [], []
    for a, b, r, w in zip(lens_jacobians, pose_jacobians, residuals, weights, strict=True):
        weighted_a, weighted_b = a * w[:, None], b * w[:, None]
        lens.append(weighted_a.T @ a)
        cross.append(weighted_a.T @ b)
        pose.append(weighted_b.T @ b)
        lens_gradient.append(weighted_a.T @ r)
        pose_gradient.append(weighted_b.T @ r)
    return _NormalEquations(*map(np.array, (lens, cross, pose, lens_gradient, pose_gradient)))


def _solve_step(
    equations: _NormalEquations, damping: float, *, fix_lens: bool
) -> tuple[Floats, Floats]:
    """Return the damped step of the lens (p,) and of the poses (photos, 6)."""
    pose = equations.pose_hessian + damping * equations.pose_hessian * np.eye(6)
    solved = np.linalg.solve(pose, equations.pose_gradient[..., None])[..., 0]  # (photos, 6)
    if fix_lens:
        return np.zeros(equations.lens_hessian.shape[-1]), np.asarray(-solved)
    eliminated = np.linalg.solve(pose, equations.cross_hessian.transpose(0, 2, 1))  # (photos, 6, p)
    hessian = equations.lens_hessian.sum(axis=0)
    reduced_hessian = (
        hessian
        + damping * np.diag(np.diag(hessian))
        - (equations.cross_hessian @ eliminated).sum(axis=0)
    )
    reduced_gradient = equations.lens_gradient.sum(axis=0) - (
        equations.cross_hessian @ solved[..., None]
    )[..., 0].sum(axis=0)
    lens_step = -np.linalg.lstsq(reduced_hessian, reduced_gradient, rcond=None)[0]
    return lens_step, np.asarray(-(solved + eliminated @ lens_step))


def _estimate_covariance(
    detections: Sequence[BoardDetection],
    model: LensModel,
    parameters: Floats,
    poses: Floats,
    weights: Sequence[Floats],
) -> Floats:
    """Return the covariance (p, p) of the lens parameters.

    Corner errors within a photo are correlated. The variance of each parameter is the larger of two
    estimates: the classical one, and a jackknife over photos (CR3 of Bell and McCaffrey 2002, "Bias
    reduction in standard errors for linear regression with multi-stage samples") with one Newton
    step per photo, scaled by Student's t. Correlations are a weighted mean of both: with fewer
    photos per parameter the jackknife has less weight (shrinkage as in Ledoit and Wolf 2004,
    "Honey, I shrunk the sample covariance matrix").
    """
    from scipy.stats import norm  # slow to import; every recipe imports this module
    from scipy.stats import t as student_t

    equations = _build_normal_equations(
        *_compute_jacobians(detections, model, parameters, poses), weights
    )
    eliminated = np.linalg.solve(equations.pose_hessian, equations.cross_hessian.transpose(0, 2, 1))
    information = equations.lens_hessian - equations.cross_hessian @ eliminated  # (photos, p, p)
    total_information = information.sum(axis=0)
    unit = 1 / np.sqrt(
        np.maximum(np.diag(total_information), 1e-300)
    )  # parameters differ by orders of magnitude
    information, total_information = (
        part * unit[:, None] * unit for part in (information, total_information)
    )
    scores = (
        equations.lens_gradient
        - (eliminated.transpose(0, 2, 1) @ equations.pose_gradient[..., None])[..., 0]
    )
    residuals = _compute_residuals(detections, model, parameters, poses)
    count, photos = sum(map(len, residuals)), len(detections)
    degrees_of_freedom = max(1, count - len(parameters) - poses.size)
    classical = (
        np.linalg.pinv(total_information, hermitian=True)
        * _compute_cost(residuals, weights)
        / degrees_of_freedom
    )
    without_photo = np.linalg.pinv(total_information - information, hermitian=True)
    shifts = (without_photo @ (scores * unit)[..., None])[..., 0]
    jackknife = shifts.T @ shifts * (photos - 1) / photos
    jackknife *= (student_t.ppf(_INTERVAL_QUANTILE, photos - 1) / norm.ppf(_INTERVAL_QUANTILE)) ** 2
    deviations = np.sqrt(np.maximum(np.diag(classical), np.diag(jackknife))) * unit
    weight = min(1.0, len(parameters) / photos)
    correlation = weight * _compute_correlation(classical) + (1 - weight) * _compute_correlation(
        jackknife
    )
    return np.asarray(correlation * deviations[:, None] * deviations)


def _compute_correlation(covariance: Floats) -> Floats:
    """Return the correlation matrix (p, p); 0 for parameters without variance."""
    variances = np.diag(covariance)
    unit = np.sqrt(variances, where=variances > 0, out=np.full(len(variances), np.inf))
    correlation = covariance / unit / unit[:, None]
    np.fill_diagonal(correlation, 1.0)
    return np.asarray(correlation)


def _compute_jacobians(
    detections: Sequence[BoardDetection], model: LensModel, parameters: Floats, poses: Floats
) -> tuple[list[Floats], list[Floats], list[Floats]]:
    """Return by photo the Jacobians of lens (2n, p) and pose (2n, 6), and the residuals."""
    steps = _DERIVATIVE_STEP * np.maximum(1, np.abs(parameters))
    by_lens = [
        _compute_residuals(detections, model, parameters + step * unit, poses)
        for step, unit in zip(steps, np.eye(len(parameters)), strict=True)
    ]
    pose_steps = _DERIVATIVE_STEP * np.eye(7, 6, -1)  # none, then each component
    lens = make_lens(model.lens_type, model.free_parameters, parameters)
    by_pose = _project_residuals(detections, lens, poses + pose_steps[:, None])
    residuals = [part[0] for part in by_pose]
    lens_jacobians = [
        np.column_stack(
            [
                (shifted[i] - residuals[i]) / step
                for shifted, step in zip(by_lens, steps, strict=True)
            ]
        )
        for i in range(len(residuals))
    ]
    return (
        lens_jacobians,
        [(part[1:] - part[0]).T / _DERIVATIVE_STEP for part in by_pose],
        residuals,
    )


def _compute_residuals(
    detections: Sequence[BoardDetection], model: LensModel, parameters: Floats, poses: Floats
) -> list[Floats]:
    """Return projected minus observed corners (2n,) of each photo."""
    lens = make_lens(model.lens_type, model.free_parameters, parameters)
    return [part[0] for part in _project_residuals(detections, lens, poses[None])]


def _project_residuals(
    detections: Sequence[BoardDetection], lens: FittableLens, poses: Floats
) -> list[Floats]:
    """Return the residuals (variants, 2n) of each photo for poses (variants, photos, 6)."""
    variants, photos = poses.shape[:2]
    rotations = Rotation.from_rotvec(poses[..., :3].reshape(-1, 3)).as_matrix()
    transposed = rotations.reshape(variants, photos, 3, 3).swapaxes(2, 3)
    board_points = [
        board.points_m @ transposed[:, i] + poses[:, i, None, 3:]
        for i, board in enumerate(detections)
    ]
    points = np.concatenate(board_points, axis=1)
    projected = lens.project(points.reshape(-1, 3)).reshape(variants, -1, 2)
    ends = np.cumsum([len(board.corners_px) for board in detections])[:-1]
    pairs = zip(np.split(projected, ends, axis=1), detections, strict=True)
    return [(pixels - board.corners_px).reshape(variants, -1) for pixels, board in pairs]


def _compute_huber_weights(residuals: Sequence[Floats]) -> list[Floats]:
    """Return Huber weights of the residuals with a robust estimate of their scale."""
    std = 1.4826 * float(np.median(np.abs(np.concatenate(residuals))))
    bound = _HUBER_STDS * max(std, _MIN_STD_PX)
    return [np.minimum(1, bound / np.maximum(np.abs(part), 1e-12)) for part in residuals]


def _compute_cost(residuals: Sequence[Floats], weights: Sequence[Floats]) -> float:
    return float(sum((w * r * r).sum() for w, r in zip(weights, residuals, strict=True)))


def make_lens(
    lens_type: type[FittableLens], parameter_names: Sequence[str], parameters: Floats
) -> FittableLens:
    """Return a lens with the given parameters; others are 0."""
    return lens_type(**dict(zip(parameter_names, parameters.tolist(), strict=True)))


def _compute_rms(residuals: Floats) -> float:
    return float(np.sqrt((residuals**2).sum(axis=-1).mean()))


def _estimate_initial(
    detections: Sequence[BoardDetection], image_size: tuple[int, int]
) -> tuple[FittableLens, Floats]:
    """Return a pinhole lens with a centred principal point, and the poses of the boards."""
    flags = (
        cv2.CALIB_FIX_ASPECT_RATIO | cv2.CALIB_FIX_PRINCIPAL_POINT | cv2.CALIB_ZERO_TANGENT_DIST
        | cv2.CALIB_FIX_K1 | cv2.CALIB_FIX_K2 | cv2.CALIB_FIX_K3
    )  # fmt: skip
    points = [s.points_m.astype(np.float32) for s in detections]
    pixels = [s.corners_px.astype(np.float32) for s in detections]
    initial_matrix = np.array(
        [[1.0, 0, (image_size[0] - 1) / 2], [0, 1.0, (image_size[1] - 1) / 2], [0, 0, 1]]
    )
    try:
        _, matrix, _, rotations, positions = cv2.calibrateCamera(
            points, pixels, image_size, initial_matrix, np.zeros(5), flags=flags
        )
    except cv2.error as error:
        raise LensError("the corners of the boards fit no camera") from error
    fx, fy, cx, cy = (float(matrix[at]) for at in ((0, 0), (1, 1), (0, 2), (1, 2)))
    lens = BrownConrady(fx, fy, cx, cy)
    return lens, np.column_stack([np.reshape(rotations, (-1, 3)), np.reshape(positions, (-1, 3))])


def _estimate_pose(detection: BoardDetection, lens: FittableLens) -> Floats:
    """Return an approximate board pose (6,) from the rays of its corners."""
    to_center, plane = center_rays(lens.unproject(detection.corners_px))
    _, rotvec, position = cv2.solvePnP(detection.points_m, plane, np.eye(3), None)
    from_center = to_center.inv()
    rotation = from_center * Rotation.from_rotvec(rotvec.ravel())
    return np.concatenate([rotation.as_rotvec(), from_center.apply(position.ravel())])
