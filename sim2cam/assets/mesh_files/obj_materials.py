"""Materials of OBJ files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sim2cam.assets.mesh_files.companions import CompanionFiles, decode_text, format_missing_file
from sim2cam.assets.mesh_files.mtl import MtlMaterial, read_materials
from sim2cam.assets.mesh_files.raw_mesh import format_unused_images, warn
from sim2cam.assets.mesh_files.submesh import Submesh


def read_libraries(
    names: Sequence[str], used: Sequence[str], files: CompanionFiles
) -> dict[str, MtlMaterial]:
    """Read the materials of MTL files by name; warn about missing files and materials."""
    materials: dict[str, MtlMaterial] = {}
    has_all = True
    for name in dict.fromkeys(names):
        data = files.read_optional(name)
        if data is None:
            has_all = False
            warn(files.path, f"{format_missing_file(name)} It is ignored.")
        else:
            materials |= read_materials(decode_text(data), files.path)
    missing = [name for name in used if name and name not in materials]
    if missing and names and has_all:
        warn(files.path, f"material '{missing[0][:60]}' is missing in the MTL files.")
    return materials


class ObjMaterials:
    """Materials of an OBJ file; each image is read once."""

    def __init__(self, files: CompanionFiles) -> None:
        self._files = files
        self._images: dict[str, Any] = {}
        self._unused_images: list[str] = []

    def apply(self, part: Submesh, material: MtlMaterial | None) -> Submesh:
        """Add a material to a submesh; warn about unsupported features."""
        if material is None:
            return replace(part, uvs=None)
        self._unused_images += material.unused_images
        if material.is_transparent:
            self._files.warn_once("has transparent materials. They are rendered opaque.")
        if material.uv_transform:
            self._files.warn_once(
                f"the image option '{material.uv_transform}' is not supported and ignored."
            )
        image = self._get_image(material.image) if material.image else None
        if image is not None and part.uvs is None:
            self._files.warn_once(f"image '{material.image}' is ignored: its faces have no texture coordinates.")  # fmt: skip
            image = None
        paint = part.vertex_colors
        if paint is not None and material.color and (paint == 255).all():
            paint = None  # some exporters write white for unpainted vertices
        uvs = None if image is None else part.uvs
        return replace(part, uvs=uvs, image=image, vertex_colors=paint, color=material.color)

    def report_unused(self) -> None:
        """Warn about unused images."""
        if names := [*dict.fromkeys(self._unused_images)]:
            self._files.warn_once(format_unused_images(names))

    def _get_image(self, name: str) -> Any:
        if name not in self._images:
            self._images[name] = self._files.read_image(name)
        return self._images[name]
