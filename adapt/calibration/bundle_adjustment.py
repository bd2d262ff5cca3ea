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

from sim2cam.adapt.calibration.board_corners import Sighting
from sim2cam.errors import LensError
from sim2cam.geometry.central_lens import seen_ahead
from sim2cam.geometry.lens import BrownConrady, KannalaBrandt, Rational, ThinPrism

Floats = NDArray[np.float64]
Fittable = BrownConrady | Rational | ThinPrism | KannalaBrandt

_STEPS = 60
_SETTLED = 1e-6  # relative change of the cost at which it has come to rest
_DAMPING, _MOST_DAMPING = 1e-3, 1e12
_HUBER = 3.0  # standard deviations up to which a corner counts whole
_STEP = 1e-6  # of derivatives
_ROBUST_ROUNDS = 3
_SURE = 0.975  # quantile at the end of an interval
_EXACT_PX = 1e-3  # corners are never surer


@dataclass(frozen=True)
class Model:
    """A lens model and which of its numbers are fitted; the others are 0.

    Attributes:
        name: of it.
        kind: of lens.
        free: its numbers.
    """

    name: str
    kind: type[Fittable]
    free: tuple[str, ...]


PINHOLE = ("fx_px", "fy_px", "cx_px", "cy_px")
"""Numbers of every lens."""
_BROWN = (*PINHOLE, "k1", "k2", "p1", "p2", "k3")
_RATIONAL = (*_BROWN, "k4", "k5", "k6")
MODELS = (
    Model("pinhole", BrownConrady, PINHOLE),
    Model("brown_conrady", BrownConrady, _BROWN),
    Model("kannala_brandt", KannalaBrandt, (*PINHOLE, "k1", "k2", "k3", "k4")),
    Model("rational", Rational, _RATIONAL),
    Model("thin_prism", ThinPrism, (*_RATIONAL, "s1", "s2", "s3", "s4")),
)
"""From simple to rich."""


@dataclass(frozen=True, eq=False)
class Bundle:
    """A lens with the poses of the boards it was fitted to.

    Attributes:
        model: which numbers of the lens were fitted.
        lens: the best one.
        poses: (photos, 6) of each board: rotation vector, position, in the camera frame.
        residuals: of each photo (n, 2), pixels, seen minus expected.
        covariance: (p, p) of the fitted numbers.
    """

    model: Model
    lens: Fittable
    poses: Floats
    residuals: tuple[Floats, ...]
    covariance: Floats

    @property
    def rms_px(self) -> float:
        """Root of the mean squared distance between corners seen and expected, as OpenCV has it."""
        return _rms(np.concatenate(self.residuals))

    @property
    def photo_rms_px(self) -> Floats:
        """The same of each photo (photos,)."""
        return np.array([_rms(found) for found in self.residuals])


def fit_bundle(
    sightings: Sequence[Sighting], size: tuple[int, int], model: Model, start: Bundle | None = None
) -> Bundle:
    """Returns the lens of a model that explains sightings best.

    Args:
        sightings: at least two.
        size: width and height of the photos, pixels.
        model: of the lens.
        start: a fit of a simpler model to the same sightings; from the homographies without it.

    Raises:
        LensError: no lens of the model does.
    """
    lens, poses = (start.lens, start.poses) if start else _first_guess(sightings, size)
    numbers = np.array([getattr(lens, name, 0.0) for name in model.free])
    weights = [np.ones(2 * len(s.pixels)) for s in sightings]
    for _ in range(_ROBUST_ROUNDS):
        numbers, poses = _settled(sightings, model, numbers, poses, weights)
        off = _residuals(sightings, model, numbers, poses)
        robust = _huber(off)
        if all(np.allclose(a, b, atol=1e-2) for a, b in zip(weights, robust, strict=True)):
            break
        weights = robust
    covariance = _covariance(sightings, model, numbers, poses, weights)
    off = _residuals(sightings, model, numbers, poses)
    pairs = tuple(-part.reshape(-1, 2) for part in off)
    return Bundle(model, lens_of(model.kind, model.free, numbers), poses, pairs, covariance)


