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
Singles = NDArray[np.float32]

_NARROW_COSINE = math.cos(math.radians(55))
_WIDEST_COSINE = math.cos(math.radians(85))  # no view is asked to see more
_NODE_PX, _LEAST_NODES = 8, 4
_SPLINE_PX = 1e-4  # that splines may be off a lens
_MOST_PX = 16384  # a side of what OpenGL drivers draw
_CUBE: Floats = np.concatenate(
    [
        Rotation.from_euler("y", [[0], [90], [180], [270]], degrees=True).as_matrix(),
        Rotation.from_euler("x", [[90], [270]], degrees=True).as_matrix(),
    ]
).round()
"""(6, 3, 3): from the frame of each face, which looks along its z, to the camera's."""


@dataclass(frozen=True, eq=False)
class Face:
    """The pixels of a picture that one undistorted view shows.

    Attributes:
        pose: the view's frame in the world.
        to_camera: (3, 3) takes vectors of the view's frame, such as normals, to the camera's.
        pixels: their numbers (m,), counted row by row, or all.
        spots: (2, m) where their rays meet the plane z = 1 of the view's frame.
        across, down: (2, m) the way there to the next pixel on the right, and to that below.
        stretch: (m,) depth in the picture over depth in the view.
        focal_px: focal length at which every pixel holds at least one of the view.
    """

    pose: Pose
    to_camera: Floats
    pixels: NDArray[np.intp] | slice
    spots: Floats
    across: Singles
    down: Singles
    stretch: Singles
    focal_px: float

    def area_px(self) -> float:
        """Returns how many pixels the view has at its least density, without a margin."""
        return float(np.prod(np.ptp(self.spots, axis=1) * self.focal_px))

    def among(self, first: int, last: int) -> Face:
        """Returns the face of a picture of those pixels alone, the last left out."""
        numbers = np.arange(self.spots.shape[1]) if isinstance(self.pixels, slice) else self.pixels
        chosen = np.flatnonzero((numbers >= first) & (numbers < last))
        return replace(
            self,
            pixels=numbers[chosen] - first,
            spots=self.spots[:, chosen],
            across=self.across[:, chosen],
            down=self.down[:, chosen],
            stretch=self.stretch[chosen],
        )

    def view(self, density: int, margin_px: float) -> tuple[PinholeView, Singles]:
        """Returns the view at some times its least density, and the places (2, m) of pixels in it.

        Raises:
            LensError: no rasterizer draws a view that large.
        """
        focal = density * self.focal_px
        low = self.spots.min(axis=1) * focal - margin_px
        high = self.spots.max(axis=1) * focal + margin_px
        width, height = (math.ceil(side) + 1 for side in high - low)
        if max(width, height) > _MOST_PX:
            raise LensError(
                f"the lens spreads its edge so thin that a view of {width} x {height} pixels would "
                f"have to be drawn, of at most {_MOST_PX}. Use a smaller picture or a narrower field."
            )
        view = PinholeView(self.pose, width, height, focal, -float(low[0]), -float(low[1]))
        return view, (self.spots * focal - low[:, None]).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Optics:
    """How the picture of a camera is made from undistorted views.

    Attributes:
        width, height: of the picture, pixels.
        pinhole: the view that is the picture; None under a lens that bends.
        faces: the views that the picture is made from; none for a pinhole.
    """

    width: int
    height: int
    pinhole: PinholeView | None
    faces: tuple[Face, ...]

    def seen_from(self, pose: Pose) -> Optics:
        """Returns the same camera's optics where it stands otherwise."""
        if self.pinhole is not None:
            return replace(self, pinhole=replace(self.pinhole, pose=pose))
        faces = (replace(face, pose=_turned(pose, face.to_camera)) for face in self.faces)
        return replace(self, faces=tuple(faces))

    def of_rows(self, first: int, last: int) -> Optics:
        """Returns how those rows of the picture alone are made, the last left out."""
        if (first, last) == (0, self.height):
            return self
        if self.pinhole is not None:
            height, middle = last - first, self.pinhole.cy_px - first
            view = replace(self.pinhole, height=height, cy_px=middle)
            return replace(self, height=height, pinhole=view)
        bands = (face.among(first * self.width, last * self.width) for face in self.faces)
        seeing = tuple(band for band in bands if len(band.stretch))
        return replace(self, height=last - first, faces=seeing)


@dataclass(frozen=True, eq=False)
class _Field:
    """What the pixels of a picture see.

    Attributes:
        rays: (3, n) unit vectors in the camera frame.
        across, down: (3, n) the way to the ray of the next pixel on the right, and of that below.
        depth: (n,) of a point at distance 1.
    """

    rays: Floats
    across: Singles
    down: Singles
    depth: Floats

    def seen_from(self, to_camera: Floats, pixels: NDArray[np.intp]) -> _Field:
        """Returns what some of the pixels see, in a frame that ``to_camera`` (3, 3) turns back."""
        turn, single = to_camera.T, to_camera.T.astype(np.float32)
        across, down = single @ self.across[:, pixels], single @ self.down[:, pixels]
        return _Field(turn @ self.rays[:, pixels], across, down, self.depth[pixels])


def blind_spot(scene: Scene) -> str | None:
    """Returns why a drawn lens cannot see a corner of its picture; None when all can."""
    for camera in scene.cameras:
        right, bottom = camera.width - 1.0, camera.height - 1.0
        try:
            camera.lens.unproject(np.array([[0, 0], [right, 0], [0, bottom], [right, bottom]]))
        except LensError as error:
            return str(error)
    return None


