"""OpenGL shader programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SHADER_FOLDER = Path(__file__).parents[1] / "shaders"


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
