"""OpenGL rasterizer that renders the channels of the G-buffer in one pass.

pyrender's renderer is not used: it needs a pass per channel, samples depth and colour at different
points of the pixel, and has neither soft shadows nor environment lighting.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.errors import BackendError
from sim2cam.geometry.poses import Pose
from sim2cam.objects.primitives import Ground
from sim2cam.render.backends.opengl.batch import InstanceBatch, make_batch
from sim2cam.render.backends.opengl.context import GLProgram, PlatformName, open_context
from sim2cam.render.backends.opengl.device_memory import (
    DeviceMesh,
    DeviceTextures,
    ResourceCache,
    upload_mesh,
    upload_textures,
)
from sim2cam.render.backends.opengl.framebuffers import Attachment, RenderTargets, ShadowMapArray
from sim2cam.render.backends.opengl.lighting import DeviceLighting
from sim2cam.render.gbuffer import (
    BITS_PER_WORD,
    CHANNELS,
    Channel,
    GBuffer,
    PinholeView,
    Rasterizer,
    assign_label_ids,
    count_amodal_words,
)
from sim2cam.render.meshes.mesh import build_mesh
from sim2cam.render.meshes.texture_set import build_texture_set, make_texture_set_key
from sim2cam.scene.scene import Body, Scene

Floats = NDArray[np.float64]

_MAX_LABELS = 4 * BITS_PER_WORD
_SHADOW_UNIT, _NEAREST_SHADOW_UNIT = 4, 7  # texture units in ``light.frag``
_NEAR_M, _MIN_FAR_M = 0.02, 20.0
_MESH_CACHE_BYTES, _TEXTURE_CACHE_BYTES = 64 << 20, 256 << 20


class OpenGLRasterizer(Rasterizer):
    """Rasterizer on a GPU or on Mesa's software implementation.

    Args:
        platform: platform of the OpenGL context.

    Raises:
        BackendError: the platform is missing, or lacks OpenGL 4.1.
    """

    def __init__(self, platform: PlatformName) -> None:
        self._context = open_context(platform)
        self._platform = platform
        self._gl = gl = self._context.gl
        self._amodal_program = GLProgram(gl, "surface.vert", "cover.frag")
        self._shadow_program = GLProgram(gl, "shadow.vert", "shadow.frag")
        self._lighting = DeviceLighting(gl)
        self._targets = RenderTargets(gl)
        self._shadow_maps = ShadowMapArray(gl)
        self._channel_attachments = _make_channel_attachments(gl)
        self._material_attachments = _make_material_attachments(gl)
        self._surface_programs: dict[tuple[bool, bool, bool], GLProgram] = {}
        # most scenes have at most 32 labelled bodies: one word is read instead of four
        self._narrow_amodal_attachment = Attachment(
            0, gl.GL_R32UI, (gl.GL_RED_INTEGER, gl.GL_UNSIGNED_INT), np.uint32, 1
        )
        self._mesh_cache: ResourceCache[DeviceMesh] = ResourceCache(gl, _MESH_CACHE_BYTES)
        self._texture_cache: ResourceCache[DeviceTextures] = ResourceCache(gl, _TEXTURE_CACHE_BYTES)
        self._batches: tuple[InstanceBatch, ...] = ()
        self._far_m = _MIN_FAR_M

    @property
    def name(self) -> str:
        """Backend and renderer string of the driver."""
        return f"{self._platform}: {self._gl.glGetString(self._gl.GL_RENDERER).decode()}"

    @property
    def channels(self) -> frozenset[Channel]:
        """All channels."""
        return CHANNELS

    def _load(self, scene: Scene) -> None:
        """Load a scene. Shadow maps are rendered with the first radiance."""
        labels = assign_label_ids(scene)
        if len(labels) > _MAX_LABELS:
            raise BackendError(
                f"the scene has {len(labels)} labelled bodies; at most {_MAX_LABELS} are allowed."
            )
        self._batches = self._make_batches(scene, labels)
        self._far_m = max(_MIN_FAR_M, _compute_reach_m(scene, self._batches))
        self._mesh_cache.trim(len(self._batches))
        self._texture_cache.trim(len(self._batches))
        self._has_shadow_maps = False

    def _release(self) -> None:
        for batch in self._batches:
            batch.release(self._gl)
        self._batches = ()

    def _render(
        self, scene: Scene, view: PinholeView, channels: Collection[Channel], samples: int
    ) -> GBuffer:
        """Render channels of a view. With one sample per pixel, radiance and labels share one pass."""
        label_channels = set(channels) - {"cover", "radiance"}
        gbuffer: dict[Channel, NDArray[Any]] = {}
        if "cover" in channels:
            gbuffer["cover"] = self._draw_amodal_bits(scene, view)
        if "radiance" in channels:
            if not self._has_shadow_maps:
                self._draw_shadow_maps(scene)
                self._has_shadow_maps = True
            gbuffer |= self._draw_radiance(view, samples, label_channels if samples == 1 else set())
        if label_channels - gbuffer.keys():
            self._draw_surfaces(view, 1, label_channels, with_material=False)
            gbuffer |= self._read_channels(view, label_channels)
        return gbuffer

    def _draw_radiance(
        self, view: PinholeView, samples: int, label_channels: set[Channel]
    ) -> dict[Channel, NDArray[Any]]:
        """Return the radiance (h, w, 3), averaged over the samples of each pixel, and label channels.

        Shading is deferred: only visible surfaces are lit.
        """
        gl = self._gl
        textures = self._draw_surfaces(view, samples, label_channels, with_material=True)
        gbuffer = self._read_channels(view, label_channels)
        self._targets.bind((self._channel_attachments["radiance"],), 1, view.width, view.height)
        kind = gl.GL_TEXTURE_2D_MULTISAMPLE if samples > 1 else gl.GL_TEXTURE_2D
        for unit, texture in enumerate(textures[-len(self._material_attachments) - 1 :]):
            _bind_texture(gl, unit, texture, kind)
        self._shadow_maps.bind_textures(_SHADOW_UNIT, _NEAREST_SHADOW_UNIT)
        self._lighting.render(view, compute_clip_matrix(view, self._far_m), samples)
        return gbuffer | self._read_channels(view, {"radiance"})

    def _draw_surfaces(
        self, view: PinholeView, samples: int, label_channels: set[Channel], *, with_material: bool
    ) -> tuple[int, ...]:
        """Draw the visible surfaces and return the textures: labels, material, depth."""
        label_attachments = sorted(
            {self._channel_attachments[channel] for channel in label_channels},
            key=lambda attachment: attachment.location,
        )
        materials = self._material_attachments if with_material else ()
        # for background pixels the lighting pass reads the last material attachment only
        textures = self._begin_pass(
            (*label_attachments, *materials),
            samples,
            view,
            cleared_attachments=(*label_attachments, *materials[-1:]),
        )
        program = None
        for batch in sorted(self._batches, key=lambda batch: _measure_distance(batch, view.pose)):
            batch_program = self._get_surface_program(
                bool(label_channels), with_material, batch.textures.has_material_maps
            )
            if batch_program is not program:
                program = batch_program
                program.use()
                program.set_matrix("world_to_camera", view.pose.inverse().matrix())
                program.set_matrix("world_to_clip", compute_clip_matrix(view, self._far_m))
            if with_material:
                self._bind_material(program, batch)
            batch.draw(self._gl)
        return textures

    def _get_surface_program(
        self, with_labels: bool, with_material: bool, has_material_maps: bool
    ) -> GLProgram:
        key = with_labels, with_material, with_material and has_material_maps
        if key not in self._surface_programs:
            names = ("WITH_LABELS", "WITH_MATERIAL", "HAS_MATERIAL_MAPS")
            defines = {name: int(value) for name, value in zip(names, key, strict=True)}
            self._surface_programs[key] = GLProgram(
                self._gl, "surface.vert", "surface.frag", **defines
            )
        return self._surface_programs[key]

    def _bind_material(self, program: GLProgram, batch: InstanceBatch) -> None:
        """Set uniforms and textures of the batch's material."""
        material = batch.bodies[0].material
        parameters = (material.roughness, material.specular, material.metallic)
        program.set_vector("surface", (*parameters, material.emission))
        textures = batch.textures
        program.set_vector(
            "uv_transform",
            (textures.uv_scale, textures.uv_scale, textures.uv_offset, textures.uv_offset),
        )
        for unit, texture in enumerate(textures.names):
            _bind_texture(self._gl, unit, texture, self._gl.GL_TEXTURE_2D)

    def _read_channels(
        self, view: PinholeView, channels: set[Channel]
    ) -> dict[Channel, NDArray[Any]]:
        """Read channels of the bound framebuffer."""
        attachments = {self._channel_attachments[channel] for channel in channels}
        values = {
            attachment: self._targets.read(attachment, view.width, view.height)
            for attachment in attachments
        }
        return {
            channel: _extract_channel(channel, values[self._channel_attachments[channel]])
            for channel in channels
        }

    def _begin_pass(
        self,
        attachments: tuple[Attachment, ...],
        samples: int,
        view: PinholeView,
        *,
        cleared_attachments: tuple[Attachment, ...],
    ) -> tuple[int, ...]:
        """Bind a framebuffer, clear its depth and some attachments, and return its textures."""
        gl = self._gl
        textures = self._targets.bind(attachments, samples, view.width, view.height)
        gl.glEnable(gl.GL_DEPTH_TEST)
        gl.glEnable(gl.GL_MULTISAMPLE)
        gl.glClear(gl.GL_DEPTH_BUFFER_BIT)
        for attachment in cleared_attachments:
            if attachment.dtype is np.uint32:
                gl.glClearBufferuiv(gl.GL_COLOR, attachment.location, np.zeros(4, np.uint32))
            else:
                gl.glClearBufferfv(gl.GL_COLOR, attachment.location, np.zeros(4, np.float32))
        return textures

    def _draw_amodal_bits(self, scene: Scene, view: PinholeView) -> NDArray[np.uint32]:
        """Draw all labelled bodies without depth test, each setting its own bit."""
        gl = self._gl
        words = count_amodal_words(scene)
        attachment = (
            self._channel_attachments["cover"] if words > 1 else self._narrow_amodal_attachment
        )
        self._begin_pass((attachment,), 1, view, cleared_attachments=(attachment,))
        gl.glDisable(gl.GL_DEPTH_TEST)
        gl.glEnable(gl.GL_COLOR_LOGIC_OP)
        gl.glLogicOp(gl.GL_OR)
        self._amodal_program.use()
        self._amodal_program.set_matrix("world_to_clip", compute_clip_matrix(view, self._far_m))
        for batch in self._batches:
            if batch.bodies[0].is_target:
                batch.draw(gl)
        gl.glDisable(gl.GL_COLOR_LOGIC_OP)
        cover = self._targets.read(attachment, view.width, view.height)
        return np.ascontiguousarray(cover[..., :words])

    def _make_batches(self, scene: Scene, labels: dict[str, int]) -> tuple[InstanceBatch, ...]:
        groups: dict[Any, list[tuple[Body, int, int]]] = defaultdict(list)
        for body_number, body in enumerate(scene.bodies, 1):
            label = labels.get(body.name, 0)
            groups[body.asset, body.material, body.decals, body.is_target].append(
                (body, body_number, label)
            )
        return tuple(self._make_batch(bodies) for bodies in groups.values())

    def _make_batch(self, bodies: list[tuple[Body, int, int]]) -> InstanceBatch:
        body = bodies[0][0]
        mesh = self._mesh_cache.get(
            body.asset, lambda: upload_mesh(self._gl, build_mesh(body.asset))
        )
        textures = self._texture_cache.get(
            make_texture_set_key(body), lambda: upload_textures(self._gl, build_texture_set(body))
        )
        return make_batch(self._gl, bodies, mesh, textures)

    def _draw_shadow_maps(self, scene: Scene) -> None:
        """Draw one shadow map per beam, fitted to the shadow casters."""
        gl = self._gl
        casters = [
            batch
            for batch in self._batches
            if batch.mesh.n_shadow_indices and not isinstance(batch.bodies[0].asset, Ground)
        ]
        centre, radius = _compute_bounding_sphere(casters)
        to_shadows = self._lighting.load(scene, centre, radius)
        self._shadow_program.use()
        gl.glEnable(gl.GL_DEPTH_TEST)
        gl.glEnable(gl.GL_POLYGON_OFFSET_FILL)
        gl.glPolygonOffset(2.0, 4.0)
        for layer, to_shadow in enumerate(to_shadows):
            self._shadow_maps.bind(layer)
            self._shadow_program.set_matrix("world_to_clip", to_shadow)
            for batch in casters:
                batch.draw_shadow_casters(gl)
        gl.glDisable(gl.GL_POLYGON_OFFSET_FILL)


