"""Drawing without OpenGL: pybullet's TinyRenderer finds what each pixel sees, numpy shades it."""

from __future__ import annotations

import tempfile
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.engines.silence import silent_output
from sim2cam.errors import BackendError
from sim2cam.files import write_bytes
from sim2cam.geometry.poses import Pose, vec3
from sim2cam.render.backends.silhouette import rasterize_silhouette
from sim2cam.render.gbuffer import BITS_PER_WORD, Channel, GBuffer
from sim2cam.render.lighting.beams import Beam, find_ground_color, fit_shadow_view, make_beams
from sim2cam.render.lighting.shading import Lighting, ShadowMap, SurfacePoints, shade
from sim2cam.render.meshes.mesh import build_mesh
from sim2cam.render.meshes.skin import TextureSet, build_texture_set
from sim2cam.render.meshes.table import GroundPlane
from sim2cam.render.rasterizer import (
    PinholeView,
    assign_label_ids,
    check_channels,
    count_amodal_words,
)
from sim2cam.scene.scene import Body, Scene
from sim2cam.scene.shape import Ground
from sim2cam.surfaces.finish import has_relief_or_wear

Floats = NDArray[np.float32]

_NEAR_M, _FAR_M = 0.02, 20.0
_DIRECTIONAL_LIGHT_DISTANCE_M = 20.0  # far enough to be parallel, near enough for 32-bit depth
_SHADOW_PX = 512
_SUPERSAMPLING = 2
_STRIP_ROWS = 128  # rows at a time, so that what is known of them stays in the processor's cache


@dataclass(frozen=True)
class _TinyBuffers:
    """What TinyRenderer found.

    Attributes:
        colors: (h, w, 3) sRGB reflectance.
        depth_m: (h, w), 0 where nothing is.
        body_index: (h, w) index of the body in the scene, -1 where nothing is.
    """

    colors: NDArray[np.uint8]
    depth_m: Floats
    body_index: NDArray[np.int32]