def place_board(sighting: Sighting, lens: Fittable) -> Floats:
    """Returns the residuals (n, 2) of a photo that the lens was not fitted to, its board at its best.

    Raises:
        LensError: the lens does not see the board.
    """
    model = next(m for m in reversed(MODELS) if m.kind is type(lens))
    numbers = np.array([getattr(lens, name) for name in model.free])
    pose, weights = _pose_through(sighting, lens)[None], [np.ones(2 * len(sighting.pixels))]
    _, pose = _settled([sighting], model, numbers, pose, weights, fixed=True)
    (off,) = _residuals([sighting], model, numbers, pose)
    return -off.reshape(-1, 2)


def _settled(
    sightings: Sequence[Sighting],
    model: Model,
    numbers: Floats,
    poses: Floats,
    weights: Sequence[Floats],
    *,
    fixed: bool = False,
) -> tuple[Floats, Floats]:
    """Returns the numbers of the lens and the poses at the least weighted sum of squares."""
    damping, cost = _DAMPING, _cost(_residuals(sightings, model, numbers, poses), weights)
    for _ in range(_STEPS):
        of_lens, of_poses, off = _derivatives(sightings, model, numbers, poses)
        blocks = _blocks(of_lens, of_poses, off, weights)
        while damping < _MOST_DAMPING:
            way, ways = _step(blocks, damping, fixed=fixed)
            try:
                tried = _cost(_residuals(sightings, model, numbers + way, poses + ways), weights)
            except LensError:
                tried = np.inf
            if tried < cost:
                break
            damping *= 10
        else:
            return numbers, poses
        gained, cost, damping = (cost - tried) / cost, tried, damping / 10
        numbers, poses = numbers + way, poses + ways
        if gained < _SETTLED:
            break
    return numbers, poses


@dataclass(frozen=True, eq=False)
class _Blocks:
    """The normal equations of a bundle: of the lens, between lens and poses, of each pose.

    Attributes:
        lens: (photos, p, p).
        mixed: (photos, p, 6).
        pose: (photos, 6, 6).
        lens_off: (photos, p) gradient by the lens, photo by photo.
        pose_off: (photos, 6).
    """

    lens: Floats
    mixed: Floats
    pose: Floats
    lens_off: Floats
    pose_off: Floats


def _blocks(
    of_lens: Sequence[Floats],
    of_poses: Sequence[Floats],
    off: Sequence[Floats],
    weights: Sequence[Floats],
) -> _Blocks:
    lens, mixed, pose, lens_off, pose_off = [], [], [], [], []
    for a, b, r, w in zip(of_lens, of_poses, off, weights, strict=True):
        weighted_a, weighted_b = a * w[:, None], b * w[:, None]
        lens.append(weighted_a.T @ a)
        mixed.append(weighted_a.T @ b)
        pose.append(weighted_b.T @ b)
        lens_off.append(weighted_a.T @ r)
        pose_off.append(weighted_b.T @ r)
    return _Blocks(*map(np.array, (lens, mixed, pose, lens_off, pose_off)))


def _step(blocks: _Blocks, damping: float, *, fixed: bool) -> tuple[Floats, Floats]:
    """Returns the damped step of the lens (p,) and of the poses (photos, 6)."""
    pose = blocks.pose + damping * blocks.pose * np.eye(6)
    solved = np.linalg.solve(pose, blocks.pose_off[..., None])[..., 0]  # (photos, 6)
    if fixed:
        return np.zeros(blocks.lens.shape[-1]), np.asarray(-solved)
    spread = np.linalg.solve(pose, blocks.mixed.transpose(0, 2, 1))  # (photos, 6, p)
    own = blocks.lens.sum(axis=0)
    lens = own + damping * np.diag(np.diag(own)) - (blocks.mixed @ spread).sum(axis=0)
    off = blocks.lens_off.sum(axis=0) - (blocks.mixed @ solved[..., None])[..., 0].sum(axis=0)
    way = -np.linalg.lstsq(lens, off, rcond=None)[0]
    return way, np.asarray(-(solved + spread @ way))