def _make_channel_attachments(gl: Any) -> dict[Channel, Attachment]:
    """Return the framebuffer attachment of each channel."""
    reals, integers = (gl.GL_RGBA, gl.GL_FLOAT), (gl.GL_RGBA_INTEGER, gl.GL_UNSIGNED_INT)
    pairs = (gl.GL_RG_INTEGER, gl.GL_UNSIGNED_INT)
    ids = Attachment(1, gl.GL_RG32UI, pairs, np.uint32, 2)
    return {
        "radiance": Attachment(0, gl.GL_RGBA32F, reals, np.float32, 4),
        "depth_m": Attachment(0, gl.GL_R32F, (gl.GL_RED, gl.GL_FLOAT), np.float32, 1),
        "bodies": ids,
        "parts": ids,
        "normals": Attachment(2, gl.GL_RGBA32F, reals, np.float32, 4),
        "cover": Attachment(0, gl.GL_RGBA32UI, integers, np.uint32, 4),
    }


def _make_material_attachments(gl: Any) -> tuple[Attachment, ...]:
    """Return the attachments with surface attributes, which ``light.frag`` reads."""
    reals, bytes_ = (gl.GL_RGBA, gl.GL_FLOAT), (gl.GL_RGBA, gl.GL_UNSIGNED_BYTE)
    return (
        Attachment(3, gl.GL_RGBA8, bytes_, np.uint8, 4),
        Attachment(4, gl.GL_RGBA16F, reals, np.float32, 4),
        Attachment(5, gl.GL_RGBA8, bytes_, np.uint8, 4),
    )


