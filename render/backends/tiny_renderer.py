"""CPU rasterizer without OpenGL: visibility by pybullet's TinyRenderer, shading by numpy."""

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
from sim2cam.data.environment import PYBULLET
from sim2cam.engines.silence import silent_output
from sim2cam.errors import BackendError
from sim2cam.files import write_bytes
from sim2cam.geometry.poses import Pose, vec3
from sim2cam.objects.primitives import Ground
from sim2cam.objects.solid import Solid
from sim2cam.render.backends.silhouette import rasterize_silhouette
from sim2cam.render.gbuffer import (
    BITS_PER_WORD,
    Channel,
    GBuffer,
    PinholeView,
    Rasterizer,
    assign_label_ids,
    count_amodal_words,
)
from sim2cam.render.lighting.beams import Beam, find_ground_color, fit_shadow_view, make_beams
from sim2cam.render.lighting.shading import Lighting, ShadowMap, SurfacePoints, shade
from sim2cam.render.meshes.ground_plane import GroundPlane
from sim2cam.render.meshes.mesh import build_mesh
from sim2cam.render.meshes.texture_set import TextureSet, build_texture_set
from sim2cam.scene.scene import Body, Scene
from sim2cam.surfaces.finish import has_relief_or_wear

Floats = NDArray[np.float32]

_NEAR_M, _FAR_M = 0.02, 20.0
_DIRECTIONAL_LIGHT_DISTANCE_M = 20.0  # nearly parallel rays, within the precision of 32-bit depth
_SHADOW_PX = 512
_SUPERSAMPLING = 2
_STRIP_ROWS = 128  # rows per strip: intermediate arrays fit the processor cache


@dataclass(frozen=True)
class _TinyBuffers:
    """Output of TinyRenderer.

    Attributes:
        colors: (h, w, 3) sRGB reflectance.
        depth_m: (h, w), 0 for the background.
        body_index: (h, w) index of the body in the scene, -1 for the background.
    """

    colors: NDArray[np.uint8]
    depth_m: Floats
    body_index: NDArray[np.int32]


