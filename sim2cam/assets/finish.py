"""Relief and wear on meshes from files that bring a picture of their own."""

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

_MIN_PX, _MAX_PX = 256, 1024  # wear needs some texels, and time for each
_MIN_TEXELS = 16  # a face: pictures that hold the colours of vertices have four, and are not shrunk
_MAX_SHARED = 0.01


def compute_file_maps(asset: MeshFile, material: Material) -> MaterialMaps:
    """Return the maps of a mesh with a picture, which is at most 1024 texels wide and high then.

    Raises:
        InputError: parts of the mesh share texels, or the file cannot be read.
    """
    unposed = replace(asset, joints=(), keypoints=())
    picture, charts = _get_image(read_mesh_file(unposed)), _map_texels(unposed)
    _check_shared(asset, charts)
    new = make_plain_maps(SRGB_TO_LINEAR[picture].astype(np.float64), material)
    new = replace(new, slopes=compute_relief_slopes(material, charts.points, charts))
    return apply_wear(new, material.wear, charts) if material.wear else new


def check_unshared_texels(asset: MeshFile) -> None:
    """Refuse a mesh with a picture on which parts of it share texels.

    Raises:
        InputError: they do, or the file cannot be read.
    """
    unposed = replace(asset, joints=(), keypoints=())
    if read_mesh_file(unposed).colors is not None:
        _check_shared(asset, _map_texels(unposed))


def _check_shared(asset: MeshFile, charts: MeshTexels) -> None:
    if charts.overlap_fraction > _MAX_SHARED:
        raise InputError(
            asset.path,
            f"parts of it share {charts.overlap_fraction:.0%} of the texels of its picture, so that relief and "
            "wear would show on all of them alike. Unwrap it without overlaps, or leave out material, "
            "relief and wear of its surface.",
        )


def _get_image(content: MeshContent) -> NDArray[np.uint8]:
    """Return the picture of a mesh, as large as wear is drawn."""
    picture = content.colors
    assert picture is not None
    least = _MIN_TEXELS * len(content.mesh.faces)
    while max(picture.shape[:2]) > _MAX_PX and picture.shape[0] * picture.shape[1] > 4 * least:
        half = (max(1, picture.shape[1] // 2), max(1, picture.shape[0] // 2))
        picture = np.asarray(cv2.resize(picture, half, interpolation=cv2.INTER_AREA), np.uint8)
    long, short = max(picture.shape[:2]), min(picture.shape[:2])
    finer = max(-(-_MIN_PX // long), -(-2 // short))
    size = (finer * picture.shape[1], finer * picture.shape[0])
    return picture if finer <= 1 else np.asarray(cv2.resize(picture, size), np.uint8)


@functools.lru_cache(maxsize=4)
def _map_texels(unposed: MeshFile) -> MeshTexels:
    content = read_mesh_file(unposed)
    rows, columns = _get_image(content).shape[:2]
    return map_mesh_texels(content.mesh, (rows, columns))
