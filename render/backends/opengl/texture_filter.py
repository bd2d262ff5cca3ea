"""How textures are looked up between their texels."""

from __future__ import annotations

from typing import Any


def interpolate(gl: Any, kind: int, *, wrap: int, shrunk: int | None = None) -> None:
    """Has the bound texture of a kind interpolated.

    Args:
        gl: OpenGL's functions.
        kind: of texture.
        wrap: what lies beyond its edges.
        shrunk: how it is looked up where texels are smaller than pixels; as elsewhere when None.
    """
    for name, value in (
        (gl.GL_TEXTURE_MIN_FILTER, gl.GL_LINEAR if shrunk is None else shrunk),
        (gl.GL_TEXTURE_MAG_FILTER, gl.GL_LINEAR),
        (gl.GL_TEXTURE_WRAP_S, wrap),
        (gl.GL_TEXTURE_WRAP_T, wrap),
    ):
        gl.glTexParameteri(kind, name, value)
