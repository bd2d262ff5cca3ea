"""Contour-based pose refinement.

Region-based tracking (Prisacariu and Reid 2012; Stoiber et al. 2022, "SRT3D"): colour histograms inside and
around the contour give each pixel a foreground probability. Along lines across the contour these locate the
object's edge, and Newton steps move the pose until its contour fits. Predicted surface points constrain what the
contour leaves open.
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

_OBJECT_SPAN_PX, _VIEW_SIDE_PX = 120, 208  # of the object, and of the rendered view
_SCALES_PX = (3, 2, 1, 1)  # pixels per line step, one fit per scale
_NEWTON_STEPS = 2  # per scale
_LINE_SPACING_PX = 3
_MIN_LINES = 6
_SEARCH_RADIUS, _LINE_HALF_LENGTH = 8, 12  # in line steps
_AMPLITUDE, _SLOPE = 0.36, 1.3  # of the smoothed step function (SRT3D, equation 10)
_COLOUR_BINS = 16  # per channel
_CONTOUR_GAP_PX = 2  # pixels this near the contour enter no histogram
_BACKGROUND_BAND_PX = 25  # width of the band around the object for the background histogram
_MIN_VISIBLE_PX = 50
_VISIBLE_DILATION_PX = 9  # predicted surfaces may end short of the contour
_MIN_PROBABILITY = 0.01  # of either class at any pixel
_MIN_VARIANCE = 0.15  # of a contour position, in line steps
_POINTS_WEIGHT = 40.0  # of all surface points together
_LINE_WEIGHT = 0.1  # of a line, low because errors of neighbours correlate
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
    """Refine a pose so that its contour fits the image; return the given pose if that fails.

    Hidden parts of the contour are left out.

    Args:
        rgb: image (h, w, 3).
        pose: approximate pose of the object in the camera frame.
        triangles_m: triangles of the object's mesh in its frame (n, 3, 3).
    """
    normalized_points = surface_points.project_to_plane(lens)
    if normalized_points is None:
        return pose
    camera_from_lens = np.eye(4)
    camera_from_lens[:3, :3] = normalized_points.camera_rotation.as_matrix()
    initial_pose = camera_from_lens @ pose.matrix()
    view = _make_object_view(
        rgb,
        lens,
        normalized_points.camera_rotation,
        _transform_points(triangles_m.reshape(-1, 3), initial_pose),
    )
    refined_pose = (
        None if view is None else _fit_contour(view, initial_pose, normalized_points, triangles_m)
    )
    return pose if refined_pose is None else Pose.from_matrix(camera_from_lens.T @ refined_pose)


@dataclass(frozen=True, eq=False)
class _ObjectView:
    """Pinhole view of an object by a camera that is rotated towards it.

    Attributes:
        rgb: view (s, s, 3).
        is_known: pixels that lie inside the original image (s, s).
        matrix: camera matrix (3, 3).
    """

    rgb: NDArray[np.uint8]
    is_known: Mask
    matrix: Floats

    def project(self, points: Floats) -> Floats:
        """Project points (n, 3) in the camera frame to pixels (n, 2)."""
        homogeneous = points @ self.matrix.T
        return np.asarray(homogeneous[:, :2] / homogeneous[:, 2:])

    def render_depth(self, triangles_m: Floats, pose: Floats) -> Floats:
        """Render the depth (s, s) of an object in a pose (4, 4); 0 for background."""
        return rasterize_depth(triangles_m, pose, self.matrix, _VIEW_SIDE_PX, _VIEW_SIDE_PX)


@dataclass(frozen=True, eq=False)
class _CorrespondenceLines:
    """Lines across a contour.

    Attributes:
        centres: intersections with the contour, pixels (n, 2).
        normals: outward normals (n, 2).
        depths_m: depth of the object at the centres (n,).
    """

    centres: Floats
    normals: Floats
    depths_m: Floats


def _transform_points(points_m: Floats, pose: Floats) -> Floats:
    return np.asarray(points_m @ pose[:3, :3].T + pose[:3, 3])


def _make_object_view(
    rgb: NDArray[np.uint8], lens: CentralLens, camera_rotation: Rotation, points: Floats
) -> _ObjectView | None:
    """Return the view of points (n, 3) in the rotated camera's frame; None if some are behind it."""
    if not (points[:, 2] > 0).all():
        return None
    plane_points = points[:, :2] / points[:, 2:]
    low, high = plane_points.min(axis=0), plane_points.max(axis=0)
    focal = _OBJECT_SPAN_PX / (high - low).max()
    matrix = np.diag([focal, focal, 1.0])
    matrix[:2, 2] = (_VIEW_SIDE_PX - 1) / 2 - focal * (low + high) / 2
    pixels = np.stack(np.meshgrid(np.arange(_VIEW_SIDE_PX), np.arange(_VIEW_SIDE_PX)), -1).reshape(
        -1, 2
    )
    rays = np.column_stack([(pixels - matrix[:2, 2]) / focal, np.ones(len(pixels))])
    rays = camera_rotation.inv().apply(rays)
    is_visible = lens.can_project(rays)
    source = np.full((len(rays), 2), -1.0)
    source[is_visible] = lens.project(rays[is_visible])
    is_known = ((source >= 0) & (source <= np.array(rgb.shape[1::-1]) - 1)).all(axis=1)
    maps = source.astype(np.float32).reshape(_VIEW_SIDE_PX, _VIEW_SIDE_PX, 2)
    rgb_view = cv2.remap(rgb, maps[..., 0], maps[..., 1], cv2.INTER_LINEAR)
    return _ObjectView(
        np.asarray(rgb_view, np.uint8), is_known.reshape(_VIEW_SIDE_PX, _VIEW_SIDE_PX), matrix
    )