class TinyRasterizer:
    """Draws on the CPU, with nothing but pybullet and numpy.

    Raises:
        BackendError: pybullet is not installed.
    """

    def __init__(self) -> None:
        try:
            with silent_output():
                import pybullet
        except ImportError as error:
            raise BackendError(
                "no pybullet, which draws where there is no OpenGL. Run: pip install pybullet"
            ) from error
        self._bullet = pybullet
        self._client = -1

    @property
    def name(self) -> str:
        """The backend."""
        return "tiny: pybullet TinyRenderer, shaded by numpy"

    @property
    def channels(self) -> frozenset[Channel]:
        """All but the normals and the parts, of which pybullet says nothing."""
        return frozenset({"radiance", "depth_m", "bodies", "cover"})

    def load(self, scene: Scene) -> None:
        """Hand bodies to pybullet and draws the shadow maps of a settled scene.

        Raises:
            BackendError: its light is a picture, or a body has relief or wear.
        """
        for body in scene.bodies:
            if has_relief_or_wear(body.material):
                raise BackendError(
                    f"the rasterizer '{self.name}' has no relief and no wear, as '{body.name}' has. "
                    "Use one with OpenGL (SIM2CAM_BACKEND=egl), or leave them out."
                )
        if scene.environment.environment_map is not None:
            raise BackendError(
                f"the rasterizer '{self.name}' has no skies from pictures. Use one with OpenGL "
                "(SIM2CAM_BACKEND=egl), or leave out [domain.sky]."
            )
        if self._client >= 0:  # Bullet keeps every texture until its client goes
            self._bullet.disconnect(physicsClientId=self._client)
        self._client = self._bullet.connect(self._bullet.DIRECT)
        if self._client < 0:
            raise BackendError("pybullet has no room for another client. Close some of them.")
        self._scene = scene
        self._meshes = [build_mesh(body.asset) for body in scene.bodies]
        self._index_by_handle: dict[int, int] = {}
        solid = [i for i, b in enumerate(scene.bodies) if not isinstance(b.asset, Ground)]
        with tempfile.TemporaryDirectory(prefix="sim2cam-") as folder:
            self._add_bodies(solid, Path(folder))
        self._build_lighting(solid)
        self._ground_planes = [
            GroundPlane(i, body.asset.side_m, body.pose, build_texture_set(body))
            for i, body in enumerate(scene.bodies)
            if isinstance(body.asset, Ground)
        ]

    def render(
        self, view: PinholeView, channels: Collection[Channel], *, samples: int = 4
    ) -> GBuffer:
        """Return channels of a view; see ``Rasterizer``. The radiance has four samples always."""
        check_channels(self.name, channels, self.channels)
        found: dict[Channel, NDArray[Any]] = {}
        if "radiance" in channels:
            found["radiance"] = self._render_radiance(view)
        if set(channels) - {"radiance"}:
            found |= self._render_labels(view, channels)
        return found

    def _render_labels(
        self, view: PinholeView, channels: Collection[Channel]
    ) -> dict[Channel, NDArray[Any]]:
        """Return channels at the pixels' centres."""
        drawn = self._render_buffers(view)
        bodies = (drawn.body_index + 1).astype(np.uint32)
        found: dict[Channel, NDArray[Any]] = {"depth_m": drawn.depth_m, "bodies": bodies}
        if "cover" in channels:
            found["cover"] = self._render_amodal_bits(drawn.body_index, view)
        return {channel: found[channel] for channel in channels if channel in found}

    def _render_radiance(self, view: PinholeView) -> Floats:
        """Return linear RGB (h, w, 3): colour of four samples a pixel, light of one inside bodies
        and of four at their edges.
        """
        fine = _supersample_view(view)
        drawn = self._render_buffers(fine)
        slopes = _compute_inverse_depth_slopes(drawn.depth_m) * np.float32(fine.focal_px)
        strips = []
        for top in range(0, fine.height, _STRIP_ROWS):
            rows = slice(top, top + _STRIP_ROWS)
            strip = _TinyBuffers(drawn.colors[rows], drawn.depth_m[rows], drawn.body_index[rows])
            sees = replace(fine, height=len(strip.body_index), cy_px=fine.cy_px - top)
            strips.append(self._shade_strip(strip, slopes[:, rows], sees))
        return np.concatenate(strips)

    def _shade_strip(self, buffers: _TinyBuffers, slopes: Floats, view: PinholeView) -> Floats:
        """Return linear RGB (h, w, 3) of what was drawn with several samples a pixel."""
        places = _backproject_depth(buffers.depth_m, view)
        colors = buffers.colors
        for table in self._ground_planes:
            on_it = (buffers.body_index == table.index).astype(np.uint8)
            cv2.copyTo(table.sample_colors(places, view.pose), on_it, colors)
        samples = _group_samples(
            np.concatenate([places, _compute_normals(places, slopes), _linearize_colors(colors)])
        )
        which = _group_samples(buffers.body_index)  # (4, h, w), samples are (4, 9, h, w)
        at_edge = (which[1:] != which[0]).any(axis=0)
        radiance = self._shade_samples(
            which[0].ravel(), samples.mean(axis=0).reshape(9, -1), view.pose
        )
        edge = samples[..., at_edge].swapaxes(0, 1).reshape(9, -1)
        shaded = self._shade_samples(which[:, at_edge].ravel(), edge, view.pose)
        radiance[:, at_edge.ravel()] = shaded.reshape(3, len(which), -1).mean(axis=1)
        return np.ascontiguousarray(radiance.T).reshape(*at_edge.shape, 3)

    def _render_amodal_bits(
        self, body_index: NDArray[np.int32], view: PinholeView
    ) -> NDArray[np.uint32]:
        """Return the bits (h, w, words) of all labelled bodies behind each pixel."""
        numbers = assign_label_ids(self._scene)
        cover = np.zeros((view.height, view.width, count_amodal_words(self._scene)), np.uint32)
        for index, (body, mesh) in enumerate(zip(self._scene.bodies, self._meshes, strict=True)):
            if body.name in numbers:
                word, bit = divmod(numbers[body.name] - 1, BITS_PER_WORD)
                window, whole = rasterize_silhouette(mesh, view.pose.inverse() @ body.pose, view)
                whole |= body_index[window] == index
                cover[window][..., word] |= whole.astype(np.uint32) << np.uint32(bit)
        return cover

    def _add_bodies(self, indices: list[int], folder: Path) -> None:
        """Give bodies of the scene to pybullet, which reads their colours from files."""
        for index in indices:
            body, mesh = self._scene.bodies[index], self._meshes[index]
            colors, uvs = _unfold_texture(build_texture_set(body), mesh.uvs)
            path = folder / f"{index}.png"
            write_bytes(path, images.encode_png(np.ascontiguousarray(colors[::-1])))
            shape = self._call_bullet(
                self._bullet.createVisualShape,
                self._bullet.GEOM_MESH,
                vertices=mesh.vertices_m.tolist(),
                indices=mesh.faces.ravel().tolist(),
                uvs=uvs.tolist(),
                normals=mesh.normals.tolist(),
                rgbaColor=(1, 1, 1, 1),
            )
            w, x, y, z = body.pose.rotation_wxyz
            handle = self._call_bullet(
                self._bullet.createMultiBody, 0, -1, shape, body.pose.position_m, (x, y, z, w)
            )
            texture = self._call_bullet(self._bullet.loadTexture, str(path))
            self._call_bullet(self._bullet.changeVisualShape, handle, -1, textureUniqueId=texture)
            self._index_by_handle[handle] = index

    def _build_lighting(self, casters: list[int]) -> None:
        """Draw one shadow map for each beam of light."""
        environment = self._scene.environment
        centre, radius = self._compute_bounding_sphere(casters)
        beams = make_beams(environment, centre, radius)
        shadows = tuple(self._render_shadow_map(beam, centre, radius) for beam in beams)
        ground = find_ground_color(self._scene, centre).astype(np.float32)
        self._lighting = Lighting(environment, beams, shadows, ground)

    def _render_shadow_map(
        self, beam: Beam, centre: NDArray[np.float64], radius: float
    ) -> ShadowMap:
        sees = fit_shadow_view(beam, centre, radius)
        eye, target, near, far = sees.eye, sees.target, sees.near_m, sees.far_m
        focal = _SHADOW_PX / (2 * sees.half_extent)
        if not beam.is_local:
            eye = centre + beam.location * _DIRECTIONAL_LIGHT_DISTANCE_M
            focal *= _DIRECTIONAL_LIGHT_DISTANCE_M
            near, far = (
                _DIRECTIONAL_LIGHT_DISTANCE_M - 2 * radius,
                _DIRECTIONAL_LIGHT_DISTANCE_M + 2 * radius,
            )
        middle = (_SHADOW_PX - 1) / 2
        pose = Pose.look_at(vec3(eye), vec3(target), 0.0)
        view = PinholeView(pose, _SHADOW_PX, _SHADOW_PX, focal, middle, middle)
        return ShadowMap(view, self._render_bodies(view, near, far).depth_m)

    def _compute_bounding_sphere(self, casters: list[int]) -> tuple[NDArray[np.float64], float]:
        """Return centre (3,) and radius of a sphere around bodies of the scene."""
        if not casters:
            return np.zeros(3), 0.1
        bodies = self._scene.bodies
        points = np.vstack([bodies[i].pose.apply(self._meshes[i].vertices_m) for i in casters])
        low, high = points.min(axis=0), points.max(axis=0)
        return (low + high) / 2, float(np.linalg.norm(high - low) / 2)

    def _render_buffers(self, view: PinholeView) -> _TinyBuffers:
        """Return what is seen of bodies and tables; of the latter without colours."""
        drawn = self._render_bodies(view, _NEAR_M, _FAR_M)
        for table in self._ground_planes:
            depth = table.compute_depth_m(view)
            nearer = (depth > _NEAR_M) & ((drawn.body_index < 0) | (depth < drawn.depth_m))
            drawn = _TinyBuffers(
                drawn.colors,
                np.where(nearer, depth, drawn.depth_m),
                np.where(nearer, np.int32(table.index), drawn.body_index),
            )
        return drawn

    def _render_bodies(self, view: PinholeView, near_m: float, far_m: float) -> _TinyBuffers:
        to_camera, to_clip = _compute_matrices(view, near_m, far_m)
        width, height, colors, depth, bodies = self._call_bullet(
            self._bullet.getCameraImage,
            view.width,
            view.height,
            to_camera.T.ravel().tolist(),
            to_clip.T.ravel().tolist(),
            shadow=0,
            lightAmbientCoeff=1,
            lightDiffuseCoeff=0,
            lightSpecularCoeff=0,
            renderer=self._bullet.ER_TINY_RENDERER,
        )
        which = np.full(max(self._index_by_handle, default=0) + 2, -1, np.int32)
        which[list(self._index_by_handle)] = list(self._index_by_handle.values())
        seen = which[np.asarray(bodies).reshape(height, width)]  # -1 is the last
        share = np.asarray(depth, np.float32).reshape(height, width)
        metres = np.float32(near_m * far_m) / (far_m - np.float32(far_m - near_m) * share)
        rgb = np.asarray(colors, np.uint8).reshape(height, width, 4)[..., :3]
        metres[seen < 0] = 0
        return _TinyBuffers(np.ascontiguousarray(rgb), metres, seen)

    def _shade_samples(
        self, body_index: NDArray[np.int32], samples: Floats, camera: Pose
    ) -> Floats:
        """Return the radiance (3, n) of places, normals and colours (9, n) of bodies (n,)."""
        places, normals, colors = samples[:3], samples[3:6], samples[6:]
        turn = camera.rotation().as_matrix().astype(np.float32)
        nothing = body_index < 0
        looks = np.array([_get_material_values(body) for body in self._scene.bodies], np.float32)
        points = SurfacePoints(
            turn @ places + np.array(camera.position_m, np.float32)[:, None],
            turn @ _normalize(normals),
            -turn @ _normalize(places),
            colors,
            *looks.T[:, body_index],
        )
        radiance = shade(points, self._lighting)
        radiance[:, nothing] = np.array(self._scene.environment.horizon)[:, None]
        return radiance

    def _call_bullet(self, function: Any, *args: Any, **named: Any) -> Any:
        return function(*args, **named, physicsClientId=self._client)


