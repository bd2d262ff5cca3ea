"""Shader programs, and blocks of uniforms that several of them read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SHADERS = Path(__file__).parents[1] / "shaders"


class Program:
    """A shader program whose uniforms are set by name; unused names are passed over.

    Args:
        gl: OpenGL's functions.
        vertex, fragment: file names among the shaders.
        defines: macros and their values.
    """

    def __init__(self, gl: Any, vertex: str, fragment: str, **defines: int) -> None:
        from pyrender.shader_program import ShaderProgram

        self._gl = gl
        self._program = ShaderProgram(
            str(_SHADERS / vertex), str(_SHADERS / fragment), defines=defines
        )
        self._program._add_to_context()
        self._places: dict[str, int] = {}

    @property
    def handle(self) -> int:
        """OpenGL's name of the program."""
        return int(self._program._program_id)

    def use(self) -> None:
        """Makes it the program that draws."""
        self._program._bind()

    def vector(self, name: str, values: Any) -> None:
        """Sets a vector of three or four numbers."""
        array = np.asarray(values, np.float32)
        setter = self._gl.glUniform3fv if array.size == 3 else self._gl.glUniform4fv
        setter(self._place(name), 1, array)

    def matrix(self, name: str, value: NDArray[np.float64]) -> None:
        """Sets a matrix (4, 4)."""
        self._gl.glUniformMatrix4fv(
            self._place(name), 1, self._gl.GL_TRUE, np.ascontiguousarray(value, np.float32)
        )

    def _place(self, name: str) -> int:
        if name not in self._places:
            self._places[name] = self._gl.glGetUniformLocation(self.handle, name)
        return self._places[name]


class Block:
    """A block of uniforms, laid out as std140 says.

    Args:
        gl: OpenGL's functions.
        programs: that read it.
        name: of the block in their shaders.
    """

    def __init__(self, gl: Any, programs: Iterable[Program], name: str) -> None:
        self._gl = gl
        self._buffer = gl.glGenBuffers(1)
        for program in programs:
            index = gl.glGetUniformBlockIndex(program.handle, name)
            gl.glUniformBlockBinding(program.handle, index, 0)

    def fill(self, content: NDArray[Any]) -> None:
        """Uploads the block's content and makes it the one that is read."""
        gl = self._gl
        gl.glBindBufferBase(gl.GL_UNIFORM_BUFFER, 0, self._buffer)
        gl.glBufferData(gl.GL_UNIFORM_BUFFER, content.nbytes, content, gl.GL_DYNAMIC_DRAW)
