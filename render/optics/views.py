"""Optics: the undistorted views that together see what a lens sees, and where in them its pixels lie.

A view has the least focal length at which each pixel of the picture holds at least one of its own,
in every direction, by the derivative of the lens. Up to 55 degrees off the axis one view does;
beyond, the faces of a cube do where they have fewer pixels, or where one view cannot see it all.
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
from sim2cam.render.rasterizer import PinholeView
from sim2cam.scene.camera import Camera
from sim2cam.scene.scene import Scene

Floats = NDArray[np.float64]
Float32Array = NDArray[np.float32]

_SINGLE_VIEW_COSINE = math.cos(math.radians(55))
_MIN_VIEW_COSINE = math.cos(math.radians(85))  # no view is asked to see more
_SPLINE_NODE_PX, _MIN_SPLINE_NODES = 8, 4
_SPLINE_TOLERANCE_PX = 1e-4  # that splines may be off a lens
_MAX_VIEW_PX = 16384  # a side of what OpenGL drivers draw
_CUBE_ROTATIONS: Floats = np.concatenate(
    [
        Rotation.from_euler("y", [[0], [90], [180], [270]], degrees=True).as_matrix(),
        Rotation.from_euler("x", [[90], [270]], degrees=True).as_matrix(),
    ]
).round()
"""(6, 3, 3): from the frame of each face, which looks along its z, to the camera's."""


@dataclass(frozen=True, eq=False)
class ViewPatch:
    """The pixels of a picture that one undistorted view shows.

    Attributes:
        pose: the view's frame in the world.
        to_camera: (3, 3) takes vectors of the view's frame, such as normals, to the camera's.
        pixels: their numbers (m,), counted row by row, or all.
        plane_points: (2, m) where their rays meet the plane z = 1 of the view's frame.
        step_right, step_down: (2, m) the way there to the next pixel on the right, and to that below.
        depth_scale: (m,) depth in the picture over depth in the view.
        focal_px: focal length at which every pixel holds at least one of the view.
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
        """Return how many pixels the view has at its least density, without a margin."""
        return float(np.prod(np.ptp(self.plane_points, axis=1) * self.focal_px))

    def select_pixels(self, start: int, stop: int) -> ViewPatch:
        """Return the face of a picture of those pixels alone, the last left out."""
        numbers = (
            np.arange(self.plane_points.shape[1]) if isinstance(self.pixels, slice) else self.pixels
        )
        chosen = np.flatnonzero((numbers >= start) & (numbers < stop))
        return replace(
            self,
            pixels=numbers[chosen] - start,
            plane_points=self.plane_points[:, chosen],
            step_right=self.step_right[:, chosen],
            step_down=self.step_down[:, chosen],
            depth_scale=self.depth_scale[chosen],
        )

    def make_view(self, oversampling: int, margin_px: float) -> tuple[PinholeView, Float32Array]:
        """Return the view at some times its least density, and the places (2, m) of pixels in it.

        Raises:
            LensError: no rasterizer draws a view that large.
        """
        focal = oversampling * self.focal_px
        low = self.plane_points.min(axis=1) * focal - margin_px
        high = self.plane_points.max(axis=1) * focal + margin_px
        width, height = (math.ceil(side) + 1 for side in high - low)
        if max(width, height) > _MAX_VIEW_PX:
            raise LensError(
                f"the lens spreads its edge so thin that a view of {width} x {height} pixels would "
                f"have to be drawn, of at most {_MAX_VIEW_PX}. Use a smaller picture or a narrower field."
            )
        view = PinholeView(self.pose, width, height, focal, -float(low[0]), -float(low[1]))
        return view, (self.plane_points * focal - low[:, None]).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Optics:
    """How the picture of a camera is made from undistorted views.

    Attributes:
        width, height: of the picture, pixels.
        pinhole: the view that is the picture; None under a lens that bends.
        patches: the views that the picture is made from; none for a pinhole.
    """

    width: int
    height: int
    pinhole: PinholeView | None
    patches: tuple[ViewPatch, ...]

    def with_pose(self, pose: Pose) -> Optics:
        """Return the same camera's optics where it stands otherwise."""
        if self.pinhole is not None:
            return replace(self, pinhole=replace(self.pinhole, pose=pose))
        faces = (replace(face, pose=_rotate_pose(pose, face.to_camera)) for face in self.patches)
        return replace(self, patches=tuple(faces))

    def crop_rows(self, start: int, stop: int) -> Optics:
        """Return how those rows of the picture alone are made, the last left out."""
        if (start, stop) == (0, self.height):
            return self
        if self.pinhole is not None:
            height, middle = stop - start, self.pinhole.cy_px - start
            view = replace(self.pinhole, height=height, cy_px=middle)
            return replace(self, height=height, pinhole=view)
        bands = (face.select_pixels(start * self.width, stop * self.width) for face in self.patches)
        seeing = tuple(band for band in bands if len(band.depth_scale))
        return replace(self, height=stop - start, patches=seeing)


