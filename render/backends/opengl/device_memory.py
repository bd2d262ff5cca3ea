"""Meshes and textures on the device; they stay there from scene to scene."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from sim2cam.render.backends.opengl.texture_filter import set_texture_filtering
from sim2cam.render.meshes.skin import TextureSet
from sim2cam.surfaces.mesh import Mesh

_FLAT_NORMAL = np.full((1, 1, 3), (128, 128, 255), np.uint8)


class _Resource(Protocol):
    @property
    def nbytes(self) -> int:
        """Memory on the device."""

    def release(self, gl: Any) -> None:
        """Give that memory back."""


ResourceT = TypeVar("ResourceT", bound=_Resource)


class ResourceCache(Generic[ResourceT]):
    """What was used last stays on the device, within a budget.

    Args:
        gl: OpenGL's functions.
        budget_bytes: more is kept only while one scene needs it.
    """

    def __init__(self, gl: Any, budget_bytes: int) -> None:
        self._gl = gl
        self._budget_bytes = budget_bytes
        self._resources: OrderedDict[Hashable, ResourceT] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], ResourceT]) -> ResourceT:
        """Return the resource of a key, made when it is not there."""
        if key not in self._resources:
            self._resources[key] = make()
        self._resources.move_to_end(key)
        return self._resources[key]

    def trim(self, in_use: int) -> None:
        """Release what was not used for longest; never the last ``in_use``."""
        total = sum(resource.nbytes for resource in self._resources.values())
        while total > self._budget_bytes and len(self._resources) > in_use:
            _, oldest = self._resources.popitem(last=False)
            total -= oldest.nbytes
            oldest.release(self._gl)


@dataclass(frozen=True)
class DeviceMesh:
    """Vertices and faces on the device.

    Attributes:
        vertices, faces: OpenGL's names of the buffers.
        n_indices: three for each face.
        n_shadow_indices: three for each face that casts shadows; these lie behind the others.
        is_closed: whether nothing can be seen of its faces from behind.
        corners_m: (8, 3) of its box, in the object's frame.
        nbytes: memory.
    """

    vertices: int
    faces: int
    n_indices: int
    n_shadow_indices: int
    is_closed: bool
    corners_m: NDArray[np.float64]
    nbytes: int

    def release(self, gl: Any) -> None:
        """Give the memory back."""
        gl.glDeleteBuffers(2, [self.vertices, self.faces])


@dataclass(frozen=True)
class DeviceTextures:
    """The pictures of a surface on the device.

    Attributes:
        colors, normals: OpenGL's names of the textures.
        uv_scale, uv_offset: what uvs are multiplied by, and what is added then.
        has_material_maps: whether colours hold roughness, and normals metalness, as their fourth channel.
        nbytes: memory.
    """

    colors: int
    normals: int
    uv_scale: float
    uv_offset: float
    has_material_maps: bool
    nbytes: int

    def release(self, gl: Any) -> None:
        """Give the memory back."""
        gl.glDeleteTextures([self.colors, self.normals])


@dataclass(frozen=True)
class DeviceCubeMap:
    """Light from all around on the device.

    Attributes:
        texture: OpenGL's name of it.
        nbytes: memory.
    """

    texture: int
    nbytes: int

    def release(self, gl: Any) -> None:
        """Give the memory back."""
        gl.glDeleteTextures([self.texture])


VERTEX = np.dtype(
    [
        ("position", np.float32, 3),
        ("normal", np.float32, 3),
        ("tangent", np.float32, 3),
        ("uv", np.float32, 2),
        ("part", np.uint32),
    ]
)


def upload_mesh(gl: Any, mesh: Mesh) -> DeviceMesh:
    """Return a mesh on the device."""
    vertices = np.zeros(len(mesh.vertices_m), VERTEX)
    columns = (mesh.vertices_m, mesh.normals, mesh.tangents, mesh.uvs, mesh.parts)
    for name, values in zip(VERTEX.names or (), columns, strict=True):
        vertices[name] = values
    casting = mesh.faces if mesh.shadow_faces is None else mesh.shadow_faces
    faces = np.concatenate([mesh.faces, casting]).astype(np.uint32)
    buffers = gl.glGenBuffers(2)
    for buffer, content in zip(buffers, (vertices, faces), strict=True):
        gl.glBindBuffer(gl.GL_COPY_WRITE_BUFFER, buffer)
        gl.glBufferData(
            gl.GL_COPY_WRITE_BUFFER, content.nbytes, content.view(np.uint8), gl.GL_STATIC_DRAW
        )
    ends = np.stack([mesh.vertices_m.min(axis=0), mesh.vertices_m.max(axis=0)])
    corners = np.stack(np.meshgrid(*ends.T, indexing="ij"), axis=-1).reshape(-1, 3)
    size = vertices.nbytes + faces.nbytes
    vertex_buffer, face_buffer = (int(buffer) for buffer in buffers)
    counts = (mesh.faces.size, casting.size)
    return DeviceMesh(vertex_buffer, face_buffer, *counts, mesh.is_closed, corners, size)


def upload_textures(gl: Any, textures: TextureSet) -> DeviceTextures:
    """Return a skin on the device. Colours are averaged as light, not as bytes."""
    colors, normals = (
        textures.colors,
        _FLAT_NORMAL if textures.normals is None else textures.normals,
    )
    size = 4 * (colors.shape[0] * colors.shape[1] + normals.shape[0] * normals.shape[1])
    stored = (gl.GL_SRGB8, gl.GL_RGB8)
    if textures.roughness_metallic is not None:
        colors, normals = (
            np.concatenate([picture, textures.roughness_metallic[..., [i]]], axis=-1)
            for i, picture in enumerate((colors, normals))
        )
        stored = (gl.GL_SRGB8_ALPHA8, gl.GL_RGBA8)
    return DeviceTextures(
        _upload_texture(gl, colors, stored[0]),
        _upload_texture(gl, normals, stored[1]),
        textures.uv_scale,
        textures.uv_offset,
        textures.roughness_metallic is not None,
        size * 4 // 3,  # with the smaller copies
    )


def upload_cube_map(gl: Any, levels: Sequence[NDArray[np.float32]]) -> DeviceCubeMap:
    """Return a cube on the device, of levels of detail (6, n, n, 3) with half the side each."""
    texture, kind = int(gl.glGenTextures(1)), gl.GL_TEXTURE_CUBE_MAP
    gl.glBindTexture(kind, texture)
    for number, faces in enumerate(levels):
        for face, pixels in enumerate(np.ascontiguousarray(faces)):
            target, side = gl.GL_TEXTURE_CUBE_MAP_POSITIVE_X + face, len(pixels)
            gl.glTexImage2D(
                target, number, gl.GL_RGB16F, side, side, 0, gl.GL_RGB, gl.GL_FLOAT, pixels
            )
    gl.glTexParameteri(kind, gl.GL_TEXTURE_MAX_LEVEL, len(levels) - 1)
    set_texture_filtering(
        gl, kind, wrap_mode=gl.GL_CLAMP_TO_EDGE, min_filter=gl.GL_LINEAR_MIPMAP_LINEAR
    )
    gl.glEnable(gl.GL_TEXTURE_CUBE_MAP_SEAMLESS)
    return DeviceCubeMap(texture, sum(faces.size for faces in levels) * 2)


def _upload_texture(gl: Any, image: NDArray[np.uint8], internal_format: int) -> int:
    """Return a texture whose row 0 is v = 0; beyond 0..1 it repeats mirrored."""
    texture = int(gl.glGenTextures(1))
    kind = gl.GL_TEXTURE_2D
    gl.glBindTexture(kind, texture)
    height, width = image.shape[:2]
    pixels = np.ascontiguousarray(image)
    layout = gl.GL_RGB if image.shape[2] == 3 else gl.GL_RGBA
    gl.glTexImage2D(kind, 0, internal_format, width, height, 0, layout, gl.GL_UNSIGNED_BYTE, pixels)
    gl.glGenerateMipmap(kind)
    set_texture_filtering(
        gl, kind, wrap_mode=gl.GL_MIRRORED_REPEAT, min_filter=gl.GL_LINEAR_MIPMAP_LINEAR
    )
    return texture