def _fit_contour(
    view: _ObjectView,
    initial_pose: Floats,
    normalized_points: NormalizedPoints,
    triangles_m: Floats,
) -> Floats | None:
    """Return the pose (4, 4) whose contour fits a view; None if the initial one fits as well."""
    depth = view.render_depth(triangles_m, initial_pose)
    initial_mask = depth > 0
    visible_mask, pose, foreground = _make_visible_mask(view, normalized_points), initial_pose, None
    for scale_px in _SCALES_PX:
        foreground = _compute_foreground_probability(view, depth > 0, visible_mask)
        lines = _select_visible_lines(_sample_contour_lines(depth), visible_mask)
        if len(lines.centres) < _MIN_LINES:
            continue
        shifts, variances = _estimate_contour_shifts(lines, foreground, scale_px)
        pose = _update_pose(
            view, pose, normalized_points, lines, shifts * scale_px, variances * scale_px**2
        )
        if not (np.isfinite(pose).all() and pose[2, 3] > 0):
            return None
        depth = view.render_depth(triangles_m, pose)
    assert foreground is not None
    is_counted = view.is_known & (_compute_distance_map(initial_mask) < _BACKGROUND_BAND_PX)
    masks = (initial_mask, depth > 0)
    fits = [np.log(np.where(mask, foreground, 1 - foreground))[is_counted].sum() for mask in masks]
    return pose if fits[1] > fits[0] else None


def _make_visible_mask(view: _ObjectView, normalized_points: NormalizedPoints) -> Mask:
    """Return the mask (s, s) of the predicted surface; each point is the centre of a square."""
    pixels = view.matrix[0, 0] * normalized_points.plane_points + view.matrix[:2, 2]
    distances, _ = cKDTree(pixels).query(pixels, k=2)
    half_side = int(np.clip(np.median(distances[:, 1]) / 2 + 1, 1, _VIEW_SIDE_PX / 2))
    inside = np.round(pixels[((pixels >= 0) & (pixels <= _VIEW_SIDE_PX - 1)).all(axis=1)]).astype(
        int
    )
    mask = np.zeros((_VIEW_SIDE_PX, _VIEW_SIDE_PX), np.uint8)
    mask[inside[:, 1], inside[:, 0]] = 1
    return np.asarray(
        cv2.dilate(mask, np.ones((2 * half_side + 1, 2 * half_side + 1), np.uint8)) > 0
    )


def _compute_distance_map(mask: Mask) -> NDArray[np.float32]:
    """Return the distance of each pixel to a mask in pixels, 0 inside it."""
    return np.asarray(cv2.distanceTransform((~mask).astype(np.uint8), cv2.DIST_L2, 3), np.float32)