@dataclass(frozen=True, eq=False)
class _RayField:
    """What the pixels of a picture see.

    Attributes:
        rays: (3, n) unit vectors in the camera frame.
        step_right, step_down: (3, n) the way to the ray of the next pixel on the right, and of that below.
        unit_depth: (n,) of a point at distance 1.
    """

    rays: Floats
    step_right: Float32Array
    step_down: Float32Array
    unit_depth: Floats

    def rotate_pixels(self, to_camera: Floats, pixels: NDArray[np.intp]) -> _RayField:
        """Return what some of the pixels see, in a frame that ``to_camera`` (3, 3) turns back."""
        turn, single = to_camera.T, to_camera.T.astype(np.float32)
        across, down = single @ self.step_right[:, pixels], single @ self.step_down[:, pixels]
        return _RayField(turn @ self.rays[:, pixels], across, down, self.unit_depth[pixels])


def find_blind_corner(scene: Scene) -> str | None:
    """Return why a drawn lens cannot see a corner of its picture; None when all can."""
    for camera in scene.cameras:
        right, bottom = camera.width - 1.0, camera.height - 1.0
        try:
            camera.lens.unproject(np.array([[0, 0], [right, 0], [0, bottom], [right, bottom]]))
        except LensError as error:
            return str(error)
    return None


def build_optics(camera: Camera) -> Optics:
    """Return how the picture of a camera is made.

    Raises:
        LensError: the lens does not see every pixel.
    """
    lens, width, height = camera.lens, camera.width, camera.height
    if isinstance(lens, Perspective) and lens.is_pinhole() and lens.fx_px == lens.fy_px:
        view = PinholeView(camera.pose, width, height, lens.fx_px, lens.cx_px, lens.cy_px)
        return Optics(width, height, view, ())
    return Optics(width, height, None, _make_patches(_compute_ray_field(camera), camera.pose))


def _make_patches(ray_field: _RayField, pose: Pose) -> tuple[ViewPatch, ...]:
    narrowest = ray_field.rays[2].min()
    if narrowest < _MIN_VIEW_COSINE:
        return _make_cube_patches(ray_field, pose)
    one = _make_patch(ray_field, pose, np.eye(3), slice(None))
    if narrowest >= _SINGLE_VIEW_COSINE:
        return (one,)
    cube = _make_cube_patches(ray_field, pose)
    return cube if sum(face.compute_area_px() for face in cube) < one.compute_area_px() else (one,)


def _make_cube_patches(ray_field: _RayField, pose: Pose) -> tuple[ViewPatch, ...]:
    """Return those faces of a cube around the camera that pixels look at."""
    nearest = np.argmax(_CUBE_ROTATIONS[:, :, 2] @ ray_field.rays, axis=0)
    shares = [np.flatnonzero(nearest == number) for number in range(len(_CUBE_ROTATIONS))]
    return tuple(
        _make_patch(ray_field.rotate_pixels(turn, pixels), _rotate_pose(pose, turn), turn, pixels)
        for turn, pixels in zip(_CUBE_ROTATIONS, shares, strict=True)
        if len(pixels)
    )


