"""OpenGL without a display: our shaders on pyrender's context, meshes, textures and programs.

pyrender's own renderer is not used: it draws every channel in a pass of its own, resolves depth and
colour at different points of the pixel, and has neither soft shadows nor light from all around.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

os.environ.setdefault("PYOPENGL_PLATFORM", "egl")
os.environ.setdefault("PYGLET_HEADLESS", "1")  # pyrender imports pyglet, which asks for a display
from sim2cam.errors import BackendError
from sim2cam.geometry.poses import Pose
from sim2cam.render.light import MAX_LAMPS, MAX_RAYS, ground_irradiance, rays_of
from sim2cam.render.mesh import mesh_of
from sim2cam.render.rasterizer import (
    BITS_PER_WORD,
    LabelBuffer,
    PinholeView,
    cover_words,
    label_numbers,
)
from sim2cam.render.skin import skin_of
from sim2cam.scene.asset import Ground
from sim2cam.scene.scene import Body, Scene

Floats = NDArray[np.float64]

_SHADERS = Path(__file__).parent / "shaders"
_SHADOW_PX = 512
_SAMPLES = 4
_MAX_BITS = 4 * BITS_PER_WORD
_FLAT_NORMAL = np.full((1, 1, 3), (128, 128, 255), np.uint8)


@dataclass(frozen=True)
class _Drawable:
    """A body on the device."""

    body: Body
    primitive: Any
    color_map: Any
    normal_map: Any
    uv_scale: float
    number: int
    casts: bool

    def release(self) -> None:
        self.primitive._remove_from_context()
        self.color_map._remove_from_context()
        self.normal_map._remove_from_context()


class EglRasterizer:
    """Draws through EGL, on a GPU or on Mesa's software rasterizer.

    Raises:
        BackendError: no EGL device or no OpenGL 4.1.
    """

    def __init__(self) -> None:
        try:
            from OpenGL import GL
            from pyrender.platforms.egl import EGLPlatform, get_default_device

            self._platform = EGLPlatform(1, 1, device=get_default_device())
            self._platform.init_context()
        except Exception as error:
            raise BackendError(
                f"no OpenGL through EGL ({type(error).__name__}: {error}). Install it "
                "(Debian, Ubuntu: apt-get install libegl1 libgl1 libgl1-mesa-dri) or set "
                "SIM2CAM_BACKEND=tiny."
            ) from error
        self._gl = GL
        GL.glPixelStorei(GL.GL_UNPACK_ALIGNMENT, 1)  # rows of RGB bytes have any length
        self._drawables: list[_Drawable] = []
        self._programs = {
            name: _Program(GL, f"{name}.frag") for name in ("color", "label", "cover", "shadow")
        }
        self._targets = _Targets(GL)
        self._shadow_target = _ShadowTarget(GL)

    @property
    def name(self) -> str:
        """The backend and the driver's renderer string."""
        return f"egl: {self._gl.glGetString(self._gl.GL_RENDERER).decode()}"

    def load(self, scene: Scene) -> None:
        """Uploads bodies and draws the shadow maps of a settled scene."""
        for drawable in self._drawables:
            drawable.release()
        self._scene = scene
        numbers = label_numbers(scene)
        if len(numbers) > _MAX_BITS:
            raise BackendError(f"{len(numbers)} labelled bodies are more than {_MAX_BITS}.")
        self._drawables = [_upload(body, numbers.get(body.name, 0)) for body in scene.bodies]
        self._light()

    def radiance(self, view: PinholeView) -> NDArray[np.float32]:
        """Returns linear RGB (h, w, 3), four samples a pixel."""
        gl = self._gl
        self._targets.bind_color(view.width, view.height)
        gl.glEnable(gl.GL_DEPTH_TEST)
        gl.glEnable(gl.GL_MULTISAMPLE)
        gl.glClearColor(*self._scene.environment.horizon, 0.0)
        gl.glClear(gl.GL_COLOR_BUFFER_BIT | gl.GL_DEPTH_BUFFER_BIT)
        program = self._programs["color"]
        program.use()
        program.matrix("world_to_clip", _clip_matrix(view))
        program.vector("eye", view.pose.position_m)
        self._set_light(program)
        for d in sorted(self._drawables, key=lambda d: _distance(d.body, view.pose)):
            material = d.body.material
            program.number("roughness", material.roughness)
            program.number("specular", material.specular)
            program.number("metallic", material.metallic)
            _bind_texture(gl, 0, d.color_map._texid)
            _bind_texture(gl, 1, d.normal_map._texid)
            self._draw(program, d)
        return self._targets.read_color(view.width, view.height)

    def labels(self, view: PinholeView) -> LabelBuffer:
        """Returns depth, ids and cover at pixel centres, one sample each."""
        gl = self._gl
        size = (view.width, view.height)
        clip = _clip_matrix(view)
        self._targets.bind_labels(*size)
        gl.glEnable(gl.GL_DEPTH_TEST)
        gl.glClear(gl.GL_DEPTH_BUFFER_BIT)
        gl.glClearBufferfv(gl.GL_COLOR, 0, np.zeros(4, np.float32))
        gl.glClearBufferuiv(gl.GL_COLOR, 1, np.zeros(4, np.uint32))
        program = self._programs["label"]
        program.use()
        program.matrix("world_to_clip", clip)
        program.vector("world_to_depth", view.pose.inverse().matrix()[2])
        for d in self._drawables:
            program.unsigned("body_id", d.number)
            self._draw(program, d)
        depth_m, ids = self._targets.read_labels(*size)
        return LabelBuffer(depth_m, ids, self._cover(clip, size))

    def _cover(self, clip: Floats, size: tuple[int, int]) -> NDArray[np.uint32]:
        """Draws every labelled body through all others, each setting its own bit."""
        gl = self._gl
        words = cover_words(self._scene)
        self._targets.bind_cover(*size, words)
        gl.glDisable(gl.GL_DEPTH_TEST)
        gl.glEnable(gl.GL_COLOR_LOGIC_OP)
        gl.glLogicOp(gl.GL_OR)
        gl.glClearBufferuiv(gl.GL_COLOR, 0, np.zeros(4, np.uint32))
        program = self._programs["cover"]
        program.use()
        program.matrix("world_to_clip", clip)
        for d in self._drawables:
            if d.number:
                word, bit = divmod(d.number - 1, BITS_PER_WORD)
                bits = np.zeros(4, np.uint32)
                bits[word] = np.uint32(1 << bit)
                program.unsigned_vector("body_bits", bits)
                self._draw(program, d)
        gl.glDisable(gl.GL_COLOR_LOGIC_OP)
        return self._targets.read_cover(*size, words)

    def _light(self) -> None:
        """Draws one shadow map for each parallel light, fitted to the bodies that cast."""
        gl = self._gl
        self._rays = rays_of(self._scene.environment)
        casters = [d for d in self._drawables if d.casts]
        centre, radius = _bounding_sphere(casters)
        self._shadow_texel_m = 2 * radius / _SHADOW_PX
        self._to_shadow = [_shadow_matrix(ray, centre, radius) for ray in self._rays.directions]
        program = self._programs["shadow"]
        program.use()
        gl.glEnable(gl.GL_DEPTH_TEST)
        gl.glEnable(gl.GL_POLYGON_OFFSET_FILL)
        gl.glPolygonOffset(2.0, 4.0)
        for layer, matrix in enumerate(self._to_shadow):
            self._shadow_target.bind(layer)
            program.matrix("world_to_clip", matrix)
            for d in casters:
                self._draw(program, d)
        gl.glDisable(gl.GL_POLYGON_OFFSET_FILL)

    def _set_light(self, program: _Program) -> None:
        environment = self._scene.environment
        _bind_texture(self._gl, 2, self._shadow_target.texture, self._gl.GL_TEXTURE_2D_ARRAY)
        program.integer("ray_count", len(self._rays.directions))
        program.vectors("ray_directions", self._rays.directions)
        program.vectors("ray_irradiances", self._rays.irradiances)
        program.matrices("world_to_shadow", self._to_shadow)
        program.number("shadow_texel_m", self._shadow_texel_m)
        program.vector("zenith", environment.zenith)
        program.vector("horizon", environment.horizon)
        albedo = np.array(self._scene.bodies[0].material.texture.color_a)
        program.vector("ground_radiance", albedo * ground_irradiance(environment) / np.pi)
        lamps = environment.lamps[:MAX_LAMPS]
        program.integer("lamp_count", len(lamps))
        if lamps:
            program.vectors("lamp_directions", np.array([lamp.direction for lamp in lamps]))
            program.vectors("lamp_irradiances", np.array([lamp.irradiance for lamp in lamps]))
            program.numbers("lamp_radii", [lamp.radius_rad for lamp in lamps])

    def _draw(self, program: _Program, d: _Drawable) -> None:
        gl = self._gl
        program.number("uv_scale", d.uv_scale)
        d.primitive._bind()
        gl.glDrawElementsInstanced(
            gl.GL_TRIANGLES, d.primitive.indices.size, gl.GL_UNSIGNED_INT, None, 1
        )


