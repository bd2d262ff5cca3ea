"""Bundles: the lens and the poses of boards that together explain where corners are seen.

Levenberg's and Marquardt's method; poses are eliminated photo by photo (Schur complement), so that a
step costs little more than its derivatives. Corners far off count less (Huber's weights).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation
from scipy.stats import norm
from scipy.stats import t as student_t

from sim2cam.adapt.calibration.board_corners import BoardDetection
from sim2cam.errors import LensError
from sim2cam.geometry.central_lens import center_rays
from sim2cam.geometry.lens import BrownConrady, KannalaBrandt, Rational, ThinPrism

Floats = NDArray[np.float64]
FittableLens = BrownConrady | Rational | ThinPrism | KannalaBrandt

_MAX_ITERATIONS = 60
_COST_TOLERANCE = 1e-6  # relative change of the cost at which it has come to rest
_INITIAL_DAMPING, _MAX_DAMPING = 1e-3, 1e12
_HUBER_STDS = 3.0  # standard deviations up to which a corner counts whole
_DERIVATIVE_STEP = 1e-6  # of derivatives
_MAX_REWEIGHTINGS = 3
_INTERVAL_QUANTILE = 0.975  # quantile at the end of an interval
_MIN_STD_PX = 1e-3  # corners are never surer


@dataclass(frozen=True)
class LensModel:
    """A lens model and which of its numbers are fitted; the others are 0.

    Attributes:
        name: of it.
        lens_type: of lens.
        free_parameters: its numbers.
    """

    name: str
    lens_type: type[FittableLens]
    free_parameters: tuple[str, ...]


PINHOLE_PARAMETERS = ("fx_px", "fy_px", "cx_px", "cy_px")
"""Numbers of every lens."""
_BROWN_PARAMETERS = (*PINHOLE_PARAMETERS, "k1", "k2", "p1", "p2", "k3")
_RATIONAL_PARAMETERS = (*_BROWN_PARAMETERS, "k4", "k5", "k6")
LENS_MODELS = (
    LensModel("pinhole", BrownConrady, PINHOLE_PARAMETERS),
    LensModel("brown_conrady", BrownConrady, _BROWN_PARAMETERS),
    LensModel("kannala_brandt", KannalaBrandt, (*PINHOLE_PARAMETERS, "k1", "k2", "k3", "k4")),
    LensModel("rational", Rational, _RATIONAL_PARAMETERS),
    LensModel("thin_prism", ThinPrism, (*_RATIONAL_PARAMETERS, "s1", "s2", "s3", "s4")),
)
"""From simple to rich."""


@dataclass(frozen=True, eq=False)
class BundleFit:
    """A lens with the poses of the boards it was fitted to.

    Attributes:
        model: which numbers of the lens were fitted.
        lens: the best one.
        poses: (photos, 6) of each board: rotation vector, position, in the camera frame.
        residuals: of each photo (n, 2), pixels, seen minus expected.
        covariance: (p, p) of the fitted numbers.
    """

    model: LensModel
    lens: FittableLens
    poses: Floats
    residuals: tuple[Floats, ...]
    covariance: Floats

    @property
    def rms_px(self) -> float:
        """Root of the mean squared distance between corners seen and expected, as OpenCV has it."""
        return _compute_rms(np.concatenate(self.residuals))

    @property
    def rms_px_per_photo(self) -> Floats:
        """The same of each photo (photos,)."""
        return np.array([_compute_rms(found) for found in self.residuals])


def fit_bundle(
    detections: Sequence[BoardDetection],
    image_size: tuple[int, int],
    model: LensModel,
    initial: BundleFit | None = None,
) -> BundleFit:
    """Return the lens of a model that explains sightings best.

    Args:
        detections: at least two.
        image_size: width and height of the photos, pixels.
        model: of the lens.
        initial: a fit of a simpler model to the same sightings; from the homographies without it.

    Raises:
        LensError: no lens of the model does.
    """
    lens, poses = (
        (initial.lens, initial.poses) if initial else _estimate_initial(detections, image_size)
    )
    numbers = np.array([getattr(lens, name, 0.0) for name in model.free_parameters])
    weights = [np.ones(2 * len(s.corners_px)) for s in detections]
    for _ in range(_MAX_REWEIGHTINGS):
        numbers, poses = _minimize_cost(detections, model, numbers, poses, weights)
        off = _compute_residuals(detections, model, numbers, poses)
        robust = _compute_huber_weights(off)
        if all(np.allclose(a, b, atol=1e-2) for a, b in zip(weights, robust, strict=True)):
            break
        weights = robust
    covariance = _estimate_covariance(detections, model, numbers, poses, weights)
    off = _compute_residuals(detections, model, numbers, poses)
    pairs = tuple(-part.reshape(-1, 2) for part in off)
    return BundleFit(
        model, make_lens(model.lens_type, model.free_parameters, numbers), poses, pairs, covariance
    )


def compute_held_out_residuals(detection: BoardDetection, lens: FittableLens) -> Floats:
    """Return the residuals (n, 2) of a photo that the lens was not fitted to, its board at its best.

    Raises:
        LensError: the lens does not see the board.
    """
    model = next(m for m in reversed(LENS_MODELS) if m.lens_type is type(lens))
    numbers = np.array([getattr(lens, name) for name in model.free_parameters])
    pose, weights = _estimate_pose(detection, lens)[None], [np.ones(2 * len(detection.corners_px))]
    _, pose = _minimize_cost([detection], model, numbers, pose, weights, fix_lens=True)
    (off,) = _compute_residuals([detection], model, numbers, pose)
    return -off.reshape(-1, 2)


def _minimize_cost(
    detections: Sequence[BoardDetection],
    model: LensModel,
    parameters: Floats,
    poses: Floats,
    weights: Sequence[Floats],
    *,
    fix_lens: bool = False,
) -> tuple[Floats, Floats]:
    """Return the numbers of the lens and the poses at the least weighted sum of squares."""
    damping, cost = (
        _INITIAL_DAMPING,
        _compute_cost(_compute_residuals(detections, model, parameters, poses), weights),
    )
    for _ in range(_MAX_ITERATIONS):
        of_lens, of_poses, off = _compute_jacobians(detections, model, parameters, poses)
        blocks = _build_normal_equations(of_lens, of_poses, off, weights)
        while damping < _MAX_DAMPING:
            way, ways = _solve_step(blocks, damping, fix_lens=fix_lens)
            try:
                tried = _compute_cost(
                    _compute_residuals(detections, model, parameters + way, poses + ways), weights
                )
            except LensError:
                tried = np.inf
            if tried < cost:
                break
            damping *= 10
        else:
            return parameters, poses
        gained, cost, damping = (cost - tried) / cost, tried, damping / 10
        parameters, poses = parameters + way, poses + ways
        if gained < _COST_TOLERANCE:
            break
    return parameters, poses


@dataclass(frozen=True, eq=False)
class _NormalEquations:
    """The normal equations of a bundle: of the lens, between lens and poses, of each pose.

    Attributes:
        lens_hessian: (photos, p, p).
        cross_hessian: (photos, p, 6).
        pose_hessian: (photos, 6, 6).
        lens_gradient: (photos, p) gradient by the lens, photo by photo.
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
    lens, mixed, pose, lens_off, pose_off = [], [], [], [], []
    for a, b, r, w in zip(lens_jacobians, pose_jacobians, residuals, weights, strict=True):
        weighted_a, weighted_b = a * w[:, None], b * w[:, None]
        lens.append(weighted_a.T @ a)
        mixed.append(weighted_a.T @ b)
        pose.append(weighted_b.T @ b)
        lens_off.append(weighted_a.T @ r)
        pose_off.append(weighted_b.T @ r)
    return _NormalEquations(*map(np.array, (lens, mixed, pose, lens_off, pose_off)))


