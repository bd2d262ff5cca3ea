"""OpenGL context of this process, created once and never closed, and its shader programs.

pyrender's platforms terminate a display that all contexts of a process share, so closing one
context breaks the others.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sim2cam.errors import BackendError

PlatformName = Literal["egl", "osmesa"]

_SHADER_FOLDER = Path(__file__).parents[1] / "shaders"
_PLATFORM_TITLES = {"egl": "EGL", "osmesa": "OSMesa"}
_INSTALL_HINTS = {
    "egl": "apt-get install libegl1 libgl1 libgl1-mesa-dri",
    "osmesa": "apt-get install libosmesa6",
}


@dataclass(frozen=True)
class GLContext:
    """A current OpenGL context.

    Attributes:
        gl: module of OpenGL functions.
        platform: pyrender platform that owns the context.
    """

    gl: Any
    platform: Any


@functools.cache
def open_context(name: PlatformName) -> GLContext:
    """Return the OpenGL context of this process.

    Raises:
        BackendError: the platform's library or driver is missing, or the process already uses the
            other platform.
    """
    other = os.environ.setdefault("PYOPENGL_PLATFORM", name)
    if other != name:
        raise BackendError(
            f"this process already uses {other} (PYOPENGL_PLATFORM). Start another process "
            f"for {name}."
        )
    os.environ.setdefault(
        "PYGLET_HEADLESS", "1"
    )  # pyrender imports pyglet, which needs a display otherwise
    try:
        platform = _create_platform(name)
        from OpenGL import GL
    except Exception as error:
        raise BackendError(
            f"no OpenGL through {_PLATFORM_TITLES[name]} ({type(error).__name__}: {error}). Install it "
            f"(Debian, Ubuntu: {_INSTALL_HINTS[name]}) or set SIM2CAM_BACKEND=tiny."
        ) from error
    GL.glPixelStorei(GL.GL_UNPACK_ALIGNMENT, 1)  # rows of RGB bytes are not aligned to 4 bytes
    GL.glPixelStorei(GL.GL_PACK_ALIGNMENT, 1)
    GL.glFrontFace(GL.GL_CW)  # images are stored top row first, so winding is reversed
    return GLContext(GL, platform)


def _create_platform(name: PlatformName) -> Any:
    if name == "egl":
        from pyrender.platforms.egl import EGLPlatform, get_default_device

        platform = EGLPlatform(1, 1, device=get_default_device())
        platform.init_context()
        return platform
    from pyrender.platforms.osmesa import OSMesaPlatform

    platform = OSMesaPlatform(1, 1)
    platform.init_context()
    platform.make_current()
    return platform


class GLProgram:
    """A shader program. Setting a uniform that the program does not use has no effect.

    Args:
        gl: module of OpenGL functions.
        vertex, fragment: file names in the shader folder.
        defines: macros and their values. pyrender substitutes them as text, so no name may be part
            of another.
    """

    def __init__(self, gl: Any, vertex: str, fragment: str, **defines: int) -> None:
        from pyrender.shader_program import ShaderProgram

        self._gl = gl
        self._program = ShaderProgram(
            str(_SHADER_FOLDER / vertex), str(_SHADER_FOLDER / fragment), defines=defines
        )
        self._program._add_to_context()
        self._locations: dict[str, int] = {}

    @property
    def handle(self) -> int:
        """OpenGL name of the program."""
        return int(self._program._program_id)

    def use(self) -> None:
        """Bind the program."""
        self._program._bind()

    def set_vector(self, name: str, values: Any) -> None:
        """Set a ``vec4`` uniform."""
        self._gl.glUniform4fv(self._get_location(name), 1, np.asarray(values, np.float32))

    def set_matrix(self, name: str, value: NDArray[np.float64]) -> None:
        """Set a ``mat4`` uniform from a row-major matrix (4, 4)."""
        self._gl.glUniformMatrix4fv(
            self._get_location(name), 1, self._gl.GL_TRUE, np.ascontiguousarray(value, np.float32)
        )

    def _get_location(self, name: str) -> int:
        if name not in self._locations:
            self._locations[name] = self._gl.glGetUniformLocation(self.handle, name)
        return self._locations[name]