def _compute_foreground_probability(
    view: _ObjectView, mask: Mask, visible_mask: Mask
) -> NDArray[np.float32]:
    """Return the foreground probability of each pixel (s, s) from its colour.

    Histograms are taken of the visible pixels inside the mask, and of a band around it.
    """
    inside = view.is_known & (_compute_distance_map(~mask) > _CONTOUR_GAP_PX)
    if (inside & visible_mask).sum() >= _MIN_VISIBLE_PX:
        inside &= visible_mask
    distances = _compute_distance_map(mask)
    around = view.is_known & (distances > _CONTOUR_GAP_PX) & (distances < _BACKGROUND_BAND_PX)
    bins = (view.rgb.astype(np.int64) * _COLOUR_BINS) >> 8
    colours = (bins[..., 0] * _COLOUR_BINS + bins[..., 1]) * _COLOUR_BINS + bins[..., 2]
    foreground, background = (
        _compute_colour_histogram(colours[region]) for region in (inside, around)
    )
    epsilon = 1e-7  # a colour that is in neither histogram gets 0.5
    probability = ((foreground + epsilon) / (foreground + background + 2 * epsilon))[colours]
    probability[~view.is_known] = 0.5
    return np.asarray(probability.clip(_MIN_PROBABILITY, 1 - _MIN_PROBABILITY), np.float32)


def _compute_colour_histogram(colours: NDArray[np.int64]) -> Floats:
    """Return the relative frequency of each colour bin (_COLOUR_BINS^3,), smoothed over neighbours."""
    counts = np.bincount(colours, minlength=_COLOUR_BINS**3).reshape(
        _COLOUR_BINS, _COLOUR_BINS, _COLOUR_BINS
    )
    smoothed = gaussian_filter(counts.astype(np.float64), 1.0, mode="nearest")
    return np.asarray(smoothed.ravel() / max(1, len(colours)))


def _sample_contour_lines(depth: Floats) -> _CorrespondenceLines:
    """Return evenly spaced lines across the contour of a depth map's foreground."""
    mask = (depth > 0).astype(np.uint8)
    contours, _ = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    contour = max(
        (points[:, 0] for points in contours), key=len, default=np.zeros((0, 2), np.int64)
    )
    if len(contour) < _MIN_LINES * _LINE_SPACING_PX:
        return _CorrespondenceLines(np.zeros((0, 2)), np.zeros((0, 2)), np.zeros(0))
    smoothed = gaussian_filter1d(contour.astype(np.float64), 2.0, axis=0, mode="wrap")
    tangents = np.roll(smoothed, -2, axis=0) - np.roll(smoothed, 2, axis=0)
    # OpenCV contours have the foreground on their left, with y pointing down
    normals = np.column_stack([-tangents[:, 1], tangents[:, 0]])
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-9)
    every_nth = slice(None, None, _LINE_SPACING_PX)
    depths_m = depth[contour[every_nth, 1], contour[every_nth, 0]]
    # contour points are centres of foreground pixels, half a pixel inside the contour
    return _CorrespondenceLines(
        smoothed[every_nth] + 0.5 * normals[every_nth], normals[every_nth], depths_m
    )


def _select_visible_lines(lines: _CorrespondenceLines, visible_mask: Mask) -> _CorrespondenceLines:
    """Return the lines whose inner side is visible."""
    is_visible = (
        cv2.dilate(
            visible_mask.astype(np.uint8),
            np.ones((_VISIBLE_DILATION_PX, _VISIBLE_DILATION_PX), np.uint8),
        )
        > 0
    )
    inner_pixels = (
        np.round(lines.centres - _CONTOUR_GAP_PX * lines.normals)
        .astype(int)
        .clip(0, _VIEW_SIDE_PX - 1)
    )
    selected = is_visible[inner_pixels[:, 1], inner_pixels[:, 0]]
    return _CorrespondenceLines(
        lines.centres[selected], lines.normals[selected], lines.depths_m[selected]
    )


