"""Framebuffers, enlarged on demand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.errors import BackendError


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