def _compute_ray_field(camera: Camera) -> _RayField:
    rays = compute_pixel_rays(camera.lens, camera.width, camera.height).reshape(3, -1)
    picture = rays.astype(np.float32).reshape(3, camera.height, camera.width)
    across, down = (step.reshape(3, -1) for step in np.gradient(picture, axis=(2, 1), edge_order=2))
    depth = np.ones_like(rays[2]) if camera.lens.depth_along == "ray" else rays[2]
    return _RayField(rays, across, down, depth)


def compute_pixel_rays(lens: Lens, width: int, height: int) -> Floats:
    """Return the unit rays (3, h, w) of all pixels.

    A smooth lens is asked at nodes, between which cubic splines are as good: at pixels half-way
    between nodes they are held against the lens.
    """
    (x, across), (y, down) = _make_spline_basis(width), _make_spline_basis(height)
    known = np.moveaxis(_unproject_grid(lens, x, y), -1, 0)
    rays = np.matmul(np.matmul(down, known), across.T)
    columns, rows = (np.arange(_SPLINE_NODE_PX // 2, n, _SPLINE_NODE_PX) for n in (width, height))
    if len(columns) and len(rows):
        off = rays[:, rows][:, :, columns] - np.moveaxis(
            _unproject_grid(lens, columns, rows), -1, 0
        )
        step = np.abs(np.diff(rays[:, rows], axis=2)).max(axis=0).min()
        if np.abs(off).max() > _SPLINE_TOLERANCE_PX * step:
            everywhere = _unproject_grid(lens, np.arange(width), np.arange(height))
            return np.ascontiguousarray(np.moveaxis(everywhere, -1, 0))
    return np.asarray(rays)


def _unproject_grid(lens: Lens, columns: NDArray[Any], rows: NDArray[Any]) -> Floats:
    """Return the unit rays (h, w, 3) of pixels in columns (w,) and rows (h,)."""
    pixels = np.stack(np.meshgrid(columns, rows), axis=-1).reshape(-1, 2).astype(np.float64)
    return lens.unproject(pixels).reshape(len(rows), len(columns), 3)


@functools.lru_cache(maxsize=16)
def _make_spline_basis(length: int) -> tuple[Floats, Floats]:
    """Return nodes (m,) along n pixels, and what each adds (n, m) to what lies at the pixels."""
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
    """Return the face of some pixels from what they see in its frame."""
    z = ray_field.rays[2]
    spots = ray_field.rays[:2] / z
    single = spots.astype(np.float32), z.astype(np.float32)
    across, down = (
        _project_step(*single, way) for way in (ray_field.step_right, ray_field.step_down)
    )
    stretch = (ray_field.unit_depth / z).astype(np.float32)
    focal_px = 1 / float(_compute_min_singular_values(across, down).min())
    return ViewPatch(pose, to_camera, pixels, spots, across, down, stretch, focal_px)


def _project_step(plane_points: Float32Array, z: Float32Array, step: Float32Array) -> Float32Array:
    """Return how far spots (2, m) of the plane z = 1 move when rays with this z go a way (3, m)."""
    return np.asarray((step[:2] - plane_points * step[2]) / z)


def _compute_min_singular_values(step_right: Float32Array, step_down: Float32Array) -> Float32Array:
    """Return the smaller singular values (m,) of matrices with these columns (2, m)."""
    total = (step_right * step_right + step_down * step_down).sum(axis=0)
    area = np.abs(step_right[0] * step_down[1] - step_right[1] * step_down[0])
    largest = np.sqrt((total + np.sqrt(np.maximum(total * total - 4 * area * area, 0))) / 2)
    return np.asarray(area / largest)
