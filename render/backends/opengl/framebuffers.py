"""Framebuffers, enlarged on demand, and shadow maps with hardware depth comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.errors import BackendError
from sim2cam.geometry.poses import Pose, vec3
from sim2cam.render.backends.opengl.device_memory import set_texture_filtering
from sim2cam.render.lighting.beams import MAX_SHADOW_MAPS, ShadowView

Floats = NDArray[np.float64]

SHADOW_PX = 512


@dataclass(frozen=True)
class Attachment:
    """One output of a fragment shader.

    Attributes:
        location: location of the output in the shader.
        internal_format: OpenGL format in device memory.
        transfer_format: OpenGL format and type for reading.
        dtype, channels: numpy type and channel count for reading.
    """

    location: int
    internal_format: int
    transfer_format: tuple[int, int]
    dtype: type
    channels: int


@dataclass(frozen=True)
class _Framebuffer:
    """OpenGL names of a framebuffer and its textures (depth last), and its size."""

    handle: int
    textures: tuple[int, ...]
    width: int
    height: int


class RenderTargets:
    """Pool of framebuffers.

    Args:
        gl: module of OpenGL functions.
    """

    def __init__(self, gl: Any) -> None:
        self._gl = gl
        self._framebuffers: dict[tuple[tuple[Attachment, ...], int], _Framebuffer] = {}

    def bind(
        self, attachments: tuple[Attachment, ...], samples: int, width: int, height: int
    ) -> tuple[int, ...]:
        """Bind a framebuffer for drawing.

        Returns:
            OpenGL names of the textures of the attachments, then of the depth texture.

        Raises:
            BackendError: the driver does not support the framebuffer.
        """
        framebuffer = self._get_framebuffer(attachments, samples, width, height)
        self._gl.glBindFramebuffer(self._gl.GL_FRAMEBUFFER, framebuffer.handle)
        self._gl.glViewport(0, 0, width, height)
        return framebuffer.textures

    def read(self, attachment: Attachment, width: int, height: int) -> NDArray[Any]:
        """Read an attachment (height, width, channels) of the bound framebuffer."""
        gl = self._gl
        gl.glReadBuffer(gl.GL_COLOR_ATTACHMENT0 + attachment.location)
        pixels: NDArray[Any] = np.empty((height, width, attachment.channels), attachment.dtype)
        gl.glReadPixels(0, 0, width, height, *attachment.transfer_format, pixels)
        return pixels

    def _get_framebuffer(
        self, attachments: tuple[Attachment, ...], samples: int, width: int, height: int
    ) -> _Framebuffer:
        key = (attachments, samples)
        framebuffer = self._framebuffers.get(key)
        if framebuffer is not None and width <= framebuffer.width and height <= framebuffer.height:
            return framebuffer
        if framebuffer is not None:
            width, height = max(width, framebuffer.width), max(height, framebuffer.height)
            self._gl.glDeleteFramebuffers(1, [framebuffer.handle])
            self._gl.glDeleteTextures(list(framebuffer.textures))
        size = (-(-width // 64) * 64, -(-height // 64) * 64)
        self._framebuffers[key] = self._create_framebuffer(attachments, samples, size)
        return self._framebuffers[key]

    def _create_framebuffer(
        self, attachments: tuple[Attachment, ...], samples: int, size: tuple[int, int]
    ) -> _Framebuffer:
        gl = self._gl
        framebuffer = int(gl.glGenFramebuffers(1))
        gl.glBindFramebuffer(gl.GL_FRAMEBUFFER, framebuffer)
        colors = [
            self._create_attachment(
                gl.GL_COLOR_ATTACHMENT0 + a.location,
                a.internal_format,
                a.transfer_format,
                samples,
                size,
            )
            for a in attachments
        ]
        layout = (gl.GL_DEPTH_COMPONENT, gl.GL_FLOAT)
        depth = self._create_attachment(
            gl.GL_DEPTH_ATTACHMENT, gl.GL_DEPTH_COMPONENT32F, layout, samples, size
        )
        used = {attachment.location for attachment in attachments}
        outputs = [
            gl.GL_COLOR_ATTACHMENT0 + i if i in used else gl.GL_NONE for i in range(max(used) + 1)
        ]
        gl.glDrawBuffers(len(outputs), outputs)
        status = gl.glCheckFramebufferStatus(gl.GL_FRAMEBUFFER)
        if status != gl.GL_FRAMEBUFFER_COMPLETE:
            formats = [hex(attachment.internal_format) for attachment in attachments]
            raise BackendError(
                f"the driver does not support framebuffers of formats {', '.join(formats)} with "
                f"{samples} samples ({status:#x}). Set SIM2CAM_BACKEND=tiny."
            )
        return _Framebuffer(framebuffer, (*colors, depth), *size)

    def _create_attachment(
        self,
        attachment_point: int,
        internal_format: int,
        transfer_format: tuple[int, int],
        samples: int,
        size: tuple[int, int],
    ) -> int:
        """Attach a new texture to the bound framebuffer and return it."""
        gl = self._gl
        texture = int(gl.glGenTextures(1))
        if samples > 1:
            kind = gl.GL_TEXTURE_2D_MULTISAMPLE
            gl.glBindTexture(kind, texture)
            gl.glTexImage2DMultisample(kind, samples, internal_format, *size, True)
        else:
            kind = gl.GL_TEXTURE_2D
            gl.glBindTexture(kind, texture)
            gl.glTexImage2D(kind, 0, internal_format, *size, 0, *transfer_format, None)
            gl.glTexParameteri(kind, gl.GL_TEXTURE_MIN_FILTER, gl.GL_NEAREST)
        gl.glFramebufferTexture2D(gl.GL_FRAMEBUFFER, attachment_point, kind, texture, 0)
        return texture


class ShadowMapArray:
    """Array of depth maps, one per beam.

    Args:
        gl: module of OpenGL functions.
    """

    def __init__(self, gl: Any) -> None:
        self._gl = gl
        kind = gl.GL_TEXTURE_2D_ARRAY
        self._texture = gl.glGenTextures(1)
        gl.glBindTexture(kind, self._texture)
        gl.glTexImage3D(
            kind, 0, gl.GL_DEPTH_COMPONENT32F, SHADOW_PX, SHADOW_PX, MAX_SHADOW_MAPS, 0,
            gl.GL_DEPTH_COMPONENT, gl.GL_FLOAT, None,
        )  # fmt: skip
        set_texture_filtering(gl, kind, wrap_mode=gl.GL_CLAMP_TO_EDGE)
        gl.glTexParameteri(kind, gl.GL_TEXTURE_COMPARE_MODE, gl.GL_COMPARE_REF_TO_TEXTURE)
        gl.glTexParameteri(kind, gl.GL_TEXTURE_COMPARE_FUNC, gl.GL_LEQUAL)
        self._nearest_sampler = _create_nearest_sampler(gl)
        self._framebuffer = gl.glGenFramebuffers(1)

    def bind(self, layer: int) -> None:
        """Clear the map of a beam and bind it for drawing."""
        gl = self._gl
        gl.glBindFramebuffer(gl.GL_FRAMEBUFFER, self._framebuffer)
        gl.glFramebufferTextureLayer(
            gl.GL_FRAMEBUFFER, gl.GL_DEPTH_ATTACHMENT, self._texture, 0, layer
        )
        gl.glDrawBuffer(gl.GL_NONE)
        gl.glReadBuffer(gl.GL_NONE)
        gl.glViewport(0, 0, SHADOW_PX, SHADOW_PX)
        gl.glClear(gl.GL_DEPTH_BUFFER_BIT)

    def bind_textures(self, unit: int, nearest_unit: int) -> None:
        """Bind the maps to two texture units, with linear and with nearest filtering."""
        gl = self._gl
        for number in (unit, nearest_unit):
            gl.glActiveTexture(gl.GL_TEXTURE0 + number)
            gl.glBindTexture(gl.GL_TEXTURE_2D_ARRAY, self._texture)
        gl.glBindSampler(nearest_unit, self._nearest_sampler)


def _create_nearest_sampler(gl: Any) -> int:
    """Return a sampler that compares with one texel instead of four."""
    sampler = gl.glGenSamplers(1)
    for name, value in (
        (gl.GL_TEXTURE_MIN_FILTER, gl.GL_NEAREST),
        (gl.GL_TEXTURE_MAG_FILTER, gl.GL_NEAREST),
        (gl.GL_TEXTURE_WRAP_S, gl.GL_CLAMP_TO_EDGE),
        (gl.GL_TEXTURE_WRAP_T, gl.GL_CLAMP_TO_EDGE),
        (gl.GL_TEXTURE_COMPARE_MODE, gl.GL_COMPARE_REF_TO_TEXTURE),
        (gl.GL_TEXTURE_COMPARE_FUNC, gl.GL_LEQUAL),
    ):
        gl.glSamplerParameteri(sampler, name, value)
    return int(sampler)


def compute_shadow_matrix(view: ShadowView, *, is_local: bool) -> Floats:
    """Return the matrix (4, 4) from world to clip coordinates of a shadow map."""
    eye, target = view.eye, view.target
    pose = Pose.look_at(vec3(eye), vec3(target), 0.0)
    near, far = view.near_m, view.far_m
    if is_local:
        to_clip = np.diag(
            [1 / view.half_extent, 1 / view.half_extent, (far + near) / (far - near), 0.0]
        )
        to_clip[2, 3] = -2 * far * near / (far - near)
        to_clip[3, 2] = 1.0
    else:
        to_clip = np.diag([1 / view.half_extent, 1 / view.half_extent, 2 / (far - near), 1.0])
        to_clip[2, 3] = -(far + near) / (far - near)
    return np.asarray(to_clip @ pose.inverse().matrix())
