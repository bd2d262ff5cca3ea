"""Poses whose outlines fit the picture.

As in region-based tracking (Prisacariu and Reid 2012; Stoiber et al. 2022, "SRT3D"): the colours inside and
around the outline of an object tell how likely each pixel shows it; along lines across the outline these tell where it
ends; and the pose moves until its outline is there. Points of the surface, which a detector sees, hold what the
outline leaves open.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter, gaussian_filter1d
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from sim2cam.geometry.central_lens import CentralLens
from sim2cam.geometry.poses import Pose
from sim2cam.metrics.surface_discrepancy import rasterize_depth
from sim2cam.models.inference.detections import NormalizedPoints, SurfacePoints

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

_OBJECT_SPAN_PX, _VIEW_SIDE_PX = 120, 208  # of an object, and of the view of it
_SCALES_PX = (3, 2, 1, 1)  # of a step along lines, one fit after another
_NEWTON_STEPS = 2  # of Newton's method in each
_LINE_SPACING_PX = 3  # lines
_MIN_LINES = 6
_SEARCH_RADIUS, _LINE_HALF_LENGTH = (
    8,
    12,
)  # steps that an outline is looked for away from where it was, and that a line is long
_AMPLITUDE, _SLOPE = 0.36, 1.3  # of the smooth step from inside to outside (SRT3D, equation 10)
_COLOUR_BINS = 16  # of a colour
_CONTOUR_GAP_PX, _BACKGROUND_BAND_PX = (
    2,
    25,
)  # beside an outline: too near to tell colours, and around an object
_MIN_VISIBLE_PX = 50
_VISIBLE_DILATION_PX = 9  # by which what is seen of a surface may fall short of its outline
_MIN_PROBABILITY = 0.01  # how unlikely a pixel may be at most to show what it does not look like
_MIN_VARIANCE = 0.15  # of an outline's place, in steps
_POINTS_WEIGHT = 40.0  # all points of a surface count as so many,
_LINE_WEIGHT = 0.1  # and a line as a part of one, since neighbours err alike
_DAMPING = 1e-3

_SHIFTS = np.arange(-_SEARCH_RADIUS, _SEARCH_RADIUS + 1)
_LINE_POSITIONS = np.arange(-_LINE_HALF_LENGTH, _LINE_HALF_LENGTH) + 0.5
_FOREGROUND_STEP = 0.5 - _AMPLITUDE * np.tanh((_LINE_POSITIONS - _SHIFTS[:, None]) / (2 * _SLOPE))


def refine_pose(
    rgb: NDArray[np.uint8],
    lens: CentralLens,
    pose: Pose,
    surface_points: SurfacePoints,
    triangles_m: Floats,
) -> Pose:
    """Return a pose near another one whose outline fits the picture better; that one where there is none.

    Parts of the outline that a detector does not see, as they are hidden, are left out.

    Args:
        rgb: the picture (height, width, 3).
        lens: through which it was taken.
        pose: of the object's frame in the camera's, about right.
        surface_points: what a detector sees of the object.
        triangles_m: of its shape, corners in its frame (n, 3, 3).
    """
    plane = surface_points.project_to_plane(lens)
    if plane is None:
        return pose
    ahead = np.eye(4)
    ahead[:3, :3] = plane.camera_rotation.as_matrix()
    start = ahead @ pose.matrix()
    view = _make_object_view(
        rgb, lens, plane.camera_rotation, _transform_points(triangles_m.reshape(-1, 3), start)
    )
    found = None if view is None else _fit_contour(view, start, plane, triangles_m)
    return pose if found is None else Pose.from_matrix(ahead.T @ found)


@dataclass(frozen=True, eq=False)
class _ObjectView:
    """An object as a pinhole camera sees it that is turned to it.

    Attributes:
        rgb: its picture (s, s, 3).
        is_known: where the picture that it is cut from has pixels (s, s).
        matrix: of the camera (3, 3).
    """

    rgb: NDArray[np.uint8]
    is_known: Mask
    matrix: Floats

    def project(self, points: Floats) -> Floats:
        """Return where points (n, 3) before the camera are seen (n, 2)."""
        seen = points @ self.matrix.T
        return np.asarray(seen[:, :2] / seen[:, 2:])

    def render_depth(self, triangles_m: Floats, pose: Floats) -> Floats:
        """Return the depth (s, s) of an object in a pose (4, 4); 0 beside it."""
        return rasterize_depth(triangles_m, pose, self.matrix, _VIEW_SIDE_PX, _VIEW_SIDE_PX)


@dataclass(frozen=True, eq=False)
class _CorrespondenceLines:
    """Lines across an outline.

    Attributes:
        centres: where they cross it, pixels (n, 2).
        normals: outwards (n, 2).
        depths_m: of the object there (n,).
    """

    centres: Floats
    normals: Floats
    depths_m: Floats


def _transform_points(points_m: Floats, pose: Floats) -> Floats:
    return np.asarray(points_m @ pose[:3, :3].T + pose[:3, 3])


def _make_object_view(
    rgb: NDArray[np.uint8], lens: CentralLens, camera_rotation: Rotation, points: Floats
) -> _ObjectView | None:
    """Return the view of points (n, 3) before a camera that is turned by ``camera_rotation``; None of some behind it."""
    if not (points[:, 2] > 0).all():
        return None
    places = points[:, :2] / points[:, 2:]
    low, high = places.min(axis=0), places.max(axis=0)
    focal = _OBJECT_SPAN_PX / (high - low).max()
    matrix = np.diag([focal, focal, 1.0])
    matrix[:2, 2] = (_VIEW_SIDE_PX - 1) / 2 - focal * (low + high) / 2
    pixels = np.stack(np.meshgrid(np.arange(_VIEW_SIDE_PX), np.arange(_VIEW_SIDE_PX)), -1).reshape(
        -1, 2
    )
    rays = np.column_stack([(pixels - matrix[:2, 2]) / focal, np.ones(len(pixels))])
    rays = camera_rotation.inv().apply(rays)
    is_seen = lens.can_project(rays)
    source = np.full((len(rays), 2), -1.0)
    source[is_seen] = lens.project(rays[is_seen])
    is_known = ((source >= 0) & (source <= np.array(rgb.shape[1::-1]) - 1)).all(axis=1)
    maps = source.astype(np.float32).reshape(_VIEW_SIDE_PX, _VIEW_SIDE_PX, 2)
    cut = cv2.remap(rgb, maps[..., 0], maps[..., 1], cv2.INTER_LINEAR)
    return _ObjectView(
        np.asarray(cut, np.uint8), is_known.reshape(_VIEW_SIDE_PX, _VIEW_SIDE_PX), matrix
    )


def _fit_contour(
    view: _ObjectView,
    initial_pose: Floats,
    normalized_points: NormalizedPoints,
    triangles_m: Floats,
) -> Floats | None:
    """Return the pose (4, 4) whose outline fits a view; None where it does no better than the first one."""
    depth = view.render_depth(triangles_m, initial_pose)
    first = depth > 0
    cells, pose, belief = _make_visible_mask(view, normalized_points), initial_pose, None
    for scale_px in _SCALES_PX:
        belief = _compute_foreground_probability(view, depth > 0, cells)
        lines = _select_visible_lines(_sample_contour_lines(depth), cells)
        if len(lines.centres) < _MIN_LINES:
            continue
        shifts, variances = _estimate_contour_shifts(lines, belief, scale_px)
        pose = _update_pose(
            view, pose, normalized_points, lines, shifts * scale_px, variances * scale_px**2
        )
        if not (np.isfinite(pose).all() and pose[2, 3] > 0):
            return None
        depth = view.render_depth(triangles_m, pose)
    assert belief is not None  # of the last scale
    counts = view.is_known & (_compute_distance_map(first) < _BACKGROUND_BAND_PX)
    masks = (first, depth > 0)
    fits = [np.log(np.where(mask, belief, 1 - belief))[counts].sum() for mask in masks]
    return pose if fits[1] > fits[0] else None


def _make_visible_mask(view: _ObjectView, normalized_points: NormalizedPoints) -> Mask:
    """Return where a detector sees the surface (s, s): each point is the middle of a square."""
    pixels = view.matrix[0, 0] * normalized_points.plane_points + view.matrix[:2, 2]
    apart, _ = cKDTree(pixels).query(pixels, k=2)
    half = int(np.clip(np.median(apart[:, 1]) / 2 + 1, 1, _VIEW_SIDE_PX / 2))
    inside = np.round(pixels[((pixels >= 0) & (pixels <= _VIEW_SIDE_PX - 1)).all(axis=1)]).astype(
        int
    )
    cells = np.zeros((_VIEW_SIDE_PX, _VIEW_SIDE_PX), np.uint8)
    cells[inside[:, 1], inside[:, 0]] = 1
    return np.asarray(cv2.dilate(cells, np.ones((2 * half + 1, 2 * half + 1), np.uint8)) > 0)


def _compute_distance_map(mask: Mask) -> NDArray[np.float32]:
    """Return how far each pixel is from a mask, pixels; 0 in it."""
    return np.asarray(cv2.distanceTransform((~mask).astype(np.uint8), cv2.DIST_L2, 3), np.float32)


def _compute_foreground_probability(
    view: _ObjectView, mask: Mask, visible_mask: Mask
) -> NDArray[np.float32]:
    """Return how likely each pixel (s, s) shows the object, by its colour: of those in the mask that are seen,
    and of those around it.
    """
    inside = view.is_known & (_compute_distance_map(~mask) > _CONTOUR_GAP_PX)
    if (inside & visible_mask).sum() >= _MIN_VISIBLE_PX:
        inside &= visible_mask
    away = _compute_distance_map(mask)
    around = view.is_known & (away > _CONTOUR_GAP_PX) & (away < _BACKGROUND_BAND_PX)
    bins = (view.rgb.astype(np.int64) * _COLOUR_BINS) >> 8
    colours = (bins[..., 0] * _COLOUR_BINS + bins[..., 1]) * _COLOUR_BINS + bins[..., 2]
    of_object, of_others = (_compute_colour_histogram(colours[where]) for where in (inside, around))
    least = 1e-7  # of a colour that neither has, which tells nothing
    belief = ((of_object + least) / (of_object + of_others + 2 * least))[colours]
    belief[~view.is_known] = 0.5
    return np.asarray(belief.clip(_MIN_PROBABILITY, 1 - _MIN_PROBABILITY), np.float32)


def _compute_colour_histogram(colours: NDArray[np.int64]) -> Floats:
    """Return the share of each colour (_BINS^3,) among some, smoothed over its neighbours."""
    counts = np.bincount(colours, minlength=_COLOUR_BINS**3).reshape(
        _COLOUR_BINS, _COLOUR_BINS, _COLOUR_BINS
    )
    smooth = gaussian_filter(counts.astype(np.float64), 1.0, mode="nearest")
    return np.asarray(smooth.ravel() / max(1, len(colours)))


def _sample_contour_lines(depth: Floats) -> _CorrespondenceLines:
    """Return lines across the outline of what has a depth, at even distances."""
    mask = (depth > 0).astype(np.uint8)
    outlines, _ = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    edge = max((one[:, 0] for one in outlines), key=len, default=np.zeros((0, 2), np.int64))
    if len(edge) < _MIN_LINES * _LINE_SPACING_PX:
        return _CorrespondenceLines(np.zeros((0, 2)), np.zeros((0, 2)), np.zeros(0))
    smooth = gaussian_filter1d(edge.astype(np.float64), 2.0, axis=0, mode="wrap")
    along = np.roll(smooth, -2, axis=0) - np.roll(smooth, 2, axis=0)
    # OpenCV goes around what is filled with it on the left, in a picture whose y points down
    normals = np.column_stack([-along[:, 1], along[:, 0]])
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-9)
    chosen = slice(None, None, _LINE_SPACING_PX)
    depths_m = depth[edge[chosen, 1], edge[chosen, 0]]
    # edges are the outermost pixels that are filled, half a pixel within the outline
    return _CorrespondenceLines(smooth[chosen] + 0.5 * normals[chosen], normals[chosen], depths_m)


def _select_visible_lines(lines: _CorrespondenceLines, visible_mask: Mask) -> _CorrespondenceLines:
    """Return the lines of which the inside is seen."""
    near = (
        cv2.dilate(
            visible_mask.astype(np.uint8),
            np.ones((_VISIBLE_DILATION_PX, _VISIBLE_DILATION_PX), np.uint8),
        )
        > 0
    )
    at = (
        np.round(lines.centres - _CONTOUR_GAP_PX * lines.normals)
        .astype(int)
        .clip(0, _VIEW_SIDE_PX - 1)
    )
    chosen = near[at[:, 1], at[:, 0]]
    return _CorrespondenceLines(
        lines.centres[chosen], lines.normals[chosen], lines.depths_m[chosen]
    )


def _estimate_contour_shifts(
    lines: _CorrespondenceLines, foreground_probability: NDArray[np.float32], scale_px: int
) -> tuple[Floats, Floats]:
    """Return how far outwards outlines are on lines (n,), in steps, and the variances of that (n,)."""
    along = lines.centres[:, None] + (scale_px * _LINE_POSITIONS)[:, None] * lines.normals[:, None]
    x, y = along.astype(np.float32).transpose(2, 0, 1)
    smooth = cv2.blur(foreground_probability, (scale_px, scale_px))
    is_object = np.asarray(
        cv2.remap(smooth, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_CONSTANT, borderValue=0.5),
        np.float64,
    )[:, None]
    fits = np.log(_FOREGROUND_STEP * is_object + (1 - _FOREGROUND_STEP) * (1 - is_object)).sum(
        axis=2
    )
    fits *= np.sqrt(scale_px)  # a step is a mean of pixels that err alike to a part
    chances = np.exp(fits - fits.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    means = chances @ _SHIFTS
    variances = (chances * (_SHIFTS - means[:, None]) ** 2).sum(axis=1)
    return means, np.maximum(variances, _MIN_VARIANCE)


def _update_pose(
    view: _ObjectView,
    pose: Floats,
    normalized_points: NormalizedPoints,
    lines: _CorrespondenceLines,
    shifts_px: Floats,
    variances: Floats,
) -> Floats:
    """Return the pose (4, 4) that brings the outline to where it is seen, and holds the points."""
    focal = view.matrix[0, 0]
    rays = np.column_stack([(lines.centres - view.matrix[:2, 2]) / focal, np.ones(len(shifts_px))])
    outline_m = (rays * lines.depths_m[:, None] - pose[:3, 3]) @ pose[:3, :3]
    limit_px = 3 * np.sqrt(variances)
    for _ in range(_NEWTON_STEPS):
        seen = _transform_points(outline_m, pose)
        missing = shifts_px - ((view.project(seen) - lines.centres) * lines.normals).sum(axis=1)
        slopes = np.einsum("ni,nij->nj", focal * lines.normals, _compute_jacobian(seen, pose))
        counts = _LINE_WEIGHT / variances / (1 + (missing / limit_px) ** 2)
        normal, pull = (slopes.T * counts) @ slopes, (slopes.T * counts) @ missing
        points = _transform_points(normalized_points.object_points_m, pose)
        off = normalized_points.plane_points - points[:, :2] / points[:, 2:]
        ratio = 1 / (1 + (off**2).sum(axis=1) / normalized_points.uncertainties**2)
        held = _POINTS_WEIGHT / len(points) * ratio / normalized_points.uncertainties**2
        turns = _compute_jacobian(points, pose)
        normal += np.einsum("n,nki,nkj->ij", held, turns, turns)
        pull += np.einsum("n,nki,nk->i", held, turns, off)
        step = np.linalg.lstsq(normal + _DAMPING * np.diag(normal.diagonal()), pull, rcond=None)[0]
        moved = pose.copy()
        moved[:3, :3] = Rotation.from_rotvec(step[:3]).as_matrix() @ pose[:3, :3]
        moved[:3, 3] += step[3:]
        pose = moved
    return pose


def _compute_jacobian(points: Floats, pose: Floats) -> Floats:
    """Return how places (n, 2) in the plane z = 1 of points (n, 3) move (n, 2, 6) as a pose turns about its
    origin, and moves.
    """
    x, y, z = points.T
    zero = np.zeros_like(x)
    moves = np.stack(
        [np.stack([1 / z, zero, -x / z**2], 1), np.stack([zero, 1 / z, -y / z**2], 1)], 1
    )
    return np.concatenate([np.cross((points - pose[:3, 3])[:, None], moves), moves], axis=2)
