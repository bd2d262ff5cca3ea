"""Approximate convex decomposition of meshes for collision.

Uses CoACD (Wei et al. 2022, "Approximate convex decomposition for 3D meshes with collision-aware
concavity and tree search") if installed, else Bullet's V-HACD.
"""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sim2cam.engines.silence import silent_output

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Decomposer = Literal["coacd", "vhacd"]

MAX_PARTS = 32

_COACD_THRESHOLD = 0.05
_VHACD_VOXELS = 100_000
_VHACD_CONCAVITY = 0.001
_PART_VERTICES = 32


def get_decomposer() -> Decomposer:
    """Return the name of the decomposition library to use."""
    return "coacd" if importlib.util.find_spec("coacd") else "vhacd"


def decompose(vertices: Floats, faces: Indices, hull_points: Floats) -> tuple[Floats, ...]:
    """Decompose a mesh into convex parts whose joint hull equals the mesh's hull.

    The parts therefore rest on a plane like the mesh itself.

    Args:
        vertices: Welded vertices (n, 3).
        faces: Vertex indices (m, 3).
        hull_points: Vertices (k, 3) of the mesh's hull.

    Returns:
        Vertices (n, 3) of each part; empty if there is only one part, or more than ``MAX_PARTS``.
    """
    from scipy.spatial import ConvexHull

    size = float(np.ptp(vertices, axis=0).max())
    run_decomposition = _run_coacd if get_decomposer() == "coacd" else _run_vhacd
    parts = [part * size for part in run_decomposition(vertices / size, faces)]
    if not 1 < len(parts) <= MAX_PARTS:
        return ()
    planes = ConvexHull(hull_points).equations
    distances = [((hull_points[:, None] - part) ** 2).sum(axis=2).min(axis=1) for part in parts]
    nearest = np.argmin(distances, axis=0)
    extended_parts = [np.vstack([part, hull_points[nearest == i]]) for i, part in enumerate(parts)]
    return tuple(_shrink_inside(part, planes) for part in extended_parts)


def format_parts_obj(parts: Sequence[Floats]) -> str:
    """Format convex parts, given by their vertices (n, 3), as OBJ with one object each."""
    from scipy.spatial import ConvexHull

    lines, first = [], 0
    for number, part in enumerate(parts):
        faces = ConvexHull(part).simplices
        lines += [f"o {number}\n", _format_obj(part, faces + first)]
        first += len(part)
    return "".join(lines)


def _shrink_inside(points: Floats, planes: Floats) -> Floats:
    """Move points beyond any of the planes (k, 4) towards their centre, onto the plane."""
    center = points.mean(axis=0)
    center_distance = planes[:, :3] @ center + planes[:, 3]  # negative inside
    distances = points @ planes[:, :3].T + planes[:, 3]
    scale = np.where(
        distances > 0,
        center_distance / np.where(distances > 0, center_distance - distances, 1),
        1.0,
    ).min(axis=1)
    return np.asarray(center + (points - center) * scale.clip(0, 1)[:, None])


def _run_coacd(vertices: Floats, faces: Indices) -> list[Floats]:
    import coacd

    coacd.set_log_level("error")
    mesh = coacd.Mesh(vertices, faces)
    parts = coacd.run_coacd(
        mesh, threshold=_COACD_THRESHOLD, max_convex_hull=MAX_PARTS, max_ch_vertex=_PART_VERTICES,
        mcts_iterations=60, mcts_max_depth=2, seed=0,
    )  # fmt: skip
    return [np.asarray(points, np.float64) for points, _ in parts]


def _run_vhacd(vertices: Floats, faces: Indices) -> list[Floats]:
    with silent_output():
        import pybullet

    with tempfile.TemporaryDirectory() as folder:
        input_path, output_path = Path(folder, "whole.obj"), Path(folder, "parts.obj")
        input_path.write_text(_format_obj(vertices, faces))
        with silent_output():
            pybullet.vhacd(
                str(input_path), str(output_path), str(Path(folder, "log")), resolution=_VHACD_VOXELS,
                concavity=_VHACD_CONCAVITY, maxNumVerticesPerCH=_PART_VERTICES,
            )  # fmt: skip
        return _parse_vertices(output_path.read_text()) if output_path.is_file() else []


def _format_obj(vertices: Floats, faces: Indices) -> str:
    vertex_lines = "".join(f"v {x:.9g} {y:.9g} {z:.9g}\n" for x, y, z in vertices)
    return vertex_lines + "".join(f"f {a} {b} {c}\n" for a, b, c in faces + 1)


def _parse_vertices(text: str) -> list[Floats]:
    """Return the vertices (n, 3) of each object of an OBJ file."""
    objects: list[list[list[float]]] = []
    for line in text.splitlines():
        if line.startswith("o "):
            objects.append([])
        elif line.startswith("v "):
            objects[-1].append([float(word) for word in line.split()[1:4]])
    return [np.array(vertices) for vertices in objects if len(vertices) > 3]