def _solve_step(
    equations: _NormalEquations, damping: float, *, fix_lens: bool
) -> tuple[Floats, Floats]:
    """Return the damped step of the lens (p,) and of the poses (photos, 6)."""
    pose = equations.pose_hessian + damping * equations.pose_hessian * np.eye(6)
    solved = np.linalg.solve(pose, equations.pose_gradient[..., None])[..., 0]  # (photos, 6)
    if fix_lens:
        return np.zeros(equations.lens_hessian.shape[-1]), np.asarray(-solved)
    spread = np.linalg.solve(pose, equations.cross_hessian.transpose(0, 2, 1))  # (photos, 6, p)
    own = equations.lens_hessian.sum(axis=0)
    lens = own + damping * np.diag(np.diag(own)) - (equations.cross_hessian @ spread).sum(axis=0)
    off = equations.lens_gradient.sum(axis=0) - (equations.cross_hessian @ solved[..., None])[
        ..., 0
    ].sum(axis=0)
    way = -np.linalg.lstsq(lens, off, rcond=None)[0]
    return way, np.asarray(-(solved + spread @ way))


def _estimate_covariance(
    detections: Sequence[BoardDetection],
    model: LensModel,
    parameters: Floats,
    poses: Floats,
    weights: Sequence[Floats],
) -> Floats:
    """Return the covariance (p, p) of the lens's numbers; 1.96 of its deviations hold 95 %.

    Corners of a photo are off together, so that the numbers' variance is also told from how they move as
    one photo after another is left out (the jackknife of clusters, CR3 of Bell and McCaffrey 2002, "Bias
    reduction in standard errors for linear regression with multi-stage samples", by one step of
    Newton's method), with Student's quantile for so few photos; of each number the larger variance of the
    two counts. How numbers go together is told by both as well: the fewer photos there are for a number,
    the less the jackknife's correlations count, which photos of as many as numbers say nothing of (in the
    way of Ledoit and Wolf 2004, "Honey, I shrunk the sample covariance matrix").
    """
    blocks = _build_normal_equations(
        *_compute_jacobians(detections, model, parameters, poses), weights
    )
    spread = np.linalg.solve(blocks.pose_hessian, blocks.cross_hessian.transpose(0, 2, 1))
    by_photo = (
        blocks.lens_hessian - blocks.cross_hessian @ spread
    )  # (photos, p, p) what each tells of the lens
    told = by_photo.sum(axis=0)
    unit = 1 / np.sqrt(np.maximum(np.diag(told), 1e-300))  # numbers are of very different sizes
    by_photo, told = (part * unit[:, None] * unit for part in (by_photo, told))
    scores = (
        blocks.lens_gradient - (spread.transpose(0, 2, 1) @ blocks.pose_gradient[..., None])[..., 0]
    )
    off = _compute_residuals(detections, model, parameters, poses)
    count, photos = sum(map(len, off)), len(detections)
    free = max(1, count - len(parameters) - poses.size)
    plain = np.linalg.pinv(told, hermitian=True) * _compute_cost(off, weights) / free
    others = np.linalg.pinv(told - by_photo, hermitian=True)
    moved = (others @ (scores * unit)[..., None])[..., 0]
    clustered = moved.T @ moved * (photos - 1) / photos
    clustered *= (student_t.ppf(_INTERVAL_QUANTILE, photos - 1) / norm.ppf(_INTERVAL_QUANTILE)) ** 2
    deviations = np.sqrt(np.maximum(np.diag(plain), np.diag(clustered))) * unit
    share = min(1.0, len(parameters) / photos)
    correlation = share * _compute_correlation(plain) + (1 - share) * _compute_correlation(
        clustered
    )
    return np.asarray(correlation * deviations[:, None] * deviations)


