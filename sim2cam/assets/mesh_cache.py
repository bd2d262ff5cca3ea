"""What a mesh file holds, in our form, and how the cache keeps it."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from sim2cam.scene.articulation import Articulation, JointStates
from sim2cam.surfaces.mesh import Mesh

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MeshContent:
    """What a file holds, with all joints at 0.

    Attributes:
        mesh: in metres; uvs within 0 to 1 with a picture, in metres without.
        colors: its picture, or one that holds the colours of its vertices, sRGB uint8 (h, w, 3), row
            0 at v = 0; None when there is neither.
        is_closed: whether it is the skin of a solid.
        parts: corners (n, 3) of the convex solids as which it collides, in the frames of their links;
            none when it does as its hull.
        links: (k,) number of the link of each of them, from 1.
        articulation: its links and joints; None of a mesh.
        inertias: (m, 4, 4) of each link's mass, as ``geometry.masses`` has them, in its own frame; none
            where the file does not say.
    """

    mesh: Mesh
    colors: NDArray[np.uint8] | None
    is_closed: bool
    parts: tuple[Floats, ...] = ()
    links: tuple[int, ...] = ()
    articulation: Articulation | None = None
    inertias: Floats = field(default_factory=lambda: np.zeros((0, 4, 4)))

    def compute_volume(self) -> float:
        """Return the volume of a solid, in its unit cubed."""
        a, b, c = self.mesh.vertices_m[self.mesh.faces].swapaxes(0, 1)
        return float((a * np.cross(b, c)).sum() / 6)

    def scale(self, unit_m: float) -> MeshContent:
        """Return it with every length so many times as long."""
        uvs = self.mesh.uvs * unit_m if self.colors is None else self.mesh.uvs
        mesh = replace(self.mesh, vertices_m=self.mesh.vertices_m * unit_m, uvs=uvs)
        return replace(self, mesh=mesh, parts=tuple(part * unit_m for part in self.parts))

    def pose(self, states: JointStates) -> MeshContent:
        """Return it with its joints at these states."""
        if self.articulation is None or not states:
            return self
        before, after = (self.articulation.compute_link_matrices(at) for at in ((), states))
        moves = after @ np.linalg.inv(before)
        mesh, link = self.mesh, self.mesh.parts.astype(np.int64) - 1
        turned = {
            name: np.einsum("nij,nj->ni", moves[link, :3, :3], getattr(mesh, name))
            for name in ("vertices_m", "normals", "tangents")
        }
        turned["vertices_m"] += moves[link, :3, 3]
        return replace(self, mesh=replace(mesh, **turned))

    def pose_parts(self, states: JointStates) -> tuple[Floats, ...]:
        """Return the parts as which it collides with its joints at these states, in its own frame."""
        if self.articulation is None:
            return self.parts
        matrices = self.articulation.compute_link_matrices(states)[
            np.array(self.links, np.int64) - 1
        ]
        placed = zip(self.parts, matrices, strict=True)
        return tuple(part @ matrix[:3, :3].T + matrix[:3, 3] for part, matrix in placed)


def pack(content: MeshContent) -> bytes:
    """Return a content as a file of numpy's, for the cache."""
    mesh = {name: value for name, value in vars(content.mesh).items() if _is_array(value)}
    colors = {} if content.colors is None else {"colors": content.colors}
    file = io.BytesIO()
    parts = {f"part/{number:04d}": part for number, part in enumerate(content.parts)}
    articulation = np.frombuffer(_ARTICULATION.dump_json(content.articulation), np.uint8)
    np.savez(
        file, allow_pickle=False, is_closed=content.is_closed, links=np.array(content.links, np.int64),
        articulation=articulation, spreads=content.inertias, **mesh, **colors, **parts,
    )  # fmt: skip
    return file.getvalue()


def unpack(data: bytes | None) -> MeshContent | None:
    """Return the content of a file of the cache; None when there is none or it is damaged."""
    if data is None:
        return None
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            found = dict(file)
        is_closed, colors = bool(found.pop("is_closed")), found.pop("colors", None)
        parts = tuple(found.pop(name) for name in sorted(found) if name.startswith("part/"))
        links, spreads = tuple(found.pop("links").tolist()), found.pop("spreads")
        articulation = _ARTICULATION.validate_json(found.pop("articulation").tobytes())
        return MeshContent(Mesh(**found), colors, is_closed, parts, links, articulation, spreads)
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile):
        return None


_ARTICULATION: TypeAdapter[Articulation | None] = TypeAdapter(Articulation | None)


def _is_array(value: object) -> bool:
    return isinstance(value, np.ndarray)
