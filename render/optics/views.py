"""Undistorted views that cover the field of view of a lens, and the positions of its pixels in them.

The focal length of a view is the smallest at which each pixel of the image covers at least one
pixel of the view in every direction, by the derivative of the lens. One view suffices up to 55
degrees off the axis. Beyond, cube faces are used if they have fewer pixels, or if one view cannot
cover the field.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import make_interp_spline
from scipy.spatial.transform import Rotation

from sim2cam.errors import LensError
from sim2cam.geometry.lens import Lens
from sim2cam.geometry.perspective import Perspective
from sim2cam.geometry.poses import Pose
from sim2cam.render.gbuffer import PinholeView
from sim2cam.scene.camera import Camera
from sim2cam.scene.scene import Scene

Floats = NDArray[np.float64]
Float32Array = NDArray[np.float32]

_SINGLE_VIEW_COSINE = math.cos(math.radians(55))
_MIN_VIEW_COSINE = math.cos(math.radians(85))  # limit of a single view
_SPLINE_NODE_PX, _MIN_SPLINE_NODES = 8, 4
_SPLINE_TOLERANCE_PX = 1e-4  # maximum error of the spline approximation of a lens
_MAX_VIEW_PX = 16384  # maximum side in OpenGL drivers
_CUBE_ROTATIONS: Floats = np.concatenate(
    [
        Rotation.from_euler("y", [[0], [90], [180], [270]], degrees=True).as_matrix(),
        Rotation.from_euler("x", [[90], [270]], degrees=True).as_matrix(),
    ]
).round()
"""(6, 3, 3) rotations from the frame of each face, which looks along +z, to the camera frame."""


@dataclass(frozen=True, eq=False)
class ViewPatch:
    """Pixels of an image that one undistorted view covers.

    Attributes:
        pose: frame of the view in the world.
        to_camera: (3, 3) rotation from the frame of the view to that of the camera.
        pixels: flat indices (m,) of the pixels, row by row, or a slice of all.
        plane_points: (2, m) intersections of pixel rays with the plane z = 1 of the view.
        step_right, step_down: (2, m) steps in that plane to the next pixel on the right and below.
        depth_scale: (m,) depth in the image over depth in the view.
        focal_px: focal length at which each pixel covers at least one pixel of the view.
    """

    pose: Pose
    to_camera: Floats
    pixels: NDArray[np.intp] | slice
    plane_points: Floats
    step_right: Float32Array
    step_down: Float32Array
    depth_scale: Float32Array
    focal_px: float

    def compute_area_px(self) -> float:
        """Return the area of the view in pixels, without a margin."""
        return float(np.prod(np.ptp(self.plane_points, axis=1) * self.focal_px))

    def select_pixels(self, start: int, stop: int) -> ViewPatch:
        """Return the patch of flat pixel indices ``start`` to ``stop``, ``stop`` excluded."""
        indices = (
            np.arange(self.plane_points.shape[1]) if isinstance(self.pixels, slice) else self.pixels
        )
        selected = np.flatnonzero((indices >= start) & (indices < stop))
        return replace(
            self,
            pixels=indices[selected] - start,
            plane_points=self.plane_points[:, selected],
            step_right=self.step_right[:, selected],
            step_down=self.step_down[:, selected],
            depth_scale=self.depth_scale[selected],
        )

    def make_view(self, oversampling: int, margin_px: float) -> tuple[PinholeView, Float32Array]:
        """Return the oversampled view, and the positions (2, m) of the pixels in it.

        Args:
            oversampling: factor of the focal length.
            margin_px: margin around the pixels.

        Raises:
            LensError: the view exceeds the maximum size.
        """
        focal = oversampling * self.focal_px
        low = self.plane_points.min(axis=1) * focal - margin_px
        high = self.plane_points.max(axis=1) * focal + margin_px
        width, height = (math.ceil(side) + 1 for side in high - low)
        if max(width, height) > _MAX_VIEW_PX:
            raise LensError(
                f"the lens needs an undistorted view of {width} x {height} pixels, more than the "
                f"maximum of {_MAX_VIEW_PX}. Use a smaller image or a narrower field of view."
            )
        view = PinholeView(self.pose, width, height, focal, -float(low[0]), -float(low[1]))
        return view, (self.plane_points * focal - low[:, None]).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Optics:
    """Undistorted views that make up the image of a camera.

    Attributes:
        width, height: size of the image in pixels.
        pinhole: view identical with the image; None for a lens with distortion.
        patches: views to resample; empty for a pinhole.
    """

    width: int
    height: int
    pinhole: PinholeView | None
    patches: tuple[ViewPatch, ...]

    def with_pose(self, pose: Pose) -> Optics:
        """Return the optics of the camera at another pose."""
        if self.pinhole is not None:
            return replace(self, pinhole=replace(self.pinhole, pose=pose))
        patches = (
            replace(patch, pose=_rotate_pose(pose, patch.to_camera)) for patch in self.patches
        )
        return replace(self, patches=tuple(patches))

    def crop_rows(self, start: int, stop: int) -> Optics:
        """Return the optics of image rows ``start`` to ``stop``, ``stop`` excluded."""
        if (start, stop) == (0, self.height):
            return self
        if self.pinhole is not None:
            height, cy_px = stop - start, self.pinhole.cy_px - start
            view = replace(self.pinhole, height=height, cy_px=cy_px)
            return replace(self, height=height, pinhole=view)
        cropped = (
            patch.select_pixels(start * self.width, stop * self.width) for patch in self.patches
        )
        visible = tuple(band for band in cropped if len(band.depth_scale))
        return replace(self, height=stop - start, patches=visible)


@dataclass(frozen=True, eq=False)
class _RayField:
    """Rays of the pixels of an image.

    Attributes:
        rays: (3, n) unit vectors in the camera frame.
        step_right, step_down: (3, n) differences to the rays of the next pixels on the right and below.
        unit_depth: (n,) depth of a point at distance 1.
    """

    rays: Floats
    step_right: Float32Array
    step_down: Float32Array
    unit_depth: Floats

    def rotate_pixels(self, to_camera: Floats, pixels: NDArray[np.intp]) -> _RayField:
        """Return the rays of some pixels in the frame that ``to_camera`` (3, 3) maps to the camera."""
        rotation, rotation_f32 = to_camera.T, to_camera.T.astype(np.float32)
        right, down = (
            rotation_f32 @ self.step_right[:, pixels],
            rotation_f32 @ self.step_down[:, pixels],
        )
        return _RayField(rotation @ self.rays[:, pixels], right, down, self.unit_depth[pixels])


def find_unprojectable_corner(scene: Scene) -> str | None:
    """Return the error of the first lens that cannot unproject an image corner; None without one."""
    for camera in scene.cameras:
        right, bottom = camera.width - 1.0, camera.height - 1.0
        try:
            camera.lens.unproject(np.array([[0, 0], [right, 0], [0, bottom], [right, bottom]]))
        except LensError as error:
            return str(error)
    return None


def build_optics(camera: Camera) -> Optics:
    """Return the undistorted views of a camera.

    Raises:
        LensError: the lens cannot unproject every pixel.
    """
    lens, width, height = camera.lens, camera.width, camera.height
    if isinstance(lens, Perspective) and lens.is_pinhole() and lens.fx_px == lens.fy_px:
        view = PinholeView(camera.pose, width, height, lens.fx_px, lens.cx_px, lens.cy_px)
        return Optics(width, height, view, ())
    return Optics(width, height, None, _make_patches(_compute_ray_field(camera), camera.pose))


def _make_patches(ray_field: _RayField, pose: Pose) -> tuple[ViewPatch, ...]:
    min_cosine = ray_field.rays[2].min()
    if min_cosine < _MIN_VIEW_COSINE:
        return _make_cube_patches(ray_field, pose)
    single = _make_patch(ray_field, pose, np.eye(3), slice(None))
    if min_cosine >= _SINGLE_VIEW_COSINE:
        return (single,)
    cube = _make_cube_patches(ray_field, pose)
    return (
        cube
        if sum(patch.compute_area_px() for patch in cube) < single.compute_area_px()
        else (single,)
    )


def _make_cube_patches(ray_field: _RayField, pose: Pose) -> tuple[ViewPatch, ...]:
    """Return the cube faces that contain pixel rays."""
    nearest = np.argmax(_CUBE_ROTATIONS[:, :, 2] @ ray_field.rays, axis=0)
    face_pixels = [np.flatnonzero(nearest == number) for number in range(len(_CUBE_ROTATIONS))]
    return tuple(
        _make_patch(
            ray_field.rotate_pixels(rotation, pixels),
            _rotate_pose(pose, rotation),
            rotation,
            pixels,
        )
        for rotation, pixels in zip(_CUBE_ROTATIONS, face_pixels, strict=True)
        if len(pixels)
    )


def _compute_ray_field(camera: Camera) -> _RayField:
    rays = compute_pixel_rays(camera.lens, camera.width, camera.height).reshape(3, -1)
    grid = rays.astype(np.float32).reshape(3, camera.height, camera.width)
    right, down = (
        gradient.reshape(3, -1) for gradient in np.gradient(grid, axis=(2, 1), edge_order=2)
    )
    depth = np.ones_like(rays[2]) if camera.lens.depth_along == "ray" else rays[2]
    return _RayField(rays, right, down, depth)


def compute_pixel_rays(lens: Lens, width: int, height: int) -> Floats:
    """Return the unit rays (3, h, w) of all pixels.

    The lens is evaluated at nodes and interpolated by cubic splines. If the error half-way between
    nodes exceeds the tolerance, the lens is evaluated at every pixel.
    """
    (x, basis_x), (y, basis_y) = _make_spline_basis(width), _make_spline_basis(height)
    nodes = np.moveaxis(_unproject_grid(lens, x, y), -1, 0)
    rays = np.matmul(np.matmul(basis_y, nodes), basis_x.T)
    columns, rows = (np.arange(_SPLINE_NODE_PX // 2, n, _SPLINE_NODE_PX) for n in (width, height))
    if len(columns) and len(rows):
        error = rays[:, rows][:, :, columns] - np.moveaxis(
            _unproject_grid(lens, columns, rows), -1, 0
        )
        step = np.abs(np.diff(rays[:, rows], axis=2)).max(axis=0).min()
        if np.abs(error).max() > _SPLINE_TOLERANCE_PX * step:
            grid = _unproject_grid(lens, np.arange(width), np.arange(height))
            return np.ascontiguousarray(np.moveaxis(grid, -1, 0))
    return np.asarray(rays)


def _unproject_grid(lens: Lens, columns: NDArray[Any], rows: NDArray[Any]) -> Floats:
    """Return the unit rays (h, w, 3) of pixels in columns (w,) and rows (h,)."""
    pixels = np.stack(np.meshgrid(columns, rows), axis=-1).reshape(-1, 2).astype(np.float64)
    return lens.unproject(pixels).reshape(len(rows), len(columns), 3)


@functools.lru_cache(maxsize=16)
def _make_spline_basis(length: int) -> tuple[Floats, Floats]:
    """Return nodes (m,) along n pixels, and the spline weights (n, m) of the nodes at the pixels."""
    nodes = np.linspace(
        0, length - 1, max(_MIN_SPLINE_NODES, math.ceil((length - 1) / _SPLINE_NODE_PX) + 1)
    )
    if length <= _MIN_SPLINE_NODES:
        return np.arange(length, dtype=np.float64), np.eye(length)
    return nodes, np.asarray(make_interp_spline(nodes, np.eye(len(nodes)), k=3)(np.arange(length)))


def _rotate_pose(pose: Pose, rotation: Floats) -> Pose:
    matrix = np.eye(4)
    matrix[:3, :3] = rotation
    return pose @ Pose.from_matrix(matrix)


def _make_patch(
    ray_field: _RayField, pose: Pose, to_camera: Floats, pixels: NDArray[np.intp] | slice
) -> ViewPatch:
    """Return the patch of some pixels from their rays in its frame."""
    z = ray_field.rays[2]
    plane_points = ray_field.rays[:2] / z
    float32_arrays = plane_points.astype(np.float32), z.astype(np.float32)
    right, down = (
        _project_step(*float32_arrays, step) for step in (ray_field.step_right, ray_field.step_down)
    )
    depth_scale = (ray_field.unit_depth / z).astype(np.float32)
    focal_px = 1 / float(_compute_min_singular_values(right, down).min())
    return ViewPatch(pose, to_camera, pixels, plane_points, right, down, depth_scale, focal_px)


def _project_step(plane_points: Float32Array, z: Float32Array, step: Float32Array) -> Float32Array:
    """Return the steps (2, m) in the plane z = 1 for steps (3, m) of rays with this z."""
    return np.asarray((step[:2] - plane_points * step[2]) / z)


def _compute_min_singular_values(step_right: Float32Array, step_down: Float32Array) -> Float32Array:
    """Return the smaller singular values (m,) of 2 x 2 matrices with these columns (2, m)."""
    total = (step_right * step_right + step_down * step_down).sum(axis=0)
    area = np.abs(step_right[0] * step_down[1] - step_right[1] * step_down[0])
    largest = np.sqrt((total + np.sqrt(np.maximum(total * total - 4 * area * area, 0))) / 2)
    return np.asarray(area / largest)
