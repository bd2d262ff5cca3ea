"""Meshes and textures on the device, cached across scenes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from sim2cam.render.meshes.texture_set import TextureSet
from sim2cam.surfaces.mesh import Mesh

_FLAT_NORMAL = np.full((1, 1, 3), (128, 128, 255), np.uint8)


class _Resource(Protocol):
    @property
    def nbytes(self) -> int:
        """Device memory in bytes."""

    def release(self, gl: Any) -> None:
        """Release the device memory."""


ResourceT = TypeVar("ResourceT", bound=_Resource)


class ResourceCache(Generic[ResourceT]):
    """Least-recently-used cache of device resources.

    Args:
        gl: module of OpenGL functions.
        budget_bytes: memory budget; exceeded only while a scene needs it.
    """

    def __init__(self, gl: Any, budget_bytes: int) -> None:
        self._gl = gl
        self._budget_bytes = budget_bytes
        self._resources: OrderedDict[Hashable, ResourceT] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], ResourceT]) -> ResourceT:
        """Return the resource of a key; create it if it is not cached."""
        if key not in self._resources:
            self._resources[key] = make()
        self._resources.move_to_end(key)
        return self._resources[key]

    def trim(self, in_use: int) -> None:
        """Release the least recently used resources over the budget, except the last ``in_use``."""
        total = sum(resource.nbytes for resource in self._resources.values())
        while total > self._budget_bytes and len(self._resources) > in_use:
            _, oldest = self._resources.popitem(last=False)
            total -= oldest.nbytes
            oldest.release(self._gl)


@dataclass(frozen=True)
class DeviceMesh:
    """Vertices and faces on the device.

    Attributes:
        vertices, faces: OpenGL names of the buffers.
        n_indices: number of indices of the visible faces.
        n_shadow_indices: number of indices of the shadow-casting faces, stored after the others.
        is_closed: whether back faces are never visible.
        corners_m: (8, 3) corners of the bounding box, in the object frame.
        nbytes: device memory in bytes.
    """

    vertices: int
    faces: int
    n_indices: int
    n_shadow_indices: int
    is_closed: bool
    corners_m: NDArray[np.float64]
    nbytes: int

    def release(self, gl: Any) -> None:
        """Release the device memory."""
        gl.glDeleteBuffers(2, [self.vertices, self.faces])


@dataclass(frozen=True)
class DeviceTextures:
    """Textures on the device: colours and normals of a surface, or one environment cube map.

    Attributes:
        names: OpenGL names of the textures.
        nbytes: device memory in bytes.
        uv_scale, uv_offset: texture coordinates are ``uv_scale * uv + uv_offset``.
        has_material_maps: whether the fourth channel of colours is roughness, and that of normals
            metalness.
    """

    names: tuple[int, ...]
    nbytes: int
    uv_scale: float = 1.0
    uv_offset: float = 0.0
    has_material_maps: bool = False

    def release(self, gl: Any) -> None:
        """Release the device memory."""
        gl.glDeleteTextures(list(self.names))


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
    """Upload a mesh."""
    vertices = np.zeros(len(mesh.vertices_m), VERTEX)
    columns = (mesh.vertices_m, mesh.normals, mesh.tangents, mesh.uvs, mesh.parts)
    for name, values in zip(VERTEX.names or (), columns, strict=True):
        vertices[name] = values
    shadow_faces = mesh.faces if mesh.shadow_faces is None else mesh.shadow_faces
    faces = np.concatenate([mesh.faces, shadow_faces]).astype(np.uint32)
    buffers = gl.glGenBuffers(2)
    for buffer, content in zip(buffers, (vertices, faces), strict=True):
        gl.glBindBuffer(gl.GL_COPY_WRITE_BUFFER, buffer)
        gl.glBufferData(
            gl.GL_COPY_WRITE_BUFFER, content.nbytes, content.view(np.uint8), gl.GL_STATIC_DRAW
        )
    extent = np.stack([mesh.vertices_m.min(axis=0), mesh.vertices_m.max(axis=0)])
    corners = np.stack(np.meshgrid(*extent.T, indexing="ij"), axis=-1).reshape(-1, 3)
    nbytes = vertices.nbytes + faces.nbytes
    vertex_buffer, face_buffer = (int(buffer) for buffer in buffers)
    counts = (mesh.faces.size, shadow_faces.size)
    return DeviceMesh(vertex_buffer, face_buffer, *counts, mesh.is_closed, corners, nbytes)


def upload_textures(gl: Any, textures: TextureSet) -> DeviceTextures:
    """Upload the textures of a surface. Colours are filtered in linear light."""
    colors, normals = (
        textures.colors,
        _FLAT_NORMAL if textures.normals is None else textures.normals,
    )
    nbytes = 4 * (colors.shape[0] * colors.shape[1] + normals.shape[0] * normals.shape[1])
    formats = (gl.GL_SRGB8, gl.GL_RGB8)
    if textures.roughness_metallic is not None:
        colors, normals = (
            np.concatenate([texture, textures.roughness_metallic[..., [i]]], axis=-1)
            for i, texture in enumerate((colors, normals))
        )
        formats = (gl.GL_SRGB8_ALPHA8, gl.GL_RGBA8)
    return DeviceTextures(
        (_upload_texture(gl, colors, formats[0]), _upload_texture(gl, normals, formats[1])),
        nbytes * 4 // 3,  # with mipmaps
        textures.uv_scale,
        textures.uv_offset,
        textures.roughness_metallic is not None,
    )


def upload_cube_map(gl: Any, levels: Sequence[NDArray[np.float32]]) -> DeviceTextures:
    """Upload a cube map.

    Args:
        gl: module of OpenGL functions.
        levels: mip levels (6, n, n, 3), each with half the side of the previous one.
    """
    texture, kind = int(gl.glGenTextures(1)), gl.GL_TEXTURE_CUBE_MAP
    gl.glBindTexture(kind, texture)
    for level, faces in enumerate(levels):
        for face, pixels in enumerate(np.ascontiguousarray(faces)):
            target, side = gl.GL_TEXTURE_CUBE_MAP_POSITIVE_X + face, len(pixels)
            gl.glTexImage2D(
                target, level, gl.GL_RGB16F, side, side, 0, gl.GL_RGB, gl.GL_FLOAT, pixels
            )
    gl.glTexParameteri(kind, gl.GL_TEXTURE_MAX_LEVEL, len(levels) - 1)
    set_texture_filtering(
        gl, kind, wrap_mode=gl.GL_CLAMP_TO_EDGE, min_filter=gl.GL_LINEAR_MIPMAP_LINEAR
    )
    gl.glEnable(gl.GL_TEXTURE_CUBE_MAP_SEAMLESS)
    return DeviceTextures((texture,), sum(faces.size for faces in levels) * 2)


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


def _upload_texture(gl: Any, image: NDArray[np.uint8], internal_format: int) -> int:
    """Return a mirrored-repeat texture whose row 0 is v = 0."""
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