def _extract_channel(channel: Channel, values: NDArray[Any]) -> NDArray[Any]:
    """Return a channel from the values (h, w, channels) of its attachment."""
    match channel:
        case "depth_m" | "bodies":
            return np.ascontiguousarray(values[..., 0])
        case "parts":
            return np.ascontiguousarray(values[..., 1])
        case _:
            return values[..., :3]


def _bind_texture(gl: Any, unit: int, texture: int, target: int) -> None:
    gl.glActiveTexture(gl.GL_TEXTURE0 + unit)
    gl.glBindTexture(target, texture)


def _measure_distance(batch: InstanceBatch, camera: Pose) -> float:
    """Return the distance to the nearest body, for front-to-back order; the table is last."""
    if isinstance(batch.bodies[0].asset, Ground):
        return float("inf")
    positions = np.array([body.pose.position_m for body in batch.bodies])
    return float(np.linalg.norm(positions - camera.position_m, axis=1).min())


def compute_clip_matrix(view: PinholeView, far_m: float) -> Floats:
    """Return the matrix (4, 4) from world to clip coordinates, up to a depth.

    Row 0 of the image is at the bottom of the buffer, which OpenGL stores first, so the result
    needs no flip.
    """
    near, far = _NEAR_M, far_m
    w, h, f = view.width, view.height, view.focal_px
    to_clip = np.array(
        [
            [2 * f / w, 0, 2 * (view.cx_px + 0.5) / w - 1, 0],
            [0, 2 * f / h, 2 * (view.cy_px + 0.5) / h - 1, 0],
            [0, 0, (far + near) / (far - near), -2 * far * near / (far - near)],
            [0, 0, 1, 0],
        ]
    )
    return np.asarray(to_clip @ view.pose.inverse().matrix())


def _compute_reach_m(scene: Scene, batches: Sequence[InstanceBatch]) -> float:
    """Return the distance from a camera to the farthest corner of a body other than the ground."""
    corners = [
        body.pose.apply(batch.mesh.corners_m)
        for batch in batches
        for body in batch.bodies
        if not isinstance(body.asset, Ground)
    ]
    eyes = [camera.pose.position_m for camera in scene.cameras]
    if not corners or not eyes:
        return 0.0
    return float(np.linalg.norm(np.vstack(corners)[:, None] - np.array(eyes), axis=-1).max())


def _compute_bounding_sphere(casters: list[InstanceBatch]) -> tuple[Floats, float]:
    """Return centre (3,) and radius of a sphere around all shadow casters."""
    if not casters:
        return np.zeros(3), 0.1
    corners = [body.pose.apply(batch.mesh.corners_m) for batch in casters for body in batch.bodies]
    points = np.vstack(corners)
    low, high = points.min(axis=0), points.max(axis=0)
    return (low + high) / 2, float(np.linalg.norm(high - low) / 2)
