"""Instanced draw calls of bodies that share mesh and textures."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim2cam.render.backends.opengl.device_memory import VERTEX, DeviceMesh, DeviceTextures
from sim2cam.scene.scene import Body

_INSTANCE = np.dtype([("pose", np.float32, (4, 4)), ("numbers", np.uint32, 2)])
_POSE_LOCATION, _IDS_LOCATION = 5, 9  # locations in the vertex shader


@dataclass(frozen=True)
class InstanceBatch:
    """Bodies that share mesh and textures.

    Attributes:
        bodies: instances.
        mesh, textures: shared resources on the device.
        vertex_array, instance_buffer: OpenGL names of the vertex array and the buffer of poses.
    """

    bodies: tuple[Body, ...]
    mesh: DeviceMesh
    textures: DeviceTextures
    vertex_array: int
    instance_buffer: int

    def draw(self, gl: Any) -> None:
        """Draw all bodies."""
        self._draw(gl, self.mesh.n_indices, None)

    def draw_shadow_casters(self, gl: Any) -> None:
        """Draw the shadow-casting faces of all bodies."""
        first = ctypes.c_void_p(self.mesh.n_indices * np.uint32().nbytes)
        self._draw(gl, self.mesh.n_shadow_indices, first)

    def _draw(self, gl: Any, count: int, first: ctypes.c_void_p | None) -> None:
        (gl.glEnable if self.mesh.is_closed else gl.glDisable)(gl.GL_CULL_FACE)
        gl.glBindVertexArray(self.vertex_array)
        gl.glDrawElementsInstanced(
            gl.GL_TRIANGLES, count, gl.GL_UNSIGNED_INT, first, len(self.bodies)
        )

    def release(self, gl: Any) -> None:
        """Release the buffer of poses; keep mesh and textures."""
        gl.glDeleteVertexArrays(1, [self.vertex_array])
        gl.glDeleteBuffers(1, [self.instance_buffer])


def make_batch(
    gl: Any,
    bodies: list[tuple[Body, int, int]],
    mesh: DeviceMesh,
    textures: DeviceTextures,
) -> InstanceBatch:
    """Create a batch on the device.

    Args:
        gl: module of OpenGL functions.
        bodies: body, body number and label id (0 without a label) of each instance.
        mesh, textures: shared resources on the device.
    """
    instances = np.zeros(len(bodies), _INSTANCE)
    for slot, (body, number, label) in enumerate(bodies):
        instances[slot] = (body.pose.matrix().T, (number, label))  # column-major, as in OpenGL
    vertex_array, instance_buffer = int(gl.glGenVertexArrays(1)), int(gl.glGenBuffers(1))
    gl.glBindVertexArray(vertex_array)
    gl.glBindBuffer(gl.GL_ARRAY_BUFFER, mesh.vertices)
    for location, name in enumerate(VERTEX.names or ()):
        _set_vertex_attribute(gl, location, VERTEX, name)
    gl.glBindBuffer(gl.GL_ARRAY_BUFFER, instance_buffer)
    gl.glBufferData(
        gl.GL_ARRAY_BUFFER, instances.nbytes, instances.view(np.uint8), gl.GL_STATIC_DRAW
    )
    for column in range(4):
        location = _POSE_LOCATION + column
        _set_vertex_attribute(gl, location, _INSTANCE, "pose", byte_offset=column * 16, size=4)
        gl.glVertexAttribDivisor(location, 1)
    _set_vertex_attribute(gl, _IDS_LOCATION, _INSTANCE, "numbers")
    gl.glVertexAttribDivisor(_IDS_LOCATION, 1)
    gl.glBindBuffer(gl.GL_ELEMENT_ARRAY_BUFFER, mesh.faces)
    gl.glBindVertexArray(0)
    return InstanceBatch(
        tuple(body for body, _, _ in bodies), mesh, textures, vertex_array, instance_buffer
    )


def _set_vertex_attribute(
    gl: Any, location: int, layout: np.dtype[Any], name: str, *, byte_offset: int = 0, size: int = 0
) -> None:
    """Map a shader input to a field of the bound buffer."""
    assert layout.fields is not None
    field, offset = layout.fields[name][:2]
    count = size or int(np.prod(field.shape, dtype=int))
    pointer = ctypes.c_void_p(offset + byte_offset)
    if field.base == np.uint32:
        gl.glVertexAttribIPointer(location, count, gl.GL_UNSIGNED_INT, layout.itemsize, pointer)
    else:
        gl.glVertexAttribPointer(
            location, count, gl.GL_FLOAT, gl.GL_FALSE, layout.itemsize, pointer
        )
    gl.glEnableVertexAttribArray(location)