def _covariance(
    sightings: Sequence[Sighting],
    model: Model,
    numbers: Floats,
    poses: Floats,
    weights: Sequence[Floats],
) -> Floats:
    """Returns the covariance (p, p) of the lens's numbers; 1.96 of its deviations hold 95 %.

    Corners of a photo are off together, so that the numbers' variance is also told from how they move as
    one photo after another is left out (the jackknife of clusters, CR3 of Bell and McCaffrey 2002, "Bias
    reduction in standard errors for linear regression with multi-stage samples", by one step of
    Newton's method), with Student's quantile for so few photos; of each number the larger variance of the
    two counts. How numbers go together is told by both as well: the fewer photos there are for a number,
    the less the jackknife's correlations count, which photos of as many as numbers say nothing of (in the
    way of Ledoit and Wolf 2004, "Honey, I shrunk the sample covariance matrix").
    """
    blocks = _blocks(*_derivatives(sightings, model, numbers, poses), weights)
    spread = np.linalg.solve(blocks.pose, blocks.mixed.transpose(0, 2, 1))
    by_photo = blocks.lens - blocks.mixed @ spread  # (photos, p, p) what each tells of the lens
    told = by_photo.sum(axis=0)
    unit = 1 / np.sqrt(np.maximum(np.diag(told), 1e-300))  # numbers are of very different sizes
    by_photo, told = (part * unit[:, None] * unit for part in (by_photo, told))
    scores = blocks.lens_off - (spread.transpose(0, 2, 1) @ blocks.pose_off[..., None])[..., 0]
    off = _residuals(sightings, model, numbers, poses)
    count, photos = sum(map(len, off)), len(sightings)
    free = max(1, count - len(numbers) - poses.size)
    plain = np.linalg.pinv(told, hermitian=True) * _cost(off, weights) / free
    others = np.linalg.pinv(told - by_photo, hermitian=True)
    moved = (others @ (scores * unit)[..., None])[..., 0]
    clustered = moved.T @ moved * (photos - 1) / photos
    clustered *= (student_t.ppf(_SURE, photos - 1) / norm.ppf(_SURE)) ** 2
    deviations = np.sqrt(np.maximum(np.diag(plain), np.diag(clustered))) * unit
    share = min(1.0, len(numbers) / photos)
    correlation = share * _correlation(plain) + (1 - share) * _correlation(clustered)
    return np.asarray(correlation * deviations[:, None] * deviations)


def _correlation(covariance: Floats) -> Floats:
    """Returns the correlations of a covariance (p, p); 0 with what never varies."""
    variances = np.diag(covariance)
    unit = np.sqrt(variances, where=variances > 0, out=np.full(len(variances), np.inf))
    found = covariance / unit / unit[:, None]
    np.fill_diagonal(found, 1.0)
    return np.asarray(found)


def _derivatives(
    sightings: Sequence[Sighting], model: Model, numbers: Floats, poses: Floats
) -> tuple[list[Floats], list[Floats], list[Floats]]:
    """Returns derivatives of each photo's residuals by the lens (2n, p) and its pose (2n, 6), and them."""
    steps = _STEP * np.maximum(1, np.abs(numbers))
    by_lens = [
        _residuals(sightings, model, numbers + step * unit, poses)
        for step, unit in zip(steps, np.eye(len(numbers)), strict=True)
    ]
    moves = _STEP * np.eye(7, 6, -1)  # not at all, then each way
    lens = lens_of(model.kind, model.free, numbers)
    by_pose = _off(sightings, lens, poses + moves[:, None])
    off = [part[0] for part in by_pose]
    of_lens = [
        np.column_stack(
            [(moved[i] - off[i]) / step for moved, step in zip(by_lens, steps, strict=True)]
        )
        for i in range(len(off))
    ]
    return of_lens, [(part[1:] - part[0]).T / _STEP for part in by_pose], off


