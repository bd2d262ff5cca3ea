"""glTF: its y is up, its colours are linear and its names of files escaped; trimesh hands all on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.render.assets.raw_mesh import warn
from sim2cam.render.shapes.textures import encode_srgb

SUFFIXES = (".glb", ".gltf")
UPRIGHT = np.array([[1.0, 0, 0, 0], [0, 0, -1, 0], [0, 1, 0, 0], [0, 0, 0, 1]])
"""The way (4, 4) of its numbers to those with z up."""


def show_in_srgb(solids: list[Any], path: Path) -> None:
    """Gives meshes of trimesh's, as it reads them from glTF, the sRGB that their colours come to.

    Factors of materials, colours of vertices and pictures are multiplied as light. Afterwards each mesh
    has a picture, or one colour, or colours of its vertices.
    """
    from trimesh.visual import ColorVisuals

    materials, is_left_out = {}, False
    for solid in solids:
        material = getattr(solid.visual, "material", None)
        paint = _paint_of(solid)
        if material is not None:
            materials[id(material)] = material  # which several meshes may have
        if paint is None:
            continue
        if getattr(material, "baseColorTexture", None) is None:
            shown = encode_srgb(paint * _factor_of(material))
            solid.visual = ColorVisuals(solid, vertex_colors=shown)
        elif paint.min() < 1:
            is_left_out = True
    for material in materials.values():
        _show_factor(material)
    if is_left_out:
        warn(path, "has colours of vertices over its pictures. They are left out.")


def _paint_of(solid: Any) -> NDArray[np.float64] | None:
    """Returns the linear colours (n, 3) of the vertices of a mesh; None without."""
    if solid.visual.kind == "vertex":
        found = solid.visual.vertex_colors
    else:
        found = getattr(solid.visual, "vertex_attributes", {}).get("color")
    if found is None:
        return None
    most = np.iinfo(found.dtype).max if found.dtype.kind == "u" else 1.0
    return np.nan_to_num(np.asarray(found[:, :3] / most, np.float64)).clip(0.0, 1.0)


def _factor_of(material: Any) -> NDArray[np.float64]:
    factor = getattr(material, "baseColorFactor", None)
    return np.ones(3) if factor is None else np.asarray(factor[:3] / 255, np.float64)


def _show_factor(material: Any) -> None:
    """Puts the linear factor of a material into its picture; without one, makes it sRGB."""
    factor, picture = _factor_of(material), material.baseColorTexture
    if picture is None and material.baseColorFactor is not None:
        material.baseColorFactor = encode_srgb(factor)
    elif picture is not None and factor.min() < 1:
        steps = encode_srgb(np.outer(factor, images.LINEAR))
        shown = picture.convert("RGB").point(steps.ravel().tolist())
        shown.format = picture.format
        material.baseColorTexture, material.baseColorFactor = shown, None