def _compute_correlation(covariance: Floats) -> Floats:
    """Return the correlations of a covariance (p, p); 0 with what never varies."""
    variances = np.diag(covariance)
    unit = np.sqrt(variances, where=variances > 0, out=np.full(len(variances), np.inf))
    found = covariance / unit / unit[:, None]
    np.fill_diagonal(found, 1.0)
    return np.asarray(found)


def _compute_jacobians(
    detections: Sequence[BoardDetection], model: LensModel, parameters: Floats, poses: Floats
) -> tuple[list[Floats], list[Floats], list[Floats]]:
    """Return derivatives of each photo's residuals by the lens (2n, p) and its pose (2n, 6), and them."""
    steps = _DERIVATIVE_STEP * np.maximum(1, np.abs(parameters))
    by_lens = [
        _compute_residuals(detections, model, parameters + step * unit, poses)
        for step, unit in zip(steps, np.eye(len(parameters)), strict=True)
    ]
    moves = _DERIVATIVE_STEP * np.eye(7, 6, -1)  # not at all, then each way
    lens = make_lens(model.lens_type, model.free_parameters, parameters)
    by_pose = _project_residuals(detections, lens, poses + moves[:, None])
    off = [part[0] for part in by_pose]
    of_lens = [
        np.column_stack(
            [(moved[i] - off[i]) / step for moved, step in zip(by_lens, steps, strict=True)]
        )
        for i in range(len(off))
    ]
    return of_lens, [(part[1:] - part[0]).T / _DERIVATIVE_STEP for part in by_pose], off


