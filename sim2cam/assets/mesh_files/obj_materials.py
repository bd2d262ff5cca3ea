"""Materials of OBJ put on its meshes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sim2cam.assets.mesh_files.companions import Companions, absent, decoded
from sim2cam.assets.mesh_files.mtl import Material, read_materials
from sim2cam.assets.mesh_files.raw_mesh import unused, warn
from sim2cam.assets.mesh_files.submesh import Solid


def read_libraries(
    names: Sequence[str], used: Sequence[str], files: Companions
) -> dict[str, Material]:
    """Return the materials of MTL files by their names; warn of what is missing.

    Args:
        names: of the files.
        used: names of the materials that faces have.
        files: the mesh file and its companions.
    """
    found: dict[str, Material] = {}
    has_all = True
    for name in dict.fromkeys(names):
        data = files.take(name)
        if data is None:
            has_all = False
            warn(files.path, f"{absent(name)} It is left out.")
        else:
            found |= read_materials(decoded(data), files.path)
    lost = [name for name in used if name and name not in found]
    if lost and names and has_all:
        warn(files.path, f"its material '{lost[0][:60]}' is in none of its MTL files.")
    return found


class Skins:
    """Materials put on meshes; each image is read once."""

    def __init__(self, files: Companions) -> None:
        self._files = files
        self._images: dict[str, Any] = {}
        self._others: list[str] = []
        self._told: set[str] = set()

    def put_on(self, part: Solid, material: Material | None) -> Solid:
        """Return a mesh with a material, if it has one; warn of what is not drawn."""
        if material is None:
            return replace(part, uvs=None)
        self._others += material.others
        if material.is_clear:
            self._warn("has materials that let light through. They are drawn opaque.")
        if material.moves:
            self._warn(f"its pictures are drawn without '{material.moves}', which is not known.")
        image = self._image(material.image) if material.image else None
        if image is not None and part.uvs is None:
            self._warn(f"its image '{material.image}' is left out: faces that it is for have no texture coordinates.")  # fmt: skip
            image = None
        paint = part.paint
        if paint is not None and material.color and (paint == 255).all():
            paint = None  # as some programs write where nothing is painted
        uvs = None if image is None else part.uvs
        return replace(part, uvs=uvs, image=image, paint=paint, color=material.color)

    def warn_of_others(self) -> None:
        """Warn of images that are for anything but colour."""
        if names := [*dict.fromkeys(self._others)]:
            self._warn(unused(names))

    def _image(self, name: str) -> Any:
        if name not in self._images:
            self._images[name] = self._files.image(name)
        return self._images[name]

    def _warn(self, flaw: str) -> None:
        if flaw not in self._told:
            self._told.add(flaw)
            warn(self._files.path, flaw)
