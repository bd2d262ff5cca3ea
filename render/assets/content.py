"""What a mesh file holds, in our form, and how the cache keeps it."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sim2cam.render.shapes.surface import Mesh

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MeshContent:
    """What a file holds.

    Attributes:
        mesh: in metres; uvs within 0 to 1 with a picture, in metres without.
        colors: its picture, or one that holds the colours of its vertices, sRGB uint8 (h, w, 3), row
            0 at v = 0; None when there is neither.
        is_closed: whether it is the skin of a solid.
        parts: corners (n, 3) of the convex solids as which it collides; none when it does as its
            hull.
    """

    mesh: Mesh
    colors: NDArray[np.uint8] | None
    is_closed: bool
    parts: tuple[Floats, ...] = ()

    def volume(self) -> float:
        """Returns the volume of a solid, in its unit cubed."""
        a, b, c = self.mesh.vertices_m[self.mesh.faces].swapaxes(0, 1)
        return float((a * np.cross(b, c)).sum() / 6)

    def scaled(self, unit_m: float) -> MeshContent:
        """Returns it with every length so many times as long."""
        uvs = self.mesh.uvs * unit_m if self.colors is None else self.mesh.uvs
        mesh = replace(self.mesh, vertices_m=self.mesh.vertices_m * unit_m, uvs=uvs)
        return replace(self, mesh=mesh, parts=tuple(part * unit_m for part in self.parts))


def packed(content: MeshContent) -> bytes:
    """Returns a content as a file of numpy's, for the cache."""
    mesh = {name: value for name, value in vars(content.mesh).items() if _is_array(value)}
    colors = {} if content.colors is None else {"colors": content.colors}
    file = io.BytesIO()
    parts = {f"part/{number:03d}": part for number, part in enumerate(content.parts)}
    np.savez(file, allow_pickle=False, is_closed=content.is_closed, **mesh, **colors, **parts)
    return file.getvalue()


def unpacked(data: bytes | None) -> MeshContent | None:
    """Returns the content of a file of the cache; None when there is none or it is damaged."""
    if data is None:
        return None
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            found = dict(file)
        is_closed, colors = bool(found.pop("is_closed")), found.pop("colors", None)
        parts = tuple(found.pop(name) for name in sorted(found) if name.startswith("part/"))
        return MeshContent(Mesh(**found), colors, is_closed, parts)
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile):
        return None


def _is_array(value: object) -> bool:
    return isinstance(value, np.ndarray)