def _compute_residuals(
    detections: Sequence[BoardDetection], model: LensModel, parameters: Floats, poses: Floats
) -> list[Floats]:
    """Return how far expected corners are from those seen (2n,), of each photo."""
    lens = make_lens(model.lens_type, model.free_parameters, parameters)
    return [part[0] for part in _project_residuals(detections, lens, poses[None])]


def _project_residuals(
    detections: Sequence[BoardDetection], lens: FittableLens, poses: Floats
) -> list[Floats]:
    """Return the residuals (ways, 2n) of each photo with its board at poses (ways, photos, 6)."""
    ways, photos = poses.shape[:2]
    turns = Rotation.from_rotvec(poses[..., :3].reshape(-1, 3)).as_matrix()
    turned = turns.reshape(ways, photos, 3, 3).swapaxes(2, 3)
    places = [s.points_m @ turned[:, i] + poses[:, i, None, 3:] for i, s in enumerate(detections)]
    points = np.concatenate(places, axis=1)
    expected = lens.project(points.reshape(-1, 3)).reshape(ways, -1, 2)
    ends = np.cumsum([len(s.corners_px) for s in detections])[:-1]
    pairs = zip(np.split(expected, ends, axis=1), detections, strict=True)
    return [(found - s.corners_px).reshape(ways, -1) for found, s in pairs]


def _compute_huber_weights(residuals: Sequence[Floats]) -> list[Floats]:
    """Return the weights of residuals: less the farther they are beyond what is usual."""
    usual = 1.4826 * float(np.median(np.abs(np.concatenate(residuals))))
    bound = _HUBER_STDS * max(usual, _MIN_STD_PX)
    return [np.minimum(1, bound / np.maximum(np.abs(part), 1e-12)) for part in residuals]


def _compute_cost(residuals: Sequence[Floats], weights: Sequence[Floats]) -> float:
    return float(sum((w * r * r).sum() for w, r in zip(weights, residuals, strict=True)))


def make_lens(
    lens_type: type[FittableLens], parameter_names: Sequence[str], parameters: Floats
) -> FittableLens:
    """Return the lens with these numbers; the others are 0."""
    return lens_type(**dict(zip(parameter_names, parameters.tolist(), strict=True)))


def _compute_rms(residuals: Floats) -> float:
    return float(np.sqrt((residuals**2).sum(axis=-1).mean()))


def _estimate_initial(
    detections: Sequence[BoardDetection], image_size: tuple[int, int]
) -> tuple[FittableLens, Floats]:
    """Return a pinhole with its middle in the picture's, and the poses of the boards before it."""
    flags = (
        cv2.CALIB_FIX_ASPECT_RATIO | cv2.CALIB_FIX_PRINCIPAL_POINT | cv2.CALIB_ZERO_TANGENT_DIST
        | cv2.CALIB_FIX_K1 | cv2.CALIB_FIX_K2 | cv2.CALIB_FIX_K3
    )  # fmt: skip
    points = [s.points_m.astype(np.float32) for s in detections]
    pixels = [s.corners_px.astype(np.float32) for s in detections]
    middle = np.array(
        [[1.0, 0, (image_size[0] - 1) / 2], [0, 1.0, (image_size[1] - 1) / 2], [0, 0, 1]]
    )
    try:
        _, matrix, _, turns, places = cv2.calibrateCamera(
            points, pixels, image_size, middle, np.zeros(5), flags=flags
        )
    except cv2.error as error:
        raise LensError("the boards' corners lie as no camera sees them") from error
    fx, fy, cx, cy = (float(matrix[at]) for at in ((0, 0), (1, 1), (0, 2), (1, 2)))
    lens = BrownConrady(fx, fy, cx, cy)
    return lens, np.column_stack([np.reshape(turns, (-1, 3)), np.reshape(places, (-1, 3))])


def _estimate_pose(detection: BoardDetection, lens: FittableLens) -> Floats:
    """Return about where a board is (6,), from the rays of its corners."""
    ahead, plane = center_rays(lens.unproject(detection.corners_px))
    _, turn, place = cv2.solvePnP(detection.points_m, plane, np.eye(3), None)
    back = ahead.inv()
    rotation = back * Rotation.from_rotvec(turn.ravel())
    return np.concatenate([rotation.as_rotvec(), back.apply(place.ravel())])
