"""Relief and wear on meshes with their own texture."""

from __future__ import annotations

import functools
from dataclasses import replace

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.assets.mesh import read_mesh_file
from sim2cam.assets.mesh_cache import MeshContent
from sim2cam.errors import InputError
from sim2cam.images import SRGB_TO_LINEAR
from sim2cam.scene.material import Material
from sim2cam.scene.shape import MeshFile
from sim2cam.surfaces.finish import MaterialMaps, apply_wear, compute_relief_slopes, make_plain_maps
from sim2cam.surfaces.uv_charts import MeshTexels, map_mesh_texels

_MIN_PX, _MAX_PX = 256, 1024  # wear needs enough texels, but costs time for each
_MIN_TEXELS = 16  # for each face; textures of vertex colours have four and are not shrunk
_MAX_SHARED = 0.01


def compute_file_maps(asset: MeshFile, material: Material) -> MaterialMaps:
    """Compute the material maps of a textured mesh, at most 1024 texels wide and high.

    Raises:
        InputError: Parts of the mesh share texels, or the file cannot be read.
    """
    unposed = replace(asset, joints=(), keypoints=())
    texture, charts = _get_image(read_mesh_file(unposed)), _map_texels(unposed)
    _check_shared(asset, charts)
    maps = make_plain_maps(SRGB_TO_LINEAR[texture].astype(np.float64), material)
    maps = replace(maps, slopes=compute_relief_slopes(material, charts.points, charts))
    return apply_wear(maps, material.wear, charts) if material.wear else maps


def check_unshared_texels(asset: MeshFile) -> None:
    """Raise InputError if parts of a textured mesh share texels.

    Raises:
        InputError: Parts of the mesh share texels, or the file cannot be read.
    """
    unposed = replace(asset, joints=(), keypoints=())
    if read_mesh_file(unposed).colors is not None:
        _check_shared(asset, _map_texels(unposed))


def _check_shared(asset: MeshFile, charts: MeshTexels) -> None:
    if charts.overlap_fraction > _MAX_SHARED:
        raise InputError(
            asset.path,
            f"parts of the mesh share {charts.overlap_fraction:.0%} of the texels of its texture, so relief and "
            "wear would repeat. Unwrap it without overlaps, or remove material, relief and wear.",
        )


def _get_image(content: MeshContent) -> NDArray[np.uint8]:
    """Return the texture of a mesh at the resolution of the wear maps."""
    texture = content.colors
    assert texture is not None
    min_texels = _MIN_TEXELS * len(content.mesh.faces)
    while max(texture.shape[:2]) > _MAX_PX and texture.shape[0] * texture.shape[1] > 4 * min_texels:
        half = (max(1, texture.shape[1] // 2), max(1, texture.shape[0] // 2))
        texture = np.asarray(cv2.resize(texture, half, interpolation=cv2.INTER_AREA), np.uint8)
    long, short = max(texture.shape[:2]), min(texture.shape[:2])
    factor = max(-(-_MIN_PX // long), -(-2 // short))
    size = (factor * texture.shape[1], factor * texture.shape[0])
    return texture if factor <= 1 else np.asarray(cv2.resize(texture, size), np.uint8)


@functools.lru_cache(maxsize=4)
def _map_texels(unposed: MeshFile) -> MeshTexels:
    content = read_mesh_file(unposed)
    rows, columns = _get_image(content).shape[:2]
    return map_mesh_texels(content.mesh, (rows, columns))