def _residuals(
    sightings: Sequence[Sighting], model: Model, numbers: Floats, poses: Floats
) -> list[Floats]:
    """Returns how far expected corners are from those seen (2n,), of each photo."""
    lens = lens_of(model.kind, model.free, numbers)
    return [part[0] for part in _off(sightings, lens, poses[None])]


def _off(sightings: Sequence[Sighting], lens: Fittable, poses: Floats) -> list[Floats]:
    """Returns the residuals (ways, 2n) of each photo with its board at poses (ways, photos, 6)."""
    ways, photos = poses.shape[:2]
    turns = Rotation.from_rotvec(poses[..., :3].reshape(-1, 3)).as_matrix()
    turned = turns.reshape(ways, photos, 3, 3).swapaxes(2, 3)
    places = [s.points_m @ turned[:, i] + poses[:, i, None, 3:] for i, s in enumerate(sightings)]
    points = np.concatenate(places, axis=1)
    expected = lens.project(points.reshape(-1, 3)).reshape(ways, -1, 2)
    ends = np.cumsum([len(s.pixels) for s in sightings])[:-1]
    pairs = zip(np.split(expected, ends, axis=1), sightings, strict=True)
    return [(found - s.pixels).reshape(ways, -1) for found, s in pairs]


def _huber(off: Sequence[Floats]) -> list[Floats]:
    """Returns the weights of residuals: less the farther they are beyond what is usual."""
    usual = 1.4826 * float(np.median(np.abs(np.concatenate(off))))
    bound = _HUBER * max(usual, _EXACT_PX)
    return [np.minimum(1, bound / np.maximum(np.abs(part), 1e-12)) for part in off]


def _cost(off: Sequence[Floats], weights: Sequence[Floats]) -> float:
    return float(sum((w * r * r).sum() for w, r in zip(weights, off, strict=True)))


def lens_of(kind: type[Fittable], names: Sequence[str], numbers: Floats) -> Fittable:
    """Returns the lens with these numbers; the others are 0."""
    return kind(**dict(zip(names, numbers.tolist(), strict=True)))


def _rms(residuals: Floats) -> float:
    return float(np.sqrt((residuals**2).sum(axis=-1).mean()))


def _first_guess(sightings: Sequence[Sighting], size: tuple[int, int]) -> tuple[Fittable, Floats]:
    """Returns a pinhole with its middle in the picture's, and the poses of the boards before it."""
    flags = (
        cv2.CALIB_FIX_ASPECT_RATIO | cv2.CALIB_FIX_PRINCIPAL_POINT | cv2.CALIB_ZERO_TANGENT_DIST
        | cv2.CALIB_FIX_K1 | cv2.CALIB_FIX_K2 | cv2.CALIB_FIX_K3
    )  # fmt: skip
    points = [s.points_m.astype(np.float32) for s in sightings]
    pixels = [s.pixels.astype(np.float32) for s in sightings]
    middle = np.array([[1.0, 0, (size[0] - 1) / 2], [0, 1.0, (size[1] - 1) / 2], [0, 0, 1]])
    try:
        _, matrix, _, turns, places = cv2.calibrateCamera(
            points, pixels, size, middle, np.zeros(5), flags=flags
        )
    except cv2.error as error:
        raise LensError("the boards' corners lie as no camera sees them") from error
    fx, fy, cx, cy = (float(matrix[at]) for at in ((0, 0), (1, 1), (0, 2), (1, 2)))
    lens = BrownConrady(fx, fy, cx, cy)
    return lens, np.column_stack([np.reshape(turns, (-1, 3)), np.reshape(places, (-1, 3))])


def _pose_through(sighting: Sighting, lens: Fittable) -> Floats:
    """Returns about where a board is (6,), from the rays of its corners."""
    ahead, plane = seen_ahead(lens.unproject(sighting.pixels))
    _, turn, place = cv2.solvePnP(sighting.points_m, plane, np.eye(3), None)
    back = ahead.inv()
    rotation = back * Rotation.from_rotvec(turn.ravel())
    return np.concatenate([rotation.as_rotvec(), back.apply(place.ravel())])