def optics_of(camera: Camera) -> Optics:
    """Returns how the picture of a camera is made.

    Raises:
        LensError: the lens does not see every pixel.
    """
    lens, width, height = camera.lens, camera.width, camera.height
    if isinstance(lens, Perspective) and lens.is_pinhole() and lens.fx_px == lens.fy_px:
        view = PinholeView(camera.pose, width, height, lens.fx_px, lens.cx_px, lens.cy_px)
        return Optics(width, height, view, ())
    return Optics(width, height, None, _faces(_field(camera), camera.pose))


def _faces(field: _Field, pose: Pose) -> tuple[Face, ...]:
    narrowest = field.rays[2].min()
    if narrowest < _WIDEST_COSINE:
        return _cube(field, pose)
    one = _face(field, pose, np.eye(3), slice(None))
    if narrowest >= _NARROW_COSINE:
        return (one,)
    cube = _cube(field, pose)
    return cube if sum(face.area_px() for face in cube) < one.area_px() else (one,)


def _cube(field: _Field, pose: Pose) -> tuple[Face, ...]:
    """Returns those faces of a cube around the camera that pixels look at."""
    nearest = np.argmax(_CUBE[:, :, 2] @ field.rays, axis=0)
    shares = [np.flatnonzero(nearest == number) for number in range(len(_CUBE))]
    return tuple(
        _face(field.seen_from(turn, pixels), _turned(pose, turn), turn, pixels)
        for turn, pixels in zip(_CUBE, shares, strict=True)
        if len(pixels)
    )


def _field(camera: Camera) -> _Field:
    rays = rays_of(camera.lens, camera.width, camera.height).reshape(3, -1)
    picture = rays.astype(np.float32).reshape(3, camera.height, camera.width)
    across, down = (step.reshape(3, -1) for step in np.gradient(picture, axis=(2, 1), edge_order=2))
    depth = np.ones_like(rays[2]) if camera.lens.depth_along == "ray" else rays[2]
    return _Field(rays, across, down, depth)


def rays_of(lens: Lens, width: int, height: int) -> Floats:
    """Returns the unit rays (3, h, w) of all pixels.

    A smooth lens is asked at nodes, between which cubic splines are as good: at pixels half-way
    between nodes they are held against the lens.
    """
    (x, across), (y, down) = _splines(width), _splines(height)
    known = np.moveaxis(_unprojected(lens, x, y), -1, 0)
    rays = np.matmul(np.matmul(down, known), across.T)
    columns, rows = (np.arange(_NODE_PX // 2, n, _NODE_PX) for n in (width, height))
    if len(columns) and len(rows):
        off = rays[:, rows][:, :, columns] - np.moveaxis(_unprojected(lens, columns, rows), -1, 0)
        step = np.abs(np.diff(rays[:, rows], axis=2)).max(axis=0).min()
        if np.abs(off).max() > _SPLINE_PX * step:
            everywhere = _unprojected(lens, np.arange(width), np.arange(height))
            return np.ascontiguousarray(np.moveaxis(everywhere, -1, 0))
    return np.asarray(rays)


def _unprojected(lens: Lens, columns: NDArray[Any], rows: NDArray[Any]) -> Floats:
    """Returns the unit rays (h, w, 3) of pixels in columns (w,) and rows (h,)."""
    pixels = np.stack(np.meshgrid(columns, rows), axis=-1).reshape(-1, 2).astype(np.float64)
    return lens.unproject(pixels).reshape(len(rows), len(columns), 3)


@functools.lru_cache(maxsize=16)
def _splines(n: int) -> tuple[Floats, Floats]:
    """Returns nodes (m,) along n pixels, and what each adds (n, m) to what lies at the pixels."""
    nodes = np.linspace(0, n - 1, max(_LEAST_NODES, math.ceil((n - 1) / _NODE_PX) + 1))
    if n <= _LEAST_NODES:
        return np.arange(n, dtype=np.float64), np.eye(n)
    return nodes, np.asarray(make_interp_spline(nodes, np.eye(len(nodes)), k=3)(np.arange(n)))


def _turned(pose: Pose, turn: Floats) -> Pose:
    matrix = np.eye(4)
    matrix[:3, :3] = turn
    return pose @ Pose.from_matrix(matrix)


def _face(field: _Field, pose: Pose, to_camera: Floats, pixels: NDArray[np.intp] | slice) -> Face:
    """Returns the face of some pixels from what they see in its frame."""
    z = field.rays[2]
    spots = field.rays[:2] / z
    single = spots.astype(np.float32), z.astype(np.float32)
    across, down = (_on_plane(*single, way) for way in (field.across, field.down))
    stretch = (field.depth / z).astype(np.float32)
    focal_px = 1 / float(_least_stretch(across, down).min())
    return Face(pose, to_camera, pixels, spots, across, down, stretch, focal_px)


def _on_plane(spots: Singles, z: Singles, way: Singles) -> Singles:
    """Returns how far spots (2, m) of the plane z = 1 move when rays with this z go a way (3, m)."""
    return np.asarray((way[:2] - spots * way[2]) / z)


def _least_stretch(across: Singles, down: Singles) -> Singles:
    """Returns the smaller singular values (m,) of matrices with these columns (2, m)."""
    total = (across * across + down * down).sum(axis=0)
    area = np.abs(across[0] * down[1] - across[1] * down[0])
    largest = np.sqrt((total + np.sqrt(np.maximum(total * total - 4 * area * area, 0))) / 2)
    return np.asarray(area / largest)
