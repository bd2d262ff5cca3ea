"""Content of a mesh file, and its serialization in the cache."""

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
    """Content of a mesh or model file, with all joints at 0.

    Attributes:
        mesh: Mesh in metres; uvs in 0 to 1 with a texture, in metres without.
        colors: Texture, or vertex colours as one: sRGB uint8 (h, w, 3), row 0 at v = 0; None without
            colours.
        is_closed: Whether the mesh is watertight.
        parts: Vertices (n, 3) of convex collision parts in their link frames; empty to use the hull.
        links: Link number (from 1) of each part.
        articulation: Links and joints; None for a mesh.
        inertias: Pseudo-inertia matrices (m, 4, 4) of the links in their own frames, see
            ``geometry.inertia``; empty if the file gives none.
    """

    mesh: Mesh
    colors: NDArray[np.uint8] | None
    is_closed: bool
    parts: tuple[Floats, ...] = ()
    links: tuple[int, ...] = ()
    articulation: Articulation | None = None
    inertias: Floats = field(default_factory=lambda: np.zeros((0, 4, 4)))

    def compute_volume(self) -> float:
        """Return the signed volume of a closed mesh."""
        a, b, c = self.mesh.vertices_m[self.mesh.faces].swapaxes(0, 1)
        return float((a * np.cross(b, c)).sum() / 6)

    def scale(self, unit_m: float) -> MeshContent:
        """Return the content with all lengths multiplied by ``unit_m``."""
        uvs = self.mesh.uvs * unit_m if self.colors is None else self.mesh.uvs
        mesh = replace(self.mesh, vertices_m=self.mesh.vertices_m * unit_m, uvs=uvs)
        return replace(self, mesh=mesh, parts=tuple(part * unit_m for part in self.parts))

    def pose(self, states: JointStates) -> MeshContent:
        """Return the content at joint states."""
        if self.articulation is None or not states:
            return self
        rest_matrices, posed_matrices = (
            self.articulation.compute_link_matrices(s) for s in ((), states)
        )
        transforms = posed_matrices @ np.linalg.inv(rest_matrices)
        mesh, link = self.mesh, self.mesh.parts.astype(np.int64) - 1
        vectors = {
            name: np.einsum("nij,nj->ni", transforms[link, :3, :3], getattr(mesh, name))
            for name in ("vertices_m", "normals", "tangents")
        }
        vectors["vertices_m"] += transforms[link, :3, 3]
        return replace(self, mesh=replace(mesh, **vectors))

    def pose_parts(self, states: JointStates) -> tuple[Floats, ...]:
        """Return the collision parts at joint states, in the asset frame."""
        if self.articulation is None:
            return self.parts
        matrices = self.articulation.compute_link_matrices(states)[
            np.array(self.links, np.int64) - 1
        ]
        placed = zip(self.parts, matrices, strict=True)
        return tuple(part @ matrix[:3, :3].T + matrix[:3, 3] for part, matrix in placed)


def pack(content: MeshContent) -> bytes:
    """Serialize a content as NPZ bytes."""
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
    """Deserialize NPZ bytes; return None if they are missing or damaged."""
    if data is None:
        return None
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            arrays = dict(file)
        is_closed, colors = bool(arrays.pop("is_closed")), arrays.pop("colors", None)
        parts = tuple(arrays.pop(name) for name in sorted(arrays) if name.startswith("part/"))
        links, inertias = tuple(arrays.pop("links").tolist()), arrays.pop("spreads")
        articulation = _ARTICULATION.validate_json(arrays.pop("articulation").tobytes())
        return MeshContent(Mesh(**arrays), colors, is_closed, parts, links, articulation, inertias)
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile):
        return None


_ARTICULATION: TypeAdapter[Articulation | None] = TypeAdapter(Articulation | None)


def _is_array(value: object) -> bool:
    return isinstance(value, np.ndarray)