def _supersample_view(view: PinholeView) -> PinholeView:
    """Return the view with ``_SUPERSAMPLING`` pixels for each, both ways."""
    n = _SUPERSAMPLING
    return PinholeView(
        view.pose, n * view.width, n * view.height, n * view.focal_px,
        n * (view.cx_px + 0.5) - 0.5, n * (view.cy_px + 0.5) - 0.5,
    )  # fmt: skip


def _compute_matrices(
    view: PinholeView, near_m: float, far_m: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return world to OpenGL's camera (y up, z back) and that to clip coordinates, (4, 4) each.

    TinyRenderer takes its samples at the lower left corners of pixels.
    """
    w, h, f = view.width, view.height, view.focal_px
    to_camera = np.diag([1.0, -1.0, -1.0, 1.0]) @ view.pose.inverse().matrix()
    depth = far_m - near_m
    to_clip = np.array(
        [
            [2 * f / w, 0, 1 - 2 * view.cx_px / w, 0],
            [0, 2 * f / h, 2 * (view.cy_px + 1) / h - 1, 0],
            [0, 0, -(far_m + near_m) / depth, -2 * far_m * near_m / depth],
            [0, 0, -1, 0],
        ]
    )
    return to_camera, to_clip


def _unfold_texture(
    textures: TextureSet, uvs: NDArray[np.float64]
) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """Return a picture that may simply repeat, and uvs above 0 for it."""
    turned = uvs * textures.uv_scale + textures.uv_offset
    if turned.min() >= 0 and turned.max() <= 1:
        return textures.colors, turned
    wide = np.concatenate([textures.colors, textures.colors[:, ::-1]], axis=1)
    return np.concatenate([wide, wide[::-1]]), turned / 2 - np.floor(turned / 2).min(axis=0)


def _backproject_depth(depth_m: Floats, view: PinholeView) -> Floats:
    """Return the points (3, h, w) that pixels see, in the camera frame."""
    x = (np.arange(view.width) - view.cx_px) / view.focal_px
    y = (np.arange(view.height) - view.cy_px) / view.focal_px
    points = [x.astype(np.float32) * depth_m, y.astype(np.float32)[:, None] * depth_m, depth_m]
    return np.stack(points)


def _compute_inverse_depth_slopes(depth_m: Floats) -> Floats:
    """Return by how much 1 / depth grows to the next pixel on the right and below, (2, h, w)."""
    near = np.divide(1, depth_m, where=depth_m > 0, out=np.zeros_like(depth_m))
    return np.stack([_compute_differences(near), _compute_differences(near.T).T])


def _compute_differences(values: Floats) -> Floats:
    """Return how values (h, w) grow to the next in a row, or from the one before if that is less.

    So the difference does not reach over the edge of a body.
    """
    steps = np.diff(values, axis=1)
    after = np.concatenate([steps, steps[:, -1:]], axis=1)
    before = np.concatenate([steps[:, :1], steps], axis=1)
    return np.where(np.abs(before) < np.abs(after), before, after)


def _compute_normals(points: Floats, slopes: Floats) -> Floats:
    """Return vectors (3, h, w) along the normals, towards the camera, of any length.

    In a picture of the plane n p = -1, 1 / depth is -n (x, y, 1) for rays (x, y, 1): its slopes
    (2, h, w) along x and y tell n.
    """
    x, y = -slopes
    depth = np.where(points[2] > 0, points[2], np.float32(1))
    return np.stack([x, y, -(1 + points[0] * x + points[1] * y) / depth])


def _get_material_values(body: Body) -> tuple[float, float, float, float]:
    """Return roughness, specular, metalness and emission; a body has one look for all its sides."""
    material = body.material
    metallic = 0.0 if body.asset.kind == "tin" else material.metallic  # most of it is its label
    return material.roughness, material.specular, metallic, material.emission


def _normalize(vectors: Floats) -> Floats:
    """Return vectors (3, n) at length 1."""
    x, y, z = vectors
    lengths = np.sqrt(x * x + y * y + z * z)
    return np.asarray(vectors / np.maximum(lengths, np.float32(1e-20)), dtype=np.float32)


def _linearize_colors(colors: NDArray[np.uint8]) -> Floats:
    """Return the linear values (3, h, w) of colours (h, w, 3)."""
    return np.stack([images.SRGB_TO_LINEAR[colors[..., i]] for i in range(3)])


def _group_samples(samples: NDArray[Any]) -> NDArray[Any]:
    """Return samples (..., n h, n w) as (n n, ..., h, w)."""
    n = _SUPERSAMPLING
    return np.stack([samples[..., i::n, j::n] for i in range(n) for j in range(n)])
