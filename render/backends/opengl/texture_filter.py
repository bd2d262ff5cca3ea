"""How textures are looked up between their texels."""

from __future__ import annotations

from typing import Any


def set_texture_filtering(
    gl: Any, target: int, *, wrap_mode: int, min_filter: int | None = None
) -> None:
    """Has the bound texture of a kind interpolated.

    Args:
        gl: OpenGL's functions.
        target: of texture.
        wrap_mode: what lies beyond its edges.
        min_filter: how it is looked up where texels are smaller than pixels; as elsewhere when None.
    """
    for name, value in (
        (gl.GL_TEXTURE_MIN_FILTER, gl.GL_LINEAR if min_filter is None else min_filter),
        (gl.GL_TEXTURE_MAG_FILTER, gl.GL_LINEAR),
        (gl.GL_TEXTURE_WRAP_S, wrap_mode),
        (gl.GL_TEXTURE_WRAP_T, wrap_mode),
    ):
        gl.glTexParameteri(target, name, value)
