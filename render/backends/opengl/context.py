"""OpenGL context of this process: created once, never closed.

pyrender's platforms terminate a display that all contexts of a process share, so closing one
context breaks the others.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from typing import Any, Literal

from sim2cam.errors import BackendError

PlatformName = Literal["egl", "osmesa"]

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
