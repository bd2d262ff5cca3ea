"""Materials of OBJ put on its meshes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sim2cam.assets.mesh_files.companions import CompanionFiles, decode_image, is_absent
from sim2cam.assets.mesh_files.mtl import MtlMaterial, read_materials
from sim2cam.assets.mesh_files.raw_mesh import warn, warn_unused
from sim2cam.assets.mesh_files.submesh import Submesh


def read_libraries(
    names: Sequence[str], used: Sequence[str], files: CompanionFiles
) -> dict[str, MtlMaterial]:
    """Return the materials of MTL files by their names; warn of what is missing.

    Args:
        names: of the files.
        used: names of the materials that faces have.
        files: the mesh file and its companions.
    """
    found: dict[str, MtlMaterial] = {}
    has_all = True
    for name in dict.fromkeys(names):
        data = files.read_optional(name)
        if data is None:
            has_all = False
            warn(files.path, f"{is_absent(name)} It is left out.")
        else:
            found |= read_materials(decode_image(data), files.path)
    lost = [name for name in used if name and name not in found]
    if lost and names and has_all:
        warn(files.path, f"its material '{lost[0][:60]}' is in none of its MTL files.")
    return found


class ObjMaterials:
    """Materials put on meshes; each image is read once."""

    def __init__(self, files: CompanionFiles) -> None:
        self._files = files
        self._images: dict[str, Any] = {}
        self._unused_images: list[str] = []
        self._warned: set[str] = set()

    def apply(self, part: Submesh, material: MtlMaterial | None) -> Submesh:
        """Return a mesh with a material, if it has one; warn of what is not drawn."""
        if material is None:
            return replace(part, uvs=None)
        self._unused_images += material.unused_images
        if material.is_transparent:
            self._warn("has materials that let light through. They are drawn opaque.")
        if material.has_uv_transform:
            self._warn(
                f"its pictures are drawn without '{material.has_uv_transform}', which is not known."
            )
        image = self._get_image(material.image) if material.image else None
        if image is not None and part.uvs is None:
            self._warn(f"its image '{material.image}' is left out: faces that it is for have no texture coordinates.")  # fmt: skip
            image = None
        paint = part.vertex_colors
        if paint is not None and material.color and (paint == 255).all():
            paint = None  # as some programs write where nothing is painted
        uvs = None if image is None else part.uvs
        return replace(part, uvs=uvs, image=image, vertex_colors=paint, color=material.color)

    def report_unused(self) -> None:
        """Warn of images that are for anything but colour."""
        if names := [*dict.fromkeys(self._unused_images)]:
            self._warn(warn_unused(names))

    def _get_image(self, name: str) -> Any:
        if name not in self._images:
            self._images[name] = self._files.read_image(name)
        return self._images[name]

    def _warn(self, flaw: str) -> None:
        if flaw not in self._warned:
            self._warned.add(flaw)
            warn(self._files.path, flaw)
