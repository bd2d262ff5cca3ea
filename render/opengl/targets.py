"""Framebuffers: what is drawn into and read back, grown when a larger view comes."""

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
        stored: OpenGL's format in memory.
        read: OpenGL's format and type of what is read back.
        dtype, channels: the same for numpy.
    """

    location: int
    stored: int
    read: tuple[int, int]
    dtype: type
    channels: int


class Targets:
    """Framebuffers by their outputs.

    Args:
        gl: OpenGL's functions.
    """

    def __init__(self, gl: Any) -> None:
        self._gl = gl
        self._width = self._height = 0
        self._buffers: dict[tuple[tuple[Attachment, ...], int], int] = {}
        self._storage: list[int] = []

    def bind(
        self, attachments: tuple[Attachment, ...], samples: int, width: int, height: int
    ) -> None:
        """Makes the framebuffer of these outputs the one that is drawn into.

        Raises:
            BackendError: the driver has no such framebuffer.
        """
        buffer = self._reserve(attachments, samples, width, height)
        self._gl.glBindFramebuffer(self._gl.GL_FRAMEBUFFER, buffer)
        self._gl.glViewport(0, 0, width, height)

    def resolve(self, attachment: Attachment, samples: int, width: int, height: int) -> None:
        """Averages the samples of an output and makes the result the one that is read."""
        gl = self._gl
        resolved = self._reserve((attachment,), 0, width, height)
        sampled = self._reserve((attachment,), samples, width, height)
        gl.glBindFramebuffer(gl.GL_READ_FRAMEBUFFER, sampled)
        gl.glBindFramebuffer(gl.GL_DRAW_FRAMEBUFFER, resolved)
        area = (0, 0, width, height)
        buffer = gl.GL_COLOR_ATTACHMENT0 + attachment.location
        gl.glReadBuffer(buffer)
        gl.glBlitFramebuffer(*area, *area, gl.GL_COLOR_BUFFER_BIT, gl.GL_NEAREST)
        gl.glBindFramebuffer(gl.GL_READ_FRAMEBUFFER, resolved)

    def read(self, attachment: Attachment, width: int, height: int) -> NDArray[Any]:
        """Returns an output (height, width, channels) of the framebuffer that is read."""
        gl = self._gl
        gl.glReadBuffer(gl.GL_COLOR_ATTACHMENT0 + attachment.location)
        pixels: NDArray[Any] = np.empty((height, width, attachment.channels), attachment.dtype)
        gl.glReadPixels(0, 0, width, height, *attachment.read, pixels)
        return pixels

    def _reserve(
        self, attachments: tuple[Attachment, ...], samples: int, width: int, height: int
    ) -> int:
        if width > self._width or height > self._height:
            self._release()
            self._width = max(self._width, -(-width // 64) * 64)
            self._height = max(self._height, -(-height // 64) * 64)
        key = (attachments, samples)
        if key not in self._buffers:
            self._buffers[key] = self._framebuffer(attachments, samples)
        return self._buffers[key]

    def _release(self) -> None:
        if self._buffers:
            self._gl.glDeleteFramebuffers(len(self._buffers), list(self._buffers.values()))
            self._gl.glDeleteRenderbuffers(len(self._storage), self._storage)
        self._buffers, self._storage = {}, []

    def _framebuffer(self, attachments: tuple[Attachment, ...], samples: int) -> int:
        gl = self._gl
        buffer = gl.glGenFramebuffers(1)
        gl.glBindFramebuffer(gl.GL_FRAMEBUFFER, buffer)
        for attachment in attachments:
            place = gl.GL_COLOR_ATTACHMENT0 + attachment.location
            self._attach(place, attachment.stored, samples)
        self._attach(gl.GL_DEPTH_ATTACHMENT, gl.GL_DEPTH_COMPONENT32F, samples)
        used = {attachment.location for attachment in attachments}
        outputs = [
            gl.GL_COLOR_ATTACHMENT0 + i if i in used else gl.GL_NONE for i in range(max(used) + 1)
        ]
        gl.glDrawBuffers(len(outputs), outputs)
        status = gl.glCheckFramebufferStatus(gl.GL_FRAMEBUFFER)
        if status != gl.GL_FRAMEBUFFER_COMPLETE:
            formats = [hex(attachment.stored) for attachment in attachments]
            raise BackendError(
                f"the driver has no framebuffer of formats {', '.join(formats)} with {samples} "
                f"samples ({status:#x}). Set SIM2CAM_BACKEND=tiny."
            )
        return int(buffer)

    def _attach(self, place: int, layout: int, samples: int) -> None:
        gl = self._gl
        storage = gl.glGenRenderbuffers(1)
        self._storage.append(storage)
        gl.glBindRenderbuffer(gl.GL_RENDERBUFFER, storage)
        gl.glRenderbufferStorageMultisample(
            gl.GL_RENDERBUFFER, samples, layout, self._width, self._height
        )
        gl.glFramebufferRenderbuffer(gl.GL_FRAMEBUFFER, place, gl.GL_RENDERBUFFER, storage)