class _Program:
    """A shader program whose uniforms are set by name; unused names are passed over."""

    def __init__(self, gl: Any, fragment: str) -> None:
        from pyrender.shader_program import ShaderProgram

        limits = {"RAYS_LIMIT": MAX_RAYS, "LAMPS_LIMIT": MAX_LAMPS}
        self._gl = gl
        self._program = ShaderProgram(
            str(_SHADERS / "body.vert"), str(_SHADERS / fragment), defines=limits
        )
        self._program._add_to_context()
        self._places: dict[str, int] = {}

    def use(self) -> None:
        self._program._bind()

    def integer(self, name: str, value: int) -> None:
        self._gl.glUniform1i(self._place(name), value)

    def unsigned(self, name: str, value: int) -> None:
        self._gl.glUniform1ui(self._place(name), value)

    def unsigned_vector(self, name: str, values: NDArray[np.uint32]) -> None:
        self._gl.glUniform4uiv(self._place(name), 1, values)

    def number(self, name: str, value: float) -> None:
        self._gl.glUniform1f(self._place(name), value)

    def numbers(self, name: str, values: list[float]) -> None:
        self._gl.glUniform1fv(self._place(name), len(values), np.array(values, np.float32))

    def vector(self, name: str, values: Any) -> None:
        array = np.asarray(values, np.float32)
        setter = self._gl.glUniform3fv if array.size == 3 else self._gl.glUniform4fv
        setter(self._place(name), 1, array)

    def vectors(self, name: str, values: Floats) -> None:
        self._gl.glUniform3fv(
            self._place(name), len(values), np.ascontiguousarray(values, np.float32)
        )

    def matrix(self, name: str, value: Floats) -> None:
        self.matrices(name, [value])

    def matrices(self, name: str, values: list[Floats]) -> None:
        stacked = np.ascontiguousarray(values, np.float32)
        self._gl.glUniformMatrix4fv(self._place(name), len(values), self._gl.GL_TRUE, stacked)

    def _place(self, name: str) -> int:
        if name not in self._places:
            self._places[name] = self._gl.glGetUniformLocation(self._program._program_id, name)
        return self._places[name]


