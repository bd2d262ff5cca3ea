"""Texture filtering parameters."""

from __future__ import annotations

from typing import Any


def set_texture_filtering(
    gl: Any, target: int, *, wrap_mode: int, min_filter: int | None = None
) -> None:
    """Set linear filtering and the wrap mode of the bound texture.

    Args:
        gl: module of OpenGL functions.
        target: texture target.
        wrap_mode: OpenGL wrap mode of both coordinates.
        min_filter: minification filter; linear if None.
    """
    for name, value in (
        (gl.GL_TEXTURE_MIN_FILTER, gl.GL_LINEAR if min_filter is None else min_filter),
        (gl.GL_TEXTURE_MAG_FILTER, gl.GL_LINEAR),
        (gl.GL_TEXTURE_WRAP_S, wrap_mode),
        (gl.GL_TEXTURE_WRAP_T, wrap_mode),
    ):
        gl.glTexParameteri(target, name, value)
