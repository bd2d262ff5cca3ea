"""Lines of a soccer field."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sim2cam.geometry.poses import Vec3
from sim2cam.objects.solid import ConvexPart, Solid
from sim2cam.scene.parameters import check_sizes
from sim2cam.surfaces.mesh import Mesh, join_meshes, make_grid_faces, make_patch

Floats = NDArray[np.float64]

_CIRCLE_SEGMENTS = 72
_NO_FACES = np.zeros((0, 3), np.int64)


@dataclass(frozen=True)
class FieldLines(Solid):
    """Lines painted on the ground, without thickness: the plane z = 0, centred on the origin.

    They neither collide nor cast shadows.

    Attributes:
        length_m, width_m: Sides of the field along x and y, between the outer edges of the lines.
        line_m: Width of the lines.
        circle_m: Radius of the centre circle.
        areas_m: Depth and width of the areas before each goal.
        corner_m: Radius of the corner arcs.
    """

    is_closed: ClassVar[bool] = False
    is_compound: ClassVar[bool] = True

    length_m: float
    width_m: float
    line_m: float
    circle_m: float
    areas_m: tuple[tuple[float, float], ...]
    corner_m: float
    kind: Literal["field_lines"] = "field_lines"

    def __post_init__(self) -> None:
        check_sizes(self, "length_m", "width_m", "line_m", "circle_m", "corner_m")

    @property
    def size_m(self) -> Vec3:
        """Sides of the bounding box."""
        return self.length_m, self.width_m, 0.0

    def build_collider(self) -> tuple[ConvexPart, ...]:
        """Return nothing."""
        return ()

    def build_mesh(self) -> Mesh:
        """Return the mesh; its parts are the lines."""
        length, width, line = self.length_m, self.width_m, self.line_m
        lines = [*_build_frame((-length / 2, -width / 2, length / 2, width / 2), line)]
        lines.append(_build_rectangle((-line / 2, -width / 2, line / 2, width / 2)))
        for depth, across in self.areas_m:
            for side in (-1, 1):
                near, far = sorted((side * length / 2, side * (length / 2 - depth)))
                lines += _build_frame((near, -across / 2, far, across / 2), line)
        lines.append(_build_arc((0.0, 0.0), self.circle_m, line, (0.0, 2 * math.pi)))
        lines.append(_build_arc((0.0, 0.0), line / 2, line, (0.0, 2 * math.pi)))
        for quadrant in range(4):
            start = math.pi / 2 * quadrant
            x, y = (-math.copysign(side / 2, f(start + math.pi / 4)) for side, f in
                    ((length, math.cos), (width, math.sin)))  # fmt: skip
            lines.append(_build_arc((x, y), self.corner_m, line, (start, start + math.pi / 2)))
        mesh = join_meshes(lines)
        return Mesh(
            mesh.vertices_m,
            mesh.normals,
            mesh.tangents,
            mesh.uvs,
            mesh.faces,
            mesh.parts,
            _NO_FACES,
        )


def _build_frame(corners: tuple[float, float, float, float], line_m: float) -> Sequence[Mesh]:
    """Return the four lines within a rectangle (x0, y0, x1, y1)."""
    x0, y0, x1, y1 = corners
    rectangles = (
        (x0, y0, x1, y0 + line_m),
        (x0, y1 - line_m, x1, y1),
        (x0, y0 + line_m, x0 + line_m, y1 - line_m),
        (x1 - line_m, y0 + line_m, x1, y1 - line_m),
    )
    return [_build_rectangle(rectangle) for rectangle in rectangles]


def _build_rectangle(corners: tuple[float, float, float, float]) -> Mesh:
    x0, y0, x1, y1 = corners
    points = np.array([[x0, y0, 0.0], [x1, y0, 0.0], [x1, y1, 0.0], [x0, y1, 0.0]])
    x, y, z = np.eye(3)
    return make_patch(points, z, x, y, [[0, 1, 2], [0, 2, 3]])


def _build_arc(
    center: tuple[float, float], radius_m: float, line_m: float, span_rad: tuple[float, float]
) -> Mesh:
    """Return an arc with this outer radius."""
    angles = np.linspace(*span_rad, _CIRCLE_SEGMENTS + 1)
    ring = np.stack([np.cos(angles), np.sin(angles), 0 * angles], axis=1)
    inner, outer = (radius * ring + [*center, 0.0] for radius in (radius_m - line_m, radius_m))
    x, y, z = np.eye(3)
    faces = make_grid_faces(2, len(angles))
    return make_patch(np.vstack([outer, inner]), z, x, y, faces)