class TinyRasterizer(Rasterizer):
    """Rasterizer on the CPU, with pybullet and numpy only.

    Raises:
        BackendError: pybullet is not installed.
    """

    def __init__(self) -> None:
        try:
            with silent_output():
                import pybullet
        except ImportError as error:
            raise BackendError(
                f"rendering without OpenGL needs pybullet. Run: pip install {PYBULLET}"
            ) from error
        self._bullet = pybullet
        self._client = -1

    @property
    def name(self) -> str:
        """Backend."""
        return "tiny: pybullet TinyRenderer, shaded by numpy"

    @property
    def channels(self) -> frozenset[Channel]:
        """All channels but normals and parts, which pybullet does not provide."""
        return frozenset({"radiance", "depth_m", "bodies", "cover"})

    def _load(self, scene: Scene) -> None:
        """Load a scene and render its shadow maps."""
        for body in scene.bodies:
            if has_relief_or_wear(body.material):
                raise BackendError(
                    f"the rasterizer '{self.name}' supports neither relief nor wear (body '{body.name}'). "
                    "Use OpenGL (SIM2CAM_BACKEND=egl), or leave them out."
                )
        if scene.environment.environment_map is not None:
            raise BackendError(
                f"the rasterizer '{self.name}' does not support environment maps. Use OpenGL "
                "(SIM2CAM_BACKEND=egl), or leave out [domain.sky]."
            )
        self._client = self._bullet.connect(self._bullet.DIRECT)
        if self._client < 0:
            raise BackendError(
                "pybullet has reached its maximum number of clients. Close some of them."
            )
        self._scene = scene
        self._meshes = [build_mesh(body.asset) for body in scene.bodies]
        self._index_by_handle: dict[int, int] = {}
        solid_indices = [i for i, b in enumerate(scene.bodies) if not isinstance(b.asset, Ground)]
        with tempfile.TemporaryDirectory(prefix="sim2cam-") as folder:
            self._add_bodies(solid_indices, Path(folder))
        self._build_lighting(solid_indices)
        self._ground_planes = [
            GroundPlane(i, body.asset.side_m, body.pose, build_texture_set(body))
            for i, body in enumerate(scene.bodies)
            if isinstance(body.asset, Ground)
        ]

    def _release(self) -> None:
        if self._client >= 0:  # Bullet frees textures only with their client
            self._bullet.disconnect(physicsClientId=self._client)
            self._client = -1

    def _render(
        self, scene: Scene, view: PinholeView, channels: Collection[Channel], _samples: int
    ) -> GBuffer:
        """Render channels of a view. The radiance has four samples per pixel."""
        gbuffer: dict[Channel, NDArray[Any]] = {}
        if "radiance" in channels:
            gbuffer["radiance"] = self._render_radiance(view)
        if set(channels) - {"radiance"}:
            gbuffer |= self._render_labels(view, channels)
        return gbuffer

    def _render_labels(
        self, view: PinholeView, channels: Collection[Channel]
    ) -> dict[Channel, NDArray[Any]]:
        """Return channels at pixel centres."""
        buffers = self._render_buffers(view)
        bodies = (buffers.body_index + 1).astype(np.uint32)
        gbuffer: dict[Channel, NDArray[Any]] = {"depth_m": buffers.depth_m, "bodies": bodies}
        if "cover" in channels:
            gbuffer["cover"] = self._render_amodal_bits(buffers.body_index, view)
        return {channel: gbuffer[channel] for channel in channels if channel in gbuffer}

    def _render_radiance(self, view: PinholeView) -> Floats:
        """Return linear RGB (h, w, 3).

        Colour has four samples per pixel; light has one inside bodies and four at their edges.
        """
        fine_view = _supersample_view(view)
        buffers = self._render_buffers(fine_view)
        slopes = _compute_inverse_depth_slopes(buffers.depth_m) * np.float32(fine_view.focal_px)
        strips = []
        for top in range(0, fine_view.height, _STRIP_ROWS):
            rows = slice(top, top + _STRIP_ROWS)
            strip = _TinyBuffers(
                buffers.colors[rows], buffers.depth_m[rows], buffers.body_index[rows]
            )
            strip_view = replace(
                fine_view, height=len(strip.body_index), cy_px=fine_view.cy_px - top
            )
            strips.append(self._shade_strip(strip, slopes[:, rows], strip_view))
        return np.concatenate(strips)

    def _shade_strip(self, buffers: _TinyBuffers, slopes: Floats, view: PinholeView) -> Floats:
        """Return linear RGB (h, w, 3) of supersampled buffers."""
        positions = _backproject_depth(buffers.depth_m, view)
        colors = buffers.colors
        for plane in self._ground_planes:
            mask = (buffers.body_index == plane.index).astype(np.uint8)
            cv2.copyTo(plane.sample_colors(positions, view.pose), mask, colors)
        samples = _group_samples(
            np.concatenate(
                [positions, _compute_normals(positions, slopes), _linearize_colors(colors)]
            )
        )
        sample_bodies = _group_samples(buffers.body_index)  # (4, h, w), samples are (4, 9, h, w)
        at_edge = (sample_bodies[1:] != sample_bodies[0]).any(axis=0)
        radiance = self._shade_samples(
            sample_bodies[0].ravel(), samples.mean(axis=0).reshape(9, -1), view.pose
        )
        edge_samples = samples[..., at_edge].swapaxes(0, 1).reshape(9, -1)
        shaded = self._shade_samples(sample_bodies[:, at_edge].ravel(), edge_samples, view.pose)
        radiance[:, at_edge.ravel()] = shaded.reshape(3, len(sample_bodies), -1).mean(axis=1)
        return np.ascontiguousarray(radiance.T).reshape(*at_edge.shape, 3)

    def _render_amodal_bits(
        self, body_index: NDArray[np.int32], view: PinholeView
    ) -> NDArray[np.uint32]:
        """Return channel ``cover`` (h, w, words)."""
        label_ids = assign_label_ids(self._scene)
        cover = np.zeros((view.height, view.width, count_amodal_words(self._scene)), np.uint32)
        for index, (body, mesh) in enumerate(zip(self._scene.bodies, self._meshes, strict=True)):
            if body.name in label_ids:
                word, bit = divmod(label_ids[body.name] - 1, BITS_PER_WORD)
                window, mask = rasterize_silhouette(mesh, view.pose.inverse() @ body.pose, view)
                mask |= body_index[window] == index
                cover[window][..., word] |= mask.astype(np.uint32) << np.uint32(bit)
        return cover

    def _add_bodies(self, indices: list[int], folder: Path) -> None:
        """Add bodies to pybullet, which reads textures from files."""
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
        """Render one shadow map per beam."""
        environment = self._scene.environment
        centre, radius = self._compute_bounding_sphere(casters)
        beams = make_beams(environment, centre, radius)
        shadows = tuple(self._render_shadow_map(beam, centre, radius) for beam in beams)
        ground = find_ground_color(self._scene, centre).astype(np.float32)
        self._lighting = Lighting(environment, beams, shadows, ground)

    def _render_shadow_map(
        self, beam: Beam, centre: NDArray[np.float64], radius: float
    ) -> ShadowMap:
        shadow_view = fit_shadow_view(beam, centre, radius)
        eye, target, near, far = (
            shadow_view.eye,
            shadow_view.target,
            shadow_view.near_m,
            shadow_view.far_m,
        )
        focal = _SHADOW_PX / (2 * shadow_view.half_extent)
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
        """Return the buffers of bodies and ground planes, without colours of the planes."""
        buffers = self._render_bodies(view, _NEAR_M, _FAR_M)
        for plane in self._ground_planes:
            depth = plane.compute_depth_m(view)
            is_nearer = (depth > _NEAR_M) & ((buffers.body_index < 0) | (depth < buffers.depth_m))
            buffers = _TinyBuffers(
                buffers.colors,
                np.where(is_nearer, depth, buffers.depth_m),
                np.where(is_nearer, np.int32(plane.index), buffers.body_index),
            )
        return buffers

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
        indices = np.full(max(self._index_by_handle, default=0) + 2, -1, np.int32)
        indices[list(self._index_by_handle)] = list(self._index_by_handle.values())
        body_index = indices[np.asarray(bodies).reshape(height, width)]  # -1 is the last
        buffer_depth = np.asarray(depth, np.float32).reshape(height, width)
        depth_m = np.float32(near_m * far_m) / (far_m - np.float32(far_m - near_m) * buffer_depth)
        rgb = np.asarray(colors, np.uint8).reshape(height, width, 4)[..., :3]
        depth_m[body_index < 0] = 0
        return _TinyBuffers(np.ascontiguousarray(rgb), depth_m, body_index)

    def _shade_samples(
        self, body_index: NDArray[np.int32], samples: Floats, camera: Pose
    ) -> Floats:
        """Return the radiance (3, n) of positions, normals and colours (9, n) on bodies (n,)."""
        positions, normals, colors = samples[:3], samples[3:6], samples[6:]
        rotation = camera.rotation().as_matrix().astype(np.float32)
        is_background = body_index < 0
        materials = np.array(
            [_get_material_values(body) for body in self._scene.bodies], np.float32
        )
        points = SurfacePoints(
            rotation @ positions + np.array(camera.position_m, np.float32)[:, None],
            rotation @ _normalize(normals),
            -rotation @ _normalize(positions),
            colors,
            *materials.T[:, body_index],
        )
        radiance = shade(points, self._lighting)
        radiance[:, is_background] = np.array(self._scene.environment.horizon)[:, None]
        return radiance

    def _call_bullet(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs, physicsClientId=self._client)


