"""Batches: bodies of one shape and surface, drawn by one call."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim2cam.render.backends.opengl.device_memory import VERTEX, DeviceMesh, DeviceSkin
from sim2cam.scene.scene import Body

_INSTANCE = np.dtype([("pose", np.float32, (4, 4)), ("numbers", np.uint32, 2)])
_POSE_AT, _NUMBERS_AT = 5, 9  # locations in the vertex shader


@dataclass(frozen=True)
class Batch:
    """Bodies of one shape and surface.

    Attributes:
        bodies: they.
        mesh, skin: on the device.
        attributes, instances: OpenGL's names of the vertex array and of the buffer of poses.
    """

    bodies: tuple[Body, ...]
    mesh: DeviceMesh
    skin: DeviceSkin
    attributes: int
    instances: int

    def draw(self, gl: Any) -> None:
        """Draws all of them."""
        self._draw(gl, self.mesh.n_indices, None)

    def cast(self, gl: Any) -> None:
        """Draws what casts the shadows of all of them."""
        first = ctypes.c_void_p(self.mesh.n_indices * np.uint32().nbytes)
        self._draw(gl, self.mesh.n_shadow_indices, first)

    def _draw(self, gl: Any, count: int, first: ctypes.c_void_p | None) -> None:
        (gl.glEnable if self.mesh.is_closed else gl.glDisable)(gl.GL_CULL_FACE)
        gl.glBindVertexArray(self.attributes)
        gl.glDrawElementsInstanced(
            gl.GL_TRIANGLES, count, gl.GL_UNSIGNED_INT, first, len(self.bodies)
        )

    def release(self, gl: Any) -> None:
        """Gives the poses' memory back; mesh and skin stay."""
        gl.glDeleteVertexArrays(1, [self.attributes])
        gl.glDeleteBuffers(1, [self.instances])


def make_batch(
    gl: Any,
    bodies: list[tuple[Body, int, int]],
    mesh: DeviceMesh,
    skin: DeviceSkin,
) -> Batch:
    """Returns the batch of bodies, each with its number and that of its label (0 without one)."""
    instances = np.zeros(len(bodies), _INSTANCE)
    for slot, (body, number, label) in enumerate(bodies):
        instances[slot] = (body.pose.matrix().T, (number, label))  # columns, as OpenGL has them
    attributes, buffer = int(gl.glGenVertexArrays(1)), int(gl.glGenBuffers(1))
    gl.glBindVertexArray(attributes)
    gl.glBindBuffer(gl.GL_ARRAY_BUFFER, mesh.vertices)
    for location, name in enumerate(VERTEX.names or ()):
        _point(gl, location, VERTEX, name)
    gl.glBindBuffer(gl.GL_ARRAY_BUFFER, buffer)
    gl.glBufferData(
        gl.GL_ARRAY_BUFFER, instances.nbytes, instances.view(np.uint8), gl.GL_STATIC_DRAW
    )
    for column in range(4):
        location = _POSE_AT + column
        _point(gl, location, _INSTANCE, "pose", skip=column * 16, size=4)
        gl.glVertexAttribDivisor(location, 1)
    _point(gl, _NUMBERS_AT, _INSTANCE, "numbers")
    gl.glVertexAttribDivisor(_NUMBERS_AT, 1)
    gl.glBindBuffer(gl.GL_ELEMENT_ARRAY_BUFFER, mesh.faces)
    gl.glBindVertexArray(0)
    return Batch(tuple(body for body, _, _ in bodies), mesh, skin, attributes, buffer)


def _point(
    gl: Any, location: int, layout: np.dtype[Any], name: str, *, skip: int = 0, size: int = 0
) -> None:
    """Tells the vertex array where a shader's input lies in the bound buffer."""
    assert layout.fields is not None
    field, offset = layout.fields[name][:2]
    count = size or int(np.prod(field.shape, dtype=int))
    place = ctypes.c_void_p(offset + skip)
    if field.base == np.uint32:
        gl.glVertexAttribIPointer(location, count, gl.GL_UNSIGNED_INT, layout.itemsize, place)
    else:
        gl.glVertexAttribPointer(location, count, gl.GL_FLOAT, gl.GL_FALSE, layout.itemsize, place)
    gl.glEnableVertexAttribArray(location)