class _Targets:
    """Framebuffers for colour, labels and cover, grown when a larger view comes."""

    def __init__(self, gl: Any) -> None:
        self._gl = gl
        self._width = self._height = 0

    def bind_color(self, width: int, height: int) -> None:
        self._bind(self._reserve(width, height)["samples"], width, height)

    def bind_labels(self, width: int, height: int) -> None:
        self._bind(self._reserve(width, height)["labels"], width, height)

    def bind_cover(self, width: int, height: int, words: int) -> None:
        self._bind(self._reserve(width, height)[_cover_buffer(words)], width, height)

    def read_color(self, width: int, height: int) -> NDArray[np.float32]:
        gl = self._gl
        gl.glBindFramebuffer(gl.GL_READ_FRAMEBUFFER, self._buffers["samples"])
        gl.glBindFramebuffer(gl.GL_DRAW_FRAMEBUFFER, self._buffers["resolved"])
        gl.glBlitFramebuffer(
            0, 0, width, height, 0, 0, width, height, gl.GL_COLOR_BUFFER_BIT, gl.GL_NEAREST
        )
        gl.glBindFramebuffer(gl.GL_READ_FRAMEBUFFER, self._buffers["resolved"])
        return np.asarray(self._read(0, width, height, gl.GL_RGB, gl.GL_FLOAT, np.float32, 3))

    def read_labels(
        self, width: int, height: int
    ) -> tuple[NDArray[np.float32], NDArray[np.uint16]]:
        gl = self._gl
        gl.glBindFramebuffer(gl.GL_READ_FRAMEBUFFER, self._buffers["labels"])
        depth = self._read(0, width, height, gl.GL_RED, gl.GL_FLOAT, np.float32, 1)
        ids = self._read(1, width, height, gl.GL_RED_INTEGER, gl.GL_UNSIGNED_INT, np.uint32, 1)
        return depth[..., 0], ids[..., 0].astype(np.uint16)

    def read_cover(self, width: int, height: int, words: int) -> NDArray[np.uint32]:
        gl = self._gl
        gl.glBindFramebuffer(gl.GL_READ_FRAMEBUFFER, self._buffers[_cover_buffer(words)])
        layout = gl.GL_RED_INTEGER if words == 1 else gl.GL_RGBA_INTEGER
        channels = 1 if words == 1 else 4
        cover = self._read(0, width, height, layout, gl.GL_UNSIGNED_INT, np.uint32, channels)
        return np.asarray(cover[..., :words])

    def _read(
        self,
        attachment: int,
        width: int,
        height: int,
        layout: int,
        kind: int,
        dtype: Any,
        channels: int,
    ) -> Any:
        gl = self._gl
        gl.glReadBuffer(gl.GL_COLOR_ATTACHMENT0 + attachment)
        gl.glPixelStorei(gl.GL_PACK_ALIGNMENT, 1)
        pixels = np.zeros((height, width, channels), dtype)
        gl.glReadPixels(0, 0, width, height, layout, kind, pixels)
        return pixels

    def _bind(self, buffer: int, width: int, height: int) -> None:
        self._gl.glBindFramebuffer(self._gl.GL_FRAMEBUFFER, buffer)
        self._gl.glViewport(0, 0, width, height)

    def _reserve(self, width: int, height: int) -> dict[str, int]:
        if width > self._width or height > self._height:
            if self._width:
                self._gl.glDeleteFramebuffers(len(self._buffers), list(self._buffers.values()))
                self._gl.glDeleteRenderbuffers(len(self._storage), self._storage)
            self._width = max(self._width, -(-width // 64) * 64)
            self._height = max(self._height, -(-height // 64) * 64)
            self._make()
        return self._buffers

    def _make(self) -> None:
        gl = self._gl
        self._storage: list[int] = []
        self._buffers: dict[str, int] = {
            "samples": self._framebuffer([gl.GL_RGBA16F], _SAMPLES),
            "resolved": self._framebuffer([gl.GL_RGBA16F], 0),
            "labels": self._framebuffer([gl.GL_R32F, gl.GL_R32UI], 0),
            "cover": self._framebuffer([gl.GL_R32UI], 0),
            "wide cover": self._framebuffer([gl.GL_RGBA32UI], 0),
        }

    def _framebuffer(self, formats: list[int], samples: int) -> int:
        gl = self._gl
        buffer = gl.glGenFramebuffers(1)
        gl.glBindFramebuffer(gl.GL_FRAMEBUFFER, buffer)
        attachments = [gl.GL_COLOR_ATTACHMENT0 + i for i in range(len(formats))]
        pairs = [
            *zip(attachments, formats, strict=True),
            (gl.GL_DEPTH_ATTACHMENT, gl.GL_DEPTH_COMPONENT32F),
        ]
        for attachment, layout in pairs:
            storage = gl.glGenRenderbuffers(1)
            self._storage.append(storage)
            gl.glBindRenderbuffer(gl.GL_RENDERBUFFER, storage)
            gl.glRenderbufferStorageMultisample(
                gl.GL_RENDERBUFFER, samples, layout, self._width, self._height
            )
            gl.glFramebufferRenderbuffer(gl.GL_FRAMEBUFFER, attachment, gl.GL_RENDERBUFFER, storage)
        gl.glDrawBuffers(len(attachments), attachments)
        status = gl.glCheckFramebufferStatus(gl.GL_FRAMEBUFFER)
        if status != gl.GL_FRAMEBUFFER_COMPLETE:
            raise BackendError(f"the driver has no framebuffer of formats {formats} ({status:#x}).")
        return int(buffer)


class _ShadowTarget:
    """An array of depth maps, compared in hardware."""

    def __init__(self, gl: Any) -> None:
        self._gl = gl
        kind = gl.GL_TEXTURE_2D_ARRAY
        self.texture = gl.glGenTextures(1)
        gl.glBindTexture(kind, self.texture)
        gl.glTexImage3D(
            kind, 0, gl.GL_DEPTH_COMPONENT32F, _SHADOW_PX, _SHADOW_PX, MAX_RAYS, 0,
            gl.GL_DEPTH_COMPONENT, gl.GL_FLOAT, None,
        )  # fmt: skip
        for name, value in (
            (gl.GL_TEXTURE_MIN_FILTER, gl.GL_LINEAR),
            (gl.GL_TEXTURE_MAG_FILTER, gl.GL_LINEAR),
            (gl.GL_TEXTURE_WRAP_S, gl.GL_CLAMP_TO_EDGE),
            (gl.GL_TEXTURE_WRAP_T, gl.GL_CLAMP_TO_EDGE),
            (gl.GL_TEXTURE_COMPARE_MODE, gl.GL_COMPARE_REF_TO_TEXTURE),
            (gl.GL_TEXTURE_COMPARE_FUNC, gl.GL_LEQUAL),
        ):
            gl.glTexParameteri(kind, name, value)
        self._buffer = gl.glGenFramebuffers(1)

    def bind(self, layer: int) -> None:
        gl = self._gl
        gl.glBindFramebuffer(gl.GL_FRAMEBUFFER, self._buffer)
        gl.glFramebufferTextureLayer(
            gl.GL_FRAMEBUFFER, gl.GL_DEPTH_ATTACHMENT, self.texture, 0, layer
        )
        gl.glDrawBuffer(gl.GL_NONE)
        gl.glReadBuffer(gl.GL_NONE)
        gl.glViewport(0, 0, _SHADOW_PX, _SHADOW_PX)
        gl.glClear(gl.GL_DEPTH_BUFFER_BIT)


def _cover_buffer(words: int) -> str:
    return "cover" if words == 1 else "wide cover"


def _upload(body: Body, number: int) -> _Drawable:
    from pyrender import Primitive, Sampler, Texture

    mesh = mesh_of(body.asset)
    primitive = Primitive(
        mesh.vertices_m, mesh.normals, np.column_stack([mesh.tangents, np.ones(len(mesh.tangents))]),
        mesh.uvs, indices=mesh.faces, poses=body.pose.matrix()[None],
    )  # fmt: skip
    skin = skin_of(body)
    sampler = Sampler(wrapS=_MIRRORED, wrapT=_MIRRORED)
    # pyrender flips pictures for OpenGL; ours have row 0 at v = 0 already.
    color_map, normal_map = [
        Texture(source=np.flip(m, 0), source_channels="RGB", sampler=sampler)
        for m in (skin.colors, _FLAT_NORMAL if skin.normals is None else skin.normals)
    ]
    primitive._add_to_context()
    for texture in (color_map, normal_map):
        texture._add_to_context()
    casts = not isinstance(body.asset, Ground)
    return _Drawable(body, primitive, color_map, normal_map, skin.turns, number, casts)


_MIRRORED = 0x8370  # GL_MIRRORED_REPEAT


def _bind_texture(gl: Any, unit: int, texture: int, kind: int | None = None) -> None:
    gl.glActiveTexture(gl.GL_TEXTURE0 + unit)
    gl.glBindTexture(gl.GL_TEXTURE_2D if kind is None else kind, texture)


def _distance(body: Body, camera: Pose) -> float:
    """Returns how far away a body is; the table, which lies under everything, counts as farthest."""
    if isinstance(body.asset, Ground):
        return float("inf")
    return float(np.linalg.norm(np.subtract(body.pose.position_m, camera.position_m)))


def _clip_matrix(view: PinholeView) -> Floats:
    """Returns world to clip coordinates, with row 0 of the image at the bottom of the buffer.

    That is OpenGL's first row in memory, so what is read back needs no turning.
    """
    near = 0.02
    far = 20.0
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


def _bounding_sphere(casters: list[_Drawable]) -> tuple[Floats, float]:
    """Returns centre (3,) and radius of a sphere around all casting bodies."""
    if not casters:
        return np.zeros(3), 0.1
    points = np.vstack(
        [d.body.pose.apply(np.asarray(d.primitive.positions, np.float64)) for d in casters]
    )
    low, high = points.min(axis=0), points.max(axis=0)
    return (low + high) / 2, float(np.linalg.norm(high - low) / 2)


def _shadow_matrix(direction: Floats, centre: Floats, radius: float) -> Floats:
    """Returns world to clip of a parallel light around a sphere."""
    eye = centre + direction * 2 * radius
    pose = Pose.looking_at((eye[0], eye[1], eye[2]), (centre[0], centre[1], centre[2]), 0.0)
    squeeze = np.diag([1 / radius, 1 / radius, 1 / radius, 1.0])
    squeeze[2, 3] = -2.0
    return np.asarray(squeeze @ pose.inverse().matrix())