def _supersample_view(view: PinholeView) -> PinholeView:
    """Return the view at ``_SUPERSAMPLING`` times the resolution."""
    n = _SUPERSAMPLING
    return PinholeView(
        view.pose, n * view.width, n * view.height, n * view.focal_px,
        n * (view.cx_px + 0.5) - 0.5, n * (view.cy_px + 0.5) - 0.5,
    )  # fmt: skip


def _compute_matrices(
    view: PinholeView, near_m: float, far_m: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the matrices (4, 4) from world to OpenGL camera (y up, z back) and on to clip space.

    TinyRenderer samples at the lower left corners of pixels.
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
    """Return colours for plain tiling, and non-negative uvs for them.

    TinyRenderer repeats textures without mirroring.
    """
    scaled_uvs = uvs * textures.uv_scale + textures.uv_offset
    if scaled_uvs.min() >= 0 and scaled_uvs.max() <= 1:
        return textures.colors, scaled_uvs
    row = np.concatenate([textures.colors, textures.colors[:, ::-1]], axis=1)
    return np.concatenate([row, row[::-1]]), scaled_uvs / 2 - np.floor(scaled_uvs / 2).min(axis=0)


def _backproject_depth(depth_m: Floats, view: PinholeView) -> Floats:
    """Return the visible points (3, h, w) in the camera frame."""
    x = (np.arange(view.width) - view.cx_px) / view.focal_px
    y = (np.arange(view.height) - view.cy_px) / view.focal_px
    points = [x.astype(np.float32) * depth_m, y.astype(np.float32)[:, None] * depth_m, depth_m]
    return np.stack(points)


def _compute_inverse_depth_slopes(depth_m: Floats) -> Floats:
    """Return the change of 1 / depth to the next pixel on the right and below, (2, h, w)."""
    inverse_depth = np.divide(1, depth_m, where=depth_m > 0, out=np.zeros_like(depth_m))
    return np.stack([_compute_differences(inverse_depth), _compute_differences(inverse_depth.T).T])


def _compute_differences(values: Floats) -> Floats:
    """Return the forward or backward difference along rows, whichever is smaller.

    The smaller difference does not cross the edge of a body.
    """
    differences = np.diff(values, axis=1)
    forward = np.concatenate([differences, differences[:, -1:]], axis=1)
    backward = np.concatenate([differences[:, :1], differences], axis=1)
    return np.where(np.abs(backward) < np.abs(forward), backward, forward)


def _compute_normals(points: Floats, slopes: Floats) -> Floats:
    """Return vectors (3, h, w) along the normals, towards the camera, not normalized.

    On the plane n p = -1, 1 / depth is -n (x, y, 1) for rays (x, y, 1), so its slopes (2, h, w)
    along x and y give n.
    """
    x, y = -slopes
    depth = np.where(points[2] > 0, points[2], np.float32(1))
    return np.stack([x, y, -(1 + points[0] * x + points[1] * y) / depth])


def _get_material_values(body: Body) -> tuple[float, float, float, float]:
    """Return roughness, specular, metalness and emission of a body."""
    material = body.material
    is_coated = isinstance(body.asset, Solid) and body.asset.make_coating_mask() is not None
    metallic = 0.0 if is_coated else material.metallic  # the print covers most of it
    return material.roughness, material.specular, metallic, material.emission


def _normalize(vectors: Floats) -> Floats:
    """Return vectors (3, n) scaled to length 1."""
    x, y, z = vectors
    lengths = np.sqrt(x * x + y * y + z * z)
    return np.asarray(vectors / np.maximum(lengths, np.float32(1e-20)), dtype=np.float32)


def _linearize_colors(colors: NDArray[np.uint8]) -> Floats:
    """Return linear values (3, h, w) of sRGB colours (h, w, 3)."""
    return np.stack([images.SRGB_TO_LINEAR[colors[..., i]] for i in range(3)])


def _group_samples(samples: NDArray[Any]) -> NDArray[Any]:
    """Rearrange samples (..., n h, n w) to (n n, ..., h, w)."""
    n = _SUPERSAMPLING
    return np.stack([samples[..., i::n, j::n] for i in range(n) for j in range(n)])