def _estimate_contour_shifts(
    lines: _CorrespondenceLines, foreground_probability: NDArray[np.float32], scale_px: int
) -> tuple[Floats, Floats]:
    """Return the outward shift of the contour on each line (n,) in line steps, and its variance (n,)."""
    positions = (
        lines.centres[:, None] + (scale_px * _LINE_POSITIONS)[:, None] * lines.normals[:, None]
    )
    x, y = positions.astype(np.float32).transpose(2, 0, 1)
    smoothed = cv2.blur(foreground_probability, (scale_px, scale_px))
    foreground = np.asarray(
        cv2.remap(
            smoothed, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_CONSTANT, borderValue=0.5
        ),
        np.float64,
    )[:, None]
    log_likelihoods = np.log(
        _FOREGROUND_STEP * foreground + (1 - _FOREGROUND_STEP) * (1 - foreground)
    ).sum(axis=2)
    log_likelihoods *= np.sqrt(scale_px)  # errors of the averaged pixels are partly correlated
    probabilities = np.exp(log_likelihoods - log_likelihoods.max(axis=1, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    means = probabilities @ _SHIFTS
    variances = (probabilities * (_SHIFTS - means[:, None]) ** 2).sum(axis=1)
    return means, np.maximum(variances, _MIN_VARIANCE)


def _update_pose(
    view: _ObjectView,
    pose: Floats,
    normalized_points: NormalizedPoints,
    lines: _CorrespondenceLines,
    shifts_px: Floats,
    variances: Floats,
) -> Floats:
    """Return the pose (4, 4) after Newton steps towards the contour shifts, constrained by the points."""
    focal = view.matrix[0, 0]
    rays = np.column_stack([(lines.centres - view.matrix[:2, 2]) / focal, np.ones(len(shifts_px))])
    contour_m = (rays * lines.depths_m[:, None] - pose[:3, 3]) @ pose[:3, :3]
    limit_px = 3 * np.sqrt(variances)
    for _ in range(_NEWTON_STEPS):
        contour_points = _transform_points(contour_m, pose)
        residuals = shifts_px - (
            (view.project(contour_points) - lines.centres) * lines.normals
        ).sum(axis=1)
        line_jacobian = np.einsum(
            "ni,nij->nj", focal * lines.normals, _compute_jacobian(contour_points, pose)
        )
        line_weights = _LINE_WEIGHT / variances / (1 + (residuals / limit_px) ** 2)
        hessian, gradient = (
            (line_jacobian.T * line_weights) @ line_jacobian,
            (line_jacobian.T * line_weights) @ residuals,
        )
        points = _transform_points(normalized_points.object_points_m, pose)
        point_residuals = normalized_points.plane_points - points[:, :2] / points[:, 2:]
        robust_weights = 1 / (
            1 + (point_residuals**2).sum(axis=1) / normalized_points.uncertainties**2
        )
        point_weights = (
            _POINTS_WEIGHT / len(points) * robust_weights / normalized_points.uncertainties**2
        )
        point_jacobian = _compute_jacobian(points, pose)
        hessian += np.einsum("n,nki,nkj->ij", point_weights, point_jacobian, point_jacobian)
        gradient += np.einsum("n,nki,nk->i", point_weights, point_jacobian, point_residuals)
        step = np.linalg.lstsq(
            hessian + _DAMPING * np.diag(hessian.diagonal()), gradient, rcond=None
        )[0]
        updated = pose.copy()
        updated[:3, :3] = Rotation.from_rotvec(step[:3]).as_matrix() @ pose[:3, :3]
        updated[:3, 3] += step[3:]
        pose = updated
    return pose


def _compute_jacobian(points: Floats, pose: Floats) -> Floats:
    """Return the Jacobian (n, 2, 6) of points (n, 3) projected to the plane z = 1.

    The parameters are a rotation about the pose's origin and a translation.
    """
    x, y, z = points.T
    zero = np.zeros_like(x)
    translation = np.stack(
        [np.stack([1 / z, zero, -x / z**2], 1), np.stack([zero, 1 / z, -y / z**2], 1)], 1
    )
    return np.concatenate(
        [np.cross((points - pose[:3, 3])[:, None], translation), translation], axis=2
    )
