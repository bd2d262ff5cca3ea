"""Goal without posts: crossbar, base with boards, and net."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sim2cam.geometry.poses import Pose, Vec3, vec3
from sim2cam.objects.primitives import Cuboid
from sim2cam.objects.solid import ConvexPart, Solid
from sim2cam.scene.parameters import check_sizes
from sim2cam.surfaces.mesh import Mesh, join_meshes, make_patch

Floats = NDArray[np.float64]

_BOARD_M = 0.02
_TOP_SHARE = 0.35  # depth at the top over that at the ground
_MAX_STRANDS = 200


@dataclass(frozen=True)
class GoalFrame(Solid):
    """A goal without its posts: opening in the plane x = 0, towards -x; the ground is z = 0.

    Attributes:
        width_m, height_m: Inner size of the opening.
        depth_m: Depth at the ground.
        bar_m: Side of the square crossbar.
        board_m: Height of the boards around the base.
        mesh_m: Distance of the strands of the net.
        strand_m: Width of a strand.
    """

    is_closed: ClassVar[bool] = False
    is_compound: ClassVar[bool] = True

    width_m: float
    height_m: float
    depth_m: float
    bar_m: float
    board_m: float
    mesh_m: float
    strand_m: float
    kind: Literal["goal_frame"] = "goal_frame"

    def __post_init__(self) -> None:
        check_sizes(
            self, "width_m", "height_m", "depth_m", "bar_m", "board_m", "mesh_m", "strand_m"
        )

    @property
    def size_m(self) -> Vec3:
        """Sides of the bounding box."""
        low, high = self.bounds_m
        return vec3(np.subtract(high, low))

    @property
    def center_m(self) -> Vec3:
        """Centre of the bounding box."""
        return vec3(np.mean(self.bounds_m, axis=0))

    @property
    def bounds_m(self) -> tuple[Vec3, Vec3]:
        """Opposite corners of the bounding box."""
        half = self.width_m / 2 + self.bar_m
        return (0.0, -half, 0.0), (self.depth_m + self.bar_m, half, self.height_m + self.bar_m)

    def build_collider(self) -> tuple[ConvexPart, ...]:
        """Return crossbar and boards; the net does not collide."""
        return tuple(
            ConvexPart("box", size, Pose(position_m=position))
            for size, position in self._list_bars()
        )

    def build_mesh(self) -> Mesh:
        """Return the mesh; its parts are the bars, and then the strands of the net."""
        bars = []
        for size, position in self._list_bars():
            bar = Cuboid(size).build_mesh()
            bars.append(
                Mesh(
                    bar.vertices_m + position,
                    bar.normals,
                    bar.tangents,
                    bar.uvs,
                    bar.faces,
                    bar.parts,
                )
            )
        net = join_meshes(
            [_build_strand(start, end, self.strand_m) for start, end in self._list_strands()]
        )
        mesh = join_meshes([*bars, net])
        solid_faces = sum(len(bar.faces) for bar in bars)
        return Mesh(
            mesh.vertices_m, mesh.normals, mesh.tangents, mesh.uvs, mesh.faces, mesh.parts,
            mesh.faces[:solid_faces],
        )  # fmt: skip

    def _list_bars(self) -> list[tuple[Vec3, Vec3]]:
        """Return size and centre of crossbar, base and side boards."""
        bar, depth, outer = self.bar_m, self.depth_m, self.width_m + 2 * self.bar_m
        board, across = self.board_m, outer / 2 - _BOARD_M / 2
        sides: list[tuple[Vec3, Vec3]] = [
            ((depth, _BOARD_M, board), (bar + depth / 2, sign * across, board / 2))
            for sign in (-1.0, 1.0)
        ]
        return [
            ((bar, self.width_m, bar), (bar / 2, 0.0, self.height_m + bar / 2)),
            ((_BOARD_M, outer, board), (bar + depth - _BOARD_M / 2, 0.0, board / 2)),
            *sides,
        ]

    def _list_strands(self) -> list[tuple[Floats, Floats]]:
        """Return the ends of the strands of the net: back, top and both sides."""
        bar, half, top = self.bar_m, self.width_m / 2 + self.bar_m, self.height_m + self.bar_m
        low_x, high_x = bar + self.depth_m, bar + _TOP_SHARE * self.depth_m

        def back_x(z: float) -> float:
            return low_x + (high_x - low_x) * z / top

        strands = []
        for y in _spread(-half, half, self.mesh_m):
            strands.append(((low_x, y, 0.0), (high_x, y, top)))
            strands.append(((bar, y, top), (high_x, y, top)))
        for z in _spread(0.0, top, self.mesh_m):
            strands.append(((back_x(z), -half, z), (back_x(z), half, z)))
            strands += [((bar, y, z), (back_x(z), y, z)) for y in (-half, half)]
        for x in _spread(bar, low_x, self.mesh_m):
            height = top if x <= high_x else top * (low_x - x) / (low_x - high_x)
            if height > self.mesh_m:
                strands += [((x, y, 0.0), (x, y, height)) for y in (-half, half)]
        for x in _spread(bar, high_x, self.mesh_m):
            strands.append(((x, -half, top), (x, half, top)))
        return [(np.array(start), np.array(end)) for start, end in strands]


def _spread(low: float, high: float, step: float) -> list[float]:
    """Return positions from ``low`` to ``high`` at about this distance."""
    count = min(_MAX_STRANDS, max(1, round((high - low) / step)))
    return [float(position) for position in np.linspace(low, high, count + 1)]


def _build_strand(start: Floats, end: Floats, width_m: float) -> Mesh:
    """Return two crossed ribbons, which are visible from all sides."""
    along = (end - start) / np.linalg.norm(end - start)
    side = np.cross(along, np.eye(3)[int(np.abs(along).argmin())])
    side /= np.linalg.norm(side)
    ribbons = []
    for across in (side, np.cross(along, side)):
        offset = across * width_m / 2
        points = np.array([start - offset, end - offset, end + offset, start + offset])
        normal = np.cross(along, across)
        ribbons.append(make_patch(points, normal, along, across, [[0, 1, 2], [0, 2, 3]]))
    return join_meshes(ribbons)
