"""Framebuffers: what is drawn into, looked up or read back, grown when a larger view comes."""

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
        location: of the output in the shader.
        internal_format: OpenGL's format in memory.
        transfer_format: OpenGL's format and type of what is read back.
        dtype, channels: the same for numpy.
    """

    location: int
    internal_format: int
    transfer_format: tuple[int, int]
    dtype: type
    channels: int


@dataclass(frozen=True)
class _Framebuffer:
    """OpenGL's names of a framebuffer and of its textures, the depth's last, and its size."""

    handle: int
    textures: tuple[int, ...]
    width: int
    height: int


class RenderTargets:
    """Framebuffers by their outputs.

    Args:
        gl: OpenGL's functions.
    """

    def __init__(self, gl: Any) -> None:
        self._gl = gl
        self._framebuffers: dict[tuple[tuple[Attachment, ...], int], _Framebuffer] = {}

    def bind(
        self, attachments: tuple[Attachment, ...], samples: int, width: int, height: int
    ) -> tuple[int, ...]:
        """Make the framebuffer of these outputs the one that is drawn into.

        Returns OpenGL's names of their textures, and last that of the depth.

        Raises:
            BackendError: the driver has no such framebuffer.
        """
        found = self._get_framebuffer(attachments, samples, width, height)
        self._gl.glBindFramebuffer(self._gl.GL_FRAMEBUFFER, found.handle)
        self._gl.glViewport(0, 0, width, height)
        return found.textures

    def read(self, attachment: Attachment, width: int, height: int) -> NDArray[Any]:
        """Return an output (height, width, channels) of the framebuffer that is read."""
        gl = self._gl
        gl.glReadBuffer(gl.GL_COLOR_ATTACHMENT0 + attachment.location)
        pixels: NDArray[Any] = np.empty((height, width, attachment.channels), attachment.dtype)
        gl.glReadPixels(0, 0, width, height, *attachment.transfer_format, pixels)
        return pixels

    def _get_framebuffer(
        self, attachments: tuple[Attachment, ...], samples: int, width: int, height: int
    ) -> _Framebuffer:
        key = (attachments, samples)
        found = self._framebuffers.get(key)
        if found is not None and width <= found.width and height <= found.height:
            return found
        if found is not None:
            width, height = max(width, found.width), max(height, found.height)
            self._gl.glDeleteFramebuffers(1, [found.handle])
            self._gl.glDeleteTextures(list(found.textures))
        size = (-(-width // 64) * 64, -(-height // 64) * 64)
        self._framebuffers[key] = self._create_framebuffer(attachments, samples, size)
        return self._framebuffers[key]

    def _create_framebuffer(
        self, attachments: tuple[Attachment, ...], samples: int, size: tuple[int, int]
    ) -> _Framebuffer:
        gl = self._gl
        buffer = int(gl.glGenFramebuffers(1))
        gl.glBindFramebuffer(gl.GL_FRAMEBUFFER, buffer)
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
                f"the driver has no framebuffer of formats {', '.join(formats)} with {samples} "
                f"samples ({status:#x}). Set SIM2CAM_BACKEND=tiny."
            )
        return _Framebuffer(buffer, (*colors, depth), *size)

    def _create_attachment(
        self,
        attachment_point: int,
        internal_format: int,
        transfer_format: tuple[int, int],
        samples: int,
        size: tuple[int, int],
    ) -> int:
        """Return a new texture, with so many samples a pixel when they are more than one."""
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
